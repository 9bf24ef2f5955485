"""Which stored sessions say something about the next one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.records.environment import Device
from laptime.records.run import Run
from laptime.records.tuning import Diagnosis, Rung, Tuning
from laptime.store import files
from laptime.tuning.script.records import ladders

FACTS = ["conv", "cpu", "loader", "sgd"]
WON = Rung(name="bf16_autocast", label="bf16_autocast", verdict="faster", speedup=1.7, ci95=(1.6, 1.8))
HERE = runs.trusted().environment


def stored(
    root: Path, number: int, facts: list[str] = FACTS, *, goal: Any = "throughput", **changes: object
) -> Run:
    tuning = Tuning(goal=goal, before=Diagnosis(facts=facts), ladder=[WON])
    run = structs.replace(
        runs.trusted(), id=f"20260801-00000{number}-000-a", verb="tune", tuning=tuning, **changes
    )
    files.save(run, root)
    return run


def ids(root: Path, facts: list[str] = FACTS) -> list[str]:
    return [run for run, _ in ladders(HERE, facts, "throughput", root)]


def test_sessions_of_the_same_kind_count_newest_first(tmp_path: Path) -> None:
    first, second = stored(tmp_path, 1), stored(tmp_path, 2)
    assert ids(tmp_path) == [second.id, first.id]
    assert next(ladders(HERE, FACTS, "throughput", tmp_path)) == (second.id, [WON])


@pytest.mark.parametrize(
    "facts", [["attention", "cpu", "loader"], ["conv", "cuda", "loader"], [*FACTS, "autocast"]]
)
def test_another_model_device_or_precision_is_another_kind(tmp_path: Path, facts: list[str]) -> None:
    stored(tmp_path, 1, facts)
    assert ids(tmp_path) == []


def test_the_optimizer_is_not_part_of_the_kind(tmp_path: Path) -> None:
    stored(tmp_path, 1)
    assert len(ids(tmp_path, ["adamw", "conv", "cpu", "loader"])) == 1


def test_another_machine_goal_or_verb_does_not_count(tmp_path: Path) -> None:
    accelerator = [*HERE.devices, Device(name="cuda:0", model="another")]
    stored(tmp_path, 1, environment=structs.replace(HERE, cpu="another"))
    stored(tmp_path, 2, environment=structs.replace(HERE, host="another"))
    stored(tmp_path, 3, environment=structs.replace(HERE, devices=accelerator))
    stored(tmp_path, 4, goal="memory")
    files.save(structs.replace(runs.trusted(), id="20260801-000005-000-a"), tmp_path)
    assert ids(tmp_path) == []


def test_a_damaged_run_is_left_out(tmp_path: Path) -> None:
    run = stored(tmp_path, 1)
    damaged = files.save(structs.replace(run, id="20260801-000002-000-a"), tmp_path)
    damaged.write_bytes(b"{")
    assert ids(tmp_path) == [run.id]
