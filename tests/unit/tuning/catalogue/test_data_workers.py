"""Changes of loaders: how many workers are proposed, what they can save, and that batches stay the same."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from laptime.testing.optimizations import FakeLoop
from laptime.tuning.candidates import Choice, Costs, find_candidates, numerics_of
from laptime.tuning.catalogue import (
    in_order,
    num_workers,
    persistent_workers,
    pin_memory,
    prefetch_factor,
    seed_by_sample,
    worker_threads,
)
from laptime.tuning.loop_profile import LoopProfile, unmet_need
from laptime.tuning.optimization import Change, Recipe, load
from laptime.tuning.search.ranking import line

STARVED = LoopProfile(
    step=0.5,
    shares={
        "data": 0.4,
        "transfer": 0.0,
        "forward": 0.04,
        "backward": 0.04,
        "optimizer": 0.01,
        "other": 0.01,
    },
    batch=32,
    cpus=8,
    shm=4 << 30,
    memory=32 << 30,
    batch_bytes=20 << 20,
    loader={"num_workers": 0, "batch_size": 32},
    loader_seconds=0.4,
    dataset_length=1024,
    facts=frozenset({"cpu", "loader", "map_dataset"}),
)


def values(options: list[dict[str, Any]]) -> list[int]:
    return [each["value"] for each in options]


def test_the_number_of_workers_that_the_step_needs_comes_first() -> None:
    # 0.4 s of loading against 0.1 s of everything else: four workers keep up.
    assert values(num_workers.propose(STARVED))[0] == 4
    assert values(num_workers.propose(replace(STARVED, loader_seconds=0.15)))[0] == 2
    assert set(values(num_workers.propose(STARVED))) == {1, 2, 3, 4, 6, 8}


def test_workers_stay_within_cores_memory_and_shared_memory() -> None:
    assert max(values(num_workers.propose(replace(STARVED, cpus=2)))) == 2
    assert max(values(num_workers.propose(replace(STARVED, memory=2 << 30)))) == 3
    # Two batches of 20 MiB a worker, in half of 200 MiB.
    assert max(values(num_workers.propose(replace(STARVED, shm=200 << 20)))) == 2
    assert num_workers.propose(replace(STARVED, shm=1 << 20)) == []
    assert "/dev/shm" in num_workers.why_not(replace(STARVED, shm=1 << 20))


def test_what_the_script_has_is_not_proposed_again() -> None:
    assert 4 not in values(num_workers.propose(replace(STARVED, loader={"num_workers": 4, "batch_size": 32})))


def test_a_worker_too_few_leaves_some_of_the_wait() -> None:
    assert num_workers.bound(STARVED, {"value": 4}) == pytest.approx(0.4)
    assert num_workers.bound(STARVED, {"value": 2}) == pytest.approx(0.3)
    assert num_workers.bound(STARVED, {"value": 1}) == pytest.approx(0.1)


def test_workers_are_exact_where_reading_is_not_random_or_goes_by_sample() -> None:
    drawn = replace(STARVED, facts=STARVED.facts | {"random_transforms"})
    assert num_workers.numerics(STARVED, {"value": 2}) == "exact"
    assert num_workers.numerics(drawn, {"value": 2}) == "random"
    seeded = replace(drawn, facts=drawn.facts | {"seed_by_sample"})
    assert num_workers.numerics(seeded, {"value": 2}) == "exact"


def test_streams_are_not_read_by_several_workers() -> None:
    assert "!" not in "".join(num_workers.OPTIMIZATION.needs)
    assert "map_dataset" in num_workers.OPTIMIZATION.needs
    assert "IterableDataset" in unmet_need(
        num_workers.OPTIMIZATION.needs, frozenset({"loader", "iterable_dataset"})
    )


def test_prefetching_more_stays_within_shared_memory() -> None:
    busy = replace(STARVED, loader={"num_workers": 4}, facts=STARVED.facts | {"workers"})
    assert values(prefetch_factor.propose(busy)) == [4, 8, 16]
    assert values(prefetch_factor.propose(replace(busy, shm=1 << 30))) == [4]
    assert prefetch_factor.propose(replace(busy, loader={"num_workers": 4, "prefetch_factor": 16})) == []


def test_starting_workers_again_costs_less_the_longer_an_epoch_is() -> None:
    busy = replace(STARVED, loader={"num_workers": 4})
    short, long = (persistent_workers.bound(replace(busy, dataset_length=n), {}) for n in (320, 32_000))
    assert short == pytest.approx(100 * long)
    assert load("persistent_workers").offer(replace(busy, dataset_length=None)) == []


def test_the_search_starts_at_the_recommended_number_and_can_go_both_ways() -> None:
    only = Choice(only=("num_workers", "seed_by_sample"))
    candidate = next(
        each
        for each in find_candidates(STARVED, Recipe(), only, Costs()).usable
        if each.change.name == "num_workers"
    )
    assert candidate.change.options == {"value": 4}
    assert values([each.options for each in line(candidate)]) == [1, 2, 3, 4, 6, 8]


def test_a_kept_seeding_makes_more_workers_exact() -> None:
    drawn = replace(STARVED, facts=STARVED.facts | {"random_transforms"})
    seeded = Recipe((Change("seed_by_sample"),))
    only = Choice(only=("num_workers", "seed_by_sample"))
    for recipe, wanted in ((Recipe(), "random"), (seeded, "exact")):
        found = find_candidates(drawn, recipe, only, Costs()).usable
        assert {each.numerics for each in found if each.change.name == "num_workers"} == {wanted}
    assert numerics_of(Recipe((Change("num_workers", {"value": 2}),)), drawn) == "random"
    assert (
        numerics_of(seeded.plus(Change("num_workers", {"value": 2})), drawn) == "random"
    )  # the seeding itself is


class Augmented:
    """Draws from all three sources of random numbers."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        import numpy as np
        import torch

        return index, torch.rand(3), random.random(), float(np.random.rand())


