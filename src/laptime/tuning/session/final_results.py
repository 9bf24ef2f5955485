"""What a session has after its search, filled step by step: an interrupted one has what came before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from laptime.records.tuning import Rung, Tuning


@dataclass
class FinalResults:
    """The results after a search.

    Attributes:
        run_id: of the session, for the recipe file.
        tuning: the record with the gain, the gate of the whole set, the patch and the step's parts so far.
        suggested: rungs of changes that are only ever suggested.
        is_complete: nothing was left out.
    """

    run_id: str
    tuning: Tuning
    suggested: list[Rung] = field(default_factory=list)
    is_complete: bool = False

    def set(self, **fields: Any) -> None:
        """Set fields of the record."""
        self.tuning = structs.replace(self.tuning, **fields)

    def set_patch(self, **fields: Any) -> None:
        """Set fields of the record's patch."""
        self.set(patch=structs.replace(self.tuning.patch, **fields))
