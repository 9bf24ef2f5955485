"""The options on pytest's command line, and all its tests as one run: saved, compared, reported.

The words of options are pytest-benchmark's if the meaning is."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from laptime.kit import redaction
from laptime.kit.errors import LaptimeError
from laptime.kit.units import show

if TYPE_CHECKING:
    from laptime.records.case import Case
    from laptime.records.check import Verdict
    from laptime.records.comparison import Comparison
    from laptime.records.run import Run

HEADS = ("test", "median", "95 % interval", "samples", "verdict")


def _seconds(text: str) -> float:
    from laptime.kit import errors, units

    try:
        return units.seconds(text)
    except errors.UsageError as error:
        raise argparse.ArgumentTypeError(f"{error.what}, {error.next}") from error


_SWITCH = {"action": "store_true"}
_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "only": (_SWITCH, "Run only tests that measure."),
    "skip": (_SWITCH, "Skip tests that measure."),
    "disable": (_SWITCH, "Call each function once and measure nothing."),
    "budget": ({"type": _seconds, "default": 1.0, "metavar": "TIME"}, "Time to measure a test; default 1s."),
    "save": ({"metavar": "NAME"}, "Keep the timings under .laptime/ by this name."),
    "compare": (
        {"nargs": "?", "const": "last", "metavar": "RUN"},
        "Compare with a stored run (name, id, file): the last one by default.",
    ),
    "compare-fail": ({"metavar": "SHARE"}, "Fail if a test is slower than that run by more than this: 5%%."),
    "against-rev": (
        {"metavar": "REV"},
        "Compare with a git revision: both are measured now, in turns, in fresh processes.",
    ),
    "side": ({}, argparse.SUPPRESS),
    "report": (
        {"action": "append", "metavar": "FILE"},
        "Write a report; its suffix picks the format: .md .html .json .xml. Repeatable.",
    ),
}
"""What argparse is told of each `--laptime-NAME`, and its help."""


@dataclass(frozen=True)
class Options:
    """The options of one pytest."""

    budget: float = 1.0  # seconds of measuring a test
    only: bool = False
    skip: bool = False
    # call each function once and measure nothing; as in pytest-xdist's workers: they would disturb each other
    disable: bool = False
    save: str = ""  # name of the stored run; "" keeps none
    compare: str = ""  # the run to compare with, "" for none
    against_rev: str = ""  # the git revision, likewise
    side: str = ""  # file that the run goes to, of a pytest that `turns` has started; "" for all others
    compare_fail: float | None = None  # share by which a test may be slower than there; None: nothing fails
    reports: tuple[str, ...] = ()  # files, their suffix says the format


def add_options(parser: pytest.Parser) -> None:
    """The options, in a group of their own."""
    group = parser.getgroup("laptime", "laptime: timings with intervals and verdicts")
    for name, (settings, help) in _OPTIONS.items():
        group.addoption(f"--laptime-{name}", help=help, **settings)


def read_options(config: pytest.Config) -> Options:
    """The options of this pytest.
    Raises pytest.UsageError: two of them contradict each other, or a share cannot be read."""
    names = [name.replace("-", "_") for name in _OPTIONS]
    asked = {name: config.getoption(f"laptime_{name}") for name in names}
    if asked["only"] and asked["skip"]:
        raise pytest.UsageError("--laptime-only and --laptime-skip leave no test")
    if asked["compare"] and asked["against_rev"]:
        raise pytest.UsageError("--laptime-compare and --laptime-against-rev name two baselines")
    if asked["side"]:
        return Options(budget=asked["budget"], only=True, side=asked["side"])
    fail, reports = asked.pop("compare_fail"), asked.pop("report")
    asked["disable"] = asked["disable"] or hasattr(config, "workerinput")
    asked["compare"] = asked["compare"] or ("last" if fail and not asked["against_rev"] else None)
    given = {name: value for name, value in asked.items() if value is not None}
    return Options(**given, compare_fail=_share(fail) if fail else None, reports=tuple(reports or ()))


def _share(text: str) -> float:
    """`5%` or `0.05`; pytest-benchmark's `median:5%` too, as the median is what is compared."""
    number = text.removeprefix("median:")
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share < 10:
        raise pytest.UsageError(f"--laptime-compare-fail {text!r} is not a share: 5%, say, or median:5%")
    return share


