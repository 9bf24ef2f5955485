"""The page of a profile: *Verdict / Why / Next* first, then the overview, every table, and one step drawn.

One file, complete without its script: tables are HTML, charts are SVG; only the timeline needs the script.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from markupsafe import Markup

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.records.run import Run
from laptime.reports import _words
from laptime.reports._onefile import asset, plain, policy, template
from laptime.reports._profile import drawings, rows, words
from laptime.reports._profile import rows_of_many as many
from laptime.reports._profile.cards import cards
from laptime.reports._profile.drawings import Part
from laptime.reports._profile.drawn_timeline import packed
from laptime.reports._profile.grid import Extra, Table


class Section(NamedTuple):
    """Tables of one topic: several are views of the same thing, one shown at a time."""

    id: str
    title: str
    note: str
    tables: list[Table]


class Advice(NamedTuple):
    """A finding as a card; `links`: (anchor, words) of the rows it rests on."""

    severity: str
    sentence: str
    gain: str
    share: str
    change: str
    commands: list[str]
    place: str
    extras: list[Extra]
    evidence: list[tuple[str, str]]
    links: list[tuple[str, str]]


class Device(NamedTuple):
    """The memory of a device: its curve and its tables."""

    id: str
    title: str
    facts: str
    curve: Markup | None
    tables: list[Table]


class Bars(NamedTuple):
    """Rows of bars on one scale: (name, drawing, number)."""

    rows: list[tuple[str, Markup, str]]
    legend: list[Part]


def render(run: Run, profile: Profile) -> str:
    """The whole page."""
    style, script = asset("page.css", "profile.css"), asset("shell.js", "profile.js", "timeline.js")
    sections = _sections(run, profile)
    synchronisations = rows.synchronisations(profile, _wanted(run))
    idle = rows.idle(profile)
    memories = _memories(profile)
    own = drawings.breakdown(profile.overview.breakdown)
    anchors = _anchors([t for s in sections for t in s.tables] + synchronisations, memories, idle)
    return template(asset("grid.html", "profile.html")).render(
        run=run,
        profile=profile,
        title=plain(words.title(run)).removeprefix("…/"),
        where=words.where(run),
        policy=policy(style, script),
        style=Markup(style),  # noqa: S704 (a file of ours)
        script=Markup(script),  # noqa: S704
        bound=words.bound(profile),
        because=_because(profile),
        dial=drawings.dial(profile.verdict.share if profile.verdict else None),
        advices=[_advice(finding, profile, anchors) for finding in run.findings],
        cards=cards(profile),
        parts=own,
        why=drawings.band(own, label="parts of the mean step"),
        steps=drawings.steps(profile.steps) if profile.steps else None,
        ring=drawings.ring(
            own,
            centre=words.time(profile.overview.step_ns),
            below="mean step" if profile.overview.steps > 1 else "the step",
        ),
        drawn_steps=drawings.STEPS,
        idle=idle,
        idle_parts=(idle_parts := _idle_parts(profile)),
        idle_band=drawings.band(idle_parts, label="idle time of the device by cause"),
        phases=_phases(profile),
        reconciled=_reconciled(profile),
        curves=_curves(profile),
        synchronisations=synchronisations,
        sections=sections,
        memories=memories,
        ranks=_ranks(profile),
        timeline=packed(profile.timeline) if profile.timeline else "",
        warnings=words.warnings(run),
        facts=_facts(run, profile),
        words=words,
        sentence=sentence,
        percent=_words.percent,
        show=show,
    )


def _because(profile: Profile) -> str:
    """The verdict's sentence without the word that stands above it."""
    if profile.verdict is None:
        return "The trace does not tell what limits the step."
    text, bound = profile.verdict.sentence, f"{words.bound(profile)}: "
    return sentence(text[len(bound) :] if text.lower().startswith(bound.lower()) else text)


def _wanted(run: Run) -> rows.Wanted:
    keys: dict[str, list[str]] = {}
    for finding in run.findings:
        for row in finding.rows:
            table, _, key = row.partition("/")
            keys.setdefault(table, []).append(key)
    return lambda table: keys.get(table, ())


def _sections(run: Run, profile: Profile) -> list[Section]:
    """Every topic with tables, in the order of the page."""
    wanted = _wanted(run)
    file = f"Over the whole file, {count(profile.overview.steps, 'step')}."
    modules = f"{file} Forward, beside the backward of the same operators."
    made = [
        Section("by-operator", "Operators", f"{file} Sums of durations.", rows.operators(profile, wanted)),
        Section("by-kernel", "Kernels", file, rows.kernels(profile, wanted)),
        Section("by-module", "Modules", modules, rows.modules(profile, wanted)),
        Section("by-launch", "Launches", _launched(profile), rows.launches(profile, wanted)),
        Section("by-copy", "Copies", file, rows.copies(profile, wanted)),
        Section("by-rank", "Ranks", "Times per step.", many.ranks(profile, wanted)),
        Section("by-collective", "Collectives", "Those with most waiting first.", many.collectives(profile)),
        Section("by-primitive", "oneDNN primitives", "Of one step.", rows.primitives(profile)),
        Section("against", "Difference", "", many.differences(profile)),
    ]
    return [section for section in made if section.tables]


