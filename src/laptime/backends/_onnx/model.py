"""A model file with a runtime around it, as `measure/protocol.py` asks: ONNX Runtime and OpenVINO alike."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from laptime.backends._onnx import inputs as arrays
from laptime.backends._onnx import source as sources
from laptime.backends._onnx.inputs import Array, Input
from laptime.backends._onnx.source import Source
from laptime.backends._shared import BoundWorkload, ByBatch, call_error, no_batch, no_memory
from laptime.kit.errors import LaptimeError, UsageError
from laptime.measure import recorded_calls
from laptime.measure.metrics import BUFFERS, FLOPS, MACS, PARAMETERS, TRAINABLE
from laptime.measure.protocol import Loadable
from laptime.measure.recorded_calls import RecordedCall, RecordedCalls
from laptime.records.plan import Variant
from laptime.records.series import Series

_METRICS = {each.tag: each for each in (PARAMETERS, TRAINABLE, BUFFERS, MACS, FLOPS)}
_MEMORY = (
    "bad_alloc",
    "bad allocation",
    "out of memory",
    "ailed to allocate memory",
    "annot allocate memory",
)
Sizes = Mapping[str, tuple[int, ...]]


@dataclass(kw_only=True, slots=True)
class Bound(BoundWorkload):
    """Inputs bound to a loaded model: a workload, and a way to see what comes out."""

    feeds: Mapping[str, Array]  # inputs by name
    # runs once with other inputs of the same shapes and returns the outputs
    run: Callable[[Mapping[str, Array]], list[Array]]
    # seconds of compiling, once it was called; None if nothing is compiled by shape
    compiled: Callable[[], float | None] = lambda: None

    def results(self) -> list[Array]:
        return self.run(self.feeds)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(array.shape for array in self.feeds.values())


class Runtime(Loadable, Protocol):
    """A model file loaded by one framework."""

    def inputs(self) -> list[Input]:
        """The inputs that it takes."""

    def outputs(self) -> list[str]:
        """Names of what it gives; "" if one has none."""

    def bind(self, feeds: Mapping[str, Array]) -> Bound:
        """The model with these inputs. Calls nothing yet."""

    def count(self, sizes: Sizes) -> tuple[dict[str, float], dict[str, Any]]:
        """Values by tag of a metric for inputs of these shapes, and the receipt."""


class FileModel(ByBatch[Bound]):
    """A loaded model file. start: loads a file. given: inputs of the caller's, in the order of the model's;
    None takes the sample's, or random ones."""

    def __init__(
        self,
        variant: Variant,
        source: Source,
        start: Callable[[Source], Runtime],
        *,
        given: Sequence[Array] | None = None,
    ) -> None:
        super().__init__()
        self._variant = variant
        self._start = start
        self._source = source if given is None else _with(source, list(given))
        self._runtime = runtime = start(source)
        self.devices, self.libraries, self.knobs = runtime.devices, runtime.libraries, runtime.knobs
        self.takes, self.gives = runtime.inputs, runtime.outputs
        self._shapes: dict[int, str] = {}
        # Models that can do one batch size only are exported for each that is asked for.
        self._others: dict[int, tuple[Source, Runtime]] = {}
        self._ready: dict[tuple[Any, ...], Bound] = {}

    def _bind(self, batch: int) -> Bound:
        source, runtime = self._at(batch)
        feeds = self._feeds(source, runtime, batch)
        self._shapes[batch] = ", ".join(f"{name}: {arrays.words(array)}" for name, array in feeds.items())
        bound = runtime.bind(feeds)
        bound.batch = batch
        return bound

    def own_batch(self) -> int | None:
        """Items in the inputs as they were given, or that the file is made for; None if nothing tells."""
        if self._source.inputs is not None:
            return self._source.own
        leading = [each.dims[0] for each in self._runtime.inputs() if each.dims]
        return 1 if any(isinstance(size, str) for size in leading) else min(map(int, leading), default=1)

    def inputs_of(self, batch: int) -> dict[str, Any]:
        self.workload(batch)
        origin = self._source.facts.get("origin", "known")
        is_given = origin == "given" and self._source.own is not None
        return {
            "shapes": self._shapes[batch],
            "origin": origin,
            "batch_is": self._source.batch_is or "the first dimension of every input",
            **({"resized": True} if is_given and batch != self._source.own else {}),
        }

    def _at(self, batch: int) -> tuple[Source, Runtime]:
        if self._source.batch in (None, batch):
            return self._source, self._runtime
        if batch not in self._others:
            source = sources.find(self._variant, batch=batch)
            self._others[batch] = source, self._start(source)
        return self._others[batch]

    def _sizes(self, runtime: Runtime, batch: int) -> dict[str, tuple[int, ...]]:
        given = self._variant.options.get("shape", {})
        return arrays.sizes(runtime.inputs(), batch, given, target=self._variant.target)

    def _feeds(self, source: Source, runtime: Runtime, batch: int) -> dict[str, Array]:
        """Inputs by name: the sample's with this batch, else random ones from the seed."""
        takes = runtime.inputs()
        if source.inputs is not None:
            if source.traced is None and batch != 1:
                raise no_batch(batch, source.batch_is, "pass inputs of this batch size")
            rebatched = arrays.rebatch(source.inputs, source.traced, batch)
            return _name_feeds(takes, rebatched)
        generator = np.random.default_rng(self._variant.seed)
        sizes = self._sizes(runtime, batch)
        return {taken.name: arrays.random(taken, sizes[taken.name], generator) for taken in takes}

    def facts(self) -> dict[str, Any]:
        source = self._source
        facts = dict(source.facts)
        origin = facts.pop("origin", "known")
        takes = self._runtime.inputs()
        result = {
            "target": self._variant.target,
            "model": source.path.name,
            **facts,
            **self._runtime.facts(),
            "inputs": {
                "origin": origin,
                "batch": self.own_batch(),
                "batch_is": source.batch_is,
                "shapes": ", ".join(f"{taken.name}: {taken.dtype} {taken.words}" for taken in takes),
            },
        }
        if source.inputs is None:
            result["inputs"]["values"] = "random: floats from N(0, 1), whole numbers 0 and 1"
        result.setdefault("dtypes", dict(Counter(taken.dtype for taken in takes)))
        return result

    def exported(self) -> float | None:
        """Seconds of exporting, or of finding the export; None for a file of the user's."""
        return self._source.seconds

    def compile_seconds(self, batch: int) -> float | None:
        """Seconds that the runtime took to compile the model for this batch size, in its first call."""
        return self.workload(batch).compiled()

    def count(self, batch: int) -> tuple[list[Series], dict[str, Any]]:
        """Parameters, MACs and FLOPs: as PyTorch counted them before the export, else those of the graph."""
        source, runtime = self._at(batch)
        if source.counts is not None and source.traced:
            times, probe = batch / source.traced, "flop_counter"
            scaled = {MACS.tag: times, FLOPS.tag: times}
            values = {tag: n * scaled.get(tag, 1.0) for tag, n in source.counts["series"].items()}
            receipt = {**source.counts["receipt"], "batch": batch}
            receipt["counted"] = {of: n * times for of, n in receipt.get("counted", {}).items()}
            receipt["of"] = f"what PyTorch counted before the export at batch {source.traced}, x {times:g}"
        else:
            values, receipt = runtime.count(self._sizes(runtime, batch))
            receipt, probe = {**receipt, "batch": batch}, "graph"
        series = [Series(metric=_METRICS[tag], samples=[float(n)], probe=probe) for tag, n in values.items()]
        return series, receipt

    def check_outputs(self, batch: int) -> dict[str, Any]:
        """Calls once: finite or not, what comes out in words, and for exports how it agrees with PyTorch."""
        source, _ = self._at(batch)
        outputs = self.workload(batch).results()
        floats = [array for array in outputs if array.dtype.kind == "f"]
        facts: dict[str, Any] = {
            "finite": all(bool(np.isfinite(array).all()) for array in floats) if floats else None,
            "shape": ", ".join(arrays.words(array) for array in outputs),
        }
        if (recorded := _find_calls(source, batch)) is not None:
            found = recorded_calls.compare(
                partial(self._run, batch), recorded, against="the original", dtype=self._variant.dtype
            )
            facts["against_torch"] = msgspec.to_builtins(found)
        return facts

    def input_arrays(self, batch: int) -> list[Array]:
        return list(self.workload(batch).feeds.values())

    def outputs(self, inputs: list[Array]) -> list[Array]:
        return self._run(_leading(inputs) or 1, inputs)

    def _run(self, batch: int, inputs: list[Array]) -> list[Array]:
        """The outputs for these inputs, of the model for this batch size; compiled once for their shapes."""
        _, runtime = self._at(batch)
        feeds = _name_feeds(runtime.inputs(), inputs)
        key = (id(runtime), *(array.shape for array in feeds.values()))
        if key not in self._ready:
            work = self._workloads.get(batch)
            is_ready = work is not None and work.shapes == key[1:]
            self._ready[key] = work if work is not None and is_ready else runtime.bind(feeds)
        outputs = self._ready[key].run(feeds)
        return [array.astype(np.float32) if array.dtype == np.float16 else array for array in outputs]

    def explain(self, error: BaseException, batch: int) -> LaptimeError:
        return explain(error, f"{self._variant.target} failed at batch {batch}")

    def close(self) -> None:
        super().close()
        self._others.clear()
        self._ready.clear()


