"""The tables of one rank: operators, kernels, modules, memory, launches, copies, the critical path.

Times and sizes are of the whole file unless a title says "per step"."""

import re
from collections.abc import Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any

from laptime.records.profile import Profile
from laptime.records.tables import CriticalPath, LiveAtPeak, Memory, OperatorRow, PathRow
from laptime.reports import document as doc
from laptime.reports.document import Extra, Table
from laptime.reports.documents.profile import words
from laptime.reports.documents.profile.charts import bar
from laptime.reports.fields import Field, table

_STACKED = 20
_FRAMES = 8  # rows of a table that carry their call stacks, and frames of each stack: pages stay small
KINDS = {
    "kernel": ("kernels", "kernel"),
    "communication": ("collectives", "communication"),
    "copy": ("copies", "memcpy"),
    "gap": ("gaps between activities", "memset"),
    "latency": ("launch latency", "memset"),
    "launch": ("runtime calls", "runtime"),
    "synchronisation": ("after a wait for the device", "waiting"),
    "data": ("waiting for data", "dataloader"),
    "operator": ("operators on the host", "cpu"),
    "python": ("Python", "python"),
    "unrecorded": ("not recorded", "other"),
}
"""What people read for each kind, and the class of its colour."""
_LEAST = 0.05  # share of the step below which a kind is on the page only
_FOLDED = 8  # rows of the table in Markdown; a terminal has the bars alone, with what takes most of each kind


def frames(stack: Sequence[str], caption: str = "called from") -> list[Extra]:
    """A call stack, innermost frame first, cut after some frames; nothing for an empty one."""
    if not stack:
        return []
    more = [f"and {len(stack) - _FRAMES} more frames"] if len(stack) > _FRAMES else []
    return [Extra(caption=caption, lines=[*stack[:_FRAMES], *more])]


def operators(profile: Profile) -> list[Table]:
    """Tabulate operators by name, and by name and shapes."""
    on_device = any(row.device_total_ns for row in profile.operators)
    self_ns = "device_self_ns" if on_device else "host_self_ns"
    total = sum(getattr(row, self_ns) for row in profile.operators)
    host = "host" if on_device else "CPU"
    share = Field("share", lambda row: getattr(row, self_ns) / total if total else None, "share", brief=True)
    launched, children = "of what it launched itself", "with what its child operators launched"
    note = "without child operators and own runtime calls"
    fields = [
        Field("operator", lambda row: words.operator(row.name, 64), "code", brief=True),
        Field("input shapes", lambda row: words.shorten(row.shapes, 48), "code"),
        Field("device self", "device_self_ns", "time", launched, bar=True, brief=on_device),
        *([share] if on_device else []),
        Field("device total", "device_total_ns", "time", children, brief=on_device),
        Field(f"{host} self", "host_self_ns", "time", note, bar=not on_device, brief=True),
        *([] if on_device else [share]),
        Field(f"{host} total", "host_total_ns", "time", "with them", brief=not on_device),
        Field("calls", "calls", "count", brief=True),
        Field("kernels", "kernels", "count", "device activities that it launched itself"),
        Field(
            "tensor cores",
            lambda row: row.tensor_core_self if row.tensor_core_eligible or row.tensor_core_self else None,
            "share",
            "share of its own device time; empty if it could not use them",
        ),
        Field("types", lambda row: _types(row.dtypes), "code"),
    ]
    timed = sum(getattr(row, self_ns) > 0 for row in profile.operators)
    brief, folded = min(timed, 5 if profile.ranks else 8), min(timed, 8)
    rows = profile.operators_by_shape if any(row.shapes for row in profile.operators_by_shape) else []
    full = lambda row: f"{row.name} {row.shapes}".strip() if len(row.shapes) > 48 else row.name  # noqa: E731
    make = partial(table, fields=fields, full=full, extras=_stacks)
    return [
        make("operators", rows=profile.operators, title="by name", brief=brief, folded=folded),
        make("operators_by_shape", rows=rows, title="by name and shape", most=100),
    ]


