"""What an error says to type next is a line that runs, or plain advice: every `next=` in the source."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from fixtures.command_lines import resolve
from laptime.apps.cli.error_boundary import run
from laptime.apps.cli.main import cli
from laptime.kit.errors import UsageError
from laptime.reports.commands import whole

SOURCE = Path(__file__).resolve().parents[2] / "src" / "laptime"


def texts(value: ast.expr) -> Iterator[str]:
    """What an expression may come to; `X` for what is not known before."""
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr():
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "X" for p in value.values)
        case ast.IfExp():
            yield from itertools.chain(texts(value.body), texts(value.orelse))


@cache
def every_next() -> list[tuple[str, str]]:
    """What errors say to type next, with the place that says it."""
    return [
        (text, f"{file.relative_to(SOURCE)}:{node.value.lineno}")
        for file in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "next"
        for text in texts(node.value)
    ]


def lines() -> dict[str, str]:
    """Every line that begins with `laptime`, with the place that says it."""
    return {text: place for text, place in every_next() if text.startswith("laptime ")}


def test_every_next_that_is_a_command_resolves() -> None:
    assert len(lines()) > 40
    wrong = []
    for line, place in lines().items():
        try:
            resolve(whole(line))
        except (AssertionError, ValueError, click.UsageError) as error:
            wrong.append(f"{place}: {line}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("advice", "line"),
    [
        ("--budget 60s   knows more", "laptime bench --budget 60s m.py:f --batch 8   # knows more"),
        ("--batch 1,2", "laptime bench --batch 1,2 m.py:f"),
        ("--dtype float32, or --backend openvino", "--dtype float32, or --backend openvino"),
        ("--no-such-option 3", "--no-such-option 3"),
        ("laptime doctor   (who it is)", "laptime doctor   # who it is"),
        ("check the weights", "check the weights"),
    ],
)
def test_an_error_says_the_whole_line(
    advice: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise UsageError("it cannot be done", next=advice)

    command = cli.get_command(click.Context(cli), "bench")
    assert command is not None
    monkeypatch.setattr(command, "callback", fail)
    assert run(cli, ["-q", "bench", "m.py:f", "--batch", "8"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"next:  {line}"
