"""ccarena: an arena for congestion control, to train learned controllers beside heuristics on the same links.

    import ccarena

    results = ccarena.run("scenario.yaml", seeds=5)         # or a dictionary, or a list of scenarios
    results.flows(), results.summary(), results.plot("scatter", "scatter.pdf")
    ccarena.train("acct", out="runs/acct")
    ccarena.evaluate("runs/acct", "cubic", "bbr").summary()
    ccarena.compete("cubic", "bbr", links=["48mbps,20ms,1bdp"]).summary()
    ccarena.search("copa@delta=0.05:2", out="runs/search-copa").better
    ccarena.attack("cubic", out="runs/attack-cubic").finds

Importing the package registers its environments: `gymnasium.make("ccarena/Acct-v0")`. It loads neither torch, Ray,
pandas nor the native simulator: what is listed here is loaded when it is first used.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ccarena.agents.api import Training, train
    from ccarena.attacks.api import Attacked, attack
    from ccarena.controllers.interface import Controller
    from ccarena.eval.compete.competition import Competition, compete
    from ccarena.eval.heldout.outcome import Outcome, evaluate
    from ccarena.scenarios.entrants import load_policy
    from ccarena.scenarios.results import Results
    from ccarena.scenarios.run import run
    from ccarena.scenarios.types import Flow, Link, Scenario
    from ccarena.searches.api import Found, search
    from ccarena.tune.scheme import TunedScheme, tune_scheme

__version__ = "0.2.0"

__all__ = [
    "Attacked",
    "Competition",
    "Controller",
    "Flow",
    "Found",
    "Link",
    "Outcome",
    "Results",
    "Scenario",
    "Training",
    "TunedScheme",
    "__version__",
    "attack",
    "compete",
    "evaluate",
    "load_policy",
    "run",
    "search",
    "train",
    "tune_scheme",
]

_HOMES = {
    "Attacked": "ccarena.attacks.api",
    "Controller": "ccarena.controllers.interface",
    "Competition": "ccarena.eval.compete.competition",
    "Flow": "ccarena.scenarios.types",
    "Found": "ccarena.searches.api",
    "Link": "ccarena.scenarios.types",
    "Outcome": "ccarena.eval.heldout.outcome",
    "Results": "ccarena.scenarios.results",
    "Scenario": "ccarena.scenarios.types",
    "Training": "ccarena.agents.api",
    "TunedScheme": "ccarena.tune.scheme",
    "attack": "ccarena.attacks.api",
    "compete": "ccarena.eval.compete.competition",
    "evaluate": "ccarena.eval.heldout.outcome",
    "load_policy": "ccarena.scenarios.entrants",
    "run": "ccarena.scenarios.run",
    "search": "ccarena.searches.api",
    "train": "ccarena.agents.api",
    "tune_scheme": "ccarena.tune.scheme",
}
"""Module that defines each name of the package's interface."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


# The command line does without, because Gymnasium takes longer to load than most commands to run: see ccarena_command.
if "ccarena_command" not in sys.modules:
    import ccarena.registration  # noqa: F401
