"""Precision, loss scaling, layouts: applied to small models, and taken off again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laptime.testing.optimizations import FakeLoop
from laptime.tuning import optimization
from laptime.tuning.catalogue import channels_last
from laptime.tuning.trial.loop import CannotApply

pytestmark = pytest.mark.torch


def small() -> Any:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def convolutional() -> Any:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten())


def trained(
    loop: FakeLoop, net: Any, optimizer: Any, batches: list[Any], clip: float = 0.0, every: int = 1
) -> None:
    """A training loop as scripts have it, each part of it through the loop's attachments."""
    import torch

    for number, images in enumerate(batches):
        with loop.in_forward():
            loss = net(images).square().mean() / every
        loop.scale(loss).backward()
        if (number + 1) % every == 0:
            if clip:
                torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
            loop.run_step(optimizer)
            optimizer.zero_grad()


def weights(net: Any) -> list[Any]:
    return [each.detach().clone() for each in net.parameters()]


def same(left: list[Any], right: list[Any]) -> bool:
    import torch

    return all(torch.equal(mine, theirs) for mine, theirs in zip(left, right, strict=True))


def test_bfloat16_is_inside_the_forward_part_only() -> None:
    import torch

    net, loop = small(), FakeLoop()
    optimization.load("bf16_autocast").apply(loop, {})
    with loop.in_forward():
        assert net(torch.ones(2, 6)).dtype == torch.bfloat16
    assert net(torch.ones(2, 6)).dtype == torch.float32
    assert not torch.is_autocast_enabled("cpu")
    loop.undo()
    with loop.in_forward():
        assert net(torch.ones(2, 6)).dtype == torch.float32


def test_bfloat16_trains_nearly_the_same_in_float32_weights() -> None:
    import torch

    batches = [torch.randn(4, 6) for _ in range(4)]
    found = []
    for name in ("bf16_autocast", ""):
        net, loop = small(), FakeLoop()
        if name:
            optimization.load(name).apply(loop, {})
        trained(loop, net, torch.optim.SGD(net.parameters(), lr=0.1), batches)
        assert all(each.dtype == torch.float32 for each in net.parameters())
        found.append(torch.cat([each.flatten() for each in weights(net)]))
    assert 0 < (found[0] - found[1]).norm() < 0.02 * found[1].norm()


def scaling(scale: float = 2.0**16, **others: Any) -> tuple[Any, FakeLoop, Callable[[Any], None]]:
    """Loss scaling in float32, where it must change nothing at all."""
    import torch

    from laptime.tuning.catalogue.fp16_autocast import Scaling

    loop, scaled = FakeLoop(), Scaling(torch.amp.GradScaler("cpu", init_scale=scale, **others))
    loop.optimizers(scaled.meet)
    loop.backward(scaled.scale)
    loop.step(scaled.step)
    return scaled, loop, lambda optimizer: loop.meet("optimizers", optimizer)


@pytest.mark.parametrize(("clip", "every"), [(0.0, 1), (0.01, 1), (0.0, 2), (0.01, 3)])
def test_loss_scaling_changes_nothing_in_float32(clip: float, every: int) -> None:
    import torch

    batches = [torch.randn(4, 6) for _ in range(6)]
    found = []
    for scales in (True, False):
        net = small()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        if scales:
            _, loop, meet = scaling(growth_interval=1)
            meet(optimizer)
        else:
            loop = FakeLoop(optimizers=[optimizer])
        trained(loop, net, optimizer, batches, clip, every)
        found.append(weights(net))
    assert same(*found)
    assert not same(found[0], weights(small()))


def test_gradients_are_true_as_soon_as_the_backward_pass_has_ended() -> None:
    import torch

    net = small()
    _, loop, meet = scaling()
    meet(torch.optim.SGD(net.parameters(), lr=0.1))
    loss = net(torch.ones(2, 6)).square().mean()
    expected = torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)
    scaled = loop.scale(loss)
    assert scaled.item() == loss.item() * 2.0**16
    scaled.backward()
    assert same(list(expected), [each.grad for each in net.parameters()])


