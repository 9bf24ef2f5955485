"""One file an export: numbers of a run, or of a running loop, for a tool that keeps numbers of many programs.

A file `NAME.py` has

    PLACE: str                          what it writes in the current folder, unless another place is given
    open(place, title) -> Export        imports its library inside; a folder gets its file in it. Where
                                        the tool has a server, `place` may be its address (`http://...`):
                                        only then is the network used

The library belongs to the extra of the same name, `laptime[NAME]`. Names of numbers are those of
docs/metrics.md with their statistic (`latency/isolated/median`), and so are their units."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from laptime.analysis.stat import Stat
from laptime.analysis.summary import summarize
from laptime.kit import registry
from laptime.kit.errors import LaptimeError, Unavailable, UsageError
from laptime.kit.extras import install
from laptime.records.case import Case
from laptime.records.run import Run

WORDS = ("trusted", "noisy", "invalid")


class Point(NamedTuple):
    """One number."""

    tag: str
    value: float
    unit: str  # SI base unit, as in docs/metrics.md
    title: str = ""


class Record(NamedTuple):
    """The numbers of one case, or of one loop, at one time."""

    name: str  # the case's key
    labels: Mapping[str, str]  # target, axes, run
    points: Sequence[Point]
    step: int = 0  # of a loop; 0 for a measured case


class Export(Protocol):
    """An open one."""

    def write(self, record: Record) -> None:
        """Hand over; records of one name are one series over their steps."""

    def close(self) -> str:
        """Nothing follows; what to type, or where to look, to see the numbers."""


def send(run: Run, name: str, place: str = "") -> str:
    """Export every case of a run.
    name: mlflow, opentelemetry, prometheus, tensorboard, wandb, or one of another package. place: file,
    folder or address; "" is the export's own. Returns what to type, or where to look, to see the numbers.
    Raises Unavailable: the library is not installed. UsageError: the run has no cases, or the place cannot be
    written or reached."""
    if not run.cases:
        raise UsageError(
            f"run {run.id} has no numbers to export",
            why=f"it is a {run.verb} run without cases; an export holds the statistics of cases",
            next=f"laptime show {run.id} --json",
        )
    export = opened(name, place, title=run.name or run.id)
    try:
        for case in run.cases:
            export.write(Record(case.key, labels(case, run), points(case, run)))
        return export.close()
    except Exception as error:
        raise _refuse(name, place, error) from error


def opened(name: str, place: str, *, title: str) -> Export:
    """An export that takes records.
    Raises Unavailable: the library is not installed. UsageError: there is no such export, or the place cannot
    be written or reached."""
    module = registry.load("exports", name)
    try:
        export: Export = module.open(place or module.PLACE, title)
    except ImportError as error:
        extra = module.__name__.rpartition(".")[2]
        raise Unavailable(
            f"the library of the export {extra} is not installed", why=str(error), next=install(extra)
        ) from error
    except Exception as error:
        raise _refuse(name, place, error) from error
    return export


def is_address(place: str) -> bool:
    """Whether a place is on the network."""
    return place.startswith(("http://", "https://"))


def file_at(place: str, name: str) -> Path:
    """The file that a place means: itself, or the file of this name in it if it is a folder."""
    path = Path(place)
    return path / name if path.is_dir() else path


def labels(case: Case, run: Run) -> dict[str, str]:
    """Return the labels that distinguish a case: target and axes, the run's id and its name."""
    axes = {axis: str(value) for axis, value in case.axes.items()}
    return {"target": case.target, **axes, "run": run.id, **({"name": run.name} if run.name else {})}


def points(case: Case, run: Run) -> list[Point]:
    """Every statistic with the ends of its 95 % interval, and the verdict as 0 or 1 for each of its words."""
    stats = [point for stat in summarize(case, run.constants).values() for point in _of(stat)]
    said = [Point(f"verdict/{word}", float(case.trust == word), "1", f"verdict is {word}") for word in WORDS]
    return [*said, *stats]


def _of(stat: Stat) -> list[Point]:
    if stat.value is None:
        return []
    tag = f"{stat.tag}/at_least" if stat.at_least else stat.tag
    low, high = stat.ci95 or (None, None)
    ends = (("", stat.value, ""), ("/ci95_low", low, ", low end of its 95 % interval"),
            ("/ci95_high", high, ", high end of its 95 % interval"))  # fmt: skip
    return [
        Point(f"{tag}{suffix}", value, stat.unit, stat.title + text)
        for suffix, value, text in ends
        if value is not None and math.isfinite(value)
    ]


def _refuse(name: str, place: str, error: Exception) -> LaptimeError:
    if isinstance(error, LaptimeError):
        return error
    return UsageError(
        f"{name} did not accept the numbers{f' at {place}' if place else ''}",
        why=f"{type(error).__name__}: {error}".splitlines()[0],
        next="name a place that can be written or reached: --to PLACE",
    )
