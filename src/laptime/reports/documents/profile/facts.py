"""The sentences of a profile, one topic after the other, and its key numbers.

Durations are per step if they say so."""

from collections import Counter
from collections.abc import Callable, Iterator

from laptime.kit.text import count
from laptime.kit.units import estimate, show, show_interval
from laptime.records.overview import DeviceUse
from laptime.records.profile import Profile
from laptime.records.tables import Memory
from laptime.reports import _words
from laptime.reports.document import Card
from laptime.reports.documents.profile import words

_DEVICES = 4  # devices with a sentence of their own
_SECOND = 0.1  # a second kind of copies below this share of the first has no sentence
_SHORT = 0.005  # waits and copies below this share of the steps have none
_UNKNOWN = 0.02  # kernels of unknown families below this share of compute are not told
_HOST_WORK = {
    "capture": "graphs are captured",
    "initialisation": "initialisation",
    "autotuning": "kernels are tried",
    "compilation": "compilation",
    "collection": "garbage collection",
    "preprocessing": "samples are prepared in the loop",
    "stretch": "the host launches nothing",
}
_TITLES = {"data": "waiting for data"}


def facts(profile: Profile) -> list[tuple[str, str]]:
    """(topic, sentence) in reading order; a further sentence of the same topic has the topic ""."""
    rows = []
    for topic, sentences in _TOPICS.items():
        for index, text in enumerate(sentences(profile)):
            rows.append(("" if index else topic, _words.printable(text)))
    return rows


def step(profile: Profile) -> str:
    """The mean step, its median and the range of all."""
    overview = profile.overview
    lengths = sorted(step.end_ns - step.start_ns for step in profile.steps)
    if overview.steps < 2 or len(lengths) < 2:
        return f"{words.time(overview.step_ns)}, one step"
    ends = f"{words.time(lengths[0])} to {words.time(lengths[-1])}"
    median = words.time(overview.step_median_ns)
    return f"{words.time(overview.step_ns)} mean, {median} median, {ends} ({count(overview.steps, 'step')})"


def idle(profile: Profile) -> str:
    """Say how long the device was idle."""
    overview = profile.overview
    if overview.idle is None:
        return ""
    share = words.share(overview.idle.total_ns, overview.idle.window_ns)
    return f"{_per_step(overview.idle.total_ns, profile)} a step ({share}) without work on the device"


def stragglers(profile: Profile) -> list[str]:
    """Ranks that others wait for."""
    return [
        _words.printable(
            f"rank {row.rank} reaches {row.last_arrivals} of {count(row.collectives, 'collective')} last and "
            f"causes {words.percent(row.share)} of all waiting ({words.time(row.caused_ns)})"
            + (f"; {row.why}" if row.why else "")
        )
        for row in profile.stragglers[:3]
    ]


def _workload(profile: Profile) -> Iterator[str]:
    traced = profile.workload
    if traced is None or traced.kind == "unknown":
        return
    parts = (
        [f"{traced.server}, {traced.stage}" if traced.stage else traced.server]
        if traced.server
        else [traced.kind]
    )
    parts += [f"optimizer {traced.optimizer}"] if traced.optimizer else []
    replayed = f"{words.percent(traced.graph_share)} of the device's activities replayed from graphs"
    parts += ["compiled"] if traced.compiled else []
    parts += [replayed] if traced.graph_share else [] if traced.compiled else ["eager"]
    parts += [f"gradients exchanged as {traced.gradient_dtype}"] if traced.gradient_dtype else []
    parts += ["a DataLoader"] if traced.loader else []
    yield ", ".join(parts)
    for row in traced.host_work[:3]:
        names = ", ".join(words.operator(name, 48) for name, _ in row.names[:2])
        yield (
            f"{_HOST_WORK[row.kind]}: {words.time(row.host_ns)} in all, {words.time(row.longest_ns)} at a"
            " time" + (f" ({names})" if names else "")
        )


