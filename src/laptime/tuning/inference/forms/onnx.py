"""An ONNX model for ONNX Runtime."""

from __future__ import annotations

import os
from pathlib import Path

from laptime.backends._onnx.exporting import traced_program
from laptime.kit.errors import UserCodeError
from laptime.tuning.inference.draft import Draft, Refused, link

HANDED_BACK = "onnx"
NEEDS = ("onnxruntime",)
OPSET = 18
_LARGE = 1_500_000_000  # bytes of weights from which on they get a file of their own; protobuf ends at 2 GiB


def write(draft: Draft, folder: Path) -> None:
    """Writes model.onnx.

    Raises:
        Refused: it cannot be exported, or not for any batch size.
    """
    there = draft.file or draft.export
    if there is not None and there.is_file():
        _place(there, folder)
        return
    _export(draft, folder)
    if draft.export is not None:
        draft.export.parent.mkdir(exist_ok=True)
        _place(folder / "model.onnx", draft.export.parent)


def _export(draft: Draft, folder: Path) -> None:
    """PyTorch's export.

    Raises:
        Refused: see `write`.
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


def _place(file: Path, folder: Path) -> None:
    """An ONNX file at another place, with the files that hold its weights.

    Raises:
        Refused: weights lie outside its folder, which no copy could find.
    """
    link(file, folder / "model.onnx")
    for name in _outside(file):
        source, place = file.parent / name, folder / name
        if Path(os.path.normpath(place)).parent != folder or not source.is_file():
            raise Refused(f"its weights lie in {name}, which is not beside it")
        link(source, place)


def _outside(file: Path) -> set[str]:
    """Files that hold weights of an ONNX file; none where the package onnx is missing, which can tell."""
    try:
        import onnx
    except ImportError:
        return set()
    model = onnx.load(str(file), load_external_data=False)
    entries = [entry for each in model.graph.initializer for entry in each.external_data]
    return {entry.value for entry in entries if entry.key == "location"}
