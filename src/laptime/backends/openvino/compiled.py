"""A model in OpenVINO as `_onnx.model` asks for it: calls, counts, and what it says of itself.

Parameters and FLOPs of a model with known shapes, from OpenVINO's graph.

    Convolution                2 x outputs x weights of one output channel
    ConvolutionBackpropData    2 x inputs x weights of one input channel
    MatMul                     2 x outputs x length of the sum
    recurrent layer            2 x items x steps x elements of both weight matrices
    attention                  both products

Lies when: nodes that multiply have no formula (the receipt names them)."""

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

from laptime.backends._onnx import graph
from laptime.backends._onnx.inputs import Array, Input, dimension_names
from laptime.backends._onnx.model import Bound, Sizes, explain, first_line
from laptime.backends._onnx.source import Source
from laptime.backends._shared import Later, nothing
from laptime.backends.openvino import PRECISIONS, available
from laptime.kit.errors import LaptimeError, TargetError, UsageError
from laptime.records.environment import Device
from laptime.records.plan import Variant

openvino = Later("openvino")


class Compiled:
    """A model that OpenVINO has read, as a `_onnx.model.Runtime`."""

    def __init__(self, variant: Variant, device: str, source: Source, *, model: Any = None) -> None:
        self._variant, self._device = variant, device
        self._core = openvino.Core()
        self._model = model
        if model is None:
            try:
                self._model = self._core.read_model(str(source.path))
            except Exception as error:
                raise _refuse(error, variant.target) from error
        named = dimension_names(source.path)
        self._inputs = [_input(port, at, variant.target, named) for at, port in enumerate(self._model.inputs)]
        self._path = source.path

    def inputs(self) -> list[Input]:
        """The inputs of the model; an open dimension has the name that an ONNX file gives it."""
        return self._inputs

    def outputs(self) -> list[str]:
        return [port.get_any_name() if port.get_names() else "" for port in self._model.outputs]

    def _static(self, sizes: Sizes) -> Any:
        model = self._model.clone()
        model.reshape({index: list(sizes[each.name]) for index, each in enumerate(self._inputs)})
        return model

    def _config(self) -> dict[str, Any]:
        options = self._variant.options
        config: dict[str, Any] = {}
        if self._variant.dtype in PRECISIONS:
            config["INFERENCE_PRECISION_HINT"] = PRECISIONS[self._variant.dtype]
        if (hint := str(options.get("hint", "latency"))) != "none":
            config["PERFORMANCE_HINT"] = hint.upper()
        if self._variant.threads is not None:
            config["INFERENCE_NUM_THREADS"] = self._variant.threads
        if "streams" in options:
            config["NUM_STREAMS"] = str(options["streams"])
        extra = {
            name.partition(".")[2]: value for name, value in options.items() if name.startswith("property.")
        }
        return config | extra

    def bind(self, feeds: Mapping[str, Array]) -> Bound:
        """A call with these inputs; the model is compiled for their shapes in the first one."""
        feeds = dict(feeds)
        ready: list[Any] = []  # what calls, once compiled
        seconds: list[float] = []
        many = "throughput" in str(self._variant.options.get("hint", ""))

        def compile_once() -> Any:
            if not ready:
                started = time.perf_counter()
                model = self._static({name: array.shape for name, array in feeds.items()})
                net = self._compile(model)
                seconds.append(time.perf_counter() - started)
                ready.append((net, self._queue(net, feeds) if many else self._request(net, feeds)))
            return ready[0]

        def run(others: Mapping[str, Array]) -> list[Array]:
            request = self._request(compile_once()[0], others)
            request.infer()
            return [request.get_output_tensor(at).data.copy() for at in range(len(self._model.outputs))]

        def call() -> None:
            runner = ready[0][1] if ready else compile_once()[1]
            if many:
                runner.start_async()
            else:
                runner.infer(share_outputs=True)

        def sync() -> None:
            if ready:
                ready[0][1].wait_all()

        return Bound(
            call=call,
            sync=sync if many else nothing,
            synchronous=not many,
            feeds=feeds,
            run=run,
            compiled=lambda: seconds[0] if seconds else None,
        )

    def _compile(self, model: Any) -> Any:
        try:
            return self._core.compile_model(model, self._device, self._config())
        except RuntimeError as error:
            if "nsupported property" not in str(error):
                raise
            raise UsageError(
                f"openvino does not take these options on {self._device}",
                why=first_line(error),
                next="openvino.Core().get_property('CPU', 'SUPPORTED_PROPERTIES') lists them",
            ) from error

    def _request(self, compiled: Any, feeds: Mapping[str, Array]) -> Any:
        request = compiled.create_infer_request()
        self._feed(request, feeds)
        return request

    def _queue(self, compiled: Any, feeds: Mapping[str, Array]) -> Any:
        queue = openvino.AsyncInferQueue(compiled, int(self._variant.options.get("requests", 0)))
        for request in queue:
            self._feed(request, feeds)
        return queue

    def _feed(self, request: Any, feeds: Mapping[str, Array]) -> None:
        for index, each in enumerate(self._inputs):
            request.set_input_tensor(index, openvino.Tensor(feeds[each.name], shared_memory=True))

    def count(self, sizes: Sizes) -> tuple[dict[str, float], dict[str, Any]]:
        values, receipt = count(self._static(sizes))
        if self._path.suffix == ".onnx" and find_spec("onnx") is not None:
            # Of the file, as for every other framework; OpenVINO adds constants when it reads it.
            values["params/all"] = float(graph.parameters(graph.read(self._path)))
            receipt["parameters"] = graph.PARAMETERS
        return values, receipt

    def facts(self) -> dict[str, Any]:
        compiling = {"when": "in the first call of each batch size, for its shapes alone", **self._config()}
        held = Counter(
            str(node.get_element_type().to_dtype())
            for node in self._model.get_ops()
            if node.get_type_name() == "Constant" and node.get_output_shape(0)
        )
        return {
            "openvino": {"nodes": len(self._model.get_ops())},
            "compiling": compiling,
            "dtypes": dict(held),
        }

    def devices(self) -> list[Device]:
        if self._device == "CPU":
            return [Device(name="cpu", model="CPU")]
        name = self._core.get_property(self._device, "FULL_DEVICE_NAME")
        return [Device(name=self._device.lower().replace(".", ":"), model=str(name))]

    libraries = staticmethod(available)

    def knobs(self) -> dict[str, Any]:
        return {f"openvino.{name}": value for name, value in self._config().items()}


