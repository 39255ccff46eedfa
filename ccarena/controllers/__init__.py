"""Controllers of users in place of a scheme: Python classes (docs/write-a-controller.md) and WebAssembly modules
(docs/ship-a-controller.md).

`interface` has the class that Python classes derive from, `classes` and `modules` find the two kinds, `new` begins one
from a template, and `build` compiles a module.
"""

from ccarena.controllers.interface import Controller

__all__ = ["Controller"]
