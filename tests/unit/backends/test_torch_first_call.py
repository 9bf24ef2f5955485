"""The first call shows how all are made: in the mode that a plain call needs, with given inputs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import io
import itertools
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from multiprocessing.pool import ThreadPool
from queue import Queue
from random import Random
from threading import Lock, Thread
from typing import Any

import numpy as np
import pytest
from msgspec import structs

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from torch import nn  # noqa: E402

from fixtures import runs  # noqa: E402
from laptime.backends import null  # noqa: E402
from laptime.backends import torch as backend  # noqa: E402
from laptime.backends.torch import workload  # noqa: E402
from laptime.backends.torch.place import translate  # noqa: E402
from laptime.kit.errors import UsageError, UserCodeError  # noqa: E402
from laptime.measure import first_call  # noqa: E402
from laptime.measure.checks import finite  # noqa: E402
from laptime.measure.engine import Engine  # noqa: E402
from laptime.measure.protocol import Block, Close, Command, Facts, Failed, Load, Pass, Prepare, Prepared  # noqa: E402
from laptime.records.details import Outputs  # noqa: E402
from laptime.records.plan import Variant  # noqa: E402


class Session:
    """An object in the real engine."""

    def __init__(self, subject: Any, inputs: Any, *, on: Any = backend, **variant: Any) -> None:
        OPEN.append(self)
        self.engine = Engine(lambda each: on.open_object(subject, inputs, each))
        self.ask(Load(variant=Variant(target="model", **{"dtype": "auto", "device": "auto", **variant})))
        self.batch = self.engine._own_batch or 1
        (self.prepared,) = [m for m in self.ask(Prepare(batch=self.batch)) if isinstance(m, Prepared)]
        self.told = self.prepared.inputs

    def ask(self, command: Command) -> list[Any]:
        answer = list(self.engine.answer(command))
        failed = [message.failure for message in answer if isinstance(message, Failed)]
        assert not failed, failed
        return answer

    def call(self) -> Any:
        return self.engine._workload(self.batch).call()

    def outputs(self) -> Outputs:
        (facts,) = [m for m in self.ask(Pass(kind="outputs", batch=self.batch)) if isinstance(m, Facts)]
        assert facts.details.outputs is not None
        return facts.details.outputs


OPEN: list[Session] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().engine.close()


class Jacobian(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return torch.autograd.functional.jacobian(self.net, x)


class Forces(nn.Module):
    def __init__(self, mode: Any) -> None:
        super().__init__()
        self.energy, self.mode = nn.Linear(4, 1), mode

    def forward(self, x: Any) -> Any:
        with self.mode():
            x = x.detach().clone().requires_grad_(True)
            return -torch.autograd.grad(self.energy(x).sum(), x)[0]


class Zeroed(nn.Module):
    """Silently another answer without gradients, as some libraries' laplacians have it."""

    def forward(self, x: Any) -> Any:
        x = x.detach().clone().requires_grad_(True)
        y = (x**2).sum()
        return torch.autograd.grad(y, x)[0] if y.requires_grad else torch.zeros_like(x)


