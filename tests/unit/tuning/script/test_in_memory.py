"""`laptime.tune` of a model, step and loader of this process; whatever is tried, all of it is given back."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import laptime
from laptime.kit.errors import LaptimeError
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.script.in_process import InMemoryTrialRunner, copy_loader, generators
from laptime.tuning.script.request import TuneRequest, choice_of
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.trial.hooks.loop_hooks import LoopHooks
from laptime.tuning.trial.messages import CapturePlan, NumericsComparison, TrialPlan
from laptime.tuning.trial.numerics.capture import NumericsCapture
from laptime.tuning.trial.state_snapshot import TrainingSnapshot, training

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Training:
    """A tiny network of every kind of state: batch normalisation, AdamW, a scheduler, a generator."""

    def __init__(self) -> None:
        nn = torch.nn
        torch.manual_seed(3)
        images, labels = torch.randn(64, 3, 8, 8), torch.randint(0, 4, (64,))
        self.generator = torch.Generator().manual_seed(5)
        self.loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(images, labels),
            batch_size=8,
            shuffle=True,
            generator=self.generator,
        )
        self.model = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 4)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=3)
        self.steps = 0

    def step(self, batch: Any) -> None:
        images, labels = batch
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.model(images), labels).backward()
        self.optimizer.step()
        self.scheduler.step()
        self.steps += 1

    @property
    def problem(self) -> laptime.Problem:
        return laptime.Problem(model=self.model, step=self.step, loader=self.loader)


def runner_of(problem: laptime.Problem, folder: Path) -> InMemoryTrialRunner:
    runner = InMemoryTrialRunner(problem, folder, steps=2)
    runner.step = 0.001
    return runner


def evaluator_of(problem: laptime.Problem, folder: Path, **choice: Any) -> TrialEvaluator:
    runner = runner_of(problem, folder)
    evaluator = TrialEvaluator(runner, choice_of(TuneRequest(program="x", **choice)))
    evaluator.loop_profile = LoopProfile(step=0.001, batch=8, shares={"forward": 0.001})
    return evaluator


def everything(one: Training) -> dict[str, Any]:
    """All that a session could change: numbers by value, objects by identity."""
    state = one.optimizer.state
    tensors = {
        **dict(one.model.named_parameters()),
        **dict(one.model.named_buffers()),
        **{f"grad {name}": each.grad for name, each in one.model.named_parameters()},
        **{f"{at} {key}": value for at, each in enumerate(state.values()) for key, value in each.items()},
    }
    optim, data = torch.optim, torch.utils.data.dataloader
    return {
        "values": {name: each if each is None else each.detach().clone() for name, each in tensors.items()},
        "objects": {name: id(each) for name, each in tensors.items()},
        "memory": {name: each is not None and each.data_ptr() for name, each in tensors.items()},
        "layout": {name: each is not None and (each.stride(), each.dtype) for name, each in tensors.items()},
        "groups": [
            (id(group), {name: value for name, value in group.items() if name != "params"})
            for group in one.optimizer.param_groups
        ],
        "step": vars(one.optimizer).get("step"),
        "scheduler": {
            name: value for name, value in one.scheduler.state_dict().items() if not callable(value)
        },
        "training": [each.training for each in one.model.modules()],
        "draws": (random.getstate(), torch.get_rng_state(), one.generator.get_state()),
        "threads": torch.get_num_threads(),
        "default": torch.get_default_dtype(),
        "functions": [
            torch.nn.Module.__dict__["__call__"],
            torch.nn.Module.__dict__["zero_grad"],
            torch.autograd.backward,
            torch.autograd.grad,
            torch.Tensor.float,
            vars(optim.Optimizer).get("__init__"),
            vars(optim.Optimizer).get("zero_grad"),
            vars(optim.Optimizer).get("__init_subclass__"),
            vars(optim.AdamW).get("step"),
            vars(optim.Adam).get("step"),
            vars(data.DataLoader).get("__init__"),
            vars(data.DataLoader).get("__iter__"),
            vars(data._BaseDataLoaderIter).get("__next__"),
        ],
    }


def differing(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Names of what is not as it was."""

    def same(a: Any, b: Any) -> bool:
        if isinstance(a, torch.Tensor):
            return isinstance(b, torch.Tensor) and torch.equal(a, b)
        if isinstance(a, dict):
            return set(a) == set(b) and all(same(a[name], b[name]) for name in a)
        if isinstance(a, (list, tuple)):
            return len(a) == len(b) and all(map(same, a, b))
        return bool(a == b)

    return [name for name in before if not same(before[name], after[name])]


