"""Learned controllers as their authors published them: an import of their checkpoints into artifacts.

The weights are not part of this package. The spec of each controller, a JSON file of its name, says what its network
observes and moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from ccarena import _core
from ccarena.policies.artifact import Artifact
from ccarena.policies.checkpoint import Wanted, read, sha256
from ccarena.policies.graph import Graph
from ccarena.policies.interface import FloatArray
from ccarena.policies.published.networks import ACTIONS, UNITS, actor, actor_graph, indigo_graph
from ccarena.policies.spec import Spec

__all__ = ["CONTROLLERS", "Controller", "import_checkpoint"]


@dataclass(frozen=True)
class Controller:
    """Published controller."""

    title: str
    source: str
    """Repository and commit of the checkpoint."""
    licence: str
    """Licence of the checkpoint, as far as its repository states one."""
    wanted: Sequence[Wanted]
    """Tensors of its network."""
    graph: Callable[[Mapping[str, FloatArray]], Graph]
    """Function from those tensors to the network."""


def spec_text(name: str) -> str:
    """Returns the spec of the published controller `name`, as JSON."""
    return files(__package__).joinpath(f"{name}.json").read_text()


def import_checkpoint(name: str, path: Path) -> Artifact:
    """Returns the artifact of the published controller `name` with the weights at `path`.

    Raises PolicyError for a checkpoint that is unreadable, damaged or of another network.
    """
    controller = CONTROLLERS[name]
    graph = controller.graph(read(path, controller.wanted, controller.title))
    training = {
        "imported": controller.title,
        "source": controller.source,
        "licence": controller.licence,
        "files": sha256(path),
    }
    spec = Spec.of(_core.learned(spec_text(name)))
    return Artifact(spec.interface, graph, dict(spec.params), training)


CONTROLLERS: dict[str, Controller] = {
    "orca": Controller(
        title="Orca",
        source="github.com/Soheil-ab/Orca, commit cafaf9a31cb63a5b8754e1f410776d35b8ce47d0",
        licence="MIT, Copyright 2020 Soheil Abbasloo and Chen-Yu Yen",
        wanted=actor((70, 256, 256, 1)),
        graph=lambda tensors: actor_graph(tensors, 10),
    ),
    "astraea": Controller(
        title="Astraea",
        source="github.com/xudongliao/astraea-open-source, commit becc7cfe11c43b56e263e284ef0a99ce95da03c8",
        licence="none stated: it must not be redistributed",
        wanted=actor((50, 256, 128, 64, 1)),
        graph=lambda tensors: actor_graph(tensors, 5),
    ),
    "indigo": Controller(
        title="Indigo",
        source="github.com/StanfordSNR/indigo, commit 463d89b09699a57bfdfbae351646df6a60040b90",
        licence="Apache-2.0, Copyright 2018 Francis Y. Yan, Jestin Ma",
        wanted=[
            *(
                Wanted(f"lstm.{part}", f"global/rnn/multi_rnn_cell/cell_0/basic_lstm_cell/{part}", shape)
                for part, shape in (("kernel", (4 * UNITS, 41)), ("bias", (4 * UNITS,)))
            ),
            Wanted("out.weight", "global/fully_connected/weights", (ACTIONS, UNITS)),
            Wanted("out.bias", "global/fully_connected/biases", (ACTIONS,)),
        ],
        graph=indigo_graph,
    ),
}
"""Published controllers by the name that `ccarena policy import` takes."""
