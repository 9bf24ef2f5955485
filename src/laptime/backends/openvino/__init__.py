"""OpenVINO: `.onnx` and `.xml` files, and PyTorch targets exported on the way.

    laptime bench model.xml
    laptime bench torchvision:resnet18 --backend openvino --option hint=latency,throughput

A model is read when the target is loaded, and compiled for the shapes of each batch size in its first call.
The dtype is the one that OpenVINO computes in, and is always said: left to itself it takes bfloat16 for a
float32 model if the CPU has it. With `hint=throughput` several requests are under way at once: a call
starts one, and the `saturated` regime shows what that is good for. Nothing here imports openvino before it is
asked to."""

from functools import partial
from typing import TYPE_CHECKING, Any

from laptime.backends._onnx import EXPORTS_WITH
from laptime.backends._shared import Later, first, import_framework, refuse_torch_options, unknown_dtype
from laptime.kit.errors import Unavailable, UsageError, unknown
from laptime.kit.extras import install
from laptime.records.plan import Variant
from laptime.targets import parse

if TYPE_CHECKING:
    from laptime.backends._onnx.model import FileModel

openvino = Later("openvino")
__all__ = ["EXPORTS_WITH", "OPTIONS", "TARGETS", "available", "imports", "open", "open_object"]
TARGETS = ("openvino_file", "onnx_file", "torchvision", "timm", "file", "module")
OPTIONS = {
    "hint": "latency, throughput (several requests at once) or none",
    "streams": "requests that are computed at the same time",
    "requests": "requests under way with hint=throughput; OpenVINO chooses by default",
    "opset": "ONNX opset that PyTorch targets are exported with",
    "property.": "any property of the device: property.ENABLE_CPU_PINNING=NO",
}
_HINTS = ("latency", "throughput", "none")
PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
_CAPABILITIES = {"float32": "FP32", "bfloat16": "BF16", "float16": "FP16"}


def available() -> dict[str, str]:
    """The version of OpenVINO; {} without it."""
    return first(["openvino"])


def check(variant: Variant) -> None:
    """Refuse what this backend cannot do. Raises UsageError: the variant asks for such a thing."""
    refuse_torch_options(
        variant,
        "openvino",
        why="that is a setting of PyTorch; OpenVINO compiles every model and picks its own layouts",
    )
    if variant.dtype not in (*PRECISIONS, "auto"):
        raise unknown_dtype(variant.dtype, [*PRECISIONS])
    hint = str(variant.options.get("hint", "latency"))
    if hint not in _HINTS:
        raise unknown("hint", hint, _HINTS, option="--option hint=", example="--option hint=latency")
    for name in ("streams", "requests"):
        value = str(variant.options.get(name, 1))
        if not value.isdecimal() or value == "0":
            raise UsageError(f"--option {name}={value} is impossible", why="it must be a number above zero")


def device_of(variant: Variant) -> str:
    """OpenVINO's name of the device: `GPU.0` for `gpu:0`; "auto" is the first GPU, else the CPU.
    Raises Unavailable: it is not there, or does not compute in the variant's dtype."""
    core = openvino.Core()
    there = core.available_devices
    if variant.device == "auto":
        name = next((each for each in there if each.startswith("GPU")), "CPU")
    else:
        asked_device = variant.device.upper().replace(":", ".")
        name = next((each for each in there if asked_device in (each, f"{each}.0")), "")
    if not name:
        raise Unavailable(
            f"openvino has no device {variant.device!r}",
            why=f"openvino {available().get('openvino', '')} sees {', '.join(there)}",
            next=f"--device {there[0].lower().replace('.', ':') if there else 'cpu'}",
        )
    can = core.get_property(name, "OPTIMIZATION_CAPABILITIES")
    if variant.dtype != "auto" and _CAPABILITIES[variant.dtype] not in can:
        what = f"openvino cannot compute in {variant.dtype} on {name} here"
        raise Unavailable(what, why=f"the device can do {', '.join(can)}", next="--dtype float32")
    return name


def imports(variant: Variant) -> None:
    import_framework("openvino", next=install("openvino"))


def open(variant: Variant) -> "FileModel":
    """The target of a variant, read and ready to be compiled for its device.
    Raises Unavailable: OpenVINO, what exports need, the device, or its arithmetic in this dtype is not there.
    TargetError, UserCodeError: the target does not exist, or cannot be exported or read. UsageError: the
    variant asks for what this framework does not have."""
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


def open_object(subject: Any, inputs: Any, variant: Variant) -> "FileModel":
    """An `openvino.Model` of this process; `inputs`: one array, or a list in the model's order.
    Raises UsageError: it is none."""
    imports(variant)

    from laptime.backends._onnx.model import in_memory
    from laptime.backends.openvino.compiled import Compiled

    if not isinstance(subject, openvino.Model):
        what = f"an object of type {type(subject).__name__} is not a model of OpenVINO"
        raise UsageError(what, why="it must be an openvino.Model", next="bench('model.xml') for a file")
    device = device_of(variant)
    return in_memory(variant, "model", partial(Compiled, variant, device, model=subject), inputs)
