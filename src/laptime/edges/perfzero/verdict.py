"""The verdict on a benchmark method: its state, its bounds, the intervals of its numbers over trials, and
whether these can be trusted, as far as laptime can tell from outside.

Looked at: whether they can be at all (finite, no negative time), how far the trials lie apart, the
benchmark's own bounds, and what the method lost to others, from counters that were read around it:

    waited     its threads waited for a CPU that other programs used     schedstat, /proc/stat
    stolen     the hypervisor gave the machine's CPUs to others          /proc/stat
    throttled  the container's CPU quota stopped its process             cpu.stat

The thresholds are those of `measure.labels`; here the sample is a whole method, with all that it does beside
what it times. Not seen: threads that came and ended between two looks; a lower clock; who else used memory,
disk or network; whether the benchmark times what it says, waits for its device, or computes the right thing.
"""

import math
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
from msgspec import Struct, structs

from laptime.analysis.quantiles import FEWEST_TRIALS, over_trials
from laptime.edges.perfzero.process import Ended, Event, Look
from laptime.edges.perfzero.report import Metric, Report
from laptime.edges.perfzero.schema import REPORT_PREFIX, WALL_TIME
from laptime.kit.text import closest, count
from laptime.kit.units import percent, show
from laptime.measure.checks.disturbed import MANY
from laptime.measure.checks.precision import TOLERATED
from laptime.measure.labels import OTHERS_TICKS, WAITED_SHARE, find_waiting
from laptime.probes.others import busy_seconds, stolen_seconds
from laptime.process.program import ending
from laptime.records.check import Check
from laptime.records.quantity import Judgement, Quantity
from laptime.records.series import Label

State = Literal[
    "passed",
    "bound_violated",
    "raised",
    "crashed",
    "hung",
    "no_report",
    "bad_report",
    "reported_twice",
    "not_a_number",
    "negative",
]
"""passed; or the first of these that holds, from how the process ended to what its numbers say."""
MEASURED = frozenset({"passed", "bound_violated"})  # the method ended, and its numbers can be used
IMPOSSIBLE = frozenset({"not_a_number", "negative"})
"""The method ended, and its numbers cannot be what they are said to be."""
_NEVER_NEGATIVE = (WALL_TIME, "_per_second", "_per_sec")  # endings of the names of times and rates


class Outcome(Struct, frozen=True, kw_only=True):
    """One trial of one method."""

    state: State  # see `State`
    sentence: str  # what happened, in words
    report: Report | None  # the one that counts; None when there is none
    others: list[Report] = []  # further reports of the same method
    renamed: bool = False  # the report that counts was given another name than `Class.method`
    # the reported wall time is longer than the method ran, so it is not in seconds
    units_doubtful: bool = False
    ended: Ended  # how the process went

    @property
    def measured(self) -> bool:
        """Whether its numbers may be used: the method ended, and they are numbers."""
        return self.report is not None and self.state in MEASURED


class Spread(Struct, frozen=True, kw_only=True):
    """A number over the trials so far, in the benchmark's own unit."""

    values: list[float]  # one a trial, in their order
    # value, statistic: the mean over the trials, and which mean it is (see `over_trials`)
    value: float
    statistic: str
    # 95 % interval of the mean over fresh processes; None below three trials
    ci95: tuple[float, float] | None
    min_value: float | None = None
    max_value: float | None = None
    bound: Judgement | None = None  # whether the bounds are kept; None without bounds

    @property
    def range(self) -> tuple[float, float]:
        """The range held against bounds: the interval; every value below three trials, as in PerfZero."""
        return self.ci95 or (min(self.values), max(self.values))


def judge(ended: Ended, reports: list[Report], faults: list[str]) -> Outcome:
    """One trial, from how its process went and the files it left."""
    imported = ended.event("imported") or {}
    reporter = str(imported.get("reports_as", ""))
    main = next((report for report in reports if report.name == reporter), reports[0] if reports else None)
    state, sentence = _state(ended, main, faults)
    over = ended.event("ended")
    return Outcome(
        state=state,
        sentence=sentence,
        report=main,
        others=[report for report in reports if report is not main],
        renamed=main is not None and bool(reporter) and main.name != reporter,
        units_doubtful=bool(main and over and main.wall_time > 1.05 * float(over["seconds"])),
        ended=ended,
    )


