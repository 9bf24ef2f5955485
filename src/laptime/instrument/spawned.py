"""Ranks that a script starts by `torch.multiprocessing.spawn`, each observed as those of torchrun are."""

from __future__ import annotations

import sys
from typing import Any

from laptime.instrument.hooks import SPAWN, Hooks
from laptime.instrument.settings import Settings
from laptime.instrument.step_observer import StepObserver, Stop

ORIGINAL: list[Any] = []
"""Torch's own, in the process that has replaced it."""


def observe_ranks(original: Any) -> Any:
    """What stands in for torch's own function that starts a rank, which is `original`."""
    ORIGINAL[:] = [original]
    return wrap


def wrap(function: Any, *rest: Any) -> None:
    """Stands in for torch's own `_wrap` in the started process: gives it the function with hooks around."""
    original = getattr(sys.modules[SPAWN], "_wrap", None)
    if original is None or original is wrap:  # a forked child has ours still
        original = ORIGINAL[0]
    settings = Settings.from_environment()
    original(function if settings is None else _Observed(function, settings), *rest)


class _Observed:
    """A function that runs under hooks."""

    def __init__(self, function: Any, settings: Settings) -> None:
        self._function = function
        self._settings = settings

    def __call__(self, *arguments: Any) -> None:
        observer = StepObserver(self._settings)
        hooks = Hooks(observer, observe_ranks)
        hooks.install()
        try:
            self._function(*arguments)
        except Stop:
            pass
        finally:
            hooks.undo()
            observer.finish()