def test_a_step_with_an_infinite_gradient_is_left_out_and_the_scale_halved() -> None:
    import torch

    net = small()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaled, loop, meet = scaling()
    meet(optimizer)
    before = weights(net)
    loop.scale(net(torch.full((2, 6), 1e30)).mean() * 1e38).backward()
    loop.run_step(optimizer)
    assert same(before, weights(net))
    optimizer.zero_grad()
    loop.scale(net(torch.ones(2, 6)).mean()).backward()
    assert scaled.scaler.get_scale() == 2.0**15
    loop.run_step(optimizer)
    assert not same(before, weights(net))


def test_two_optimizers_of_one_loss_step_at_one_scale() -> None:
    import torch

    batches = [torch.randn(4, 6) for _ in range(4)]
    found = []
    for scales in (True, False):
        net = small()
        optimizers = [torch.optim.SGD(net[part].parameters(), lr=0.1) for part in (0, 2)]
        _, loop, meet = scaling(growth_interval=1) if scales else (None, FakeLoop(), lambda optimizer: None)
        for each in optimizers:
            meet(each)
        for images in batches:
            loop.scale(net(images).square().mean()).backward()
            for each in optimizers:
                loop.run_step(each)
                each.zero_grad()
        found.append(weights(net))
    assert same(*found)


def test_both_networks_of_an_adversarial_pair_get_true_gradients() -> None:
    import torch

    found = []
    for scales in (True, False):
        maker, judge = small(), torch.nn.Linear(3, 1)
        with torch.no_grad():
            judge.weight.fill_(0.3)
        optimizers = [torch.optim.Adam(each.parameters(), lr=0.01) for each in (maker, judge)]
        _, loop, meet = scaling() if scales else (None, FakeLoop(), lambda optimizer: None)
        for each in optimizers:
            meet(each)
        torch.manual_seed(1)
        for _ in range(3):
            made = maker(torch.randn(4, 6))
            optimizers[1].zero_grad()
            loop.scale(judge(torch.randn(4, 3)).mean()).backward()
            loop.scale(-judge(made.detach()).mean()).backward()
            loop.run_step(optimizers[1])
            optimizers[0].zero_grad()
            loop.scale(judge(made).mean()).backward()
            loop.run_step(optimizers[0])
        found.append([*weights(maker), *weights(judge)])
    assert all((mine - theirs).abs().max() < 1e-7 for mine, theirs in zip(*found, strict=True))


def test_float16_casts_and_scales_and_goes() -> None:
    import torch

    net = small()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loop = FakeLoop(optimizers=[optimizer])
    optimization.load("fp16_autocast").apply(loop, {})
    with loop.in_forward():
        assert net(torch.ones(2, 6)).dtype == torch.float16
    before = weights(net)
    trained(loop, net, optimizer, [torch.randn(4, 6) for _ in range(8)])  # the first scales overflow
    assert not same(before, weights(net))
    loop.undo()
    assert loop.kinds == set()


def test_tf32_is_put_back_to_what_it_was() -> None:
    import torch

    before = torch.get_float32_matmul_precision()
    loop = FakeLoop()
    optimization.load("tf32").apply(loop, {})
    assert torch.get_float32_matmul_precision() == "high"
    assert loop.undo() == []
    assert torch.get_float32_matmul_precision() == before


def test_onednn_is_put_back_to_what_it_was() -> None:
    import torch

    mkldnn: Any = torch.backends.mkldnn
    parts = [mkldnn.matmul, mkldnn.conv]
    before = [part.fp32_precision for part in parts]
    loop = FakeLoop()
    optimization.load("onednn_bf16").apply(loop, {})
    assert [part.fp32_precision for part in parts] == ["bf16", "bf16"]
    assert loop.undo() == []
    assert [part.fp32_precision for part in parts] == before


def test_a_torch_without_the_switch_is_refused(monkeypatch: Any) -> None:
    import torch

    monkeypatch.setattr(torch.backends, "mkldnn", object())
    with pytest.raises(CannotApply, match="no switch"):
        optimization.load("onednn_bf16").apply(FakeLoop(), {})