class Logged(nn.Module):
    """A Jacobian that its output shows hardly (share) or not at all (0)."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.net, self.share = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3)), share

    def forward(self, x: Any) -> Any:
        self.last = torch.autograd.functional.jacobian(self.net, x)
        return self.net(x) + self.share * self.last.mean()


class Curvature(nn.Module):
    def __init__(self, hessian: Any) -> None:
        super().__init__()
        self.net, self.hessian = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), hessian

    def forward(self, x: Any) -> Any:
        return self.hessian(lambda y: self.net(y).sum(), x)


@pytest.mark.parametrize(
    ("model", "mode"),
    [
        (Jacobian(), "no_grad"),
        (Logged(1e-5), "no_grad"),
        (Logged(0), "no_grad"),
        (Curvature(torch.autograd.functional.hessian), "no_grad"),
        (Curvature(lambda f, x: torch.func.hessian(f)(x)), ""),
        (Forces(torch.enable_grad), "no_grad"),
        (Forces(nullcontext), "grad"),
        (Zeroed(), "grad"),
        (nn.Linear(4, 3), ""),
        (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), ""),
        (nn.Sequential(nn.Unflatten(0, (2, 2)), nn.Flatten()).eval(), ""),
    ],
)
def test_the_output_is_that_of_a_plain_call(model: Any, mode: str) -> None:
    is_single = isinstance(model, Jacobian | Logged | Curvature)
    inputs = torch.randn(4) if is_single else torch.randn(4, 4)
    session = Session(model, inputs)
    assert session.told.get("grad", "") == mode
    if not any(isinstance(part, nn.Dropout) for part in model.modules()):
        with torch.inference_mode(False):
            assert workload.alike(session.call(), model(inputs))


def test_an_option_sets_the_mode_and_a_wrong_one_is_refused() -> None:
    session = Session(Jacobian(), torch.randn(4), options={"grad": "inference"})
    assert not session.call().any()
    assert "grad" not in session.told
    with pytest.raises(UsageError, match="sideways"):
        backend.open_object(
            nn.Linear(1, 1), torch.ones(1, 1), Variant(target="m", options={"mode": "sideways"})
        )


def test_a_model_that_fails_in_every_mode_fails_with_its_own_error() -> None:
    engine = Engine(lambda variant: backend.open_object(nn.Linear(3, 1), torch.ones(2, 4), variant))
    list(engine.answer(Load(variant=Variant(target="model"))))
    *_, last = engine.answer(Prepare(batch=2))
    engine.close()  # else inference mode stays on for the tests behind it
    assert isinstance(last, Failed)
    assert "be multiplied" in last.failure.why


def test_a_plain_call_keeps_no_activations_of_a_model_that_does_not_differentiate() -> None:
    import weakref

    class Watched(nn.Module):
        def forward(self, x: Any) -> Any:
            inner = x * 2
            alive.append(weakref.ref(inner))
            y = inner.exp()
            if y.requires_grad:
                del inner
                kept.append(alive[-1]() is not None)
            return y

    alive: list[Any] = []
    kept: list[bool] = []
    Session(Watched(), torch.ones(3, requires_grad=True))
    assert kept == [False]  # one call with gradients on


class Doubles(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.mul_(2.0).sum()


class Cache:
    """Keys and values of earlier tokens, as language models take them; it knows its owner."""

    def __init__(self) -> None:
        self.keys = torch.ones(2, 3)
        self.owner = self

    def extended(self) -> Any:
        self.keys = torch.cat([self.keys, self.keys[:1]])
        return self.keys.sum()


@dataclasses.dataclass
class Batch:
    x: Any


@dataclasses.dataclass(slots=True)
class Slots:
    items: list[Any]


class Guarded:
    """An object of a service: it cannot be copied whole, because of its lock."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.waiting: Queue[float] = Queue()
        self.waiting.put(7.0)

    def take(self) -> float:
        with self.lock:
            return float(self.waiting.get(block=False))


@pytest.mark.parametrize(
    ("model", "inputs", "right"),
    [
        (lambda cache: cache.extended(), (Cache(),), 9.0),
        (lambda batch: Doubles()(batch.x), (Batch(torch.ones(4)),), 8.0),
        (lambda x: Doubles()(x), torch.ones(4), 8.0),
        (lambda batch: batch.pop("x") * 1, ({"x": torch.tensor(3.0)},), 3.0),
        (lambda x: x.resize_(1).sum(), torch.ones(4), 1.0),
        (lambda x, seen: (seen.append(1), x.sum() + len(seen))[1], (torch.ones(4), []), 5.0),
        (lambda batch: batch["a"][0].x["b"].mul_(2.0).sum(), ({"a": [Batch({"b": torch.ones(4)})]},), 8.0),
        (lambda slots: slots.items.pop(), (Slots([7.0]),), 7.0),
        (lambda queue: queue.popleft(), (deque([7.0, 8.0]),), 7.0),
        (next, (iter([7.0, 8.0]),), 7.0),
        (lambda file: len(file.read()), (io.BytesIO(b"1234567"),), 7.0),
        (lambda held: held.pop(), ({7.0},), 7.0),
        (lambda guarded: guarded.take(), (Guarded(),), 7.0),
        (lambda dice: dice.randrange(100), (Random(7),), float(Random(7).randrange(100))),
        (lambda x: float(x.mul_(2).to_dense().sum()), (torch.eye(3).to_sparse(),), 6.0),
    ],
)
@pytest.mark.parametrize("on", [backend, null])
def test_inputs_that_a_call_changes_are_laid_anew(model: Any, inputs: Any, right: float, on: Any) -> None:
    given = first_call.copy_inputs(inputs)
    session = Session(model, given, on=on)
    assert session.told["changed"]
    session.ask(Block(batch=session.batch, regime="isolated", seconds=0.002, min_calls=5))
    session.ask(Block(batch=session.batch, regime="saturated", seconds=0.002, min_calls=5))
    assert float(session.call()) == right
    work: Any = session.engine._workload(session.batch)
    assert float(work.apart[0]() or session.call()) == right


