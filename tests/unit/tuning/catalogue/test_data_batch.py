"""Changes of the batch: when larger ones pay, the learning rate that goes with them, accumulation."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from laptime.testing.optimizations import FakeEditor, FakeLoop
from laptime.tuning.catalogue import accumulation, batch_size, defer_logging
from laptime.tuning.loop_profile import LoopProfile, Site
from laptime.tuning.optimization import CannotEdit
from laptime.tuning.trial.loop import CannotApply

SMALL = LoopProfile(
    step=0.1,
    shares={
        "data": 0.0,
        "transfer": 0.0,
        "forward": 0.04,
        "backward": 0.04,
        "optimizer": 0.01,
        "other": 0.01,
    },
    what_if={"whole": 0.1, "half_batch": 0.08, "double_batch": 0.14},
    batch=16,
    memory=32 << 30,
    peak=1 << 30,
    state_bytes=1 << 29,
    batch_bytes=1 << 20,
    loader={"batch_size": 16},
    facts=frozenset({"cpu", "loader", "sgd"}),
)


def test_batches_grow_as_long_as_fixed_costs_are_worth_spreading() -> None:
    # T(b) = 0.06 + 0.04 b / 16: only with 32 times the batch 0.06 / 32 is below 3 % of a step of 0.1.
    assert [each["times"] for each in batch_size.propose(SMALL)] == [2, 4, 8, 16, 32]
    assert batch_size.bound(SMALL, {"times": 2}) == pytest.approx(0.03)
    assert batch_size.bound(SMALL, {"times": 16}) == pytest.approx(0.06 * 15 / 16)
    straight = replace(SMALL, what_if={"half_batch": 0.05, "double_batch": 0.2})
    assert batch_size.propose(straight) == []
    assert "knee" in batch_size.why_not(straight)
    assert "and twice" in batch_size.why_not(replace(SMALL, what_if={}))


def test_batches_grow_as_far_as_memory_goes() -> None:
    # Half a GiB of activations: three more fit into 80 % of 2 GiB.
    assert [each["times"] for each in batch_size.propose(replace(SMALL, memory=2 << 30))] == [2, 4]
    assert batch_size.propose(replace(SMALL, memory=1 << 28)) == []


def test_the_rule_of_the_learning_rate_goes_by_the_optimizer() -> None:
    assert batch_size.propose(SMALL)[0] == {"value": 32, "times": 2, "lr": "linear"}
    adam = replace(SMALL, facts=SMALL.facts - {"sgd"} | {"adamw"})
    assert batch_size.propose(adam)[0]["lr"] == "sqrt"
    both = replace(SMALL, facts=SMALL.facts | {"adamw"})
    assert batch_size.propose(both) == []
    assert "no rule" in batch_size.why_not(both)


@pytest.mark.torch
def test_batch_size_and_learning_rate_change_together() -> None:
    import torch
    from torch.utils.data import DataLoader

    loop = FakeLoop()
    batch_size.apply(loop, {"value": 64, "times": 4, "lr": "sqrt"})
    assert loop.make("loader", DataLoader, dataset=range(4), batch_size=16).arguments["batch_size"] == 64
    assert loop.make("loader", DataLoader, dataset=range(4), batch_size=100).arguments["batch_size"] == 100
    weight = torch.nn.Parameter(torch.zeros(1))
    given = loop.make("optimizer", torch.optim.AdamW, params=[weight], lr=0.5)
    assert given.arguments["lr"] == pytest.approx(1.0)
    default = loop.make("optimizer", torch.optim.AdamW, params=[{"params": [weight], "lr": 0.1}])
    assert default.arguments["lr"] == pytest.approx(2e-3)
    assert default.arguments["params"][0]["lr"] == pytest.approx(0.2)
    torch.optim.AdamW(**default.arguments)


def test_the_learning_rate_is_multiplied_where_it_is_written() -> None:
    options = {"value": 64, "times": 4, "lr": "linear"}
    for given, template in (
        ("0.1", "{} * 4"),
        ("args.lr", "{} * 4"),
        ("1e-3", "{} * 4"),
        ("a if b else c", "({}) * 4"),
    ):
        editor = FakeEditor(arguments={"lr": given})
        batch_size.edit(editor, options)
        assert editor.list_calls("wrap_argument") == [(("optimizer", "lr", template), {})]
        assert editor.list_calls("set_arguments") == [(("loader",), {"batch_size": "64"})]
    with pytest.raises(CannotEdit, match="by 4"):
        batch_size.edit(FakeEditor(), options)


# Accumulation.

ACCUMULATING = replace(SMALL, facts=SMALL.facts | {"accumulation"}, details={"accumulation": 4})


def test_micro_batches_are_joined_by_the_divisors_of_their_number() -> None:
    seen = SimpleNamespace(steps=SimpleNamespace(seen={"backward": 41, "optimizer": 10}))
    assert accumulation.look(seen) == 4
    assert accumulation.propose(ACCUMULATING) == [
        {"value": 32, "steps": 2, "of": 4},
        {"value": 64, "steps": 1, "of": 4},
    ]
    assert accumulation.propose(replace(ACCUMULATING, details={})) == []
    clipped = replace(ACCUMULATING, facts=ACCUMULATING.facts | {"clipping"})
    assert accumulation.propose(clipped) == []
    assert "clipping" in accumulation.why_not(clipped)


def trained(options: dict[str, Any] | None) -> list[Any]:
    """Weights after each optimizer step of a loop that accumulates over four micro-batches of two samples."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    inputs = torch.randn(32, 3, dtype=torch.float64)
    dataset = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = nn.Linear(3, 1).double()
    loop = FakeLoop()
    if options is not None:
        accumulation.apply(loop, options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found: list[Any] = []
    optimizer.register_step_post_hook(lambda *_: found.append(model.weight.detach().clone()))
    loop.meet("optimizers", optimizer)
    loader = DataLoader(**loop.make("loader", DataLoader, dataset=dataset, batch_size=2).arguments)
    for number, (images, wanted) in enumerate(loader):
        loss = nn.functional.mse_loss(model(images), wanted) / 4
        loop.scale(loss).backward()
        if (number + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    return found


@pytest.mark.torch
def test_larger_micro_batches_make_the_same_steps() -> None:
    import torch

    wanted = trained(None)
    assert len(wanted) == 4
    for options in ({"value": 4, "steps": 2, "of": 4}, {"value": 8, "steps": 1, "of": 4}):
        made = trained(options)
        assert len(made) == 4
        for one, two in zip(wanted, made, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


def test_a_trainer_is_told_and_a_loop_of_ones_own_is_not_guessed_at() -> None:
    options = {"value": 32, "steps": 2, "of": 4}
    editor = FakeEditor(["hf_arguments"])
    accumulation.edit(editor, options)
    arguments = {"per_device_train_batch_size": "32", "gradient_accumulation_steps": "2"}
    assert editor.list_calls("set_arguments") == [(("hf_arguments",), arguments)]
    with pytest.raises(CannotEdit, match="2 micro-batches of 32"):
        accumulation.edit(FakeEditor(["loader", "optimizer"]), options)


# Logging.


def sync(line: int, end_line: int = 0, count: float = 1.0) -> Site:
    return Site("sync", "train.py", line, end_line=end_line, detail="item", count=count)


def test_each_line_that_waits_in_every_step_is_suggested_once() -> None:
    syncs = (sync(10, 12), sync(11), sync(20, count=0.02), sync(30), sync(30))
    assert defer_logging.propose(replace(SMALL, syncs=syncs)) == [{"every": 50, "sites": [0, 3]}]
    assert defer_logging.propose(replace(SMALL, syncs=(sync(20, count=0.02),))) == []


def test_logging_is_never_left_out_by_itself() -> None:
    assert defer_logging.OPTIMIZATION.suggests
    with pytest.raises(CannotApply, match="suggested"):
        defer_logging.apply(FakeLoop(), {"every": 50, "sites": [0]})
