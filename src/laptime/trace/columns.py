"""A trace as columns: one numpy array a field, one row an event. Plain data; nothing is computed here.

Times are int64 nanoseconds since the first event of the file (`Trace.origin` puts them back on the clock of
the machine). Names and texts are indices into `Trace.texts`; -1 is "not in the file".
"""

from __future__ import annotations

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

NONE = -1
"""In every index and id column: not in the file."""


class HostKind(IntEnum):
    """What a range on a CPU thread is."""

    OPERATOR = 0  # cpu_op, operator: aten::*, autograd::*, triton kernels' wrappers
    ANNOTATION = 1  # user_annotation: record_function, ProfilerStep#N, DataLoader, Optimizer.step, nccl:*
    RUNTIME = 2  # cuda_runtime, hip*, mtia_runtime, xpu_runtime ...
    DRIVER = 3  # cuda_driver: cuLaunchKernel[Ex]
    PYTHON = 4  # python_function: frames and nn.Module calls
    OVERHEAD = 5  # the profiler's own: CUPTI buffer flush ...
    OTHER = 6


class DeviceKind(IntEnum):
    """What an activity on an accelerator is."""

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

    `id` is what device activities call it; `memory` is bytes, `capability` is (major, minor).
    """

    id: int
    name: str
    memory: int
    capability: tuple[int, int]
    sms: int
    threads_per_sm: int


class Collective(NamedTuple):
    """What a communication kernel says of itself. Unknown: "" and -1.

    Attributes:
        name: allreduce, all_to_allv, _allgather_base, broadcast, send ...
        elements_in, elements_out: numbers of elements per rank.
        dtype: Float, BFloat16, ...
        group: name of the process group.
        group_size: ranks in it.
        sequence: number of the collective in its group, where the file has it.
    """

    name: str
    elements_in: int
    elements_out: int
    dtype: str
    group: str
    group_size: int
    sequence: int


class _Table:
    """Columns of one length."""

    def __len__(self) -> int:
        first: NDArray[Any] = next(iter(vars(self).values()))
        return len(first)


@dataclass(frozen=True, eq=False)
class Host(_Table):
    """Ranges on CPU threads (ph X), sorted by (thread, start, -end, file order).

    Attributes:
        start, end: ns; end >= start.
        name: index into texts.
        kind: HostKind.
        thread: index into threads.
        correlation: of runtime and driver calls.
        shapes: `Input Dims` as JSON text; types: `Input type` as JSON text; stack: `Call stack` text,
            frames joined by `;`, innermost first. All are indices into texts.
        module: `Module Hierarchy` text, index into texts.
        module_id: of calls of modules, as the file writes it.
        sequence: autograd's `Sequence number`; forward_thread: `Fwd thread id`; NONE where there is none.
    """

    start: Ints
    end: Ints
    name: Index
    kind: Kinds
    thread: Index
    correlation: Ints
    shapes: Index
    types: Index
    stack: Index
    module: Index
    module_id: Index
    sequence: Ints
    forward_thread: Index

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
    """Kernels, copies and memsets on accelerators, sorted by (start, end, file order).

    Attributes:
        start, end: ns.
        name: index into texts.
        kind: DeviceKind.
        device: id of the accelerator (the file's `args.device`, else its pid).
        stream: number of the stream.
        correlation: of the call that launched it; NONE without.
        blocks_per_sm, occupancy: kineto's estimates; occupancy in percent; NaN where the file has none.
        grid, block: JSON texts such as `[256, 1, 1]`, indices into texts.
        registers: per thread; shared_memory: bytes of shared memory per block; NONE unknown.
        bytes: of copies and memsets; NONE unknown.
        collective: index into Trace.collectives, NONE for most.
        graph: `graph node id` of CUDA-graph kernels, NONE otherwise.
    """

    start: Ints
    end: Ints
    name: Index
    kind: Kinds
    device: Index
    stream: Ints
    correlation: Ints
    blocks_per_sm: Floats
    occupancy: Floats
    grid: Index
    block: Index
    registers: Index
    shared_memory: Ints
    bytes: Ints
    collective: Index
    graph: Ints


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
    """Allocations (bytes > 0) and frees (bytes < 0), `[memory]` events, sorted by time.

    Attributes:
        at: ns.
        thread: index into threads.
        bytes: signed size.
        address: NONE where the file has none (format A).
        allocated, reserved: totals after this event; NONE where the file has none.
        device_type: c10 device type (0 CPU, 1 CUDA, 6 HIP ...); device: its index (-1 for CPU).
        place: line of code that allocated; holder: weights, gradients, activations, optimizer, other, or
            older than the record. Indices into texts; NONE where the file has none.
    """

    at: Ints
    thread: Index
    bytes: Ints
    address: NDArray[np.uint64]
    allocated: Ints
    reserved: Ints
    device_type: Index
    device: Index
    place: Index
    holder: Index


@dataclass(frozen=True)
class Flows(_Table):
    """Arrows from forward operators to their backward (cat fwdbwd); other flows are not needed.

    `begin` is True for the arrow's start (in the forward). Sorted by (id, begin first).
    """

    id: Ints
    at: Ints
    thread: Index
    begin: Mask


@dataclass(frozen=True, eq=False)
class Trace:
    """One file, read.

    Attributes:
        name: file name without folder, for titles.
        size: bytes of JSON read (uncompressed).
        origin: ns to add to times to get the file's own clock (`baseTimeNanoseconds` is not in it).
        base: `baseTimeNanoseconds`, 0 without.
        format: A (torch 1.8-1.9), B (1.12-1.13), C (2.0-2.2), D (2.3 and later); xplane (TensorFlow);
            nsys, rocpd, rocprof, snapshot (PyTorch's allocator), torch_trace.
        texts: every name and text of the file, once.
        threads: rows named by `thread` columns.
        accelerators: deviceProperties; empty where the file has none.
        collectives: rows named by `DeviceWork.collective`.
        rank, world: from distributedInfo; None where unknown.
        distributed: the rest of distributedInfo (backend, nccl_version, pg_config ...).
        facts: other top-level scalars: cuda_runtime_version, with_stack, record_shapes, profile_memory ...
        api: accelerator that the categories of the file name (mtia, xpu); "" where they name none.
        events: number of events in the file, all kinds.
        truncated: the file ends in the middle; what came before is here.
        compilations: what a log of torch.compile tells.
        warnings: sentences about what had to be repaired or left out.
    """

    name: str
    size: int
    origin: int
    base: int
    format: str
    texts: list[str]
    threads: list[Thread]
    host: Host
    device: DeviceWork
    device_ranges: DeviceRanges
    memory: MemoryEvents
    flows: Flows
    accelerators: list[Accelerator] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    rank: int | None = None
    world: int | None = None
    distributed: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    api: str = ""
    events: int = 0
    truncated: bool = False
    warnings: list[str] = field(default_factory=list)
    compilations: list[Compilation] = field(default_factory=list)
