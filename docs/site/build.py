"""Makes the documentation site: `python docs/site/build.py OUT`. A warning is an error.

The pages are those of docs/ and of the repository's root, and one per suite from docs/reproduction.json. docs/index.md
lists every page under headings, which are also the site's navigation. A link to another page stays a link; a link to
any other file leads to the repository.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

import run_here
from sphinx.cmd.build import build_main

from ccarena.core.learned_schemes import shipped_policies
from ccarena.errors import MissingDependencyError
from ccarena.eval.reproduce import again, pages, policy, runs, suite
from ccarena.pages.blocks import Drawn
from ccarena.pages.runnable import Runnable, files_of, simulator
from ccarena.play import write

SITE = Path(__file__).parent
ROOT = SITE.parents[1]
REPOSITORY = "https://github.com/ccarena/ccarena/blob/main/"
AT_THE_ROOT = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
"""Files at the root, and the names under which they are pages."""
_LINK = re.compile(r"\]\((?P<target>[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")


def stage(folder: Path) -> None:
    """Writes to `folder` what Sphinx reads."""
    docs = ROOT / "docs"
    for page in docs.glob("*.md"):
        (folder / page.name).write_text(linked(page.read_text("utf-8"), docs), "utf-8")
    (folder / "reproduction").mkdir()
    for name, text in pages.site(docs / "reproduction.md", suite.shipped(), runs_of).items():
        (folder / name).write_text(text, "utf-8")
    for source, name in AT_THE_ROOT.items():
        (folder / name).write_text(linked((ROOT / source).read_text("utf-8"), ROOT), "utf-8")
    index = folder / "index.md"
    index.write_text(index.read_text("utf-8") + navigation(index.read_text("utf-8"), folder), "utf-8")
    shutil.copytree(docs / "images", folder / "images")
    shutil.copy(SITE / "conf.py", folder)
    run_here.write_scripts(folder / "static")


def runs_of(name: str) -> str:
    """Returns the block of a suite's page in which a reader runs its cells, with shipped policies; empty if a browser
    cannot.
    """
    if not simulator():
        return ""
    loaded = suite.load(name)
    needed, shipped = loaded.suite.policies, shipped_policies()
    if not shipped.keys() >= set(needed):
        return ""
    policies = policy.given([str(shipped[name]) for name in needed]) if needed else {}
    block = again.again(runs.expand(loaded, seeds=1, policies=policies))
    # The site passes no recorded trace on.
    kept = [run for run in block.runs if not run.licences] if block is not None else []
    if not kept:
        return ""
    drawn = Drawn()
    found = Runnable(kept).html(drawn) + files_of(drawn)
    return f"## Run it here\n\n{again.LEAD} {_STORED.format(name=name)}\n\n```{{raw}} html\n{found}\n```\n"


def linked(text: str, here: Path) -> str:
    """Returns `text`, a page whose links are relative to `here`, with links relative to `docs`."""

    def moved(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        path = (here / target).resolve()
        if not target or "://" in target or not path.is_relative_to(ROOT):
            return match[0]
        inside = path.relative_to(ROOT)
        if inside.as_posix() in AT_THE_ROOT:
            path = ROOT / "docs" / AT_THE_ROOT[inside.as_posix()]
        elif inside.parts[0] != "docs" or path.suffix not in (".md", ".png", ".svg"):
            return f"]({REPOSITORY}{inside.as_posix()}{anchor})"
        return f"]({path.relative_to(ROOT / 'docs').as_posix()}{anchor})"

    return _LINK.sub(moved, text)


def navigation(index: str, folder: Path) -> str:
    """Returns a hidden table of contents per heading of the index: the pages that its tables link first."""
    parts = []
    for section in re.split(r"^## ", index, flags=re.M)[1:]:
        title, _, body = section.partition("\n")
        pages = re.findall(r"^\| \[([^\]]+)\]\(([^)]+)\.md\)", body, flags=re.M)
        lines = [f"{name} <{target}>" for name, target in pages]
        parts.append("\n".join([_HEAD.format(title.strip()), *lines, "```"]))
    suites = sorted(f"reproduction/{path.stem}" for path in (folder / "reproduction").glob("*.md"))
    parts.append("\n".join([_HEAD.format("Suites of the papers"), *suites, "```"]))
    return "\n\n".join(["", *parts]) + "\n"


# docs/reproduction.json holds values of claims, not rows of runs.
_STORED = (
    "Its figures are of one run. The values above are medians of seeds, many of them over several cells, so there "
)
_STORED += (
    "are none to compare with. The page that `ccarena reproduce {name}` writes compares each run with its own figures."
)
_HEAD = "```{{toctree}}\n:hidden:\n:caption: {}\n"


def main() -> int:
    """Builds the site and returns Sphinx's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder of the site; what is in it is replaced")
    out = parser.parse_args().out.resolve()
    with tempfile.TemporaryDirectory(prefix="ccarena-site-") as scratch:
        source = Path(scratch, "source")
        source.mkdir()
        stage(source)
        shutil.rmtree(out, ignore_errors=True)
        if not simulator():
            print("the site gets no buttons that run scenarios: `make web` builds what they need", file=sys.stderr)
        # Every warning is shown, and any fails the build.
        words = ["-b", "html", "-W", "--keep-going", "-q", "-d", f"{scratch}/doctrees", str(source), str(out)]
        return build_main(words) or played(out) or fetched(out)


def played(out: Path) -> int:
    """Puts the arena's page into the site, where docs/play.md says that it is. Returns 0."""
    try:
        write(out / "arena.html")
    except MissingDependencyError as error:
        print(f"NOT IN THE SITE: arena.html: {error}", file=sys.stderr)
    return 0


def fetched(out: Path) -> int:
    """Returns 1 and names the page if one in `out` would fetch something from elsewhere; else 0."""
    found = 0
    for page in sorted(out.rglob("*.html")):
        tags = re.findall(r"<(?:link|script|img|iframe|source)\b[^>]*>", page.read_text("utf-8"))
        for tag in tags:
            if re.search(r"""(?:src|href)=["'](?:https?:)?//""", tag):
                print(
                    f"{page.relative_to(out)}: {tag}: expected nothing that is fetched from elsewhere", file=sys.stderr
                )
                found = 1
    return found


if __name__ == "__main__":
    sys.exit(main())