@pytest.fixture
def one() -> Iterator[Training]:
    """On one thread: with several a busy machine makes each of its tiny operators wait."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    made = Training()
    for batch in list(made.loader)[:2]:
        made.step(batch)
    yield made
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    "capture", [{}, {"double": True, "write": "double.pt"}, {"write": "w.pt", "batches": "b.pt"}]
)
def test_a_capture_leaves_nothing_behind(one: Training, tmp_path: Path, capture: dict[str, Any]) -> None:
    named: dict[str, Any] = {
        key: str(tmp_path / value) if isinstance(value, str) else value for key, value in capture.items()
    }
    before, runner = everything(one), runner_of(one.problem, tmp_path)
    plan = runner.plan(
        Recipe.from_json([{"name": "channels_last"}]), mode="gate", capture=CapturePlan(steps=2, **named)
    )
    with runner.run(plan) as running:
        running.wait()
        ended = runner.finish(running)
    assert ended.error == ""
    assert (ended.ended, ended.left) == ("stopped", [])
    comparison = running.document(NumericsComparison)
    assert comparison is not None
    assert len(comparison.candidate.steps) == 2
    assert one.steps > 4
    assert differing(before, everything(one)) == []


def test_a_step_that_raises_leaves_nothing_behind(one: Training, tmp_path: Path) -> None:
    def step(batch: Any) -> None:
        one.step(batch)
        if one.steps > 4:
            raise ValueError("broken on purpose")

    before = everything(one)
    runner = runner_of(laptime.Problem(model=one.model, step=step, loader=one.loader), tmp_path)
    with pytest.raises(TrialFailed, match="on purpose") as failed:
        runner.pair(Recipe(), Recipe(), 0)
    assert failed.value.kind == "crashed"
    assert differing(before, everything(one)) == []


def test_steps_of_an_optimizer_that_a_scheduler_has_wrapped_are_seen(one: Training, tmp_path: Path) -> None:
    assert "step" in vars(one.optimizer)
    runner = runner_of(one.problem, tmp_path)
    pair = runner.pair(Recipe(), Recipe(), 0)
    assert pair.baseline.result.source == "optimizer"
    assert sum(len(block.seconds) for block in pair.baseline.blocks) >= 2


def test_nothing_of_a_trial_stays_in_memory(one: Training, tmp_path: Path) -> None:
    """What it has kept of batches and loaders would be there for every trial of a session."""

    def alive() -> set[int]:
        gc.collect()
        return {id(each) for each in gc.get_objects() if type(each) in (LoopHooks, NumericsCapture)}

    before = alive()
    evaluator_of(one.problem, tmp_path).gate(
        Recipe(), Recipe.from_json([{"name": "channels_last"}]), "reassociated"
    )
    assert alive() <= before


def test_the_gate_passes_what_computes_the_same(one: Training, tmp_path: Path) -> None:
    found = evaluator_of(one.problem, tmp_path).gate(
        Recipe(), Recipe.from_json([{"name": "channels_last"}]), "reassociated"
    )
    assert found.word == "passed", found.reason
    assert found.steps == 3


def test_the_gate_sees_planted_harm(one: Training, tmp_path: Path) -> None:
    harm = tmp_path / "harm.py"
    harm.write_text(
        "from laptime.tuning.optimization import Optimization\n"
        "def apply(loop, options): loop.backward(lambda root: root * 0.5)\n"
        "def edit(script, options): pass\n"
        "OPTIMIZATION = Optimization(title='harm', numerics='reassociated', live=True, gives=frozenset(),\n"
        "    saves=lambda loop_profile, options: 1.0, apply=apply, edit=edit)\n"
    )
    recipe = Recipe.from_json([{"name": str(harm)}])
    found = evaluator_of(one.problem, tmp_path).gate(Recipe(), recipe, "reassociated")
    assert found.word == "failed"
    assert "norm" in found.reason


def test_live_changes_alternate_in_one_process(one: Training, tmp_path: Path) -> None:
    before, evaluator = everything(one), evaluator_of(one.problem, tmp_path)
    rounds: Any = evaluator.race(Recipe(), Recipe.from_json([{"name": "channels_last"}]))
    ratios = [next(rounds).ratio for _ in range(3)]
    rounds.close()
    assert all(ratio > 0 for ratio in ratios)
    assert evaluator.runner.accounting.trials == 1
    assert differing(before, everything(one)) == []


def test_a_step_without_end_of_its_kind_is_ended(one: Training, tmp_path: Path) -> None:
    """Nothing steps an optimizer: without a limit it would go on for ever."""
    problem = laptime.Problem(model=one.model, step=lambda batch: None, loader=one.loader)
    runner = InMemoryTrialRunner(problem, tmp_path, timeout=0.3)
    with pytest.raises(TrialFailed) as failed:
        runner.time_trial(Recipe(), 0)
    assert failed.value.kind == "hung"


def test_a_race_ends_when_the_time_for_races_is_up(one: Training, tmp_path: Path) -> None:
    """A round that compiles for ever leaves the final measurement its time; gates have their own."""
    problem = laptime.Problem(model=one.model, step=lambda batch: None, loader=one.loader)
    runner = InMemoryTrialRunner(problem, tmp_path, timeout=60.0)
    runner.race_until = runner.elapsed() + 0.3
    with pytest.raises(TrialFailed, match="races was") as failed:
        runner.time_trial(Recipe(), 0)
    assert failed.value.kind == "budget"
    assert runner.limit(replace(runner.plan(Recipe()), mode="gate")) == 60.0


def test_what_needs_a_process_is_told(one: Training, tmp_path: Path) -> None:
    loop_profile = LoopProfile(
        step=0.01,
        batch=8,
        shares={"forward": 0.004, "backward": 0.004, "data": 0.002},
        facts=frozenset({"cpu", "conv", "loader", "map_dataset"}),
        cpus=4,
    )
    evaluator = evaluator_of(one.problem, tmp_path, allow=["algorithm"])
    names = {each.change.name for each in evaluator.candidates(loop_profile, Recipe()).usable}
    assert "channels_last" in names
    assert not names & {"huge_pages", "flush_denormal", "batch_size", "fp16_autocast"}


def test_only_optimizers_of_this_model_count() -> None:
    one, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    own, both, apart = (
        torch.optim.SGD(one.parameters(), lr=0.1),
        torch.optim.SGD([*one.parameters(), *other.parameters()], lr=0.1),
        torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1),
    )
    found = training(one)
    assert {id(own), id(both)} == {id(each) for each in found}
    assert all(each is not apart for each in found)


def test_the_other_half_of_a_gan_is_given_back() -> None:
    """A module that the problem does not name, trained by an optimizer that shares parameters with it."""
    one, other = torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)
    optimizer = torch.optim.SGD([*one.parameters(), *other.parameters()], lr=0.1)
    kept = TrainingSnapshot(one)
    other(one(torch.randn(4, 2))).sum().backward()
    optimizer.step()
    assert other.running_mean.abs().sum() > 0
    kept.restore()
    assert other.running_mean.abs().sum() == 0
    assert torch.equal(other.weight, torch.ones(2))
    assert other.weight.grad is None


def test_a_loader_is_made_anew_as_it_was() -> None:
    data = torch.utils.data
    dataset = data.TensorDataset(torch.arange(10))
    generator = torch.Generator()
    for given in (
        {"batch_size": 3, "shuffle": True, "drop_last": True, "generator": generator},
        {"batch_size": 2},
        {"batch_size": None},
        {"batch_sampler": data.BatchSampler(data.SequentialSampler(dataset), 4, drop_last=False)},
        {"batch_size": 2, "sampler": data.RandomSampler(dataset, replacement=True, num_samples=6)},
    ):
        loader = data.DataLoader(dataset, **given)
        made: Any = copy_loader(loader)
        assert made is not loader
        assert made.dataset is dataset
        assert type(made.sampler) is type(loader.sampler)
        assert (made.batch_size, made.drop_last) == (loader.batch_size, loader.drop_last)
        assert len(list(made)) == len(list(loader))
    assert copy_loader([1, 2]) == [1, 2]
    assert generators(data.DataLoader(dataset, generator=generator, shuffle=True)) == [generator]


def test_a_generator_is_used_up_once(tmp_path: Path, one: Training) -> None:
    """Something that can be gone through once only cannot be tuned; it is told, not waited for."""
    problem = laptime.Problem(model=one.model, step=one.step, loader=iter([]))
    with pytest.raises(TrialFailed) as failed:
        runner_of(problem, tmp_path).time_trial(Recipe(), 0)
    assert failed.value.kind == "no_steps"


def test_a_plan_of_another_place_is_not_followed(one: Training, tmp_path: Path) -> None:
    """Scratch folders, memory limits and seeds are of processes that are ours; this one is the user's."""
    runner = runner_of(one.problem, tmp_path)
    with runner.run(TrialPlan(folder=str(tmp_path / "t"), seed=1, scratch="x", memory=1)) as running:
        running.wait()
    assert runner.finish(running).ended == "stopped"


