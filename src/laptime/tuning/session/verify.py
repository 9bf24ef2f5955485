"""`verify`: does an earlier result of `tune` still hold, here and now?"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from laptime.records.check import Finding
from laptime.records.plan import Origin
from laptime.records.run import Run
from laptime.records.tuning import Speedup


@dataclass(frozen=True, kw_only=True)
class VerifyRequest:
    """The options of `laptime verify`.

    Attributes:
        recipe: the file that `tune` has left, as `train.laptime.json`.
        budget: seconds at most.
        python: interpreter to run the script with; "": laptime's own.
        timeout: seconds that one trial may take at most.
        headers: of the requests to a server; their values are not stored.
    """

    recipe: Path = Path()
    budget: float = 300.0
    python: str = ""
    timeout: float = 600.0
    headers: list[tuple[str, str]] = field(default_factory=list)
    name: str = ""
    save: bool = True
    origins: dict[str, Origin] = field(default_factory=dict)


def holds(run: Run) -> bool | None:
    """Whether the earlier result still holds: its gate passes and the script is faster; None: undecided."""
    tuning = run.tuning
    if tuning is None or tuning.gate.word == "failed":
        return False
    if tuning.speedup is None or tuning.gate.word != "passed" or tuning.speedup.word == "unclear":
        return None
    return tuning.speedup.word == "faster"


def gain_since_then(was: Speedup | None, now: Speedup | None, changed: list[str]) -> Finding:
    """The gain then and now, and what has changed in between."""
    gain_then = f"{was.value:.2f}x" if was else "no measured gain"
    gain_now = f"{now.value:.2f}x" if now else "not measured"
    changes = f"changed since then: {', '.join(changed)}" if changed else "nothing has changed since"
    return Finding(
        kind="tune/verified",
        severity="info",
        sentence=f"the recipe's gain was {gain_then}, it is {gain_now}; {changes}",
        evidence={"was": was.value if was else None, "is": now.value if now else None, "changed": changed},
    )