def _say_untraced(profile: Profile) -> Iterator[str]:
    untraced = profile.reconciled
    if untraced is None:
        return
    ends = [ns / 1e9 for ns in untraced.untraced_ci95_ns or ()]
    interval = show_interval((ends[0], ends[1]), untraced.untraced_ns / 1e9, "s") if ends else ""
    yield (
        f"{estimate(words.time(untraced.untraced_ns), interval)} ({count(untraced.untraced_steps, 'step')}); "
        f"{words.time(untraced.traced_ns)} under the profiler, {untraced.slowdown:.2f}x as long"
    )
    if untraced.parts_ns:
        yield ", ".join(
            f"{name} {words.time(ns)} ({words.share(ns, untraced.untraced_ns)})"
            for name, ns in untraced.parts_ns.items()
            if ns
        )
    if untraced.note:
        yield untraced.note


def _devices(profile: Profile) -> Iterator[str]:
    devices = profile.overview.devices
    for use in devices[:_DEVICES]:
        parts = [f"kernels run {words.percent(use.utilization)} of the time"]
        for name, share in (("SM efficiency", use.sm_efficiency), ("occupancy", use.occupancy)):
            parts += [] if share is None else [f"{name} {words.percent(share)}"]
        if use.tensor_core_share is not None:
            eligible = use.tensor_core_eligible or 0.0
            more = f" ({words.percent(eligible)} could)" if eligible > use.tensor_core_share else ""
            parts.append(f"tensor cores {words.percent(use.tensor_core_share)} of compute{more}")
        if (use.unknown_share or 0.0) >= _UNKNOWN:
            kernels = count(use.unknown_kernels, "kernel")
            parts.append(
                f"{words.percent(use.unknown_share or 0.0)} of compute in {kernels} of unknown families"
            )
        yield (f"device {use.device}: " if len(devices) > 1 else "") + ", ".join(parts)
    if len(devices) > _DEVICES:
        yield f"and {count(len(devices) - _DEVICES, 'more device')}"


def _host(profile: Profile) -> Iterator[str]:
    """The phases of the loop; without a device they are bars."""
    phases = profile.overview.phases
    if len(phases) > 1 and profile.overview.devices:
        yield ", ".join(f"{phase.name} {words.time(phase.host_ns)}" for phase in phases) + " a step"


def _synchronisations(profile: Profile) -> Iterator[str]:
    for row in sorted(profile.overview.synchronisations, key=lambda row: -row.wait_ns)[:2]:
        if row.wait_ns < profile.window_ns * _SHORT:
            continue
        operator = f" in {words.operator(row.operator, 48)}" if row.operator else ""
        place = words.place(row.stack)
        times = f"{row.calls:,} times" if row.calls > 1 else "once"
        yield (
            f"{row.call}{operator}{f' ({place})' if place else ''}: {times}, "
            f"the host waits {_per_step(row.wait_ns, profile)} a step"
        )


def _communication(profile: Profile) -> Iterator[str]:
    devices, collectives = profile.overview.devices, profile.collectives
    if total := sum(use.communication_ns for use in devices):
        exposed = sum(use.exposed_communication_ns for use in devices)
        yield (
            f"{_per_step(total, profile)} a step, of it {_per_step(exposed, profile)} "
            f"({words.share(exposed, total)}) exposed, the rest behind compute kernels"
        )
    if collectives:
        waiting = sum(row.waiting_ns for row in collectives)
        duration = sum(row.duration_ns for row in collectives)
        latest, times = Counter(row.last for row in collectives).most_common(1)[0]
        largest = max(row.skew_ns for row in collectives)
        yield (
            f"{count(len(collectives), 'collective')} on {profile.ranks_given}: "
            f"{words.share(waiting, duration)} of their time is waiting for the last to arrive, at most "
            f"{words.time(largest)} after the first; rank {latest} is last in {times}"
        )


