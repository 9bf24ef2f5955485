"""torch.compile compiles inside the profiled steps.

Lies when: the profiler was started before the warm-up had ended: then it was the first compilation.
Source: PyTorch marks compilation with `... (dynamo_timed)` from 2.5 on; 1 % of the step is our own threshold.
"""

import re

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.tables import Compilation
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import marks, per_step, share, times
from laptime.trace.names import is_autotuning

THRESHOLD = 0.01
REGION = r"Torch-Compiled Region: (\d+)/(\d+)"


def rule(profile: Profile) -> Finding | None:
    """Sum the compilation, and name the frame that was compiled most often; why, if its log is at hand."""
    if profile.compilations:
        return _of_log(profile)
    marked = marks(profile, r".*\(dynamo_timed\)$")
    tried = is_autotuning([row.name for row in marked])
    compiling = [row for row, tries in zip(marked, tried, strict=True) if not tries]
    spent = per_step(profile, max((row.host_ns for row in compiling), default=0))
    if not compiling or share(profile, spent) < THRESHOLD:
        return None
    again = [
        (int(region[2]), region[1]) for row in profile.annotations if (region := re.match(REGION, row.name))
    ]
    times_compiled, frame = max(again, default=(0, ""))
    count = f"; frame {frame} has been compiled {times_compiled + 1} times" if times_compiled else ""
    return finding(
        profile,
        f"torch.compile compiles inside the steps: {times(profile, spent)}{count}",
        gain=spent,
        gain_is="the longest of the nested ranges of compilation",
        evidence={"ranges": {row.name: row.host_ns for row in compiling[:5]}, "compiled": times_compiled + 1},
        change="torch._dynamo.mark_dynamic(x, 0), or pad inputs to few sizes",
        optimization="mark_dynamic",
        reaches={
            "host": spent,
            "synchronisation": spent,
            "compute": 0.0 if profile.overview.devices else spent,
        },
        next="set TORCH_LOGS=recompiles, which names the guard that failed",
    )


def _of_log(profile: Profile) -> Finding | None:
    """The function that is compiled again for longest, and the guard that failed."""
    functions = dict[tuple[str, str], list[Compilation]]()
    for row in profile.compilations:
        if row.reasons:
            functions.setdefault((row.function, row.place), []).append(row)
    if not functions:
        return None
    (function, place), rows = max(functions.items(), key=lambda item: sum(row.total_ns for row in item[1]))
    spent = sum(row.total_ns for row in rows) * 1e-9
    guard = rows[-1].reasons[0]
    return finding(
        profile,
        f"torch.compile compiles {function} ({place}) {count(len(rows), 'time')} again,"
        f" {show(spent, 's')} in all: {guard}",
        loud="advice",
        evidence={
            "compiled": len(rows) + 1,
            "spent_s": spent,
            "guards": [row.reasons[0] for row in rows[:5]],
        },
        change="torch._dynamo.mark_dynamic(x, 0), or pad inputs to few sizes"
        if re.search("size mismatch|stride mismatch|rank mismatch", guard)
        else "pass what changes as a tensor, or make it a constant of the module",
        optimization="mark_dynamic" if "size mismatch" in guard else "",
    )
