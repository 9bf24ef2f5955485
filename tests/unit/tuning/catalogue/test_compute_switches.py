"""Optimizers, threads, switches of the process, checkpointing, DDP: put on, seen to work, taken off."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from laptime.testing.optimizations import FakeLoop
from laptime.tuning import optimization
from laptime.tuning.trial.loop import CannotApply

pytestmark = pytest.mark.torch


def put_on(name: str, options: dict[str, Any] | None = None, **found: Any) -> FakeLoop:
    loop = FakeLoop(**found)
    optimization.load(name).apply(loop, options or {})
    return loop


def blocks(dropout: float = 0.0, norm: bool = False) -> Any:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)

    def block() -> Any:
        middle = nn.BatchNorm1d(16) if norm else nn.Dropout(dropout)
        return nn.Sequential(nn.Linear(8, 16), middle, nn.GELU(), nn.Linear(16, 8))

    return nn.Sequential(*(block() for _ in range(3)))


def step(net: Any, optimizer: Any) -> None:
    import torch

    optimizer.zero_grad()
    net(torch.ones(4, 8)).square().mean().backward()
    optimizer.step()


OPTIMIZERS = [
    ("SGD", {"momentum": 0.9}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("Adagrad", {}),
]


@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS)
@pytest.mark.parametrize("name", ["fused_optimizer", "foreach_optimizer"])
def test_an_optimizer_is_switched_in_mid_training_and_back(
    kind: str, options: dict[str, Any], name: str, monkeypatch: Any
) -> None:
    import torch

    used: list[str] = []
    if name == "fused_optimizer":
        # AdamW is an Adam that decays weights apart, in the same function.
        family = {"AdamW": "adam"}.get(kind, kind.lower())
        module = sys.modules[f"torch.optim.{family}"]
        original = getattr(module, f"_fused_{family}")

        def seen(*args: Any, **kwargs: Any) -> None:
            used.append(kind)
            original(*args, **kwargs)

        monkeypatch.setattr(module, f"_fused_{family}", seen)
    nets = [blocks(), blocks()]
    made = [getattr(torch.optim, kind)(net.parameters(), lr=0.01, **options) for net in nets]
    for net, optimizer in zip(nets, made, strict=True):
        step(net, optimizer)
    before = [(group["fused"], group["foreach"]) for group in made[0].param_groups]
    loop = put_on(name, optimizers=[made[0]], live=True)
    for net, optimizer in zip(nets, made, strict=True):
        step(net, optimizer)
    assert bool(used) == (name == "fused_optimizer")
    assert loop.undo() == []
    assert [(group["fused"], group["foreach"]) for group in made[0].param_groups] == before
    for net, optimizer in zip(nets, made, strict=True):
        step(net, optimizer)
    pairs = zip(nets[0].parameters(), nets[1].parameters(), strict=True)
    assert all((mine - theirs).abs().max() < 1e-6 for mine, theirs in pairs)


def test_step_counts_go_to_where_the_kernel_wants_them() -> None:
    import torch

    parameter = torch.nn.Parameter(torch.ones(2, device="meta"))
    optimizer = torch.optim.Adam([parameter])
    optimizer.state[parameter]["step"] = torch.tensor(3.0, dtype=torch.float64)
    loop = put_on("fused_optimizer", optimizers=[optimizer], live=True)
    assert optimizer.state[parameter]["step"].device.type == "meta"
    assert optimizer.state[parameter]["step"].dtype == torch.float32
    assert optimizer.param_groups[0]["fused"] is True
    optimizer.state[parameter]["step"] = torch.tensor(4.0)
    loop.undo()
    assert optimizer.state[parameter]["step"].device.type == "cpu"
    assert not optimizer.param_groups[0]["fused"]


def test_what_has_no_fused_version_is_refused() -> None:
    import torch

    net = blocks()

    class Mine(torch.optim.SGD):
        pass

    for optimizer, why in (
        (torch.optim.RMSprop(net.parameters()), "RMSprop has no fused version"),
        (Mine(net.parameters(), lr=0.1), "Mine has no fused version"),
        (torch.optim.Adam(net.parameters(), differentiable=True), "differentiable"),
        (torch.optim.SGD([torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))], lr=0.1), "real"),
    ):
        with pytest.raises(CannotApply, match=why):
            put_on("fused_optimizer", optimizers=[optimizer], live=True)
        assert not optimizer.param_groups[0].get("fused")


def test_an_optimizer_without_lists_is_refused() -> None:
    import torch

    with pytest.raises(CannotApply, match="no foreach"):
        put_on("foreach_optimizer", optimizers=[torch.optim.SparseAdam(list(blocks().parameters()))])


def test_gradients_are_asked_to_be_none() -> None:
    loop = put_on("set_to_none")
    assert loop.zeroing(set_to_none=False) == {"set_to_none": True}
    loop.undo()
    assert loop.zeroing(set_to_none=False) == {"set_to_none": False}


def test_threads_are_set_and_put_back() -> None:
    import torch

    before = torch.get_num_threads()
    loop = put_on("threads", {"threads": before + 1}, models=[blocks()])
    assert torch.get_num_threads() == before + 1
    loop.undo()
    assert torch.get_num_threads() == before


def test_threads_wait_for_the_model_so_that_the_scripts_own_number_does_not_win() -> None:
    import torch

    before = torch.get_num_threads()
    put_on("threads", {"threads": before + 1})
    assert torch.get_num_threads() == before


def test_anomaly_detection_is_seen_switched_off_and_put_back() -> None:
    import torch

    look = optimization.load("no_anomaly_detection").look
    assert look(SimpleNamespace()) is False
    with torch.autograd.set_detect_anomaly(True):
        assert look(SimpleNamespace()) is True
        loop = put_on("no_anomaly_detection", models=[blocks()])
        assert not torch.is_anomaly_enabled()
        loop.undo()
        assert torch.is_anomaly_enabled()


def test_cudnn_is_put_back_to_what_it_was() -> None:
    import torch

    before = torch.backends.cudnn.benchmark
    loop = put_on("cudnn_benchmark")
    assert torch.backends.cudnn.benchmark is True
    loop.undo()
    assert torch.backends.cudnn.benchmark is before


def test_denormals_are_flushed_and_then_not() -> None:
    import torch

    def halved() -> float:
        return float(torch.tensor([2e-38]).mul(0.25).item())

    assert halved() > 0
    loop = put_on("flush_denormal")
    assert halved() == 0
    loop.undo()
    assert halved() > 0


def test_denormals_are_counted_in_parameters_gradients_and_state() -> None:
    import torch

    net = torch.nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1e-39, 0.0], [1.0, -1e-40]]))
    net.weight.grad = torch.ones(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    look = optimization.load("flush_denormal").look
    assert look(SimpleNamespace(models=[net], optimizers=[optimizer])) == {"share": 2 / 8}
    assert look(SimpleNamespace(models=[], optimizers=[])) == {"share": 0.0}


def test_old_objects_are_frozen_once_and_thawed() -> None:
    before = gc.get_freeze_count()
    loop = put_on("gc_freeze", models=[blocks(), blocks()])
    assert gc.get_freeze_count() > before + 1000
    loop.undo()
    assert gc.get_freeze_count() == 0


def test_a_collection_is_timed_unless_it_is_off() -> None:
    look = optimization.load("gc_freeze").look
    assert look(None)["seconds"] > 0
    gc.disable()
    try:
        assert look(None) == {"seconds": 0.0}
    finally:
        gc.enable()


def test_environment_of_huge_pages_is_put_back(monkeypatch: Any) -> None:
    monkeypatch.delenv("THP_MEM_ALLOC_ENABLE", raising=False)
    loop = put_on("huge_pages")
    assert os.environ["THP_MEM_ALLOC_ENABLE"] == "1"
    loop.undo()
    assert "THP_MEM_ALLOC_ENABLE" not in os.environ


FAULTS = """
import resource, sys
import torch
from laptime.testing.optimizations import FakeLoop
from laptime.tuning import optimization
torch.set_num_threads(1)
def faults():
    def once():
        kept = [torch.ones(10 << 20) for _ in range(2)]
    for _ in range(4): once()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4): once()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 4
