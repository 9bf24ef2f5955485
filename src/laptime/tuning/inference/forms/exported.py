"""A graph of torch.export, run by PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from laptime.tuning.inference.draft import Draft, Refused

if TYPE_CHECKING:
    import torch

HANDED_BACK, ON_CUDA = "exported", "torch_cuda"
NEEDS = ("torch",)


def write(draft: Draft, folder: Path) -> None:
    """Writes model.pt2.

    Raises:
        Refused: it cannot be exported.
    """
    import torch

    torch.export.save(graph_of(draft), folder / "model.pt2")


def graph_of(draft: Draft) -> torch.export.ExportedProgram:
    """The exported model, for any batch size where it may vary.

    Raises:
        Refused: it cannot be exported.
    """
    import torch

    tracing: Any = torch.export
    sizes = tracing.ShapesCollection()
    for tensor, varies in zip(draft.inputs, draft.varies, strict=True):
        if varies:
            sizes[tensor] = {0: tracing.Dim.DYNAMIC}
    arguments = tuple(draft.inputs)
    try:
        with torch.no_grad():
            shapes = sizes.dynamic_shapes(draft.module, arguments) if any(draft.varies) else None
            return torch.export.export(draft.module, arguments, dynamic_shapes=shapes)
    except Exception as error:
        raise Refused(f"torch.export cannot trace it: {first_words(error)}") from error


def first_words(error: BaseException) -> str:
    """An exception in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
