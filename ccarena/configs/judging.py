"""Configuration of judging a scheme: its learning curve, validation, baseline rules, expectations and evaluation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ccarena.configs.sections import Count, Pair, Range, Section, Text
from ccarena.core.seeds import MOST_SEED

LinkSet = Literal[
    "slides",
    "constant",
    "steps",
    "signals",
    "silent",
    "cellular",
    "cellular-50ms",
    "cellular-uplink",
    "satellite",
    "5g",
    "wifi",
    "lossy",
    "l4s",
    "league",
]


class ProgressConfig(Section):
    """Columns of the report in the learning curve, besides the reward, and on the page of an evaluation."""

    means: list[str] = Field(["throughput_mbps", "queueing_delay_ms", "lost_packets"])
    """Columns of which the mean over decisions is recorded."""
    action: Text = "action"
    """Column of the current action."""
    shares: dict[str, list[str]] = Field({})
    """Columns with a category 0, 1, ... and the categories' names; shares of decisions are recorded."""


class ConstantAction(Section):
    """Constant action of the scheme, which learning has to beat."""

    label: Text
    """Name in tables."""
    action: float | list[float]
    """The action: one of a discrete spec's values, or a number within the bounds, or one for each actuator."""


class RulesConfig(Section):
    """Search of the baseline rules on training links (docs/training.md)."""

    links: int = Field(32, ge=0, le=100_000)
    """Links of the training distribution per candidate; 0 turns the search off."""
    law: dict[str, Annotated[Pair, Range(-1e9, 1e9)] | None] = Field({})
    """Parameters of the spec to tune together, in the form of cma_es's `algorithm.params`; evolution's own if empty."""
    law_action: float | None = None
    """Constant action of the tuned parameters; null is the best one found. A continuous one is searched with the
    parameters."""
    law_candidates: int = Field(300, ge=1, le=1_000_000)
    """Most candidates of that search."""


class Target(Section):
    """Bounds of a figure."""

    at_least: float | None = None
    """Least accepted value."""
    at_most: float | None = None
    """Largest accepted value."""

    @model_validator(mode="after")
    def _one(self) -> Target:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("expected one of at_least and at_most")
        return self


class ExpectationConfig(Section):
    """Claim about a group of links, and the figures that decide whether it holds."""

    links: list[LinkSet] = Field(min_length=1)
    """Groups of evaluation links, on each of which the claim has to hold."""
    claim: Text
    """Claim, as a sentence."""
    figures: dict[str, Target] = Field(min_length=1)
    """Figures of `ccarena.eval.measure.table`, or of the decisions, each with its target."""
    relative_to: Text | None = None
    """Baseline: figures are then ratios to it, link by link, and the median link decides. null: the mean of all runs
    decides.
    """


class ValidationConfig(Section):
    """Validation of the policy during training, on separate links that are neither trained on nor held out.

    It judges by the policy's `score`: the `objective` of whole runs, or the mean reward if that is the objective.
    """

    kinds: list[Literal["constant", "random_steps", "cellular", "trace", "wifi", "grants", "model"]] = Field(
        ["constant", "random_steps", "cellular"]
    )
    """Classes of links, drawn from the ranges of `env.link`, with equal weight. `trace` draws from the validation
    recordings, and is left out if there are none. An empty list turns validation off."""
    every_decisions: Count | None = Field(None, ge=1)
    """Decisions between two validations; null is a tenth of `total_decisions`, at least 100,000. One more is at the
    end."""
    links: int = Field(8, ge=1, le=1024)
    """Links per class."""
    decisions: int = Field(300, ge=1, le=1_000_000)
    """Decisions per link for rewards and means. A whole run has as many as fit into its episode."""
    seed: int = Field(1, ge=0, le=MOST_SEED)
    """Seed of the links. No training uses these links."""
    policy: Literal["last", "best"] = "last"
    """Policy that becomes the result: the `last`, or the `best` by validation score. Both are kept."""
    patience: int | None = Field(None, ge=1)
    """Validations in a row without a better policy after which training stops; null trains to the end."""


class EvalConfig(Section):
    """Evaluation after training, on links that were not trained on."""

    link_sets: list[LinkSet] = Field(["constant", "steps", "cellular"])
    """Groups of evaluation links; an empty list turns the evaluation off."""
    recordings: list[str] = Field([])
    """Names of the cellular recordings to test; an empty list is all that are held out."""
    duration_s: float = Field(30.0, gt=0, le=86_400)
    """Simulated time per run, s."""
    seeds: int = Field(5, ge=1, le=1000)
    """Seeds per link."""