@pytest.mark.slow
def test_a_session_in_memory(one: Training, tmp_path: Path) -> None:
    """A model that is quick in one layout only: that is kept, and no file is written for it."""

    def waits(module: Any, inputs: Any) -> None:
        is_last = module.weight.is_contiguous(memory_format=torch.channels_last)
        time.sleep(0.005 if is_last else 0.04)

    one.model[0].register_forward_pre_hook(waits)
    before = everything(one)
    run = laptime.tune(
        one.problem, budget=100, steps=3, only=["channels_last"], patch=tmp_path / "x.laptime.patch"
    )
    assert run.tuning is not None
    assert run.tuning.before is not None
    assert run.tuning.before.step > 0
    assert {rung.name for rung in run.tuning.ladder} >= {"identity", "channels_last"}
    assert [each.name for each in run.tuning.recipe] == ["channels_last"]
    assert run.tuning.gate.word == "passed"
    assert run.tuning.speedup is not None
    assert run.tuning.speedup.value > 1.5
    assert run.tuning.patch.text == ""
    assert list(tmp_path.iterdir()) == []
    assert differing(before, everything(one)) == []


def test_what_trains_nothing_is_refused(one: Training) -> None:
    def step(batch: Any) -> None:
        with torch.no_grad():
            one.model(batch[0])

    with pytest.raises(LaptimeError):
        laptime.tune(laptime.Problem(model=torch.nn.Linear(1, 1), step=step, loader=one.loader), budget=8)
