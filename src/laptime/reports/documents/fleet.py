"""The document of `laptime doctor --on`: a row a machine, and which of them is slow."""

from functools import partial
from statistics import median
from typing import Any

from laptime.analysis.paired import of_processes
from laptime.analysis.visits import BANDWIDTH, BETWEEN, seconds
from laptime.kit.text import count, some
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.reports import document as doc
from laptime.reports.fields import Field, tabulate


def document(run: Run) -> doc.Document:
    """Return which machine is slow, then all of them, and their links."""
    every = sorted({str(case.axes.get("machine", "")) for case in run.cases})
    links, machines = [[name for name in every if (BETWEEN in name) is wanted] for wanted in (True, False)]
    tables = [_table(run, id, names) for id, names in (("machines", machines), ("links", links)) if names]
    return doc.Document(
        verb="doctor",
        title=count(len(machines), "machine"),
        verdict=headline(run),
        brief=tables,
        sections=[doc.Section(each.id, each.id.capitalize(), [each], headed=False) for each in tables],
        run=run,
        data=lambda: data(run),
        about="Each is compared with the median of the others of its kind, visit by visit.",
    )


def _table(run: Run, id: str, names: list[str]) -> doc.Table:
    found, is_links = seconds(run.cases), id == "links"
    speeds = list(dict.fromkeys(speed for name in names for speed in found.get(name, {})))
    compared = [speed for speed in speeds if any(each.metric == speed for each in run.comparisons)]
    fields = [
        Field(id.removesuffix("s"), lambda name: name),
        Field(
            "kind", partial(_axis, run, "hardware"), note="short hash of the hardware", priority=3 * is_links
        ),
        is_links and Field("network", partial(_axis, run, "network"), priority=2),
        *[Field(speed, partial(_speed, found, speed), "number") for speed in speeds],
        *[
            Field(f"{speed} beside others", partial(_beside, run, speed), priority=is_links)
            for speed in compared
        ],
        Field("word", partial(_word, run)),
    ]
    return tabulate(id, fields, names)


def headline(run: Run) -> doc.Headline:
    """The answer: slow, lost, alike, undecided or not compared."""
    slow = [comparison for comparison in run.comparisons if comparison.word == "slower"]
    lost = list(dict.fromkeys(case.failure.what for case in run.cases if case.failure))
    if slow:
        ends = [{*each.candidate.split(BETWEEN)} for each in slow if BETWEEN in each.candidate]
        shared = set.intersection(*ends) if len(ends) > 1 else set()
        said = [f"each slow link is one of {name}" for name in shared]
        sentence = some(said + [each.sentence for each in slow] + lost, 5, "; ")
        steps = [finding.next for finding in run.findings[:1]]
        return doc.Headline(word="slow", tone="invalid", sentence=sentence, next=steps)
    if lost:
        return doc.Headline(word="lost", tone="invalid", sentence=some(lost, 3, "; "))
    if not run.comparisons:
        several = len({case.axes.get("machine") for case in run.cases}) > 1
        why = "no two machines are of one kind" if several else "there is one machine alone"
        return doc.Headline(word="not compared", tone="unknown", sentence=why)
    if warned := [check for check in run.checks if check.outcome == "warn"]:
        sentence = "; ".join(check.sentence for check in warned)
        return doc.Headline(word="undecided", tone="noisy", sentence=sentence, next=[warned[0].next])
    sentence = "; ".join(check.sentence for check in run.checks)
    return doc.Headline(word="alike", tone="trusted", sentence=sentence)


def data(run: Run) -> dict[str, Any]:
    """The machines and links for programs, a row a speed or message; times in seconds."""
    cases = [
        {
            **case.axes,
            "seconds": [sample for series in case.series for sample in series.samples],
            "failure": case.failure and case.failure.what,
        }
        for case in run.cases
    ]
    return {"schema": "laptime.fleet/1", "run": run.id, "machines": cases, "comparisons": run.comparisons}


def _cases(run: Run, name: str) -> list[Case]:
    return [case for case in run.cases if case.axes.get("machine") == name]


def _axis(run: Run, axis: str, name: str) -> str:
    return str(_cases(run, name)[0].axes.get(axis, ""))


def _speed(found: dict[str, dict[str, list[float]]], speed: str, name: str) -> doc.Cell:
    if not (values := found.get(name, {}).get(speed)):
        return doc.Cell(text="-")
    if BETWEEN not in name:
        return doc.number(median(values), "s")
    each = of_processes(values, "s")
    return doc.as_cell(each.invert(unit="B/s") if speed == BANDWIDTH else each)


def _beside(run: Run, speed: str, name: str) -> str:
    each = next((each for each in run.comparisons if each.candidate == name and each.metric == speed), None)
    return f"{each.speedup:.2f}x [{each.ci95[0]:.2f}, {each.ci95[1]:.2f}]" if each else "-"


def _word(run: Run, name: str) -> str:
    mine = [comparison for comparison in run.comparisons if comparison.candidate == name]
    if any(case.failure for case in _cases(run, name)):
        return "lost"
    if any(each.word == "slower" for each in mine):
        return "slow"
    return ("undecided" if run.trust == "noisy" else "alike") if mine else "-"
