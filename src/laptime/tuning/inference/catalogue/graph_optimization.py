"""A lower level of ONNX Runtime's graph optimisation than its default, which is the highest.

Lies when: never by itself; a level that fuses less is faster only where a fused kernel is slow.
Source: onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.
"""

from laptime.tuning.inference.draft import Draft
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "level of graph optimisation"
NUMERICS = "reassociated"
SAVES = 0.3
PRIOR = 0.05
NEEDS = frozenset({"on_onnxruntime", "!on_openvino"})
SETTINGS = True


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Without fusions of layouts, and with the simplest rewrites alone."""
    return [{"value": "EXTENDED"}, {"value": "BASIC"}]


def apply(draft: Draft, options: Options) -> None:
    """A setting of `tuned.py`."""
    draft.settings["level"] = f"ORT_ENABLE_{options['value']}"
