"""Can the numbers that a benchmark reported be trusted? What laptime can tell from outside, over all trials.

Looked at: whether they can be at all (finite, no negative time), how far the trials lie apart, the
benchmark's own bounds, and what the method lost to others, from counters that were read around it:

    waited     its threads waited for a CPU that other programs used     schedstat, /proc/stat
    stolen     the hypervisor gave the machine's CPUs to others          /proc/stat
    throttled  the container's CPU quota stopped its process             cpu.stat

The thresholds are those of `measure.labels`; here the sample is a whole method, with all that it does beside
what it times. Not seen: threads that came and ended between two looks; a lower clock; who else used memory,
disk or network; whether the benchmark times what it says, waits for its device, or computes the right thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from laptime.analysis.quantiles import FEWEST_TRIALS
from laptime.edges.perfzero.process import Ended, Event, Look
from laptime.edges.perfzero.verdict import IMPOSSIBLE, Outcome, spreads
from laptime.kit.text import count
from laptime.kit.units import percent, show
from laptime.measure.checks.disturbed import MANY
from laptime.measure.checks.precision import TOLERATED
from laptime.measure.labels import OTHERS_TICKS, WAITED_SHARE, waited_for_others
from laptime.probes.others import busy_seconds, stolen_seconds
from laptime.records.check import Check
from laptime.records.series import Label

_MORE = "--benchmark_num_trials=5"
_ORDER = ("fail", "warn", "note", "ok")


def checks(trials: list[Outcome], *, virtual: bool) -> list[Check]:
    """The answers, worst first; none where no trial came to numbers. virtual: the machine is a guest, whose
    CPU time can be stolen."""
    if not any(each.measured or each.state in IMPOSSIBLE for each in trials):
        return []
    found = [*_failed(trials), *_impossible(trials), *_bounds(trials), *_interval(trials)]
    found += [*_disturbed(trials, virtual), *_notes(trials[-1])]
    if all(each.state == "passed" for each in trials):
        found.append(Check(name="benchmark", outcome="ok", sentence=trials[-1].sentence))
    return sorted(found, key=lambda check: _ORDER.index(check.outcome))


def _failed(trials: list[Outcome]) -> Iterator[Check]:
    bad = [each for each in trials if not each.measured and each.state not in IMPOSSIBLE]
    if bad:
        sentence = f"{len(bad)} of {count(len(trials), 'trial')} came to no number: {bad[0].sentence}"
        yield Check(
            name="trials", outcome="fail", sentence=sentence, next="read perfzero.log in the output folder"
        )


def _impossible(trials: list[Outcome]) -> Iterator[Check]:
    bad = [each for each in trials if each.state in IMPOSSIBLE]
    if bad:
        step = "mend the benchmark: it reported this itself"
        yield Check(name="finite", outcome="fail", sentence=bad[0].sentence, next=step)


def _bounds(trials: list[Outcome]) -> Iterator[Check]:
    bad = [each for each in trials if each.state == "bound_violated"]
    if bad:
        of = f" ({len(bad)} of {count(len(trials), 'trial')})" if len(trials) > 1 else ""
        sentence = f"outside the benchmark's own bounds: {bad[0].sentence}{of}"
        yield Check(name="bounds", outcome="warn", sentence=sentence)


def _interval(trials: list[Outcome]) -> Iterator[Check]:
    """No number is better known than its interval says; one without is not known at all."""
    measured = sum(each.measured for each in trials)
    if 0 < measured < FEWEST_TRIALS:
        sentence = f"{count(measured, 'trial')}: too few for an interval, which needs {FEWEST_TRIALS}"
        yield Check(name="trials", outcome="warn", sentence=sentence, next=_MORE)
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


def _disturbed(trials: list[Outcome], virtual: bool) -> Iterator[Check]:
    """Serious where most trials were hit, or one lost more than an interval may be wide."""
    measured = [disturbance(each.ended, virtual=virtual) for each in trials if each.measured]
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
    twice = [each.name for each in report.numbers if "#" in each.name] if report is not None else []
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
    """Disturbances of a trial.

    Attributes:
        label: its causes; NONE where nothing is known of any.
        share: of the time that the worst of them took; threads that waited together add up, above 1 too.
        words: `its threads waited for a CPU that other programs used, 3.10 s in 8.20 s`.
    """

    label: Label
    share: float
    words: str


def disturbance(ended: Ended, *, virtual: bool) -> Disturbance:
    """What is known to have disturbed a method that came to its end. virtual: the machine is a guest, whose
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
    looks = [each for each in ended.looks if start["unix"] <= each.unix <= end["unix"]]
    waited = _most(start, end, "waited", looks)
    if waited is not None and _for_others(waited, seconds, _others(start, end, looks, seconds)):
        words = "its threads waited for a CPU that other programs used"
        losses.append((Label.WAITED, waited, seconds, words))
    stolen = _between(start, end, stolen_seconds)
    if virtual and stolen is not None and stolen > WAITED_SHARE * seconds:
        losses.append((Label.STOLEN, stolen, seconds, "the hypervisor gave its CPUs to others"))
    return losses


def _most(start: Event, end: Event, name: str, looks: list[Look]) -> float | None:
    """Seconds of a counter in the method: its process's, or those of its family where they are more."""
    if name not in start or name not in end:
        return None
    own = max(0.0, float(end[name]) - float(start[name]))
    field = "used" if name == "cpu" else name
    family = getattr(looks[-1], field) - getattr(looks[0], field) if looks else 0.0
    return max(own, float(family))


def _others(start: Event, end: Event, looks: list[Look], seconds: float) -> float | None:
    """CPUs that all but the benchmark used while the method ran; None where the system does not say."""
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
    return bool(waited_for_others(np.array([waited]), np.array([seconds]), around)[0])
