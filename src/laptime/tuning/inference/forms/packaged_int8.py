"""A package that AOTInductor has compiled of a graph that torchao has quantised (PT2E).

Source: docs.pytorch.org/ao, PyTorch 2 export quantization with X86 backend through Inductor.
"""

from __future__ import annotations

from pathlib import Path

from laptime.measure.recorded_calls import RecordedCalls
from laptime.tuning.inference.draft import Draft, Refused
from laptime.tuning.inference.forms import packaged
from laptime.tuning.inference.forms.exported import first_words, graph_of

HANDED_BACK = "packaged"
NEEDS = ("torch",)


def write(draft: Draft, folder: Path) -> None:
    """Writes compiled.pt2.

    Raises:
        Refused: it cannot be exported, quantised or compiled.
    """
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    graph = graph_of(draft).module()
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
    try:
        prepared = prepare_pt2e(graph, quantizer)
        with torch.no_grad():
            prepared(*map(torch.from_numpy, RecordedCalls.load(draft.calibration).calls[0].inputs))
        draft.module = convert_pt2e(prepared)
    except Exception as error:
        raise Refused(f"torchao cannot quantise it: {first_words(error)}") from error
    packaged.write(draft, folder)
