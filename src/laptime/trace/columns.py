"""A trace as columns: one numpy array a field, one row an event. Plain data; nothing is computed here.

Times are int64 nanoseconds since the first event of the file (`Trace.origin` puts them back on the clock of
the machine). Names and texts are indices into `Trace.texts`; -1 is "not in the file"."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from laptime.records.tables import Compilation

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Index = NDArray[np.int32]
Kinds = NDArray[np.int8]
Mask = NDArray[np.bool_]
Rows = NDArray[np.integer[Any]]
NONE = -1  # in every index and id column: not in the file


class HostKind(IntEnum):
    """The kind of a range on a CPU thread."""

    OPERATOR = 0  # cpu_op, operator: aten::*, autograd::*, triton kernels' wrappers
    ANNOTATION = 1  # user_annotation: record_function, ProfilerStep#N, DataLoader, Optimizer.step, nccl:*
    RUNTIME = 2  # cuda_runtime, hip*, mtia_runtime, xpu_runtime ...
    DRIVER = 3  # cuda_driver: cuLaunchKernel[Ex]
    PYTHON = 4  # python_function: frames and nn.Module calls
    OVERHEAD = 5  # the profiler's own: CUPTI buffer flush ...
    OTHER = 6


class DeviceKind(IntEnum):
    """The kind of an activity on an accelerator."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2


class Thread(NamedTuple):
    """A row of `Trace.threads`: process and thread as the file writes them, and the thread's name."""

    pid: str
    tid: str
    name: str


class Accelerator(NamedTuple):
    """An entry of deviceProperties. Unknown numbers are 0.

    `id` is what device activities call it; `memory` is bytes, `capability` is (major, minor)."""

    id: int
    name: str
    memory: int
    capability: tuple[int, int]
    sms: int
    threads_per_sm: int


class Collective(NamedTuple):
    """The fields of a communication kernel. Unknown: "" and -1."""

    name: str  # allreduce, all_to_allv, _allgather_base, broadcast, send ..
    # elements_in, elements_out: numbers of elements per rank
    elements_in: int
    elements_out: int
    dtype: str  # Float, BFloat16, ..
    group: str  # name of the process group
    group_size: int  # ranks in it
    sequence: int  # number of the collective in its group, if the file has it


class _Table:
    """Columns of one length."""

    def __len__(self) -> int:
        first: NDArray[Any] = next(iter(vars(self).values()))
        return len(first)


@dataclass(frozen=True, eq=False)
class Host(_Table):
    """Ranges on CPU threads (ph X), sorted by (thread, start, -end, file order)."""

    # start, end: ns; end >= start
    start: Ints
    end: Ints
    name: Index  # index into texts
    kind: Kinds  # HostKind
    thread: Index  # index into threads
    correlation: Ints  # of runtime and driver calls
    shapes: Index  # `Input Dims` as JSON text
    types: Index  # `Input type` as JSON text
    stack: Index  # `Call stack` text, frames joined by `;`, innermost first. All are indices into texts.
    module: Index  # `Module Hierarchy` text, index into texts
    module_id: Index  # of calls of modules, as the file writes it
    sequence: Ints  # autograd's `Sequence number`
    forward_thread: Index  # `Fwd thread id`; NONE if there is none

    @property
    def is_call(self) -> Mask:
        """Which rows are runtime or driver calls."""
        return np.asarray((self.kind == HostKind.RUNTIME) | (self.kind == HostKind.DRIVER), bool)

    def of_thread(self, thread: int) -> Index:
        """All rows of a thread, ascending."""
        low, high = np.searchsorted(self.thread, [thread, thread + 1])
        return np.arange(low, high, dtype=np.int32)


