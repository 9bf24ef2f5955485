"""The errors a user can meet, and the exit codes they end in.

    LaptimeError
      UsageError         2   a wrong option, an impossible value, an unwritable file
        TargetError      2   the named target does not exist or cannot be used
        Unavailable      2   a library, device or sensor that the request needs is missing
      UserCodeError      4   the user's model or function failed
        OutOfMemory      4   it asked for more memory than this machine can give
        Hung             4   it did not answer within --timeout
        Died             4   its process was killed or crashed

Each says three things: what happened, why we think so, what to type next."""

import math
from collections.abc import Iterable
from enum import IntEnum

from laptime.kit.text import closest


class ExitCode(IntEnum):
    """The answer for a script, by the exit status alone."""

    OK = 0
    NO = 1  # the answer is no: a regression, a failed gate
    USAGE = 2
    UNDECIDED = 3  # unclear, or the measurement is invalid
    USER_CODE = 4
    NOTHING = 5
    BUG = 70
    INTERRUPTED = 130


class LaptimeError(Exception):
    """An error in three lines: what, why, next."""

    exit_code: ExitCode = ExitCode.BUG

    def __init__(self, what: str, *, why: str = "", next: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.next = next

    def __str__(self) -> str:
        lines = {"error": self.what, "why": self.why, "next": self.next}
        return "\n".join(f"{name + ':':<6} {text}" for name, text in lines.items() if text or name == "error")


class UsageError(LaptimeError):
    """The request cannot be carried out as it was typed."""

    exit_code = ExitCode.USAGE


def not_a(what: str, text: str, takes: str, next: str) -> UsageError:
    """The error for a text that cannot be read: what it should have been, and what it takes."""
    return UsageError(f"{text!r} is not {what}", why=f"it takes {takes}", next=next)


def unknown(
    kind: str, name: str, names: Iterable[str], *, option: str = "", example: str = "", what: str = ""
) -> UsageError:
    """The error for a name that does not exist: tells those that do, and suggests the nearest. kind: what it
    should be of, in words: `backend`. option: how it is typed: `--dtype`, `--option mode=`. example: what to
    type when no name is near. what: the first line, if it says more."""
    names = list(names)
    near = closest(name, names)
    typed = f"{option}{near}" if option.endswith("=") else f"{option} {near}" if option else repr(near)
    return UsageError(
        what or f"no {kind} is called {name!r}",
        why=f"known: {', '.join(names)}",
        next=f"did you mean {typed}?" if near else example or "laptime --help",
    )


def refuse_not_positive(*given: tuple[str, float | None, str]) -> None:
    """Check numbers: the option, its value (None is none) and an example of each.
    Raises UsageError: one is no finite number above zero."""
    for option, value, example in given:
        if value is not None and not 0 < value < math.inf:  # NaN is neither
            why, next = "it must be a number above zero", f"{option} {example}"
            raise UsageError(f"{option} {value:g} is impossible", why=why, next=next)


class TargetError(UsageError):
    """The named target does not exist, or is not something that can be measured."""


class Unavailable(UsageError):
    """A library, device or sensor that the request needs is not there."""


class UserCodeError(LaptimeError):
    """The user's own code raised."""

    exit_code = ExitCode.USER_CODE


class OutOfMemory(UserCodeError):
    """The measured code asked for more memory than the machine (or the device) can give."""


class Hung(UserCodeError):
    """The measured code gave no answer within the time allowed."""


class Died(UserCodeError):
    """The process that ran the measured code ended without an answer."""