def in_memory(variant: Variant, name: str, start: Callable[[Source], Runtime], inputs: Any) -> FileModel:
    """A model that a framework has loaded already; `inputs`: one array, or all by name or in its order."""
    if isinstance(inputs, np.ndarray):
        inputs = [inputs]
    elif isinstance(inputs, Mapping):
        inputs = list(inputs.values())
    return FileModel(variant, Source(path=Path(name), facts={"source": "in memory"}), start, given=inputs)


def explain(error: BaseException, what: str) -> LaptimeError:
    """OutOfMemory for exhausted memory, UserCodeError for anything else that a runtime raised."""
    if isinstance(error, LaptimeError):
        return error
    text = first_line(error)
    if isinstance(error, MemoryError) or any(word in str(error) for word in _MEMORY):
        return no_memory(what, text)
    return call_error(what, error, text, "check the model and its inputs")


def first_line(error: BaseException) -> str:
    """The first line that says something; runtimes begin with where in their source they are."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    return (said or lines or [""])[0][:300] or type(error).__name__


def _find_calls(source: Source, batch: int) -> RecordedCalls | None:
    """PyTorch's calls that this file can repeat, and the first one with as many items as this batch has."""
    if source.recorded is None:
        return None
    calls = [call for call in source.recorded.calls if source.batch in (None, call.batch)]
    if source.traced is not None and batch not in {call.batch for call in calls}:
        first = source.recorded.calls[0]
        sides = (arrays.rebatch(side, source.traced, batch) for side in (first.inputs, first.outputs))
        calls.append(RecordedCall(batch, *sides))
    return replace(source.recorded, calls=calls)


def _leading(given: Sequence[Array]) -> int | None:
    """The first size that all arrays share; None if they share none."""
    lengths = {array.shape[0] for array in given if array.ndim}
    return int(lengths.pop()) if len(lengths) == 1 else None


def _with(source: Source, given: list[Array]) -> Source:
    own, shapes = _leading(given), ", ".join(arrays.words(array) for array in given)
    if not any(array.ndim for array in given):
        own = 1
    told = "the first dimension of every input" if own else f"the inputs share no first dimension: {shapes}"
    facts = {**source.facts, "origin": "given"}
    return replace(source, facts=facts, inputs=given, traced=own, own=own, batch_is=told)


def _name_feeds(takes: Sequence[Input], given: Sequence[Array]) -> dict[str, Array]:
    if len(takes) != len(given):
        raise UsageError(
            f"the model takes {len(takes)} inputs, {len(given)} were given",
            why=f"it takes {', '.join(f'{taken.name} {taken.words}' for taken in takes)}",
        )
    return {
        each.name: np.ascontiguousarray(array, each.dtype) for each, array in zip(takes, given, strict=True)
    }
