"""Calls at a fixed rate: can the program serve them, or does its queue grow without end?

A server that is busy for the share `rate x mean service time` of the time is in balance below 1 (utilisation
law: Denning & Buzen, The Operational Analysis of Queueing Network Models, 1978). Above 1 the latency grows as
long as calls come: any number printed for it would be the length of the measurement."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from laptime.analysis.change_points import SHORTEST, changes
from laptime.analysis.quantiles import Floats, mean_interval
from laptime.analysis.student_t import t_quantile
from laptime.records.case import Case
from laptime.records.quantity import Judgement, Quantity
from laptime.records.series import Label, Regime


class OpenLoop(NamedTuple):
    """Calls that came, and calls that could be served."""

    rate: float  # calls that came per second
    # calls per second that it can serve: 1 / mean service time; without an interval below three
    capacity: Quantity
    balance: Judgement  # broken if the rate is certainly above the capacity

    @property
    def served(self) -> Quantity:
        """Calls per second answered, in the long run: all, certainly, if its interval has no width."""
        return self.capacity.at_most(self.rate)


def open_loop(case: Case) -> OpenLoop | None:
    """The balance of a case's paced calls; None if none were made, or their schedule was not recorded.

    The service time of a call is its latency less its waiting in the queue. Calls that others disturbed
    count, too: those behind them had to wait."""
    latency, late = case.find("latency", Regime.PACED), case.find("disturbance/late", Regime.PACED)
    if latency is None or late is None or len(latency.at) < 2 or len(late.samples) != len(latency.samples):
        return None
    label = np.asarray(latency.label or [0] * len(latency.samples))
    counts = (label & int(Label.RESUMED | Label.RECOMPILED)) == 0
    if not counts.any():
        return None
    service = (np.asarray(latency.samples) - np.asarray(late.samples))[counts]
    period = float(np.median(np.diff(latency.at)))
    mean = float(service.mean())
    around = mean_interval(service)
    if mean <= 0 or period <= 0:
        return None
    capacity = Quantity.of(mean, around, len(service), "s").invert(unit="1/s")
    return OpenLoop(1 / period, capacity, capacity.judge(1 / period, at_least=True))


# Requests of a level, whose service times are unknown.

Whole = NDArray[np.bool_]  # whether each was answered in full
SLICES = 20
_SURE, _PERHAPS = 0.99, 0.9
STEP, BY_CHANCE = 1.5, 0.001  # of a step: its size, and the chance of finding one if there is none
FEWEST, FEWEST_LOST = 30, 5  # answers of which one pause can be the longest; requests that waited meanwhile
LOST, MOST_BY_CHANCE, LONG = 0.01, 1e-4, 0.1  # failures of any server; chance of a run; share of a level


class Balance(NamedTuple):
    """Arrivals and departures: a queue that certainly grows has no latency but the length of the window."""

    grows: bool  # the queue certainly grew through the window
    growth: float  # requests per second that came more than went
    least: float = math.inf  # answers per second that it may be instead of what came, if it perhaps grew


def balance(due: Floats, end: Floats, rate: float | None = None) -> Balance:
    """Balance requests by when each was due and ended, in order of due, in seconds.

    A server falls behind if it takes longer for an answer, while it has any request, than there is between
    two arrivals; or if more comes than goes, slice by slice. At first the latter is so of every server, while
    the first answers are under way, but latency does not grow then. rate: at which requests were meant to
    come; None: as they did."""
    count, seconds = len(due), float(due[-1] - due[0]) if len(due) else 0.0
    if count < FEWEST_LOST or not seconds:
        return Balance(False, 0.0)
    latency, ends, slices = end - due, np.sort(end), min(SLICES, count // 3)
    busy = ends[1:] - np.maximum(ends[:-1], due[1:])
    parts = np.asarray([part.mean() for part in np.array_split(busy, min(10, len(busy) // 2))])
    between = max(seconds / (count - 1), 1 / rate if rate else 0.0)
    is_behind = _around(parts, _SURE)[0] > between
    if slices >= FEWEST_LOST:
        edges = np.linspace(float(due[0]), float(due[-1]), slices + 1)
        is_behind |= _around(np.histogram(due, edges)[0] - np.histogram(end, edges)[0], _SURE)[0] > 0
    growth = float((end > due[-1]).sum()) / seconds
    if is_behind and _rises(latency, _SURE):
        return Balance(True, growth)
    perhaps = float(busy.mean()) > between and _rises(latency, _PERHAPS)
    return Balance(False, growth, 1 / _around(parts, _SURE)[1] if perhaps else math.inf)


def _around(values: Floats, sure: float) -> tuple[float, float]:
    half = t_quantile(sure, len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.mean()) - half, float(values.mean()) + half


def _rises(latency: Floats, sure: float) -> bool:
    """Whether latencies go up with time: a line through the means of ten groups says so."""
    groups = [float(part.mean()) for part in np.array_split(latency, min(10, len(latency) // 2))]
    x = np.arange(len(groups)) - (len(groups) - 1) / 2
    y = np.asarray(groups) - float(np.mean(groups))
    slope = float(x @ y) / float(x @ x)
    left = y - slope * x
    error = math.sqrt(float(left @ left) / max(1, len(groups) - 2) / float(x @ x))
    return slope > t_quantile(sure, max(1, len(groups) - 2)) * error and groups[-1] > 1.1 * groups[0]


def dead_since(due: Floats, end: Floats, is_whole: Whole, users: int = 0) -> float | None:
    """When the last answer came, if all later requests failed, for longer than ever before and more in a row
    than chance has it, or as many as there are users, who waited for long; else None."""
    count, ends = int(np.nonzero(is_whole)[0][-1]) + 1, np.sort(end[is_whole])
    lost, last = len(due) - count, float(ends[-1])
    before = max(LOST, float(1 - is_whole[:count].mean()))
    is_longest = float(end.max()) - last > float(np.diff(ends).max(initial=0.0))
    is_dead = lost >= FEWEST_LOST and before**lost <= MOST_BY_CHANCE and is_longest
    is_dead |= 0 < users <= int((end > last).sum()) and float(end.max() - last) > LONG * (last - due[0])
    return last if is_dead and due[-1] >= last else None


def grew_since(due: Floats, end: Floats) -> float:
    """Second of the level until which a queue that grows was no longer than in its first quarter; 0.0 if that
    is over before two fifths of it, as of a server that never kept up."""
    under_way = np.arange(1, len(due) + 1) - np.searchsorted(np.sort(end), due)
    first = float(np.median(under_way[: max(1, len(due) // 4)]))
    since = float(due[np.nonzero(under_way <= first)[0][-1]] - due[0])
    return since if since > 0.4 * (due[-1] - due[0]) else 0.0


def step(due: Floats, latency: Floats) -> tuple[float, float] | None:
    """From which second on answers took another time, and how many times that before: of medians of slices.

    Busy spells of a queue may look alike, but seldom do: 5 of 344 levels of servers that did not change."""
    due, latency = due[np.isfinite(latency)], latency[np.isfinite(latency)]
    parts = np.array_split(np.arange(len(due)), SLICES)
    if len(parts[-1]) < FEWEST_LOST:
        return None
    medians = [max(float(np.median(latency[part])), 1e-9) for part in parts]
    if max(medians) < STEP * min(medians):
        return None
    for at in range(SHORTEST, SLICES - SHORTEST + 1):  # a clean cut: neither side differs so much in itself
        (a, b), (c, d) = ((min(side), max(side)) for side in (medians[:at], medians[at:]))
        if b < STEP * a and d < STEP * c and (STEP * b <= c or STEP * d <= a):
            return float(due[parts[at][0]]), float(np.median(medians[at:]) / np.median(medians[:at]))
    (found,) = changes([medians], BY_CHANCE, STEP - 1)
    return (float(due[parts[found[0].at][0]]), found[0].ratio) if found else None


def longest_pause(
    due: Floats, end: Floats, is_whole: Whole, users: int = 0
) -> tuple[float, float, int] | None:
    """When a server stood still, in seconds since the run started, and the requests that came meanwhile.

    None unless that was many times what is usual there and requests were waiting: all users, if they are few.
    Users who are answered at once, in waves, have pauses all the time."""
    ends = np.sort(end[is_whole])
    if len(ends) < FEWEST:
        return None
    gaps = np.diff(ends)
    at, ordered = int(gaps.argmax()), np.sort(gaps)
    since, until = float(ends[at]), float(ends[at + 1])
    usual = float(ordered[:-1].mean())
    is_seldom = 2 * ordered[3 * ordered > ordered[-1]].sum() < ordered.sum()
    is_long = (ordered[-1] > 20 * usual and is_seldom) or ordered[-1] > max(8 * usual, 3 * ordered[-2])
    fewest = max(2, min(users or FEWEST_LOST, FEWEST_LOST))
    came = int(((due >= since) & (due < until)).sum())
    waiting = int(((due < since) & (end > since)).sum())
    return (since, until, came) if is_long and came + waiting >= fewest else None
