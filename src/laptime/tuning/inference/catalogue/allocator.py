"""The C library keeps freed memory: the next call's activations get pages that are mapped already.

What a training step gains by it, and why, stands in `tuning.catalogue.allocator`. ONNX Runtime and OpenVINO
plan their memory ahead, and have nothing to gain.

Source: mallopt(3).
Lies when: another allocator is preloaded where the folder runs; then nothing changes.
"""

from laptime.tuning.catalogue.allocator import KEPT
from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "freed memory is kept for the next call"
NUMERICS = "exact"
SAVES = 0.3
PRIOR = 0.2
NEEDS = _torch_only.NEEDS | {"cpu", "glibc_malloc"}
SETTINGS = True
GOALS = ("latency", "throughput", "cost")


def apply(draft: Draft, options: Options) -> None:
    """Calls of mallopt that `tuned.py` makes before it loads."""
    draft.settings["malloc"] = [list(each) for each in KEPT.items()]