def _input(port: Any, at: int, target: str, named: Mapping[str, list[str]]) -> Input:
    shape = port.get_partial_shape()
    name = port.get_any_name() if port.get_names() else f"input_{at}"
    if shape.rank.is_dynamic:
        raise UsageError(
            f"{target}: the input {name!r} has no known number of dimensions",
            why="the file leaves its whole shape open",
            next="save the model with a shape: model.reshape(...) and openvino.save_model(...)",
        )
    names = next((named[name] for name in port.get_names() if name in named), [])
    names = names if len(names) == len(shape) else [""] * len(shape)
    dims = tuple(
        word if size.is_dynamic else size.get_length() for size, word in zip(shape, names, strict=True)
    )
    return Input(name, str(port.get_element_type().to_dtype()), dims)


def _refuse(error: Exception, target: str) -> LaptimeError:
    explanation = explain(error, f"openvino cannot read {target}")
    if isinstance(error, MemoryError):
        return explanation
    number = available().get("openvino", "")
    return TargetError(
        f"openvino {number} cannot read {target}",
        why=first_line(error),
        next="export it again; --backend onnxruntime shows whether an .onnx file is sound",
    )


# Work.


_HEAVY = frozenset(
    {
        *("If", "Loop", "TensorIterator", "Einsum", "DFT", "IDFT", "RDFT", "IRDFT", "STFT", "Inverse"),
        *("DeformableConvolution", "BinaryConvolution", "PagedAttentionExtension"),
    }
)


def count(model: Any) -> tuple[dict[str, float], dict[str, Any]]:
    """Values by tag of a metric, and the receipt; no FLOPs, and the reason, if none are counted."""
    counted: Counter[str] = Counter()
    uncounted: Counter[str] = Counter()
    weights = 0
    for node in model.get_ops():
        kind = node.get_type_name()
        if kind == "Constant":
            is_float = node.get_element_type().to_dtype().kind == "f"
            # Bounds and epsilons of operators are constants without dimensions.
            weights += math.prod(node.get_output_shape(0)) if is_float and node.get_output_shape(0) else 0
        elif (formula := _FORMULAS.get(kind)) is not None:
            counted[kind] += formula(node)
        elif kind not in ("Parameter", "Result"):
            uncounted[kind] += 1
    nothing = "no matrix product or convolution is in the graph"
    doubtful = {*uncounted} & _HEAVY
    values, receipt = graph.sum_up("shapes of OpenVINO's graph", counted, uncounted, doubtful, nothing)
    receipt["parameters"] = "all floating-point constants with dimensions, running statistics among them"
    return {"params/all": float(weights), **values}, receipt


def _convolution(node: Any, *, leading: int = 1, is_backwards: bool = False) -> int:
    """2 x outputs (backwards: inputs) x weights of one channel, which come behind `leading` dimensions."""
    many = node.get_input_shape(0) if is_backwards else node.get_output_shape(0)
    return int(2 * math.prod(many) * math.prod(tuple(node.get_input_shape(1))[leading:]))


def _recurrent(weights: int) -> Callable[[Any], int]:
    """2 x items x steps x elements of the weights of inputs and states; `weights`: the place of the first."""

    def flops(node: Any) -> int:
        steps = math.prod(tuple(node.get_input_shape(0))[:-1])
        return int(2 * steps * sum(math.prod(node.get_input_shape(at)) for at in (weights, weights + 1)))

    return flops


def _product(node: Any) -> int:
    is_turned = bool(node.get_attributes().get("transpose_a"))
    shape = tuple(node.get_input_shape(0))
    along = shape[-2] if is_turned and len(shape) > 1 else shape[-1]
    return int(2 * math.prod(node.get_output_shape(0)) * along)


def _attention(node: Any) -> int:
    query, key, value = (tuple(node.get_input_shape(at)) for at in range(3))
    scores = math.prod(query[:-1]) * key[-2]
    return int(2 * scores * (query[-1] + value[-1]))


_FORMULAS: dict[str, Callable[[Any], int]] = {
    "Convolution": _convolution,  # weights are (out, in, ...)
    "GroupConvolution": partial(_convolution, leading=2),  # (groups, out, in, ...)
    "ConvolutionBackpropData": partial(_convolution, is_backwards=True),  # (in, out, ...)
    "GroupConvolutionBackpropData": partial(_convolution, leading=2, is_backwards=True),
    "LSTMSequence": _recurrent(4),
    "GRUSequence": _recurrent(3),
    "RNNSequence": _recurrent(3),
    "LSTMCell": _recurrent(3),
    "GRUCell": _recurrent(2),
    "RNNCell": _recurrent(2),
    "MatMul": _product,
    "ScaledDotProductAttention": _attention,
}