def _types(texts: Sequence[str]) -> str:
    """The types of the tensors of the most frequent call, `float, c10::Half`; others begin with a capital."""
    names = re.findall(r"\b[a-z][\w: ]*", texts[0]) if texts else []
    return words.shorten(", ".join(dict.fromkeys(name.removeprefix("c10::") for name in names)), 24)


def _stacks(row: OperatorRow, index: int) -> list[Extra]:
    extras = list[Extra]()
    for stack in row.stacks[:2] if index < _STACKED else ():
        time = f"{words.time(stack.host_self_ns)} host self"
        if stack.device_self_ns:
            time += f", {words.time(stack.device_self_ns)} device self"
        extras += frames(stack.frames, f"{stack.calls:,} calls, {time}")
    return extras


def kernels(profile: Profile) -> list[Table]:
    """Tabulate kernels by name, and by launching operator and launch configuration."""
    total = sum(row.total_ns for row in profile.kernels)
    fields = [
        Field("kernel", lambda row: words.kernel(row.name, 72), "code", brief=True),
        Field("launched by", lambda row: words.operator(row.operator, 40), "code"),
        Field("total", "total_ns", "time", bar=True, brief=True),
        Field("share", lambda row: row.total_ns / total if total else None, "share", brief=True),
        Field("calls", "calls", "count", brief=True),
        Field("mean", "mean_ns", "short", brief=True),
        Field("shortest", "min_ns", "short"),
        Field("longest", "max_ns", "short"),
        Field("blocks per SM", "blocks_per_sm", "number", "mean, weighted by duration"),
        Field("occupancy", "occupancy", "share", "estimated achieved occupancy, weighted by duration"),
        Field(
            "tensor cores",
            lambda row: "yes" if row.tensor_cores else "could" if row.operator_eligible else "",
            note="could: launched by an operator that can use them",
            brief=any(row.tensor_cores for row in profile.kernels),
        ),
        Field("family", lambda row: row.family or "unknown", note="as its name says"),
        Field("group", lambda row: "" if row.group == "compute" else row.group),
        Field("grid", "grid", "code"),
        Field("block", "block", "code"),
        Field("registers", "registers", "count", "per thread"),
        Field("shared memory", "shared_memory", "bytes"),
    ]
    by_launch, full = profile.kernels_by_launch, lambda row: words.shorten(row.name, 700)
    return [
        table("kernels", fields, profile.kernels, title="by name", brief=5, full=full),
        table("kernels_by_launch", fields, by_launch, title="by operator and launch", most=100),
    ]


def modules(profile: Profile) -> list[Table]:
    """The nn.Module tree, forward and backward."""
    on_device = any(row.device_total_ns for row in profile.modules)
    fields = [
        Field("module", "name", "code"),
        Field("calls", "calls", "count"),
        Field("operators", "operators", "count", "called directly in it"),
        Field("device", "device_total_ns", "time", "forward, child modules included", bar=on_device),
        Field("device self", "device_self_ns", "time", "forward, without child modules"),
        Field(
            "device backward", "backward_device_ns", "time", "of operators inside it, child modules included"
        ),
        Field("host", "host_total_ns", "time", "forward, child modules included", bar=not on_device),
        Field("host self", "host_self_ns", "time", "forward, without child modules"),
        Field("host backward", "backward_host_ns", "time"),
    ]
    return [table("modules", fields, profile.modules, tree=True)]


def compilations(profile: Profile) -> list[Table]:
    """Tabulate what torch.compile compiled, and why it compiled again."""
    fields = [
        Field("compilation", "id", "code"),
        Field("function", lambda row: words.operator(row.function), "code", brief=True),
        Field("at", "place", "code", brief=True),
        Field("took", "total_ns", "time", bar=True, brief=True),
        Field(
            "because", lambda row: words.operator(row.failed or "; ".join(row.reasons[:1]), 110), brief=True
        ),
    ]
    return [table("compilations", fields, profile.compilations, most=100, brief=8)]


