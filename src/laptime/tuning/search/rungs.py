"""Rungs of the ladder: before a race, with the numbers of one, with a gate."""

from __future__ import annotations

from typing import cast

from msgspec import structs

from laptime.records.tuning import Gate, Numerics, Rung
from laptime.tuning.search.evaluator import Candidate
from laptime.tuning.search.race import RaceResult


def untried_rung(candidate: Candidate) -> Rung:
    """The rung of a candidate before it is tried."""
    return Rung(
        name=candidate.change.name,
        label=str(candidate.change),
        title=candidate.title,
        options=candidate.change.options,
        numerics=cast(Numerics, candidate.numerics),
        bound=candidate.bound,
    )


def race_summary(result: RaceResult) -> str:
    """The numbers of a race in words."""
    if result.speedup is None or result.ci95 is None:
        return result.reason or "no rounds"
    parts = [f"{result.speedup:.3g}x [{result.ci95[0]:.3g}, {result.ci95[1]:.3g}] in {result.rounds} rounds"]
    if result.word in ("smaller", "larger") and result.memory:
        parts.insert(0, f"{result.memory:.3g} times the memory")
    if result.reason:
        parts.append(result.reason)
    return ", ".join(parts)


def gated(rung: Rung, gate: Gate) -> Rung:
    """The rung with its gate; it is kept when the gate passed, and only then."""
    if gate.word == "passed":
        return structs.replace(rung, gate=gate, kept=True)
    why = gate.reason or "nothing could be compared"
    words = {"failed": "its gate failed", "undecided": "its gate could not decide"}
    text = f"{rung.reason}; not kept, {words.get(gate.word, 'it was not gated')}: {why}"
    return structs.replace(rung, gate=gate, kept=False, reason=text)
