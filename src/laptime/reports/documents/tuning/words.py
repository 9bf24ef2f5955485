"""Numbers, changes and reasons of a tuning session as short texts."""

import math
import re
from typing import Any, NamedTuple

from laptime.kit.text import count
from laptime.kit.units import decimals, show
from laptime.records.run import Run
from laptime.records.tuning import Applied, Measured, Rung, Speedup, Tuning
from laptime.reports import _words

ACTIVITIES = {
    "diagnose": "diagnosing",
    "race": "racing",
    "gate": "gates",
    "measure": "measuring again",
    "record": "recording calls",
    "patch": "patch",
    "compile": "compiling",
    "profile": "profiling both",
    "build": "exporting and compiling",
}
_LONGEST_OPTION = 24
_EFFECT = re.compile(r"^\d[\d.]*x \[[^\]]*\] (?=in \d)")  # a reason that begins with the numbers of its row
_SUGGESTED = "suggested, not applied"
Interval = tuple[float, float] | None


def conditions(run: Run, tuning: Tuning) -> list[str]:
    """The machine and how the session went: one phrase each."""
    # Seconds stand in the session's own line, processes in the verdict's.
    goal = [f"goal {tuning.goal}"] if tuning.goal != "throughput" else []
    trials = "1 trial process" if tuning.trials == 1 else f"{tuning.trials:,} trial processes"
    return [*_words.machine(run), *goal, tuning.mode, trials]


class Kind(NamedTuple):
    """The subject of a session, what of it is timed, and how the whole is measured again."""

    name: str
    unit: str
    again: str


SCRIPT = Kind("script", "step", "in {} new processes")
MODEL = Kind("model", "call", "in {} new processes")
SERVER = Kind("server", "request", "after {} fresh starts")


def kind(tuning: Tuning) -> Kind:
    """A script, a model, or a server."""
    return SERVER if tuning.server is not None else MODEL if tuning.model is not None else SCRIPT


def name_timed(tuning: Tuning) -> str:
    """Name what a latency is of: `a step`, `p95 time to first token`."""
    return tuning.server.figure if tuning.server is not None else f"a {kind(tuning).unit}"


def items(tuning: Tuning) -> str:
    """Name what is counted."""
    if tuning.server is not None:
        return tuning.server.unit
    if tuning.model is not None:
        return "items"
    measured = tuning.final or tuning.baseline
    return name_counted(measured) if measured is not None else "samples"


def name_counted(measured: Measured) -> str:
    """Steps, if nothing says how many samples one has: then one is counted in each."""
    is_one = math.isclose(measured.throughput * measured.step, 1.0, rel_tol=0.3)
    return "steps" if is_one else "samples"


def effect(value: float | None, ci95: Interval) -> str:
    """`2.31x [2.24, 2.38]`, digits no finer than the interval."""
    return " ".join(effect_parts(value, ci95)).removesuffix(" -")


def effect_parts(value: float | None, ci95: Interval) -> tuple[str, str]:
    """`2.31x` and `[2.24, 2.38]`, `-` for what is not known.

    An end beside one keeps the digit that tells it from one: `[1.03, 2.90]`, as the word rests on it."""
    if value is None or ci95 is None or not all(map(math.isfinite, ci95)):
        return ratio(value), "-"
    digits = min(3, max(1, decimals(value, (ci95[1] - ci95[0]) / 2)))
    if any(round(end, digits) == 1 and abs(end - 1) >= 0.5 * 10.0 ** -(digits + 1) for end in ci95):
        digits = max(2, digits)
    return f"{value:.{digits}f}x", f"[{ci95[0]:.{digits}f}, {ci95[1]:.{digits}f}]"


def speedup(gain: Speedup) -> str:
    """`2.31x [2.24, 2.38] faster`."""
    word = "the same speed" if gain.word == "same" else gain.word
    return f"{effect(gain.value, gain.ci95)} {word}"


def ratio(value: float | None) -> str:
    """`0.58x`; `-` if nothing is known."""
    return "-" if value is None else f"{value:.2f}x"


def rate(speed: Measured) -> str:
    """Samples per second with the digits that its step's interval supports."""
    if speed.ci95 is None or not all(0 < end < math.inf for end in (*speed.ci95, speed.step)):
        return per_second(speed.throughput)
    low, high = (speed.throughput * speed.step / end for end in reversed(speed.ci95))
    return per_second(speed.throughput, (low, high))


def per_second(value: float | None, ci95: Interval = None) -> str:
    """A rate without its unit, which the column or the sentence has: `2,480`."""
    return show(value, "1/s", ci95).removesuffix("/s")


def change(applied: Rung | Applied) -> str:
    """The change with its short options on one line: `num_workers=2`, `compile mode=default`.

    Lists and long texts are left to --json: they are settings of an edit and do not say changes apart."""
    if isinstance(applied, Rung) and not applied.options:
        return applied.label or applied.name
    options = [(key, value) for key, value in applied.options.items() if _is_short(value)]
    if len(options) == 1 and options[0][0] in (applied.name, "value"):
        return f"{applied.name}={options[0][1]}"
    return " ".join([applied.name, *(f"{key}={value}" for key, value in options)])


def _is_short(value: Any) -> bool:
    return isinstance(value, bool | int | float | str) and 0 < len(str(value)) <= _LONGEST_OPTION


def reason(rung: Rung) -> str:
    """Say why it was kept or not, what compiling cost, and why its edit is not in the patch."""
    text = _EFFECT.sub("", rung.reason)
    if rung.verdict == "suggested":
        text = text.removeprefix(_SUGGESTED).lstrip(":; ")
    parts = [text] if text else []
    if rung.pays_back:
        parts.append(f"compiling pays back after {count(rung.pays_back, 'step')}")
    if rung.edit:
        parts.append(f"not in the patch: {rung.edit}")
    return "; ".join(parts)


def session_time(run: Run, tuning: Tuning) -> str:
    """`9.0 min of 10.0 min: racing 262 s, ...`: what the session took."""
    text = f"{show(run.seconds, 's')} of {show(tuning.budget, 's')}"
    text += " (the budget ended it)" if tuning.ended == "budget" else ""
    parts = sorted(tuning.seconds_by.items(), key=lambda part: -part[1] if math.isfinite(part[1]) else 0.0)
    named = ", ".join(f"{activity(name)} {show(seconds, 's')}" for name, seconds in parts if seconds)
    return f"{text}: {named}" if named else text


def activity(name: str) -> str:
    """Name the activity that the session spent time on."""
    return ACTIVITIES.get(name) or name
