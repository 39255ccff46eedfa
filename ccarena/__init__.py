"""ccarena: an arena for congestion control, to train learned controllers beside heuristics on the same links.

Importing the package registers its environments: `gymnasium.make("ccarena/Acct-v0")`. It loads neither torch, Ray nor
the native simulator, which the modules that need them import.
"""

import sys

__version__ = "0.1.0"

__all__ = ["__version__"]

# The command line does without, because Gymnasium takes longer to load than most commands to run: see ccarena_command.
if "ccarena_command" not in sys.modules:
    import ccarena.registration  # noqa: F401
