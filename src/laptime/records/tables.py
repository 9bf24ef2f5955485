"""The tables of a profile (operators, annotations, kernels, modules, memory, launches, copies), its critical
path and one step, event by event.

`id` is stable inside one profile; findings name rows by it (`operators/aten::item`).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class StackRow(Struct, frozen=True, kw_only=True):
    """Calls of one operator that came from one place. frames: innermost first, `file.py(12): function`."""

    frames: list[str]
    calls: int
    host_self_ns: int
    device_self_ns: int


class OperatorRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An operator, all its calls in the file together. Sums of durations, not unions.

    Attributes:
        id: its name, or name and shapes.
        shapes: `Input Dims` as written, "" in the table by name.
        host_total_ns, host_self_ns: with and without child operators and own runtime calls.
        device_total_ns, device_self_ns: of what it and its children launched; of what it launched itself.
        tensor_core_eligible: it could run on tensor cores in a lower precision.
        tensor_core_self, tensor_core_total: share of it in tensor-core kernels; None without any.
        kernels: number of device activities it launched itself.
        dtypes: `Input type`s seen, most frequent first, as JSON texts.
        stacks: the most costly places it is called from.
    """

    id: str
    name: str
    shapes: str = ""
    calls: int
    host_total_ns: int
    host_self_ns: int
    device_total_ns: int = 0
    device_self_ns: int = 0
    tensor_core_eligible: bool = False
    tensor_core_self: float | None = None
    tensor_core_total: float | None = None
    kernels: int = 0
    dtypes: list[str] = []
    stacks: list[StackRow] = []


class AnnotationRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named range that is no operator, all its occurrences in the window of the steps together.

    DataLoader, Optimizer.step, DistributedDataParallel.forward, compiled regions, the user's own.

    Attributes:
        host_ns: sum of durations. longest_ns: of one.
        operators: operators that began inside, on the same thread.
        kernels: device activities launched inside, on the same thread; device_ns: their durations.
    """

    name: str
    calls: int
    host_ns: int
    longest_ns: int = 0
    operators: int = 0
    kernels: int = 0
    device_ns: int = 0


class KernelRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kernel, by name, or by name, launching operator and launch configuration.

    Attributes:
        group: compute, communication; without operator: graph (replayed by a CUDA graph), unlaunched (the
            file has no launch of it).
        operator: that launched it, "" in the table by name.
        grid, block: "[256, 1, 1]". registers: per thread. shared_memory: bytes.
        blocks_per_sm, occupancy: means weighted by duration; occupancy 0 to 1. None where the trace has none.
        family: library and purpose as its name says; "" unknown.
    """

    id: str
    name: str
    group: str = "compute"
    family: str = ""
    operator: str = ""
    grid: str = ""
    block: str = ""
    registers: int | None = None
    shared_memory: int | None = None
    tensor_cores: bool = False
    operator_eligible: bool = False
    calls: int
    total_ns: int
    mean_ns: int
    min_ns: int
    max_ns: int
    blocks_per_sm: float | None = None
    occupancy: float | None = None


class ModuleRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node of the nn.Module tree, in tree order.

    Attributes:
        id: path of names from the root, `ResNet_0/Sequential_1/BasicBlock_0`.
        parent: id of the node above, "" for roots.
        depth: 0 for roots.
        calls: occurrences. operators: operators called directly in it.
        host_*: forward, with and without child modules. device_*: of what was launched.
        backward_host_ns, backward_device_ns: of the backward of operators inside it, children included;
            None where the trace has no arrows from forward to backward.
        source: where it comes from: "python" (with_modules), "hierarchy" (`Module Hierarchy` of operators),
            "scopes" (laptime's own module ranges).
    """

    id: str
    name: str
    parent: str = ""
    depth: int = 0
    calls: int
    operators: int = 0
    host_total_ns: int
    host_self_ns: int
    device_total_ns: int = 0
    device_self_ns: int = 0
    backward_host_ns: int | None = None
    backward_device_ns: int | None = None
    source: str = "python"


class MemoryPoint(Struct, frozen=True, array_like=True):
    """Totals after an event. `reserved` is -1 where unknown."""

    at_ns: int
    allocated: int
    reserved: int = -1


OLDER = "older than the record"
"""Holder of memory that was there when the record began, and whose stack is not known."""


class LiveAtPeak(Struct, frozen=True, kw_only=True):
    """Bytes that were alive at the peak, by the operator that allocated them."""

    operator: str
    bytes: int
    blocks: int


class MemoryRow(Struct, frozen=True, kw_only=True):
    """Allocations of one operator: bytes, with (total) and without (self) child operators."""

    operator: str
    calls: int
    increase: int
    self_increase: int
    allocations: int
    self_allocations: int
    allocated: int
    self_allocated: int


class Memory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Memory of one device.

    Attributes:
        device: cpu, cuda:0, hip:0 ...
        peak: highest total allocated, bytes. None where the trace has no totals (format A).
        peak_at_ns: when. reserved_peak: highest total reserved.
        capacity: bytes of the device, where known.
        curve: at most about 2000 points that keep every peak.
        kinds: bytes at each point of the curve, most at the peak first, by what holds them (a snapshot) or by
            the phase of the step that allocated them (a trace); they sum to the curve.
        live: what was alive at the peak; `unknown_live` was allocated before the trace began.
        holders: bytes alive at the peak by what holds them, most first: weights, gradients, activations,
            optimizer, other, older than the record. Empty where the file has no stacks.
        operators: rows by allocated bytes, largest first.
        blocks: allocation/free pairs seen; unpaired allocations and frees are counted apart.
    """

    device: str
    peak: int | None = None
    peak_at_ns: int | None = None
    reserved_peak: int | None = None
    capacity: int | None = None
    curve: list[MemoryPoint] = []
    kinds: list[tuple[str, list[int]]] = []
    live: list[LiveAtPeak] = []
    unknown_live: int | None = None
    holders: list[tuple[str, int]] = []
    operators: list[MemoryRow] = []
    events: int = 0
    blocks: int = 0
    never_freed: int = 0
    freed_only: int = 0


class Compilation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A compilation of a function by torch.compile, as its log tells it (`TORCH_TRACE`).

    Attributes:
        id: `FRAME/TIME`: 0/0 is the first of the first function, 0/1 its second.
        function, place: what was compiled, `train.py:12`.
        total_ns: of all of it. start_ns: since the first one.
        reasons: guards of earlier compilations that failed, the last compilation's first; empty of the
        first one.
        failed: why nothing came of it, "" mostly.
    """

    id: str
    function: str = ""
    place: str = ""
    total_ns: int = 0
    start_ns: int = 0
    reasons: list[str] = []
    failed: str = ""


class LaunchRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Launches of one operator."""

    operator: str
    launches: int
    host_ns: int
    device_ns: int
    delay_median_ns: int
    short: int


class Launches(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the host feeds the device, over all of the file.

    Attributes:
        launches: calls that launched activities; a CUDA graph's are one. unlaunched: activities without a
            known launch. graph: activities replayed by CUDA graphs.
        lost: calls in the window of the steps that launched kernels of which the file has none.
        delay_median_ns, delay_p95_ns: end of the launch call to start of the work, never below 0.
        host_median_ns: of the launch call itself.
        short: kernels shorter than their launch call.
        tiny: kernels below 10 us; tiny_ns: their time together.
        queue_mean: mean number of launched and not yet started activities, weighted by time. queue_max.
        queue_curve: mean queue in equal buckets over the window, for a chart.
        calls: runtime and driver calls by name: (name, calls, ns), longest first.
        per_operator: operators with the most launches.
    """

    launches: int
    unlaunched: int = 0
    lost: int = 0
    graph: int = 0
    delay_median_ns: int = 0
    delay_p95_ns: int = 0
    host_median_ns: int = 0
    short: int = 0
    tiny: int = 0
    tiny_ns: int = 0
    queue_mean: float = 0.0
    queue_max: int = 0
    queue_curve: list[float] = []
    calls: list[tuple[str, int, int]] = []
    per_operator: list[LaunchRow] = []


class CopyRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Copies and memsets of one direction and kind of host memory.

    Attributes:
        direction: HtoD, DtoH, DtoD, HtoH, PtoP, memset, or "" unknown.
        memory: pageable, pinned, device, "" unknown: of the host side.
        bytes: None where the trace does not tell. bandwidth: bytes / s over the time copying.
        exposed_ns: part of the time in which no kernel ran.
        upload_calls, upload_ns: those of one long row of copies that happens once: a model is moved.
        operators: that caused them, most time first: (name, ns).
        stack: of the most costly one, innermost first.
    """

    id: str
    direction: str
    memory: str = ""
    calls: int
    total_ns: int
    exposed_ns: int = 0
    upload_calls: int = 0
    upload_ns: int = 0
    bytes: int | None = None
    bandwidth: float | None = None
    operators: list[tuple[str, int]] = []
    stack: list[str] = []
    blocking: Literal["", "some", "all"] = ""


# What decides the length of a step: a chain of host work, launches, device work and waits without a gap.

Link = Literal[
    "kernel", "communication", "copy", "gap", "latency", "launch", "synchronisation", "data", "operator",
    "python", "unrecorded",
]  # fmt: skip
"""On the device: kernels, collectives, copies and memsets, and gaps between two activities of which one
waited for the other. Latency: from the end of a launch call to the start of its work. On the host: runtime
and driver calls (launch), calls that waited for the device, after it was done (synchronisation), the loader
(data), operators, Python or a named range (python), and what no event explains."""


class PathRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All parts of the path of one kind and name.

    Attributes:
        id: kind and name.
        name: kernel, or operator on the host; "" where nothing has a name.
        parts: how many. longest_ns: the longest of them.
        stack: of the longest, innermost frame first.
    """

    id: str
    kind: Link
    name: str
    total_ns: int
    parts: int
    longest_ns: int
    stack: list[str] = []


class CriticalPath(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The path of one step; `kinds_ns` and `rows` sum to `total_ns`, the step.

    Attributes:
        step: its number.
        kinds_ns: by kind, longest first.
        rows: longest first.
    """

    step: int
    total_ns: int
    kinds_ns: dict[str, int]
    rows: list[PathRow]


# One step, event by event, to be drawn.


class Lane(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A thread or a stream, with its ranges as parallel lists.

    Attributes:
        kind: host, device, or idle: the gaps of a device by cause.
        name: `thread 123 main`, `cuda:0 stream 7`, `cuda:0 idle`.
        start_ns: since the start of the step; dur_ns.
        name_index: into Timeline.names.
        depth: nesting of host ranges, 0 outermost.
        category: into Timeline.categories.
    """

    kind: str
    name: str
    start_ns: list[int] = []
    dur_ns: list[int] = []
    name_index: list[int] = []
    depth: list[int] = []
    category: list[int] = []


class Timeline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The step nearest the median, all threads and streams.

    Attributes:
        step: its number. dur_ns: its length.
        dropped: ranges left out because there are too many (the shortest go first).
        arrows: launches: (host lane, row, device lane, row), only those of ranges that are here.
    """

    step: int
    dur_ns: int
    names: list[str] = []
    categories: list[str] = []
    lanes: list[Lane] = []
    arrows: list[tuple[int, int, int, int]] = []
    dropped: int = 0
