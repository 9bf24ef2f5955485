"""Batch normalisations folded into the convolutions and linear layers before them.

Lies when: running statistics are not settled: folded weights then overflow or vanish.
Source: torch.fx.experimental.optimization.fuse; Jacob et al. 2018, section 3.2.
"""

from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft, Refused
from laptime.tuning.inference.forms.exported import first_words
from laptime.tuning.optimization import Options

TITLE = "batch norm folded into convolutions"
NUMERICS = "reassociated"
SAVES = 0.4
PRIOR = 0.3
NEEDS = _torch_only.NEEDS | {"conv", "batchnorm"}


def apply(draft: Draft, options: Options) -> None:
    """A graph of the module in which the norms are gone.

    Raises:
        Refused: torch.fx cannot trace it.
    """
    from torch.fx.experimental.optimization import fuse

    try:
        draft.module = fuse(draft.module)
    except Exception as error:
        raise Refused(f"torch.fx cannot trace it: {first_words(error)}") from error
