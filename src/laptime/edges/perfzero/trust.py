"""Can the numbers that a benchmark reported be trusted? What laptime can tell from outside, over all trials.

Looked at: whether they can be at all (finite, no negative time), how far the trials lie apart, what the
method lost to others, the benchmark's own bounds. Not looked at: whether the benchmark times what it says,
waits for its device, warms up, or computes the right thing.
"""

from __future__ import annotations

from collections.abc import Iterator

from laptime.analysis.trials import FEWEST
from laptime.edges.perfzero.disturbance import disturbance
from laptime.edges.perfzero.verdict import IMPOSSIBLE, Outcome, spreads
from laptime.kit.text import count
from laptime.kit.units import percent
from laptime.measure.checks.disturbed import MANY
from laptime.measure.checks.precision import TOLERATED
from laptime.records.check import Check

_MORE = "--benchmark_num_trials=5"
_ORDER = ("fail", "warn", "note", "ok")


def checks(trials: list[Outcome], *, virtual: bool) -> list[Check]:
    """The answers, worst first; none where no trial came to numbers.

    Args:
        virtual: the machine is a guest, whose CPU time can be stolen.
    """
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
            name="trials", outcome="fail", sentence=sentence, next="less WORKSPACE/output/ID/perfzero.log"
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
    if 0 < measured < FEWEST:
        sentence = f"{count(measured, 'trial')}: too few for an interval, which needs {FEWEST}"
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