def violations(report: Report) -> list[str]:
    """The bounds that the numbers of a report break; both ends are inclusive."""
    sentences = []
    for number in report.numbers:
        if number.min_value is not None and not number.value >= number.min_value:
            sentences.append(f"{number.name} is {number.value:g}, below {number.min_value:g}")
        if number.max_value is not None and not number.value <= number.max_value:
            sentences.append(f"{number.name} is {number.value:g}, above {number.max_value:g}")
    return sentences


def spreads(trials: list[Outcome]) -> dict[str, Spread]:
    """wall_time and every metric over the trials that have them, by name."""
    reports = [trial.report for trial in trials if trial.measured and trial.report is not None]
    columns: dict[str, list[Metric]] = {}
    for report in reports:
        for metric in report.numbers:
            columns.setdefault(metric.name, []).append(metric)
    return {name: _spread(metrics) for name, metrics in columns.items()}


def _spread(metrics: list[Metric]) -> Spread:
    last, trials = metrics[-1], over_trials([metric.value for metric in metrics])
    spread = Spread(
        values=[metric.value for metric in metrics],
        value=trials.quantity.value,
        statistic=trials.statistic,
        ci95=trials.quantity.interval,
        min_value=last.min_value,
        max_value=last.max_value,
    )
    word = hold_to(spread, last.min_value, last.max_value)
    return structs.replace(spread, bound=word)


def hold_to(spread: Spread, least: float | None, most: float | None) -> Judgement | None:
    """Whether a number keeps its bounds; None without bounds.

    All of its interval has to keep them, or none of it; without an interval every value, as in PerfZero."""
    if least is None and most is None:
        return None
    numbers = (
        [Quantity.of(spread.value, spread.ci95)]
        if spread.ci95
        else [Quantity(value, exact=True) for value in spread.values]
    )
    return Judgement.of_all(
        number.judge(limit, at_least=at_least)
        for number in numbers
        for limit, at_least in ((least, True), (most, False))
        if limit is not None
    )


def _state(ended: Ended, main: Report | None, faults: list[str]) -> tuple[State, str]:
    raised = ended.event("raised")
    if ended.hung:
        return "hung", f"no end after {ended.seconds:.0f} s; the log says where it was"
    if raised is not None:
        message = " ".join(f"{raised.get('kind')}: {raised.get('message')}".split())
        if raised.get("phase") == "method" and "already exists" in message and REPORT_PREFIX in message:
            return "reported_twice", "it reported twice under one name; the first report is kept"
        phase = str(raised.get("phase"))
        if phase == "lookup":
            # The error of a method that the class does not have, with the nearest one that it has.
            method, known = str(raised.get("method")), [str(name) for name in raised.get("methods", ())]
            near = closest(method, known) or closest(f"benchmark_{method}", known)
            return "raised", f"its class has no method {method}" + (f"; did you mean {near}?" if near else "")
        where = {"import": "importing its class", "constructor": "its constructor"}
        return "raised", f"{where[phase]} raised {message}" if phase in where else f"it raised {message}"
    if ended.event("ended") is None:
        return "crashed", f"its process {ending(ended.status or 0)} {_where(ended)}"
    if faults:
        return "bad_report", faults[0]
    if main is None:
        return "no_report", "it ended without calling report_benchmark"
    odd = [number.name for number in main.numbers if not math.isfinite(number.value)]
    if odd:
        return "not_a_number", f"{', '.join(odd)} {'is' if len(odd) == 1 else 'are'} no finite number"
    below = [number for number in main.numbers if number.value < 0 and number.name.endswith(_NEVER_NEGATIVE)]
    if below:
        return "negative", f"{below[0].name} is {below[0].value:g}: no time or rate is below zero"
    broken = violations(main)
    return ("bound_violated", "; ".join(broken)) if broken else ("passed", "it ran, and every bound is kept")


