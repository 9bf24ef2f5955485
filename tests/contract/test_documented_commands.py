"""Every command of README and docs is one: its words and options are parsed as the page has them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from fixtures.command_lines import resolve

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
commands = importlib.import_module("_documented").commands
sys.path.pop(0)


def test_pages_have_commands() -> None:
    assert len({page for page, _ in commands()}) > 15


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_documented_command_is_one(page: str, line: str) -> None:
    resolve(line)
