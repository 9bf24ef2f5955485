"""A run as Python code gets it: the record, with its numbers, reports and a short text at hand."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from laptime.analysis.stat import Stat
from laptime.analysis.summary import headline, main_throughput, summarize
from laptime.kit import registry
from laptime.kit.errors import Unavailable, UsageError
from laptime.records import run as records
from laptime.records.case import Case
from laptime.records.comparison import Comparison
from laptime.records.event import Listener, ignore
from laptime.records.tuning import Tuning
from laptime.reports import formats, fragment
from laptime.reports.documents import document
from laptime.store.live_run import record_run

if TYPE_CHECKING:
    import pandas as pd

LINES = 5  # of the text that stands for a run in a console


class Run(records.Run, frozen=True, kw_only=True):
    """The result of `laptime.bench` and `laptime.load`.

    `run.latency` and `run.throughput` are the headline of a run with one case; `run.cases` holds all of them,
    with the raw samples. Printed, it is its own first lines."""

    @classmethod
    def of(cls, run: records.Run) -> Self:
        """The same run."""
        return cls(**{name: getattr(run, name) for name in run.__struct_fields__})

    @property
    def latency(self) -> Stat:
        """Median seconds of a call, with its 95 % interval.
        Raises UsageError: the run has several cases, or nothing was timed."""
        return self._require(headline(self._only_case(), self.constants))

    @property
    def throughput(self) -> Stat:
        """Items per second, likewise."""
        return self._require(main_throughput(self._only_case(), self.constants))

    def to_dict(self) -> dict[str, Any]:
        """The JSON report as plain data: what `--json` prints, without the raw samples."""
        document: dict[str, Any] = msgspec.json.decode(registry.load("reports", "json").render(self))
        return document

    def to_pandas(self) -> "pd.DataFrame":
        """One row a statistic of a case: axes of the case, tag, value, unit, low, high, n, regime.
        Raises Unavailable: pandas is not installed."""
        try:
            import pandas as pd
        except ImportError as error:
            next = "pip install pandas, or run.to_dict()"
            raise Unavailable("pandas is not installed", why="DataFrames need it", next=next) from error
        return pd.DataFrame([row for case in self.cases for row in _rows(case, self)])

    def report(self, path: Path | str) -> None:
        """Write a report; its suffix says which: .html .md .txt .json .xml .csv.
        Raises UsageError: no report has this suffix. OSError: the file cannot be written."""
        file = Path(path)
        report = registry.load("reports", formats.format_of(file))
        file.write_text(report.render(self), encoding="utf-8")

    def __repr__(self) -> str:
        text: str = registry.load("reports", "text").render(self, brief=True)
        lines = [line for line in text.splitlines()[:-1] if line.strip()]
        left = len(lines) - LINES + 1
        if left > 1:
            lines[LINES - 1 :] = [f"{self.trust}; {left} more lines: run.report('run.txt')"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return fragment.render(document(self))

    def _require(self, stat: Stat | None) -> Stat:
        if stat is None:
            failure = self._only_case().failure
            raise UsageError(
                "this run has no such number",
                why=failure.what if failure else "nothing was timed in this regime",
                next="print(run) shows what was measured",
            )
        return stat

    def _only_case(self) -> Case:
        if len(self.cases) != 1:
            raise UsageError(
                f"this run has {len(self.cases)} cases",
                why="each has a latency and a throughput of its own",
                next="laptime.analysis.summary.headline(run.cases[0]), or run.to_pandas()",
            )
        return self.cases[0]


class Comparisons(list[Comparison]):
    """The result of `laptime.compare`; printed, a line each."""

    def __repr__(self) -> str:
        return "\n".join(
            f"{each.sentence}   ({each.metric}: {each.candidate} against {each.baseline})" for each in self
        )


class TunedRun(Run, frozen=True, kw_only=True):
    """The result of `laptime.tune`: a run that has a tuning."""

    tuning: Tuning


def keep(work: Callable[[Listener], records.Run], on_event: Listener | None, *, save: bool) -> records.Run:
    """The run of some work, kept under .laptime/ if it is to be; a warning says if that failed."""
    if not save:
        return work(on_event or ignore)
    run, complaint = record_run(work, *([on_event] if on_event else []))
    if complaint is not None:
        warnings.warn(str(complaint), stacklevel=3)
    return run


def _rows(case: Case, run: records.Run) -> list[dict[str, Any]]:
    return [
        {
            **case.axes,
            "case": case.key,
            "verdict": case.trust,
            "tag": stat.tag,
            "value": stat.value,
            "unit": stat.unit,
            "low": stat.ci95[0] if stat.ci95 else None,
            "high": stat.ci95[1] if stat.ci95 else None,
            "n": stat.n,
            "regime": stat.regime,
        }
        for stat in summarize(case, run.constants).values()
    ]
