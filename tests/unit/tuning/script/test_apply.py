"""`with laptime.apply(recipe)`: on inside the block, whatever was there before, and gone behind it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import laptime
from fixtures.runs import run
from laptime.kit.errors import UsageError
from laptime.records.tuning import Applied, Tuning
from laptime.tuning import recipe_file
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.script.in_process import changes_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

LAST = [{"name": "channels_last"}]


def network() -> Any:
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(64, 2))


def trained(model: Any, optimizer: Any) -> None:
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(2, 3, 6, 6)).sum().backward()
        optimizer.step()


def is_last(model: Any) -> bool:
    return bool(model[0].weight.is_contiguous(memory_format=torch.channels_last))


def functions() -> list[Any]:
    data, optim = torch.utils.data.DataLoader, torch.optim
    owners = (torch.nn.Module, data, optim.Optimizer, optim.SGD, optim.AdamW, torch.autograd)
    return [dict(vars(owner)) for owner in owners if isinstance(owner, type)] + [torch.autograd.backward]


def test_models_from_before_and_from_inside() -> None:
    before = network()
    optimizer = torch.optim.SGD(before.parameters(), lr=0.1, momentum=0.9)
    known = functions()
    with laptime.apply(LAST) as applied:
        trained(before, optimizer)
        inside = network()
        trained(inside, torch.optim.SGD(inside.parameters(), lr=0.1))
        assert is_last(before)
        assert is_last(inside)
    assert (applied.refused, applied.left) == ([], [])
    assert not is_last(before)
    assert functions() == known
    trained(before, optimizer)


def test_everything_is_given_back_after_an_exception() -> None:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters())
    known = functions()  # torch itself wraps `step` when the first one of a class is made
    fused = []

    def main() -> None:
        trained(model, optimizer)
        fused.append(optimizer.param_groups[0]["fused"])
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"), laptime.apply([*LAST, {"name": "fused_optimizer"}]):
        main()
    assert fused == [True]
    assert not optimizer.param_groups[0]["fused"]
    assert not is_last(model)
    assert functions() == known


def test_a_change_that_cannot_be_is_told_and_the_others_are_on() -> None:
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters())
    with laptime.apply([{"name": "fused_optimizer"}, *LAST]) as applied:
        model(torch.randn(2, 3, 6, 6))
        assert is_last(model)
    assert [each["name"] for each in applied.refused] == ["fused_optimizer"]
    assert "LBFGS" in applied.refused[0]["why"]
    assert type(optimizer).__name__ == "LBFGS"


def test_a_loader_of_before_is_as_it_was_and_that_is_told() -> None:
    dataset = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(dataset, batch_size=2)
    with laptime.apply([{"name": "num_workers", "options": {"value": 1}}]) as applied:
        assert loader.num_workers == 0
    assert applied.refused == [{"name": "num_workers", "why": "no DataLoader was made inside the block"}]
    with laptime.apply([{"name": "num_workers", "options": {"value": 1}}]) as applied:
        assert torch.utils.data.DataLoader(dataset, batch_size=2).num_workers == 1
    assert applied.refused == []
    assert torch.utils.data.DataLoader(dataset, batch_size=2).num_workers == 0


def test_the_step_of_a_scheduled_optimizer_is_seen_and_the_scheduler_still_works() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    wrapped = vars(optimizer)["step"]
    with laptime.apply(LAST) as applied:
        trained(model, optimizer)
        scheduler.step()
        assert applied._hooks.steps.seen["optimizer"] == 2
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)
    assert vars(optimizer)["step"] is wrapped
    assert applied.left == []


def test_forms_of_a_recipe(tmp_path: Path) -> None:
    wanted = Recipe((Change("num_workers", {"value": 2}),))
    tuned = run(tuning=Tuning(recipe=[Applied(name="num_workers", options={"value": 2})]))
    assert changes_of(tuned) == wanted
    assert changes_of(wanted) is wanted
    assert changes_of([{"name": "num_workers", "options": {"value": 2}}]) == wanted
    file = tmp_path / "train.laptime.json"
    file.write_bytes(recipe_file.encode(recipe_file.RecipeFile(recipe=recipe_file.list_applied(wanted))))
    assert changes_of(file) == changes_of(str(file)) == wanted


def test_a_change_that_breaks_on_a_model_is_told() -> None:
    """Lazy parameters have no shape yet when the model is first called."""
    model = torch.nn.Sequential(torch.nn.LazyConv2d(4, 3), torch.nn.Flatten())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with laptime.apply(LAST) as applied:
        trained(model, optimizer)
    assert [each["name"] for each in applied.refused] == ["channels_last"]


@pytest.mark.parametrize("wrong", [3, [3], [{"options": {}}], {"name": "x"}])
def test_what_is_no_recipe(wrong: Any) -> None:
    with pytest.raises(UsageError, match="not a recipe"):
        changes_of(wrong)


def test_a_run_that_tuned_nothing() -> None:
    with pytest.raises(UsageError, match="no recipe"):
        changes_of(run())


def test_an_unknown_name_is_told_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="no_such_thing"), laptime.apply([{"name": "no_such_thing"}]):
        pass


@pytest.mark.slow
def test_before_torch_is_imported(tmp_path: Path) -> None:
    script = tmp_path / "s.py"
    script.write_text(
        "import sys, json, laptime\n"
        "assert 'torch' not in sys.modules\n"
        "with laptime.apply([{'name': 'channels_last'}]) as applied:\n"
        "    import torch\n"
        "    torch.set_num_threads(1)\n"
        "    model = torch.nn.Conv2d(3, 4, 3)\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    model(torch.randn(2, 3, 6, 6)).sum().backward()\n"
        "    optimizer.step()\n"
        "    inside = model.weight.is_contiguous(memory_format=torch.channels_last)\n"
        "after = model.weight.is_contiguous(memory_format=torch.channels_last)\n"
        "print(json.dumps([inside, after, applied.refused, applied.left]))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == [True, False, [], []]
