"""How a training grows with its ranks: samples per second, efficiency, and the fewest ranks for a rate.

    efficiency    (rate of N / N) / (rate of the fewest / fewest); weak: each rank keeps its batch; strong:
                  all share the batch of the fewest, so it is the ratio of times for the same samples
    bound         N ranks give at most N x the rate a rank has at the most ranks measured

Jobs of one round ran within minutes of each other, so each round has an efficiency of its own; the interval
is that of rounds, as processes differ. The bound holds if efficiency does not rise with ranks."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from laptime.analysis.paired import of_processes
from laptime.records.case import Case
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Judgement, Quantity
from laptime.records.scale import RATE


class RankRow(NamedTuple):
    """One number of ranks."""

    case: Case
    ranks: int
    scaling: str  # weak, strong, or "" for the fewest ranks
    rate: Quantity  # samples per second of all ranks
    efficiency: Quantity

    @property
    def name(self) -> str:
        """`2 ranks`, `4 ranks sharing a batch`."""
        ranks = f"{self.ranks} rank{'' if self.ranks == 1 else 's'}"
        return f"{ranks} sharing a batch" if self.scaling == "strong" else ranks

    @property
    def takes_turns(self) -> bool:
        """Whether its ranks had to share CPUs."""
        return any(check.name == "cpus" and check.outcome == "warn" for check in self.case.checks)

    @property
    def step(self) -> Quantity:
        """Mean time of a step, in seconds."""
        known = self.case.details.ranks
        return self.rate.invert(known.samples if known else 1.0, "s")


def rank_rows(cases: Sequence[Case]) -> list[RankRow]:
    """A row a case that has a rate, fewest ranks first; weak before strong."""
    measured = [(case, series) for case in cases if (series := case.find(RATE.tag)) and series.samples]
    measured.sort(key=lambda pair: (_ranks(pair[0]), pair[0].axes["scaling"] == "strong"))
    if not measured:
        return []
    base, alone = measured[0]
    each = {at: rate / _ranks(base) for at, rate in zip(alone.round, alone.samples, strict=True)}
    rows = []
    for case, series in measured:
        rounds = zip(series.round, series.samples, strict=True)
        ratios = [rate / _ranks(case) / each[at] for at, rate in rounds if at in each]
        own = Quantity(1.0, exact=True) if case is base else of_processes(ratios or [math.nan])
        scaling = "" if case is base else str(case.axes["scaling"])
        rows.append(RankRow(case, _ranks(case), scaling, of_processes(series.samples, "1/s"), own))
    return rows


def _ranks(case: Case) -> int:
    ranks = case.axes["ranks"]
    assert isinstance(ranks, int)
    return ranks


class Answer(NamedTuple):
    """Which ranks reach a rate."""

    word: Judgement
    met: RankRow | None  # the fewest ranks that certainly do
    open: list[RankRow]  # fewer ones that may
    bound: int  # fewer ranks than that cannot, by what was measured; 0: no bound is needed, or there is none


def fewest(rows: Sequence[RankRow], target: float) -> Answer:
    """The fewest ranks that give `target` samples per second."""
    words = [(row, row.rate.judge(target, at_least=True)) for row in rows]
    met = next((row for row, word in words if word is KEPT), None)
    open_ = [row for row, word in words if word is UNDECIDED and (met is None or row.ranks < met.ranks)]
    most = bound(rows, 1)
    needed = 0 if met or open_ or not most else max(rows[-1].ranks + 1, math.ceil(target / most))
    return Answer(KEPT if met else UNDECIDED if open_ else BROKEN, met, open_, needed)


def bound(rows: Sequence[RankRow], ranks: int) -> float:
    """Samples per second that so many ranks do not exceed: by the most ranks that had CPUs of their own."""
    apart = [row for row in rows if not row.takes_turns] or list(rows)
    most = max((row.ranks for row in apart), default=1)
    highest = max((row.rate.high or row.rate.value for row in apart if row.ranks == most), default=0.0)
    return highest * ranks / most
