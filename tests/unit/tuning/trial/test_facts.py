"""Names of what a machine can and a loop consists of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fixtures.fake_root import FakeRoot
from laptime.kit import system_files
from laptime.tuning.loop_profile import FACTS
from laptime.tuning.trial import facts


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRoot:
    """A machine with 8 CPUs."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    return FakeRoot(tmp_path)


def test_a_quota_of_version_2_counts_and_so_do_the_groups_above(tree: FakeRoot) -> None:
    tree.cgroup2("/a/b", {"cpu.max": "max 100000", "cpu.stat": ""})
    tree.put("sys/fs/cgroup/a/cpu.max", "250000 100000")
    assert facts.cpus(tree.root) == 3


def test_a_quota_of_version_1_counts(tree: FakeRoot) -> None:
    tree.cgroup1("cpu", "/x", {"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"})
    assert facts.cpus(tree.root) == 2


def test_without_a_quota_the_affinity_counts(tree: FakeRoot) -> None:
    tree.cgroup2("/", {"cpu.max": "max 100000", "cpu.stat": ""})
    assert facts.cpus(tree.root) == 8


def test_the_groups_memory_bounds_the_machines(tree: FakeRoot) -> None:
    tree.put("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 2000 kB\n")
    assert facts.memory(tree.root) == 2000 * 1024
    tree.cgroup2("/a", {"memory.max": "1000000", "memory.current": "400000", "memory.stat": ""})
    assert facts.memory(tree.root) == 600000


def test_capabilities_say_what_cuda_computes_fast() -> None:
    assert facts.by_capability((6, 1)) == set()
    assert facts.by_capability((7, 5)) == {"fp16"}
    assert facts.by_capability((9, 0)) == {"fp16", "bf16", "tf32"}


@pytest.mark.torch
@pytest.mark.parametrize(
    ("flags", "found"),
    [("fpu avx2 avx512f", set()), ("avx512_bf16", {"bf16"}), ("amx_bf16 amx_tile", {"bf16", "amx"})],
)
def test_bf16_on_the_cpu_needs_its_instructions(
    monkeypatch: pytest.MonkeyPatch, flags: str, found: set[str]
) -> None:
    fields = {"flags": flags}
    monkeypatch.setattr(system_files, "field", lambda path, name: fields.get(name))
    assert facts.fast("cpu") == found


@pytest.mark.torch
def test_models_optimizers_and_loaders_are_named() -> None:
    import torch
    from torch import nn

    block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), block, nn.Sequential(nn.Linear(4, 4)))
    assert facts.of_models([model]) == {"conv", "batchnorm", "linear", "blocks"}
    model.to(memory_format=torch.channels_last)
    model[1].weight.requires_grad_(False)
    assert facts.of_models([model, block]) >= {"channels_last", "frozen_parameters", "several_models"}
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    assert facts.of_optimizers([optimizer]) == {"adamw", "fused"}
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    assert "scheduler" in facts.of_optimizers([optimizer])


@pytest.mark.torch
def test_loaders_are_named() -> None:
    import torch
    from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

    data = TensorDataset(torch.arange(8))
    assert facts.of_loader(DataLoader(data, 2, shuffle=True)) == {"loader", "map_dataset"}
    weighted = DataLoader(data, 2, sampler=WeightedRandomSampler([1.0] * 8, 8), num_workers=1)
    assert facts.of_loader(weighted) == {"loader", "map_dataset", "custom_sampler", "workers"}
    batches = DataLoader(data, batch_sampler=[[0, 1]], collate_fn=list)
    assert facts.of_loader(batches) >= {"custom_batch_sampler", "custom_collate"}

    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            return iter(())

    assert facts.of_loader(DataLoader(Stream(), 2)) == {"loader", "iterable_dataset"}


@pytest.mark.torch
def test_every_name_is_in_the_vocabulary() -> None:
    import torch

    names = {"grad_scaler", "clipping", "zero_grad_to_zero", "pinned", "persistent", "find_unused", "ddp"}
    names |= facts.of_torch() | facts.fast("cpu") | set(facts.KINDS) | set(facts.OPTIMIZERS.values())
    assert names <= FACTS
    assert facts.of_models([torch.nn.Embedding(3, 2)]) == {"embedding"}
