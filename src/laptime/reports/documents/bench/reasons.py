"""The reasons for and against the numbers of a run, as sentences and as test cases.

Of test cases, broken is a failure; undecided, invalid and failed are errors, because a pipeline must not pass
on them. What has no number stands there, too, whatever else was asked of the run."""

from collections import Counter
from functools import partial
from operator import mul

from msgspec import structs

from laptime.analysis.stat import Stat
from laptime.kit.text import count, some
from laptime.kit.units import percent
from laptime.records.case import Case, Failure
from laptime.records.check import Check, Outcome, Verdict
from laptime.records.run import Run
from laptime.records.series import DISTURBED, UNSETTLED, Label
from laptime.reports import document
from laptime.reports._words import label, printable, processes
from laptime.reports.commands import whole
from laptime.reports.document import TestCase
from laptime.reports.documents import verdicts as checks

_MOST = 2  # cases that a sentence names
_RANK = {"fail": 0, "warn": 1, "note": 2, "ok": 3}
_EFFECTS = {"disturbed": 1, "settled": 2, "precision": 3}  # may be explained by others and those before them
_CAUSES = ("growth", "quota", "waits_for_itself")  # notes that explain what these found


class Reason(Check, frozen=True, kw_only=True):
    """The sentence of a check or a failure, and its cases."""

    cases: list[Case]


def reasons(run: Run) -> list[Reason]:
    """List everything that speaks against the numbers, or is worth saying of them; the worst first.

    Equal sentences of several cases are one reason."""
    told: list[tuple[Check, list[Case]]] = [(check, []) for check in run.checks]
    for case in run.cases:
        if case.failure and case.status in ("failed", "skipped"):
            told.append((failure_check(case.failure), [case]))
        told += [(check, [case]) for check in case.checks]
    reasons: dict[tuple[str, str, str], Reason] = {}
    for check, cases in told:
        if check.outcome != "ok":
            new = Reason(**{**structs.asdict(check), "next": whole(check.next, run)}, cases=[])
            reasons.setdefault((check.name, check.outcome, check.sentence), new).cases.extend(cases)
    return sorted(reasons.values(), key=lambda each: (_RANK[each.outcome], _EFFECTS.get(each.name, 0)))


def against(reasons: list[Reason]) -> list[Reason]:
    """List the reasons against the numbers, a note that explains them first."""
    bad = [reason for reason in reasons if reason.outcome in ("fail", "warn")]
    is_effect = bool(bad) and bad[0].outcome == "warn" and bad[0].name in _EFFECTS
    causes = [reason for reason in reasons if reason.outcome == "note" and reason.name in _CAUSES]
    return [*causes, *bad] if is_effect else bad


def failure_check(failure: Failure) -> Check:
    """A failure as a reason: named by its kind; being interrupted is no fault of the numbers there are."""
    outcome: Outcome = "note" if failure.kind == "interrupted" else "fail"
    return Check(name=failure.kind, outcome=outcome, sentence=failure.what, next=failure.next)


def because(run: Run, headlines: list[Stat | None], reasons: list[Reason]) -> str:
    """The sentence behind the verdict's word."""
    if not run.cases and not run.checks:
        return "nothing was measured"
    bad = against(reasons)
    if bad and all(case.status in ("failed", "skipped") for case in run.cases):
        return f"no case could be measured: {printable(bad[0].sentence)}" if run.cases else bad[0].sentence
    if bad:
        first, *others = likewise(bad)
        more = f"; {count(len(others), 'more reason')}" if others else ""
        return say_group(first, run) + more
    if run.status in ("running", "interrupted"):
        done = sum(case.status == "ok" for case in run.cases)
        some = f"{run.status}, with {done} of {count(len(run.cases), 'case')} complete"
        return f"{some}: {_sure(run, headlines)}"
    return _sure(run, headlines)


def _sure(run: Run, headlines: list[Stat | None]) -> str:
    medians = [stat for stat in headlines if stat and stat.value is not None]
    if not medians:
        return "no check found fault"
    if any(stat.precision is None for stat in medians):
        few = count(min(stat.n for stat in medians), "sample")
        return f"no check found fault, but {few} cannot carry an interval"
    widest = max(stat.precision or 0.0 for stat in medians)
    total = sum(stat.n for stat in medians)
    which = "the median is known" if len(medians) == 1 else "every median is known"
    evidence = ", ".join(["95 % interval", count(total, "sample"), *processes(run)])
    return f"{which} to ±{percent(widest)} ({evidence})"


