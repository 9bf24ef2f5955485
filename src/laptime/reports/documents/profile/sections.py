"""The sections of the report: bars, sentences, charts, tables, advice, memory, timeline, files."""

from functools import partial
from typing import Any

from msgspec import structs

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.check import Finding
from laptime.records.profile import Profile
from laptime.records.run import Run
from laptime.records.tables import Memory
from laptime.reports import _words
from laptime.reports import document as doc
from laptime.reports.document import Advice
from laptime.reports.documents import verdicts
from laptime.reports.documents.profile import charts, facts, jobs, roofline, tables, words
from laptime.reports.documents.profile.tables import frames
from laptime.reports.fields import Field, table
from laptime.rules import _reading as reading

_PRIORITY = (
    "Each instant belongs to the first of these that it has: kernel, copy, communication, runtime call, "
    "DataLoader, CPU. What runs behind a kernel is not seen here."
)


def sections(run: Run, profile: Profile) -> list[doc.Section]:
    """All sections in reading order; what is empty falls away when it is shown."""
    compiled = _tables("by-compilation", "Compilations", "By torch.compile.", tables.compilations(profile))
    if profile.is_snapshot or profile.is_log:  # nothing of what follows has times of steps
        return [_next(run, profile), compiled, _memory(profile), _files(run, profile)]
    why = [charts.breakdown(profile), charts.idle(profile)]
    why += [] if profile.overview.devices else [charts.phases(profile)]
    file = f"Over the whole file, {count(profile.overview.steps, 'step')}."
    against, title, blocks = profile.against, "Against", list[doc.Block]()
    if against is not None:
        title = f"Against {against.before}"
        blocks = [doc.Text(text=against.sentence), *_views(jobs.differences(profile))]
    return [
        doc.Section(id="against", title=title, lead=True, blocks=blocks),
        doc.Section(
            id="limit",
            title="What limits the step",
            headed=False,
            lead=True,
            blocks=[doc.Facts(rows=limit(profile))],
        ),
        doc.Section(id="why", title="Why", lead=True, blocks=why),
        charts.calls(profile),
        _time(profile),
        _tables("idle-time", "Why the device was idle", facts.idle(profile), tables.idle(profile)),
        _tables("synchronised", "Synchronisations", "In all steps.", tables.synchronisations(profile)),
        _use(profile),
        _tables("by-operator", "Operators", f"{file} Sums of durations.", tables.operators(profile)),
        roofline.section(profile),
        tables.critical_path(profile),
        _tables("by-kernel", "Kernels", file, tables.kernels(profile)),
        _tables("by-module", "Modules", f"{file} Forward, beside backward.", tables.modules(profile)),
        _tables("by-launch", "Launches", _launches(profile), tables.launches(profile)),
        _tables("by-copy", "Copies", file, tables.copies(profile)),
        compiled,
        _ranks(run, profile),
        _tables("by-collective", "Collectives", "Most waiting first.", jobs.collectives(profile)),
        _tables("by-primitive", "oneDNN primitives", "For one step.", tables.primitives(profile)),
        _next(run, profile),
        charts.timeline(profile),
        _memory(profile),
        _files(run, profile),
    ]


def limit(profile: Profile) -> list[tuple[str, str]]:
    """Name the limit of the step when the verdict says what changed against an earlier job instead."""
    if profile.against is None:
        return []
    return [("limit", f"{words.bound(profile)}: {words.sentence(profile)}")]


def _tables(id: str, title: str, note: str, views: list[doc.Table]) -> doc.Section:
    """Tables alone; on a terminal the head of a table says what it is."""
    return doc.Section(id=id, title=title, note=note, blocks=_views(views), headed=False, folded=True)


def _views(views: list[doc.Table]) -> list[doc.Block]:
    """Tables with rows: several are views of one thing, one alone needs no title."""
    filled = [table for table in views if table.rows]
    if len(filled) > 1:
        return [doc.Views(tables=filled)]
    return [structs.replace(each, title="") for each in filled]


def _next(run: Run, profile: Profile) -> doc.Section:
    blocks: list[doc.Block] = [advice(finding, run, profile) for finding in run.findings]
    nothing = doc.Text(text="No rule found anything to change.")
    return doc.Section(id="next", title="Next", lead=True, blocks=blocks or [nothing])


def _time(profile: Profile) -> doc.Section:
    steps = profile.steps
    note = f"{'some of ' if len(steps) > charts.STEPS else ''}{count(len(steps), 'step')}"
    drawn = doc.Chart(title="Each step", note=note, plot=partial(charts.steps, steps), half=True)
    devices = profile.overview.devices
    panels = [
        *[drawn] * bool(steps),
        *([charts.phases(profile)] if devices else []),
        charts.draw_untraced(profile),
    ]
    return doc.Section(
        id="time",
        title="Where the time of a step goes",
        note=_PRIORITY if devices else "",
        blocks=[doc.Facts(rows=facts.facts(profile)), doc.Panels(blocks=panels, detail="page")],
    )


def _use(profile: Profile) -> doc.Section:
    """Use of each device, and the length of its queue, over the window."""
    devices = profile.overview.devices
    curves = [
        doc.Chart(
            title=f"Device {use.device} busy" if len(devices) > 1 else "Device busy",
            plot=partial(charts.use, use.busy_curve, profile.steps, label="share of time busy"),
        )
        for use in devices[:8]
        if use.busy_curve
    ]
    queue = profile.launches.queue_curve if profile.launches else []
    if queue and max(queue) > 0:
        curves.append(
            doc.Chart(
                title="Launched and not yet started, mean",
                plot=partial(charts.use, queue, profile.steps, top=max(queue) * 1.1, label="queued work"),
            )
        )
    note = "Over all steps; dashed lines are the steps' borders."
    return doc.Section(id="use", title="The device over time", note=note, blocks=curves, detail="page")


