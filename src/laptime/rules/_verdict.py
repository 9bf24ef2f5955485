"""The limit of the step: one word, and the device's time by what could give it back."""

import re

from laptime.kit.text import count
from laptime.kit.units import percent, show
from laptime.records.overview import Straggler
from laptime.records.profile import Bottleneck, Bound, Profile
from laptime.records.tables import OLDER
from laptime.rules import _facts
from laptime.rules import _reading as reading
from laptime.rules._facts import mistaken

LATE = HALF = 0.5
"""Share of all waiting from which one rank is to blame; of the time between steps, of all, to be told."""
HOST_ONLY = "the file has no device activity, although the program uses an accelerator"
_ACCELERATED = re.compile(r"^[nr]ccl:|(cudnn|miopen)_(conv|batch_norm|rnn)|Cudnn\w+Backward")
_CAUSES: dict[str, Bound] = {
    "data": "input", "host": "host", "synchronisation": "synchronisation", "copy": "copy",
    "communication": "communication", "unrecorded": "unknown", "other": "unknown",
}  # fmt: skip
_WORDS: dict[Bound, str] = {
    "input": "Input-bound: {time} the device waits for data",
    "host": "Host-bound: {time} the device waits for the host to launch something",
    "device": "Device-bound: kernels compute {time}",
    "communication": "Communication-bound: {time} only communication runs",
    "copy": "Copy-bound: {time} the device only copies, or waits for copies",
    "synchronisation": "Synchronisation-bound: {time} the device is empty because the host had waited for it",
    "cpu": "CPU-bound: operators take {time}; no accelerator takes part",
    "unknown": "Not clear what limits the step: {time} nothing runs on the device, and nothing shows why",
}
_ALSO: dict[Bound, str] = {
    "input": "{time} the device waits for data",
    "host": "{time} it waits for the host",
    "communication": "{time} only communication runs",
    "copy": "{time} it only copies",
    "synchronisation": "{time} it is empty after the host had waited for it",
}
"""What is said of the second largest part, if it is notable."""
_ON_CPU: dict[Bound, str] = {
    "input": "Input-bound: {time} the program waits for data",
    "host": "Host-bound: {time} Python runs outside of all operators",
    "communication": "Communication-bound: {time} the program is in collectives",
}
_ALSO_ON_CPU: dict[Bound, str] = {
    "input": "{time} it waits for data",
    "host": "{time} Python runs outside of all operators",
    "communication": "{time} it is in collectives",
}
_COMPUTING: dict[Bound, str] = {"device": "{time} kernels compute", "cpu": "{time} operators run"}


def verdict(profile: Profile) -> Bottleneck:
    """Name the limit of the step, in words; `unknown` if the profile does not show it."""
    if profile.is_snapshot or profile.is_log:
        return _memory(profile) if profile.is_snapshot else _compilation(profile)
    if host_only(profile):
        return Bottleneck(bound="unknown", sentence=f"Not clear what limits the step: {HOST_ONLY}")
    if what := reading.missing(profile):
        return Bottleneck(bound="unknown", sentence=f"Not clear what limits the step: {what}")
    if _facts.beginning(profile) >= _facts.MOSTLY:
        return Bottleneck(bound="unknown", sentence=f"Not clear what limits a step: {beginning(profile)}")
    if renews_workers(profile) and profile.reconciled is not None:
        spent = profile.reconciled.workers_ns * 1e-9 * reading.slowdown(profile) / reading.turn(profile)
        sentence = f"Input-bound: {percent(spent)} of the loop is spent on new loader workers in every epoch"
        return Bottleneck(bound="input", sentence=sentence, share=spent)
    parts = shares(profile)
    bound = limit(profile, parts)
    part = together(profile, parts)[0] if bound == "communication" else parts.get(bound)
    if part is None or not profile.overview.step_ns:
        nothing = "Not clear what limits the step: the trace has no work in it"
        return Bottleneck(bound="unknown", sentence=nothing)
    words = _WORDS[bound] if profile.overview.devices else _ON_CPU.get(bound, _WORDS[bound])
    sentence = words.format(time=f"{percent(part)} of the {_length(profile)}")
    sentence += _computing(parts, bound, part)
    sentence += _second(parts, bound, _ALSO if profile.overview.devices else _ALSO_ON_CPU)
    if bound == "unknown" and (wait := empty_wait(profile) or not_recorded(profile)):
        sentence = f"Not clear what limits the step: {wait}"
    else:
        sentence += _silent(profile, parts)
    late = straggler(profile) if bound == "communication" else None
    sentence += f"; {arrivals(late)}" if late is not None else ""
    between = profile.overview.between_ns / max(1, profile.overview.between_ns + profile.overview.step_ns)
    if between > HALF and profile.reconciled is None:
        sentence += f"; {percent(between)} of all the time passes between steps"
    return Bottleneck(bound=bound, sentence=sentence, share=part)


