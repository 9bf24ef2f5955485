"""What can be asked of OpenVINO: options, dtypes, devices; its version."""

from __future__ import annotations

from laptime.backends._by_batch import refuse_torch_options
from laptime.backends._installed import first
from laptime.kit.errors import Unavailable, UsageError
from laptime.kit.text import closest
from laptime.records.plan import Variant

OPTIONS = {
    "hint": "latency, throughput (several requests at once) or none",
    "streams": "requests that are computed at the same time",
    "requests": "requests under way with hint=throughput; what OpenVINO holds to be best",
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
    """Refuse what this backend cannot do.

    Raises:
        UsageError: the variant asks for such a thing.
    """
    refuse_torch_options(
        variant,
        "openvino",
        why="that is PyTorch's; OpenVINO compiles every model and picks its own layouts",
    )
    if variant.dtype not in (*PRECISIONS, "auto"):
        raise UsageError(
            f"openvino cannot compute in {variant.dtype}",
            why=f"known: {', '.join(PRECISIONS)}",
            next=f"--dtype {closest(variant.dtype, list(PRECISIONS)) or 'float32'}",
        )
    hint = str(variant.options.get("hint", "latency"))
    if hint not in _HINTS:
        raise UsageError(
            f"--option hint={hint} is not known",
            why=f"known: {', '.join(_HINTS)}",
            next=f"--option hint={closest(hint, _HINTS) or 'latency'}",
        )
    for name in ("streams", "requests"):
        value = str(variant.options.get(name, 1))
        if not value.isdecimal() or value == "0":
            raise UsageError(f"--option {name}={value} is impossible", why="a number above zero is wanted")


def device_of(variant: Variant) -> str:
    """OpenVINO's name of the device: `GPU.0` for `gpu:0`; "auto" is the first GPU, else the CPU.

    Raises:
        Unavailable: it is not there, or does not compute in the variant's dtype.
    """
    import openvino

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
        raise Unavailable(
            f"openvino cannot compute in {variant.dtype} on {name} here",
            why=f"the device can do {', '.join(can)}",
            next="--dtype float32",
        )
    return name
