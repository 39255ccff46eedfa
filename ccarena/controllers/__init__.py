"""Controllers of users: Python classes in place of a scheme (docs/own-controllers.md).

`interface` has the class that they derive from, and `load` finds and makes them.
"""

from ccarena.controllers.interface import Controller

__all__ = ["Controller"]
