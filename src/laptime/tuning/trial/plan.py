"""What a trial is to do. It travels in the environment."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

VARIABLE = "LAPTIME_TRIAL"
"""Name of the environment variable that holds the plan as JSON."""
TEMPORARY = "LAPTIME_TEMPORARY"
"""Variable with the folder where temporary files usually go; those of a trial go into its own."""


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """One trial.

    Attributes:
        folder: where everything that was found is written; `stop` in it ends the trial at the next boundary.
        mode: race, diagnose, gate, or plain (a script timed without any recipe's hooks but the step hooks).
        base: changes that are on from the start to the end, as `Recipe.to_json`.
        arms: changes on top of it, one list an arm; arms alternate in random order, a block each, round by
            round.
            One empty arm times the base alone. Several arms need changes whose TOGGLE is live.
        settle: steps before anything counts, at least; the trial takes more while compilation goes on.
        resettle: steps that do not count after a switch of arms.
        steps: timed steps in a block. rounds: rounds at most. seconds: of timing at most, after `settle`.
        order: seed of the random order of arms.
        seed: added to the seeds that the script sets, and set at its start; None leaves them alone.
        memory: bytes of this process and its children at most; above, the trial ends as `memory`. None: no
            limit.
        step_by: optimizer, loader or forward; "" finds out.
        scratch: the script's writes go there; "" lets them through.
        sources: files in place of the user's, by absolute path: a patched script runs under its own name.
        keep_losses: keep the loss of each step (read at the end of a block, so that nothing is synchronised).
        gate: for mode gate, see `trial.witness`: {"write": path, "compare": path or null, "reference": path
            or null,
            "batches": path or null, "steps": 3, "samples": false, "dropout": true, "double": false}.
    """

    folder: str
    mode: str = "race"
    base: list[dict[str, Any]] = field(default_factory=list)
    arms: list[list[dict[str, Any]]] = field(default_factory=lambda: [[]])
    settle: int = 2
    resettle: int = 1
    steps: int = 3
    rounds: int = 12
    seconds: float = 60.0
    order: int = 0
    seed: int | None = None
    memory: int | None = None
    step_by: str = ""
    scratch: str = ""
    sources: dict[str, str] = field(default_factory=dict)
    keep_losses: bool = True
    gate: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """The value of the environment variable."""
        return json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> TrialPlan | None:
        """The plan of this process, None when there is none."""
        text = os.environ.get(VARIABLE)
        return cls(**json.loads(text)) if text else None
