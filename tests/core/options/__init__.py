"""Effects of every option of every command: a file per family of commands, and an entry per option."""

from tests.core.options import arena, controllers, operation, traces, training
from tests.core.options.case import Case

__all__ = ["EFFECTS"]

EFFECTS: dict[str, dict[str, Case]] = {
    command: options
    for family in (training, controllers, arena, operation, traces)
    for command, options in family.EFFECTS.items()
}
