"""The report for CI servers: JUnit XML; what is a test case depends on the kind of run.

A benchmark: each budget and baseline, each case whether it could be measured or not, each check of its
numbers. A profile: its checks and findings. A tuning session: the gain, questions of the gate, the checks."""

from xml.etree import ElementTree

from laptime.kit.errors import UsageError
from laptime.records.run import Run
from laptime.reports._words import plain
from laptime.reports.document import Document, Outcome, TestCase
from laptime.reports.documents import document
from laptime.reports.formats import refusal

NAME = "junit"
SUFFIXES: tuple[str, ...] = (".xml",)
_COUNTS: dict[str, Outcome] = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def render(run: Run) -> str:
    """One test suite a run."""
    return render_document(document(run))


def render_document(document: Document) -> str:
    """Any document that has test cases."""
    run = document.run
    if run is None and not document.cases:
        what, why = f"the {NAME} report shows tests", f"laptime {document.verb} has none"
        raise UsageError(what, why=why, next="-o report.html")
    if run is not None and not document.cases:
        raise refusal(run, NAME, "test cases")
    name = run.name if run else document.title
    suite = ElementTree.Element("testsuite", name=plain(f"laptime {document.verb} {name}".strip()))
    for case in document.cases:
        _test(suite, case)
    suite.set("tests", str(len(document.cases)))
    for attribute, outcome in _COUNTS.items():
        suite.set(attribute, str(sum(case.outcome == outcome for case in document.cases)))
    if run is not None:
        suite.set("time", f"{run.seconds:.3f}")
        suite.set("timestamp", plain(run.started))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _test(suite: ElementTree.Element, case: TestCase) -> None:
    attributes = {"classname": plain(case.group), "name": plain(case.name), "time": f"{case.seconds:.6f}"}
    test = ElementTree.SubElement(suite, "testcase", attributes)
    if case.outcome == "passed":
        if case.sentence:
            ElementTree.SubElement(test, "system-out").text = plain(case.sentence)
        return
    attributes = {"type": plain(case.kind), "message": plain(case.sentence)}
    result = ElementTree.SubElement(test, case.outcome, attributes)
    if case.next:
        result.text = plain(f"next: {case.next}")
