"""A session of ONNX Runtime as `_onnx.model` asks for it: calls, counts, and what it says of itself."""

import re
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

from laptime.backends._onnx import graph
from laptime.backends._onnx.inputs import Array, Input
from laptime.backends._onnx.model import Bound, Sizes, explain, first_line
from laptime.backends._onnx.source import Source
from laptime.backends._shared import Later, nothing
from laptime.backends.onnxruntime import DTYPES, EXECUTIONS, LEVELS, ON_CUDA, PROVIDERS, available
from laptime.kit.errors import LaptimeError, TargetError, Unavailable, UsageError, UserCodeError
from laptime.records.environment import Device
from laptime.records.plan import Variant

onnxruntime = Later("onnxruntime")
_NUMPY = {"float": "float32", "double": "float64"}


class Session:
    """A session as a `_onnx.model.Runtime`."""

    def __init__(self, variant: Variant, provider: str, number: int, source: Source) -> None:
        self._variant = variant
        self._provider, self._number = provider, number
        self._graph = _graph(source, variant)
        self._session = _start(source, variant, provider, number)
        effective = self._session.get_providers()[0]
        if not effective.startswith(PROVIDERS[provider]):
            if variant.device != "auto" or "provider" in variant.options:
                raise Unavailable(
                    f"onnxruntime could not start its provider {provider!r}",
                    why=f"it fell back to {effective}: a driver or library is missing, or does not fit",
                    next="--device cpu",
                )
            self._provider = "cpu"

    @classmethod
    def of(cls, variant: Variant, session: Any) -> "Session":
        self = cls.__new__(cls)
        effective = session.get_providers()[0].removesuffix("ExecutionProvider")
        short = {name: short for short, name in PROVIDERS.items()}.get(effective, effective.lower())
        self._variant, self._provider, self._number = variant, short, 0
        self._graph, self._session = None, session
        return self

    def inputs(self) -> list[Input]:
        takes = []
        for each in self._session.get_inputs():
            kind = re.sub(r"^tensor\((.*)\)$", r"\1", each.type)
            dims = tuple(size if isinstance(size, int) else (size or "") for size in each.shape)
            takes.append(Input(each.name, _NUMPY.get(kind, kind), dims))
        return takes

    def outputs(self) -> list[str]:
        return [output.name for output in self._session.get_outputs()]

    @property
    def _is_bound(self) -> bool:
        usual = "on" if self._provider in ON_CUDA else "off"
        return str(self._variant.options.get("binding", usual)) == "on"

    def bind(self, feeds: Mapping[str, Array]) -> Bound:
        """A call with these inputs; with IO binding they are copied to the device now, and only now."""
        session, feeds = self._session, dict(feeds)
        if not self._is_bound:
            plain = partial(session.run, None)
            return Bound(call=partial(plain, feeds), sync=nothing, feeds=feeds, run=plain)

        where = "cuda" if self._provider in ON_CUDA else "cpu"
        binding = session.io_binding()
        for name, array in feeds.items():
            value = onnxruntime.OrtValue.ortvalue_from_numpy(array, where, self._number)
            binding.bind_ortvalue_input(name, value)
        for output in session.get_outputs():
            binding.bind_output(output.name, where, self._number)
        call = partial(session.run_with_iobinding, binding)

        def run(others: Mapping[str, Array]) -> list[Array]:
            if others is not feeds:
                return self.bind(others).results()
            call()
            binding.synchronize_outputs()
            outputs: list[Array] = binding.copy_outputs_to_cpu()
            return outputs

        return Bound(
            call=call, sync=binding.synchronize_outputs, synchronous=where == "cpu", feeds=feeds, run=run
        )

    def count(self, sizes: Sizes) -> tuple[dict[str, float], dict[str, Any]]:
        if self._graph is None:
            return {}, {"reason": "counting reads the graph with the package onnx: pip install onnx"}
        return graph.counts(self._graph, sizes)

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"providers": self._session.get_providers()}
        if self._graph is not None:
            facts |= {"onnx": graph.facts(self._graph), "dtypes": graph.dtypes(self._graph)}
        return facts

    def devices(self) -> list[Device]:
        if self._provider in ON_CUDA:
            return [Device(name=f"cuda:{self._number}", model="CUDA device")]
        return [Device(name="cpu", model="CPU", details={"provider": self._provider})]

    libraries = staticmethod(available)

    def knobs(self) -> dict[str, Any]:
        options = self._session.get_session_options()
        return {
            "onnxruntime.provider": self._provider,
            "onnxruntime.intra_op_num_threads": options.intra_op_num_threads or "default",
            "onnxruntime.inter_op_num_threads": options.inter_op_num_threads or "default",
            "onnxruntime.graph_optimization_level": options.graph_optimization_level.name,
            "onnxruntime.execution_mode": options.execution_mode.name,
            "onnxruntime.io_binding": self._is_bound,
        }