@pytest.mark.parametrize("inputs", [(torch.full((2, 4), torch.nan),), (torch.ones(2, 4), Cache(), Lock())])
def test_inputs_that_stay_are_not_copied(inputs: Any) -> None:
    session = Session(lambda x, *more: x * 2, inputs)
    assert "changed" not in session.told
    work: Any = session.engine._workload(2)
    assert work.apart is None


@pytest.mark.parametrize("on", [backend, null])
def test_a_generator_among_the_inputs_which_one_call_uses_up_is_refused(on: Any) -> None:
    inputs = ({"parts": (torch.ones(2) for _ in range(9))},)
    engine = Engine(lambda each: on.open_object(lambda x: sum(map(torch.sum, x["parts"])), inputs, each))
    list(engine.answer(Load(variant=Variant(target="model", dtype="auto", device="auto"))))
    *_, last = engine.answer(Prepare(batch=1))
    engine.close()
    assert isinstance(last, Failed)
    assert "one call" in last.failure.what
    assert "give a list" in last.failure.next


def _generator(x: Any) -> Any:
    yield from (x, x + 1)


async def _coroutine(x: Any) -> Any:
    await asyncio.sleep(0)
    return x + 1


async def _stream(x: Any) -> Any:
    for number in range(3):
        yield x + number


def _nested(x: Any) -> Any:
    return {"tokens": (_generator(x) for _ in range(2)), "x": x}


@dataclasses.dataclass(frozen=True)
class Answer:
    parts: Any


def _object(x: Any) -> Any:
    cache = Cache()  # knows itself
    cache.keys = [(_generator(x),)]
    return cache


