"""What a report says to type next runs as it stands: in the shell that reads it, with what is stored."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs

from contract.test_next_lines import SOURCE, every_next
from fixtures import costs, pages, runs, tunings
from fixtures.command_lines import carried_out
from laptime.apps.cli import output
from laptime.records.plan import BenchRequest
from laptime.records.run import Run
from laptime.reports import document as doc
from laptime.store import files
from laptime.store.live_run import Recorded

COMMAND = re.compile(r"(?:[A-Z_]+=\S+ )*(laptime|pip|python|python3|git|taskset|docker|ps|less|vllm)\b ?")
PLACEHOLDER = re.compile(r"\.\.\.|\$\(|, say\b|<\w+>|\b(TARGET|SCRIPT|RUN|FILE|FOLDER|MODEL|PLACE)\b")
MADE_HERE = ("model.py", "train.py", "data.py", "x.json")


def said(part: Any) -> Iterator[str]:
    """Every line to type next in a document, wherever it stands."""
    if isinstance(part, (list, tuple)):
        for each in part:
            yield from said(each)
    if isinstance(part, doc.Facts):
        yield from (text.removeprefix("next: ") for _, text in part.rows if text.startswith("next: "))
    if isinstance(part, Struct) and not isinstance(part, Run):
        for name in part.__struct_fields__:
            value = getattr(part, name)
            if name in ("next", "commands"):
                yield from [value] if isinstance(value, str) else value
            else:
                yield from said(value)


def lines_of(kind: str) -> list[str]:
    """The commands of one kind of page, without those in which a stranger's words stand."""
    return [line for line in dict.fromkeys(said(made(kind))) if line and "script>" not in line]


def measured(*given: Any, **named: Any) -> Recorded:
    """In place of minutes of measuring."""
    return (runs.trusted() if isinstance(given[2], BenchRequest) else tunings.full()), None


@cache
def made(kind: str) -> doc.Document:
    """A page, made once: the one of a real trace takes a while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAPTIME_CACHE", "/nonexistent")
        patch.setenv("LAPTIME_HOME", "/nonexistent")
        return pages.documents()[kind]()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the pages speak of, and a store with their runs."""
    folder = tmp_path_factory.mktemp("home")
    for name in MADE_HERE:
        (folder / name).write_text("def build(): ...\nfor step in range(3): ...\n", encoding="utf-8")
    for kind in pages.documents():
        if (run := made(kind).run) is not None:
            files.save(run, folder / ".laptime")
    newest = structs.replace(runs.trusted(), id="20260828-142501-337-9f3a1c")
    for run in (costs.run(costs.case(1)), newest):
        files.save(run, folder / ".laptime")
    return folder


@pytest.fixture
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There, and nothing is measured."""
    monkeypatch.chdir(home)
    monkeypatch.setenv("LAPTIME_HOME", str(home / ".laptime"))
    monkeypatch.setattr(output.Delivery, "watch", measured)


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize("kind", sorted(pages.documents()))
def test_what_a_report_says_to_type_next_runs(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    for line in lines_of(kind):
        command = line.rpartition("or: ")[2]
        if not COMMAND.match(command):
            assert not PLACEHOLDER.search(line), line
            continue
        assert not PLACEHOLDER.search(command), command
        words = shlex.split(command, comments=True)
        while re.match(r"[A-Z_]+=", words[0]):
            words.pop(0)
        if words[0] != "laptime":
            assert shutil.which(words[0]) or words[0] == "vllm", command
            continue
        done = carried_out(capsys, *words[1:])
        assert done.returncode in (0, 1, 3), f"{command}: {done.stderr}"


def test_no_command_in_an_error_leaves_a_hole_for_the_reader() -> None:
    wrong = {
        f"{place}: {text}"
        for text, place in every_next()
        if COMMAND.match(text)
        and PLACEHOLDER.search(text.partition("   ")[0])
        and "laptime bench ..." not in text
    }
    assert not wrong, "\n".join(sorted(wrong))
    assert len(list(every_next())) > 300
    assert SOURCE.is_dir()
