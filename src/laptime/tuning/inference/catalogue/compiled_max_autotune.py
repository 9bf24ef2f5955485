"""Compiled ahead of time as by `compiled`; Inductor also times kernels of its own against the libraries'.

Lies when: the machine that serves has other caches than the one that compiled.
Source: torch._inductor.config.max_autotune; on CPUs torch/_inductor/codegen/cpp_gemm_template.py.
"""

from laptime.tuning.inference.catalogue import compiled
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "compiled by Inductor, frozen, kernels chosen by timing"
NUMERICS = "reassociated"
SAVES = 0.72
PRIOR = 0.4
NEEDS = compiled.NEEDS
GIVES = frozenset({"compiled"})
BUILDS = 150.0
HOLDS = compiled.HOLDS


def apply(draft: Draft, options: Options) -> None:
    """The same form, with another setting of the compiler."""
    compiled.apply(draft, options)
    draft.settings["max_autotune"] = True
