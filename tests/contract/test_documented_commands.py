"""Every command of README and docs is one: its words and options are parsed as the page has them."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from fixtures import tunings
from fixtures.command_lines import resolve
from laptime.reports.formats import text

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
commands = importlib.import_module("_documented").commands
sys.path.pop(0)


def test_pages_have_commands() -> None:
    assert len({page for page, _ in commands()}) > 15


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_documented_command_is_one(page: str, line: str) -> None:
    resolve(line)


def rows(text: str) -> list[str]:
    """First words of the lines of an answer, but for its first line and what continues one."""
    return [
        line.split()[0] for line in text.splitlines()[1:] if re.match(r"[a-zA-Z ]{1,11} {2,}\S|Saved ", line)
    ]


def test_the_answer_that_the_readme_shows_has_the_lines_that_a_session_prints() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```text\n(.*?)```", page, re.DOTALL)
    assert found is not None
    printed = text.render(tunings.samples()["tuning"](), brief=True)
    assert re.match(r"[\d.]+x \[[\d., ]+\] faster: [\d.,]+ -> [\d.,]+ samples/s, measured again", found[1])
    assert re.match(r"[\d.]+x \[[\d., ]+\] faster: [\d.,]+ -> [\d.,]+ samples/s, measured again", printed)
    assert rows(found[1]) == [row for row in rows(printed) if row != "suggested"]  # that script had nothing
