"""Large tensors lie on pages of 2 MiB; how, and what for, stands in `tuning.catalogue.huge_pages`.

Lies when: the server has made a tensor before it calls `load()`: PyTorch reads the variable once.
"""

from laptime.tuning.catalogue.huge_pages import VARIABLE
from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "huge pages for large tensors"
NUMERICS = "exact"
SAVES = 0.2
PRIOR = 0.15
NEEDS = _torch_only.NEEDS | {"cpu", "huge_pages_on_request"}


def apply(draft: Draft, options: Options) -> None:
    """A variable that `tuned.py` sets before it loads."""
    draft.settings["environment"] = {VARIABLE: "1"}
