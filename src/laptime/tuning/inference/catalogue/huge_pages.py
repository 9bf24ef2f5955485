"""What the model keeps in memory lies on pages of 2 MiB: fewer misses of the address cache.

Weights and buffers of any runtime are moved to such pages after the first call of a shape; tensors of PyTorch
that are made later are asked for on them, as `tuning.catalogue.huge_pages` says.

Source: madvise(2), MADV_COLLAPSE (Linux 6.1); under an older kernel its khugepaged does the same in time.
Lies when: memory is fragmented, then the kernel finds no room; or the server has made a tensor before it
calls `load()`: PyTorch reads its variable once.
"""

from laptime.tuning.catalogue.huge_pages import VARIABLE
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "huge pages under weights and buffers"
NUMERICS = "exact"
SAVES = 0.2
PRIOR = 0.15
NEEDS = frozenset({"cpu", "huge_pages_on_request"})
SETTINGS = True
GOALS = ("latency", "throughput", "cost")


def apply(draft: Draft, options: Options) -> None:
    """A wrapper of `tuned.py`, and a variable that PyTorch's own sets before it loads."""
    draft.settings["huge_pages"] = True
    draft.settings["environment"] = {VARIABLE: "1"}
