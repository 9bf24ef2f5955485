"""The Python API: laptime.bench, laptime.compare, laptime.load."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from laptime.kit.registry import load as extension
from laptime.launch.worker_process import InProcessWorker, Worker
from laptime.measure.engine import Engine
from laptime.measure.protocol import Model
from laptime.records.comparison import Comparison
from laptime.records.event import Listener, ignore
from laptime.records.plan import BenchRequest, Origin, Variant
from laptime.records.run import Run
from laptime.store.lookup import load as load
from laptime.store.recording import recorded
from laptime.verbs import bench as _bench
from laptime.verbs.bench.case_worker import OpenSession
from laptime.verbs.bench.planning import AS_IT_IS
from laptime.verbs.compare import compare_runs
from laptime.verbs.history import recent


def bench(
    model: Any,
    inputs: Any = None,
    *,
    batch: int | Sequence[int] | None = None,
    device: str = "auto",
    dtype: str | Sequence[str] | None = None,
    threads: Sequence[int] = (),
    channels_last: bool = False,
    compile: str = "",
    train: str = "",
    precision: float | None = None,
    budget: float | None = None,
    preset: Literal["quick", "standard", "strict"] = "standard",
    regimes: Sequence[str] = (),
    rate: float | None = None,
    timeout: float = 120.0,
    backends: Sequence[str] = (),
    python: Mapping[str, str] | None = None,
    name: str = "",
    save: bool = False,
    on_event: Listener | None = None,
) -> Run:
    """Measure a model: a target in words (fresh processes), or an object of this process.

    Args:
        model: `"torchvision:resnet18"`, or any callable. An object is measured in this process, and the
            run says so; it is left as it was found.
        inputs: inputs of one call, any nested structure: one tensor, a tuple (positional arguments), a
            mapping (keyword arguments), a dataclass; or a function of the batch size that makes them. What is
            given is what is measured.
        batch: items in a call; one or several. None takes the inputs as they are. Another size repeats items
            from the front, or cuts them, along the dimension that layers of the model say is the batch, else
            along the first, where all inputs share it; where nothing tells, it is refused.
        dtype: float32, bfloat16, float16, one or several; None takes an object as it is.
        train: an optimizer (sgd, adamw) measures full training steps of a target in words.
        precision: half-width of the 95 % interval asked for, as a share.
        budget: seconds of measuring in all.
        backends: frameworks to run it with, `["torch", "onnxruntime"]`; none: the one a target implies, torch
            for an object.
        python: interpreters of backends' workers, for targets in words.
        save: keep the run under .laptime/.
        on_event: hears everything as it happens.

    Returns:
        The run; `laptime.analysis.summary.summarize(run.cases[0])` has its numbers.

    Raises:
        UsageError: the request is impossible.
    """
    sizes = [batch] if isinstance(batch, int) else None if batch is None else list(batch)
    called = getattr(model, "__name__", None) or type(model).__name__  # what an object is called
    target = model if isinstance(model, str) else str(called)
    if dtype is None:
        dtypes = ["float32" if isinstance(model, str) else AS_IT_IS]
    else:
        dtypes = [dtype] if isinstance(dtype, str) else list(dtype)
    origins: dict[str, Origin] = {
        key: "argument"
        for key, value in {"precision": precision, "budget": budget, "batch": batch}.items()
        if value is not None
    }
    request = BenchRequest(
        targets=[target],
        batch=sizes,
        device=device,
        dtype=dtypes,
        threads=list(threads),
        channels_last=channels_last,
        compile=compile,
        train=train,
        precision=precision,
        budget=budget,
        preset=preset,
        regimes=list(regimes),
        rate=rate,
        timeout=timeout,
        backends=list(backends),
        python=dict(python or {}),
        name=name,
        save=save,
        origins=origins,
    )
    session = None if isinstance(model, str) else _here(model, inputs)

    def measured(emit: Listener) -> Run:
        if session is None:
            return _bench.bench(request, emit)
        return _bench.bench(request, emit, open_session=session, in_memory=True)

    if not save:
        return measured(on_event or ignore)
    run, complaint = recorded(measured, *([on_event] if on_event else []))
    if complaint is not None:
        warnings.warn(str(complaint), stacklevel=2)
    return run


def _here(model: Any, inputs: Any) -> OpenSession:
    def open_session(variant: Variant) -> Worker:
        def open_model(variant: Variant) -> Model:
            opened: Model = extension("backends", variant.backend).open_object(model, inputs, variant)
            return opened

        return InProcessWorker(Engine(open_model))

    return open_session


def compare(a: Run | str, b: Run | str, *, force: bool = False) -> list[Comparison]:
    """Two runs (or what names them: id, file, "last") case by case; `a` is the baseline.

    Raises:
        UsageError: conditions differ and `force` is not set, or no case is shared.
    """
    left = load(a) if isinstance(a, str) else a
    right = load(b) if isinstance(b, str) else b
    return compare_runs(left, right, force, earlier=recent())
