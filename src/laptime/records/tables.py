"""The tables of a profile (operators, annotations, kernels, modules, memory, launches, copies), its critical
path and one step, event by event.

`id` is stable inside one profile; findings name rows by it (`operators/aten::item`)."""

from typing import Literal

from msgspec import Struct


class StackRow(Struct, frozen=True, kw_only=True):
    """Calls of one operator that came from one place."""

    frames: list[str]  # innermost first, `file.py(12): function`
    calls: int
    host_self_ns: int
    device_self_ns: int


class OperatorRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An operator, all its calls in the file together. Sums of durations, not unions."""

    id: str  # its name, or name and shapes
    name: str
    shapes: str = ""  # `Input Dims` as written, "" in the table by name
    calls: int
    # host_total_ns, host_self_ns: with and without child operators and own runtime calls
    host_total_ns: int
    host_self_ns: int
    # device_total_ns, device_self_ns: of what it and its children launched; of what it launched itself
    device_total_ns: int = 0
    device_self_ns: int = 0
    tensor_core_eligible: bool = False  # it could run on tensor cores in a lower precision
    # tensor_core_self, tensor_core_total: share of it in tensor-core kernels; None without any
    tensor_core_self: float | None = None
    tensor_core_total: float | None = None
    kernels: int = 0  # number of device activities it launched itself
    dtypes: list[str] = []  # `Input type`s seen, most frequent first, as JSON texts
    stacks: list[StackRow] = []  # the most costly places it is called from


class AnnotationRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named range that is no operator, all its occurrences in the window of the steps together.

    DataLoader, Optimizer.step, DistributedDataParallel.forward, compiled regions, the user's own."""

    name: str
    calls: int
    host_ns: int  # sum of durations
    longest_ns: int = 0  # of one
    operators: int = 0  # operators that began inside, on the same thread
    kernels: int = 0  # device activities launched inside, on the same thread
    device_ns: int = 0  # their durations


class KernelRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kernel, by name, or by name, launching operator and launch configuration."""

    id: str
    name: str
    # compute, communication; without operator: graph (replayed by a CUDA graph), unlaunched (the file has no
    # launch of it)
    group: str = "compute"
    family: str = ""  # library and purpose as its name says; "" unknown
    operator: str = ""  # that launched it, "" in the table by name
    # grid, block: "[256, 1, 1]"
    grid: str = ""
    block: str = ""
    registers: int | None = None  # per thread
    shared_memory: int | None = None  # bytes
    tensor_cores: bool = False
    operator_eligible: bool = False
    calls: int
    total_ns: int
    mean_ns: int
    min_ns: int
    max_ns: int
    # blocks_per_sm, occupancy: means weighted by duration; occupancy 0 to 1. None if the trace has none.
    blocks_per_sm: float | None = None
    occupancy: float | None = None


class ModuleRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node of the nn.Module tree, in tree order.

    host_*: forward, with and without child modules. device_*: of what was launched."""

    id: str  # path of names from the root, `ResNet_0/Sequential_1/BasicBlock_0`
    name: str
    parent: str = ""  # id of the node above, "" for roots
    depth: int = 0  # 0 for roots
    calls: int  # occurrences
    operators: int = 0  # operators called directly in it
    host_total_ns: int
    host_self_ns: int
    device_total_ns: int = 0
    device_self_ns: int = 0
    # backward_host_ns, backward_device_ns: of the backward of operators inside it, children included; None
    # where the trace has no arrows from forward to backward
    backward_host_ns: int | None = None
    backward_device_ns: int | None = None
    # where it comes from: "python" (with_modules), "hierarchy" (`Module Hierarchy` of operators), "scopes"
    # (laptime's own module ranges)
    source: str = "python"


class MemoryPoint(Struct, frozen=True, array_like=True):
    """Totals after an event. `reserved` is -1 where unknown."""

    at_ns: int
    allocated: int
    reserved: int = -1


OLDER = "older than the record"  # holder of memory from before the record, whose stack is not known


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
    """Memory of one device."""

    device: str  # cpu, cuda:0, hip:0 ...
    peak: int | None = None  # highest total allocated, bytes. None if the trace has no totals (format A).
    peak_at_ns: int | None = None  # when
    reserved_peak: int | None = None  # highest total reserved
    capacity: int | None = None  # bytes of the device, if known
    curve: list[MemoryPoint] = []  # at most about 2000 points that keep every peak
    # bytes at each point of the curve, most at the peak first, by what holds them (a snapshot) or by the
    # phase of the step that allocated them (a trace); they sum to the curve
    kinds: list[tuple[str, list[int]]] = []
    # what was alive at the peak; `unknown_live` was allocated before the trace began
    live: list[LiveAtPeak] = []
    unknown_live: int | None = None
    # bytes alive at the peak by what holds them, most first: weights, gradients, activations, optimizer,
    # other, older than the record. Empty if the file has no stacks.
    holders: list[tuple[str, int]] = []
    operators: list[MemoryRow] = []  # rows by allocated bytes, largest first
    events: int = 0
    blocks: int = 0  # allocation/free pairs seen; unpaired allocations and frees are counted apart
    never_freed: int = 0
    freed_only: int = 0