def _launched(profile: Profile) -> str:
    seen = profile.launches
    if seen is None:
        return ""
    told = [
        f"{seen.launches:,} launches",
        f"median {words.time(seen.host_median_ns)} in the call, {words.time(seen.delay_median_ns)} until the "
        f"work starts (p95 {words.time(seen.delay_p95_ns)})",
        f"{seen.queue_mean:.3g} queued on average, {seen.queue_max:,} at most",
    ]
    told += [f"{seen.short:,} kernels shorter than their launch call"] if seen.short else []
    told += [f"{seen.tiny:,} below 10 us"] if seen.tiny else []
    told += [f"{seen.graph:,} replayed by CUDA graphs"] if seen.graph else []
    told += [f"{seen.unlaunched:,} without a launch in the file"] if seen.unlaunched else []
    return "; ".join(told) + "."


def _anchors(tables: Iterable[Table], memories: Sequence[Device], idle: Sequence[Table]) -> dict[str, str]:
    """Where in the page a row is, by `table/key`."""
    found = {f"{own.id}/{key}": anchor for own in tables for key, anchor in own.anchors.items()}
    found |= {f"idle/{key}": anchor for own in idle for key, anchor in own.anchors.items()}
    return found | {f"memory/{device.title}": device.id for device in memories}


def _advice(finding: Finding, profile: Profile, anchors: dict[str, str]) -> Advice:
    step = profile.overview.step_ns
    gain, share = (finding.gain or 0.0), ""
    if gain and step:
        share = f"{_words.percent(min(1.0, gain * 1e9 / step))} of a step"
    links = [(anchors[row], _linked(row)) for row in finding.rows if row in anchors]
    if finding.rows and not links:
        table = finding.rows[0].partition("/")[0]
        links = [(first, table) for key, first in anchors.items() if key.startswith(f"{table}/")][:1]
    return Advice(
        finding.severity,
        sentence(finding.sentence),
        show(gain, "s") if gain else "",
        share,
        finding.change,
        words.steps_to_take(finding),
        plain(words.place(finding.stack)),
        rows.frames(finding.stack) if len(finding.stack) > 1 else [],
        [(name.replace("_", " "), _evidence(name, value)) for name, value in finding.evidence.items()],
        links,
    )


def _linked(row: str) -> str:
    """A row as a link says it."""
    table, _, key = row.partition("/")
    if table.startswith("kernels"):
        return words.kernel(key, 44)
    return f"rank {key}" if table == "ranks" else words.operator(key, 44)


def sentence(text: str) -> str:
    """The text with a large first letter, unless it begins with a name from a program."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text


def _evidence(name: str, value: Any) -> str:
    """A number of the evidence with the unit that its name tells."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        if isinstance(value, dict):
            return ", ".join(f"{key} {_evidence(str(key), item)}" for key, item in list(value.items())[:8])
        if isinstance(value, list | tuple):
            return ", ".join(_evidence(name, item) for item in value[:8])
        return plain(value)
    if name.endswith("_ns") or "_ns_" in name:
        return words.time(value)
    if "share" in name and 0 <= value <= 1:
        return _words.percent(value)
    if "bytes" in name:
        return show(float(value), "B")
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"


def _idle_parts(profile: Profile) -> list[Part]:
    seen = profile.overview.idle
    steps = max(profile.overview.steps, 1)
    causes = sorted(seen.causes, key=lambda each: -each.total_ns) if seen else []
    return drawings.parts(
        {f"idle-{each.cause}": (words.CAUSES[each.cause], each.total_ns / steps) for each in causes}
    )


def _phases(profile: Profile) -> Bars:
    """Phases of the loop; a second bar for the device where there is one."""
    seen = profile.overview.phases
    longest = max([p.host_ns for p in seen] + [p.device_ns or 0 for p in seen] + [1])
    made = []
    for phase in seen:
        for where, ns in (("host", phase.host_ns), ("device", phase.device_ns or 0)):
            if ns or where == "host":
                part = Part(f"on-{where}", f"{phase.name} on the {where}", ns, words.time(ns), ns / longest)
                name = plain(phase.name) if where == "host" else ""
                bar = drawings.band([part], label=part.words, whole=longest, height=12)
                made.append((name, bar, words.time(ns)))
    both = any(phase.device_ns is not None for phase in seen)
    legend = [Part(f"on-{where}", where, 0, "", 0) for where in ("host", "device")] if both else []
    return Bars(made, legend)


