"""Loops as people write them, hooked in this process: steps, phases, and torch as it was before."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

from laptime.instrument.hooks import APART, Hooks  # noqa: E402
from laptime.instrument.messages import Observed, Settings  # noqa: E402
from laptime.instrument.step_observer import StepObserver  # noqa: E402
from laptime.instrument.steps import Stop  # noqa: E402

pytestmark = pytest.mark.torch
Observe = Callable[..., Observed]


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def loader(items: int = 64, **options: Any) -> DataLoader[Any]:
    data = TensorDataset(torch.randn(items, 4), torch.randint(0, 2, (items,)))
    return DataLoader(data, batch_size=4, **options)


def step(model: nn.Module, optimizer: Any, x: Any, y: Any) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def train(epochs: int = 50, *, batches: DataLoader[Any] | None = None, evaluate: bool = False) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    training, validation = loader() if batches is None else batches, loader(16)
    for _ in range(epochs):
        for x, y in training:
            step(model, optimizer, x, y)
        if evaluate:
            with torch.no_grad():
                for x, _ in validation:
                    model(x)
        scheduler.step()


def names(path: Path) -> list[str]:
    with gzip.open(path, "rt") as file:
        return [event["name"] for event in json.load(file)["traceEvents"] if "name" in event]


def test_pauses_tell_evaluation_and_new_workers(observe: Observe) -> None:
    seen = observe(lambda: train(batches=loader(12), evaluate=True), timed=8)
    assert seen.firsts
    assert all(first < len(seen.untraced) for first in seen.firsts)
    assert 0 < seen.outside_phases["forward"] < seen.outside
    assert seen.workers == 0
    anew = observe(lambda: train(8, batches=loader(12, num_workers=1)), timed=8)
    assert 0 < anew.workers <= anew.outside
    kept = observe(lambda: train(8, batches=loader(12, num_workers=1, persistent_workers=True)), timed=8)
    assert kept.firsts
    assert kept.workers == 0


def test_first_batches_of_a_loader_that_each_epoch_makes_anew_are_in_steps(observe: Observe) -> None:
    def loop() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(50):
            for x, y in loader(12):
                step(model, optimizer, x, y)

    seen = observe(loop, timed=8)
    assert seen.firsts
    assert seen.outside_phases == dict.fromkeys(seen.outside_phases, 0)


def test_a_training_loop_is_timed_traced_and_stopped(observe: Observe, tmp_path: Path) -> None:
    seen = observe(train)
    assert seen.complete
    assert (seen.source, seen.settled) == ("optimizer", 1)
    assert len(seen.untraced) == 3
    assert len(seen.traced) == 2
    for sample in seen.untraced:
        assert all(part > 0 for part in sample.phases.values())
        assert sum(sample.phases.values()) <= sample.host
    (trace,) = seen.traces
    found = names(tmp_path / trace)
    assert [name for name in found if name.startswith("ProfilerStep#")] == [
        "ProfilerStep#1",
        "ProfilerStep#2",
    ]
    for phase in ("data", "forward", "backward", "optimizer"):
        assert found.count(f"laptime::{phase}") == 2


def test_torch_is_afterwards_as_it_was_before(observe: Observe) -> None:
    from torch.optim import optimizer
    from torch.utils.data import dataloader

    def found() -> list[Any]:
        return [
            nn.Module.__call__,
            nn.Module.__dict__["__call__"],
            torch.autograd.backward,
            torch.autograd.grad,
            torch.optim.Optimizer.__init__,
            dataloader._BaseDataLoaderIter.__next__,
            dict(optimizer._global_optimizer_pre_hooks),
            dict(optimizer._global_optimizer_post_hooks),
        ]

    before = found()
    within: list[Any] = []

    def loop() -> None:
        within.extend(found())
        train()

    observe(loop)
    assert not any("__call__" in vars(kind) for kind in (nn.Sequential, nn.Linear, nn.ReLU))
    assert all(a is b or a == b for a, b in zip(found(), before, strict=True))
    assert all(a is not b and a != b for a, b in zip(within, before, strict=True))


def test_modules_inside_the_outermost_ones_cost_nothing_once_the_loop_has_settled(
    observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiler := sys.modules.get("torch._dynamo.utils"):  # a test before this one may have compiled
        monkeypatch.setitem(compiler.counters, "stats", Counter())

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            within.append((nn.Module.__call__ is nn.Module._wrapped_call_impl, "__call__" in vars(Model)))
            return self.inner(x)

    within: list[tuple[bool, bool]] = []
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loop() -> None:
        while True:
            for x, y in loader():
                step(model, optimizer, x, y)

    seen = observe(loop)
    assert within[0] == (False, False)
    assert within[-1] == (True, True)
    assert all(sample.phases["forward"] > 0 for sample in seen.untraced + seen.traced)
    assert "__call__" not in vars(Model)


def test_evaluation_is_neither_timed_nor_traced(observe: Observe, tmp_path: Path) -> None:
    seen = observe(lambda: train(evaluate=True, batches=loader(24)), timed=12)
    assert seen.complete
    assert len(seen.untraced) >= 12
    found = names(tmp_path / seen.traces[0])
    assert found.count("laptime::forward") == found.count("laptime::backward") == 2


def test_what_saves_or_logs_is_noted_and_given_back(
    tmp_path: Path, observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pytest.importorskip("PIL.Image")
    before, noted = image.Image.save, list[str]()
    (tmp_path / "safetensors_of_ours.py").write_text("def save_file(path): return path")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("laptime.instrument.hooks.APART", (*APART, ("safetensors_of_ours", "save_file")))
    monkeypatch.setattr("laptime.instrument.steps.Steps.apart", lambda self: noted.append("apart"))

    def loop() -> None:
        image.new("L", (4, 4)).save(io.BytesIO(), "png")
        torch.save({}, io.BytesIO())
        save_file = importlib.import_module("safetensors_of_ours").save_file

        assert save_file("here") == "here"

    observe(loop)
    assert noted == ["apart"] * 3
    assert image.Image.save is before


def test_epochs_shorter_than_the_window_are_traced_in_part(observe: Observe) -> None:
    seen = observe(lambda: train(evaluate=True, batches=loader(12)), warmup=2, steps=5)
    assert seen.complete
    assert len(seen.traced) == 1  # three batches an epoch: two warm up
    assert len(seen.traces) == 1
    assert seen.notes == ["an epoch ended: 1 of 5 steps were traced"]


def test_gradient_accumulation_has_its_micro_batches_in_one_step(observe: Observe, tmp_path: Path) -> None:
    def loop() -> None:
        model = net()
        optimizer = torch.optim.AdamW(model.parameters())
        while True:
            for number, (x, y) in enumerate(loader(), start=1):
                nn.functional.cross_entropy(model(x), y).backward()
                if number % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()

    seen = observe(loop)
    assert len(seen.traced) == 2
    assert names(tmp_path / seen.traces[0]).count("laptime::backward") == 8


def test_both_networks_of_a_gan_are_in_one_step(observe: Observe, tmp_path: Path) -> None:
    def loop() -> None:
        generator, critic = nn.Linear(4, 4), nn.Linear(4, 1)
        optimizers = [torch.optim.Adam(each.parameters()) for each in (critic, generator)]
        while True:
            for x, _ in loader():
                (critic(x).mean() - critic(generator(x)).mean()).backward()
                optimizers[0].step()
                critic(generator(x)).mean().backward()
                optimizers[1].step()

    seen = observe(loop)
    found = names(tmp_path / seen.traces[0])
    assert found.count("laptime::optimizer") == 4
    assert found.count("laptime::data") == 2


def test_denormal_numbers_are_counted(observe: Observe) -> None:
    def loop() -> None:
        model = net()
        with torch.no_grad():
            model.get_parameter("0.weight").mul_(0).add_(1e-39)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        for x, y in loader(200):
            step(model, optimizer, x, y)

    assert 0.2 < observe(loop).denormal < 0.9
    assert observe(lambda: train(3)).denormal < 0.1


def test_an_iterable_dataset_is_a_loader_like_others(observe: Observe) -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            for _ in range(40):
                yield torch.randn(4), torch.tensor(1)

    seen = observe(lambda: train(batches=DataLoader(Stream(), batch_size=4)))
    assert seen.complete
    assert len(seen.traced) == 2
    assert seen.seen["fetch"] > 6


def test_inference_has_a_step_a_batch(observe: Observe) -> None:
    def loop() -> None:
        model = net().eval()
        with torch.inference_mode():
            for x, _ in loader():
                model(x)

    seen = observe(loop)
    assert (seen.source, seen.complete) == ("loader", True)
    assert all(sample.phases["forward"] > 0 == sample.phases["backward"] for sample in seen.untraced)


def test_a_script_without_loader_and_optimizer_is_stepped_by_its_calls(observe: Observe) -> None:
    model, x = net(), torch.randn(2, 4)
    seen = observe(lambda: [model(x) for _ in range(50)])
    assert (seen.source, seen.complete) == ("forward", True)


def test_an_optimizer_with_a_closure_keeps_its_own_time(observe: Observe) -> None:
    def loop() -> None:
        model = net()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
        for x, y in loader():

            def closure(x: Any = x, y: Any = y) -> Any:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                return loss

            optimizer.step(closure)

    seen = observe(loop)
    assert seen.complete
    for sample in seen.untraced:
        assert all(part > 0 for part in sample.phases.values())
        assert sum(sample.phases.values()) <= sample.host


def test_a_loop_that_ends_by_itself_leaves_what_was_measured(observe: Observe) -> None:
    seen = observe(lambda: train(1, batches=loader(20)), wait=1, timed=10)
    assert not seen.complete
    assert len(seen.untraced) == 3  # five batches: one finds the optimizer, one settles
    assert seen.traces == []


def test_a_loop_that_ends_while_it_is_traced_leaves_its_trace(observe: Observe, tmp_path: Path) -> None:
    seen = observe(lambda: train(1, batches=loader(28)), wait=1, timed=2, warmup=1, steps=50)
    assert len(seen.traces) == 1
    assert names(tmp_path / seen.traces[0]).count("laptime::backward") >= 1


def test_a_loop_that_swallows_exceptions_is_stopped_all_the_same(observe: Observe) -> None:
    ends = []

    def loop() -> None:
        model, optimizer = (m := net()), torch.optim.SGD(m.parameters(), lr=0.1)
        while True:
            for x, y in loader():
                try:
                    step(model, optimizer, x, y)
                except Exception:
                    ends.append("Exception")

    assert observe(loop).complete
    assert ends == []


def test_a_loop_that_swallows_everything_hears_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    def end(status: int) -> None:
        ended.append(status)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "_exit", end)
    observer = StepObserver(
        Settings(folder=str(tmp_path), wait=1, timed=2, warmup=1, steps=1, quiet=True, primitives=False)
    )
    hooks = Hooks(observer)
    hooks.install()
    heard = 0
    try:
        while True:
            try:
                train()
            except Stop:
                heard += 1
    except KeyboardInterrupt:
        pass
    finally:
        hooks.undo()
    assert heard == 3
    assert ended == [0]


def test_compiled_models_stay_one_graph(observe: Observe) -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    model = torch.compile(net(), backend="eager", fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loop() -> None:
        while True:
            for x, y in loader():
                step(model, optimizer, x, y)

    assert observe(loop).complete
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]


def _fork_and_look(queue: Any) -> None:
    queue.put(nn.Module.__call__ is nn.Module._wrapped_call_impl)


def test_a_forked_child_is_not_observed(observe: Observe) -> None:
    queue = multiprocessing.get_context("fork").Queue()
    found = []

    def loop() -> None:
        child = multiprocessing.get_context("fork").Process(target=_fork_and_look, args=(queue,))
        child.start()
        found.append(queue.get(timeout=30))
        child.join()

    observe(loop)
    assert found == [True]


def test_onednn_primitives_of_a_step_are_seen_and_output_of_others_is_passed_on(
    observe: Observe, capfd: pytest.CaptureFixture[str]
) -> None:
    def loop() -> None:
        model = nn.Conv2d(3, 32, 3)
        x = torch.randn(8, 3, 64, 64)
        for number in range(50):
            model(x)
            os.write(1, f"line {number}\n".encode())

    seen = observe(loop, primitives=True)
    assert seen.complete
    told = capfd.readouterr().out.split("\n")
    assert told[:-1] == [f"line {number}" for number in range(len(told) - 1)]
    if torch.backends.mkldnn.is_available():
        assert seen.primitives is not None
        assert "convolution" in {row["kind"] for row in seen.primitives}
        assert all(row["calls"] >= 1 and row["total_ns"] > 0 for row in seen.primitives)


def test_steps_of_ranks_are_counted_and_not_clocked(
    observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    seen = observe(train, timed=500, seconds=0.0)
    assert (seen.rank, seen.world) == (1, 2)
    assert (len(seen.untraced), len(seen.traced)) == (20, 2)
    assert seen.traces[0].startswith("rank1.")


# Steps whose samples are counted (`laptime scale`).


def test_just_so_many_steps_are_timed_and_their_samples_counted(observe: Observe) -> None:
    seen = observe(train, exactly=7, timed=7, steps=0, warmup=0)
    assert (len(seen.untraced), seen.traces, seen.complete) == (7, [], True)
    assert (seen.samples, seen.batches, seen.joined) == (4, 16, False)


def test_evaluation_counts_for_no_step(observe: Observe) -> None:
    seen = observe(lambda: train(evaluate=True), exactly=40, timed=40, steps=0, warmup=0)
    assert (seen.samples, seen.batches) == (4, 16)


def test_micro_batches_are_samples_of_their_step(observe: Observe) -> None:
    def loop() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(9):
            for number, (x, y) in enumerate(loader()):
                nn.functional.cross_entropy(model(x), y).backward()
                if number % 4 == 3:
                    optimizer.step()
                    optimizer.zero_grad()

    assert observe(loop, exactly=6, timed=6, steps=0, warmup=0).samples == 16


def test_without_a_loader_the_inputs_of_the_first_model_count(observe: Observe) -> None:
    def loop() -> None:
        model, second = net(), net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = torch.randn(12, 4), torch.randint(0, 2, (12,))
        for _ in range(40):
            second(x)
            step(model, optimizer, x, y)

    seen = observe(loop, exactly=6, timed=6, steps=0, warmup=0)
    assert (seen.samples, seen.batches) == (12, 0)


def test_loaders_share_their_batch_between_ranks(observe: Observe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    whole = torch.utils.data.BatchSampler.__init__
    seen = observe(train, exactly=6, timed=6, steps=0, warmup=0, shares_batch=True)
    assert (seen.samples, seen.batches, seen.world) == (2, 32, 2)
    assert torch.utils.data.BatchSampler.__init__ is whole
    assert observe(train, exactly=6, timed=6, steps=0, warmup=0).samples == 4