def epochs(changes: dict[str, dict[str, Any]], dataset: Any, count: int = 2, **arguments: Any) -> list[Any]:
    """Every batch of some epochs of a shuffled loader under these changes, and a number drawn at the end."""
    import torch
    from torch.utils.data import DataLoader

    torch.manual_seed(7)
    random.seed(7)
    loop = FakeLoop()
    for name, options in changes.items():
        load(name).apply(loop, options)
    arguments = {"batch_size": 4, "shuffle": True, **arguments}
    call = loop.make("loader", DataLoader, dataset=dataset, **arguments)
    loader = DataLoader(**call.arguments)
    found = [loop.convert(batch) for _ in range(count) for batch in loader]
    loop.undo()
    return [*found, torch.rand(2)]


def same(one: Any, two: Any) -> bool:
    import torch

    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(same(a, b) for a, b in zip(one, two, strict=True))
    if isinstance(one, torch.Tensor):
        return one.dtype == two.dtype and torch.equal(one, two)
    return bool(one == two)


@pytest.mark.torch
@pytest.mark.slow
def test_batches_seeded_by_sample_do_not_depend_on_the_workers() -> None:
    wanted = epochs({"seed_by_sample": {}}, Augmented())
    for number in (2, 4):
        assert same(wanted, epochs({"seed_by_sample": {}, "num_workers": {"value": number}}, Augmented()))
    more = {"seed_by_sample": {}, "num_workers": {"value": 2}, "prefetch_factor": {"value": 4}}
    assert same(wanted, epochs(more, Augmented()))
    # Without it they do: the test can fail.
    assert not same(epochs({}, Augmented()), epochs({"num_workers": {"value": 2}}, Augmented()))


@pytest.mark.torch
@pytest.mark.slow
def test_workers_that_live_on_give_the_same_samples_and_another_shuffle() -> None:
    changes = {"seed_by_sample": {}, "num_workers": {"value": 2}}
    wanted, kept = (epochs(each, Augmented()) for each in (changes, {**changes, "persistent_workers": {}}))
    assert same(wanted[:3], kept[:3])
    assert not same(wanted, kept)
    assert persistent_workers.OPTIMIZATION.numerics == "random"
    again = [
        epochs(each, Augmented(), shuffle=False)[:-1]
        for each in (changes, {**changes, "persistent_workers": {}})
    ]
    assert same(*again)


@pytest.mark.torch
def test_an_epoch_seeded_by_sample_is_not_the_one_before() -> None:
    import torch

    *batches, _ = epochs({"seed_by_sample": {}}, Augmented(), shuffle=False)
    first, second = batches[:3], batches[3:]
    assert same([each[0] for each in first], [each[0] for each in second])
    assert not any(torch.equal(a[1], b[1]) for a, b in zip(first, second, strict=True))


@pytest.mark.torch
def test_random_numbers_of_the_script_go_on_as_if_nothing_was_read() -> None:
    import torch

    *_, after = epochs({"seed_by_sample": {}}, Augmented(), count=0)
    torch.manual_seed(7)
    assert torch.equal(after, torch.rand(2))
    assert same(
        epochs({"seed_by_sample": {}}, Augmented(), shuffle=False)[-1],
        epochs({}, range(12), shuffle=False)[-1],
    )


