"""Exports of known truth: what computes something else is never trusted, what computes the same always is."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from pathlib import Path

import msgspec

from fixtures import exports, runs
from fixtures.exports import Export
from laptime.measure.checks.agreement import check
from laptime.measure.recorded_calls import RecordedCalls, compare, record
from laptime.records.check import Check, trust

pytestmark = pytest.mark.torch
PLANTED, SOUND = list(exports.planted()), list(exports.sound())


def answer(export: Export, folder: Path, batch: int) -> Check:
    """What the check says of an export, recorded and compared as a worker does."""
    calls = record(export.original, export.inputs, [batch, 1 if batch > 1 else 2])
    calls.save(folder / "calls.npz")
    found = compare(
        export.exported, RecordedCalls.load(folder / "calls.npz"), against="the original", dtype="float32"
    )
    details = {"outputs": {"against_torch": msgspec.to_builtins(found)}}
    case = runs.case(axes={"dtype": export.dtype}, details=details)
    result = check(case, runs.environment(), {})
    assert result is not None
    return result


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("export", PLANTED, ids=[each.name for each in PLANTED])
def test_an_export_that_computes_something_else_is_not_trusted(
    export: Export, batch: int, tmp_path: Path
) -> None:
    said = answer(export, tmp_path, batch)
    assert trust([said]) != "trusted", said.sentence


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("export", SOUND, ids=[each.name for each in SOUND])
def test_a_sound_export_agrees(export: Export, batch: int, tmp_path: Path) -> None:
    said = answer(export, tmp_path, batch)
    assert said.outcome == "ok", said.sentence


def test_there_are_enough_of_both() -> None:
    assert len({each.name for each in PLANTED}) >= 12
    assert len({each.name for each in SOUND}) >= 12
