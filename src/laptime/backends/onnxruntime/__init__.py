"""ONNX Runtime: `.onnx` files, and PyTorch targets exported on the way.

    laptime bench model.onnx
    laptime bench torchvision:resnet18 --backend onnxruntime --option optimization=basic,all

A session is made when the target is loaded; sizes that the file leaves open stay open in it. On accelerators
inputs and outputs stay on the device (IO binding). Nothing here imports onnxruntime before it is asked to."""

from functools import partial
from typing import TYPE_CHECKING, Any

from laptime.backends._onnx import EXPORTS_WITH
from laptime.backends._shared import Later, first, import_framework, refuse_torch_options
from laptime.kit.errors import Unavailable, UsageError, unknown
from laptime.kit.extras import install
from laptime.kit.text import closest
from laptime.records.plan import Variant
from laptime.targets import parse

if TYPE_CHECKING:
    from laptime.backends._onnx.model import FileModel

onnxruntime = Later("onnxruntime")
__all__ = ["EXPORTS_WITH", "OPTIONS", "TARGETS", "available", "imports", "open", "open_object"]
TARGETS = ("onnx_file", "torchvision", "timm", "file", "module")
OPTIONS = {
    "provider": "execution provider: cpu, cuda, tensorrt, migraphx, openvino, dnnl, xnnpack, coreml, dml ...",
    "optimization": "of the graph: off, basic, extended, all",
    "execution": "sequential or parallel",
    "inter_threads": "threads among nodes when execution is parallel",
    "binding": "on or off: inputs and outputs stay on the device; on for accelerators",
    "opset": "ONNX opset that PyTorch targets are exported with",
    "session.": "any entry of the session's configuration: session.intra_op.allow_spinning=0",
}
DTYPES = ("float32", "float16", "float64")
_PACKAGES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino")
PROVIDERS = {
    "cpu": "CPU",
    "cuda": "CUDA",
    "tensorrt": "Tensorrt",
    "migraphx": "MIGraphX",
    "openvino": "OpenVINO",
    "dnnl": "Dnnl",
    "xnnpack": "Xnnpack",
    "coreml": "CoreML",
    "dml": "Dml",
}
ON_CUDA = ("cuda", "tensorrt")
LEVELS = {
    "off": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
EXECUTIONS = {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"}


def available() -> dict[str, str]:
    """The version of ONNX Runtime, under the name of the package that brought it; {} without one."""
    return first(_PACKAGES)


def check(variant: Variant) -> None:
    """Refuse what this backend cannot do. Raises UsageError: the variant asks for such a thing."""
    refuse_torch_options(
        variant, "onnxruntime", why="that is a setting of PyTorch; ONNX Runtime has --option optimization=..."
    )
    if variant.dtype not in (*DTYPES, "auto"):
        raise UsageError(
            f"onnxruntime cannot run {variant.dtype} here",
            why="NumPy has no such dtype, and few of its CPU kernels support it",
            next="--dtype float32, or --backend openvino",
        )
    for name, words in (("optimization", LEVELS), ("execution", EXECUTIONS), ("binding", ("on", "off"))):
        value = variant.options.get(name)
        if value is not None and value not in words:
            option = f"--option {name}="
            raise unknown(name, str(value), words, option=option, example=f"{option}{next(iter(words))}")
    threads = str(variant.options.get("inter_threads", 1))
    if not threads.isdecimal() or threads == "0":
        raise UsageError(
            f"--option inter_threads={threads} is impossible", why="it must be a number above zero"
        )


def provider_of(variant: Variant) -> tuple[str, int]:
    """The short name of the execution provider, and the number of the device.
    Raises Unavailable: this build of ONNX Runtime does not have it."""
    kind, _, number = variant.device.partition(":")
    built = onnxruntime.get_available_providers()
    there = [short for short, name in PROVIDERS.items() if f"{name}ExecutionProvider" in built]
    usual = ("cuda" if "cuda" in there else "cpu") if kind == "auto" else kind
    provider = str(variant.options.get("provider", usual))
    on_cuda = kind in ("auto", "cuda")
    is_possible = provider in there and number in ("", *map(str, range(64)))
    if not is_possible or (kind not in ("auto", "cpu", "cuda")) or (provider in ON_CUDA and not on_cuda):
        near = closest(provider, there)
        raise Unavailable(
            f"onnxruntime has no provider {provider!r} for the device {variant.device!r} here",
            why=f"this build ({', '.join(available())}) has {', '.join(there)}",
            next=f"--device cpu --option provider={near or 'cpu'}"
            if provider not in ON_CUDA
            else "pip install onnxruntime-gpu, or --device cpu",
        )
    return provider, int(number or 0)


def imports(variant: Variant) -> None:
    import_framework(
        "onnxruntime", next=f"{install('onnx')}, or for CUDA: pip install onnxruntime-gpu onnx onnxscript"
    )


def open(variant: Variant) -> "FileModel":
    """The target of a variant in a session on its device.
    Raises Unavailable: ONNX Runtime, what exports need, or the device is not there. TargetError,
    UserCodeError: the target does not exist, or cannot be exported or run. UsageError: the variant asks for
    what this framework does not have."""
    parse(variant.target)
    imports(variant)
    from laptime.backends._onnx.model import FileModel
    from laptime.backends._onnx.source import find
    from laptime.backends.onnxruntime.session import Session

    check(variant)
    provider, number = provider_of(variant)
    source = find(variant)
    return FileModel(variant, source, partial(Session, variant, provider, number))


def open_object(subject: Any, inputs: Any, variant: Variant) -> "FileModel":
    """An `onnxruntime.InferenceSession` of this process; `inputs`: one array, or a list in the model's order.
    Raises UsageError: it is none."""
    imports(variant)

    from laptime.backends._onnx.model import in_memory
    from laptime.backends.onnxruntime.session import Session

    if not isinstance(subject, onnxruntime.InferenceSession):
        raise UsageError(
            f"an object of type {type(subject).__name__} is not a model of ONNX Runtime",
            why="it must be an onnxruntime.InferenceSession",
            next="bench('model.onnx') for a file",
        )
    return in_memory(variant, "session", lambda _: Session.of(variant, subject), inputs)
