"""ONNX Runtime: `.onnx` files, and PyTorch targets exported on the way.

    laptime bench model.onnx
    laptime bench torchvision:resnet18 --backend onnxruntime --option optimization=basic,all

A session is made when the target is loaded; sizes that the file leaves open stay open in it. On accelerators
inputs and outputs stay on the device (IO binding). Nothing here imports onnxruntime before it is asked to.

    options     what can be asked of it, versions, execution providers
    session     a session as `_onnx.model` asks for it
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from laptime.backends._installed import import_framework
from laptime.backends._onnx import EXPORTS_WITH
from laptime.backends.onnxruntime.options import OPTIONS, available, check, provider_of
from laptime.kit.errors import UsageError
from laptime.records.plan import Variant
from laptime.targets import parse

if TYPE_CHECKING:
    from laptime.backends._onnx.model import FileModel

__all__ = ["EXPORTS_WITH", "OPTIONS", "TARGETS", "available", "imports", "open", "open_object"]

TARGETS = ("onnx_file", "torchvision", "timm", "file", "module")


def imports(variant: Variant) -> None:
    """See `import_framework`."""
    import_framework(
        "onnxruntime",
        next="pip install 'laptime[onnx]', or for CUDA: pip install onnxruntime-gpu onnx onnxscript",
    )


def open(variant: Variant) -> FileModel:
    """The target of a variant in a session on its device.

    Raises:
        Unavailable: ONNX Runtime, what exports need, or the device is not there.
        TargetError, UserCodeError: the target does not exist, or cannot be exported or run.
        UsageError: the variant asks for what this framework does not have.
    """
    parse(variant.target)
    imports(variant)
    from laptime.backends._onnx.model import FileModel
    from laptime.backends._onnx.source import find
    from laptime.backends.onnxruntime.session import Session

    check(variant)
    provider, number = provider_of(variant)
    source = find(variant)
    return FileModel(variant, source, partial(Session, variant, provider, number))


def open_object(subject: Any, inputs: Any, variant: Variant) -> FileModel:
    """An `onnxruntime.InferenceSession` of this process; `inputs`: one array, or a list in the model's order.

    Raises:
        UsageError: it is none.
    """
    imports(variant)
    import onnxruntime

    from laptime.backends._onnx.model import in_memory
    from laptime.backends.onnxruntime.session import Session

    if not isinstance(subject, onnxruntime.InferenceSession):
        raise UsageError(
            f"an object of type {type(subject).__name__} is no model of ONNX Runtime",
            why="an onnxruntime.InferenceSession is wanted",
            next="bench('model.onnx') for a file",
        )
    return in_memory(variant, "session", lambda _: Session.of(variant, subject), inputs)
