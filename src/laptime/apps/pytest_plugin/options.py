"""What can be asked on pytest's command line; the words are pytest-benchmark's where the meaning is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Options:
    """Attributes:
    budget: seconds of measuring a test.
    disable: call each function once and measure nothing; `--laptime-disable`, and in pytest-xdist's workers,
        which would disturb each other.
    compare: the run to compare with, "" for none.
    compare_fail: share by which a test may be slower than there; None where nothing fails.
    save: name of the stored run; "" keeps none. reports: files, their suffix says the format.
    """

    budget: float = 1.0
    only: bool = False
    skip: bool = False
    disable: bool = False
    save: str = ""
    compare: str = ""
    compare_fail: float | None = None
    reports: tuple[str, ...] = ()


def add(parser: pytest.Parser) -> None:
    """The options, in a group of their own."""
    group = parser.getgroup("laptime", "laptime: timings with intervals and verdicts")
    for name, settings in _OPTIONS.items():
        group.addoption(f"--laptime-{name}", **settings)


def read(config: pytest.Config) -> Options:
    """The options of this pytest.

    Raises:
        pytest.UsageError: two of them contradict each other, or a share cannot be read.
    """

    def option(name: str) -> Any:
        return config.getoption(f"laptime_{name}")

    if option("only") and option("skip"):
        raise pytest.UsageError("--laptime-only and --laptime-skip leave no test")
    fail = option("compare_fail")
    return Options(
        budget=option("budget"),
        only=option("only"),
        skip=option("skip"),
        disable=option("disable") or hasattr(config, "workerinput"),
        save=option("save") or "",
        compare=option("compare") or ("last" if fail else ""),
        compare_fail=_share(fail) if fail else None,
        reports=tuple(option("report") or ()),
    )


def _share(text: str) -> float:
    """`5%` or `0.05`; pytest-benchmark's `median:5%` too, as the median is what is compared."""
    number = text.removeprefix("median:")
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share < 10:
        raise pytest.UsageError(f"--laptime-compare-fail {text!r} is no share: 5%, say, or median:5%")
    return share


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 86400:
        raise ValueError(text)
    return seconds


_OPTIONS: dict[str, dict[str, Any]] = {
    "only": {"action": "store_true", "help": "Run only tests that measure."},
    "skip": {"action": "store_true", "help": "Skip tests that measure."},
    "disable": {"action": "store_true", "help": "Call each function once and measure nothing."},
    "budget": {
        "type": _seconds,
        "default": 1.0,
        "metavar": "SECONDS",
        "help": "Seconds of measuring a test, 1 by default.",
    },
    "save": {"metavar": "NAME", "help": "Keep the timings under .laptime/ by this name."},
    "compare": {
        "nargs": "?",
        "const": "last",
        "metavar": "RUN",
        "help": "Compare with a stored run (name, id, file): the last one by default.",
    },
    "compare-fail": {
        "metavar": "SHARE",
        "help": "Fail when a test is slower than there by more than this: 5%%.",
    },
    "report": {
        "action": "append",
        "metavar": "FILE",
        "help": "Write a report; its suffix says which: .md .html .json .xml. Repeatable.",
    },
}