def _copies(profile: Profile) -> Iterator[str]:
    longest = max((row.total_ns for row in profile.copies), default=0)
    for row in profile.copies[:2]:
        if row.total_ns < max(longest * _SECOND, profile.window_ns * _SHORT):
            continue
        parts = [f"{row.calls:,} x" if row.calls > 1 else "one", words.time(row.total_ns)]
        if row.bytes is not None:
            speed = f" at {show(row.bandwidth, 'B/s')}" if row.bandwidth else ""
            parts.append(f"{words.size(row.bytes)}{speed}")
        if row.exposed_ns:
            parts.append(f"{words.time(row.exposed_ns)} exposed")
        operator = f" ({words.first_operator(row.operators)})" if row.operators else ""
        name = f"{row.direction or row.id} {row.memory}".strip()
        yield f"{name}: {', '.join(parts)}{operator}"


def launches(profile: Profile) -> Iterator[str]:
    """Say how the host launches work, in one sentence."""
    launches = profile.launches
    if launches is None:
        return
    parts = []
    if launches.launches:
        calls = profile.workload.launch_calls if profile.workload is not None else launches.launches
        parts.append(
            f"{count(calls, 'call')} of {words.time(launches.host_median_ns)}, work starts "
            f"{words.time(launches.delay_median_ns)} later (p95 {words.time(launches.delay_p95_ns)}), "
            f"{launches.queue_mean:.{0 if launches.queue_mean >= 10 else 1}f} queued on average"
        )
    if launches.graph:
        parts.append(f"{_activities(launches.graph)} replayed by CUDA graphs")
    if launches.unlaunched:
        parts.append(f"{_activities(launches.unlaunched)} without a launch in the file")
    if parts and launches.tiny and (kernels := profile.overview.totals.kernels):
        parts.append(f"{words.share(launches.tiny, kernels)} of the kernels are shorter than 10 us")
    if parts:
        yield "; ".join(parts)


def _activities(number: int) -> str:
    return f"{number:,} {'activity' if number == 1 else 'activities'}"


def _memory(profile: Profile) -> Iterator[str]:
    peaked = [memory for memory in profile.memory if memory.peak is not None]
    for memory in [memory for memory in peaked if memory.device != "cpu"][:_DEVICES] or peaked[:1]:
        live = [
            f"{words.operator(row.operator, 40)} {words.size(row.bytes)}" for row in memory.live if row.bytes
        ]
        alive = f"; alive at the peak: {', '.join(live[:2])}" if live else ""
        yield f"{memory.device} {peak(memory)}{alive}"


def peak(memory: Memory) -> str:
    """The peak of a device and its share of the capacity; empty if it is not known."""
    if memory.peak is None:
        return ""
    text = f"peak {words.size(memory.peak)}"
    if memory.capacity:
        text += f" of {words.size(memory.capacity)} ({words.share(memory.peak, memory.capacity)})"
    return text + (f", reserved {words.size(memory.reserved_peak)}" if memory.reserved_peak else "")


def _threads(profile: Profile) -> Iterator[str]:
    overview, untraced = profile.overview, profile.reconciled
    busy = untraced.threads_busy if untraced else None
    parts = [
        f"operators run on {count(overview.cpu_threads, 'thread')}" if overview.cpu_threads else "",
        "" if overview.threads_busy is None else f"{overview.threads_busy:.2g} in an operator at a time",
        "" if busy is None else f"{busy:.2g} threads busy without the profiler",
    ]
    if any(parts) and profile.device_type == "cpu":
        yield ", ".join(filter(None, parts))


def _per_step(ns: float, profile: Profile) -> str:
    return words.time(ns / max(profile.overview.steps, 1))


_TOPICS: dict[str, Callable[[Profile], Iterator[str]]] = {
    "program": _workload,
    "untraced": _say_untraced,
    "device": _devices,
    "host": _host,
    "synchronised": _synchronisations,
    "communicated": _communication,
    "copies": _copies,
    "launches": launches,
    "memory": _memory,
    "threads": _threads,
    "oneDNN": lambda profile: (
        f"{row.kind} {row.implementation}: {row.calls:,} x, {words.time(row.total_ns)}"
        for row in profile.primitives[:3]
    ),
}