def renews_workers(profile: Profile) -> bool:
    """Whether starting, ending and first waiting for a loader's workers is what limits the untraced loop."""
    plain = profile.reconciled
    spent = plain.workers_ns * 1e-9 * reading.slowdown(profile) if plain is not None else 0.0
    return spent >= reading.CONSIDERABLE * reading.turn(profile) > 0


def _memory(profile: Profile) -> Bottleneck:
    """The peak of a memory snapshot, what holds it, and the line that allocated most of what is not older."""
    fullest = max(profile.memory, key=lambda memory: memory.peak or 0)
    sentence = f"Memory alone: {fullest.device} has {show(fullest.peak or 0, 'B')} allocated at its peak"
    if not fullest.live or not fullest.peak:
        return Bottleneck(bound="memory", sentence=sentence)
    held = [f"{name} {percent(size / fullest.peak)}" for name, size in fullest.holders if size > 0][:4]
    sentence += f": {', '.join(held)}" if held else ""
    known = [row for row in fullest.live if row.operator != OLDER]
    if not known:
        return Bottleneck(bound="memory", sentence=sentence)
    part = known[0].bytes / fullest.peak
    sentence += f"; {percent(part)} of it was allocated by {known[0].operator}"
    return Bottleneck(bound="memory", sentence=sentence, share=part)


def _compilation(profile: Profile) -> Bottleneck:
    """Report what torch.compile compiled, and how much of it again."""
    rows = profile.compilations
    again = [row for row in rows if row.reasons]
    spent, repeated = (sum(row.total_ns for row in each) * 1e-9 for each in (rows, again))
    sentence = f"Compilation alone: torch.compile compiles {count(len(rows), 'time')} for {show(spent, 's')}"
    sentence += f"; {len(again)} of them compile something again, {show(repeated, 's')}" if again else ""
    return Bottleneck(bound="compilation", sentence=sentence, share=repeated / spent if spent else None)


def beginning(profile: Profile) -> str:
    """`6.83 s of the 6.84 s that were recorded are initialisation (cudaFree)`."""
    rows = _facts.host_work(profile, *_facts.BEGINNING)
    spent = sum(row.host_ns for row in rows) * 1e-9
    first = max(rows, key=lambda row: row.host_ns)
    what = {"capture": "capturing graphs", "autotuning": "trying kernels"}.get(first.kind, first.kind)
    names = f" ({first.names[0][0]})" if first.names else ""
    whole = profile.window_ns or profile.overview.step_ns * profile.overview.steps
    return f"{show(spent, 's')} of the {show(whole * 1e-9, 's')} that were recorded are {what}{names}"


def empty_wait(profile: Profile) -> str:
    """The call in which the host waits for work that the file does not show; "" if that is not much."""
    seconds = _empty_seconds(profile)
    if reading.share(profile, seconds) < reading.CONSIDERABLE or profile.workload is None:
        return ""
    call = profile.workload.empty_waits[0].call
    return (
        f"{percent(reading.share(profile, seconds))} of it the host waits in {call} for the device,"
        " and the file shows no work of the device"
    )


def not_recorded(profile: Profile) -> str:
    """Say how much of the step no event explains; "" if that is not much."""
    seconds = reading.unrecorded(profile)
    if reading.share(profile, seconds) < reading.CONSIDERABLE:
        return ""
    own = profile.overview.profiling_ns > profile.overview.unrecorded_ns / 2
    what = "the profiler took or wrote out its buffers" if own else "nothing was recorded"
    return f"{what} {reading.times(profile, seconds)}"