def _graph(source: Source, variant: Variant) -> Any:
    """The file as the package onnx reads it; None without that package, which only counting needs.
    Raises UsageError: it holds floats of another dtype than the variant says."""
    if find_spec("onnx") is None:
        return None
    model = graph.read(source.path)
    held = {name: n for name, n in graph.dtypes(model).items() if name in (*DTYPES, "bfloat16")}
    most = max(held, key=lambda name: held[name], default=variant.dtype)
    if variant.dtype not in ("auto", most):
        why, next = "ONNX Runtime runs a file in the dtype it was written in", f"--dtype {most}"
        raise UsageError(f"{variant.target} holds {most} weights, not {variant.dtype}", why=why, next=next)
    return model


def _start(source: Source, variant: Variant, provider: str, number: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # not even errors: they are raised as well
    if variant.threads is not None:
        options.intra_op_num_threads = variant.threads
    settings = variant.options
    level, execution = settings.get("optimization", "all"), settings.get("execution", "sequential")
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[level])
    options.execution_mode = getattr(onnxruntime.ExecutionMode, EXECUTIONS[execution])
    if "inter_threads" in settings:
        options.inter_op_num_threads = int(settings["inter_threads"])
    for name, value in settings.items():
        if name.startswith("session."):
            options.add_session_config_entry(name, str(value))
    chosen: list[Any] = [f"{PROVIDERS[provider]}ExecutionProvider"]
    if provider in ON_CUDA:
        chosen = [(chosen[0], {"device_id": str(number)})]
    if provider != "cpu":
        chosen.append("CPUExecutionProvider")
    try:
        return onnxruntime.InferenceSession(str(source.path), options, providers=chosen)
    except Exception as error:  # its own exceptions share no class
        raise _refuse(error, variant.target) from error


def _refuse(error: Exception, target: str) -> LaptimeError:
    text = str(error)
    version = " ".join(f"{name} {number}" for name, number in available().items())
    if opset := re.search(r"[Oo]pset (\d+) is under development.*?till opset (\d+)", text, re.DOTALL):
        return TargetError(
            f"{target} is written for ONNX opset {opset[1]}, too new for {version}",
            why=f"it supports opsets up to {opset[2]}",
            next=f"pip install -U onnxruntime, or export the model with opset {opset[2]}",
        )
    if opset := re.search(r"model IR version: (\d+), max supported IR version: (\d+)", text):
        return TargetError(
            f"{target} is written in version {opset[1]} of the ONNX format, too new for {version}",
            why=f"it reads versions up to {opset[2]}",
            next="pip install -U onnxruntime, or export the model with an older onnx",
        )
    if "INVALID_PROTOBUF" in text or "INVALID_GRAPH" in text or "NO_SUCHFILE" in text:
        return TargetError(
            f"{target} is not an ONNX file that can be run", why=first_line(error), next="export it again"
        )
    reason = explain(error, f"onnxruntime cannot load {target}")
    if isinstance(reason, UserCodeError) and "NOT_IMPLEMENTED" in text:
        return type(reason)(reason.what, why=reason.why, next="another --dtype, or --backend openvino")
    return reason
