"""ccarena: an arena for congestion control, to train learned controllers beside heuristics on the same links.

Importing the package is cheap on purpose: torch, Ray and the native simulator are loaded by the module that needs them.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
