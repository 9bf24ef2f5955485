"""The tables of one rank: operators, kernels, modules, memory, launches, copies and the like."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from laptime.records.profile import Profile
from laptime.records.tables import KernelRow, Memory, OperatorRow, StackRow
from laptime.reports._profile import words
from laptime.reports._profile.grid import Column, Extra, Row, Table, table

_STACKED = 40
_FRAMES = 8
"""Rows of a table that carry their call stacks, and frames of each stack: pages stay small."""

Wanted = Callable[[str], Iterable[str]]
"""Keys of the rows of a table that findings speak of."""


def frames(stack: Sequence[str], caption: str = "called from") -> list[Extra]:
    """A call stack as an extra, innermost first, cut after some frames."""
    if not stack:
        return []
    more = [f"and {len(stack) - _FRAMES} more frames"] if len(stack) > _FRAMES else []
    return [Extra(caption, [*stack[:_FRAMES], *more])]


def operators(profile: Profile, wanted: Wanted) -> list[Table]:
    """By name, and by name and shapes."""
    if not profile.operators:
        return []
    cpu = not any(row.device_total_ns for row in profile.operators)
    columns = [
        Column("operator", "code"),
        Column("input shapes", "code"),
        *([] if cpu else [Column("device self", "time", "of what it launched itself", bar=True)]),
        *([] if cpu else [Column("device total", "time", "with what its child operators launched")]),
        Column("host self", "time", "without child operators and own runtime calls", bar=cpu),
        Column("host total", "time", "with them"),
        Column("calls", "count"),
        Column("kernels", "count", "device activities that it launched itself"),
        Column("tensor cores", "share", "share of its own device time; empty where it could not use them"),
        Column("types", "code"),
    ]
    made = []
    for id, title, rows in (
        ("operators", "by name", profile.operators),
        ("operators_by_shape", "by name and shape", profile.operators_by_shape),
    ):
        shown = [_operator(row, cpu, stacks=index < _STACKED) for index, row in enumerate(rows)]
        if id == "operators" or any(row.shapes for row in rows):
            made.append(table(id, columns, shown, title=title, wanted=wanted(id), most=_most(id)))
    return made


def _most(id: str) -> int:
    return 250 if id in ("operators_by_shape", "kernels_by_launch") else 400


def _operator(row: OperatorRow, cpu: bool, *, stacks: bool) -> Row:
    device = [] if cpu else [row.device_self_ns, row.device_total_ns]
    found = [extra for stack in row.stacks[:2] for extra in _stack(stack)] if stacks else []
    return Row(
        row.id,
        [
            words.operator(row.name, 64),
            _cut(row.shapes, 48),
            *device,
            row.host_self_ns,
            row.host_total_ns,
            row.calls,
            row.kernels,
            row.tensor_core_self if row.tensor_core_eligible or row.tensor_core_self else None,
            _types(row.dtypes),
        ],
        full=f"{row.name} {row.shapes}".strip() if len(row.shapes) > 48 else row.name,
        extras=found,
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _types(texts: Sequence[str]) -> str:
    """The types of the tensors of the most frequent call, `float, c10::Half`; others begin with a capital."""
    named = re.findall(r"\b[a-z][\w: ]*", texts[0]) if texts else []
    return _cut(", ".join(dict.fromkeys(name.removeprefix("c10::") for name in named)), 24)


def _stack(stack: StackRow) -> list[Extra]:
    spent = f"{words.time(stack.host_self_ns)} host self"
    if stack.device_self_ns:
        spent += f", {words.time(stack.device_self_ns)} device self"
    return frames(stack.frames, f"{stack.calls:,} calls, {spent}")


def kernels(profile: Profile, wanted: Wanted) -> list[Table]:
    """By name, and by launching operator and launch configuration."""
    columns = [
        Column("kernel", "code"),
        Column("launched by", "code"),
        Column("total", "time", bar=True),
        Column("calls", "count"),
        Column("mean", "short"),
        Column("shortest", "short"),
        Column("longest", "short"),
        Column("blocks per SM", "number", "mean, weighted by duration"),
        Column("occupancy", "share", "estimated achieved occupancy, weighted by duration"),
        Column("tensor cores", "text", "could: launched by an operator that can use them"),
        Column("group", "text"),
        Column("grid", "code"),
        Column("block", "code"),
        Column("registers", "count", "per thread"),
        Column("shared memory", "bytes"),
    ]
    made = []
    for id, title, rows in (
        ("kernels", "by name", profile.kernels),
        ("kernels_by_launch", "by operator and launch", profile.kernels_by_launch),
    ):
        if rows:
            shown = [_kernel(row) for row in rows]
            made.append(table(id, columns, shown, title=title, wanted=wanted(id), most=_most(id)))
    return made


def _kernel(row: KernelRow) -> Row:
    cores = "yes" if row.tensor_cores else "could" if row.operator_eligible else ""
    values = (
        words.kernel(row.name, 64),
        words.operator(row.operator, 40),
        row.total_ns,
        row.calls,
        row.mean_ns,
        row.min_ns,
        row.max_ns,
        row.blocks_per_sm,
        row.occupancy,
        cores,
        "" if row.group == "compute" else row.group,
        row.grid,
        row.block,
        row.registers,
        row.shared_memory,
    )
    return Row(row.id, values, full=_cut(row.name, 300 if row.operator else 700))


def modules(profile: Profile, wanted: Wanted) -> list[Table]:
    """The nn.Module tree, forward and backward."""
    device = any(row.device_total_ns for row in profile.modules)
    columns = [
        Column("module", "code"),
        Column("calls", "count"),
        Column("operators", "count", "called directly in it"),
        Column("device", "time", "forward, child modules included", bar=device),
        Column("device self", "time", "forward, without child modules"),
        Column("device backward", "time", "backward of operators inside it, child modules included"),
        Column("host", "time", "forward, child modules included", bar=not device),
        Column("host self", "time", "forward, without child modules"),
        Column("host backward", "time"),
    ]
    rows = [
        Row(
            row.id,
            [
                row.name,
                row.calls,
                row.operators,
                row.device_total_ns,
                row.device_self_ns,
                row.backward_device_ns,
                row.host_total_ns,
                row.host_self_ns,
                row.backward_host_ns,
            ],
            depth=row.depth,
        )
        for row in profile.modules
    ]
    return [table("modules", columns, rows, wanted=wanted("modules"))] if rows else []


def memory(own: Memory, index: int) -> list[Table]:
    """What was alive at the peak, and who allocated how much."""
    made = []
    live = [Row(row.operator, [words.operator(row.operator), row.bytes, row.blocks]) for row in own.live]
    if own.unknown_live:
        live.append(Row("unknown", ["allocated before the trace began", own.unknown_live, None]))
    if live:
        columns = [
            Column("alive at the peak", "code"),
            Column("bytes", "bytes", bar=True),
            Column("blocks", "count"),
        ]
        made.append(table(f"live-{index}", columns, live, most=60))
    rows = [
        Row(
            row.operator,
            [
                words.operator(row.operator),
                row.calls,
                row.allocations,
                row.allocated,
                row.self_allocated,
                row.increase,
                row.self_increase,
            ],
        )
        for row in own.operators
    ]
    columns = [
        Column("operator", "code"),
        Column("calls", "count"),
        Column("allocations", "count"),
        Column("allocated", "bytes", "child operators included", bar=True),
        Column("allocated, self", "bytes"),
        Column("increase", "bytes", "allocated less freed, child operators included"),
        Column("increase, self", "bytes"),
    ]
    return [*made, table(f"memory-{index}", columns, rows, most=120)] if rows else made


def launches(profile: Profile, wanted: Wanted) -> list[Table]:
    """Runtime calls by name, and operators by number of launches."""
    seen = profile.launches
    if seen is None:
        return []
    calls = [Row(name, [name, number, ns]) for name, number, ns in seen.calls]
    rows = [
        Row(
            row.operator,
            [
                words.operator(row.operator),
                row.launches,
                row.host_ns,
                row.device_ns,
                row.delay_median_ns,
                row.short,
            ],
        )
        for row in seen.per_operator
    ]
    made = []
    if rows:
        columns = [
            Column("operator", "code"),
            Column("launches", "count", bar=True),
            Column("host", "time", "in launch calls"),
            Column("device", "time", "of what it launched"),
            Column("median delay", "short", "end of the launch call to start of the work"),
            Column("short", "count", "kernels shorter than their launch call"),
        ]
        made.append(
            table("launches", columns, rows, title="by operator", wanted=wanted("launches"), most=100)
        )
    if calls:
        columns = [Column("runtime call", "code"), Column("calls", "count"), Column("host", "time", bar=True)]
        made.append(table("calls", columns, calls, title="by call", most=60))
    return made


def copies(profile: Profile, wanted: Wanted) -> list[Table]:
    """Copies by direction and kind of host memory."""
    columns = [
        Column("direction"),
        Column("host memory"),
        Column("calls", "count"),
        Column("total", "time", bar=True),
        Column("exposed", "time", "while no kernel ran"),
        Column("bytes", "bytes"),
        Column("bandwidth", "rate"),
        Column("blocking", "text", "calls that returned only when the copy was done"),
        Column("caused by", "code"),
    ]
    rows = [
        Row(
            row.id,
            [
                row.direction or row.id,
                row.memory,
                row.calls,
                row.total_ns,
                row.exposed_ns,
                row.bytes,
                row.bandwidth,
                row.blocking,
                words.some(row.operators, 1),
            ],
            extras=[*_named(row.operators, "caused by"), *frames(row.stack)],
        )
        for row in profile.copies
    ]
    return [table("copies", columns, rows, wanted=wanted("copies"))] if rows else []


def _named(operators: Sequence[tuple[str, int]], caption: str) -> list[Extra]:
    lines = [f"{words.time(ns)}  {words.operator(name)}" for name, ns in operators[:6]]
    return [Extra(caption, lines)] if len(lines) > 1 else []


def synchronisations(profile: Profile, wanted: Wanted) -> list[Table]:
    """Calls that made the host wait for the device."""
    columns = [
        Column("call", "code"),
        Column("by operator", "code"),
        Column("calls", "count"),
        Column("host waits", "time", "in all steps", bar=True),
        Column("where", "code"),
    ]
    rows = [
        Row(
            f"{row.call} {row.operator}".strip(),
            [row.call, words.operator(row.operator), row.calls, row.wait_ns, words.place(row.stack)],
            extras=frames(row.stack),
        )
        for row in profile.overview.synchronisations
    ]
    id = "synchronisations"
    return [table(id, columns, rows, wanted=wanted(id), most=100)] if rows else []


def idle(profile: Profile) -> list[Table]:
    """Why the device was idle, per step, with what the host was doing."""
    seen = profile.overview.idle
    if seen is None or not seen.total_ns:
        return []
    steps = max(profile.overview.steps, 1)
    columns = [
        Column("cause"),
        Column("per step", "time", bar=True),
        Column("share of idle", "share"),
        Column("gaps", "count"),
        Column("longest", "time"),
        Column("meanwhile on the host", "code"),
        Column("where", "code"),
    ]
    rows = [
        Row(
            cause.cause,
            [
                words.CAUSES[cause.cause],
                cause.total_ns / steps,
                cause.share_of_idle,
                cause.gaps,
                cause.longest_ns,
                words.some(cause.operators, 1),
                words.place(cause.stack),
            ],
            extras=[*_named(cause.operators, "meanwhile on the host"), *frames(cause.stack)],
        )
        for cause in sorted(seen.causes, key=lambda each: -each.total_ns)
        if cause.total_ns
    ]
    return [table("idle-causes", columns, rows)]


def primitives(profile: Profile) -> list[Table]:
    """What oneDNN ran in one step."""
    columns = [
        Column("primitive", "code"),
        Column("implementation", "code"),
        Column("shapes", "code"),
        Column("calls", "count"),
        Column("total", "time", bar=True),
    ]
    rows = [
        Row(str(index), [row.kind, row.implementation, _cut(row.shapes, 80), row.calls, row.total_ns])
        for index, row in enumerate(profile.primitives)
    ]
    return [table("primitives", columns, rows, most=200)] if rows else []
