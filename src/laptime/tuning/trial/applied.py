"""Changes that are on in this process, without a trial: nothing is timed, nothing is stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from laptime.instrument.importing import WhenImported
from laptime.tuning.trial.keeping import optimizers
from laptime.tuning.trial.plan import Plan
from laptime.tuning.trial.points import Points

_WAITS = {"loader": "DataLoader", "worker": "DataLoader", "dataset": "DataLoader", "optimizer": "optimizer"}
"""Callbacks of a Loop that are only called when something is made."""


class Applied:
    """Changes from `open` to `close`.

    Attributes:
        refused: changes that this loop could not take: {"name", "why"}. Those of something that was not made
            inside are known at the end only.
        left: what could not be given back at the end; empty when all is well.
    """

    def __init__(self, changes: list[dict[str, Any]]) -> None:
        self._points = Points(Plan(folder="", base=changes))
        self._points.listen(_Onlooker())
        self._watch = WhenImported("torch", self._points.install)

    @property
    def refused(self) -> list[dict[str, str]]:
        """See the class."""
        return self._points.refused

    @property
    def left(self) -> list[str]:
        """See the class."""
        return self._points.trial.left

    def open(self) -> None:
        """Now, or as soon as torch is imported."""
        there = optimizers()
        self._watch.install()
        self._points.adopt(there)

    def close(self) -> None:
        """Give everything back."""
        self._watch.remove()
        if "torch" in sys.modules:
            self._refuse_unmet()
        self._points.undo()

    def _refuse_unmet(self) -> None:
        """A loader that was there before is as it was: what would have made it otherwise has done nothing."""
        made = {"DataLoader" if call.kind == "DataLoader" else "optimizer" for call in self._points.calls}
        for attached in list(self._points.board.changes):
            waiting = {_WAITS[kind] for kind in _WAITS if attached.callbacks[kind]}
            if waiting - made:
                what = " and no ".join(sorted(waiting - made))
                self._points.board.refuse(attached, f"no {what} was made inside the block")


class _Onlooker:
    """A mode that stands in nobody's way."""

    def fetch(self, loader: Any, take: Callable[[], Any]) -> Any:
        """The batch."""
        return take()

    def forward(self, module: Any) -> None:
        """Nothing."""

    def backward(self, root: Any, run: Callable[[], Any]) -> Any:
        """The backward pass."""
        return run()

    def step(self, optimizer: Any, run: Callable[[], Any]) -> Any:
        """The step."""
        return run()

    def boundary(self, *, ended: bool, begins: bool) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""