loop = FakeLoop()
first = faults()
optimization.load("allocator").apply(loop, {})
on = faults()
failed = loop.undo()
print(first, on, faults(), failed)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_kept_memory_is_not_faulted_in_again() -> None:
    """80 MiB a round are 20 480 pages; blocks of more than 32 MiB never come from the heap by default."""
    unset = {
        name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_", "LD_"))
    }
    told = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True, env=unset
    )
    first, on, after, failed = told.stdout.split()
    assert int(first) > 15_000
    assert int(on) < 100
    assert int(after) > 8000
    assert failed == "[]"


def test_a_c_library_without_mallopt_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    with pytest.raises(CannotApply, match="mallopt"):
        put_on("allocator")


def test_a_refusing_mallopt_is_told(monkeypatch: Any) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda *each: 0))
    with pytest.raises(CannotApply, match="was refused"):
        put_on("allocator")


def test_expandable_segments_are_for_this_process_and_gone_after(monkeypatch: Any) -> None:
    import torch

    told: list[str] = []
    monkeypatch.setattr(torch._C, "_accelerator_setAllocatorSettings", told.append, raising=False)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128")
    loop = put_on("expandable_segments", device="cuda")
    assert os.environ["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    loop.undo()
    assert os.environ["PYTORCH_CUDA_ALLOC_CONF"] == "max_split_size_mb:128"
    assert told == ["expandable_segments:True", "expandable_segments:False"]


def test_expandable_segments_come_too_late_once_cuda_is_used(monkeypatch: Any) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 1)
    with pytest.raises(CannotApply, match="in use"):
        put_on("expandable_segments", device="cuda")


def test_retries_and_lost_memory_are_read(monkeypatch: Any) -> None:
    import torch

    look = optimization.load("expandable_segments").look
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert look(None) == {}
    stats = {"num_alloc_retries": 3, "reserved_bytes.all.peak": 100, "allocated_bytes.all.peak": 75}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: stats)
    assert look(None) == {"retries": 3, "lost": 0.25}
