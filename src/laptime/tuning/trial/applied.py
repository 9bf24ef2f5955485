"""Changes that are on in this process, without a trial: nothing is timed, nothing is stopped."""

from __future__ import annotations

import sys
from typing import Any

from laptime.instrument.importing import WhenImported
from laptime.tuning.trial.hooks.loop_hooks import LoopHooks
from laptime.tuning.trial.messages import TrialPlan
from laptime.tuning.trial.state_snapshot import optimizers

_CONSTRUCTIONS = {
    "loader": "DataLoader",
    "worker": "DataLoader",
    "dataset": "DataLoader",
    "optimizer": "optimizer",
}
"""Callbacks of a Loop that are only called when something is constructed, and what."""


class AppliedChanges:
    """Changes from `open` to `close`.

    Attributes:
        refused: changes that this loop could not take: {"name", "why"}. Those that wait for a construction
            that did not happen inside the block are added by `close`.
        left: what could not be given back at the end; empty when all is well.
    """

    def __init__(self, changes: list[dict[str, Any]]) -> None:
        self._hooks = LoopHooks(TrialPlan(folder="", base=changes))
        self._import_hook = WhenImported("torch", self._hooks.install)
        self.refused = self._hooks.refused
        self.left = self._hooks.result.left

    def open(self) -> None:
        """Apply now, or as soon as torch is imported."""
        existing = optimizers()
        self._import_hook.install()
        self._hooks.adopt(existing)

    def close(self) -> None:
        """Give everything back."""
        self._import_hook.remove()
        if "torch" in sys.modules:
            self._refuse_unmet()
        self._hooks.undo()

    def _refuse_unmet(self) -> None:
        """A loader that existed before was not rewritten: the change has done nothing."""
        kinds = {"DataLoader" if call.kind == "DataLoader" else "optimizer" for call in self._hooks.calls}
        for loop in list(self._hooks.changes.changes):
            waiting = {name for kind, name in _CONSTRUCTIONS.items() if loop.callbacks[kind]}
            if waiting - kinds:
                what = " and no ".join(sorted(waiting - kinds))
                self._hooks.changes.refuse(loop, f"no {what} was made inside the block")
