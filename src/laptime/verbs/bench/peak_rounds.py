"""When a device's peak is measured: in short blocks before the cases', in the worker whose turn it is.

A block takes some 40 ms: 20 ms of timed products, two calls before them, and making the matrices. Each
variant gets the fewest that an interval needs, then no more than its part of `SHARE` of the time. Its samples
go to all of its cases: the same device, dtype and threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from msgspec import structs

from laptime.analysis.achieved import FEWEST, TAG
from laptime.records.case import Case
from laptime.records.details import Peak
from laptime.records.plan import Variant
from laptime.records.series import Series
from laptime.verbs.bench.case_worker import CaseWorker

SHARE = 0.04
"""Share of the measuring time that the peaks of all variants may take together."""

MOST_TRIES = 8
"""Blocks after which a variant has had its chances of `FEWEST` undisturbed ones."""

WARM = 0.1
"""Seconds of a call from which on nothing shows of the caches that a product has left cold before it."""


@dataclass
class _Account:
    """What one variant's peak has taken.

    Attributes:
        tries: blocks so far. quiet: those of them that nothing disturbed.
        spent: seconds of them in this generation. facts: what the worker tells of them.
        is_over: a block came to nothing, so there are no more.
    """

    tries: int = 0
    quiet: int = 0
    spent: float = 0.0
    is_over: bool = False
    facts: Peak | None = None


class PeakRounds:
    """Decides and keeps account.

    Args:
        variants: every one has an account of its own.
        wanted: whether peaks are measured at all.
    """

    def __init__(self, variants: list[Variant], *, wanted: bool) -> None:
        self._accounts = [_Account(is_over=not wanted) for _ in variants]
        self._variants = variants

    def begin(self) -> None:
        """A generation of workers begins to measure."""
        for account in self._accounts:
            account.spent = 0.0

    def _account(self, variant: Variant) -> _Account:
        return next(a for a, v in zip(self._accounts, self._variants, strict=True) if v is variant)

    def is_due(self, variant: Variant, elapsed: float) -> bool:
        """Whether a block may be measured now, `elapsed` seconds after measuring began."""
        account = self._account(variant)
        share = SHARE * elapsed / len(self._accounts)
        is_short = account.quiet < FEWEST and account.tries < MOST_TRIES
        return not account.is_over and (is_short or account.spent <= share)

    def enter(self, variant: Variant, samples: list[Series], facts: Peak | None, *, seconds: float) -> None:
        """Keep account of one block: its samples, what the worker told of it, and how long it took."""
        account = self._account(variant)
        account.tries += 1
        account.quiet += sum(not any(series.label) for series in samples)
        account.spent += seconds
        account.is_over = facts is None or bool(facts.reason)
        account.facts = account.facts or facts

    def told(self, worker: CaseWorker, case: Case) -> Case:
        """The case with what is known of its peak; of that on paper, where none was measured."""
        facts, series = self._account(worker.variant).facts or Peak(), case.find(TAG)
        if series is not None and series.samples:
            known = structs.replace(facts, flops=median(series.samples))
        else:
            paper = worker.peak_on_paper()
            known = structs.replace(
                facts, limit=facts.limit or paper.limit, source=facts.source or paper.source
            )
        return structs.replace(case, details=structs.replace(case.details, peak=known))
