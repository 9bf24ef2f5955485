"""Every block of Python in README and docs runs, in a folder that has what its page takes for granted."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import laptime
from laptime.kit.errors import Unavailable
from laptime.verbs.bench import planning

pytest.importorskip("torchvision")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
documented = importlib.import_module("_documented")
sys.path.pop(0)
BLOCKS = documented.blocks()
CALL = re.compile(r"\blaptime\.\w+\([^`\n]*\)")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the pages assume, with two stored runs; measuring takes a second or two."""
    from fixtures.runs import case, run, timings
    from laptime.store import files

    shutil.copytree(ROOT / "scripts/documented", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / ".laptime"))
    short = {name: preset._replace(seconds=1.5) for name, preset in planning.PRESETS.items()}
    monkeypatch.setattr(planning, "PRESETS", short)
    for name in ("baseline", "newest"):
        files.save(run(case(timings(0.01)), name=name))
    return tmp_path


def carried_out(block: Any, folder: Path, request: pytest.FixtureRequest) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "block", "request": request}
    exec(compile((folder / "names.py").read_text(), "names.py", "exec"), names)
    code = re.sub(r"num_runs=\d+", "num_runs=5", re.sub(r"budget=\d+", "budget=40", block.code))
    exec(compile(code + (block.text if block.word == "then" else ""), block.place, "exec"), names)
    return names


@pytest.mark.torch
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(each, id=each.place, marks=[pytest.mark.slow] * (each.word == "slow"))
        for each in BLOCKS
        if each.word != "not run"
    ],
)
def test_a_documented_block_runs(block: Any, folder: Path, request: pytest.FixtureRequest) -> None:
    try:
        carried_out(block, folder, request)
    except Unavailable as error:
        pytest.skip(error.what)


def test_what_is_not_run_says_why() -> None:
    left_out = [each for each in BLOCKS if each.word == "not run"]
    assert all(len(each.text) > 5 for each in left_out)
    assert len(left_out) < len(BLOCKS) / 3


def test_comments_about_blocks_are_read() -> None:
    """A comment that is not right above its block would be lost, and the block run."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in documented.PAGES)
    comments = re.findall(r"^<!-- (?:not run|slow|then)\b", pages, re.MULTILINE)
    assert len(comments) == sum(bool(each.word) for each in BLOCKS)


def test_two_models_in_memory_are_compared_as_the_page_writes_it(
    folder: Path, request: pytest.FixtureRequest
) -> None:
    page = (ROOT / "docs/compare.md").read_text(encoding="utf-8")
    call = next(text for text in CALL.findall(page) if text.startswith("laptime.compare(model_a"))
    block = documented.Block("compare.md", f"compared = {call}\n", "", "")
    (found,) = carried_out(block, folder, request)["compared"]
    assert found.word in ("faster", "slower", "same", "unclear")
    assert found.metric.startswith("latency")
    assert (found.baseline.split("/")[0], found.candidate.split("/")[0]) == ("Sequential", "Sequential 2")


def calls(code: str) -> list[ast.Call]:
    """The calls of a public function in some code; none in text that is no Python."""
    try:
        tree = ast.parse(textwrap.dedent(code))
    except SyntaxError:
        return []
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "laptime"
        and node.func.attr != "pedantic"  # of the fixture of tests, which is called laptime, too
    ]


def test_every_call_in_blocks_and_sentences_fits_the_signature() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in documented.PAGES)
    codes = [each.code for each in BLOCKS] + re.findall(r"`([^`\n]*laptime\.\w+\([^`\n]*)`", pages)
    found = [call for code in codes for call in calls(code)]
    assert len(found) > 12
    for call in found:
        assert isinstance(call.func, ast.Attribute)
        keywords = {keyword.arg: None for keyword in call.keywords if keyword.arg}
        signature = inspect.signature(getattr(laptime, call.func.attr))
        signature.bind(*[None] * len(call.args), **keywords)
