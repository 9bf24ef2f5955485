"""What is captured of a training step, and that nothing of it is left behind."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from laptime.tuning.trial.numerics import tensor_summary

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def classifier(
    *,
    accumulate: int = 1,
    as_dict: bool = False,
    scaler: bool = False,
    wrap: Callable[[Any], Any] = lambda model: model,
    momentum: float = 0.9,
) -> Callable[[], None]:
    """A small script in a function, 24 samples in batches of 4."""

    def main() -> None:
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        torch.manual_seed(3)
        inputs, targets = torch.randn(24, 6), torch.randint(0, 3, (24,))
        collate = None
        if as_dict:

            def collate(rows: list[Any]) -> dict[str, Any]:
                return {
                    "x": torch.stack([row[0] for row in rows]),
                    "y": torch.stack([row[1] for row in rows]),
                }

        model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))
        run = wrap(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
        scaling = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=scaler)
        loader = DataLoader(TensorDataset(inputs, targets), batch_size=4, shuffle=True, collate_fn=collate)
        for _ in range(4):
            for index, batch in enumerate(loader):
                x, y = (batch["x"], batch["y"]) if as_dict else batch
                loss = nn.functional.cross_entropy(run(x), y) / accumulate
                scaling.scale(loss).backward()
                if (index + 1) % accumulate == 0:
                    scaling.step(optimizer)
                    scaling.update()
                    optimizer.zero_grad()

    return main


def gan() -> None:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    torch.manual_seed(0)
    made, judge = nn.Linear(2, 4), nn.Linear(4, 1)
    first = torch.optim.Adam(made.parameters(), lr=1e-3)
    second = torch.optim.Adam(judge.parameters(), lr=1e-4)
    rows: Any = torch.randn(16, 4)
    for _ in range(4):
        for real in DataLoader(rows, batch_size=4):
            second.zero_grad()
            fake = made(torch.randn(4, 2))
            (judge(fake.detach()).mean() - judge(real).mean()).backward()
            second.step()
            first.zero_grad()
            (-judge(fake).mean()).backward()
            first.step()


def twice(
    folder: Path, main: Callable[[], None], other: Callable[[], None] | None = None, **plan: Any
) -> Any:
    from fixtures.numerics_captures import capture

    given: dict[str, Any] = {"batches": str(folder / "batches.pt"), "steps": 2, **plan}
    capture(main, folder / "one", [], write=str(folder / "one.pt"), **given)
    return capture(other or main, folder / "two", [], compare=str(folder / "one.pt"), **given)


def test_a_run_is_itself(tmp_path: Path) -> None:
    found = twice(tmp_path, classifier())
    assert found.steps == 2
    assert found.fed
    assert {row.group for row in found.tensors} == {"gradients", "parameters", "optimizer", "updates"}
    assert all(row.equal for row in found.tensors)
    assert {row.name for row in found.tensors if row.group == "gradients"} == {
        "0.weight",
        "0.bias",
        "3.weight",
        "3.bias",
    }
    step = found.candidate.steps[0]
    assert step.samples == 4
    assert step.rates == [0.1]
    assert step.optimizer_steps == 1
    assert step.norm[0] == pytest.approx(step.norm_before[0], rel=1e-5)
    assert found.candidate.settings[0]["momentum"] == 0.9


def test_steps_begin_where_the_first_began(tmp_path: Path) -> None:
    import torch

    twice(tmp_path, classifier())
    one = torch.load(tmp_path / "one.pt", weights_only=True)
    for step in one["steps"]:
        moved = step["parameters"]["0.weight"]["values"] - one["start"]["0.weight"]["values"]
        buffer = step["optimizer"]["0.weight/momentum_buffer"]["values"]
        assert torch.allclose(moved, -0.1 * buffer, atol=1e-6)


def test_micro_batches_are_one_step(tmp_path: Path) -> None:
    step = twice(tmp_path, classifier(accumulate=2)).candidate.steps[0]
    assert (step.samples, step.optimizer_steps, len(step.losses)) == (8, 1, 2)
    assert step.loss == pytest.approx(sum(step.losses))


def own_batches(*, rows: int = 8) -> Callable[[], None]:
    """A script without a loader: batches are drawn from one long tensor, two of them a step."""

    def main() -> None:
        import torch

        torch.manual_seed(1)
        data, model = torch.randn(1000), torch.nn.Linear(16, 1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for _ in range(12):
            for _ in range(2):
                starts = torch.randint(0, 900, (rows,)).tolist()
                batch = torch.stack([data[start : start + 16] for start in starts])
                (model(batch).square().mean() / 2).backward()
            with torch.no_grad():
                model(batch[:1])  # not of the step: nothing of it is trained on
            optimizer.step()
            optimizer.zero_grad()

    return main


def test_without_a_loader_shapes_tell_the_batch(tmp_path: Path) -> None:
    from laptime.tuning.gates import invariants

    def outcome(found: Any) -> str:
        return {check.name: check.outcome for check in invariants.checks(found, "exact")}["effective_batch"]

    same = twice(tmp_path / "same", own_batches())
    assert same.base.steps[0].shapes == [[[8, 16]], [[8, 16]]]
    assert outcome(same) == "kept"
    assert all(row.equal for row in same.tensors)
    assert outcome(twice(tmp_path / "fewer", own_batches(), own_batches(rows=7))) == "broken"


def test_batches_may_be_dicts(tmp_path: Path) -> None:
    found = twice(tmp_path, classifier(as_dict=True))
    assert found.fed
    assert all(row.equal for row in found.tensors)


def test_two_models_and_two_optimizers(tmp_path: Path) -> None:
    found = twice(tmp_path, gan)
    names = {row.name for row in found.tensors if row.group == "gradients"}
    assert names == {"0.weight", "0.bias", "1.weight", "1.bias"}
    step = found.candidate.steps[0]
    assert step.optimizer_steps == 2
    assert step.rates == [1e-4, 1e-3]
    assert all(row.equal for row in found.tensors)


def test_gradients_are_those_after_unscaling(tmp_path: Path) -> None:
    found = twice(tmp_path, classifier(), classifier(scaler=True))
    total = next(row for row in found.totals if row.group == "gradients")
    assert total.norm == pytest.approx(total.base_norm, rel=1e-5)
    assert found.candidate.steps[0].norm[0] == pytest.approx(found.base.steps[0].norm[0], rel=1e-5)


def test_names_are_those_of_the_users_model(tmp_path: Path) -> None:
    def compiled(model: Any) -> Any:
        import torch

        return torch.compile(model, backend="eager")

    found = twice(tmp_path, classifier(), classifier(wrap=compiled))
    assert found.unmatched == []
    assert found.steps == 2


def test_a_tensor_that_is_missing_is_named(tmp_path: Path) -> None:
    found = twice(tmp_path, classifier(), classifier(momentum=0.0))
    assert "optimizer: 0.weight/momentum_buffer" in found.unmatched


def test_double_precision_is_given_back(tmp_path: Path) -> None:
    import torch

    from fixtures.numerics_captures import capture

    plain = classifier(wrap=lambda model: torch.nn.Sequential(model[0], *model[2:]))  # without dropout
    single = torch.Tensor.float
    given: dict[str, Any] = {"batches": str(tmp_path / "b.pt"), "steps": 1}
    capture(plain, tmp_path / "one", [], write=str(tmp_path / "one.pt"), **given)
    capture(plain, tmp_path / "two", [], write=str(tmp_path / "two.pt"), double=True, **given)
    found = capture(
        plain,
        tmp_path / "three",
        [],
        compare=str(tmp_path / "one.pt"),
        reference=str(tmp_path / "two.pt"),
        **given,
    )
    assert torch.get_default_dtype() is torch.float32
    assert torch.Tensor.float is single
    row = next(row for row in found.totals if row.group == "gradients")
    assert 0 < row.candidate_error < 1e-6
    assert row.candidate_error == row.base_error


def test_last_bits_are_rounded_away_in_both_directions(tmp_path: Path) -> None:
    import torch

    from laptime.tuning.trial.numerics.model_variants import LAST_BITS, round_models

    model = torch.nn.Sequential(torch.nn.Identity())
    undo = round_models([model], LAST_BITS)
    given = torch.tensor([1 + 2.0**-22, 1 + 2.0**-18, -3.0, 0.0, float("inf")], requires_grad=True)
    weights = torch.tensor([1 + 2.0**-22, 1.0, 1.0, 1.0, 1.0])
    made = model(given)
    (made * weights).sum().backward()
    assert made.tolist() == [1.0, 1 + 2.0**-18, -3.0, 0.0, float("inf")]
    assert given.grad is not None
    assert given.grad.tolist() == [1.0] * 5
    undo()
    assert model(given)[0].item() == 1 + 2.0**-22


@pytest.mark.parametrize("layer", ["linear", "lstm"])
def test_weights_of_products_are_rounded_in_calls_alone(layer: str) -> None:
    import torch

    from laptime.tuning.trial.numerics.model_variants import round_models

    torch.manual_seed(0)
    made: Any = torch.nn.Linear(4, 3) if layer == "linear" else torch.nn.LSTM(4, 3)
    before = {name: each.detach().clone() for name, each in made.named_parameters()}
    by_hand = copy.deepcopy(made)
    with torch.no_grad():
        for each in by_hand.parameters():
            each.copy_(each.bfloat16().float())
    undo = round_models([made], "bfloat16")
    given = torch.ones(5, 4)
    outputs, expected = made(given), by_hand(given)
    outputs, expected = (each if layer == "linear" else each[0] for each in (outputs, expected))
    assert torch.equal(outputs, expected.bfloat16().float())
    outputs.sum().backward()
    assert all(torch.equal(each, before[name]) for name, each in made.named_parameters())
    assert all(each.grad is not None for each in made.parameters())
    with pytest.raises((RuntimeError, ValueError)):
        made(torch.ones(5, 7))
    undo()
    assert all(each.requires_grad and each.is_leaf for each in made.parameters())
    assert all(each.is_leaf for each in getattr(made, "_flat_weights", []))


def test_rounding_the_last_bits_changes_values_a_little(tmp_path: Path) -> None:
    from fixtures.numerics_captures import capture

    base = str(tmp_path / "one.pt")
    given: dict[str, Any] = {"batches": str(tmp_path / "batches.pt"), "steps": 2}
    capture(classifier(), tmp_path / "one", [], write=base, **given)
    found = capture(classifier(), tmp_path / "two", [], compare=base, rounds="last_bits", **given)
    rows = [row for row in found.totals if row.group == "gradients"]
    assert not all(row.equal for row in rows)
    assert all(row.error < 1e-5 * row.rms for row in rows)
    more = capture(classifier(), tmp_path / "three", [], compare=base, rounds="last_bits", draw=1, **given)
    later = [row for row in more.totals if row.group == "gradients"]
    assert all(a.error < b.error < 1e-4 * b.rms for a, b in zip(rows, later, strict=True))


def test_captured_batches_can_be_cut(tmp_path: Path) -> None:
    import torch

    found = twice(tmp_path, classifier(), most=2)
    assert found.candidate.steps[0].samples == 4  # what the loader gives is what counts
    captured = torch.load(tmp_path / "batches.pt", weights_only=True)
    assert [len(tensor) for tensor in captured["batches"][0]] == [2, 2]
    assert all(row.equal for row in found.tensors)


def test_a_script_that_ends_early_is_told(tmp_path: Path) -> None:
    found = twice(tmp_path, classifier(), steps=1000)
    assert found.steps < found.planned


def test_not_a_number_is_counted(tmp_path: Path) -> None:
    def broken(model: Any) -> Any:
        return lambda x: model(x) * float("inf")

    found = twice(tmp_path, classifier(), classifier(wrap=broken))
    assert sum(found.candidate.steps[0].bad.values()) > 0
    assert found.candidate.steps[0].loss is None


def test_a_damaged_base_is_no_base(tmp_path: Path) -> None:
    from fixtures.numerics_captures import capture

    (tmp_path / "one.pt").write_bytes(b"not a file of torch")
    found = capture(classifier(), tmp_path / "two", [], compare=str(tmp_path / "one.pt"), steps=1)
    assert found.totals == []
    assert "be read" in found.notes[0]


def test_large_tensors_are_sampled_and_summed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    weight = torch.randn(100_000)
    monkeypatch.setattr(tensor_summary, "LIMIT", 100_000)
    every = tensor_summary.stride({"w": weight}, {}, 1)
    assert every == 5
    one, other = tensor_summary.summary(weight, every), weight.clone()
    assert one["values"].numel() == 20_000
    assert one["norm"] == pytest.approx(float(weight.double().norm()))
    other[1] += 1e-3  # not among those that are kept
    two = tensor_summary.summary(other, every)
    assert torch.equal(one["values"], two["values"])
    assert one["bits"] != two["bits"]


def test_a_checksum_knows_places_and_not_layouts() -> None:
    import torch

    from laptime.tuning.trial.numerics.tensor_summary import checksum, summary

    table = torch.randn(2, 3, 4, 4)
    assert checksum(table.reshape(-1)) != checksum(table.flip(0).reshape(-1))
    there = table.to(memory_format=torch.channels_last)
    assert summary(there, 1)["bits"] == summary(table, 1)["bits"]
    zero = torch.zeros(3)
    assert summary(-zero, 1)["bits"] == summary(zero, 1)["bits"]
    for kind in (torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.uint8):
        assert isinstance(checksum(torch.ones(5).to(kind)), int)


def test_how_far_running_statistics_move(tmp_path: Path) -> None:
    import torch

    from fixtures.numerics_captures import capture

    def main(momentum: float) -> Callable[[], None]:
        def train() -> None:
            torch.manual_seed(0)
            rows: Any = torch.randn(64, 4)
            loader = torch.utils.data.DataLoader(rows, batch_size=16)
            model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8, momentum=momentum))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for batch in loader:
                optimizer.zero_grad()
                model(batch).square().mean().backward()
                optimizer.step()

        return train

    base = str(tmp_path / "one.pt")
    given: dict[str, Any] = {"batches": str(tmp_path / "batches.pt"), "steps": 2}
    capture(main(0.1), tmp_path / "one", [], write=base, **given)
    for momentum, ratio in ((0.1, 1.0), (0.0, 0.0)):
        found = capture(main(momentum), tmp_path / f"two-{momentum}", [], compare=base, **given)
        rows = [each for each in found.totals if each.group == "statistics"]
        assert len(rows) == 2
        assert all(each.norm == pytest.approx(ratio * (each.base_norm or 0.0)) for each in rows)
        assert all(each.base_norm for each in rows)


def test_noise_is_the_same_in_double_precision() -> None:
    """The reference of a GAN, a VAE or a diffusion had other noise: gradients 80 % off passed."""
    import torch

    from laptime.tuning.trial.numerics.model_variants import to_double

    def draw() -> list[Any]:
        torch.manual_seed(0)
        mean, one = torch.zeros(100), torch.ones(100)
        return [
            torch.randn(100),
            torch.rand(10, 10),
            torch.randn_like(mean),
            torch.rand_like(mean),
            torch.normal(mean, one),
            torch.empty(100).normal_(1.0, 2.0),
            torch.empty(100).uniform_(-1, 1),
            torch.distributions.Normal(mean, one).rsample(),
            torch.distributions.Exponential(one).sample(),
            torch.randn(100, requires_grad=True),
        ]

    single = draw()
    undo = to_double([], [])
    try:
        double = draw()
    finally:
        undo()
    assert all(each.dtype is torch.float64 for each in double)
    assert all(torch.allclose(a.double(), b, atol=1e-6) for a, b in zip(single, double, strict=True))
    assert double[-1].is_leaf
    assert double[-1].requires_grad
    assert torch.randn(3).dtype is torch.float32
