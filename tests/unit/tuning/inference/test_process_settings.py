"""What a folder changes in the process that loads it: environment, allocator, denormal numbers."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from laptime.tuning.inference import arm_process, changes
from laptime.tuning.inference.building import write_folder
from laptime.tuning.inference.draft import Draft

pytestmark = pytest.mark.torch


@pytest.fixture
def draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Draft]:
    import torch

    monkeypatch.setattr(os, "environ", dict(os.environ))
    torch.manual_seed(0)
    yield Draft(torch.nn.Linear(4, 2).eval(), [torch.ones(2, 4)], [True], None, tmp_path / "none")
    torch.set_flush_denormal(False)


def written(draft: Draft, folder: Path, *names: str) -> Path:
    """The folder, with changes made to the draft."""
    for name in names:
        changes.load(name).make(draft, {})
    folder.mkdir()
    form = changes.form_of("exported")
    form.write(draft, folder)
    write_folder(folder, form.tuned, draft.settings, target="", recipe=[])
    return folder


def test_huge_pages_are_asked_for_before_a_tensor_is_made(draft: Draft, tmp_path: Path) -> None:
    os.environ.pop("THP_MEM_ALLOC_ENABLE", None)
    arm_process.load_model(written(draft, tmp_path / "folder", "huge_pages"))
    assert os.environ["THP_MEM_ALLOC_ENABLE"] == "1"


def test_the_allocator_is_set_when_the_model_is_loaded(
    draft: Draft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, int]] = []
    folder = written(draft, tmp_path / "folder", "allocator")
    library = SimpleNamespace(mallopt=lambda name, value: calls.append((name, value)))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    arm_process.load_model(folder)
    assert calls == [(-4, 0), (-1, -1)]  # M_MMAP_MAX, M_TRIM_THRESHOLD of malloc.h


@pytest.mark.parametrize("names", [(), ("flush_denormal",)])
def test_denormal_numbers(names: tuple[str, ...], draft: Draft, tmp_path: Path) -> None:
    import torch

    model = arm_process.load_model(written(draft, tmp_path / "folder", *names))
    tiny = torch.full((2, 4), 1e-39)
    assert bool((tiny * 0.5).any()) == (not names)
    assert model(tiny).shape == (2, 2)


def test_weights_tell_whether_there_are_denormal_numbers() -> None:
    import torch

    from laptime.tuning.inference.survey import _of_weights

    layer = torch.nn.Linear(100, 100)
    assert _of_weights(layer) == set()
    with torch.no_grad():
        layer.weight[0, :20] = 1e-39
    assert _of_weights(layer) == {"denormals"}
