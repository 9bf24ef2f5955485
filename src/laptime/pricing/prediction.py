"""What a machine that is not at hand would probably do: only between machines that were measured.

The same program was measured on at least three machines. The share of its bound that each reached is taken
for log-normal; a further machine of the same kind, whose bound lies between theirs, gets its own bound
times the geometric mean share, with Student's t interval for one new draw. How wrong this is on the
measured machines is told with it: each is predicted from the others.

Lies when: what limits the program is not in the bound (launches, Python, the loader), and changes between
machines.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from laptime.analysis.student_t import t_quantile
from laptime.kit.text import count
from laptime.pricing.bounds import kinds
from laptime.records.cost import Machine, Prediction

FEWEST = 3


class Reached(NamedTuple):
    """Calls per second that one accelerator, or all cores, of a machine reached, and their bound."""

    machine: Machine
    rate: float
    bound: float


class Predicted(NamedTuple):
    """Calls per second of one accelerator, or of all cores, with a 95 % interval for this one machine."""

    rate: float
    ci95: tuple[float, float]


def quality(reached: Sequence[Reached]) -> Prediction:
    """Whether anything can be predicted from these, and how wrong it is when one of them is left out."""
    names = [each.machine.name for each in reached]
    why_not = ""
    if len({*names}) < FEWEST:
        why_not = f"{count(len({*names}), 'machine')} measured, {FEWEST} are needed"
    elif len(kinds(each.machine for each in reached)) > 1:
        why_not = "some of the measured machines are CPUs, others have accelerators"
    if why_not:
        return Prediction(machines=names, why_not=why_not)
    errors = []
    for index, left_out in enumerate(reached):
        others = [_share(each) for at, each in enumerate(reached) if at != index]
        errors.append(abs(statistics.fmean(others) - _share(left_out)))
    return Prediction(machines=names, error=math.exp(statistics.fmean(errors)), worst=math.exp(max(errors)))


def predict(reached: Sequence[Reached], machine: Machine, bound: float) -> Predicted | str:
    """The rate of a machine with this bound, or why it is not predicted."""
    if kinds([machine]) != kinds(each.machine for each in reached):
        return "the measured machines are of another kind"
    bounds = [each.bound for each in reached]
    if not min(bounds) <= bound <= max(bounds):
        return "its peak lies outside those of the measured machines"
    shares = [_share(each) for each in reached]
    mean, spread = statistics.fmean(shares), statistics.stdev(shares)
    reach = t_quantile(0.975, len(shares) - 1) * spread * math.sqrt(1 + 1 / len(shares))
    # No prediction beats the bound.
    low, middle, high = (bound * min(1.0, math.exp(mean + step)) for step in (-reach, 0.0, reach))
    return Predicted(middle, (low, high))


def _share(reached: Reached) -> float:
    return math.log(reached.rate / reached.bound)
