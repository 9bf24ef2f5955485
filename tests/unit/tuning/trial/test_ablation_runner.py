"""A diagnosis finds where a planted step's time goes, on a scripted loop and on real scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from laptime.instrument.steps import Stop
from laptime.tuning.loop_profile import FACTS, SHARES, LoopProfile
from laptime.tuning.trial.diagnosis import ablation_blocks, ablation_runner
from laptime.tuning.trial.diagnosis.ablation_blocks import (
    SECONDS,
    LoopTraits,
    TimedBlock,
    contradiction,
    derive,
    noise,
    plan_blocks,
    shares,
)
from laptime.tuning.trial.diagnosis.ablation_runner import AblationRunner
from laptime.tuning.trial.messages import VARIABLE, Messages, TrialPlan, TrialResult
from laptime.tuning.wire_format import encode

DATA, COPY, FORWARD, BACKWARD, STEP = 0.006, 0.002, 0.004, 0.005, 0.003


class Accelerator:
    """A device that works behind the host, and a clock for both: what is started is waited for later."""

    name = "scripted"

    def __init__(self) -> None:
        self.now = self.free_at = 1.0

    def start(self, seconds: float) -> None:
        self.free_at = max(self.free_at, self.now) + seconds

    def wait(self) -> None:
        self.now = max(self.now, self.free_at)

    def host(self, seconds: float) -> None:
        self.now += seconds


def loop_profile(folder: Path) -> LoopProfile:
    profile = Messages(folder).latest(LoopProfile)
    assert profile is not None
    return profile


# Shares, noise, order: pure.


def test_parts_that_contradict_each_other_are_named() -> None:
    parts = dict(zip(SHARES, (0.008, 0.0, 0.4, 0.5, 0.01, 0.0), strict=True))
    even = {"whole": 1.0, "no_optimizer": 0.97, "cached": 1.02}
    assert contradiction(even, parts) == ""
    found = contradiction({**even, "no_optimizer": 0.5}, parts)
    assert found.startswith("a step without its optimizer part takes 50% less, and that part 1%: ")
    assert "data" in contradiction({**even, "cached": 0.5}, parts)
    assert contradiction({}, parts) == contradiction(even, dict.fromkeys(SHARES, 0.0)) == ""


def test_shares_add_up_and_are_never_negative() -> None:
    parts = dict(zip(SHARES, (0.5, 0.1, 0.2, 0.3, 0.1, 0.05), strict=True))
    for accelerator in (False, True):
        for workers in (False, True):
            for cached in (0.2, 0.9, 1.4):
                seconds = {"whole": 1.0, "cached": cached, "on_device": 0.85}
                found = shares(seconds, parts, accelerator=accelerator, workers=workers)
                assert sum(found.values()) == pytest.approx(1.0)
                assert min(found.values()) >= 0.0


def test_data_that_an_accelerator_hides_is_no_share() -> None:
    parts = dict(zip(SHARES, (0.5, 0.0, 0.5, 0.5, 0.1, 0.0), strict=True))
    found = shares({"whole": 1.0, "cached": 1.0}, parts, accelerator=True, workers=False)
    assert found["data"] == 0.0
    assert shares({"whole": 1.6}, parts, accelerator=False, workers=False)["data"] == pytest.approx(0.5)


def test_workers_that_take_the_loops_cores_count_as_data() -> None:
    parts = dict(zip(SHARES, (0.0, 0.0, 0.6, 0.4, 0.0, 0.0), strict=True))
    found = shares({"whole": 1.0, "cached": 0.7}, parts, accelerator=False, workers=True)
    assert found["data"] == pytest.approx(0.3)
    assert found["forward"] == pytest.approx(0.6 * 0.7)


def test_a_loop_without_steps_has_no_shares() -> None:
    assert set(shares({}, {}, accelerator=False, workers=False).values()) == {0.0}


def test_noise_is_of_whole_blocks_and_one_disturbed_block_does_not_count() -> None:
    blocks = [TimedBlock("whole", each // 2, [1.0 + 0.02 * (each % 2)] * 3) for each in range(20)]
    blocks += [TimedBlock("cached", 0, [9.0])]
    assert noise(blocks) == pytest.approx(1.4826 * 0.0198, rel=0.01)
    blocks[3].seconds = [5.0] * 3
    assert noise(blocks) == pytest.approx(1.4826 * 0.0198, rel=0.01)
    assert noise([]) == 0.0


def test_one_ratio_of_a_process_that_warms_up_says_little_of_noise() -> None:
    blocks = [TimedBlock("whole", each, [seconds]) for each, seconds in enumerate((2.6, 2.2))]
    assert noise(blocks) == pytest.approx((0.167 * 0.03) ** 0.5, rel=0.01)


def test_modes_that_follow_from_parts_are_derived() -> None:
    parts = dict(zip(SHARES, (0.5, 0.0, 0.2, 0.2, 0.1, 0.0), strict=True))
    found = derive({"whole": 1.0}, parts)
    assert found == pytest.approx({"no_optimizer": 0.9, "forward_backward": 0.4, "forward": 0.2})


def test_a_diagnosis_of_any_step_is_short() -> None:
    for step in (1e-4, 1e-3, 0.005, 0.05, 0.3, 1.0, 3.0):
        for accelerator in (False, True):
            known = LoopTraits(step, queued=4, accelerator=accelerator, cuts=("half_batch", "double_batch"))
            planned = plan_blocks(known, seconds=15.0, order=0)
            steps = sum(each.skip + each.steps for each in planned)
            assert steps * step <= max(SECONDS, 25 * step), step
            assert planned[-1].variant == "double_batch"
            modes = {each.variant for each in planned}
            assert {"whole", "cached", "lint"} <= modes
            assert ("on_device" in modes) == accelerator


def test_what_could_break_a_script_is_not_tried() -> None:
    modes = {each.variant for each in plan_blocks(LoopTraits(0.01, closure=True), seconds=15.0, order=0)}
    assert modes == {"whole", "cached", "lint"}
    assert "forward" not in {
        each.variant for each in plan_blocks(LoopTraits(0.01, scaler=True), seconds=15.0, order=0)
    }
    compiled = LoopTraits(0.01, compiled=True, cuts=("half_batch",))
    assert "half_batch" not in {each.variant for each in plan_blocks(compiled, seconds=15.0, order=0)}


def test_rounds_come_in_random_order() -> None:
    planned = plan_blocks(LoopTraits(0.005), seconds=15.0, order=1)
    rounds = [[each.variant for each in planned if each.round == number][:5] for number in range(4)]
    assert len({tuple(each) for each in rounds}) > 1
    assert planned == plan_blocks(LoopTraits(0.005), seconds=15.0, order=1)


# A scripted loop.


@pytest.mark.torch
def test_an_accelerators_shares_are_what_the_step_gains_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    from torch._dynamo.utils import counters

    counters.clear()  # batches of what was compiled are neither cut nor doubled
    device = Accelerator()
    for module in (ablation_runner, ablation_blocks):
        monkeypatch.setattr(module, "perf_counter", lambda: device.now)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(64, 4)), 8)
    hooks: Any = SimpleNamespace(
        models=[model], optimizers=[optimizer], loaders=[loader], calls=[], refused=[], device=device
    )
    hooks.scaled = None
    hooks.steps = SimpleNamespace(source="optimizer", seen={})
    hooks.stop = lambda: (_ for _ in ()).throw(Stop())
    mode = AblationRunner(TrialPlan(folder=str(tmp_path), mode="diagnose", seconds=4.0), hooks)

    def load() -> Any:
        device.host(DATA)
        return torch.ones(8, 4)

    def run() -> None:
        for number in range(2000):
            mode.boundary(ended=number > 0, begins=True)
            batch = mode.fetch(loader, load)
            if mode._variant != "on_device":
                device.start(COPY)
            mode.forward(model, ((), {}))
            device.start(FORWARD * len(batch) / 8)
            mode.backward(batch, lambda: device.start(BACKWARD))
            mode.step(optimizer, lambda: device.start(STEP))
            device.wait()  # the script reads its loss

    with pytest.raises(Stop):
        run()
    mode.finish()
    found = loop_profile(tmp_path)
    whole = DATA + COPY + FORWARD + BACKWARD + STEP
    assert found.step == pytest.approx(whole)
    parts = {"data": DATA, "transfer": COPY, "forward": FORWARD, "backward": BACKWARD, "optimizer": STEP}
    assert found.shares == pytest.approx({**parts, "other": 0.0})
    assert found.what_if == pytest.approx(
        {
            "whole": whole,
            "cached": whole - DATA,
            "on_device": whole - DATA - COPY,
            "no_optimizer": whole - STEP,
            "forward_backward": whole - DATA - STEP,
            "forward": COPY + FORWARD,
            "half_batch": whole - DATA - FORWARD / 2,
            "double_batch": whole - DATA + FORWARD,
        }
    )
    assert found.noise == 0.0
    assert found.batch == 8


@pytest.mark.torch
def test_a_walk_through_the_loader_that_does_not_train_ends(tmp_path: Path) -> None:
    import torch

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 1)), 2)
    hooks: Any = SimpleNamespace(
        models=[], optimizers=[], loaders=[loader], calls=[], refused=[], device=SimpleNamespace(name="cpu")
    )
    hooks.scaled = None
    hooks.steps = SimpleNamespace(source="loader")
    mode = AblationRunner(TrialPlan(folder=str(tmp_path), mode="diagnose"), hooks)

    def ends() -> Any:
        raise StopIteration

    for _ in range(3):
        mode.boundary(ended=True, begins=True)
        mode.fetch(loader, lambda: torch.ones(2, 1))
    mode._variant = "cached"
    given = [mode.fetch(loader, ends) for _ in range(2)]
    assert all(each.shape == (2, 1) for each in given)
    with pytest.raises(StopIteration):
        [mode.fetch(loader, ends) for _ in range(10)]


# Real scripts.

SCRIPT = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

class Data(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.003)
        return torch.full((16,), float(index)), index % 4

class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3)

    def fit(self, loader):
        for epoch in range(1000):
            for inputs, labels in loader:
                SHAPE
                self.optimizer.zero_grad(set_to_none=False)
                loss = nn.functional.cross_entropy(self.net(inputs), labels)
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                self.optimizer.step()
                loss.item()
            torch.save(self.net.state_dict(), "model.pt")

Trainer().fit(DataLoader(Data(), batch_size=8, shuffle=True))
"""


