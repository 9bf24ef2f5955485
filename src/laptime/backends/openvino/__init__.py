"""OpenVINO: `.onnx` and `.xml` files, and PyTorch targets exported on the way.

    laptime bench model.xml
    laptime bench torchvision:resnet18 --backend openvino --option hint=latency,throughput

A model is read when the target is loaded, and compiled for the shapes of each batch size in its first call.
The dtype is the one that OpenVINO computes in, and is always said: left to itself it takes bfloat16 for a
float32 model where the CPU has it. With `hint=throughput` several requests are under way at once: a call
starts one, and the `saturated` regime shows what that is good for. Nothing here imports openvino before it is
asked to.

    options     what can be asked of it, versions, devices
    compiled    a model as `_onnx.model` asks for it
    count       parameters and FLOPs of OpenVINO's graph
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from laptime.backends._installed import import_framework
from laptime.backends._onnx import EXPORTS_WITH
from laptime.backends.openvino.options import OPTIONS, available, check, device_of
from laptime.kit.errors import UsageError
from laptime.records.plan import Variant
from laptime.targets import parse

if TYPE_CHECKING:
    from laptime.backends._onnx.model import FileModel

__all__ = ["EXPORTS_WITH", "OPTIONS", "TARGETS", "available", "imports", "open", "open_object"]

TARGETS = ("openvino_file", "onnx_file", "torchvision", "timm", "file", "module")


def imports(variant: Variant) -> None:
    """See `import_framework`."""
    import_framework("openvino", next="pip install 'laptime[openvino]'")


def open(variant: Variant) -> FileModel:
    """The target of a variant, read and ready to be compiled for its device.

    Raises:
        Unavailable: OpenVINO, what exports need, the device, or its arithmetic in this dtype is not there.
        TargetError, UserCodeError: the target does not exist, or cannot be exported or read.
        UsageError: the variant asks for what this framework does not have.
    """
    parse(variant.target)
    imports(variant)
    from msgspec import structs

    from laptime.backends._onnx.model import FileModel
    from laptime.backends._onnx.source import find
    from laptime.backends.openvino.compiled import Compiled

    check(variant)
    device = device_of(variant)
    # Exported in float32 whatever it is computed in: that is OpenVINO's way, and all dtypes share one export.
    source = find(structs.replace(variant, dtype="float32"))
    return FileModel(variant, source, partial(Compiled, variant, device))


def open_object(subject: Any, inputs: Any, variant: Variant) -> FileModel:
    """An `openvino.Model` of this process; `inputs`: one array, or a list in the model's order.

    Raises:
        UsageError: it is none.
    """
    imports(variant)
    import openvino

    from laptime.backends._onnx.model import in_memory
    from laptime.backends.openvino.compiled import Compiled

    if not isinstance(subject, openvino.Model):
        raise UsageError(
            f"an object of type {type(subject).__name__} is no model of OpenVINO",
            why="an openvino.Model is wanted",
            next="bench('model.xml') for a file",
        )
    device = device_of(variant)
    return in_memory(variant, "model", partial(Compiled, variant, device, model=subject), inputs)
