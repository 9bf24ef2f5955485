"""What a trial stands in between of, in this process: changes heard, then nothing of it left."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from laptime.tuning.trial.hooks import active_changes
from laptime.tuning.trial.hooks.active_changes import LIBRARY_CLASSES, ConstructorCalls, LibraryCalls
from laptime.tuning.trial.hooks.loop_hooks import LoopHooks, TrialMode
from laptime.tuning.trial.hooks.torch_hooks import SPAWNS
from laptime.tuning.trial.loop import ConstructorCall
from laptime.tuning.trial.messages import TrialPlan

pytestmark = pytest.mark.torch

Apply = Callable[[Any], None]


class Recorder(TrialMode):
    """A mode that writes down what it is told, and does nothing else."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.ended = 0
        self.hooks: Any = None
        self.starts: list[bool] = []
        self.losses: list[Any] = []

    def fetch(self, loader: Any, take: Callable[[], Any]) -> Any:
        self.told.append("fetch")
        return take()

    def forward(self, module: Any, inputs: Any) -> None:
        self.told.append("forward")

    def backward(self, root: Any, run: Callable[[], Any]) -> Any:
        self.told.append("backward")
        if self.hooks is not None:
            self.losses.append(self.hooks.unscale(root))
        return run()

    def step(self, optimizer: Any, run: Callable[[], Any]) -> Any:
        self.told.append("step")
        return run()

    def boundary(self, *, ended: bool, begins: bool) -> None:
        self.ended += ended
        if self.hooks is not None:
            self.starts.append(self.hooks.epoch_start > 0)

    def finish(self) -> None: ...


def owners() -> list[Any]:
    import torch
    from torch.utils.data import dataloader

    return [
        torch,
        torch.autograd,
        torch.random,
        torch.Tensor,
        torch.nn.Module,
        torch.nn.Sequential,
        torch.nn.parallel.DistributedDataParallel,
        torch.optim.Optimizer,
        torch.optim.SGD,
        torch.optim.AdamW,
        torch.optim.Adam,
        torch.amp.GradScaler,
        dataloader.DataLoader,
        dataloader._BaseDataLoaderIter,
        dataloader._MultiProcessingDataLoaderIter,
    ]


@contextmanager
def loop_hooks(apply: Apply | None = None, **plan: Any) -> Iterator[Any]:
    """Hooks of a trial with one change on; afterwards every function of torch is the original one."""
    import torch

    (
        torch.optim.SGD([torch.zeros(1)], lr=1.0),
        torch.optim.AdamW([torch.zeros(1)]),
    )  # torch wraps `step` itself
    before = [dict(vars(owner)) for owner in owners()]
    base = [{"name": "change"}] if apply else []
    made = LoopHooks(TrialPlan(folder="", base=base, **plan))
    with pytest.MonkeyPatch.context() as patch:
        change = SimpleNamespace(live=True, apply=lambda loop, options: apply and apply(loop))
        patch.setattr(active_changes, "load", lambda name: change)
        made.mode = Recorder()
        made.install()
        try:
            yield made
        finally:
            made.undo()
    assert made.result.left == []
    for owner, was in zip(owners(), before, strict=True):
        changed = [name for name, each in was.items() if vars(owner).get(name) is not each]
        assert (owner, changed, set(vars(owner)) - set(was)) == (owner, [], set())


def parts(rows: int = 24) -> Any:
    """Model, optimizer class and dataset, small."""
    import torch

    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(rows, 4), torch.randint(0, 2, (rows,)))
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)), data


def epoch(model: Any, optimizer: Any, loader: Any) -> list[Any]:
    """What a script does; the batches that it saw."""
    import torch

    seen = []
    for inputs, labels in loader:
        seen.append(inputs)
        optimizer.zero_grad()
        loss: Any = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
    return seen


def test_a_mode_is_told_of_everything_once_and_in_order() -> None:
    import torch

    with loop_hooks() as made:
        model, data = parts()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.optim.lr_scheduler.StepLR(optimizer, 1)
        epoch(model, optimizer, torch.utils.data.DataLoader(data, batch_size=12))
    assert made.mode.told == ["fetch", "forward", "backward", "step"] * 2
    assert (made.models, made.optimizers, len(made.loaders)) == ([model], [optimizer], 1)


def test_arguments_of_loaders_are_changed_and_those_of_the_script_remembered() -> None:
    import torch

    class Own(torch.utils.data.DataLoader):  # type: ignore[type-arg]
        def __init__(self, data: Any, *, size: int) -> None:
            super().__init__(data, size, shuffle=True)

    def apply(loop: Any) -> None:
        loop.loader(lambda call: call.arguments.update(batch_size=6))

    with loop_hooks(apply) as made:
        _, data = parts()
        loaders = [torch.utils.data.DataLoader(data, 12), Own(data, size=8)]
    assert [each.batch_size for each in loaders] == [6, 6]
    assert [(call.kind, call.arguments["batch_size"], call.index) for call in made.calls] == [
        ("DataLoader", 12, 0),
        ("DataLoader", 8, 1),
    ]
    assert made.calls[1].cls is Own
    assert torch.utils.data.DataLoader(data, 12).batch_size == 12


