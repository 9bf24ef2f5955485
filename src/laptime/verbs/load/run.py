"""`load`: levels of load, one after another, each from a schedule that was drawn before its first request.

request ── target ── senders (processes) ── level ── case ── checks ..."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import structs

from laptime.analysis.promises import promises
from laptime.kit.clock import SystemClock
from laptime.kit.errors import UsageError, UserCodeError
from laptime.kit.units import estimate, show, show_interval
from laptime.launch.sender import Senders
from laptime.launch.worker import CommandFailed
from laptime.loadgen.messages import Endpoint
from laptime.loadgen.messages import Level as Order
from laptime.probes import machine
from laptime.records.case import Axis, Case
from laptime.records.check import Finding
from laptime.records.event import CaseChanged, FindingAdded, Listener, ignore
from laptime.records.load import AT_SLO_RATE, Level
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.records.series import Series
from laptime.store.live_run import LiveRun
from laptime.verbs.load.level_run import LevelRun, Looks
from laptime.verbs.load.levels import PeakLevel, Planned, at_once, find_peak, open_level, plan_levels, resolve
from laptime.verbs.load.request import DURATION, LoadRequest
from laptime.verbs.load.senders import Generator, metrics_page, sender_target

if TYPE_CHECKING:
    from laptime.loadgen.server_metrics import MetricsPage  # it needs h11

RECORDED = (
    *("rates", "concurrency", "arrivals", "duration", "auto", "requests", "seed", "scenario", "slo"),
    *("find_peak", "budget", "usd_per_hour", "model", "prompt", "output", "shared_prefix", "tokenizer"),
    *("turns", "method", "timeout", "senders", "save"),
)


def load(request: LoadRequest, emit: Listener = ignore) -> Run:
    """Put load on a target. The run, a case a level. After Ctrl-C its status is "interrupted" and it holds
    what came until then.
    Raises UsageError: the request is impossible, or the target does not answer; nothing was measured."""
    request = resolve(request)
    request.check()
    target, subject = sender_target(request)
    own: dict[str, Axis] = {} if isinstance(target, Endpoint) else {"server": "own"}
    levels = [] if request.find_peak else plan_levels(request, subject.target, own)
    live, began = LiveRun("load", emit), SystemClock.now()
    plan = _settings(request, target)
    live.start(name=request.name, subjects=[subject], environment=machine.environment(), plan=plan)
    status = "complete"
    senders: Senders | None = None
    try:
        live.say(f"asking {subject.target}")
        senders = _open(target, request.senders or 1)
        page = metrics_page(request, target)
        work = _Levels(request, subject.target, own, senders, live, began, page)
        if request.find_peak:
            work.search()
        else:
            work.all(levels)
    except KeyboardInterrupt:
        status = "interrupted"
    except CommandFailed:
        status = "failed"  # the case says why; what came before is kept
    finally:
        if senders is not None:
            senders.close()
    return live.finish(status)


@dataclass(eq=False)
class _Levels:
    """Levels carried out by senders that are open."""

    _request: LoadRequest
    _name: str
    _own: dict[str, Axis]
    _senders: Senders
    _live: LiveRun
    _began: float
    _metrics: "MetricsPage | None"
    _count: int = 0
    _gone: float = 0.0

    def __post_init__(self) -> None:
        request, senders = self._request, self._senders
        self._seconds = float(str(senders.facts.get("seconds", 0.1)))
        chunks = request.output if request.is_language_model else 0
        self._generator = None if self._own else Generator(senders, request.senders, chunks)

    def all(self, levels: Sequence[Planned]) -> None:
        """Run the requested levels."""
        if self._request.scenario == "Offline":
            levels = [at_once(self._request, self._name, self._own, self._seconds)]
        self._prepare(max(facts.rate or 0.0 for _, facts, _ in levels))
        # Users who send so many requests take as long as those take; all levels count alike then.
        lengths = [1.0 if order.requests or not order.end else order.end for _, _, order in levels]
        for index, (case, facts, order) in enumerate(levels):
            before, after = sum(lengths[:index]), sum(lengths[index + 1 :])
            share = before / sum(lengths), 1 - after / sum(lengths)
            self._carry_out(case, facts, order, share, 0.0 if order.requests else after)

    def search(self) -> None:
        """Run the levels that a search for the peak asks for, and return its result."""
        request = self._request
        start = request.rates[0] if request.rates else 0.5 / max(self._seconds, 1e-4)
        peak = find_peak(self._at, promises(request.slo), start=start, budget=request.budget)
        if peak.case is not None:
            case = structs.replace(peak.case, details=structs.replace(peak.case.details, slo=request.slo))
            self._live(CaseChanged(case.with_series(Series(metric=AT_SLO_RATE, samples=[peak.rate or 0.0]))))
        self._live(FindingAdded(_finding(peak, request)))

    def _at(self, rate: float, seconds: float) -> Case:
        self._count += 1
        rate = float(f"{rate:.4g}")
        axes: dict[str, Axis] = {**self._own, "search": self._count}
        seeded = structs.replace(self._request, seed=self._request.seed + self._count)
        case, facts, order = open_level(seeded, self._name, rate, axes, seconds)
        share = self._gone, min(1.0, self._gone + seconds / self._request.budget)
        self._gone = share[1]
        return self._carry_out(case, facts, order, share, (1 - self._gone) * self._request.budget)

    def _carry_out(
        self, case: Case, facts: Level, order: Order, share: tuple[float, float], after: float
    ) -> Case:
        self._prepare(facts.rate or 0.0)
        facts = structs.replace(facts, alone=self._generator.alone if self._generator else None)
        looks = Looks(self._request.slo) if self._request.auto else None
        level = LevelRun(
            self._live, self._began, case, facts, share=share, after=after, metrics=self._metrics, looks=looks
        )
        return level.carry_out(self._senders, order)

    def _prepare(self, rate: float) -> None:
        """Prepare senders: one sends for users, whose rate is unknown, until its CPU says otherwise."""
        if self._generator is not None:
            if self._generator.alone is None:
                self._live.say("the generator tests itself on loopback")
            self._generator.prepare(rate)


def _finding(peak: PeakLevel, request: LoadRequest) -> Finding:
    middle = peak.about[0] if peak.about else None
    evidence = {"rate": peak.rate, "broken": peak.broken, "slo": request.slo, "about": middle}
    ends = show_interval(peak.about and peak.about[1:], middle or 0.0, "1/s")
    likely = estimate(show(middle, "1/s", peak.about and peak.about[1:]), ends)
    about = f"the peak at {request.slo} is about {likely}" if peak.about else ""
    above = f"; {show(peak.broken, '1/s')} certainly breaks it" if peak.broken else ""
    if peak.rate is None:
        told = f"{about}, not proven" if about else f"no rate was proven to keep {request.slo}"
        advice = peak.advice or f"--budget {2 * request.budget:.0f}s"
        sentence = f"{told}: {peak.sentence}{above}"
        return Finding(kind="load/peak", sentence=sentence, evidence=evidence, next=advice)
    told = f"; {about}" if about else ""
    rate = show(peak.rate, "1/s").removesuffix("/s")
    sentence = f"{rate} requests/s keep {request.slo}: {peak.sentence}{above}{told}"
    cases = [peak.case.key] if peak.case else []
    return Finding(kind="load/peak", sentence=sentence, evidence=evidence, cases=cases)


def _open(target: object, count: int) -> Senders:
    """Senders whose target has answered. Raises UsageError: it did not, or not well."""
    try:
        senders = Senders(target, count if isinstance(target, Endpoint) else 1)  # type: ignore[arg-type]
    except CommandFailed as error:
        failure = error.failure
        kind = UsageError if failure.kind in ("usage", "target", "unavailable") else UserCodeError
        raise kind(failure.what, why=failure.why, next=failure.next) from None
    if fault := str(senders.facts.get("error", "")):
        from laptime.loadgen.endpoint import advice  # it needs h11

        senders.close()
        detail, address = str(senders.facts.get("detail", "")), target.url.partition("?")[0]  # type: ignore[attr-defined]
        what = f"{address} did not answer the first request: {fault}"
        raise UsageError(what, why=detail or "it gave no reason", next=advice(fault, detail, address))
    return senders


def _settings(request: LoadRequest, target: object) -> dict[str, Setting]:
    """Effective settings; headers by their names alone, because values may be secret."""
    values = {name: getattr(request, name) for name in RECORDED}
    values["duration"] = None if request.auto else request.duration or DURATION
    values["headers"] = [name for name, _ in request.headers]
    if request.is_language_model and isinstance(target, Endpoint):
        values["path"] = urlsplit(target.url).path
    values["body"] = [len(body) for body in request.bodies]
    values = {name: value if value not in ("", [], {}) else None for name, value in values.items()}
    origins = {name: request.origins.get(name, "default") for name in values}
    return {name: Setting(value=value, origin=origins[name]) for name, value in values.items()}
