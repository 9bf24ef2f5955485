"""`verify`: does an earlier result of `tune` still hold, here and now?"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from laptime.kit import typed
from laptime.kit.options import Option
from laptime.kit.units import seconds
from laptime.records.check import Finding
from laptime.records.plan import Name, Origin, Save
from laptime.records.run import Run
from laptime.records.tuning import Speedup
from laptime.tuning.options import Timeout


@dataclass(frozen=True, kw_only=True)
class VerifyRequest:
    """The request of `laptime verify`."""

    recipe: Path = Path()  # the file that `tune` has left, as `train.laptime.json`
    budget: Annotated[float, Option("Time limit of the whole check: 90s, 5m, 1h.", "TIME", read=seconds)] = (
        300.0
    )
    # values are not stored
    headers: Annotated[
        list[tuple[str, str]],
        Option(
            "Header of requests to a server; values are not stored.",
            "'NAME: VALUE'",
            flags="--header",
            read=typed.headers,
            repeatable=True,
        ),
    ] = field(default_factory=list)
    python: Annotated[
        str,
        Option(
            "Interpreter that runs the script; for a model NAME=PATH, the environment that has a runtime: "
            "openvino=.venv-ov. [default: laptime's own]",
            "PATH",
        ),
    ] = ""
    timeout: Timeout = 600.0
    name: Name = ""
    save: Save = True
    origins: dict[str, Origin] = field(default_factory=dict)

    @property
    def of_session(self) -> dict[str, Any]:
        """Return the settings of the session, whatever was tuned."""
        return {name: getattr(self, name) for name in ("budget", "timeout", "name", "save", "origins")}


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