def _launches(profile: Profile) -> str:
    launches = profile.launches
    if launches is None or not profile.overview.devices:
        return ""
    short = f"{launches.short:,} kernels shorter than their launch call" if launches.short else ""
    most = f"{launches.queue_max:,} queued at most"
    return "; ".join(filter(None, [*facts.launches(profile), most, short])) + "."


def _ranks(run: Run, profile: Profile) -> doc.Section:
    is_finding = any("straggler" in finding.kind for finding in run.findings)
    stragglers = [("straggler", text) for text in facts.stragglers(profile)]
    more = f" The first {charts.RANKS} of {len(profile.ranks)} are drawn." * (
        len(profile.ranks) > charts.RANKS
    )
    return doc.Section(
        id="by-rank",
        title="Ranks",
        note=f"Times per step.{more} Other tables are those of rank {profile.rank}; --rank shows another's.",
        blocks=[
            charts.ranks(profile),
            *_views(jobs.ranks(profile)),
            doc.Facts(rows=stragglers, detail="folded" if is_finding else "brief"),
        ],
        headed=False,
        folded=True,
    )


def _memory(profile: Profile) -> doc.Section:
    blocks = [_device_memory(memory, index) for index, memory in enumerate(profile.memory)]
    detail: doc.Detail = "brief" if profile.is_snapshot else "page"
    return doc.Section(id="memory", title="Memory", blocks=blocks, detail=detail)


def _device_memory(memory: Memory, index: int) -> doc.Group:
    parts = [facts.peak(memory), f"{memory.events:,} allocations and frees"]
    if memory.kinds and memory.curve:
        at = max(range(len(memory.curve)), key=lambda number: memory.curve[number].allocated)
        held = [f"{name} {words.size(sizes[at])}" for name, sizes in memory.kinds if any(sizes[at : at + 1])]
        parts.append(f"at the peak {', '.join(held)}")
    if memory.never_freed:
        parts.append(f"{count(memory.never_freed, 'block')} not freed in the file")
    by = "what holds it" if memory.holders else "the phase of the step that allocated it"
    title = f"allocated, by {by}" if memory.kinds else ""
    curve = [doc.Chart(title=title, plot=partial(charts.memory, memory))] if len(memory.curve) > 1 else []
    blocks = [*curve, *(table for table in tables.memory(memory, index) if table.rows)]
    return doc.Group(
        id=f"memory-of-{index}", title=memory.device, note=", ".join(filter(None, parts)), blocks=blocks
    )


def _files(run: Run, profile: Profile) -> doc.Section:
    fields = [
        Field("file", lambda file: file.name + (" (truncated)" if file.truncated else "")),
        Field("rank", lambda file: "" if file.rank is None else str(file.rank)),
        Field("events", "events", "count"),
        Field("JSON", "bytes", "bytes"),
        Field("format", "format"),
    ]
    rows = [(name.replace("_", " "), str(value)) for name, value in profile.facts.items()]
    for device in profile.accelerators:
        parts = [device.name, f"compute capability {device.capability}" if device.capability else ""]
        parts += [
            f"{device.sms} SMs" if device.sms else "",
            show(device.memory, "B") if device.memory else "",
        ]
        rows.append((f"device {device.id}", ", ".join(filter(None, parts))))
    if run.command:
        rows.append(("command", _words.command(run)))
    if run.verb == "profile":
        rows += run.environment.libraries.items()
    blocks = [
        table("trace-files", fields, profile.files),
        doc.Notices(rows=[verdicts.doubt(check, next=check.next) for check in run.checks]),
        doc.Folded(title="What the file says of itself", blocks=[doc.Facts(rows=rows)]),
    ]
    return doc.Section(id="files", title="Files", blocks=blocks, detail="page")


def advice(finding: Finding, run: Run, profile: Profile) -> Advice:
    """One finding of a run; the gain is an upper bound per step."""
    gain, whole = finding.gain or 0.0, reading.turn(profile) / reading.slowdown(profile)
    # A row is on the page by its name, but the memory of a device is a group with a number.
    anchors = {f"memory/{each.device}": f"memory-of-{index}" for index, each in enumerate(profile.memory)}
    of = "the loop" if reading.turn(profile) * (1 - reading.WORTH) > reading.step(profile) else "a step"
    return Advice(
        severity=finding.severity,
        sentence=finding.sentence,
        gain=show(gain, "s") if gain else "",
        share=f"{words.percent(min(1.0, gain / whole))} of {of}" if gain and whole else "",
        change=finding.change,
        place=words.place(finding.stack),
        commands=words.commands(finding, run),
        stack=frames(finding.stack) if len(finding.stack) > 1 else [],
        evidence=[
            (name.replace("_", " "), _evidence(name, value)) for name, value in finding.evidence.items()
        ],
        links=[(anchors.get(row, row), _row_name(row)) for row in finding.rows],
    )


def _row_name(row: str) -> str:
    table, _, key = row.partition("/")
    if table.startswith("kernels"):
        return words.kernel(key, 44)
    return f"rank {key}" if table == "ranks" else words.operator(key, 44)


def _evidence(name: str, value: Any) -> str:
    """A piece of evidence with the unit that its name ends in."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_evidence(str(key), item)}" for key, item in list(value.items())[:8])
    if isinstance(value, list | tuple):
        return ", ".join(_evidence(name, item) for item in value[:8])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _words.printable(value)
    if name.endswith("_ns") or "_ns_" in name:
        return words.time(value)
    if "share" in name and 0 <= value <= 1:
        return words.percent(value)
    if "bytes" in name:
        return show(float(value), "B")
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"
