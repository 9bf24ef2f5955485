"""One level: sent, collected as it comes, and made a case."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import structs

from laptime.analysis.load.level import level_stats
from laptime.kit.clock import SystemClock
from laptime.launch.sender_process import Senders
from laptime.launch.worker_process import CommandFailed
from laptime.loadgen import checks
from laptime.loadgen.messages import Answer, Answers, LevelDone
from laptime.loadgen.messages import Level as Order
from laptime.loadgen.promise import goodput, judged, promises
from laptime.measure.metrics import LATENCY
from laptime.records.case import Case
from laptime.records.event import CaseAdded, CaseChanged, Measured, Progress
from laptime.records.load import (
    ANSWERED,
    FAILED,
    FIRST,
    GAP,
    LATE,
    TOKENS_IN,
    TOKENS_OUT,
    TPOT,
    TTFT,
    TURN,
    TURN_NUMBER,
    Errors,
    Level,
    details,
)
from laptime.records.metric import Metric
from laptime.records.series import Series
from laptime.store.live_run import LiveRun
from laptime.verbs.load.looks import Looks

if TYPE_CHECKING:
    from laptime.loadgen.server_metrics import MetricsPage  # it needs h11

LEAD = 0.1
"""Seconds between an order and its first request: all senders have read it by then."""


class LevelRun:
    """Carries out one level and tells of it.

    Args:
        live: the run it belongs to.
        began: when that started, on the clock of the senders.
        case: with its key, axes and target.
        share: [from, to] of the whole work, for the progress. after: seconds of the levels that follow.
        metrics: of the server, asked before and after.
        looks: say when the level ends; None: when its schedule does.
    """

    def __init__(
        self,
        live: LiveRun,
        began: float,
        case: Case,
        facts: Level,
        *,
        share: Sequence[float] = (0.0, 1.0),
        after: float = 0.0,
        metrics: MetricsPage | None = None,
        looks: Looks | None = None,
    ) -> None:
        self._live, self._began, self._case, self._facts = live, began, case, facts
        self._metrics, self._looks = metrics, looks
        (self._from, self._to), self._after = share, after
        self._errors: dict[str, Errors] = {}
        self._answered = self._failed = 0
        self._sizes: list[int] = []
        self._last = 0.0
        self._chunks = self._uncounted = self._cached = 0
        self._cpu = 0.0
        self._stalls: list[list[float]] = []

    def carry_out(self, senders: Senders, order: Order) -> Case:
        """Send all of it; the case with its checks. What came before an interruption is kept."""
        counted = self._metrics.read() if self._metrics else None
        begin = SystemClock.now() + LEAD
        order = structs.replace(order, begin=begin)
        self._facts = structs.replace(self._facts, begin=begin - self._began, senders=senders.count)
        self._live(CaseAdded(structs.replace(self._case, details=details(self._facts))))
        try:
            for message in senders.level(order):
                if isinstance(message, Answers):
                    self._take(message.answers)
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
        if self._metrics and counted:
            server = self._metrics.settled(counted, self._answered)
            self._facts = structs.replace(self._facts, server=server)
        return self._finish("ok")

    def _look(self, senders: Senders) -> None:
        """End a level that has told enough."""
        if self._looks is None or self._facts.ended:
            return
        seconds = self._last - self._began - self._facts.begin
        if reason := self._looks.reason(self._live.case(self._case.key), seconds):
            senders.stop()
            self._facts = structs.replace(self._facts, ended=reason, window=seconds)

    def _progress(self, begin: float, order: Order) -> None:
        gone = max(0.0, SystemClock.now() - begin)
        if expected := order.requests or (0 if order.end else len(order.due)):
            done = min(1.0, (self._answered + self._failed) / expected)
            left = gone * (1 - done) / done if done else 0.0
        else:
            done, left = min(1.0, gone / order.end) if order.end else 1.0, max(0.0, order.end - gone)
        text = f"{label(self._facts)}: {self._answered} answered" + (
            f", {self._failed} failed" if self._failed else ""
        )
        self._live(Progress(self._from + (self._to - self._from) * done, left + self._after, text))

    def _take(self, answers: Sequence[Answer]) -> None:
        good = [answer for answer in answers if not answer.error]
        bad = [answer for answer in answers if answer.error]
        self._last = max([self._last, *(answer.end for answer in answers)])
        self._answered += len(good)
        self._failed += len(bad)
        for answer in bad:
            known = self._errors.get(answer.error)
            self._errors[answer.error] = Errors(
                kind=answer.error,
                count=known.count + 1 if known else 1,
                example=known.example if known else answer.detail,
            )
        sizes = [answer.size for answer in good]
        self._sizes = [min([*sizes, *self._sizes]), max([*sizes, *self._sizes])] if sizes else self._sizes
        self._measured(LATENCY, good, [answer.end - answer.due for answer in good])
        self._measured(LATE, good, [answer.woken - answer.due for answer in good])
        self._measured(TURN, good, [answer.sent - answer.woken for answer in good])
        self._measured(FIRST, good, [answer.first - answer.due for answer in good])
        if self._facts.asked is not None:
            self._take_tokens(good)
        self._measured(FAILED, bad, [answer.end - answer.due for answer in bad])

    def _take_tokens(self, good: Sequence[Answer]) -> None:
        """What a language model's answers tell besides."""
        counted = [answer for answer in good if answer.usage]
        many = [answer for answer in counted if answer.usage[1] > 1]
        gaps = [(answer, after - before) for answer in good for before, after in pairwise(answer.chunks)]
        self._chunks += sum(len(answer.chunks) for answer in good)
        self._uncounted += len(good) - len(counted)
        self._cached += sum(answer.usage[2] for answer in counted)
        self._measured(TTFT, good, [answer.first - answer.due for answer in good])
        if self._facts.turns > 1:
            self._measured(TURN_NUMBER, good, [answer.turn + 1 for answer in good])
        self._measured(TPOT, many, [(each.end - each.first) / (each.usage[1] - 1) for each in many])
        self._measured(GAP, [answer for answer, _ in gaps], [seconds for _, seconds in gaps])
        self._measured(TOKENS_IN, counted, [answer.usage[0] for answer in counted])
        self._measured(TOKENS_OUT, counted, [answer.usage[1] for answer in counted])

    def _measured(self, metric: Metric, answers: Sequence[Answer], values: Sequence[float]) -> None:
        if not answers:
            return
        series = Series(
            metric=metric,
            regime=self._facts.regime,
            samples=[round(value, 7) for value in values],
            at=[round(answer.due - self._began, 7) for answer in answers]
            if metric in (LATENCY, FAILED, TTFT, TPOT)
            else [],
            probe="client",
            clock="perf_counter",
        )
        self._live(Measured(self._case.key, series))

    def _finish(self, status: str) -> Case:
        window = self._facts.window
        if self._facts.kind == "closed" and self._last:
            window = min(window, self._last - self._began - self._facts.begin)
        sent = self._answered + self._failed
        facts = structs.replace(
            self._facts,
            scheduled=sent if self._facts.ended else self._facts.scheduled,
            ended=self._facts.ended or ("limit" if self._looks and status == "ok" else ""),
            window=round(window, 4),
            answered=self._answered,
            failed=self._failed,
            cpu=round(self._cpu, 4),
            stalls=[[round(at, 4), round(seconds, 4)] for at, seconds in self._stalls],
            errors=sorted(self._errors.values(), key=lambda each: -each.count),
            chunks=self._chunks,
            uncounted=self._uncounted,
            cached=self._cached,
            sizes=(self._sizes[0], self._sizes[1]) if self._sizes else None,
        )
        case = structs.replace(self._live.case(self._case.key), details=details(facts), status=status)
        stats = level_stats(case)
        if stats is not None and stats.answered.value:
            case = case.with_series(Series(metric=ANSWERED, samples=[stats.answered.value]))
        case = structs.replace(case, checks=checks.run_all(case, stats))
        if facts.slo:
            verdict = judged(promises(facts.slo), stats)
            word = "undecided" if case.trust == "invalid" and stats is not None else verdict.word
            good = goodput(promises(facts.slo), case, stats) if stats else None
            facts = structs.replace(facts, kept=word, said=verdict.sentence, goodput=good)
            case = structs.replace(case, details=details(facts))
        self._live(CaseChanged(case))
        return case


def label(facts: Level) -> str:
    """A level in words: `8 requests/s`, `32 users`."""
    if facts.kind == "open":
        rate = f"{facts.rate:.4g} requests/s" if facts.rate else "as in the trace"
        return rate + (f", at most {facts.concurrency} at once" if facts.concurrency else "")
    return f"{facts.concurrency} user" + ("s" if facts.concurrency != 1 else "")
