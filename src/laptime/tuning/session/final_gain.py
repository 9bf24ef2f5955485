"""The gain of the whole: as it is and the final set, measured again in pairs of new processes.

No other number is called the gain (`experiment.pairs` has it). What of a budget a search leaves to it, and to
what else follows, is decided here: by what that costs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Literal

from laptime.analysis.paired import of_processes
from laptime.experiment.pairs import FEWEST, LEAST, Pair, Visited
from laptime.kit.units import show
from laptime.records.tuning import Measured, Shortfall, Speedup

MOST_RESERVED = 0.4
"""Share of the budget that is kept back at most for more than the least: something is tried first."""
CAUTION = 1.15  # factor on what is kept back: a machine that others use is slower at times


def speeds(pairs: Sequence[Pair], gain: Speedup | None) -> tuple[Measured, Measured]:
    """Speeds of both sides, as it is and final, as far apart as the gain: it weighs rounds, and without those
    that something else disturbed the sides differ by another factor than their medians do."""
    seen = (pair.baseline.figure / pair.final.figure for pair in pairs)
    by = math.sqrt(gain.value / geometric_mean(seen)) if gain else 1.0
    return speed([pair.baseline for pair in pairs], by), speed([pair.final for pair in pairs], 1 / by)


def speed(visits: Sequence[Visited], by: float = 1.0) -> Measured:
    """Speed of one side: geometric means over its processes, times longer by a factor; the largest peak."""
    steps = [by * median(visit.seconds) for visit in visits]
    peaks = [visit.peak for visit in visits if visit.peak]
    return Measured(
        step=geometric_mean(steps),
        throughput=geometric_mean(visit.rate for visit in visits) / by,
        processes=len(visits),
        steps=sum(len(visit.seconds) for visit in visits),
        samples=[visit.seconds for visit in visits],
        peak=max(peaks) if peaks else None,
        ci95=of_processes(steps).interval,
    )


# The budget


@dataclass(frozen=True, kw_only=True)
class FinalCost:
    """Seconds of what follows a search, if it ended now."""

    gate: float  # of the final set
    pair: float  # as it is and the final set, each in a fresh process
    check: float = 0.0  # the recipe once more, beside a patched script
    record: float = 0.0  # of profiles, or of what bounds a call
    hand_back: float = 2.0  # all files
    hurried: float = math.inf  # a pair whose processes are forks; inf: there are none
    between: float = 0.0  # what is chosen before it, if there is time

    @property
    def usual(self) -> float:
        """A gate, the usual pairs, and all else."""
        return self.gate + FEWEST * self.pair + self.check + self.record + self.hand_back

    @property
    def least(self) -> float:
        """A gate, and the fewest pairs that give an interval."""
        return self.bare + LEAST * min(self.pair, self.hurried)

    @property
    def bare(self) -> float:
        """A gate: what a change needs to be handed back without a measured gain."""
        return self.gate + self.hand_back

    def keep_back(self, budget: float) -> float:
        """Seconds of a budget that a search leaves alone: the usual, and never less than the least."""
        return CAUTION * max(self.least, min(self.usual, MOST_RESERVED * budget / CAUTION))

    def shortfall(self, began: float, budget: float) -> Shortfall:
        """Return the time that measuring the gain again lacked, if it began at that second of the session."""
        needs = LEAST * min(self.pair, self.hurried) + self.hand_back
        return shortfall("measurement", "the gain was not measured again", needs, began, budget - began)


def shortfall(
    what: Literal["race", "measurement"],
    lead: str,
    needs: float,
    began: float,
    left: float,
    more: float = 0.0,
) -> Shortfall:
    """A record of what the budget was too short for, and the budget that would do, in half minutes. needs:
    seconds, from second `began` on, when `left` were left. more: seconds of what follows it."""
    enough = 30.0 * math.ceil((began + CAUTION * (needs + more)) / 30.0)
    left = max(0.0, left)
    sentence = (
        f"{lead}: it takes about {show(needs, 's')}, and {show(left, 's')} were left; "
        f"a budget of about {enough:.0f} s would be enough"
    )
    return Shortfall(what=what, needs=needs, left=left, budget=enough, sentence=sentence)