def memory(memory: Memory, index: int) -> list[Table]:
    """Tabulate the memory that was alive at the peak, and how much each operator allocated."""
    alive = [
        Field("alive at the peak", lambda row: words.operator(row.operator), "code", brief=True),
        Field("bytes", "bytes", "bytes", bar=True, brief=True),
        Field("blocks", lambda row: row.blocks or None, "count", brief=True),
    ]
    unknown = LiveAtPeak(
        operator="allocated before the trace began", bytes=memory.unknown_live or 0, blocks=0
    )
    fields = [
        Field("allocated by", lambda row: words.operator(row.operator), "code"),
        Field("calls", "calls", "count"),
        Field("allocations", "allocations", "count"),
        Field("allocated", "allocated", "bytes", "child operators included", bar=True),
        Field("allocated, self", "self_allocated", "bytes"),
        Field("increase", "increase", "bytes", "allocated less freed, child operators included"),
        Field("increase, self", "self_increase", "bytes"),
    ]
    return [
        table(f"live-{index}", alive, [*memory.live, *[unknown] * bool(unknown.bytes)], most=60, brief=8),
        table(f"memory-{index}", fields, memory.operators, most=80),
    ]


def launches(profile: Profile) -> list[Table]:
    """Operators by number of launches, and runtime calls by name."""
    if profile.launches is None:
        return []
    fields = [
        Field("operator", lambda row: words.operator(row.operator), "code"),
        Field("launches", "launches", "count", bar=True),
        Field("host", "host_ns", "time", "in launch calls"),
        Field("device", "device_ns", "time", "of what it launched"),
        Field("median delay", "delay_median_ns", "short", "end of the launch call to start of the work"),
        Field("short", "short", "count", "kernels shorter than their launch call"),
    ]
    calls = [
        Field("runtime call", itemgetter(0), "code"),
        Field("calls", itemgetter(1), "count"),
        Field("host", itemgetter(2), "time", bar=True),
    ]
    return [
        table("launches", fields, profile.launches.per_operator, title="by operator", most=100),
        table("calls", calls, profile.launches.calls, key=itemgetter(0), title="by call", most=60),
    ]


def copies(profile: Profile) -> list[Table]:
    """Copies by direction and kind of host memory."""
    fields = [
        Field("direction", lambda row: row.direction or row.id),
        Field("host memory", "memory"),
        Field("calls", "calls", "count"),
        Field("total", "total_ns", "time", bar=True),
        Field("exposed", "exposed_ns", "time", "while no kernel ran"),
        Field("bytes", "bytes", "bytes"),
        Field("bandwidth", "bandwidth", "rate"),
        Field("blocking", "blocking", note="calls that returned only when the copy was done"),
        Field("caused by", lambda row: words.first_operator(row.operators), "code"),
    ]
    return [table("copies", fields, profile.copies, extras=partial(_causes, caption="caused by"))]


def _causes(row: Any, index: int, *, caption: str = "") -> list[Extra]:
    """The operators behind a row, if there are several, and its call stack."""
    named = getattr(row, "operators", ())[:6]
    lines = [f"{words.time(ns)}  {words.operator(name)}" for name, ns in named]
    return [Extra(caption=caption, lines=lines)] * (len(lines) > 1) + frames(row.stack)


def synchronisations(profile: Profile) -> list[Table]:
    """Calls in which the host waited for the device."""
    fields = [
        Field("call", "call", "code"),
        Field("by operator", lambda row: words.operator(row.operator), "code"),
        Field("calls", "calls", "count"),
        Field("host waits", "wait_ns", "time", "in all steps", bar=True),
        Field("where", lambda row: words.place(row.stack), "code"),
    ]
    rows = profile.overview.synchronisations
    key = lambda row: f"{row.call} {row.operator}".strip()  # noqa: E731
    return [table("synchronisations", fields, rows, key=key, extras=_causes, most=100)]