class Compilation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A compilation of a function by torch.compile, as its log tells it (`TORCH_TRACE`)."""

    id: str  # `FRAME/TIME`: 0/0 is the first of the first function, 0/1 its second
    # function, place: what was compiled, `train.py:12`
    function: str = ""
    place: str = ""
    total_ns: int = 0  # of all of it
    start_ns: int = 0  # since the first one
    # guards of earlier compilations that failed, the last compilation's first; empty of the first one
    reasons: list[str] = []
    failed: str = ""  # why nothing came of it, "" mostly


class LaunchRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Launches of one operator."""

    operator: str
    launches: int
    host_ns: int
    device_ns: int
    delay_median_ns: int
    short: int


class Launches(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the host feeds the device, over all of the file."""

    launches: int  # calls that launched activities; a CUDA graph's are one
    unlaunched: int = 0  # activities without a known launch
    lost: int = 0  # calls in the window of the steps that launched kernels of which the file has none
    graph: int = 0  # activities replayed by CUDA graphs
    # delay_median_ns, delay_p95_ns: end of the launch call to start of the work, never below 0
    delay_median_ns: int = 0
    delay_p95_ns: int = 0
    host_median_ns: int = 0  # of the launch call itself
    short: int = 0  # kernels shorter than their launch call
    tiny: int = 0  # kernels below 10 us
    tiny_ns: int = 0  # their time together
    # mean number of launched and not yet started activities, weighted by time. queue_max.
    queue_mean: float = 0.0
    queue_max: int = 0
    queue_curve: list[float] = []  # mean queue in equal buckets over the window, for a chart
    # runtime and driver calls by name: (name, calls, ns), longest first
    calls: list[tuple[str, int, int]] = []
    per_operator: list[LaunchRow] = []  # operators with the most launches


class CopyRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Copies and memsets of one direction and kind of host memory."""

    id: str
    direction: str  # HtoD, DtoH, DtoD, HtoH, PtoP, memset, or "" unknown
    memory: str = ""  # pageable, pinned, device, "" unknown: of the host side
    calls: int
    total_ns: int
    exposed_ns: int = 0  # part of the time in which no kernel ran
    # upload_calls, upload_ns: those of one long row of copies that happens once: a model is moved
    upload_calls: int = 0
    upload_ns: int = 0
    bytes: int | None = None  # None if the trace does not say
    bandwidth: float | None = None  # bytes / s over the time copying
    operators: list[tuple[str, int]] = []  # that caused them, most time first: (name, ns)
    stack: list[str] = []  # of the most costly one, innermost first
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
    """All parts of the path of one kind and name."""

    id: str  # kind and name
    kind: Link
    name: str  # kernel, or operator on the host; "" if nothing has a name
    total_ns: int
    parts: int  # how many
    longest_ns: int  # the longest of them
    stack: list[str] = []  # of the longest, innermost frame first


class CriticalPath(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The path of one step; `kinds_ns` and `rows` sum to `total_ns`, the step."""

    step: int  # its number
    total_ns: int
    kinds_ns: dict[str, int]  # by kind, longest first
    rows: list[PathRow]  # longest first


# One step, event by event, to be drawn.


class Lane(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A thread or a stream, with its ranges as parallel lists."""

    kind: str  # host, device, or idle: the gaps of a device by cause
    name: str  # `thread 123 main`, `cuda:0 stream 7`, `cuda:0 idle`
    start_ns: list[int] = []  # since the start of the step; dur_ns
    dur_ns: list[int] = []
    name_index: list[int] = []  # into Timeline.names
    depth: list[int] = []  # nesting of host ranges, 0 outermost
    category: list[int] = []  # into Timeline.categories


class Timeline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The step nearest the median, all threads and streams."""

    step: int  # its number
    dur_ns: int  # its length
    names: list[str] = []
    categories: list[str] = []
    lanes: list[Lane] = []
    # launches: (host lane, row, device lane, row), only those of ranges that are here
    arrows: list[tuple[int, int, int, int]] = []
    dropped: int = 0  # ranges left out because there are too many (the shortest go first)