def _where(ended: Ended) -> str:
    if ended.event("started"):
        return "within the method"
    return "in its constructor" if ended.event("imported") else "while its class was imported"


# Can the numbers be trusted?


def checks(trials: list[Outcome], *, virtual: bool) -> list[Check]:
    """The answers, worst first; none if no trial came to numbers. virtual: the machine is a guest, whose
    CPU time can be stolen."""
    if not any(trial.measured or trial.state in IMPOSSIBLE for trial in trials):
        return []
    found = [*_faults(trials), *_interval(trials), *_find_disturbed(trials, virtual), *_notes(trials[-1])]
    if all(trial.state == "passed" for trial in trials):
        found.append(Check(name="benchmark", outcome="ok", sentence=trials[-1].sentence))
    return sorted(found, key=lambda check: ("fail", "warn", "note", "ok").index(check.outcome))


def _faults(trials: list[Outcome]) -> Iterator[Check]:
    """Trials without a number, with an impossible one, and with one outside the benchmark's own bounds."""
    of = count(len(trials), "trial")
    if lost := [trial for trial in trials if not trial.measured and trial.state not in IMPOSSIBLE]:
        sentence = f"{len(lost)} of {of} gave no number: {lost[0].sentence}"
        step = "read perfzero.log in the output folder"
        yield Check(name="trials", outcome="fail", sentence=sentence, next=step)
    if bad := [trial for trial in trials if trial.state in IMPOSSIBLE]:
        step = "fix the benchmark: it reported this itself"
        yield Check(name="finite", outcome="fail", sentence=bad[0].sentence, next=step)
    if outside := [trial for trial in trials if trial.state == "bound_violated"]:
        many = f" ({len(outside)} of {of})" if len(trials) > 1 else ""
        sentence = f"outside the benchmark's own bounds: {outside[0].sentence}{many}"
        yield Check(name="bounds", outcome="warn", sentence=sentence)


def _interval(trials: list[Outcome]) -> Iterator[Check]:
    """No number is better known than its interval says; one without is not known at all."""
    measured = sum(trial.measured for trial in trials)
    if 0 < measured < FEWEST_TRIALS:
        sentence = f"{count(measured, 'trial')}: too few for an interval, which needs {FEWEST_TRIALS}"
        yield Check(name="trials", outcome="warn", sentence=sentence, next="--benchmark_num_trials=5")
        return
    wide = {}
    for name, each in spreads(trials).items():
        if each.ci95 is not None and each.ci95[1] > each.ci95[0]:
            half = (each.ci95[1] - each.ci95[0]) / 2
            wide[name] = half / abs(each.value) if each.value else float("inf")
    if not wide:
        return
    name = max(wide, key=lambda each: wide[each])
    if wide[name] <= TOLERATED:
        yield Check(
            name="precision", outcome="ok", sentence=f"every interval is within ±{percent(wide[name])}"
        )
        return
    known = f"to ±{percent(wide[name])}" if wide[name] < float("inf") else "to no share of it"
    sentence = f"{name} is known {known} after {count(measured, 'trial')}"
    yield Check(name="precision", outcome="warn", sentence=sentence, next="--benchmark_num_trials=10")


def _find_disturbed(trials: list[Outcome], virtual: bool) -> Iterator[Check]:
    """Serious if most trials were hit, or one lost more than an interval may be wide."""
    measured = [disturbance(trial.ended, virtual=virtual) for trial in trials if trial.measured]
    hit = [each for each in measured if each.label]
    if not hit:
        return
    worst = max(hit, key=lambda each: each.share)
    of = f"in {len(hit)} of {count(len(measured), 'trial')} " if len(measured) > 1 else ""
    serious = worst.share > TOLERATED or len(hit) > MANY * len(measured)
    yield Check(
        name="disturbed",
        outcome="warn" if serious else "note",
        sentence=f"{of}{worst.words}",
        next="laptime doctor   (shows who else uses the machine)",
    )


