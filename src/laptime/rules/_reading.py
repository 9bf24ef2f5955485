"""How rules read a profile: thresholds they share, times per step, rows by name, words for numbers."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from laptime.kit.units import percent, show
from laptime.records.overview import IdleCause
from laptime.records.profile import Profile
from laptime.records.tables import AnnotationRow, KernelRow, OperatorRow

WORTH = 0.02
"""Share of the step below which a gain is not worth a line: about the smallest change that a careful
comparison of two runs on a shared machine can still show."""
DATA_WAIT = 0.05  # share of the step from which waiting for data is told: the TensorBoard plugin's
NOTABLE = 0.10
SERIOUS = 0.20  # TraceML's shares: warn from 10 %, critical from 20 %
CONSIDERABLE = 0.25
"""Share of the step from which something other than computing is what limits it: our own choice. A quarter
is above what well-fed training loops lose between steps, and below what the known starved ones lose."""
ENOUGH_STEPS = 2  # TraceML warns from two steps on; a single one may be an exception


def step(profile: Profile) -> float:
    """Seconds of the mean step; 0.0 without any."""
    return max(0, profile.overview.step_ns) * 1e-9


def slowdown(profile: Profile) -> float:
    """Return how much longer the profiler made the step; 1.0 if that is not known."""
    return max(1.0, profile.reconciled.slowdown) if profile.reconciled is not None else 1.0


def beside_steps(profile: Profile) -> float:
    """Seconds per step that the untraced loop spent between steps, and waiting for new workers."""
    plain = profile.reconciled
    return (plain.outside_ns + plain.workers_wait_ns) * 1e-9 if plain is not None else 0.0


def turn(profile: Profile) -> float:
    """Seconds of the mean step with what the loop does beside it, as long as the profiler would make that."""
    return step(profile) + beside_steps(profile) * slowdown(profile)


def per_step(profile: Profile, ns: float) -> float:
    """Seconds per step of a total over all steps: never negative, never more than the step."""
    return min(step(profile), max(0.0, ns) * 1e-9 / max(1, profile.overview.steps))


def share(profile: Profile, seconds: float) -> float:
    """Seconds as a share of the step; 0.0 without steps."""
    whole = step(profile)
    return seconds / whole if whole > 0 else 0.0


def idle(profile: Profile, cause: str) -> IdleCause | None:
    """Idle time of one cause."""
    causes = profile.overview.idle.causes if profile.overview.idle is not None else []
    return next((each for each in causes if each.cause == cause), None)


def idle_seconds(profile: Profile, cause: str) -> float:
    """Idle time of one cause in seconds per step, the mean over the devices."""
    idle_cause = idle(profile, cause)
    if idle_cause is None:
        return 0.0
    return per_step(profile, idle_cause.total_ns / max(1, len(profile.overview.devices)))


def unrecorded(profile: Profile) -> float:
    """Seconds of the step that no event explains; with a device at most its idle time of no other cause, or
    behind a wait: what the host does while it computes costs nothing."""
    silent = profile.overview.unrecorded_ns * 1e-9
    if not profile.overview.devices or profile.overview.idle is None:
        return silent
    return min(silent, sum(idle_seconds(profile, cause) for cause in ("unrecorded", "synchronisation")))


def removable(profile: Profile, host: float, device: float) -> float:
    """Upper bound on what leaving out work saves, in seconds per step: with a device its device time and, of
    its host time, what can have kept the device idle; without one its host time."""
    return device + min(host, idle_seconds(profile, "host")) if profile.overview.devices else host


def utilization(profile: Profile) -> float | None:
    """Mean share of the window in which kernels ran; None without a device."""
    uses = [use.utilization for use in profile.overview.devices]
    return sum(uses) / len(uses) if uses else None


def marks(profile: Profile, pattern: str) -> list[AnnotationRow]:
    """Annotations whose name matches from its start; older traces have some of them as operators."""
    begins = re.compile(pattern).match
    rows = [row for row in profile.annotations if begins(row.name)]
    annotated = {row.name for row in rows}
    return rows + [
        AnnotationRow(
            name=row.name,
            calls=row.calls,
            host_ns=row.host_total_ns,
            kernels=row.kernels,
            device_ns=row.device_total_ns,
        )
        for row in profile.operators
        if begins(row.name) and row.name not in annotated
    ]


def kernels(profile: Profile, pattern: str) -> list[KernelRow]:
    """Kernels whose name contains the pattern."""
    return [row for row in profile.kernels if re.search(pattern, row.name)]


def operators(profile: Profile, pattern: str) -> list[OperatorRow]:
    """Operators, without shapes, whose whole name matches."""
    return [row for row in profile.operators if re.fullmatch(pattern, row.name)]


def capability(profile: Profile) -> tuple[int, int] | None:
    """Compute capability of the first CUDA device; None for others, and if the file does not say."""
    text = profile.accelerators[0].capability if profile.accelerators else ""
    found = re.fullmatch(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found and profile.device_type == "cuda" else None


MATRIX = (
    r"aten::(_?convolution(_overrideable|_backward.*)?|(cudnn|miopen|mkldnn)_convolution.*|thnn_conv.*"
    r"|_slow_conv.*|slow_conv.*|addmm_?|_addmm_activation|addmv_?|mm|mv|bmm|addbmm|baddbmm|linear|matmul"
    r"|_cudnn_rnn.*|_thnn_fused_.*_cell)"
)
"""Operators whose own kernels are matrix products or convolutions, their backward included (the TensorBoard
plugin's list of eligible operators lacks `aten::convolution_backward`)."""
NARROW = ("c10::Half", "c10::BFloat16", "Half", "BFloat16", "float16", "bfloat16")


def shapes(row: OperatorRow) -> list[list[int]]:
    """The shapes of an operator's tensors, in order; of a list of tensors, theirs."""
    try:
        found = json.loads(row.shapes)
    except ValueError:
        return []
    found = found if isinstance(found, list) else []
    if found and isinstance(found[0], list) and any(isinstance(each, list) for each in found[0]):
        found = found[0]
    return [each for each in found if isinstance(each, list) and all(type(size) is int for size in each)]


def only(dtypes: Iterable[str], names: tuple[str, ...]) -> bool:
    """Whether `Input type` texts speak of these floating-point types and of no other; False when of none."""
    types = {word for text in dtypes for word in re.findall(r"[\w:]+", text)}
    floats = types & {"float", "double", *NARROW}
    return bool(floats) and floats <= set(names)


def untraced_wait(profile: Profile) -> float | None:
    """Share of the untraced steps on a CPU that waited for a loader, beyond new workers; None without one."""
    plain = profile.reconciled
    if profile.overview.devices or plain is None or plain.loader_wait_ns is None or plain.untraced_ns <= 0:
        return None
    waited = plain.parts_ns.get("data", plain.loader_wait_ns)
    usual = 1 - plain.workers_wait_ns / plain.loader_wait_ns if plain.loader_wait_ns else 1.0
    return max(0.0, min(1.0, waited * usual / plain.untraced_ns))


def loader_wait(profile: Profile) -> float:
    """Seconds per step; without an accelerator the share that the untraced steps had, if it is known."""
    part = untraced_wait(profile)
    return profile.overview.breakdown.dataloader_ns * 1e-9 if part is None else step(profile) * part


def say_wait(profile: Profile, waited: float) -> str:
    """`2.27 ms of each 3.89 ms untraced step (58 %)`, of the traced one if no other is known."""
    part, plain = untraced_wait(profile), profile.reconciled
    if part is None or plain is None:
        return times(profile, waited)
    whole = plain.untraced_ns * 1e-9
    return f"{show(part * whole, 's')} of each {show(whole, 's')} untraced step ({percent(part)})"


class Loading(NamedTuple):
    """A loader without workers."""

    waited: float  # seconds per step that are waited for it
    picking: float  # share of its operators' time that picks samples and puts batches together
    preparing: list[OperatorRow]  # the other operators, the longest first


ALONE = r"enumerate\(DataLoader\)#_SingleProcess"
HANDING = re.compile(
    r"aten::(select|slice|narrow|index|as_strided|unsqueeze|squeeze|view|reshape|expand|permute|stack|cat|alias|detach"
    r"|to|_to_copy|copy_|clone|empty\w*|item|_local_scalar_dense|resize_|lift_fresh|unbind)"
)
CONVERTS = re.compile(r'\["([a-z][\w: ]*)", "(?!\1")[a-z].*')
"""Operators that pick a sample and put a batch together: a cached sample needs them, too, but for copies that
are first of all from one type to another."""


def loading(profile: Profile) -> Loading | None:
    """None if a loader has workers: their operators are in no trace of the program."""
    spent = {row.id: row.host_self_ns * in_loader(row) for row in profile.operators}
    rows = sorted((row for row in profile.operators if spent[row.id]), key=lambda row: -spent[row.id])
    if not rows or not marks(profile, ALONE):
        return None
    hands = [HANDING.fullmatch(row.name) and not CONVERTS.match((row.dtypes or [""])[0]) for row in rows]
    preparing = [row for row, is_handed in zip(rows, hands, strict=True) if not is_handed]
    prepares = sum(spent[row.id] for row in preparing) / sum(spent.values())
    return Loading(loader_wait(profile), 1 - prepares, preparing)


def in_loader(row: OperatorRow) -> float:
    """Share of an operator's calls that a DataLoader makes, as far as the most costly places tell."""
    known = sum(place.calls for place in row.stacks)
    return sum(place.calls for place in row.stacks if is_loading(place.frames)) / known if known else 0.0


def is_loading(frames: Iterable[str]) -> bool:
    """Whether a call stack goes through torch's DataLoader."""
    return any("torch/utils/data/" in frame for frame in frames)


def launches_per_step(profile: Profile) -> float | None:
    """Calls per step that launch work; a graph is one, whatever it replays. None if nothing tells."""
    launches = profile.launches
    if launches is None or not launches.launches + launches.unlaunched:
        return None
    calls = profile.workload.launch_calls if profile.workload is not None else launches.launches
    return calls / max(1, profile.overview.steps)


def takes(names: Sequence[str]) -> str:
    """`a takes`, `a, b and c take`, of at most three names."""
    first = list(names[:3])
    return f"{first[0]} takes" if len(first) == 1 else f"{', '.join(first[:-1])} and {first[-1]} take"


def often(number: float) -> str:
    """`once a step`, `3 times a step`."""
    if number == 1:
        return "once a step"
    return f"{number:,.0f} times a step" if number >= 100 else f"{number:.3g} times a step"


def times(profile: Profile, seconds: float) -> str:
    """`12.3 ms of each 178 ms step (7 %)`; `traced step` if the untraced one is known, too."""
    traced = "traced " if profile.reconciled is not None else ""
    part = percent(share(profile, seconds))
    return f"{show(seconds, 's')} of each {show(step(profile), 's')} {traced}step ({part})"


LOST = 0.1
UNEVEN = 0.5  # Shares: launches without their work, and a step's device time of that of the busiest


def missing(profile: Profile) -> str:
    """Say which of the device's work is not in the file; "" if nothing seems to be missing."""
    counts = profile.launches
    if counts is not None and counts.launches and counts.lost > LOST * (counts.launches + counts.lost):
        return f"the file has no kernels of {counts.lost:,} of {counts.launches + counts.lost:,} launches"
    if not profile.overview.devices or not any(file.truncated for file in profile.files[:1]):
        return ""
    busy = [step.device_busy_ns for step in profile.steps]
    if len(busy) < 2 or min(busy) < UNEVEN * max(busy):
        return "the file breaks off within the work of the device"
    return ""
