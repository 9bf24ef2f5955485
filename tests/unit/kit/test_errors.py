"""Errors are three lines, and each kind ends in its own exit code."""

from __future__ import annotations

import pytest

from laptime.kit import errors
from laptime.kit.errors import ExitCode, LaptimeError


def test_an_error_says_what_why_and_next_in_three_lines() -> None:
    error = errors.TargetError("no such model", why="known: a, b", next="laptime bench a")
    assert str(error).splitlines() == [
        "error: no such model",
        "why:   known: a, b",
        "next:  laptime bench a",
    ]


def test_lines_that_say_nothing_are_left_out() -> None:
    assert str(LaptimeError("it broke")) == "error: it broke"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.UsageError, 2),
        (errors.TargetError, 2),
        (errors.Unavailable, 2),
        (errors.UserCodeError, 4),
        (errors.OutOfMemory, 4),
        (errors.Hung, 4),
        (errors.Died, 4),
        (errors.LaptimeError, 70),
    ],
)
def test_each_kind_of_error_has_its_exit_code(kind: type[LaptimeError], code: int) -> None:
    assert kind("x").exit_code == code


def test_undecided_is_not_no() -> None:
    assert ExitCode.UNDECIDED != ExitCode.NO
    assert [code.value for code in ExitCode] == [0, 1, 2, 3, 4, 5, 70, 130]


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    kinds = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, LaptimeError)
    }
    assert kinds == {word for word in (errors.__doc__ or "").split() if word in kinds}
