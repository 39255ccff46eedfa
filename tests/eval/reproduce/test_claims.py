"""Values out of rows, and the forms of claims."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from ccarena.errors import ConfigError
from ccarena.eval.reproduce.checks import ClaimModel, Judged, held_against, judge, parse_claim
from ccarena.eval.reproduce.resamples import resamples
from ccarena.eval.reproduce.values import Names, Row, parse_value

NAMES = Names(
    {"scheme": ["a", "b"], "rate": ["10", "20"]},
    {"x": "run", "late_s": "run", "y": "flow", "times": "flow"},
)


def rows(seeds: int = 3) -> list[Row]:
    """x = 1, 2 for scheme a at rates 10, 20 and ten times that for b, plus 0.01 per seed; late_s is null for b."""
    out: list[Row] = []
    for s, scheme in enumerate(NAMES.axes["scheme"]):
        for r, rate in enumerate(NAMES.axes["rate"]):
            for seed in range(1, seeds + 1):
                x = (r + 1) * 10**s + 0.01 * seed
                flows = [{"name": f"f{k}", "y": x * (k + 1), "times": [x, x + k]} for k in range(2)]
                late = None if scheme == "b" else float(seed)
                cell = {"scheme": scheme, "rate": rate}
                out.append({"cell": cell, "seed": seed, "run": {"x": x, "late_s": late}, "flows": flows})
    return out


@pytest.mark.parametrize(
    "node",
    [
        {"value": "x", "where": {"scheme": "a"}, "along": "rate", "over": "mean"},
        {"value": "y", "along": ["flow", "scheme"], "where": {"rate": 10}},
        {"value": "times", "flow": "all", "where": {"scheme": "a"}, "pool": "rate", "over": "p90"},
        {"ratio": [{"value": "late_s", "where": {"scheme": "a", "rate": 20}}, 2]},
    ],
)
def test_a_drawn_sample_has_the_values_of_its_rows(node: Any) -> None:
    value = parse_value(node, NAMES, "value")
    for sample in resamples(rows(4)):
        drawn, listed = value(sample, {}), value(list(sample), {})
        assert (drawn.values, drawn.labels, drawn.scalar) == (listed.values, listed.labels, listed.scalar)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (3, [3]),
        ([1, 2.5], [1, 2.5]),
        ({"value": "x", "where": {"scheme": "a", "rate": 10}}, [1.02]),
        ({"value": "x", "where": {"scheme": "a", "rate": 10}, "over": "max"}, [1.03]),
        ({"value": "x", "where": {"scheme": "b"}, "along": "rate", "over": "mean"}, [10.02, 20.02]),
        ({"value": "x", "along": ["scheme", "rate"], "over": "min"}, [1.01, 2.01, 10.01, 20.01]),
        ({"value": "x", "where": {"scheme": ["a", "b"], "rate": 10}, "over": "sum"}, [3.06 + 30.06]),
        ({"value": "x", "where": {"scheme": "a"}, "pool": ["rate"], "over": "mean"}, [1.52]),
        ({"value": "y", "flow": "f1", "where": {"scheme": "a", "rate": 20}}, [4.04]),
        ({"value": "y", "flow": 0, "where": {"scheme": "a", "rate": 20}}, [2.02]),
        ({"value": "y", "along": "flow", "where": {"scheme": "a", "rate": 10}}, [1.02, 2.04]),
        ({"value": "y", "flow": "all", "where": {"scheme": "a", "rate": 10}, "over": "max"}, [2.06]),
        # Lists are pooled: 1.01, 1.01, 1.01, 2.01, 1.02, ...; index floor(0.5 * 12) = 6 of the sorted.
        ({"value": "times", "flow": "all", "where": {"scheme": "a", "rate": 10}, "over": "p50"}, [1.03]),
        ({"value": "late_s", "where": {"scheme": "b", "rate": 10}}, [math.inf]),
        ({"ratio": [{"value": "x", "where": {"scheme": "b"}, "along": "rate"}, 10.01]}, [10.02 / 10.01, 2]),
        ({"difference": [[5, 6], [1, 3]]}, [4, 3]),
        ({"product": [[5, 6], 2]}, [10, 12]),
        ({"max": [1, 5, 3]}, [5]),
        ({"max": [[1, 5], {"list": [3, 4]}]}, [3, 5]),
        ({"geometric_mean": [1, 8, 27]}, [6]),
        ({"geometric_mean": [[1, 5], [4, 20]]}, [2, 10]),
        ({"mean": {"value": "x", "where": {"scheme": "a"}, "along": "rate"}}, [1.52]),
        ({"abs": {"difference": [1, 3]}}, [2]),
        ({"percent": 0.5}, [50]),
        ({"list": [1, {"min": [4, 2]}]}, [1, 2]),
        # Each seed's own ratio: 1.01 / 10.01, 1.02 / 10.02 and 1.03 / 10.03.
        (
            {"by_seed": {"ratio": [{"value": "x", "where": {"scheme": s, "rate": 10}} for s in "ab"]}, "over": "max"},
            [1.03 / 10.03],
        ),
    ],
)
def test_values(node: Any, expected: list[float]) -> None:
    result = parse_value(node, NAMES, "m")(rows(), {})
    assert result.values == pytest.approx(expected)


def test_seeds_are_paired_and_one_that_a_scheme_lacks_is_left_out() -> None:
    node = {"by_seed": {"difference": [{"value": "x", "where": {"scheme": s, "rate": 10}} for s in "ab"]}}
    # The difference is -9 with every seed, however the seeds scatter both schemes.
    scattered = [{**row, "run": {"x": row["run"]["x"] + 100 * row["seed"]}} for row in rows(6)]
    missing = [row for row in scattered if row["seed"] != 6 or row["cell"]["scheme"] == "a"]
    value = parse_value(node, NAMES, "m")
    for sample in resamples(scattered):
        assert value(sample, {}).values == pytest.approx((-9,))
    assert value(scattered, {}).values == value(missing, {}).values == pytest.approx((-9,))
    assert math.isnan(value([], {}).values[0])


def test_a_cell_without_rows_is_not_a_number() -> None:
    few = [row for row in rows() if row["cell"]["rate"] == "10"]
    value = parse_value({"value": "x", "where": {"scheme": "a"}, "along": "rate"}, NAMES, "m")
    result = value(few, {})
    assert result.values[0] == pytest.approx(1.02) and math.isnan(result.values[1]) and result.labels == ("10", "20")


def test_the_interval_of_a_median_covers_it() -> None:
    value = parse_value({"value": "x", "where": {"scheme": "a", "rate": 10}}, NAMES, "m")
    assert np.isnan(value(rows(5), {}).intervals).all()
    # For 9 values: the 2nd and the 8th (P(fewer than 2 of 9 below) = 1.95 %, fewer than 3: 8.98 %).
    assert value(rows(9), {}).intervals[0] == pytest.approx((1.02, 1.08))
    rng, covered = np.random.default_rng(1), 0
    for _ in range(400):
        sample = [{**row, "run": {"x": x}} for row, x in zip(rows(20)[:20], rng.exponential(size=20), strict=True)]
        low, high = value(sample, {}).intervals[0]
        covered += low <= math.log(2) <= high
    assert covered / 400 == pytest.approx(0.96, abs=0.03)
    low, high = value(rows(2001), {}).intervals[0]  # 1001 ± 1.96 · √2001 / 2
    assert (low, high) == pytest.approx((1 + 0.01 * 957, 1 + 0.01 * 1045), abs=0.015)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("x", "m: 'x': expected a number"),
        ({"rato": [1, 2]}, "m: expected one of value, ratio"),
        ({"ratio": [1, 2, 3]}, "m.ratio: expected a list of two values"),
        ({"max": [1, {"value": "z"}]}, "m.max[1]: the axis scheme is not chosen"),
        ({"value": "z", "pool": ["scheme", "rate"]}, 'm.value: unknown measure "z"'),
        ({"value": "y", "pool": ["scheme", "rate"]}, "m.value: y is a flow's: add `flow"),
        ({"value": "x", "pool": ["scheme", "rate"], "over": "p"}, "m.over: 'p': expected one of"),
        ({"value": "x", "pool": ["scheme"], "where": {"rate": 30}}, 'm.where.rate: unknown value "30"'),
        ({"value": "x", "wher": {}}, 'm: unknown key "wher"; did you mean "where"?'),
    ],
)
def test_wrong_values_are_refused_with_their_path(node: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse_value(node, NAMES, "m")


def test_an_unknown_flow_is_named() -> None:
    value = parse_value({"value": "y", "flow": "f7", "pool": ["scheme", "rate"]}, NAMES, "m")
    with pytest.raises(ConfigError, match=r'm.flow: no flow "f7"; known: f0, f1'):
        value(rows(), {})


def judged_as(measured: Any, holds: Any, paper: Any = "text", **more: Any) -> Judged:
    if set(holds) & {"within", "within_absolute"}:
        more = {"read": "printed", "why": "A test's tolerance.", **more}
    model = ClaimModel(claim="c", paper=paper, measured=measured, holds=holds, **more)
    (claim,) = parse_claim(model, NAMES, "claims[0]")
    return judge(claim, rows())


@pytest.mark.parametrize(
    ("measured", "holds", "paper", "expected"),
    [
        (1.09, {"within": "10 %"}, 1, True),
        (1.11, {"within": "10 %"}, 1, False),
        (0.89, {"within": 0.1}, 1, False),
        ([1, 22], {"within": "10 %"}, [1.05, 20], True),
        ([1, 23], {"within": "10 %"}, [1.05, 20], False),
        ([1.9, 1.5], {"same_side_of": 1.7}, [2, 1.6], True),
        ([1.9, 1.8], {"same_side_of": 1.7}, [2, 1.6], False),
        (94.0, {"within_absolute": 0.5}, 94.4, True),
        (93.8, {"within_absolute": 0.5}, 94.4, False),
        ([3, 4], {"at_least": 3}, "t", True),
        ([3, 4], {"at_least": [3, 5]}, "t", False),
        (3, {"at_most": {"value": "x", "where": {"scheme": "b", "rate": 10}}}, "t", True),
        (30, {"at_most": {"value": "x", "where": {"scheme": "b", "rate": 10}}}, "t", False),
        ([2, 3], {"between": [2, 3]}, "t", True),
        ([2, 3.1], {"between": [2, 3]}, "t", False),
        ([1, 2, 2.5], {"order": "increasing", "by": "20 %"}, "t", True),
        ([1, 2, 2.3], {"order": "increasing", "by": "20 %"}, "t", False),
        ([3, 2, 1], {"order": "decreasing", "by": "30 %"}, "t", True),
        ([3, 2, 1.5], {"order": "decreasing", "by": "30 %"}, "t", False),
        ([9.6, 10.4], {"equal": "5 %"}, "t", True),
        ([9, 11], {"equal": "5 %"}, "t", False),
        ({"value": "x", "along": "scheme", "where": {"rate": 10}}, {"largest": "b"}, "t", True),
        ({"value": "x", "along": "scheme", "where": {"rate": 10}}, {"smallest": "b"}, "t", False),
        (3, {"all": [{"at_least": 1}, {"at_most": 2}]}, "t", False),
        (3, {"any": [{"at_least": 1}, {"at_most": 2}]}, "t", True),
        (3, {"not": {"at_most": 2}}, "t", True),
    ],
)
def test_forms_of_claims(measured: Any, holds: Any, paper: Any, expected: bool) -> None:
    assert judged_as(measured, holds, paper).state == ("holds" if expected else "does not hold")


@pytest.mark.parametrize(
    ("measured", "holds", "shown"),
    [
        (0.7965, {"at_least": 0.8}, "0.796"),
        (0.803, {"at_least": 0.8}, "0.80"),
        (0.79996, {"at_least": 0.8}, "0.79996"),
        ([1.004, 3.0], {"at_most": [1, 2]}, "1.004, 3.00"),
        (2.003, {"between": [1, 2]}, "2.003"),
        (2.003, {"all": [{"at_least": 1}, {"at_most": 2}]}, "2.003"),
    ],
)
def test_a_value_that_misses_its_limit_is_not_shown_as_the_limit(measured: Any, holds: Any, shown: str) -> None:
    assert judged_as(measured, holds).measured == shown


def test_direction_note_and_condition() -> None:
    judged = judged_as(2, {"within": "10 %"}, 3.5, direction={"at_least": 1}, note="why", differs_in="where", unit="s")
    assert (judged.state, judged.note, judged.differs_in) == ("differs", "why", "where")
    assert (judged.paper, judged.measured) == ("3.5 s", "2.00 s")
    assert judged_as(0.5, {"within": "10 %"}, 3.5, direction={"at_least": 1}).state == "does not hold"
    assert judged_as(3.5, {"within": "10 %"}, 3.5, note="why").note == ""


def test_what_never_happened_and_what_was_not_run() -> None:
    never = judged_as({"value": "late_s", "where": {"scheme": "b", "rate": 10}}, {"at_most": 5})
    assert (never.state, never.measured) == ("does not hold", "never")
    model = ClaimModel(
        claim="c",
        paper=[1, 2],
        measured={"value": "x", "where": {"scheme": "a"}, "along": "rate"},
        holds={"within": 0.1},
        read="printed",
    )
    (claim,) = parse_claim(model, NAMES, "claims[0]")
    few = [row for row in rows() if row["cell"]["rate"] == "20"]
    assert judge(claim, few).state == judge(claim, []).state == judge(claim, [], partial=True).state == "not tested"
    partial = judge(claim, few, partial=True)
    assert (partial.state, partial.measured) == ("holds", "20: 2.02")
    for limits, state in (([1, 3], "holds"), ([3, 1], "does not hold")):
        limited = model.model_copy(update={"holds": {"at_most": limits}, "read": None})
        (claim,) = parse_claim(limited, NAMES, "claims[0]")
        assert judge(claim, few, partial=True).state == state, "the limit of the cell that was run"


def test_for_each_and_all_of() -> None:
    model = ClaimModel(
        claim="x at ${rate}",
        paper=[1, 2],
        for_each={"rate": "all"},
        measured={"value": "x", "where": {"scheme": "a"}},
        holds={"within": 0.1},
        read="printed",
    )
    judged = [judge(claim, rows()) for claim in parse_claim(model, NAMES, "claims[0]")]
    assert [(v.claim, v.paper, v.state) for v in judged] == [("x at 10", "1", "holds"), ("x at 20", "2", "holds")]
    parts = [
        {"measured": 1, "holds": {"at_least": 1}},
        {"measured": 2, "paper": 3.0, "holds": {"within": 0.1}, "read": "printed"},
    ]
    both = ClaimModel.model_validate({"claim": "c", "paper": "t", "all_of": parts})
    (claim,) = parse_claim(both, NAMES, "claims[0]")
    assert (judge(claim, []).state, judge(claim, []).measured) == ("does not hold", "1.00; 2.00")
    with pytest.raises(ConfigError, match=r"claims\[0\]: expected `measured` and `holds`, or `all_of`"):
        parse_claim(ClaimModel(claim="c", paper="t"), NAMES, "claims[0]")
    with pytest.raises(ConfigError, match=r"claims\[0\].holds.within: needs a number"):
        judged_as(1, {"within": 0.1})


@pytest.mark.parametrize(
    ("measured", "paper", "more", "expected"),
    [
        # Without a direction both sides count.
        (7, 3, {}, ("does not hold", False)),
        (7, 3, {"better": "higher"}, ("holds", True)),
        (2.8, 3, {"better": "higher"}, ("holds", False)),
        (2.6, 3, {"better": "higher"}, ("does not hold", False)),
        (0.5, 2, {"better": "lower"}, ("holds", True)),
        (2.3, 2, {"better": "lower"}, ("does not hold", False)),
        # Every element has to reach the number, or with "up to" the best one.
        ([0.105, 0.2], 0.1, {"better": "lower"}, ("does not hold", False)),
        ([0.105, 0.2], 0.1, {"better": "lower", "up_to": True}, ("holds", False)),
        ([0.05, 0.2], 0.1, {"better": "lower", "up_to": True}, ("holds", True)),
        ([0.12, 0.2], 0.1, {"better": "lower", "up_to": True}, ("does not hold", False)),
        ([3, 4, 5], 5, {"better": "higher", "up_to": True}, ("holds", False)),
    ],
)
def test_statements_with_one_side(measured: Any, paper: Any, more: dict[str, Any], expected: Any) -> None:
    judged = judged_as(measured, {"within": "10 %"}, paper, note="n", **more)
    assert (judged.state, judged.more) == expected
    assert judged.note == ("" if expected == ("holds", False) else "n"), "what exceeds the paper keeps its reason"


def test_a_tolerance_says_how_the_papers_number_was_read() -> None:
    assert judged_as(1, {"within": "10 %"}, 1).required == "within 10 %, printed"
    assert judged_as(1, {"within": "20 %"}, 1, read="figure", better="lower").required == "at most 20 % above, figure"
    both = {"all": [{"at_least": 2}, {"order": "increasing", "by": "5 %"}]}
    assert judged_as([2, 3], both).required == "at least 2 and increasing by 5 %"
    for more, holds, paper, message in (
        ({"read": None}, {"within": "10 %"}, 1, "c: expected `read`, how the paper's number was read: printed, comp"),
        ({"why": ""}, {"within": "11 %"}, 1, "c.holds.within: 11 % is more than the 10 % of a number that is read as"),
        ({"why": ""}, {"within_absolute": 3}, [9, 20], "c.holds.within_absolute: 33.3 % is more than the 10 %"),
        ({"better": "higher"}, {"at_least": 1}, 1, "c.better: only `within` and `within_absolute` have two sides"),
        ({"read": "words"}, {"at_least": 1}, 1, "c.read: without `within` or `within_absolute` there is no tolerance"),
        ({"up_to": True}, {"within": "10 %"}, 1, "c.up_to: expected `better: higher` or `better: lower`"),
    ):
        fields = {"read": "printed"} if "within" in next(iter(holds)) else {}
        model = ClaimModel(claim="c", paper=paper, measured=1, holds=holds, **{**fields, **more})
        with pytest.raises(ConfigError, match=re.escape(message)):
            parse_claim(model, NAMES, "c")
    parts = {"claim": "c", "paper": 1, "all_of": [{"measured": 1, "holds": {"at_least": 1}}], "better": "higher"}
    with pytest.raises(ConfigError, match=r"c.better: with `all_of` each of its parts has its own"):
        parse_claim(ClaimModel.model_validate(parts), NAMES, "c")


def test_what_depends_on_the_seeds_that_were_drawn_cannot_be_told() -> None:
    """The median of 20 seeds that scatter about a limit, or are clear of it."""
    value = {"value": "x", "where": {"scheme": "a", "rate": 10}}
    (claim,) = parse_claim(ClaimModel(claim="c", paper="t", measured=value, holds={"at_least": 1}), NAMES, "c")
    weaker = ClaimModel(claim="c", paper="t", measured=value, holds={"at_least": 2}, direction={"at_least": 1})
    (figure,) = parse_claim(weaker, NAMES, "c")

    def around(centre: float) -> list[Row]:
        drawn = np.random.default_rng(4).normal(centre, 0.2, size=20)
        return [{**row, "run": {"x": x}} for row, x in zip(rows(20)[:20], drawn, strict=True)]

    states = [(judge(claim, around(c)).state, judge(figure, around(c)).state) for c in (0.7, 1.0, 1.3)]
    assert states == [("does not hold", "does not hold"), ("undecided", "undecided"), ("holds", "differs")]
    # Of two seeds every sample is known: a quarter of them is one seed twice.
    two = [{**row, "run": {"x": x}} for row, x in zip(rows(2)[:2], [0.9, 1.3], strict=True)]
    assert judge(claim, two).state == "undecided"
    assert judge(claim, two[1:]).state == "holds"


def test_a_claim_that_holds_or_differs_whichever_seeds_are_drawn_says_so() -> None:
    value = {"value": "x", "where": {"scheme": "a", "rate": 10}}
    drawn = np.random.default_rng(4).normal(1.0, 0.2, size=20)
    scattered = [{**row, "run": {"x": x}} for row, x in zip(rows(20)[:20], drawn, strict=True)]

    def judged(direction: dict[str, Any]) -> Judged:
        model = ClaimModel(claim="c", paper="t", measured=value, holds={"at_least": 1}, direction=direction)
        return judge(parse_claim(model, NAMES, "c")[0], scattered)

    assert (judged({"at_least": 0.5}).state, judged({"at_least": 0.5}).direction) == ("undecided", True)
    assert (judged({"at_least": 0.99}).state, judged({"at_least": 0.99}).direction) == ("undecided", False)
    # Scheme b has ten times as much, so that the claim differs at least.
    more = [{**row, "cell": {**row["cell"], "scheme": "b"}, "run": {"x": 10 * row["run"]["x"]}} for row in scattered]
    named = ClaimModel(claim="c", paper="t", measured=value, holds={"at_least": 1}, under={"scheme": {"a": "b"}})
    told = judge(parse_claim(named, NAMES, "c")[0], [*scattered, *more])
    assert (told.state, told.direction, told.under[:32]) == ("undecided", True, "holds with scheme b in the place")


def test_a_claim_differs_if_it_is_so_under_the_condition_that_is_named() -> None:
    """x is 1 and 2 at rates 10 and 20 for scheme a, ten times that for b."""
    a = {"value": "x", "where": {"scheme": "a"}}
    here: dict[str, Any] = {"for_each": {"rate": "all"}, "under": {"rate": {"10": 20}}}

    def judged(holds: Any, direction: Any = None, **more: Any) -> list[Judged]:
        model = ClaimModel(claim="c", paper="t", measured=a, holds=holds, direction=direction, **{**here, **more})
        return [judge(claim, rows()) for claim in parse_claim(model, NAMES, "c")]

    slow, fast = judged({"at_least": 1.5})
    assert (slow.state, slow.measured) == ("differs", "1.02")
    assert slow.under == "holds with rate 20 in the place of 10: 2.02"
    assert (fast.state, fast.under) == ("holds", "")
    assert [one.state for one in judged({"at_least": 3})] == ["does not hold", "does not hold"]
    slow, fast = judged({"at_least": 3}, {"at_least": 1.5})
    assert (slow.under, fast.under) == ("differs with rate 20 in the place of 10: 2.02", "")
    assert [one.under for one in judged({"at_least": 15}, under={"scheme": {"a": "b"}})] == [
        "",
        "holds with scheme b in the place of a: 20.02",
    ]
    ratio = {"ratio": [{"value": "x", "where": {"scheme": "a", "rate": 20}}, {"value": "x", "where": {"rate": 20}}]}
    beside: dict[str, Any] = {"for_each": {"scheme": ["b"]}, "under": {"scheme": {"a": "b"}}}
    model = ClaimModel(claim="c", paper="t", measured=ratio, holds={"at_least": 0.5}, **beside)
    assert judge(parse_claim(model, NAMES, "c")[0], rows()).under == "holds with scheme b in the place of a: 1.00"
    with pytest.raises(ConfigError, match=r'c.under.rate: unknown value "30"'):
        judged({"at_least": 1}, under={"rate": {"10": 30}})
    with pytest.raises(ConfigError, match=r'c.under: unknown axis "rates"; did you mean "rate"'):
        judged({"at_least": 1}, under={"rates": {"10": 20}})


def test_a_claim_that_holds_with_another_scheme_does_not_discriminate() -> None:
    def held(limit: float, wrong: float | None, key: str = "wrong") -> bool | None:
        model = ClaimModel(
            claim="c", paper="t", measured={"value": "x", "pool": ["scheme", "rate"]}, holds={"at_least": limit}
        )
        (claim,) = parse_claim(model, NAMES, "c")
        cell = {"scheme": "a", "rate": "10"}
        right: list[Row] = [{"key": "right", "cell": cell, "seed": 1, "run": {"x": 1.0}, "flows": []}]
        others = [] if wrong is None else [{**right[0], "key": key, "run": {"x": wrong}}]
        return held_against(claim, judge(claim, right), right, others, False).discriminates

    assert held(0.5, wrong=0.4) is True
    assert held(0.5, wrong=0.6) is False
    assert held(0.5, wrong=1.0) is False, "the same figure, of another run"
    assert held(0.5, wrong=1.0, key="right") is None, "it has nothing to do with the scheme"
    assert held(0.5, wrong=None) is None, "not tried"
    assert held(2.0, wrong=3.0) is None, "it does not hold"
