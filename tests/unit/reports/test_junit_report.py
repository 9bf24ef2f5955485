"""JUnit: every budget, every case and every check is a test, whatever else the run holds."""

from __future__ import annotations

from xml.etree import ElementTree

from msgspec import structs

from fixtures import runs
from laptime.records.case import Failure
from laptime.records.check import Check, Verdict
from laptime.records.quantity import Judgement
from laptime.records.run import Run
from laptime.reports.formats import junit


def suite_of(run: Run) -> ElementTree.Element:
    suite = ElementTree.fromstring(junit.render(run)).find("testsuite")
    assert suite is not None
    return suite


def outcomes(suite: ElementTree.Element) -> dict[tuple[str, str], str]:
    """What became of each test, by group and name."""
    return {
        (test.get("classname", ""), test.get("name", "")): next(
            (child.tag for child in test if child.tag != "system-out"), "passed"
        )
        for test in suite.findall("testcase")
    }


def mixed(*verdicts: tuple[str, Judgement]) -> Run:
    """A case that was measured, one that died, one that was skipped, and one whose number is invalid."""
    good = runs.case(runs.timings(0.02), target="a:good")
    died = structs.replace(
        runs.case(target="a:died"), status="failed", checks=[], failure=Failure(kind="died", what="it died")
    )
    skipped = structs.replace(died, key="a:skipped", target="a:skipped", status="skipped")
    bad = Check(name="finite", outcome="fail", sentence="the model returns NaN", next="mend it")
    wrong = runs.case(runs.timings(0.02), target="a:wrong", checks=[bad])
    run = runs.run(good, died, skipped, wrong)
    judged = [
        Verdict(kind="max", case=key, metric="latency", word=word, sentence=word) for key, word in verdicts
    ]
    return structs.replace(run, verdicts=judged)


def test_a_budget_does_not_hide_what_crashed() -> None:
    run = mixed(("a:good/batch=1/dtype=float32/device=cpu", Judgement.KEPT))
    suite = suite_of(run)
    died = next(case for case in run.cases if case.status == "failed")
    found = outcomes(suite)
    assert found[died.target, died.key] == "error"
    assert found["a:skipped", "a:skipped"] == "skipped"
    assert int(suite.get("errors", "0")) >= 2
    assert suite.get("skipped") == "1"
    assert suite.get("tests") == str(len(suite.findall("testcase")))


def test_every_verdict_case_and_check_is_a_test() -> None:
    run = mixed(("a:good/batch=1/dtype=float32/device=cpu", Judgement.UNDECIDED))
    found = outcomes(suite_of(run))
    good, _, _, wrong = run.cases
    assert found == {
        (good.key, "latency max"): "error",
        **{(case.target, case.key): "error" for case in run.cases if case.target in ("a:died", "a:wrong")},
        (good.target, good.key): "passed",
        ("a:skipped", "a:skipped"): "skipped",
        (good.key, "settled"): "passed",
        (wrong.key, "finite"): "error",
    }


def test_a_verdict_that_there_is_no_number_counts_once() -> None:
    run = mixed()
    died = next(case for case in run.cases if case.status == "failed")
    lost = Verdict(
        kind="measured", case=died.key, metric="latency", word=Judgement.BROKEN, sentence="it died"
    )
    found = outcomes(suite_of(structs.replace(run, verdicts=[lost])))
    assert found[died.key, "latency measured"] == "failure"
    assert (died.target, died.key) not in found
