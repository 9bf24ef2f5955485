"""Numbers below float32's normal range count as zero: a CPU is up to a hundred times slower on them.

Source: torch.set_flush_denormal; ONNX Runtime, session.set_denormal_as_zero; OpenVINO,
ov::intel_cpu::denormals_optimization.
Lies when: activations, not weights, are denormal: only weights are looked at.
"""

from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "denormal numbers count as zero"
NUMERICS = "reassociated"
SAVES = 0.5
PRIOR = 0.3
NEEDS = frozenset({"cpu", "denormals"})
SETTINGS = True


def apply(draft: Draft, options: Options) -> None:
    """A setting of `tuned.py`, whatever runs the model."""
    draft.settings["flush_denormal"] = True
    draft.settings.setdefault("properties", {})["CPU_DENORMALS_OPTIMIZATION"] = True
