"""Compiled by Inductor ahead of time, weights frozen: operators fused, weights laid out for their kernels.

Lies when: shapes change in another dimension than the batch; such a call raises.
Source: pytorch.org/docs, AOTInductor; torch._inductor.config.freezing.
"""

from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "compiled by Inductor, frozen"
NUMERICS = "reassociated"
SAVES = 0.7
NEEDS = _torch_only.NEEDS | {"gcc"}
BUILDS = 60.0
HOLDS = frozenset({"threads"})


def apply(draft: Draft, options: Options) -> None:
    """Another form."""
    draft.form = "packaged"