def test_channels_last_takes_weights_gradients_and_state_along_and_brings_them_back() -> None:
    import torch

    net = convolutional()
    optimizer = torch.optim.AdamW(net.parameters(), foreach=True)
    net(torch.randn(2, 3, 8, 8)).square().mean().backward()
    optimizer.step()
    before = weights(net)
    strides = [each.stride() for each in net.parameters()]
    loop = FakeLoop(models=[net], optimizers=[optimizer], live=True)
    optimization.load("channels_last").apply(loop, {})

    def tensors() -> list[Any]:
        weight = net[3].weight
        return [
            weight,
            weight.grad,
            optimizer.state[weight]["exp_avg"],
            optimizer.state[weight]["exp_avg_sq"],
        ]

    assert all(each.is_contiguous(memory_format=torch.channels_last) for each in tensors())
    assert not any(each.is_contiguous() for each in tensors())
    assert same(before, weights(net))
    assert net[:4](torch.randn(2, 3, 8, 8)).is_contiguous(memory_format=torch.channels_last)
    assert loop.undo() == []
    assert [each.stride() for each in net.parameters()] == strides
    assert all(each.is_contiguous() for each in tensors())


def test_state_that_came_meanwhile_goes_back_as_well() -> None:
    import torch

    net = convolutional()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    loop = FakeLoop(models=[net], optimizers=[optimizer])
    optimization.load("channels_last").apply(loop, {})
    net(torch.randn(2, 3, 8, 8)).square().mean().backward()
    optimizer.step()
    momentum = optimizer.state[net[3].weight]["momentum_buffer"]
    assert momentum.is_contiguous(memory_format=torch.channels_last)
    loop.undo()
    assert optimizer.state[net[3].weight]["momentum_buffer"].is_contiguous()


def test_channels_last_of_one_input_channel_is_that_of_module_to() -> None:
    """`contiguous` leaves such a weight as it is: any order of one channel is both layouts."""
    import torch

    net = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 3), torch.nn.Conv2d(8, 4, 3))
    plain = [each.stride() for each in net.parameters()]
    undo = channels_last._convert(net)
    changed = [each.stride() for each in net.parameters()]
    undo()
    assert [each.stride() for each in net.parameters()] == plain
    assert changed == [each.stride() for each in net.to(memory_format=torch.channels_last).parameters()]
    assert changed[0] != plain[0]


def test_channels_last_trains_the_same_but_for_rounding() -> None:
    import torch

    batches = [torch.randn(2, 3, 8, 8) for _ in range(3)]
    found = []
    for name in ("channels_last", ""):
        net = convolutional()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        loop = FakeLoop(models=[net], optimizers=[optimizer])
        if name:
            optimization.load(name).apply(loop, {})
        trained(loop, net, optimizer, batches)
        found.append(weights(net))
    assert all((mine - theirs).abs().max() < 1e-5 for mine, theirs in zip(*found, strict=True))


def test_convolutions_over_volumes_are_left_alone() -> None:
    import torch

    volumes, images = torch.nn.Conv3d(2, 3, 2), torch.nn.Conv2d(2, 3, 2)
    loop = FakeLoop(models=[torch.nn.Sequential(volumes, images)])
    optimization.load("channels_last").apply(loop, {})
    assert volumes.weight.is_contiguous()
    assert not images.weight.is_contiguous()


def test_a_forward_pass_in_bfloat16_gives_float32_and_leaves_other_types_alone() -> None:
    import torch

    from laptime.tuning.catalogue._inserted.in_bfloat16 import in_bfloat16

    net, seen = small(), []
    net[0].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    plain = net.forward
    net.forward = in_bfloat16(lambda x: {"out": plain(x), "kept": x.long(), "name": "a"}, "cpu")
    found = net(torch.ones(2, 6))
    assert seen == [torch.bfloat16]
    assert found["out"].dtype == torch.float32
    assert found["kept"].dtype == torch.int64
    assert found["name"] == "a"
    found["out"].square().mean().backward()
    assert all(each.grad is not None and each.grad.dtype == torch.float32 for each in net.parameters())
