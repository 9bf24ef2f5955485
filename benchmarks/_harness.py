"""What all benchmarks share: options, where and when, a table, a median with its interval, figures as JSON.

A benchmark is a `main(asked, figures)` that fills the figures, prints its tables and gives its exit status.
Its last line

    run(main, "Start-up", option("--rounds", type=int, default=21))

reads the command line, prints title, machine and date, and writes the figures where --json says.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from laptime.analysis.quantiles import interval
from laptime.kit.clock import utc_now
from laptime.probes import machine

# Made-up runs and machines stand with the tests.
sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))


Option = tuple[tuple[str, ...], dict[str, Any]]


@contextmanager
def neighbour(wanted: bool, seed: int) -> Iterator[None]:
    """A program that burns one core on and off, while inside; ended by its process id."""
    if not wanted:
        yield
        return
    process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("_burn.py")), str(seed)])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def option(*words: str, **how: Any) -> Option:
    """An option of a benchmark, as `ArgumentParser.add_argument` takes it."""
    return words, how


class Figures(dict[str, Any]):
    """What a benchmark found: in the end a JSON file, and one at every `keep` before."""

    def __init__(self, file: Path | None, figures: dict[str, Any]) -> None:
        super().__init__(figures)
        self.file = file

    def keep(self) -> None:
        """Write what is known by now: a benchmark that is killed goes on behind it."""
        write(self.file, self)

    def again(self, name: str, fresh: Any) -> Any:
        """What an earlier start kept in the same file under this name, else the fresh value."""
        known = json.loads(self.file.read_text()) if self.file and self.file.is_file() else {}
        self[name] = known.get(name, fresh)
        return self[name]


class Lines(list[dict[str, Any]]):
    """Answers that take hours, a line of JSON each: those of earlier starts, and those that are added."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        super().__init__(map(json.loads, file.read_text().splitlines()) if file and file.is_file() else ())

    def add(self, answer: dict[str, Any]) -> None:
        """One more, on disk at once."""
        self.append(answer)
        if self.file is not None:
            with self.file.open("a") as file:
                file.write(json.dumps(answer) + "\n")


def run(main: FunctionType, title: str, *options: Option, lines: bool = False) -> NoReturn:
    """Carry a benchmark out, and exit with what it says: 1 if a limit is passed.

    Args:
        lines: the file of --json has a line for each answer (`Lines`), which the benchmark adds itself.
    """
    made = parser(str(main.__globals__.get("__doc__") or ""))
    for words, how in options:
        made.add_argument(*words, **how)
    asked = made.parse_args()
    figures = Figures(None if lines else asked.json, head(title))
    status = main(asked, figures)
    figures.keep()
    sys.exit(status)


def parser(text: str) -> argparse.ArgumentParser:
    """Options that every benchmark has; the first paragraph of its text is the help."""
    made = argparse.ArgumentParser(description=text.partition("\n\n")[0])
    made.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    return made


def where() -> dict[str, Any]:
    """Machine and date of what is measured now; no name of the machine."""
    seen = machine.environment()
    return {
        "date": utc_now(),
        "cpu": seen.cpu,
        "vcpus": seen.vcpus,
        "usable_cpus": seen.usable_cpus,
        "virtual": seen.virtual,
        "os": seen.os,
        "python": seen.python,
        "libraries": seen.libraries,
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def head(title: str) -> dict[str, Any]:
    """Print title, machine and date; the same as data."""
    seen = where()
    virtual = f", virtual ({seen['virtual']})" if seen["virtual"] else ""
    load = f", load {seen['load']:.1f}" if seen["load"] is not None else ""
    print(f"**{title}**\n")
    print(
        f"{seen['cpu']}, {seen['usable_cpus']:g} CPUs{virtual}{load}; Python {seen['python']}; "
        f"{seen['date']}\n"
    )
    return {"title": title, "where": seen}


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A Markdown table on stdout."""
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def median(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """Median and its distribution-free 95 % interval (None below six values)."""
    return statistics.median(values), interval(np.asarray(values, dtype=float), 0.5)


def shown(values: Sequence[float], *, factor: float, unit: str, digits: int = 2) -> str:
    """`1.23 [1.20, 1.31] us`: the median of the values times a factor, and its interval."""
    middle, ends = median(values)
    around = f" [{ends[0] * factor:.{digits}f}, {ends[1] * factor:.{digits}f}]" if ends else ""
    return f"{middle * factor:.{digits}f}{around} {unit}".rstrip()


def write(file: Path | None, data: Any) -> None:
    """The figures as JSON, in one move, so that a killed program leaves the file as it was."""
    if file is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(file.name + ".part")
    fresh.write_text(json.dumps(data, indent=1) + "\n")
    fresh.replace(file)
