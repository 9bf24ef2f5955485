"""Scripts of many shapes, with the sites that diagnosing trials have found in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import CannotEdit, Change
from laptime.tuning.patch.sources import Sources, hunks_of
from laptime.tuning.trial.messages import VARIABLE, Messages, TrialPlan
from laptime.tuning.wire_format import encode

SHAPES = [
    "accumulation.py",
    "alias.py",
    "arguments.py",
    "crlf.py",
    "functions.py",
    "gan.py",
    "iterable.py",
    "iterator.py",
    "notebook.py",
    "package_main.py",
    "progress.py",
    "trainer.py",
    "two_inputs.py",
]
CHANGES = [
    Change("threads", {"threads": 1}),
    Change("channels_last"),
    Change("fused_optimizer"),
    Change("set_to_none"),
    Change("bf16_autocast"),
    Change("num_workers", {"value": 2}),
    Change("persistent_workers"),
]
EXACT = ("threads", "set_to_none", "num_workers")
"""Changes after which these scripts print the very same loss."""


@pytest.mark.parametrize("name", SHAPES)
def test_every_change_is_made_applies_and_leaves_python(
    tmp_path: Path, shape: Callable[[str], Sources], name: str
) -> None:
    sources = shape(name)
    for each in CHANGES:
        assert sources.apply(each, f"{each}, 1.10x [1.05, 1.15]"), each
    assert sources.patch_copies(tmp_path / "applied")
    for path, file in sources.files.items():
        compile(file.text.encode(), str(path), "exec")
        kept = iter(file.text.split("\n"))
        for line in re.findall(r"#(?! laptime).*", file.original):
            assert any(line in each for each in kept), f"the comment {line} is kept, and in its place"
    names = {each for file in sources.files.values() for hunk in hunks_of(file) for each in hunk.names}
    assert names == {change.name for change in CHANGES}


@pytest.mark.parametrize("name", SHAPES)
def test_the_edited_script_is_edited_no_more(shape: Callable[[str], Sources], name: str) -> None:
    """Sites in the edited script are found anew, as a trial of it would: by their text."""
    sources = shape(name)
    for each in CHANGES:
        sources.apply(each, str(each))
    for path, file in sources.files.items():
        path.write_bytes(file.text.encode())
    moved = []
    for place in sources.places:
        tree = place.file.tree
        first, last = tree.lines(place.node())
        for site in (place.site, *place.others):
            moved.append(type(site)(**{**vars(site), "line": first, "end_line": last}))
    again = Sources(tuple(moved), str(sources.main), "cpu")
    assert not again.left_out
    for each in CHANGES:
        assert again.apply(each, "again") == [], each


@pytest.mark.parametrize("name", ["gan.py", "accumulation.py", "alias.py", "trainer.py", "progress.py"])
def test_loss_scaling_is_put_into_the_loop(
    tmp_path: Path, shape: Callable[[str], Sources], name: str
) -> None:
    sources = shape(name)
    sources.apply(Change("fp16_autocast", {"clips": True}), "fp16")
    text = sources.files[sources.main].text
    original = sources.files[sources.main].original
    assert text.count("scaler.scale(") == original.count(".backward()")
    assert (
        text.count("scaler.step(")
        == text.count("scaler.update()")
        == len(re.findall(r"(?i)opt\w*\.step\(\)", original))
    )
    assert text.count("scaler.unscale_(") == text.count("scaler.step(")
    assert sources.patch_copies(tmp_path / "applied")


def test_a_region_of_each_backward_pass_of_a_gan(shape: Callable[[str], Sources]) -> None:
    sources = shape("gan.py")
    sources.apply(Change("bf16_autocast"))
    blocks = re.findall(
        r"        with torch.autocast.*\n((?:            .*\n)+)", sources.files[sources.main].text
    )
    assert [block.count("criterion(") for block in blocks] == [1, 1, 1]
    assert ["netG(" in block for block in blocks] == [False, True, False]


def test_a_model_of_a_class_is_told_before_its_loop(shape: Callable[[str], Sources]) -> None:
    sources = shape("trainer.py")
    sources.apply(Change("compile"))
    guard = (
        "    if self.model._compiled_call_impl is None:\n            self.model.compile()\n        for batch"
    )
    assert guard in sources.files[sources.main].text


def test_a_loader_in_another_module_is_edited_there(shape: Callable[[str], Sources]) -> None:
    sources = shape("package_main.py")
    assert sources.main is not None
    touched = sources.apply(Change("num_workers", {"value": 2}))
    assert touched == [str(sources.main.parent / "pieces" / "data.py")]


def test_what_is_not_copied_has_no_copy_that_waits(shape: Callable[[str], Sources]) -> None:
    with pytest.raises(CannotEdit, match="no copy"):
        shape("gan.py").apply(Change("pin_memory"))


def run(path: Path, *arguments: str) -> str:
    """What a script prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    command = [sys.executable, str(path), *arguments]
    done = subprocess.run(
        command, cwd=path.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_the_patched_script_trains_the_same(
    shape: Callable[[str], Sources], tmp_path: Path, name: str
) -> None:
    sources = shape(name)
    assert sources.main is not None
    before = run(sources.main)
    # Every worker of an IterableDataset that does not share its samples out reads all of them.
    exact = [each for each in EXACT if name != "iterable.py" or each != "num_workers"]
    for each in CHANGES:
        if each.name in exact:
            sources.apply(each, str(each))
    for path, copy in sources.patch_copies(tmp_path / "into").items():
        Path(path).write_bytes(Path(copy).read_bytes())
    assert run(sources.main) == before
    rest = [each for each in CHANGES if each.name not in EXACT and name != "iterable.py"]
    for each in rest:
        sources.apply(each, str(each))
    for place, file in sources.files.items():
        place.write_bytes(file.text.encode())
    loss, expected = (float(re.findall(r"-?\d+\.\d{6}", text)[-1]) for text in (run(sources.main), before))
    assert loss == pytest.approx(expected, rel=0.2, abs=0.05)


@pytest.mark.torch
@pytest.mark.slow
def test_the_recorded_sites_are_those_of_a_trial(shape: Callable[[str], Sources], tmp_path: Path) -> None:
    sources = shape("functions.py")
    folder = tmp_path / "trial"
    folder.mkdir()
    plan = TrialPlan(folder=str(folder), mode="diagnose", seconds=1.0, scratch=str(tmp_path / "scratch"))
    subprocess.run(
        [sys.executable, "-m", "laptime.tuning.trial", str(sources.main)],
        env={**os.environ, VARIABLE: encode(plan), "OMP_NUM_THREADS": "1"},
        check=False,
        capture_output=True,
    )
    found = Messages(folder).latest(LoopProfile)
    assert found is not None
    known = {(each.kind, each.line, each.expression) for each in sources.sites}
    assert {(each.kind, each.line, each.expression) for each in found.sites} == known
