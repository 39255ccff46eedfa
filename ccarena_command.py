"""The programs `ccarena`, `cca-link` and so on.

They enter here and not in the package, because `import ccarena` registers the environments, which loads Gymnasium and
NumPy. The package does not register them when it finds this module loaded; a command that needs environments imports
`ccarena.envs`, which does.
"""

import sys

from ccarena.cli import main
from ccarena.commands.emulator import delay, link, loss, onoff

__all__ = ["delay", "link", "loss", "main", "onoff"]

if __name__ == "__main__":
    sys.exit(main())
