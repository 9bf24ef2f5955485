"""What is done to the model: compiling, checkpointing, attention, DDP."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("compile", {}, {}),
        ("compile", {"dynamic": True}, {"dynamic": True}),
        ("compile_reduce_overhead", {}, {"mode": "reduce-overhead"}),
        ("compile_max_autotune", {"mode": "max-autotune"}, {"mode": "max-autotune"}),
    ],
)
def test_the_model_is_compiled_in_place_and_then_not(
    name: str, options: dict[str, Any], told: dict[str, Any], monkeypatch: Any
) -> None:
    import torch

    asked: list[dict[str, Any]] = []

    def compiled(function: Any, **arguments: Any) -> Any:
        asked.append(arguments)
        return lambda *args: function(*args) + 100

    monkeypatch.setattr(torch, "compile", compiled)
    net = torch.nn.Linear(2, 1)
    plain = net(torch.ones(1, 2)).item()
    loop = put_on(name, options, models=[net])
    assert asked == [told]
    assert net(torch.ones(1, 2)).item() == pytest.approx(plain + 100)
    assert loop.undo() == []
    assert net(torch.ones(1, 2)).item() == plain


@pytest.mark.slow
def test_dynamic_sizes_are_compiled_once() -> None:
    import torch
    import torch._dynamo
    from torch._dynamo.testing import CompileCounter

    def compiled(name: str) -> int:
        torch._dynamo.reset()
        loop = put_on(name) if name else FakeLoop()
        counter = CompileCounter()
        function = torch.compile(lambda images: images.sin().sum(), backend=counter)
        for size in (4, 5, 6, 7):
            function(torch.ones(size, 3))
        loop.undo()
        return int(counter.frame_count)

    assert compiled("") == 2
    assert compiled("mark_dynamic") == 1
    assert torch._dynamo.config.assume_static_by_default is True
    torch._dynamo.reset()


def gradients(net: Any) -> list[Any]:
    import torch

    torch.manual_seed(3)
    net.zero_grad()
    net(torch.randn(4, 8)).square().mean().backward()
    return [each.grad.clone() for each in net.parameters()]


def kept(net: Any) -> int:
    """Bytes that a forward pass keeps for the backward pass."""
    import torch

    found: list[int] = []

    def keep(tensor: Any) -> Any:
        found.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        net(torch.randn(64, 8))
    return sum(found)


def test_checkpointing_gives_the_same_gradients_with_less_kept() -> None:
    import torch

    net = blocks(dropout=0.5)
    before, much = gradients(net), kept(net)
    loop = put_on("activation_checkpointing", models=[net])
    after, little = gradients(net), kept(net)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(before, after, strict=True))
    assert little < much / 2
    assert loop.undo() == []
    assert kept(net) == much
    assert "forward" not in vars(net[0])


def test_evaluation_computes_nothing_twice() -> None:
    import torch

    net = blocks()
    calls: list[int] = []
    net[0].register_forward_hook(lambda *each: calls.append(1))
    put_on("activation_checkpointing", models=[net])
    with torch.no_grad():
        net(torch.ones(4, 8))
    assert len(calls) == 1


def test_batch_normalisation_is_not_updated_twice() -> None:
    net = blocks(norm=True)
    with pytest.raises(CannotApply, match="batch normalisation"):
        put_on("activation_checkpointing", models=[net])
    assert "forward" not in vars(net[0])


def test_blocks_in_blocks_are_wrapped_once() -> None:
    import torch

    from laptime.tuning.catalogue._inserted.checkpoint_blocks import checkpoint_blocks

    net = torch.nn.Sequential(blocks(), blocks())
    assert checkpoint_blocks(net) == list(net)


def test_a_model_that_can_checkpoint_by_itself_does() -> None:
    told: list[str] = []
    net = SimpleNamespace(
        gradient_checkpointing_enable=lambda: told.append("on"),
        gradient_checkpointing_disable=lambda: told.append("off"),
        is_gradient_checkpointing=True,
    )
    put_on("activation_checkpointing", models=[net]).undo()
    assert told == ["on", "off"]
    told.clear()
    put_on("no_checkpointing", models=[net]).undo()
    assert told == ["off", "on"]


def test_checkpointing_of_the_script_is_passed_over() -> None:
    import torch
    from torch.utils import checkpoint as library

    net = blocks()
    original = library.checkpoint

    def run() -> int:
        calls: list[int] = []
        hook = net[0].register_forward_pre_hook(lambda *each: calls.append(1))
        images = torch.ones(4, 8, requires_grad=True)
        library.checkpoint(net[0], images, use_reentrant=False).sum().backward()
        library.checkpoint_sequential(net, 2, images, use_reentrant=False).sum().backward()
        hook.remove()
        return len(calls)

    assert run() == 4
    loop = put_on("no_checkpointing", models=[net])
    assert run() == 2
    loop.undo()
    assert library.checkpoint is original
    assert run() == 4


class Attending:
    """As much of a transformers model as is asked."""

    def __init__(self, kind: str = "eager") -> None:
        self.config = SimpleNamespace(_attn_implementation=kind)

    def set_attn_implementation(self, kind: str) -> None:
        self.config._attn_implementation = kind


def test_attention_is_switched_and_back() -> None:
    net = Attending()
    assert optimization.load("sdpa").look(SimpleNamespace(models=[net, object()])) == ["eager"]
    loop = put_on("sdpa", models=[net])
    assert net.config._attn_implementation == "sdpa"
    loop.undo()
    assert net.config._attn_implementation == "eager"


def test_a_model_that_cannot_switch_is_refused() -> None:
    with pytest.raises(CannotApply, match="cannot switch"):
        put_on("sdpa", models=[blocks()])


@pytest.mark.parametrize(
    ("name", "options", "argument"),
    [
        ("ddp_bucket_size", {"bucket_cap_mb": 50}, {"bucket_cap_mb": 50}),
        ("ddp_static_graph", {}, {"static_graph": True}),
        ("ddp_gradient_as_bucket_view", {}, {"gradient_as_bucket_view": True}),
        ("find_unused_parameters", {}, {"find_unused_parameters": False}),
    ],
)
def test_the_parallel_module_is_made_so(name: str, options: dict[str, Any], argument: dict[str, Any]) -> None:
    class DistributedDataParallel:
        pass

    loop = put_on(name, options)
    call = loop.make("parallel", DistributedDataParallel, module=1, find_unused_parameters=True)
    assert call.arguments == {"module": 1, "find_unused_parameters": True} | argument
    loop.undo()
    assert loop.kinds == set()


def test_unused_parameters_are_counted() -> None:
    import torch

    net = torch.nn.ModuleList([torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)])
    look = optimization.load("find_unused_parameters").look
    assert look(SimpleNamespace(models=[net])) == {"unused": 0}
    net[0](torch.ones(1, 2)).sum().backward()
    assert look(SimpleNamespace(models=[net])) == {"unused": 1}


def test_all_of_it_runs_with_a_real_parallel_module(tmp_path: Any) -> None:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    names = ("ddp_bucket_size", "ddp_gradient_as_bucket_view", "find_unused_parameters", "ddp_bf16_hook")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        expected = gradients(blocks())
        loops = [put_on(name, {"bucket_cap_mb": 50}) for name in names]
        arguments: dict[str, Any] = {"module": blocks(), "find_unused_parameters": True}
        for loop in loops:
            arguments = loop.make("parallel", DistributedDataParallel, **arguments).arguments
        parallel = DistributedDataParallel(**arguments)
        loops[-1].meet("parallels", parallel)
        found = gradients(parallel)
        assert parallel.bucket_bytes_cap == 50 * 1024 * 1024
        assert parallel.gradient_as_bucket_view
        assert not parallel.find_unused_parameters
        for mine, theirs in zip(found, expected, strict=True):
            assert torch.equal(mine, theirs.bfloat16().float())
    finally:
        dist.destroy_process_group()