@dataclass(frozen=True)
class DeviceWork(_Table):
    """Kernels, copies and memsets on accelerators, sorted by (start, end, file order)."""

    # start, end: ns
    start: Ints
    end: Ints
    name: Index  # index into texts
    kind: Kinds  # DeviceKind
    device: Index  # id of the accelerator (the file's `args.device`, else its pid)
    stream: Ints  # number of the stream
    correlation: Ints  # of the call that launched it; NONE without
    # blocks_per_sm, occupancy: kineto's estimates; occupancy in percent; NaN if the file has none
    blocks_per_sm: Floats
    occupancy: Floats
    # grid, block: JSON texts such as `[256, 1, 1]`, indices into texts
    grid: Index
    block: Index
    registers: Index  # per thread
    shared_memory: Ints  # bytes of shared memory per block; NONE unknown
    bytes: Ints  # of copies and memsets; NONE unknown
    collective: Index  # index into Trace.collectives, NONE for most
    graph: Ints  # `graph node id` of CUDA-graph kernels, NONE otherwise


@dataclass(frozen=True)
class DeviceRanges(_Table):
    """Annotations projected onto streams (gpu_user_annotation), sorted by start."""

    start: Ints
    end: Ints
    name: Index
    device: Index
    stream: Ints


@dataclass(frozen=True)
class MemoryEvents(_Table):
    """Allocations (bytes > 0) and frees (bytes < 0), `[memory]` events, sorted by time."""

    at: Ints  # ns
    thread: Index  # index into threads
    bytes: Ints  # signed size
    address: NDArray[np.uint64]  # NONE if the file has none (format A)
    # allocated, reserved: totals after this event; NONE if the file has none
    allocated: Ints
    reserved: Ints
    device_type: Index  # c10 device type (0 CPU, 1 CUDA, 6 HIP ...)
    device: Index  # its index (-1 for CPU)
    place: Index  # line of code that allocated
    # weights, gradients, activations, optimizer, other, or older than the record. Indices into texts; NONE
    # where the file has none.
    holder: Index


@dataclass(frozen=True)
class Flows(_Table):
    """Arrows from forward operators to their backward (cat fwdbwd); other flows are not needed.

    `begin` is True for the arrow's start (in the forward). Sorted by (id, begin first)."""

    id: Ints
    at: Ints
    thread: Index
    begin: Mask


@dataclass(frozen=True, eq=False)
class Trace:
    """One file, read."""

    name: str  # file name without folder, for titles
    size: int  # bytes of JSON read (uncompressed)
    origin: int  # ns to add to times to get the file's own clock (`baseTimeNanoseconds` is not in it)
    base: int  # `baseTimeNanoseconds`, 0 without
    # A (torch 1.8-1.9), B (1.12-1.13), C (2.0-2.2), D (2.3 and later); xplane (TensorFlow); nsys, rocpd,
    # rocprof, snapshot (PyTorch's allocator), torch_trace
    format: str
    texts: list[str]  # every name and text of the file, once
    threads: list[Thread]  # rows named by `thread` columns
    host: Host
    device: DeviceWork
    device_ranges: DeviceRanges
    memory: MemoryEvents
    flows: Flows
    # deviceProperties; empty if the file has none
    accelerators: list[Accelerator] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)  # rows named by `DeviceWork.collective`
    # rank, world: from distributedInfo; None if unknown
    rank: int | None = None
    world: int | None = None
    # the rest of distributedInfo (backend, nccl_version, pg_config ...)
    distributed: dict[str, Any] = field(default_factory=dict)
    # other top-level scalars: cuda_runtime_version, with_stack, record_shapes, profile_memory ..
    facts: dict[str, Any] = field(default_factory=dict)
    api: str = ""  # accelerator that the categories of the file name (mtia, xpu); "" if they name none
    events: int = 0  # number of events in the file, all kinds
    truncated: bool = False  # the file ends in the middle; what came before is here
    warnings: list[str] = field(default_factory=list)  # sentences about what had to be repaired or left out
    compilations: list[Compilation] = field(default_factory=list)  # what a log of torch.compile tells
