"""All kernels of a call launched at once: a CUDA graph, captured in the first call.

Inputs are copied to where the graph reads them, outputs to where no later call writes. Calls of other shapes
or types than those of the measurement run without the graph.

Lies when: two threads call it at once: they share the graph's inputs.
Source: docs.pytorch.org/docs/stable/notes/cuda.html, CUDA graphs.
"""

from laptime.measure.recorded_calls import RecordedCalls
from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "a CUDA graph of the whole call"
NUMERICS = "reassociated"
SAVES = 0.7
PRIOR = 0.4
NEEDS = _torch_only.NEEDS | {"cuda", "!varying_shapes"}


def apply(draft: Draft, options: Options) -> None:
    """A setting of `tuned.py`: type and shape of each input that the graph is captured for."""
    import torch

    given = RecordedCalls.load(draft.calibration).calls[0].inputs
    draft.settings["cuda_graph"] = [[str(torch.from_numpy(each).dtype), *each.shape] for each in given]