def likewise(reasons: list[Reason]) -> list[list[Reason]]:
    """Reasons of one check and outcome together: the same thing found in several cases."""
    groups: dict[tuple[str, str], list[Reason]] = {}
    for reason in reasons:
        groups.setdefault((reason.name, reason.outcome), []).append(reason)
    return list(groups.values())


def say_group(group: list[Reason], run: Run) -> str:
    """The first sentence of a group with its cases in brackets, and the cases of the others."""
    first, *others = group
    more = [label(case, run) for reason in others for case in reason.cases]
    sentence = printable(first.sentence)
    of_first = some([label(case, run) for case in first.cases], _MOST, "; ")
    if more:
        return f"{sentence} ({of_first}; likewise {some(more, _MOST, '; ')})"
    return f"{sentence} ({of_first})" if of_first and len(first.cases) < len(run.cases) else sentence


def say_disturbed(run: Run) -> str:
    """The share of settled samples that something outside the program hit, by cause; empty when none was."""
    labels: Counter[int] = Counter()
    for series in (s for case in run.cases for s in case.series if s.metric.tag == "latency"):
        labels.update(series.label or {0: len(series.samples)})
    settled = hit = 0
    causes: Counter[str] = Counter()
    for bits, number in labels.items():
        outside = Label(bits) & DISTURBED
        if not bits & UNSETTLED:
            settled += number
            hit += number if outside else 0
            causes.update({word: number for word in outside.words})
    if not hit:
        return ""
    by_cause = ", ".join(f"{word} {number:,}" for word, number in causes.most_common())
    return f"{percent(hit / settled)} of {count(settled, 'settled sample')}: {by_cause}"


def list_unmeasured(run: Run) -> list[str]:
    """List attempts that gave no number, with the reason: a missing number is never a zero."""
    sentences: dict[str, None] = {}
    for case in run.cases:
        for name, reason in case.details.unmeasured.items():
            sentences[f"{'FLOPs' if name == 'count' else printable(name)}: {printable(reason)}"] = None
    return list(sentences)


def junit_cases(run: Run) -> list[TestCase]:
    """The times in them are those that were measured, summed over samples."""
    cases = {case.key: case for case in run.cases}
    judged = [_verdict(verdict, cases.get(verdict.case)) for verdict in run.verdicts]
    # A verdict that there should have been a number is what its case has to say.
    told = {verdict.case for verdict in run.verdicts if verdict.kind == "measured"}
    measured = [_make_test(case) for case in run.cases if case.key not in told]
    checked = [checks.test_case(check, case.key) for case in run.cases for check in case.checks]
    if not run.cases:
        measured = [TestCase(run.verb, "cases", "error", "invalid", "nothing was measured")]
    return [*judged, *measured, *checked, *checks.test_cases(run)]


def _verdict(verdict: Verdict, case: Case | None) -> TestCase:
    test = partial(TestCase, verdict.case, f"{verdict.metric} {verdict.kind}", seconds=_seconds(case))
    if verdict.word == "kept":
        return test(sentence=verdict.sentence)
    outcome: document.Outcome = "failure" if verdict.word == "broken" else "error"
    return test(outcome, verdict.word, verdict.sentence, verdict.next)


def _make_test(case: Case) -> TestCase:
    failure, test = case.failure, partial(TestCase, group=case.target, name=case.key, seconds=_seconds(case))
    if failure is not None and case.status == "failed":
        return test(outcome="error", kind=failure.kind, sentence=failure.what, next=failure.next)
    if case.status == "skipped":
        return test(outcome="skipped", kind="skipped", sentence=failure.what if failure else "")
    if case.trust != "invalid":
        return test()
    bad = next((check for check in case.checks if check.outcome == "fail"), None)
    sentence, then = (bad.sentence, bad.next) if bad else (case.status, "")
    return test(outcome="error", kind="invalid", sentence=sentence, next=then)


def _seconds(case: Case | None) -> float:
    timed = [series for series in case.series if series.metric.tag == "latency"] if case else []
    return sum(sum(map(mul, each.samples, each.calls)) if each.calls else sum(each.samples) for each in timed)
