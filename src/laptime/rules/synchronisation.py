"""The host waits for the device inside the step, and the device is empty afterwards.

Lies when: the wait is needed (a check for NaN, a decision on the device's result), or a tool synchronises
for its own measurement. A wait that leaves no gap costs nothing and is not reported.
Source: PyTorch's performance guide; 2 % of the step is our own threshold."""

import re

from laptime.records.overview import IdleCause, Synchronisation
from laptime.rules import _facts
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import WORTH, idle, idle_seconds, often, per_step, share, times

UNLIKE = r"(cudnn|miopen)_(de)?conv|convolution_backward"
FREES = r"^(cuda|hip)Free|^cuMemFree"
NEEDS = frozenset({"!beginning", "!server"})


def rule(profile: Profile) -> Finding | None:
    """Name the operator that synchronised, how often, and from which line."""
    known = _facts.host_seconds(profile, *_facts.BEGINNING, "compilation", "collection", "preprocessing")
    late = max(0.0, known - idle_seconds(profile, "host"))
    gain = max(0.0, idle_seconds(profile, "synchronisation") - late)
    cause = idle(profile, "synchronisation")
    if cause is None or share(profile, gain) < WORTH:
        return None
    worst = _worst(profile, cause)
    name = worst.operator if worst is not None else (cause.operators[0][0] if cause.operators else "")
    if worst is not None and "pageable" in worst.call and "DtoH" not in worst.call:
        return None  # pageable_copies speaks of it
    if re.search(UNLIKE, name) or (worst is not None and re.search(FREES, worst.call)):
        return None  # autotuning, allocator, initialisation speak of them
    if worst is not None and not worst.operator:
        name = ""
    call = f" ({worst.call})" if worst is not None else ""
    count = f" {often(worst.calls / max(1, profile.overview.steps))}" if worst is not None else ""
    change, optimization = _mend(name, worst)
    return finding(
        profile,
        f"{name or (worst.call if worst is not None else 'a call')}"
        f"{'' if name else ' outside of all operators'} makes the host wait for the device{count}"
        f"{call if name else ''};"
        f" the device then idles {times(profile, gain)}",
        gain_is="idle time of the device after the host had waited for it",
        evidence={
            "operators": dict(cause.operators[:5]),
            "waits_s_per_step": per_step(profile, sum(w.wait_ns for w in profile.overview.synchronisations)),
        },
        rows=[f"operators/{each}" for each, _ in cause.operators[:3]],
        change=change,
        optimization=optimization,
        stack=cause.stack or (worst.stack if worst is not None else []),
        reaches={"synchronisation": gain},
    )


def _mend(operator: str, wait: Synchronisation | None) -> tuple[str, str]:
    """Return the change for this operator, and the optimization that makes it."""
    word = operator.removeprefix("aten::")
    if word in ("item", "_local_scalar_dense", "is_nonzero", "equal", "allclose"):
        return (
            "keep results on the device: log loss.detach() and call .item() every 50 steps",
            "defer_logging",
        )
    if word in ("nonzero", "index", "masked_select", "index_put_", "_index_put_impl_", "unique", "_unique2"):
        return "no boolean masks and no nonzero in the step: torch.where, or a sum weighted by the mask", ""
    if word in ("to", "_to_copy", "copy_", "cpu"):
        if wait is not None and "HtoD" in wait.call:
            return "inputs from pinned memory with non_blocking=True", "pin_memory"
        return "copy results to the host once every few steps, or to pinned memory with non_blocking=True", ""
    if not word:
        return "leave out torch.cuda.synchronize() and the like in the loop", ""
    return f"keep {operator} out of the loop, or give it tensors that are on the device", ""


def _worst(profile: Profile, cause: IdleCause) -> Synchronisation | None:
    """The call behind most of this idle time: of the operator that is blamed, or the call itself."""
    blamed = [name for name, _ in cause.operators]

    def culprit(each: Synchronisation) -> str:
        return each.operator or each.call.partition(" ")[0]

    candidates = [each for each in profile.overview.synchronisations if culprit(each) in blamed]
    return min(candidates, key=lambda each: (blamed.index(culprit(each)), -each.wait_ns), default=None)
