"""One level: sent, collected as it comes, ended when it has told enough, and made a case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from msgspec import structs

from laptime.analysis.load import level_stats
from laptime.analysis.promises import level_judged, promises
from laptime.kit.clock import SystemClock
from laptime.launch.sender import Senders
from laptime.launch.worker import CommandFailed
from laptime.loadgen import checks
from laptime.loadgen.checks import WIDEST, enough
from laptime.loadgen.messages import Answers, LevelDone
from laptime.loadgen.messages import Level as Order
from laptime.loadgen.promise import goodput
from laptime.records.case import Case
from laptime.records.details import Details
from laptime.records.event import CaseAdded, CaseChanged, Progress, RequestsEnded
from laptime.records.load import ANSWERED, Errors, Level
from laptime.records.requests import Requests
from laptime.records.series import Series
from laptime.store.live_run import LiveRun

if TYPE_CHECKING:
    from laptime.loadgen.server_metrics import MetricsPage  # it needs h11

LEAD = 0.1  # seconds between an order and its first request: all senders have read it by then


@dataclass(eq=False)
class LevelRun:
    """Carries out one level and tells of it."""

    _live: LiveRun  # the run it belongs to
    _began: float  # when that started, on the clock of the senders
    _case: Case  # with its key, axes and target
    _facts: Level
    _: KW_ONLY
    share: Sequence[float] = (0.0, 1.0)  # from and to of the whole work, for the progress
    after: float = 0.0  # seconds of the levels that follow
    metrics: MetricsPage | None = None  # of the server, asked before and after
    looks: Looks | None = None  # say when the level ends; None: when its schedule does
    _answered: int = 0
    _last: float = 0.0
    _cpu: float = 0.0
    _errors: dict[str, Errors] = field(default_factory=dict)
    _stalls: list[list[float]] = field(default_factory=list)

    def carry_out(self, senders: Senders, order: Order) -> Case:
        """Send all of it; the case with its checks. What came before an interruption is kept."""
        counted = self.metrics.read() if self.metrics else None
        begin = SystemClock.now() + LEAD
        order = structs.replace(order, begin=begin)
        self._facts = structs.replace(self._facts, begin=begin - self._began, senders=senders.count)
        self._live(CaseAdded(structs.replace(self._case, details=Details(load=self._facts, unit="request"))))
        try:
            for message in senders.level(order):
                if isinstance(message, Answers):
                    self._last = max([self._last, *(answer.end for answer in message.answers)])
                    for answer in message.answers:
                        if answer.is_whole:
                            self._answered += 1
                            continue
                        new = Errors(kind=answer.error, count=0, example=answer.detail)
                        known = self._errors.get(answer.error, new)
                        self._errors[answer.error] = structs.replace(known, count=known.count + 1)
                    rows = Requests.of(message.answers, self._facts.regime, self._began)
                    self._live(RequestsEnded(self._case.key, rows))
                    self._look(senders)
                elif isinstance(message, LevelDone):
                    self._cpu = max(self._cpu, message.cpu / message.wall if message.wall else 0.0)
                    self._stalls += [[at - self._began, seconds] for at, seconds in message.stalls]
                self._progress(begin, order)
        except KeyboardInterrupt:
            self._finish("interrupted")
            raise
        except CommandFailed as error:
            case = structs.replace(self._live.case(self._case.key), status="failed", failure=error.failure)
            self._live(CaseChanged(case))
            raise
        if self.metrics and counted:
            server = self.metrics.settle(counted, self._answered)
            self._facts = structs.replace(self._facts, server=server)
        return self._finish("ok")

    def _look(self, senders: Senders) -> None:
        """End a level that has told enough."""
        if self.looks is None or self._facts.ended:
            return
        seconds = self._last - self._began - self._facts.begin
        if reason := self.looks.reason(self._live.case(self._case.key), seconds):
            senders.stop()
            self._facts = structs.replace(self._facts, ended=reason, window=seconds)

    def _progress(self, begin: float, order: Order) -> None:
        gone = max(0.0, SystemClock.now() - begin)
        failed = sum(error.count for error in self._errors.values())
        if expected := order.requests or (0 if order.end else len(order.due)):
            done = min(1.0, (self._answered + failed) / expected)
            left = gone * (1 - done) / done if done else 0.0
        else:
            done, left = min(1.0, gone / order.end) if order.end else 1.0, max(0.0, order.end - gone)
        text = f"{label(self._facts)}: {self._answered} answered" + (f", {failed} failed" if failed else "")
        low, high = self.share
        self._live(Progress(low + (high - low) * done, left + self.after, text))

    def _finish(self, status: str) -> Case:
        window = self._facts.window
        if self._facts.kind == "closed" and self._last:
            window = min(window, self._last - self._began - self._facts.begin)
        case = self._live.case(self._case.key)
        rows = case.requests.rows() if case.requests else []
        whole = [row for row in rows if row.is_whole]
        counted = [row for row in whole if row.usage]
        sizes = [row.size for row in whole]
        facts = structs.replace(
            self._facts,
            scheduled=len(rows) if self._facts.ended else self._facts.scheduled,
            ended=self._facts.ended or ("limit" if self.looks and status == "ok" else ""),
            window=round(window, 4),
            answered=len(whole),
            failed=len(rows) - len(whole),
            cpu=round(self._cpu, 4),
            stalls=[[round(at, 4), round(seconds, 4)] for at, seconds in self._stalls],
            errors=sorted(self._errors.values(), key=lambda each: -each.count),
            chunks=sum(len(row.chunks) for row in whole),
            uncounted=len(whole) - len(counted) if self._facts.asked else 0,
            cached=sum(row.usage[2] for row in counted),
            sizes=(min(sizes), max(sizes)) if sizes else None,
        )
        case = structs.replace(case, details=Details(load=facts, unit="request"), status=status)
        stats = level_stats(case)
        if stats is not None and stats.answered.value:
            case = case.with_series(Series(metric=ANSWERED, samples=[stats.answered.value]))
        case = structs.replace(case, checks=checks.run_all(case, stats))
        if facts.slo:
            verdict = level_judged(promises(facts.slo), stats)
            word = "undecided" if case.trust == "invalid" and stats is not None else verdict.word
            good = goodput(promises(facts.slo), stats) if stats else None
            facts = structs.replace(facts, kept=word, said=verdict.sentence, goodput=good)
            case = structs.replace(case, details=Details(load=facts, unit="request"))
        self._live(CaseChanged(case))
        return case


def label(facts: Level) -> str:
    """A level in words: `8 requests/s`, `32 users`."""
    if facts.kind == "open":
        rate = f"{facts.rate:.4g} requests/s" if facts.rate else "as in the trace"
        return rate + (f", at most {facts.concurrency} at once" if facts.concurrency else "")
    return f"{facts.concurrency} user" + ("s" if facts.concurrency != 1 else "")


# A level without a fixed length: go on until the interval by batch means is narrow against the mean (Law &
# Carson, A Sequential Procedure for Determining the Length of a Steady-State Simulation, Operations Research
# 27, 1979).

MARGIN = 0.9  # of the width that is asked for: answers after the look may make the interval a little wider
FIRST, FACTOR = 5.0, 1.3  # seconds until the first look, and by how much each is later than the one before


class Looks:
    """At one level. slo: promises that have to be decided as well."""

    def __init__(self, slo: str) -> None:
        self._slo = slo
        self._next = FIRST
        self._grew = False

    def reason(self, case: Case, seconds: float) -> str:
        """Say why the level may end: "precise", "unstable", or "" if it has to go on.

        A queue that grows has to be seen to at two looks in turn: one of many may err.

        seconds: since its first request."""
        if seconds < self._next:
            return ""
        self._next = max(seconds, self._next) * FACTOR
        stats = level_stats(case)
        if stats is None:
            return ""
        grew, self._grew = self._grew, stats.balance.grows
        if stats.balance.grows:
            return "unstable" if grew else ""
        if enough(case, stats, widest=MARGIN * WIDEST) is not None:
            return ""
        is_open = self._slo and level_judged(promises(self._slo), stats).word == "undecided"
        return "" if is_open else "precise"