def test_datasets_are_wrapped_where_they_have_samples_by_number() -> None:
    import torch

    class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    def apply(loop: Any) -> None:
        loop.dataset(lambda dataset: [("wrapped", dataset)])

    with loop_hooks(apply):
        stream, table = Stream(), [1, 2]
        assert torch.utils.data.DataLoader(stream).dataset is stream
        assert torch.utils.data.DataLoader(table).dataset == [("wrapped", table)]  # type: ignore[arg-type]


def test_a_transform_and_a_loss_begin_no_step() -> None:
    """A dataset whose transforms are modules, read by a change before there is an optimizer."""
    import torch

    class Prepared(torch.utils.data.Dataset):  # type: ignore[type-arg]
        prepare = torch.nn.Sequential(torch.nn.ReLU())

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return self.prepare(torch.ones(4) * index), 1

    def apply(loop: Any) -> None:
        loop.dataset(lambda dataset: [dataset[index] for index in range(len(dataset))])

    with loop_hooks(apply) as made:
        begun: list[bool] = []
        made.mode.boundary = lambda *, ended, begins: begun.append(begins)
        loader = torch.utils.data.DataLoader(Prepared(), batch_size=2)
        torch.nn.ReLU()(torch.ones(1))
        assert begun == []
        model, _ = parts()
        epoch(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
        assert True in begun
    assert made.models == [model]


def test_a_loader_that_a_library_makes_again_is_changed_once() -> None:
    import torch

    def apply(loop: Any) -> None:
        loop.dataset(lambda dataset: [*dataset, "more"])

    library: dict[str, Any] = {"__name__": "accelerate.data_loader"}
    exec("def again(cls, dataset): return cls(dataset, batch_size=2)", library)
    with loop_hooks(apply) as made:
        loader: Any = torch.utils.data.DataLoader([1, 2, 3])  # type: ignore[arg-type]
        remade = library["again"](torch.utils.data.DataLoader, loader.dataset)
        other = library["again"](torch.utils.data.DataLoader, [1])
    assert loader.dataset == remade.dataset == [1, 2, 3, "more"]
    assert other.dataset == [1, "more"]
    assert len(made.calls) == 2


def test_a_librarys_trainer_is_remembered_and_given_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "pytorch_lightning" / "trainer"
    package.mkdir(parents=True)
    (package / "trainer.py").write_text(
        "class Trainer:\n    def __init__(self, *, max_steps): self.n = max_steps\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    made = ConstructorCalls(active_changes.ActiveChanges([], []), finds_sites=False)
    watching = [LibraryCalls(module, name, made) for module, name in LIBRARY_CLASSES]
    for watch in watching:
        watch.install()
    try:
        module = importlib.import_module("pytorch_lightning.trainer.trainer")
        assert module.Trainer(max_steps=5).n == 5
        wrapper = module.Trainer.__init__
    finally:
        for watch in watching:
            watch.remove()
        for name in [name for name in sys.modules if name.startswith("pytorch_lightning")]:
            del sys.modules[name]
    assert [(call.kind, call.arguments) for call in made.calls] == [("Trainer", {"max_steps": 5})]
    assert module.Trainer.__init__ is wrapper.__wrapped__
    assert not [each for each in sys.meta_path if each in watching]


def test_an_optimizer_is_changed_once_though_its_class_calls_its_parents() -> None:
    import torch

    calls: list[ConstructorCall] = []

    def apply(loop: Any) -> None:
        def rewrite(call: ConstructorCall) -> None:
            calls.append(call)
            call.arguments["rate"] = 0.25

        loop.optimizer(rewrite)
        loop.optimizers(lambda optimizer: calls.append(optimizer))

    with loop_hooks(apply) as made:

        class Own(torch.optim.SGD):
            def __init__(self, params: Any, rate: float, **rest: Any) -> None:
                super().__init__(params, lr=rate, **rest)

        model, _ = parts()
        optimizer = Own(model.parameters(), 0.5, momentum=0.9)
    assert calls == [ConstructorCall("Own", Own, calls[0].arguments), optimizer]
    assert made.calls[0].arguments["rate"] == 0.5
    assert made.calls[0].arguments["momentum"] == 0.9
    assert optimizer.param_groups[0]["lr"] == 0.25
    assert len(optimizer.param_groups[0]["params"]) == 4
    assert "step" not in vars(Own)


def test_a_step_is_replaced_and_counts_once_with_a_scheduler_and_a_scaler() -> None:
    import torch

    around: list[Any] = []

    def apply(loop: Any) -> None:
        def step(optimizer: Any, run: Callable[[], Any]) -> Any:
            around.append(optimizer)
            return None if len(around) == 2 else run()

        loop.step(step)

    with loop_hooks(apply) as made:
        model, data = parts()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        scaler = torch.amp.GradScaler("cpu")
        weights = []
        for inputs, _ in torch.utils.data.DataLoader(data, batch_size=8):
            optimizer.zero_grad()
            scaler.scale(model(inputs).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            weights.append(model[0].weight.detach().clone())
    assert around == [optimizer] * 3
    assert made.mode.told.count("step") == 3
    assert torch.equal(weights[0], weights[1]), "the second step was left out"
    assert not torch.equal(weights[1], weights[2])
    optimizer.step()  # the wrapper that the scheduler keeps does nothing any more
    assert len(around) == 3


def test_the_forward_part_holds_model_and_loss_and_ends_with_backward() -> None:
    import torch

    told: list[str] = []

    @contextmanager
    def context() -> Iterator[None]:
        told.append("enter")
        yield
        told.append("leave")

    with loop_hooks(lambda loop: loop.forward(context)) as made:
        model, _ = parts()
        with torch.no_grad():
            model(torch.zeros(1, 4))
        assert told == []
        output = model(torch.zeros(1, 4))
        torch.nn.CrossEntropyLoss()(output, torch.zeros(1, dtype=torch.long)).backward()
        assert told == ["enter", "leave"]
        with pytest.raises(RuntimeError):
            model(torch.zeros(1, 5))
        assert told == ["enter", "leave"] * 2
        torch.nn.CrossEntropyLoss()(output.detach(), torch.zeros(1, dtype=torch.long))
        assert not made.region.is_open, "a loss is no trained model"
        made.region.enter([context])
    assert told == ["enter", "leave"] * 3


def test_a_loss_is_known_as_it_was_before_the_script_scaled_it() -> None:
    import torch

    with loop_hooks() as made:
        made.mode.hooks = made
        scaler = torch.amp.GradScaler("cpu")
        losses: list[Any] = [torch.ones((), requires_grad=True) * 2 for _ in range(2)]
        scaler.scale(losses[0]).backward()
        losses[1].backward()
    assert made.mode.losses[0] is losses[0]
    assert made.mode.losses[1] is losses[1]
    assert made.scaled is None


def test_a_backward_pass_starts_from_what_a_change_gives() -> None:
    import torch

    with loop_hooks(lambda loop: loop.backward(lambda loss: loss * 3)):
        value: Any = torch.ones((), requires_grad=True)
        (value * 2).backward()
        torch.autograd.backward(tensors=value * 2)
    assert value.grad is not None
    assert value.grad.item() == 12.0


@pytest.mark.parametrize("validates_first", [False, True])
def test_batches_of_training_are_converted_and_no_others(validates_first: bool) -> None:
    import torch

    with loop_hooks(lambda loop: loop.batch(lambda batch: [batch[0] * 0, batch[1]])):
        model, data = parts()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        training = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
        validation = torch.utils.data.DataLoader(data, batch_size=8)

        def validate() -> bool:
            seen = []
            for inputs, _ in validation:  # gradients are enabled while it is fetched from
                with torch.no_grad():
                    model(inputs)
                seen.append(inputs)
            return any(bool(each.any()) for each in seen)

        if validates_first:
            assert validate()
        assert not any(bool(each.any()) for each in epoch(model, optimizer, training))
        assert validate()
        assert not any(bool(each.any()) for each in epoch(model, optimizer, training))


def test_arguments_of_zero_grad_are_changed_however_they_are_given() -> None:
    import torch

    with loop_hooks(lambda loop: loop.zero_grad(lambda arguments: arguments.update(set_to_none=True))):
        model, _ = parts()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for zero in (lambda: optimizer.zero_grad(False), lambda: model.zero_grad(set_to_none=False)):
            model(torch.ones(1, 4)).sum().backward()
            zero()
            assert all(each.grad is None for each in model.parameters())


def test_a_change_that_refuses_late_is_taken_off_and_told() -> None:
    import torch

    undone: list[int] = []

    def apply(loop: Any) -> None:
        def rewrite(call: ConstructorCall) -> None:
            call.arguments["batch_size"] = 1
            loop.refuse("this loader is special")

        loop.process(lambda: lambda: undone.append(1))
        loop.loader(rewrite)
        loop.forward(lambda: pytest.fail("it is off"))

    with loop_hooks(apply) as made:
        model, data = parts()
        assert torch.utils.data.DataLoader(data, batch_size=12).batch_size == 12
        model(torch.zeros(1, 4))
        assert undone == [1]
    assert made.refused == [{"name": "change", "why": "this loader is special"}]
    assert undone == [1]


def test_a_broken_change_does_not_break_the_script() -> None:
    undone: list[int] = []

    def apply(loop: Any) -> None:
        loop.process(lambda: lambda: undone.append(1))
        raise KeyError("value")

    with loop_hooks(apply) as made:
        assert undone == [1]
    assert made.refused == [{"name": "change", "why": "KeyError: 'value'"}]


def test_a_live_change_meets_what_is_there_and_is_taken_off() -> None:
    import torch

    def apply(loop: Any) -> None:
        def convert(model: Any) -> Callable[[], None]:
            model.mark = loop.device
            return lambda: delattr(model, "mark")

        loop.model(convert)

    with loop_hooks() as made, pytest.MonkeyPatch.context() as patch:
        model, _ = parts()
        model(torch.zeros(1, 4))
        live = SimpleNamespace(live=True, apply=lambda loop, options: apply(loop))
        patch.setattr(active_changes, "load", lambda name: live)
        handle = made.put_on([{"name": "mark"}])
        assert model.mark == "cpu"
        made.take_off(handle)
        assert not hasattr(model, "mark")
        live.live = False
        handle = made.put_on([{"name": "mark"}])
        assert handle == []


def test_inner_modules_cost_nothing_once_the_loop_is_known() -> None:
    import torch
    from torch._dynamo.utils import counters

    counters.clear()  # where something was compiled before, nothing is narrowed
    original = torch.nn.Module.__call__
    with loop_hooks(settle=2) as made:
        model, data = parts()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = torch.utils.data.DataLoader(data, batch_size=4)
        epoch(model, optimizer, loader)
        assert torch.nn.Module.__call__ is original
        made.mode.told.clear()
        epoch(model, optimizer, loader)
        assert made.mode.told.count("forward") == 6


def test_workers_run_what_a_change_says_first_and_none_is_left() -> None:
    import torch

    def apply(loop: Any) -> None:
        loop.loader(lambda call: call.arguments.update(num_workers=1, persistent_workers=True))
        loop.worker(_mark)

    with loop_hooks(apply) as made:
        _, data = parts()
        loader = torch.utils.data.DataLoader(data, batch_size=12, worker_init_fn=_own, collate_fn=_marked)
        assert [each.tolist() for each in loader] == [[1, 2]] * 2
        workers = next(iter(made._torch_hooks.iterators))._workers
        assert all(worker.is_alive() for worker in workers)
    assert not any(worker.is_alive() for worker in workers)


def _mark(worker: int) -> None:
    os.environ["MARK"] = "1"


def _own(worker: int) -> None:
    os.environ["MARK"] += " 2"


def _marked(rows: Any) -> Any:
    import torch

    return torch.tensor([int(word) for word in os.environ["MARK"].split()])


def test_the_start_of_an_epoch_is_known_at_its_first_step() -> None:
    import torch

    with loop_hooks() as made:
        model, data = parts()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = torch.utils.data.DataLoader(data, batch_size=12)
        epoch(model, optimizer, loader)
        made.mode.hooks = made
        epoch(model, optimizer, loader)
    assert made.mode.starts == [True, False, False], "begins, ends and begins, ends"


def test_ranks_that_a_script_starts_itself_are_noted() -> None:
    import torch

    several: Any = torch.multiprocessing
    module: Any = sys.modules["torch.multiprocessing.spawn"]
    original = module.start_processes
    with loop_hooks() as made:
        assert made.result.notes == []
        several.spawn(_nothing, nprocs=0)
    assert made.result.notes == [SPAWNS]
    assert module.start_processes is original


def _nothing(rank: int) -> None: ...


def test_a_forked_child_has_torchs_own_functions() -> None:
    import torch

    original = torch.nn.Module.__call__
    with loop_hooks() as made:
        child = os.fork()
        if child == 0:
            is_free = torch.nn.Module.__call__ is original and made.phases.is_closed
            os._exit(0 if is_free else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert torch.nn.Module.__call__ is not original


def test_a_mode_hears_of_clipping_and_of_gradients_being_zeroed() -> None:
    import torch
    from torch.nn.utils import clip_grad_norm_

    heard: list[Any] = []

    class Listener(Recorder):
        def zero_grad(self, owner: Any, set_to_none: bool = True) -> None:
            heard.append((type(owner).__name__, set_to_none))

        def clip(self, norm: Any) -> None:
            heard.append(norm if norm is None else float(norm))

    with loop_hooks() as made:
        made.mode = Listener()
        model, _ = parts()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(2, 4)).sum().backward()
        norm = clip_grad_norm_(model.parameters(), 0.1)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.1)
        optimizer.zero_grad(False)
        model.zero_grad()
    assert heard == [pytest.approx(float(norm)), None, ("SGD", False), ("Sequential", True)]
