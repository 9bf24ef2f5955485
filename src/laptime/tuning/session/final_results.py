"""What a session has after its search: the measured gain, the gate of the whole, the patch."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.records.tuning import Convergence, Gate, Measured, Patched, Rung, Speedup


@dataclass
class FinalResults:
    """Filled step by step, so that an interrupted session has what came before.

    Attributes:
        run_id: of the session, for the recipe file.
        measured: baseline and final. gate: of the whole set.
        suggested: rungs of changes that are only ever suggested.
        breakdown_before, breakdown_after: seconds of a step by part.
        is_complete: nothing was left out.
    """

    run_id: str = ""
    measured: tuple[Measured, Measured] | None = None
    speedup: Speedup | None = None
    gate: Gate = field(default_factory=Gate)
    convergence: Convergence = field(default_factory=Convergence)
    patch: Patched = field(default_factory=Patched)
    recipe_path: str = ""
    suggested: list[Rung] = field(default_factory=list)
    breakdown_before: dict[str, float] = field(default_factory=dict)
    breakdown_after: dict[str, float] = field(default_factory=dict)
    is_complete: bool = False