def _notes(last: Outcome) -> Iterator[Check]:
    report = last.report
    if last.renamed and report is not None:
        yield Check(name="name", outcome="note", sentence=f"it reported as {report.name!r}")
    twice = [number.name for number in report.numbers if "#" in number.name] if report is not None else []
    if twice:
        sentence = f"it reported several numbers under one name; the second is called {twice[0]}"
        yield Check(name="names", outcome="note", sentence=sentence)
    if last.units_doubtful:
        sentence = "the reported wall time is longer than the method ran: it is not in seconds"
        yield Check(name="units", outcome="note", sentence=sentence)
    for event in last.ended.events:
        if event["event"] in ("profiler_failed", "profiler_late"):
            why = event.get("message") or f"the method was over before second {event.get('begin'):g}"
            yield Check(name="profiler", outcome="note", sentence=f"nothing was profiled: {why}")


class Disturbance(NamedTuple):
    """Disturbances of a trial."""

    label: Label  # its causes; NONE if nothing is known of any
    share: float  # of the time that the worst of them took; threads that waited together add up, above 1 too
    words: str  # `its threads waited for a CPU that other programs used, 3.10 s in 8.20 s`


def disturbance(ended: Ended, *, virtual: bool) -> Disturbance:
    """Return the known disturbances of a method that ended. virtual: the machine is a guest, whose
    CPU time can be stolen."""
    label, share, words = Label.NONE, 0.0, []
    for flag, seconds, of, verb in _losses(ended, virtual):
        label, share = label | flag, max(share, seconds / of)
        words.append(f"{verb}, {show(seconds, 's')} in {show(of, 's')}")
    return Disturbance(label, share, "; ".join(words))


def _losses(ended: Ended, virtual: bool) -> list[tuple[Label, float, float, str]]:
    """Label, seconds lost, seconds of wall time, and words of each loss that counts."""
    losses = []
    if ended.throttled is not None and ended.throttled > WAITED_SHARE * ended.seconds:
        words = "was stopped by the container's CPU quota"
        losses.append((Label.THROTTLED, ended.throttled, ended.seconds, words))
    start, end = ended.event("started"), ended.event("ended")
    if start is None or end is None or "clock" not in start:
        return losses
    seconds = float(end["clock"]) - float(start["clock"])
    looks = [look for look in ended.looks if start["unix"] <= look.unix <= end["unix"]]
    waited = _most(start, end, "waited", looks)
    if waited is not None and _for_others(waited, seconds, _others(start, end, looks, seconds)):
        words = "its threads waited for a CPU that other programs used"
        losses.append((Label.WAITED, waited, seconds, words))
    stolen = _between(start, end, stolen_seconds)
    if virtual and stolen is not None and stolen > WAITED_SHARE * seconds:
        losses.append((Label.STOLEN, stolen, seconds, "the hypervisor gave its CPUs to others"))
    return losses


def _most(start: Event, end: Event, name: str, looks: list[Look]) -> float | None:
    """Seconds of a counter in the method: its process's, or those of its family if they are more."""
    if name not in start or name not in end:
        return None
    own = max(0.0, float(end[name]) - float(start[name]))
    field = "used" if name == "cpu" else name
    family = getattr(looks[-1], field) - getattr(looks[0], field) if looks else 0.0
    return max(own, float(family))


def _others(start: Event, end: Event, looks: list[Look], seconds: float) -> float | None:
    """CPUs that all but the benchmark used while the method ran; None if the system does not say."""
    busy, own = _between(start, end, busy_seconds), _most(start, end, "cpu", looks)
    return None if busy is None or own is None or seconds <= 0 else (busy - own) / seconds


def _between(start: Event, end: Event, read: Callable[[bytes], float | None]) -> float | None:
    before, after = (read(str(event.get("machine", "")).encode()) for event in (start, end))
    return None if before is None or after is None else after - before


def _for_others(waited: float, seconds: float, others: float | None) -> bool:
    if (
        others is not None and others * seconds < OTHERS_TICKS
    ):  # too little for its ticks to show whose it was
        return False
    around = None if others is None else np.array([others])
    return bool(find_waiting(np.array([waited]), np.array([seconds]), around)[0])
