"""Ranks that a script starts by `torch.multiprocessing.spawn`, each observed as those of torchrun are."""

from __future__ import annotations

import sys
from typing import Any

from laptime.instrument.settings import Settings

MODULE = "torch.multiprocessing.spawn"


ORIGINAL: list[Any] = []
"""Torch's own, in the process that has replaced it."""


def wrap(function: Any, *rest: Any) -> None:
    """Stands in for torch's own `_wrap` in the started process: gives it the function with hooks around."""
    original = getattr(sys.modules[MODULE], "_wrap", None)
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
        from laptime.instrument.hooks import Hooks
        from laptime.instrument.session import Session, Stop

        session = Session(self._settings)
        hooks = Hooks(session)
        hooks.install()
        try:
            self._function(*arguments)
        except Stop:
            pass
        finally:
            hooks.undo()
            session.finish()
