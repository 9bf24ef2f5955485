"""A package that AOTInductor has compiled, with the weights frozen into it. Needs a C++ compiler, once."""

from __future__ import annotations

from pathlib import Path

from laptime.tuning.inference.draft import Draft, Refused
from laptime.tuning.inference.forms.exported import first_words, graph_of

HANDED_BACK, ON_CUDA = "packaged", "torch_cuda"
NEEDS = ("torch",)


def write(draft: Draft, folder: Path) -> None:
    """Writes compiled.pt2.

    Raises:
        Refused: it cannot be exported or compiled.
    """
    import torch
    import torch._inductor

    graph = graph_of(draft)
    draft.settings["packaged"] = True
    torch.set_float32_matmul_precision(draft.settings.get("float32", "highest"))  # kernels follow it
    if threads := draft.settings.get("threads"):
        torch.set_num_threads(threads)  # the number stands in the generated code
    configs = {"freezing": True, "max_autotune": bool(draft.settings.get("max_autotune"))}
    try:
        with torch.no_grad():
            torch._inductor.aoti_compile_and_package(
                graph, package_path=str(folder / "compiled.pt2"), inductor_configs=configs
            )
    except Exception as error:
        raise Refused(f"it cannot be compiled: {first_words(error)}") from error
