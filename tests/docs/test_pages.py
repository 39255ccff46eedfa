"""The pages of the repository: links lead somewhere, paths exist, figures that were measured are not typed by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = [path for folder in ("ccarena", "crates", "fuzz") for path in sorted((ROOT / folder).rglob("*.md"))]
OTHERS = [path for path in OTHERS if "node_modules" not in path.parts]
MOST = 56
HISTORY = "CHANGELOG.md"
LONGEST_RELEASE = 80
"""Lines of a release in the changelog, which a user reads in two minutes."""

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
CODE = re.compile(r"^```.*?^```$|`(?:[^`\n]|\n(?!\n))*`", flags=re.S | re.M)
GENERATED = re.compile(r"<!-- Generated .*|<!-- measured:.*?<!-- /measured -->", flags=re.S)
IN_THE_REPOSITORY = re.compile(r"`((?:ccarena|crates|docs|tests|examples|bench|fuzz)/[\w./-]*)`")
ENVIRONMENT = re.compile(r"ccarena/\w+-v\d+")
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b(?!\.md)|/\*")

MEASURED = {
    r"\[[−+-]?\d[\d.]*, [−+-]?\d[\d.]*\]": "a confidence interval",
    r"[+−]\d[\d.]* ?%|\d ?% (?:more|less|better|worse|faster|slower)": "a difference",
    r"\d\.\d+ ?×|\d[\d.]* times (?:as|the)\b": "a factor",
    r"\d ?[kM]? ?(?:packets|steps|decisions|runs)(?:/s| per second)": "a speed",
    r"(?:(?<![\d.])\d+\.\d\d+(?![\d.]).*){3}": "a row of results",
}
"""Forms that a measured figure takes, and only a measured figure, outside code and generated parts."""
TYPED = {
    ("docs/fairness.md", "a row of results"): "computed by ccarena.eval.theory, whose tests hold the values",
}
"""Pages with a form of `MEASURED` whose figures nobody measured, and why."""


def prose(text: str) -> str:
    """Returns a page without code, comments and generated parts; line numbers stay."""

    def blank(match: re.Match[str]) -> str:
        return "``" + "\n" * match[0].count("\n")

    return GENERATED.sub(blank, CODE.sub(blank, LINK.sub("]()", text)))


def measured(text: str) -> list[tuple[int, str, str]]:
    """Returns line, form and words of every figure in a page that looks measured."""
    return [
        (number, form, match[0])
        for number, line in enumerate(prose(text).splitlines(), start=1)
        for pattern, form in MEASURED.items()
        for match in re.finditer(pattern, line)
    ]


def anchors(text: str) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub and the site make them."""
    heads = re.findall(r"^#+ (.*)$", CODE.sub(lambda code: code[0].replace("\n#", "\n"), text), flags=re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def named(pages: list[Path]) -> list[object]:
    """Each page as a parameter with its path as name."""
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages]


@pytest.mark.parametrize("page", named([*DOCS, *OTHERS]))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
        other = page.parent / target if target else page
        assert other.exists(), f"no file {target}"
        assert not anchor or anchor in anchors(other.read_text("utf-8")), f"no heading {target}#{anchor}"


@pytest.mark.parametrize("page", named([page for page in DOCS if page.name != HISTORY]))
def test_paths_exist(page: Path) -> None:
    paths = set(IN_THE_REPOSITORY.findall(page.read_text("utf-8")))
    paths -= {path for path in paths if PLACEHOLDER.search(path) or ENVIRONMENT.fullmatch(path)}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / target).resolve() for target, _ in LINK.findall(index.read_text("utf-8"))}
    assert listed == set(DOCS) - {index}


def test_there_are_few_pages() -> None:
    assert len([page for page in DOCS if page.parent != ROOT]) <= MOST, (
        "merge two pages, or build what repeats a results file with the site"
    )


def test_a_release_is_read_in_minutes() -> None:
    releases = (ROOT / HISTORY).read_text("utf-8").split("\n## ")[1:]
    long = [name for name, _, body in (text.partition("\n") for text in releases) if body.count("\n") > LONGEST_RELEASE]
    assert long == [], "say what there is; leave out states that nobody had"


@pytest.mark.parametrize("page", named([page for page in DOCS if page.name != HISTORY]))
def test_no_measured_figure_is_typed_by_hand(page: Path) -> None:
    name = str(page.relative_to(ROOT))
    found = [
        f"{name}:{line}: {words!r} looks like {form}"
        for line, form, words in measured(page.read_text("utf-8"))
        if (name, form) not in TYPED
    ]
    assert not found, (
        "\n".join(found)
        + "\nlink to docs/measurements.md, or put <!-- measured:NAME --><!-- /measured --> and run `make measurements`"
    )


SPEED = re.compile(r"#.*\b(?:minutes?|hours?|cores?)\b|# seconds?:")


def test_no_comment_of_a_configuration_or_of_the_first_page_says_how_long_a_machine_takes() -> None:
    files = [ROOT / "README.md", *sorted((ROOT / "ccarena" / "configs").glob("*.yaml"))]
    found = [f"{file.name}: {line}" for file in files for line in file.read_text("utf-8").splitlines()]
    assert [line for line in found if SPEED.search(line)] == []
    assert SPEED.search("# some sentence; about a minute on 2 cores") and SPEED.search("x   # seconds: who gets what")


def test_measured_figures_are_recognised() -> None:
    typed = (
        "gains 3 % [1.2, 4.0]; +0.7 %; 2 % less; 1.3 × CUBIC's; 2 times as fast; 34 M packets/s; 0.97 | 0.037 | 1.00"
    )
    assert {form for _, form, _ in measured(typed)} == set(MEASURED.values())
    defined = (
        "at most 1 % of 5 ms, `[1, 2]`, Python 3.10\n```\n2 times as fast\n```\n<!-- Generated -->\n2 times as fast"
    )
    assert measured(defined) == []


NAMES = (
    "configuration, spec, link distribution, result, router, learner, daemon, runtime, baseline rule, oracle, verdict, "
    "decision, state of a claim, entrant, figure, plot, page, report"
).split(", ")
"""Words that have had more than one meaning, or whose thing had more than one word."""


def test_the_glossary_defines_each_word_once_in_a_sentence() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    terms = re.findall(r"^\| \*\*(.+?)\*\*(?: \([^)]*\))? \| (.+) \|$", text, flags=re.M)
    words = [term for term, _ in terms]
    assert set(NAMES) <= set(words) and len(set(words)) == len(words)
    assert [term for term, meaning in terms if not re.fullmatch(r"[A-Z][^.]*(?:\.\w[^.]*)*\.", meaning)] == []