def _silent(profile: Profile, parts: dict[Bound, float]) -> str:
    """Report time that no event explains: a share like the others, or time behind a wait that has its own."""
    silent, unknown = reading.share(profile, reading.unrecorded(profile)), parts.get("unknown", 0.0)
    if min(silent, unknown) >= reading.NOTABLE:
        return f"; {percent(min(silent, unknown))} of it was not recorded"
    behind = bool(profile.overview.devices) and silent >= reading.NOTABLE
    return "; what the host did after the wait was not recorded" if behind else ""


def _empty_seconds(profile: Profile) -> float:
    waits = profile.workload.empty_waits if profile.workload is not None else []
    return reading.per_step(profile, sum(row.idle_ns for row in waits))


def _second(parts: dict[Bound, float], bound: Bound, words: dict[Bound, str]) -> str:
    """The next largest part, so that nothing hides right below the threshold."""
    others = {
        each: part
        for each, part in parts.items()
        if each != bound and each in words and part >= reading.NOTABLE
    }
    second = max(others, key=lambda each: others[each], default=None)
    return "; " + words[second].format(time=percent(others[second])) if second else ""


def _computing(parts: dict[Bound, float], bound: Bound, part: float) -> str:
    """Computing, where it takes more of the step than what is told to limit it."""
    computes = max(_COMPUTING, key=lambda each: parts.get(each, 0.0))
    if bound in ("communication", "unknown", *_COMPUTING) or parts.get(computes, 0.0) <= part:
        return ""
    return "; " + _COMPUTING[computes].format(time=percent(parts[computes]))


def host_only(profile: Profile) -> bool:
    """Whether the file shows only the host of a program that works on an accelerator."""
    if profile.overview.devices or profile.kernels:
        return False
    if profile.launches is not None and profile.launches.lost:
        return True
    ranges = [row.name for row in profile.annotations] + [row.name for row in profile.operators]
    return any(_ACCELERATED.search(name) for name in ranges)


def arrivals(late: Straggler) -> str:
    """`rank 7 arrives last in 5 of 8 collectives and causes 81 % of all waiting`."""
    return (
        f"rank {late.rank} arrives last in {late.last_arrivals} of {late.collectives} collectives"
        f" and causes {percent(late.share)} of all waiting"
    )


def straggler(profile: Profile) -> Straggler | None:
    """The one rank that the others mostly wait for, whatever the order of the list."""
    worst = max(profile.stragglers, key=lambda each: each.share, default=None)
    return worst if worst is not None and worst.share >= LATE else None


def limit(profile: Profile, parts: dict[Bound, float]) -> Bound:
    """The bound of these shares.

    Communication goes before idle time of the host: collectives keep a device busy until the last rank has
    come, so where they outweigh computing, what the other ranks do between them is hidden in the waiting."""
    other = {bound: part for bound, part in parts.items() if bound not in ("device", "cpu", "unknown")}
    talks, computes = together(profile, parts)
    if talks >= max(reading.CONSIDERABLE, computes):
        return "communication"
    worst = max(other, key=lambda bound: other[bound], default=None)
    if worst is not None and other[worst] >= reading.CONSIDERABLE:
        return worst
    return max(parts, key=lambda bound: parts[bound], default="unknown")


def shares(profile: Profile) -> dict[Bound, float]:
    """Shares of the steps by what could give the time back; {} when nothing is known.

    Time when kernels compute, when only communication or copies run, and idle time by its cause, 1 in all.
    Without an accelerator: data wait, collectives, operators, and Python outside of them."""
    if not profile.overview.devices:
        return _on_cpu(profile)
    uses = profile.overview.devices
    window = (profile.window_ns or profile.overview.step_ns * profile.overview.steps) * len(uses)
    if window <= 0:
        return {}
    bounds: dict[Bound, float] = {
        "device": sum(use.compute_ns for use in uses) / window,
        "communication": sum(use.exposed_communication_ns for use in uses) / window,
        "copy": sum(use.exposed_copy_ns for use in uses) / window,
    }
    idle = sum(use.idle_ns for use in uses) / window
    causes = profile.overview.idle.causes if profile.overview.idle is not None else []
    for cause in causes:
        bound = _CAUSES[cause.cause]
        bounds[bound] = bounds.get(bound, 0.0) + idle * cause.share_of_idle
    if not causes:
        bounds["unknown"] = idle
    # The same with what hides as work of the host, or behind a wait, counted as what it is: waiting for data,
    # initialisation, work that the file does not show.
    parts = _move(bounds, reading.share(profile, mistaken(profile)), ("host",), "input")
    prepared = _facts.host_seconds(profile, "preprocessing")
    parts = _move(parts, reading.share(profile, prepared), ("host", "synchronisation"), "input")
    begun = _facts.host_seconds(profile, *_facts.BEGINNING)
    parts = _move(parts, reading.share(profile, begun), ("synchronisation", "host", "copy"), "unknown")
    parts = _move(
        parts, reading.share(profile, _empty_seconds(profile)), ("synchronisation", "copy"), "unknown"
    )
    # What a wait for the device lets come to light, and is no launching, stays the host's own work.
    busy = reading.share(profile, _facts.host_seconds(profile, "compilation", "collection"))
    return _move(parts, max(0.0, busy - parts.get("host", 0.0)), ("synchronisation",), "host")


