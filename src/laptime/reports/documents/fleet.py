"""The document of `laptime doctor --on`: a row a machine, and which of them is slow."""

from functools import partial
from statistics import median
from typing import Any

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import Regime
from laptime.reports import document as doc
from laptime.reports.fields import Field, tabulate


def document(run: Run) -> doc.Document:
    """Return which machine is slow, then all of them."""
    machines = _machines(run)
    table = tabulate(
        "machines",
        [
            Field("machine", lambda name: name),
            Field("kind", partial(_kind, run), note="short hash of the hardware"),
            *[Field(speed, partial(_speed, run, speed), "number") for speed in _speeds(run)],
            *[Field(f"{speed} beside others", partial(_beside, run, speed)) for speed in _speeds(run)],
            Field("word", partial(_word, run)),
        ],
        machines,
    )
    section = doc.Section(id="machines", title="Machines", blocks=[table], headed=False)
    return doc.Document(
        verb="doctor",
        title=count(len(machines), "machine"),
        verdict=headline(run),
        brief=[table],
        sections=[section],
        run=run,
        data=lambda: data(run),
        about="Each machine is compared with the median of the others of its kind, visit by visit.",
    )


def _machines(run: Run) -> list[str]:
    return sorted({str(case.axes.get("machine", "")) for case in run.cases})


def _speeds(run: Run) -> list[str]:
    return list(dict.fromkeys(str(case.axes.get("speed", "")) for case in run.cases))


def headline(run: Run) -> doc.Headline:
    """The answer: slow, lost, alike, undecided or not compared."""
    machines = _machines(run)
    slow = [comparison for comparison in run.comparisons if comparison.word == "slower"]
    lost = list(dict.fromkeys(case.failure.what for case in run.cases if case.failure))
    if slow:
        sentence = "; ".join([each.sentence for each in slow] + lost)
        steps = [finding.next for finding in run.findings[:1]]
        return doc.Headline(word="slow", tone="invalid", sentence=sentence, next=steps)
    if lost:
        return doc.Headline(word="lost", tone="invalid", sentence="; ".join(lost))
    if not run.comparisons:
        why = "no two machines are of one kind" if len(machines) > 1 else "there is one machine alone"
        return doc.Headline(word="not compared", tone="unknown", sentence=why)
    (seen,) = run.checks
    if seen.outcome == "warn":
        return doc.Headline(word="undecided", tone="noisy", sentence=seen.sentence, next=[seen.next])
    return doc.Headline(word="alike", tone="trusted", sentence=seen.sentence)


def data(run: Run) -> dict[str, Any]:
    """The machines for programs; times in seconds."""
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


def _kind(run: Run, name: str) -> str:
    return str(_cases(run, name)[0].axes.get("hardware", ""))


def _speed(run: Run, speed: str, name: str) -> doc.Cell:
    case = next((case for case in _cases(run, name) if case.axes.get("speed") == speed), None)
    series = case.find("latency", Regime.ISOLATED) if case else None
    if series is None or not series.samples:
        return doc.Cell(text="-")
    value = median(series.samples)
    return doc.Cell(text=show(value, "s"), value=value)


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
