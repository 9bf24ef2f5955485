"""The report for CI servers: JUnit XML, one test case a check; without checks, one a measured case.

Broken is a failure, undecided and invalid numbers are errors (a pipeline must not pass on them), kept passes.
"""

from __future__ import annotations

from xml.etree import ElementTree

from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.verdict import Verdict
from laptime.reports import _words as words

NAME = "junit"
SUFFIXES: tuple[str, ...] = (".xml",)


def render(run: Run) -> str:
    """The document. The times in it are those that were measured, summed over samples."""
    suite = ElementTree.Element("testsuite", name=_plain(f"laptime {run.verb} {run.name}".strip()))
    cases = {case.key: case for case in run.cases}
    if run.verdicts:
        for verdict in run.verdicts:
            _verdict(suite, verdict, cases.get(verdict.case))
    else:
        for case in run.cases:
            _measured(suite, case)
    found = {word: sum(child.find(word) is not None for child in suite) for word in ("failure", "error")}
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(found["failure"]))
    suite.set("errors", str(found["error"]))
    suite.set("skipped", str(sum(child.find("skipped") is not None for child in suite)))
    suite.set("time", f"{run.seconds:.3f}")
    suite.set("timestamp", _plain(run.started))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"
    )


def _verdict(suite: ElementTree.Element, verdict: Verdict, case: Case | None) -> None:
    test = _test(suite, verdict.case, f"{verdict.metric} {verdict.kind}", case)
    if verdict.word != "kept":
        tag = "failure" if verdict.word == "broken" else "error"
        _result(test, tag, verdict.word, verdict.sentence, verdict.next)
    else:
        ElementTree.SubElement(test, "system-out").text = _plain(verdict.sentence)


def _measured(suite: ElementTree.Element, case: Case) -> None:
    test = _test(suite, case.target, case.key, case)
    if case.failure is not None and case.status == "failed":
        _result(test, "error", case.failure.kind, case.failure.what, case.failure.next)
    elif case.status == "skipped":
        _result(test, "skipped", "skipped", case.failure.what if case.failure else "", "")
    elif case.trust == "invalid":
        bad = next((check for check in case.checks if check.outcome == "fail"), None)
        said = (bad.sentence, bad.next) if bad else (case.status, "")
        _result(test, "error", "invalid", *said)


def _test(suite: ElementTree.Element, classname: str, name: str, case: Case | None) -> ElementTree.Element:
    timed = [series for series in case.series if series.metric.tag == "latency"] if case else []
    seconds = sum(
        value * calls
        for series in timed
        for value, calls in zip(series.samples, series.calls or [1] * len(series.samples), strict=True)
    )
    return ElementTree.SubElement(
        suite, "testcase", classname=_plain(classname), name=_plain(name), time=f"{seconds:.6f}"
    )


def _result(test: ElementTree.Element, tag: str, kind: str, sentence: str, then: str) -> None:
    found = ElementTree.SubElement(test, tag, type=_plain(kind), message=_plain(sentence))
    if then:
        found.text = _plain(f"next: {then}")


def _plain(text: str) -> str:
    """Without folders of this machine, and without characters that XML cannot hold."""
    shown = words.without_paths(words.printable(text))
    return "".join(c for c in shown if c >= " " and not 0xD800 <= ord(c) <= 0xDFFF)