def idle(profile: Profile) -> list[Table]:
    """Return why the device was idle, per step, and what the host did meanwhile."""
    idle, steps = profile.overview.idle, max(profile.overview.steps, 1)
    causes = sorted(idle.causes, key=lambda cause: -cause.total_ns) if idle and idle.total_ns else []
    fields = [
        Field("cause", lambda row: words.CAUSES[row.cause]),
        Field("per step", lambda row: row.total_ns / steps, "time", bar=True),
        Field("share of idle", "share_of_idle", "share"),
        Field("gaps", "gaps", "count"),
        Field("longest", "longest_ns", "time"),
        Field("meanwhile on the host", lambda row: words.first_operator(row.operators), "code"),
        Field("where", lambda row: words.place(row.stack), "code"),
    ]
    rows = [cause for cause in causes if cause.total_ns]
    extras = partial(_causes, caption="meanwhile on the host")
    return [table("idle", fields, rows, key=attrgetter("cause"), extras=extras)]


def primitives(profile: Profile) -> list[Table]:
    """Tabulate the primitives that oneDNN ran in one step."""
    fields = [
        Field("primitive", "kind", "code"),
        Field("implementation", "implementation", "code"),
        Field("shapes", lambda row: words.shorten(row.shapes, 80), "code"),
        Field("calls", "calls", "count"),
        Field("total", "total_ns", "time", bar=True),
    ]
    return [table("primitives", fields, profile.primitives, most=200)]


def critical_path(profile: Profile) -> doc.Section:
    """Empty for a file without one."""
    path = profile.critical_path
    note = "The chain of work and waits without a gap that decides how long the step takes."
    blocks = [_bars(path), _path(path)] if path else []
    title = "Critical path"
    return doc.Section(id="critical-path", title=title, note=note, blocks=blocks, folded=True)


def _bars(path: CriticalPath) -> doc.Bars:
    rows = []
    for kind, ns in path.kinds_ns.items():
        name, colour = _kind(kind)
        rows.append(bar(colour, name, ns, path.total_ns, note=_longest(path, kind), least=_LEAST))
    note = f"decides {words.time(path.total_ns)} of step {path.step}"
    return doc.Bars(title="path", note=note, rows=rows, whole=path.total_ns / 1e9, stacked=True)


def _kind(kind: str) -> tuple[str, str]:
    """Its name and colour; a kind of a newer laptime goes by its own."""
    return KINDS.get(kind, (kind, "other"))


def _longest(path: CriticalPath, kind: str) -> str:
    """The user's line of what takes most of a kind; its name if no line is known."""
    row = next((row for row in path.rows if row.kind == kind and row.name), None)
    if row is None:
        return ""
    return words.place(row.stack) or _name(row, 24)


def _path(path: CriticalPath) -> doc.Table:
    fields = [
        Field("on the critical path", _name, "code", brief=True),
        Field("kind", lambda row: _kind(row.kind)[0], brief=True),
        Field("time", "total_ns", "time", bar=True, brief=True),
        Field("share", lambda row: row.total_ns / (path.total_ns or 1), "share", brief=True),
        Field("parts", "parts", "count", "stretches of the path"),
        Field("longest", "longest_ns", "short"),
        Field("where", lambda row: words.place(row.stack), "code", "of the longest", brief=True),
    ]
    full = lambda row: words.shorten(row.name, 300)  # noqa: E731
    extras = lambda row, index: frames(row.stack)  # noqa: E731
    return table("path", fields, path.rows, full=full, extras=extras, folded=_FOLDED)


def _name(row: PathRow, width: int = 48) -> str:
    on_device = row.kind in ("kernel", "communication", "copy")
    return (words.kernel if on_device else words.operator)(row.name, width) if row.name else "others"
