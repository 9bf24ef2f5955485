"""Every command of README and docs is one: its words and options are parsed as the page has them."""

from __future__ import annotations

import importlib
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest

from laptime.apps.cli.main import cli

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
commands = importlib.import_module("_documented").commands
sys.path.pop(0)


def test_pages_have_commands() -> None:
    assert len({page for page, _ in commands()}) > 15


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_documented_command_is_one(page: str, line: str) -> None:
    words = [word for word in shlex.split(line, comments=True)[1:] if word != "--help"]
    with click.Context(cli) as context:
        command: click.Command | None = cli
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            command = command.get_command(context, words.pop(0))
            assert command is not None, line
        assert command is not None
        settings: dict[str, Any] = command.context_settings
        parser = command.make_parser(click.Context(command, **settings))
        with suppress(click.BadOptionUsage):  # a page may name an option without its value
            parser.parse_args(words)  # raises NoSuchOption
