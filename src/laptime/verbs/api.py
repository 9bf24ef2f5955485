"""The Python API: laptime.bench, laptime.compare, laptime.load, laptime.open_run."""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from laptime.kit.errors import UsageError, UserCodeError
from laptime.kit.options import make_request, takes
from laptime.kit.registry import load as extension
from laptime.launch.worker import InProcessWorker, Worker
from laptime.measure.engine import Engine
from laptime.measure.protocol import Model
from laptime.records.event import Listener
from laptime.records.plan import BenchRequest, Variant
from laptime.records.run import Run as AnyRun
from laptime.store import lookup
from laptime.verbs import bench as _bench
from laptime.verbs.bench.case_worker import OpenSession
from laptime.verbs.bench.planning import AS_IT_IS
from laptime.verbs.compare import compare_runs
from laptime.verbs.history import recent
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.public_run import Comparisons, Run, keep


@takes(BenchRequest, save=False, dtype=None)
def bench(model: Any, inputs: Any = None, *, on_event: Listener | None = None, **options: Any) -> Run:
    """Measure a model: a target in words (fresh processes), or an object of this process.

    Args:
        model: `"torchvision:resnet18"`, or any callable. An object is measured in this process, and the
            run says so; it is left as it was found. A list of them is measured in turns and compared.
        inputs: inputs of one call, any nested structure: one tensor, a tuple (positional arguments), a
            mapping (keyword arguments), a dataclass; or a function of the batch size that makes them. What is
            given is what is measured.
        on_event: hears everything as it happens.
        options: as those of `laptime bench`, with values or as they are typed there: `budget=60` or
            `budget="1m"`, `batch=8`, `batch=[1, 8]` or `batch="auto"`. Another batch than the inputs' repeats
            items from the front, or cuts them, along the dimension that layers of the model say is the
            batch, else along the first, if all inputs share it; if nothing tells, it is refused.
            An object keeps its dtype unless `dtype` says one. `save=True` keeps the run under .laptime/.

    Returns:
        The run; `run.latency` and `run.throughput` are its headline.

    Raises:
        UsageError: the request is impossible."""
    objects = {} if isinstance(model, str) else _name_all(model if isinstance(model, list) else [model])
    own = {"targets": [*objects] or [model], "save": False, "dtype": [AS_IT_IS if objects else "float32"]}
    request = make_request(BenchRequest, options, "laptime.bench", **own)
    session = _here(objects, inputs) if objects else None

    def measure(emit: Listener) -> AnyRun:
        if session is None:
            return _bench.bench(request, emit)
        return _bench.bench(request, emit, open_session=session, in_memory=True)

    return Run.of(keep(measure, on_event, save=request.save))


def bench_call(call: Callable[[], Any], *, budget: float, name: str = "", save: bool = False) -> Run:
    """The run of a call of a notebook or a test: it may do anything (train, too), its result is thrown away.

    Args:
        budget: seconds of measuring.
        save: keep the run under .laptime/."""
    return bench(add_wait(call), budget=budget, backends=["null"], regimes=["isolated"], name=name, save=save)


def add_wait(call: Callable[[], Any]) -> Callable[[], Any]:
    """The call with a wait for the GPU behind it, if the user's own PyTorch has begun to use one."""
    torch = sys.modules.get("torch")
    if torch is None or not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return call

    def call_and_wait() -> Any:
        result = call()
        torch.cuda.synchronize()
        return result

    call_and_wait.__name__ = getattr(call, "__name__", type(call).__name__)
    return call_and_wait


def open_run(name: str) -> Run:
    """Open a stored run by id, part of one, its --name, file or "last".
    Raises UsageError: there is no such run, or its file is damaged."""
    return Run.of(lookup.load(name))


@takes(LoadRequest, save=False)
def load(target: str, *, on_event: Listener | None = None, **options: Any) -> Run:
    """Put load on an address, or on a target behind a queue: `laptime.load(url, rates=[10, 20])`. The name of
    a stored run alone opens it, as before `open_run`, and warns. Raises UsageError: no answer."""
    if not options and lookup.path_of(target) is not None:
        warnings.warn("laptime.load(NAME) is laptime.open_run(NAME)", DeprecationWarning, stacklevel=2)
        return open_run(target)
    from laptime.verbs.load.run import load as verb  # its senders, which bench does without

    request = make_request(LoadRequest, options, "laptime.load", target=target, save=False)
    return Run.of(keep(lambda emit: verb(request, emit), on_event, save=request.save))


def _name_all(objects: Sequence[Any]) -> dict[str, Any]:
    """Objects by what they are called; those of one name are numbered."""
    named: dict[str, Any] = {}
    for each in objects:
        called = str(getattr(each, "__name__", None) or type(each).__name__)
        alike = sum(name.partition(" ")[0] == called for name in named)
        named[f"{called} {alike + 1}" if alike else called] = each
    return named


def _here(objects: Mapping[str, Any], inputs: Any) -> OpenSession:
    def open_session(variant: Variant) -> Worker:
        def open_model(variant: Variant) -> Model:
            backend = extension("backends", variant.backend)
            opened: Model = backend.open_object(objects[variant.target], inputs, variant)
            return opened

        return InProcessWorker(Engine(open_model))

    return open_session


@takes(BenchRequest, save=False, dtype=None)
def compare(a: Any, b: Any, inputs: Any = None, *, force: bool = False, **options: Any) -> Comparisons:
    """Two runs case by case, or two models measured now, in turns; `a` is the baseline.

    Args:
        a, b: runs (or what names them: id, file, "last"), or two callables of this process.
        inputs: models only: inputs of one call of either, as for `bench`.
        force: runs only: compare them although their conditions differ.
        options: models only: whatever `bench` takes.

    Raises:
        UsageError: conditions differ and `force` is not set, no case is shared, one is a run and the other
            a model, or too little was measured. UserCodeError: a model fails."""
    models = [side for side in (a, b) if not isinstance(side, AnyRun | str)]
    if len(models) == 1:
        raise UsageError(
            f"a run cannot be compared with {type(models[0]).__name__!r}",
            why="both sides are runs (or their names), or both are models of this process",
            next="laptime.compare(a, b) with two models, or with two runs of laptime.bench",
        )
    if models:
        run = bench([a, b], inputs, **options)
        if run.comparisons:
            return Comparisons(run.comparisons)
        if failure := next((case.failure for case in run.cases if case.failure is not None), None):
            raise UserCodeError(failure.what, why=failure.why, next=failure.next)
        why = "too few rounds fit into the budget"
        raise UsageError("the two models were not compared", why=why, next="a longer one: budget=60")
    if inputs is not None or options:
        raise UsageError(
            f"stored runs are compared as they are, without {next(iter(options), 'inputs')}",
            why="inputs and options of bench say how models are measured",
            next="laptime.compare(a, b) with two models",
        )
    left, right = (open_run(side) if isinstance(side, str) else side for side in (a, b))
    return Comparisons(compare_runs(left, right, force, earlier=recent()))
