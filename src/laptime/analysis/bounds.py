"""The bounds of a model's call: its time, split into what the ceilings require and what else is known.

    compute    max over rows of FLOP / peak, if that is the nearer ceiling
    memory     bytes / bandwidth, if that is
    overhead   time outside of operators; of operators that take less than SMALL, what no ceiling asks for
    threads    what cores that do not work could have saved at most: (1 - working / cores) of the call,
               taken from what is not explained yet
    the rest   is not explained: operators that are slower than both ceilings for no reason that is seen here

No part of a call is counted twice, so the shares add up to 1 at most. The word is the part that has at least
half of the time: then removing everything else makes the call at most twice as fast. Source of the ceilings:
Williams, Waterman and Patterson, Roofline (2009): attainable FLOP/s = min(peak, intensity x bandwidth), so a
row takes at least max(FLOP / peak, bytes / bandwidth).

Lies when: as operator_work; recording slows operators down (compute and memory come out too small, as their
shares are those of the recorded operators); threads that spin while they wait count as working; operators
that run at the same time are counted as if they ran after each other."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from laptime.analysis import roofline as rooflines
from laptime.records.overview import BoundWord, CallBounds, Ceilings, ClassBound, OperatorClass, Work

HALF = 0.5  # share of the time from which on a part is what bounds it
SMALL = 10e-6
"""Seconds of an operator up to which its time is that of calling it: an addition of two numbers takes 1 to 2
microseconds in PyTorch, a linear layer of 4 x 4 several."""
ABOVE = 1.15
"""Times the ceiling at which a row still is at it: cores may be clocked above the maker's typical figure.
Beyond it an assumption is wrong: the data is in caches, or the algorithm skips work."""
_OF_OPERATORS = ("compute", "memory", "overhead")
_NAMES: tuple[BoundWord, ...] = ("compute", "memory", "overhead", "threads")


class Recorded(NamedTuple):
    """Some calls as a profiler has seen them."""

    # by operator and shapes: calls, nanoseconds, FLOP and bytes of all recorded calls together
    rows: Sequence[Work]
    calls: int  # recorded
    seconds: float  # of one recorded call
    threads: int = 0  # of the runtime; 0 if it is not known
    # cores that worked on average in calls that were not recorded; None if it was not measured
    busy: float | None = None
    recorder: str = ""  # what recorded them, in words


def bounds(recorded: Recorded, call: float, cores: float, ceilings: Ceilings | None) -> CallBounds:
    """Find the bounds of a call.
    recorded: at least one call. call: seconds of one that is not recorded, above 0. cores: that may be used.
    ceilings: of all these cores; None if they are not known."""
    number = recorded.calls
    rows = [
        structs.replace(
            row,
            calls=max(1, round(row.calls / number)),
            total_ns=row.total_ns // number,
            uncounted_ns=row.uncounted_ns // number,
            flop={dtype: flop / number for dtype, flop in row.flop.items()},
            bytes=None if row.bytes is None else row.bytes / number,
        )
        for row in recorded.rows
    ]
    # What the recorded operators are a share of: the recorded call, if it is no slower than the other.
    # If it is, recording took the difference, first of all outside of operators, which may overlap.
    base = max(sum(row.total_ns for row in rows) / 1e9, min(recorded.seconds, call))
    by_kind = defaultdict[OperatorClass, list[Work]](list)
    for row in rows:
        by_kind[row.kind].append(row)
    idle = _idle(cores, recorded.threads)  # which operators leave cores idle is not seen, threads are
    classes = [_of_class(each, base, call, ceilings, idle) for each in by_kind.values()]
    parts = {name: sum(each.reasons[name] * each.share for each in classes) for name in _OF_OPERATORS}
    outside = max(0.0, 1.0 - sum(each.share for each in classes))
    parts["overhead"] += outside
    uncounted = sum(each.uncounted * each.share for each in classes)
    reasons = _with_threads(parts, _idle(cores, recorded.threads, recorded.busy))
    return CallBounds(
        word=_word(reasons, uncounted),
        reasons=reasons,
        uncounted=uncounted,
        call=call,
        recorded=recorded.seconds,
        calls=recorded.calls,
        outside=outside,
        threads=recorded.threads,
        cores=cores,
        busy=recorded.busy,
        recorder=recorded.recorder,
        classes=sorted(classes, key=lambda each: (-each.seconds, each.kind)),
        roofline=rooflines.beside(rooflines.roofline(rows), ceilings),
    )


def _of_class(
    rows: Sequence[Work], base: float, call: float, ceilings: Ceilings | None, idle: float
) -> ClassBound:
    seconds = sum(row.total_ns for row in rows) / 1e9
    parts = dict.fromkeys(_OF_OPERATORS, 0.0)
    uncounted = 0.0
    for row in rows:
        reason, least = _least(row, ceilings)
        if reason:
            parts[reason] += least
        rest = row.total_ns / 1e9 - least
        if row.total_ns / 1e9 < SMALL * row.calls:
            parts["overhead"] += rest
        else:
            uncounted += row.uncounted_ns / 1e9 if reason else rest
    whole = seconds or 1.0
    parts = {name: value / whole for name, value in parts.items()}
    reasons, unknown = _with_threads(parts, idle), uncounted / whole
    return ClassBound(
        kind=rows[0].kind,
        operators=sum(row.calls for row in rows),
        seconds=seconds / base * call,
        share=seconds / base,
        word=_word(reasons, unknown),
        reasons=reasons,
        uncounted=unknown,
    )


def _least(row: Work, ceilings: Ceilings | None) -> tuple[BoundWord | None, float]:
    """The nearer ceiling, and the seconds that it asks for, at most those of the row; None if that is not
    known.

    A ceiling that the row is far above does not hold for it, and the other one is asked."""
    seconds = (row.total_ns - row.uncounted_ns) / 1e9
    if ceilings is None or not ceilings.bandwidth or row.bytes is None or not seconds:
        return None, 0.0
    compute = rooflines.seconds_to_compute(row, ceilings.flops)
    if compute is None:
        return None, 0.0
    asked: list[tuple[float, BoundWord]] = [(row.bytes / ceilings.bandwidth, "memory"), (compute, "compute")]
    held = [each for each in asked if each[0] <= ABOVE * seconds]
    if not held:
        return None, 0.0
    least, reason = max(held)
    return reason, min(least, seconds)


def _idle(cores: float, threads: int, busy: float | None = None) -> float:
    """Share of the cores that do not work: there are fewer threads, or operators leave them idle."""
    working = min(threads or cores, cores if busy is None else busy)
    return max(0.0, 1.0 - working / cores) if cores else 0.0


def _with_threads(parts: Mapping[str, float], idle: float) -> dict[str, float]:
    """The parts with what idle cores could have saved, at most what is not explained yet."""
    rest = max(0.0, 1.0 - sum(parts.values()))
    return {**parts, "threads": min(rest, idle)}


def _word(reasons: Mapping[str, float], uncounted: float) -> BoundWord:
    """Return the reason that has half of the time; unknown if uncounted time could make it another."""
    largest = max(_NAMES, key=lambda name: reasons[name])
    if reasons[largest] >= HALF:
        return largest
    return "unknown" if max(reasons["compute"], reasons["memory"]) + uncounted >= HALF else "neither"