class Session:
    def __init__(self, options: Options, arguments: Sequence[str] = ()) -> None:
        self.options = options
        self.is_worse = False  # whether a test is slower than the baseline allows
        self._arguments = arguments
        self._verdicts: list[Verdict] = []
        self._runs: dict[str, Run] = {}
        self._notes: list[str] = []

    def add(self, name: str, run: Run, extra: dict[str, Any]) -> None:
        """Take the run of a test; its case is called by the test's name."""
        from msgspec.structs import replace

        from laptime.records.case import case_key
        from laptime.records.run import Subject

        cases = []
        for case in run.cases:
            details = replace(case.details, extra_info=extra)
            cases.append(replace(case, target=name, key=case_key(name, case.axes), details=details))
        self._runs[name] = replace(run, cases=cases, subjects=[Subject(target=name)])

    def finish(self, say: Callable[[str], None]) -> None:
        """Compare, save and report, in this order: the run saved is not its own baseline. say: tells what is
        going on."""
        if not self._runs:
            return
        for step in (self._compare, partial(self._turns, say), self._save, self._report):
            try:
                step()
            except (LaptimeError, OSError) as error:
                self._notes += str(error).splitlines()

    def summary(self) -> list[str]:
        """Lines for the end of pytest's output: the table, then notes."""
        if not self._runs:
            return []
        cases = self._run().cases
        rows = [HEADS, *map(_row, cases)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        checks = [(case.target, check) for case in cases for check in case.checks]
        reasons = [f"{of}: {check.sentence}" for of, check in checks if check.outcome in ("warn", "fail")]
        return [*table, *reasons, *self._notes]

    def _run(self) -> Run:
        """All tests as one run, under the conditions of the first."""
        from msgspec import structs

        runs = [*self._runs.values()]
        return structs.replace(
            runs[0],
            name=self.options.save,
            command=redaction.line(["pytest", *sys.argv[1:]]),
            status="complete",
            seconds=sum(run.seconds for run in runs),
            subjects=[subject for run in runs for subject in run.subjects],
            cases=[case for run in runs for case in run.cases],
        )

    def _compare(self) -> None:
        """Nothing to compare with is no failure: the first run of a CI job has no baseline."""
        if not (name := self.options.compare):
            return
        from laptime.store import lookup
        from laptime.verbs.compare import compare_runs
        from laptime.verbs.history import recent

        if lookup.path_of(name) is None:
            self._notes.append(f"not compared: no run is called {name!r}; --laptime-save NAME keeps this one")
            return
        baseline, run = lookup.load(name), self._run()
        shared = {case.key for case in baseline.cases}
        new = [case.target for case in run.cases if case.key not in shared]
        self._notes += [f"not compared: {each} is new" for each in new]
        if len(new) == len(run.cases):
            return
        self._judge(compare_runs(baseline, run, earlier=recent()), "REV")

    def _turns(self, say: Callable[[str], None]) -> None:
        """Measure the revision and the working tree in turns, and compare them."""
        revision = self.options.against_rev
        if not revision:
            return
        from laptime.apps.pytest_plugin import turns

        pairs = turns.pairs_of(revision, self._arguments, budget=self.options.budget, say=say)
        found = turns.compare_tests(pairs)
        shared = {comparison.candidate for comparison in found}
        new = [case.target for case in self._run().cases if case.key not in shared]
        self._notes += [f"not compared: {name} was not measured at {revision}" for name in new]
        self._judge(found, revision)

    def _judge(self, compared: Sequence[Comparison], revision: str) -> None:
        from msgspec import structs

        from laptime.analysis import budgets

        fail = self.options.compare_fail
        for each in compared:
            name = each.candidate.partition("/batch=")[0]
            verdict = budgets.regression(each, budgets.TOLERANCE if fail is None else fail)
            if verdict.next:
                again = shlex.join(["pytest", name, "--laptime-against-rev", revision])
                verdict = structs.replace(verdict, next=again + " --laptime-budget 30")
            self._verdicts.append(verdict)
            self._notes.append(f"{each.word}: {name}: {each.sentence}")
            if fail is not None and verdict.word != "kept":
                self.is_worse = self.is_worse or verdict.word == "broken"
                word = "FAILED" if verdict.word == "broken" else "undecided:"
                self._notes.append(f"{word} {name}: {verdict.sentence}")

    def _save(self) -> None:
        if self.options.side:
            from msgspec import json

            Path(self.options.side).write_bytes(json.encode(self._run()))
        if self.options.save:
            from laptime.store import files

            path = files.save(self._run())
            self._notes.append(f"saved as {self.options.save}: {path}")

    def _report(self) -> None:
        from laptime.analysis.budgets import with_verdicts
        from laptime.kit import registry
        from laptime.reports import formats

        judged = with_verdicts(self._run(), self._verdicts) if self._verdicts else self._run()
        for name in self.options.reports:
            report = registry.load("reports", formats.format_of(Path(name)))
            Path(name).write_text(report.render(judged), encoding="utf-8")
            self._notes.append(f"wrote {name}")


def _row(case: Case) -> tuple[str, ...]:
    from laptime.analysis.summary import headline

    stat = headline(case)
    if stat is None or stat.value is None:
        return case.target, "-", "-", "-", case.trust
    low_high = stat.ci95
    interval = "too few" if low_high is None else f"[{show(low_high[0], 's')}, {show(low_high[1], 's')}]"
    return case.target, stat.text, interval, str(stat.n), case.trust
