"""Another number of threads in a call.

Lies when: the machine that serves has other cores than the one that measured.
Source: oneDNN and OpenMP documentation: more threads than physical cores rarely help.
"""

from laptime.tuning.inference.draft import Draft
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "threads in a call"
NUMERICS = "reassociated"
SAVES = 0.6
PRIOR = 0.2
RISKY = True
NEEDS = frozenset({"cpu"})
SETTINGS = True


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Half of the CPUs, all, and one; not the number that it has."""
    cpus = loop_profile.cpus
    numbers = dict.fromkeys([max(1, cpus // 2), cpus, 1])
    return [{"value": number} for number in numbers if number != loop_profile.threads]


def apply(draft: Draft, options: Options) -> None:
    """A setting of `tuned.py`, whatever runs the model."""
    draft.settings["threads"] = int(options["value"])
    properties = draft.settings.setdefault("properties", {})
    properties["INFERENCE_NUM_THREADS"] = int(options["value"])