def diagnose(folder: Path, text: str) -> tuple[LoopProfile, dict[str, Any]]:
    """The loop profile and the trial of a script."""
    (folder / "train.py").write_text(text)
    out = folder / "out"
    out.mkdir()
    given = TrialPlan(folder=str(out), mode="diagnose", seconds=12.0, scratch=str(folder / "scratch"))
    environment = {**os.environ, VARIABLE: encode(given), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "laptime.tuning.trial", "train.py"]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    profile, result = Messages(out).latest(LoopProfile), Messages(out).latest(TrialResult)
    assert profile is not None, done.stderr
    assert result is not None
    return profile, asdict(result)


@pytest.mark.torch
@pytest.mark.slow
def test_a_slow_dataset_is_found_with_all_that_optimizations_ask_for(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_text("precious")
    found, trial = diagnose(tmp_path, SCRIPT.replace("SHAPE", "pass"))
    assert trial["ended"] == "stopped"
    assert trial["left"] == []
    assert (tmp_path / "model.pt").read_text() == "precious"
    assert found.notes == ()
    assert found.bound == "data"
    assert found.shares["data"] > 0.5 * found.step
    assert sum(found.shares.values()) == pytest.approx(found.step)
    assert found.what_if["cached"] < 0.8 * found.what_if["whole"]
    assert {"half_batch", "double_batch", "no_optimizer", "forward", "forward_backward"} <= set(found.what_if)
    assert found.loader_seconds == pytest.approx(found.shares["data"], rel=0.5)
    assert (found.dataset_length, found.sample_bytes, found.batch) == (400, 16 * 4 + 8, 8)
    wanted = {"adamw", "cpu", "linear", "loader", "map_dataset", "clipping", "zero_grad_to_zero"}
    assert wanted | {"syncs_every_step"} <= found.facts <= FACTS
    assert not found.facts & {"random_transforms", "accumulation", "compiled", "autocast", "in_library"}
    kinds = {site.kind: site for site in found.sites}
    assert kinds["model"].expression == "self.net"
    assert (
        kinds["loader"].line
        == SCRIPT.splitlines().index("Trainer().fit(DataLoader(Data(), batch_size=8, shuffle=True))") + 1
    )
    assert {"fetch", "forward", "backward", "step", "zero_grad", "optimizer"} <= set(kinds)
    assert [(site.detail, site.count) for site in found.syncs] == [("item", 1.0)]


@pytest.mark.torch
@pytest.mark.slow
def test_a_script_that_takes_no_other_batch_is_diagnosed_all_the_same(tmp_path: Path) -> None:
    found, trial = diagnose(tmp_path, SCRIPT.replace("SHAPE", "inputs = inputs.view(8, 16)"))
    assert trial["ended"] == "stopped"
    assert found.bound == "data"
    assert [note.split(":")[0] for note in found.notes] == [
        "the script ended in mode half_batch",
        "half_batch",
    ]
    assert "half_batch" not in found.what_if
    assert found.syncs


def test_a_saving_that_one_disturbed_round_shows_is_none() -> None:
    disturbed = 3
    blocks = [
        ablation_blocks.TimedBlock(
            variant, number, [0.1 * (8 if number == disturbed and variant == "whole" else 1)]
        )
        for number in range(4)
        for variant in ("whole", "whole", "cached")
    ]
    assert ablation_blocks.what_if(blocks[:9])["cached"] == pytest.approx(0.1)
    slow = [each for each in blocks if each.round >= 2]  # two rounds: the median of four is far off
    assert ablation_blocks.what_if(slow)["whole"] > 0.4
    assert ablation_blocks.what_if(slow)["cached"] == ablation_blocks.what_if(slow)["whole"]
    steady = [
        ablation_blocks.TimedBlock(v, n, [1.0 if v == "whole" else 0.6])
        for n in range(4)
        for v in ("whole", "cached")
    ]
    assert ablation_blocks.what_if(steady)["cached"] == pytest.approx(0.6)