@pytest.mark.torch
def test_more_workers_give_the_same_batches_where_nothing_is_random() -> None:
    import torch
    from torch.utils.data import TensorDataset

    rows = TensorDataset(torch.arange(24.0).view(12, 2), torch.arange(12))
    assert same(epochs({}, rows), epochs({"num_workers": {"value": 2}}, rows))


@pytest.mark.torch
def test_arguments_of_workers_leave_loaders_without_any_alone() -> None:
    from torch.utils.data import DataLoader

    loop = FakeLoop()
    for module, options in ((persistent_workers, {}), (prefetch_factor, {"value": 4}), (in_order, {})):
        module.OPTIMIZATION.apply(loop, options)
    assert set(loop.make("loader", DataLoader, dataset=range(4)).arguments) == {"dataset"}
    with_two = loop.make("loader", DataLoader, dataset=range(4), num_workers=2).arguments
    assert (with_two["persistent_workers"], with_two["prefetch_factor"], with_two["in_order"]) == (
        True,
        4,
        False,
    )
    DataLoader(**with_two)  # torch takes them


@pytest.mark.torch
def test_a_stream_keeps_its_loader() -> None:
    from torch.utils.data import DataLoader, IterableDataset

    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            return iter(())

    loop = FakeLoop()
    num_workers.apply(loop, {"value": 2})
    assert "num_workers" not in loop.make("loader", DataLoader, dataset=Stream()).arguments


@pytest.mark.torch
def test_pinned_tensors_start_on_their_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch.utils.data import DataLoader

    moved: list[Any] = []

    def to(tensor: Any, device: str, non_blocking: bool = False) -> Any:
        moved.append((device, non_blocking))
        return tensor + 1

    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: bool(self.dim()))
    monkeypatch.setattr(torch.Tensor, "to", to)
    loop = FakeLoop(device="cuda")
    pin_memory.apply(loop, {})
    assert loop.make("loader", DataLoader, dataset=range(4)).arguments["pin_memory"] is True
    batch = loop.convert({"images": torch.zeros(2), "count": torch.tensor(0), "names": ["a"]})
    assert moved == [("cuda", True)]
    assert batch["images"].tolist() == [1, 1]
    assert (int(batch["count"]), batch["names"]) == (0, ["a"])


@pytest.mark.torch
def test_the_next_batch_is_copied_before_the_present_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import nullcontext
    from types import SimpleNamespace

    import torch
    from torch.utils.data import DataLoader

    from laptime.tuning.catalogue import prefetch_to_device

    log: list[str] = []
    present = SimpleNamespace(wait_event=lambda copy: log.append(f"wait for {copy}"))
    stream = SimpleNamespace(record_event=lambda: log[-1])
    monkeypatch.setattr(torch.cuda, "Stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: present)
    monkeypatch.setattr(
        torch.Tensor, "to", lambda self, device, non_blocking: log.append(f"copy {int(self[0])}") or self
    )
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda self, stream: log.append("record"))
    original, loop = DataLoader.__iter__, FakeLoop()
    prefetch_to_device.apply(loop, {})
    for (batch,) in DataLoader(torch.utils.data.TensorDataset(torch.arange(3.0)), batch_size=1):
        log.append(f"use {int(batch[0])}")
    loop.undo()
    assert DataLoader.__iter__ is original
    # The step on batch 0 waits for its own copy; that of batch 1 is under way meanwhile.
    wanted = "copy 0, copy 1, wait for copy 0, record, use 0, copy 2, wait for copy 1, record, use 1"
    assert log == [*wanted.split(", "), "wait for copy 2", "record", "use 2"]


def test_threads_are_limited_where_libraries_with_threads_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import SimpleNamespace

    calls: list[int] = []
    monkeypatch.setitem(sys.modules, "cv2", SimpleNamespace(setNumThreads=calls.append))
    assert "cv2" in worker_threads.look(None)
    options = worker_threads.propose(replace(STARVED, details={"worker_threads": ["cv2"]}))
    loop = FakeLoop()
    worker_threads.apply(loop, options[0])
    loop.start_worker(0)
    assert calls == [0]
    assert worker_threads.propose(STARVED) == []
    assert worker_threads.why_not(STARVED)


def test_seeding_by_sample_promises_no_time() -> None:
    assert seed_by_sample.OPTIMIZATION.bound(STARVED, {}) == 0.0
