"""Controllers of users: Python classes in place of a scheme (docs/write-a-controller.md).

`interface` has the class that they derive from, and `load` finds and makes them.
"""

from ccarena.controllers.interface import Controller

__all__ = ["Controller"]