def _move(parts: dict[Bound, float], part: float, origin: tuple[Bound, ...], to: Bound) -> dict[Bound, float]:
    """Shares with so much taken from the first of these bounds that have it, and given to another one."""
    moved = dict(parts)
    for each in origin:
        taken = min(part, moved.get(each, 0.0))
        if taken > 0:
            moved[each] -= taken
            moved[to] = moved.get(to, 0.0) + taken
            part -= taken
    return moved


def together(profile: Profile, parts: dict[Bound, float]) -> tuple[float, float]:
    """Shares of communication alone and of computing: of all ranks together if there are several."""
    steps = sum(row.step_ns * row.steps for row in profile.ranks)
    if len(profile.ranks) < 2 or steps <= 0:
        return parts.get("communication", 0.0), parts.get("device", parts.get("cpu", 0.0))
    if not profile.overview.devices:
        talks = sum(row.breakdown.communication_ns * row.steps for row in profile.ranks)
        return talks / steps, sum(row.breakdown.cpu_ns * row.steps for row in profile.ranks) / steps
    talks = sum(row.exposed_communication_ns for row in profile.ranks)
    return talks / steps, sum(row.compute_ns for row in profile.ranks) / steps


def _on_cpu(profile: Profile) -> dict[Bound, float]:
    overview = profile.overview
    if overview.step_ns <= 0:
        return {}
    parts = overview.breakdown
    timed = sum(step.data_wait_ns for step in profile.steps) / max(1, len(profile.steps))
    prepared = _facts.host_seconds(profile, "preprocessing")
    waited = reading.untraced_wait(profile)
    data = max(parts.dataloader_ns, timed) if waited is None else waited * overview.step_ns
    data = max(data, mistaken(profile) * 1e9, prepared * 1e9)
    data = min(overview.step_ns, data)
    # A profiler slows a loader down otherwise than operators: the rest is shared as it was traced.
    left = max(0, overview.step_ns - data - parts.communication_ns)
    traced = max(1, overview.step_ns - max(parts.dataloader_ns, timed) - parts.communication_ns)
    # A range that the program has marked counts as computing there, whatever runs in it.
    busy = overview.threads_busy if profile.reconciled is None else None
    ran = parts.cpu_ns if busy is None else min(parts.cpu_ns, busy * overview.step_ns)
    operators = min(left, ran if waited is None else ran * left / traced)
    rest = max(0, overview.step_ns - data - operators - parts.communication_ns)
    silent = min(rest, overview.unrecorded_ns)
    return {
        "input": data / overview.step_ns,
        "communication": parts.communication_ns / overview.step_ns,
        "cpu": operators / overview.step_ns,
        "host": (rest - silent) / overview.step_ns,
        **({"unknown": silent / overview.step_ns} if silent else {}),
    }


def _length(profile: Profile) -> str:
    """`12.3 ms step`; without an accelerator that of the untraced steps, if they are known in parts."""
    plain = profile.reconciled
    if plain is None or profile.overview.devices or not plain.parts_ns:
        return f"{show(profile.overview.step_ns * 1e-9, 's')} {'traced ' if plain is not None else ''}step"
    return f"{show(plain.untraced_ns * 1e-9, 's')} step (untraced)"
