"""Actions for a later moment: when somebody else has imported a module, which we must not do first; in a
child that is forked."""

import importlib.abc
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from weakref import WeakMethod


class WhenImported(importlib.abc.MetaPathFinder):
    """Calls back once, when a module was imported whole; at once, when it is there already.

    Being asked where the module is does not end the watch: libraries look for torch before they import it."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def install(self) -> None:
        if self._name in sys.modules:
            self._then()
        else:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Watch no longer. Safe to call twice."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec, with a loader that tells us when it has done its work."""
        if fullname != self._name or self not in sys.meta_path:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]  # among them those who watch it, too
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            original = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                original(module)
                vars(spec.loader).pop("exec_module", None)  # several may watch: the innermost is first
                if self in sys.meta_path:
                    self.remove()
                    self._then()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def in_children(method: Callable[[], Any]) -> None:
    """Call this bound method in every child that is forked from now on, while its object is there.

    Python keeps such functions for ever, and with them everything that they hold."""
    weak = WeakMethod(method)

    def call() -> None:
        alive = weak()
        if alive is not None:
            alive()

    os.register_at_fork(after_in_child=call)
