"""Processes that the script starts by `multiprocessing`: the first one in which an optimizer steps says so.

Steps are timed in the script's own process. One that only starts others and waits for them would be waited
for until it ends: the session looks for the file instead, and says at once what cannot be timed.
Workers of loaders and pools train nothing, and are left alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from laptime.instrument.importing import WhenImported

FILE = "a-child-trains"
"""In the folder of the trial."""
_OTHERS = ("torch.utils.data", "multiprocessing.", "concurrent.")


class StartedProcesses:
    """Watches `multiprocessing.Process.start` from `install` to `undo`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._original: Any = None
        self._import_hook = WhenImported("multiprocessing.process", self._replace)

    def install(self) -> None:
        """Begin, now or when the module is imported."""
        self._import_hook.install()

    def undo(self) -> None:
        """Give the function back. Safe to call twice."""
        self._import_hook.remove()
        if self._original is not None:
            _class().start = self._original
            self._original = None

    def _replace(self) -> None:
        original = self._original = _class().start
        folder = self._folder

        def start(process: Any) -> Any:
            target = getattr(process, "_target", None)
            if target is not None and not str(getattr(target, "__module__", "")).startswith(_OTHERS):
                process._target = Watched(target, folder)
            return original(process)

        _class().start = start


def _class() -> Any:
    return sys.modules["multiprocessing.process"].BaseProcess


class Watched:
    """The function of such a process; it has to pickle, for interpreters that are started anew."""

    def __init__(self, target: Callable[..., Any], folder: str) -> None:
        self._target, self._folder = target, folder

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        WhenImported("torch", self._watch_optimizers).install()
        return self._target(*arguments, **named)

    def _watch_optimizers(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        def first(*_: Any) -> None:
            handle.remove()
            with suppress(OSError):
                os.close(os.open(Path(self._folder) / FILE, os.O_WRONLY | os.O_CREAT, 0o644))

        handle = register_optimizer_step_post_hook(first)
