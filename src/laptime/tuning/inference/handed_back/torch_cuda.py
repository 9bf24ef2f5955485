"""A graph of torch.export, or a compiled package, on a GPU. `load()` gives a callable: one call at a time."""

import json
from pathlib import Path
from typing import Any


def load() -> Any:
    import torch

    here, captured, plain = Path(__file__).resolve().parent, list[Any](), torch.contiguous_format
    settings = json.loads((here / "recipe.json").read_text())["settings"]
    device, fixed = torch.device(settings["device"]), settings.get("cuda_graph")
    torch.set_float32_matmul_precision(settings.get("float32", "highest"))  # as it was compared
    guard = torch.inference_mode if settings.get("inference_mode") else torch.no_grad
    layout = torch.channels_last if settings.get("channels_last") else plain
    if settings.get("packaged"):
        run: Any = torch._inductor.aoti_load_package(str(here / "compiled.pt2"), bool(fixed), device.index)
    else:
        run = torch.export.load(here / "model.pt2").module()

    def capture(*static: Any) -> Any:  # docs.pytorch.org/docs/stable/notes/cuda.html
        side, graph = torch.cuda.Stream(device), torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            [run(*static) for _ in range(3)]
        with torch.cuda.graph(graph):  # it waits for the device first
            return static, graph, run(*static)

    def model(*inputs: Any) -> Any:
        with guard(), torch.cuda.device(device):
            given = [x.to(device).contiguous(memory_format=layout if x.ndim == 4 else plain) for x in inputs]
            if [[str(x.dtype), *x.shape] for x in given] != fixed:
                return run(*given)
            captured[:] = captured or capture(*(x.clone() for x in given))
            torch._foreach_copy_(captured[0], given)
            captured[1].replay()
            return torch.utils._pytree.tree_map(torch.clone, captured[2])

    return model
