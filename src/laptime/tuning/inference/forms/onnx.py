"""An ONNX model for ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

from laptime.backends._onnx.exporting import traced_program
from laptime.kit.errors import UserCodeError
from laptime.tuning.inference.draft import Draft, Refused

HANDED_BACK = "onnx"
NEEDS = ("onnxruntime",)
OPSET = 18
_LARGE = 1_500_000_000  # bytes of weights from which on they get a file of their own; protobuf ends at 2 GiB


def write(draft: Draft, folder: Path) -> None:
    """Writes model.onnx.

    Raises:
        Refused: it cannot be exported, or not for any batch size.
    """
    import torch

    traced = draft.inputs[0].shape[0] if any(draft.varies) else None
    try:
        with torch.no_grad():
            program = traced_program(
                draft.module, tuple(draft.inputs), {}, draft.inputs, opset=OPSET, traced=traced
            )
    except UserCodeError as error:
        raise Refused(f"{error.what}: {error.why}") from error
    takes = program.model.graph.inputs
    if len(takes) != len(draft.inputs):
        raise Refused(f"{len(draft.inputs)} tensors go in, the exported model takes {len(takes)}")
    held = sum(t.numel() * t.element_size() for t in draft.module.state_dict().values())
    program.save(str(folder / "model.onnx"), external_data=held > _LARGE)
