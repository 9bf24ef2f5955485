"""Timed trials in fresh processes: one of a recipe, and a pair of two recipes side by side in time."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from laptime.tuning.trial.messages import Block, TrialResult


@dataclass(frozen=True)
class TimedTrial:
    """One fresh process: its blocks of timed steps, and its own account."""

    blocks: list[Block]
    result: TrialResult

    @property
    def seconds(self) -> list[float]:
        """Of all timed steps."""
        return [seconds for block in self.blocks for seconds in block.seconds]

    @property
    def per_sample(self) -> float:
        """Seconds per sample, median over blocks."""
        return median(per_sample(block) for block in self.blocks)

    @property
    def losses(self) -> list[float]:
        """Of all timed steps."""
        return [loss for block in self.blocks for loss in block.losses]


@dataclass(frozen=True)
class TrialPair:
    """Two fresh processes with the same seed, one after the other."""

    baseline: TimedTrial
    final: TimedTrial

    @property
    def ratio(self) -> float:
        """Time per sample, final over baseline."""
        return self.final.per_sample / self.baseline.per_sample

    @property
    def memory(self) -> float | None:
        """Peak, final over baseline; None where one is unknown."""
        baseline, final = self.baseline.result.peak, self.final.result.peak
        return final / baseline if baseline and final else None


def per_sample(block: Block) -> float:
    """Seconds per sample over the whole block, without compiling.

    Not the median of its steps: with prefetching workers steps come in bursts, and a median would hide the
    wait for data. Compiling is paid once, not in every block.
    """
    samples = sum(block.samples) or len(block.seconds)
    least = len(block.seconds) * min(block.seconds)
    return max(sum(block.seconds) - block.compiling, least) / samples
