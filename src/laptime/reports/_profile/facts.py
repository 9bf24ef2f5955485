"""What a profile says beside its tables: bars that add up to a step, and one sentence a topic.

Durations are per step where they say so; tables and totals cover the whole file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.overview import Breakdown, DeviceUse
from laptime.records.profile import Profile
from laptime.reports import _words
from laptime.reports._profile import words

Fact = tuple[str, str]  # topic, sentence
_DEVICES = 4  # so many get a line of their own
_ASIDE = 0.1  # a second kind of copies below this share of the first is left to the page
_WAIT = 0.005  # so are waits and copies below this share of the steps
_SMALL = 0.001  # a part below this share of the step is not drawn


class Bar(Struct, frozen=True, kw_only=True):
    """A part of the step: its time per step, its share (0 to 1), and what and where most of it was."""

    name: str
    ns: float
    share: float
    note: str = ""
    place: str = ""


def breakdown(profile: Profile) -> list[Bar]:
    """The mean step in the plugin's parts, in the plugin's order."""
    seen = profile.overview
    return _shown(
        [
            Bar(name=words.PARTS[name], ns=ns, share=_over(ns, seen.step_ns))
            for name, ns in parts(seen.breakdown)
        ]
    )


def parts(breakdown: Breakdown) -> list[tuple[str, int]]:
    """(name, ns) of every part: `dataloader`, 59262000."""
    return [(name.removesuffix("_ns"), getattr(breakdown, name)) for name in breakdown.__struct_fields__]


def idle(profile: Profile) -> list[Bar]:
    """Why the device was idle, largest first; shares are of the step, as those of the breakdown are."""
    seen = profile.overview.idle
    if seen is None or not seen.total_ns:
        return []
    return _shown(
        [
            Bar(
                name=words.CAUSES[cause.cause],
                ns=words.each(cause.total_ns, profile.overview.steps),
                share=_over(cause.total_ns, seen.window_ns),
                note=words.some(cause.operators, 1),
                place=words.place(cause.stack),
            )
            for cause in sorted(seen.causes, key=lambda cause: -cause.total_ns)
        ]
    )


def phases(profile: Profile) -> list[Bar]:
    """Parts of the loop on the host; none where the trace tells only one."""
    seen = profile.overview
    if len(seen.phases) < 2:
        return []
    return _shown(
        [
            Bar(
                name=_words.printable(phase.name),
                ns=phase.host_ns,
                share=_over(phase.host_ns, seen.step_ns),
                note=f"{words.time(phase.device_ns)} on the device" if phase.device_ns else "",
            )
            for phase in seen.phases
        ]
    )


def idle_sentence(profile: Profile) -> str:
    """How long the device was idle."""
    seen = profile.overview.idle
    if seen is None:
        return ""
    each = words.time(words.each(seen.total_ns, profile.overview.steps))
    return f"{each} a step ({words.share(seen.total_ns, seen.window_ns)}) without work on the device"


def step(profile: Profile) -> str:
    """The mean step with what stands around it."""
    seen = profile.overview
    lengths = sorted(step.end_ns - step.start_ns for step in profile.steps)
    if seen.steps < 2 or len(lengths) < 2:
        return f"{words.time(seen.step_ns)}, one step"
    ends = f"{words.time(lengths[0])} to {words.time(lengths[-1])}"
    median = words.time(seen.step_median_ns)
    return f"{words.time(seen.step_ns)} mean, {median} median, {ends} ({count(seen.steps, 'step')})"


def facts(profile: Profile) -> list[Fact]:
    """All sentences in the order in which they are read; nothing where the trace does not tell."""
    found: list[Fact] = []
    for make in (
        _untraced,
        _devices,
        _loop,
        _waits,
        _communication,
        _copies,
        _launches,
        _memory,
        _threads,
        _onednn,
    ):
        found += make(profile)
    return [(topic, _words.printable(text)) for topic, text in found]


def _untraced(profile: Profile) -> Iterator[Fact]:
    seen = profile.reconciled
    if seen is None:
        return
    ends = f" {words.interval(seen.untraced_ci95_ns, seen.untraced_ns)}".rstrip()
    slower = f"{words.time(seen.traced_ns)} under the profiler, {seen.slowdown:.2f}x as long"
    yield (
        "untraced",
        f"{words.time(seen.untraced_ns)}{ends} ({count(seen.untraced_steps, 'step')}); {slower}",
    )
    if seen.parts_ns:
        told = ", ".join(
            f"{name} {words.time(ns)} ({words.share(ns, seen.untraced_ns)})"
            for name, ns in seen.parts_ns.items()
            if ns
        )
        yield "", told
    if seen.note:
        yield "", seen.note


def _devices(profile: Profile) -> Iterator[Fact]:
    devices = profile.overview.devices
    for use in devices[:_DEVICES]:
        yield (f"device {use.device}" if len(devices) > 1 else "device"), _device(use)
    if len(devices) > _DEVICES:
        yield "", f"and {len(devices) - _DEVICES} more devices"


def _device(use: DeviceUse) -> str:
    told = [f"kernels run {words.percent(use.utilization)} of the time"]
    if use.sm_efficiency is not None:
        told.append(f"SM efficiency {words.percent(use.sm_efficiency)}")
    if use.occupancy is not None:
        told.append(f"occupancy {words.percent(use.occupancy)}")
    if use.tensor_core_share is not None:
        could = (
            f" ({words.percent(use.tensor_core_eligible)} could)"
            if use.tensor_core_eligible and use.tensor_core_eligible > use.tensor_core_share
            else ""
        )
        told.append(f"tensor cores {words.percent(use.tensor_core_share)} of compute{could}")
    return ", ".join(told)


def _loop(profile: Profile) -> Iterator[Fact]:
    """The phases in one line; without a device they are bars."""
    seen = profile.overview
    if len(seen.phases) > 1 and seen.devices:
        yield (
            "host",
            ", ".join(f"{phase.name} {words.time(phase.host_ns)}" for phase in seen.phases) + " a step",
        )


def _waits(profile: Profile) -> Iterator[Fact]:
    steps, topic = profile.overview.steps, "synchronised"
    for seen in sorted(profile.overview.synchronisations, key=lambda each: -each.wait_ns)[:2]:
        if seen.wait_ns < profile.window_ns * _WAIT:
            continue
        by = f" in {words.operator(seen.operator, 48)}" if seen.operator else ""
        each = words.time(words.each(seen.wait_ns, steps))
        times = f"{seen.calls:,} times" if seen.calls > 1 else "once"
        yield topic, f"{seen.call}{by}{_at(seen.stack)}: {times}, the host waits {each} a step"
        topic = ""


def _communication(profile: Profile) -> Iterator[Fact]:
    devices, steps = profile.overview.devices, profile.overview.steps
    total = sum(use.communication_ns for use in devices)
    if total:
        exposed = sum(use.exposed_communication_ns for use in devices)
        yield (
            "communicated",
            f"{words.time(words.each(total, steps))} a step, of it {words.time(words.each(exposed, steps))} "
            f"({words.share(exposed, total)}) exposed, the rest behind compute kernels",
        )
    if profile.collectives:
        waiting = sum(each.waiting_ns for each in profile.collectives)
        time = sum(each.duration_ns for each in profile.collectives)
        latest, times = Counter(each.last for each in profile.collectives).most_common(1)[0]
        largest = max(each.skew_ns for each in profile.collectives)
        yield (
            "" if total else "communicated",
            f"{count(len(profile.collectives), 'collective')} on all ranks: {words.share(waiting, time)} of "
            f"their time is waiting for the last to arrive, at most {words.time(largest)} after the first; "
            f"rank {latest} is last in {times}",
        )


def _copies(profile: Profile) -> Iterator[Fact]:
    topic, most = "copies", max((row.total_ns for row in profile.copies), default=0)
    for row in profile.copies[:2]:
        if row.total_ns < max(most * _ASIDE, profile.window_ns * _WAIT):
            continue
        told = [f"{row.calls:,} x" if row.calls > 1 else "one", words.time(row.total_ns)]
        if row.bytes is not None:
            speed = f" at {show(row.bandwidth, 'B/s')}" if row.bandwidth else ""
            told.append(f"{words.size(row.bytes)}{speed}")
        if row.exposed_ns:
            told.append(f"{words.time(row.exposed_ns)} exposed")
        by = f" ({words.some(row.operators, 1)})" if row.operators else ""
        yield (
            topic,
            " ".join(filter(None, [row.direction or row.id, row.memory])) + f": {', '.join(told)}{by}",
        )
        topic = ""


def _launches(profile: Profile) -> Iterator[Fact]:
    seen = profile.launches
    if seen is None or not seen.launches + seen.unlaunched + seen.graph:
        return
    told = []
    if seen.launches:
        told.append(
            f"{count(seen.launches, 'call')} of {words.time(seen.host_median_ns)}, work starts "
            f"{words.time(seen.delay_median_ns)} later (p95 {words.time(seen.delay_p95_ns)}), "
            f"{seen.queue_mean:.{0 if seen.queue_mean >= 10 else 1}f} queued on average"
        )
    if seen.graph:
        told.append(f"{_activities(seen.graph)} replayed by CUDA graphs")
    if seen.unlaunched:
        told.append(f"{_activities(seen.unlaunched)} without a launch in the file")
    if seen.tiny and (kernels := profile.overview.totals.kernels):
        told.append(f"{words.share(seen.tiny, kernels)} of the kernels are shorter than 10 us")
    yield "launches", "; ".join(told)


def _activities(number: int) -> str:
    return f"{number:,} {'activity' if number == 1 else 'activities'}"


def _memory(profile: Profile) -> Iterator[Fact]:
    topic = "memory"
    known = [seen for seen in profile.memory if seen.peak is not None]
    for seen in [each for each in known if each.device != "cpu"][:_DEVICES] or known[:1]:
        assert seen.peak is not None
        of = (
            f" of {words.size(seen.capacity)} ({words.share(seen.peak, seen.capacity)})"
            if seen.capacity
            else ""
        )
        text = f"{seen.device} peak {words.size(seen.peak)}{of}"
        if seen.reserved_peak:
            text += f", reserved {words.size(seen.reserved_peak)}"
        if live := [row for row in seen.live if row.bytes][:2]:
            what = ", ".join(f"{words.operator(row.operator, 40)} {words.size(row.bytes)}" for row in live)
            text += f"; alive at the peak: {what}"
        yield topic, text
        topic = ""


def _threads(profile: Profile) -> Iterator[Fact]:
    seen, told = profile.overview, []
    if seen.cpu_threads:
        told.append(f"operators run on {count(seen.cpu_threads, 'thread')}")
    if seen.threads_busy is not None:
        told.append(f"{seen.threads_busy:.2g} in an operator at a time")
    if profile.reconciled and profile.reconciled.threads_busy is not None:
        told.append(f"untraced, {profile.reconciled.threads_busy:.2g} threads were busy")
    if told and profile.device_type == "cpu":
        yield "threads", ", ".join(told)


def _onednn(profile: Profile) -> Iterator[Fact]:
    topic = "oneDNN"
    for row in profile.primitives[:3]:
        yield topic, f"{row.kind} {row.implementation}: {row.calls:,} x, {words.time(row.total_ns)}"
        topic = ""


def stragglers(profile: Profile) -> Iterator[Fact]:
    """Ranks that others wait for."""
    for seen in profile.stragglers[:3]:
        why = f"; {seen.why}" if seen.why else ""
        yield (
            "straggler",
            _words.printable(
                f"rank {seen.rank} reaches {seen.last_arrivals} of {seen.collectives} collectives last and "
                f"causes {words.percent(seen.share)} of all waiting ({words.time(seen.caused_ns)}){why}"
            ),
        )


def _at(stack: list[str]) -> str:
    found = words.place(stack)
    return f" ({found})" if found else ""


def _over(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _shown(bars: list[Bar]) -> list[Bar]:
    """Those that are long enough to be seen."""
    return [bar for bar in bars if bar.share >= _SMALL]