class Stream:
    """As clients of servers have it: what comes is known when it is asked for."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __aiter__(self) -> Any:
        return _stream(self.x)


def _started(x: Any) -> Any:
    thread = Thread(target=torch.exp, args=(x,))
    thread.start()
    return thread


POOL = concurrent.futures.ThreadPoolExecutor(1)
SECOND_POOL = ThreadPool(1)


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (_generator, "[2 x float32 (1)]"),
        (_coroutine, "float32 (1)"),
        (_stream, "[3 x float32 (1)]"),
        (_nested, "{tokens: [2 x [2 x float32 (1)]], x: float32 (1)}"),
        (lambda x: {"a": [{"b": (x, _generator(x))}]}, "{a: [{b: [float32 (1), [2 x float32 (1)]]}]}"),
        (lambda x: Answer(_generator(x)), "Answer(parts: [2 x float32 (1)])"),
        (_object, "Cache"),
        (lambda x: SECOND_POOL.apply_async(torch.exp, (x,)), "float32 (1)"),
        (_started, "NoneType"),
        (lambda x: POOL.submit(lambda: x + 1), "float32 (1)"),
        (lambda x: map(torch.exp, [x, x]), "[2 x float32 (1)]"),
        (lambda x: deque([POOL.submit(torch.exp, x)]), "[float32 (1)]"),
        (lambda x: {POOL.submit(torch.exp, x)}, "[float32 (1)]"),
        (lambda x: {"a": POOL.submit(torch.exp, x)}.values(), "[float32 (1)]"),
        (lambda x: Stream(x), "[3 x float32 (1)]"),
        (lambda x: (x, torch.jit.fork(torch.exp, x)), "[2 x float32 (1)]"),
    ],
)
def test_what_is_lazy_is_computed_within_the_call(call: Any, shape: str) -> None:
    session = Session(call, torch.ones(1))
    assert session.told["lazy"]
    assert session.outputs().shape == shape


def test_what_is_there_is_not_lazy() -> None:
    outputs = (io.BytesIO(b"an image"), deque([1]), {2}, {"a": 3}.values(), range(4), Cache(), Lock())
    assert [first_call.kind(output) for output in outputs] == [""] * len(outputs)


def test_what_an_object_holds_is_computed_and_an_iterator_without_an_end_is_refused() -> None:
    assert [len(part) for part in first_call.whole(_object(torch.ones(1))).keys[0]] == [2]
    thousands = first_call.whole([*range(first_call.LOOKED), *map(_generator, range(2))])
    assert len(thousands) == first_call.LOOKED + 2  # no part is left out
    with pytest.raises(UserCodeError, match="without an"):
        first_call.whole({"ids": itertools.count()})


def test_null_backend_computes_what_is_lazy_too() -> None:
    made: list[int] = []
    session = Session(lambda: (made.append(each) for each in range(3)), None, on=null, device="cpu")
    made.clear()
    session.call()
    assert made == [0, 1, 2]


def test_training_mode_is_kept_as_given_and_eval_is_told_beside_it() -> None:
    class Mode(nn.Module):
        def forward(self, x: Any) -> Any:
            for _ in range(40 if self.training else 10):
                x = torch.exp(-x)
            return x

    norm = nn.BatchNorm1d(4)
    model = nn.Sequential(norm, Mode())
    session = Session(model, torch.randn(8, 4))
    share = session.outputs().in_eval
    assert share is not None
    assert share < 0.8
    assert model.training
    session.ask(Close())
    assert norm.num_batches_tracked == 0  # the user's statistics are those from before
    assert Session(model.eval(), torch.randn(8, 4)).outputs().in_eval is None
    assert Session(model.train(), torch.randn(8, 4), options={"mode": "eval"}).outputs().in_eval is None


GLOBAL = nn.Linear(4, 4)


class Held:
    def __init__(self, models: Any) -> None:
        self.models = models

    def run(self, x: Any) -> Any:
        return self.models["a"][0](x)


@pytest.mark.parametrize(
    "made",
    [
        lambda model: lambda x: GLOBAL(x),
        lambda model: Held({"a": [model]}).run,
        lambda model: Held({"a": (Held({"a": [model]}).run,)}).run,
        lambda model: partial(partial(lambda models, x: models[0](x), [model])),
        lambda model: _training_inside(model),
    ],
)
def test_training_mode_is_seen_wherever_a_callable_holds_its_model(made: Any) -> None:
    session = Session(made(GLOBAL.train()), torch.randn(8, 4))
    assert session.outputs().in_eval is not None
    session.ask(Close())
    assert GLOBAL.training


def _training_inside(model: Any) -> Any:
    outer = nn.Sequential(nn.Sequential(model)).eval()
    model.train()
    return outer


def test_threads_that_a_model_sets_itself_are_seen() -> None:
    before = torch.get_num_threads()

    def greedy(x: Any) -> Any:
        torch.set_num_threads(3)
        return x + 1

    def briefly(x: Any) -> Any:
        torch.set_num_threads(3)
        y = x + 1
        torch.set_num_threads(1)
        return y

    original = torch.set_num_threads
    try:
        assert Session(greedy, torch.ones(1), threads=1).outputs().threads == 3
        assert Session(lambda x: x + 1, torch.ones(1), threads=1).outputs().threads == 1
        assert Session(briefly, torch.ones(1), threads=1).outputs().threads == 3
        assert torch.set_num_threads is original
    finally:
        torch.set_num_threads(before)


def test_a_batch_norm_that_needs_more_than_one_item_names_the_mode() -> None:
    norm = nn.BatchNorm1d(4)
    with pytest.raises(ValueError, match="1 value") as caught:
        norm(torch.ones(1, 4))
    assert translate(caught.value, doing="model.py:build failed").next.startswith("--option mode=eval")
    assert "mode=" not in translate(ValueError("another"), doing="model.py:build failed").next


@pytest.mark.parametrize("on", [backend, null])
def test_nan_that_comes_late_is_seen_and_said_to_be_late(on: Any) -> None:
    class Grows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.state = torch.ones(3)

        def forward(self, x: Any) -> Any:
            self.state = self.state * 1e9 + x
            return {"y": self.state.sum()}

    grows = Grows()
    session = Session(grows if on is backend else lambda x: grows(x), torch.zeros(3), on=on)
    assert session.told["finite"] is True
    session.ask(Block(batch=session.batch, regime="isolated", seconds=0.001, min_calls=9))
    found = session.outputs()
    assert found.finite is False
    case = runs.case(runs.timings(0.01))
    details = structs.replace(case.details, outputs=found, inputs=session.told)
    told = finite.check(structs.replace(case, details=details), runs.environment(), {})
    assert told is not None
    assert "finite numbers" in told.sentence


def test_a_number_that_is_no_tensor_is_looked_at_too() -> None:
    assert (
        Session(lambda x: {"loss": x.sum().item() / 0.5}, torch.full((1,), torch.inf)).outputs().finite
        is False
    )


def test_finite_looks_into_every_float() -> None:
    assert first_call.finite({"a": torch.ones(2), "b": [torch.tensor([1.0, float("nan")])]}) is False
    assert first_call.finite((torch.ones(2, dtype=torch.float16), torch.tensor([1]))) is True
    assert first_call.finite([np.array([1.0, np.inf]), 1]) is False
    assert first_call.finite((1.0, float("nan"))) is False
    assert first_call.finite(torch.eye(2).to_sparse()) is None
    assert first_call.finite([Answer({"a": float("nan")}), Cache()]) is False
    assert [first_call.finite(each) for each in (torch.tensor([1, 2]), np.arange(3), "nothing", None)] == [
        None
    ] * 4
