"""A model in OpenVINO as `_onnx.model` asks for it: calls, counts, and what it says of itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from laptime.backends._by_batch import nothing
from laptime.backends._onnx import graph
from laptime.backends._onnx.dimension_names import dimension_names
from laptime.backends._onnx.inputs import Array, Input
from laptime.backends._onnx.model import Bound, Sizes, explained, first_line
from laptime.backends._onnx.source import Source
from laptime.backends.openvino.count import count
from laptime.backends.openvino.options import PRECISIONS, available
from laptime.kit.errors import LaptimeError, TargetError, UsageError
from laptime.records.environment import Device
from laptime.records.plan import Variant


class Compiled:
    """A model that OpenVINO has read, as a `_onnx.model.Runtime`."""

    def __init__(self, variant: Variant, device: str, source: Source, *, model: Any = None) -> None:
        import openvino

        self._variant, self._device = variant, device
        self._core = openvino.Core()
        self._model = model
        if model is None:
            try:
                self._model = self._core.read_model(str(source.path))
            except Exception as error:
                raise _refused(error, variant.target) from error
        named = dimension_names(source.path)
        self._inputs = [_input(port, at, variant.target, named) for at, port in enumerate(self._model.inputs)]
        self._path = source.path

    def inputs(self) -> list[Input]:
        """What the model takes; a dimension that is open has the name that an ONNX file gives it."""
        return self._inputs

    def outputs(self) -> list[str]:
        """Names of what the model gives."""
        return [port.get_any_name() if port.get_names() else "" for port in self._model.outputs]

    def _static(self, sizes: Sizes) -> Any:
        """The model for these shapes alone."""
        model = self._model.clone()
        model.reshape({at: list(sizes[each.name]) for at, each in enumerate(self._inputs)})
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

        def compiled() -> Any:
            if not ready:
                started = time.perf_counter()
                model = self._static({name: array.shape for name, array in feeds.items()})
                net = self._compiled(model)
                seconds.append(time.perf_counter() - started)
                ready.append((net, self._queue(net, feeds) if many else self._request(net, feeds)))
            return ready[0]

        def run(others: Mapping[str, Array]) -> list[Array]:
            request = self._request(compiled()[0], others)
            request.infer()
            return [request.get_output_tensor(at).data.copy() for at in range(len(self._model.outputs))]

        def call() -> None:
            runner = ready[0][1] if ready else compiled()[1]
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

    def _compiled(self, model: Any) -> Any:
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
        import openvino

        queue = openvino.AsyncInferQueue(compiled, int(self._variant.options.get("requests", 0)))
        for request in queue:
            self._feed(request, feeds)
        return queue

    def _feed(self, request: Any, feeds: Mapping[str, Array]) -> None:
        import openvino

        for at, each in enumerate(self._inputs):
            request.set_input_tensor(at, openvino.Tensor(feeds[each.name], shared_memory=True))

    def count(self, sizes: Sizes) -> tuple[dict[str, float], dict[str, Any]]:
        """Parameters and FLOPs of OpenVINO's graph. See `laptime.backends.openvino.count`."""
        values, receipt = count(self._static(sizes))
        if self._path.suffix == ".onnx" and find_spec("onnx") is not None:
            # Of the file, as for every other framework; OpenVINO adds constants when it reads it.
            values["params/all"] = float(graph.parameters(graph.read(self._path)))
            receipt["parameters"] = graph.PARAMETERS
        return values, receipt

    def facts(self) -> dict[str, Any]:
        """Size of the graph, and how it will be compiled."""
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
        """The CPU, or the device by OpenVINO's name: `gpu:0`."""
        if self._device == "CPU":
            return [Device(name="cpu", model="CPU")]
        name = self._core.get_property(self._device, "FULL_DEVICE_NAME")
        return [Device(name=self._device.lower().replace(".", ":"), model=str(name))]

    def libraries(self) -> dict[str, str]:
        """The version of OpenVINO."""
        return available()

    def knobs(self) -> dict[str, Any]:
        """What the compiler is told; what it is not told is OpenVINO's default."""
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
    names = next((named[each] for each in port.get_names() if each in named), [])
    names = names if len(names) == len(shape) else [""] * len(shape)
    dims = tuple(
        word if size.is_dynamic else size.get_length() for size, word in zip(shape, names, strict=True)
    )
    return Input(name, str(port.get_element_type().to_dtype()), dims)


def _refused(error: Exception, target: str) -> LaptimeError:
    """Why OpenVINO does not read a file."""
    explanation = explained(error, f"openvino cannot read {target}")
    if isinstance(error, MemoryError):
        return explanation
    number = available().get("openvino", "")
    return TargetError(
        f"openvino {number} cannot read {target}",
        why=first_line(error),
        next="export it again; --backend onnxruntime tells whether an .onnx file is sound",
    )
