"""Makes `tests.policies.made` importable, whatever pytest's import mode and however it was started."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