def _reconciled(profile: Profile) -> Bars:
    """The step without the profiler, in parts, beside the profiled one."""
    seen = profile.reconciled
    if seen is None:
        return Bars([], [])
    longest = max(seen.untraced_ns, seen.traced_ns)
    own = drawings.parts({f"phase-{name}": (name, ns) for name, ns in seen.parts_ns.items()})
    whole = [Part("other", "step", seen.untraced_ns, words.time(seen.untraced_ns), 1.0)]
    traced = [Part("other", "profiled step", seen.traced_ns, words.time(seen.traced_ns), 1.0)]
    return Bars(
        [
            (name, drawings.band(parts, label=name, whole=longest, height=16), words.time(ns))
            for name, parts, ns in (
                ("untraced", own or whole, seen.untraced_ns),
                ("profiled", traced, seen.traced_ns),
            )
        ],
        own,
    )


def _curves(profile: Profile) -> list[tuple[str, Markup]]:
    """Use of each device and length of the queue over the window."""
    several = len(profile.overview.devices) > 1
    made = [
        (
            f"Device {each.device} busy" if several else "Device busy",
            drawings.curve(each.busy_curve, profile.steps, top=1.0, unit="%", label="share of time busy"),
        )
        for each in profile.overview.devices[:8]
        if each.busy_curve
    ]
    queue = profile.launches.queue_curve if profile.launches else []
    if queue and max(queue) > 0:
        drawn = drawings.curve(queue, profile.steps, top=max(queue) * 1.1, unit="", label="queued work")
        made.append(("Launched and not yet started, mean", drawn))
    return made


def _memories(profile: Profile) -> list[Device]:
    made = []
    for index, own in enumerate(profile.memory):
        told = []
        if own.peak is not None:
            of = (
                f" of {show(own.capacity, 'B')} ({_words.percent(own.peak / own.capacity)})"
                if own.capacity
                else ""
            )
            told.append(f"peak {show(own.peak, 'B')}{of}")
        if own.reserved_peak:
            told.append(f"reserved {show(own.reserved_peak, 'B')}")
        told.append(f"{own.events:,} allocations and frees")
        if own.never_freed:
            told.append(f"{own.never_freed:,} blocks not freed in the file")
        drawn = drawings.memory(own) if len(own.curve) > 1 else None
        made.append(Device(f"memory-of-{index}", own.device, ", ".join(told), drawn, rows.memory(own, index)))
    return made


def _ranks(profile: Profile) -> Bars:
    """A bar for each rank, all on one scale; the communication of each is split into waiting and transfer."""
    seen = profile.ranks[:64]
    longest = max((row.step_ns for row in seen), default=1)
    made = []
    for row in seen:
        own = drawings.breakdown(row.breakdown)
        made.append(
            (
                f"rank {row.rank}",
                drawings.band(own, label=f"rank {row.rank}", whole=longest, height=16),
                words.time(row.step_ns),
            )
        )
        if row.waiting_ns is not None and row.transfer_ns is not None:
            steps = max(row.steps, 1)
            both = drawings.parts(
                {
                    "waiting": ("waiting for later ranks", row.waiting_ns / steps),
                    "transfer": ("transfer", row.transfer_ns / steps),
                }
            )
            if both:
                drawn = drawings.band(both, label="collectives", whole=longest, height=8)
                made.append(("", drawn, f"{words.time(row.waiting_ns / steps)} waiting"))
    legend = drawings.breakdown(profile.overview.breakdown)
    if any(row.waiting_ns is not None for row in seen):
        legend = [
            *legend,
            Part("waiting", "waiting in collectives", 0, "", 0),
            Part("transfer", "transfer", 0, "", 0),
        ]
    return Bars(made, legend)


def _facts(run: Run, profile: Profile) -> list[tuple[str, str]]:
    """Scalars of the file, and the machine that read it."""
    made = [(name.replace("_", " "), str(value)) for name, value in profile.facts.items()]
    for each in profile.accelerators:
        told = [each.name, f"compute capability {each.capability}" if each.capability else ""]
        told += [f"{each.sms} SMs" if each.sms else "", show(each.memory, "B") if each.memory else ""]
        made.append((f"device {each.id}", ", ".join(filter(None, told))))
    if run.command:
        made.append(("command", _words.command(run)))
    if run.verb == "profile":
        facts = msgspec.to_builtins(run.environment.libraries)
        made += [(name, str(version)) for name, version in facts.items()]
    return made