def cards(profile: Profile) -> list[Card]:
    """Key numbers, each with what it means."""
    if profile.is_snapshot:
        return [_peak(memory) for memory in profile.memory if memory.peak is not None]
    if profile.is_log:
        return [_sum_compiling(profile)]
    return [_step(profile), *(_device(profile) if profile.overview.devices else _cpu(profile))]


def _peak(memory: Memory) -> Card:
    note = f"{words.size(memory.reserved_peak)} reserved" if memory.reserved_peak else "allocated"
    return Card(title=f"peak of {memory.device}", figure=words.size(memory.peak or 0), note=note)


def _sum_compiling(profile: Profile) -> Card:
    again = sum(bool(row.reasons) for row in profile.compilations)
    spent = sum(row.total_ns for row in profile.compilations)
    return Card(
        title="compilation", figure=words.time(spent), note=f"{again} of {len(profile.compilations)} again"
    )


def _step(profile: Profile) -> Card:
    overview, untraced = profile.overview, profile.reconciled
    if untraced:
        note = f"{words.time(overview.step_ns)} profiled ({untraced.slowdown:.2f}x)"
        return Card(title="step time, untraced", figure=words.time(untraced.untraced_ns), note=note)
    median = f"median {words.time(overview.step_median_ns)} of {overview.steps}"
    note = median if overview.steps > 1 else "one step"
    return Card(title="step time, mean", figure=words.time(overview.step_ns), note=note)


def _device(profile: Profile) -> Iterator[Card]:
    uses, steps = profile.overview.devices, max(profile.overview.steps, 1)
    many = f"mean of {len(uses)} devices" if len(uses) > 1 else "time in which a kernel runs"
    could = _mean(uses, "tensor_core_eligible")
    for name, title, note in (
        ("utilization", "device utilisation", many),
        ("sm_efficiency", "SM efficiency", "blocks for every multiprocessor, estimated"),
        ("occupancy", "achieved occupancy", "estimated, weighted by kernel time"),
        ("tensor_core_share", "tensor cores", f"{could} could use them" if could else "of kernel time"),
    ):
        if figure := _mean(uses, name):
            yield Card(title=title, figure=figure, note=note)
    if total := sum(use.communication_ns for use in uses):
        exposed = sum(use.exposed_communication_ns for use in uses)
        note = f"a step, of {words.time(total / steps)} in all"
        yield Card(title="exposed communication", figure=words.time(exposed / steps), note=note)


def _mean(uses: list[DeviceUse], name: str) -> str:
    shares = [share for use in uses if (share := getattr(use, name)) is not None]
    return words.percent(sum(shares) / len(shares)) if shares else ""


def _cpu(profile: Profile) -> Iterator[Card]:
    overview, untraced = profile.overview, profile.reconciled
    # All parts are those of one measurement, so that they sum to no more than its step.
    parts, step_ns = {phase.name: phase.host_ns for phase in overview.phases}, overview.step_ns
    if untraced and untraced.parts_ns:
        parts, step_ns = untraced.parts_ns, untraced.untraced_ns
    for name in ("data", "forward", "backward", "optimizer"):
        if ns := parts.get(name):
            note = f"{words.share(ns, step_ns)} of a step"
            yield Card(title=_TITLES.get(name, name), figure=words.time(ns), note=note)
    if untraced and untraced.threads_busy is not None:
        note = "CPU time over wall time, untraced"
        yield Card(title="threads busy", figure=f"{untraced.threads_busy:.2f}", note=note)
    elif overview.threads_busy is not None:
        note = "inside an operator at a time"
        yield Card(title="threads busy", figure=f"{overview.threads_busy:.2f}", note=note)
