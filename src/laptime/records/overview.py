"""Steps and their summary (breakdown, devices, idle time, communication, phases), the ranks of one job, and
the roofline.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Breakdown(Struct, frozen=True, kw_only=True):
    """A step's time in the plugin's categories, by priority: each takes what no earlier one has taken.

    The sum is the step. `communication` counts collectives as they ran; the plugin counted host ranges.

    Attributes:
        kernel_ns: kernels that compute. memcpy_ns, memset_ns: on the device.
        communication_ns: collectives' kernels, and host ranges of gloo collectives.
        runtime_ns: CUDA/HIP runtime and driver calls.
        dataloader_ns: waiting in a DataLoader's `__next__`.
        cpu_ns: other operators, annotations and Python events ("CPU Exec").
        other_ns: the rest.
    """

    kernel_ns: int = 0
    memcpy_ns: int = 0
    memset_ns: int = 0
    communication_ns: int = 0
    runtime_ns: int = 0
    dataloader_ns: int = 0
    cpu_ns: int = 0
    other_ns: int = 0

    @property
    def total_ns(self) -> int:
        """The whole step."""
        return sum(getattr(self, name) for name in self.__struct_fields__)


class Step(Struct, frozen=True, kw_only=True):
    """One device-aware step: from the end of the one before to the end of the last device work it launched.

    Attributes:
        number: of ProfilerStep#N; 0 for the only one of a trace without steps.
        start_ns, end_ns: since the first event of the file.
        host_start_ns, host_end_ns: of its annotation on the host.
        device_busy_ns: union of all work on the accelerators inside it.
        data_wait_ns: waiting for the loader on the host, whatever the device did meanwhile.
    """

    number: int
    start_ns: int
    end_ns: int
    host_start_ns: int
    host_end_ns: int
    breakdown: Breakdown
    device_busy_ns: int = 0
    data_wait_ns: int = 0


class DeviceUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How well one accelerator was used, over the window of all steps.

    Attributes:
        device: id as the trace calls it.
        utilization: share of the window in which a kernel ran (copies not counted).
        busy: the same with copies and memsets.
        sm_efficiency: integral of min(sum of blocks per SM of running kernels, 1) / window.
        occupancy: mean achieved occupancy weighted by kernel time, 0 to 1.
        tensor_core_share: time of kernels that use tensor or matrix cores / time of kernels that compute.
        tensor_core_eligible: time of kernels launched by operators that could use them / the same.
        unknown_share: time of kernels of unknown families, `unknown_kernels` names / the same.
        compute_ns, communication_ns, memcpy_ns, memset_ns: unions over the window.
        exposed_communication_ns: communication while no compute kernel runs. overlapped is the rest.
        exposed_copy_ns: copies and memsets while no kernel of any kind runs.
        idle_ns: window without any work.
        busy_curve: share busy in equal buckets over the window, for a chart.
    """

    device: int
    utilization: float
    busy: float
    sm_efficiency: float | None = None
    occupancy: float | None = None
    tensor_core_share: float | None = None
    tensor_core_eligible: float | None = None
    unknown_kernels: int = 0
    unknown_share: float | None = None
    compute_ns: int = 0
    communication_ns: int = 0
    overlapped_communication_ns: int = 0
    exposed_communication_ns: int = 0
    memcpy_ns: int = 0
    memset_ns: int = 0
    exposed_copy_ns: int = 0
    idle_ns: int = 0
    busy_curve: list[float] = []


class Totals(Struct, frozen=True, kw_only=True):
    """Exact sums and unions over the whole file, all accelerators: what other tools can be checked against.

    "compute" is every kernel that does not communicate; names are those of trace/names.py.
    """

    kernels: int = 0
    communication_kernels: int = 0
    kernel_names: int = 0
    compute_sum_ns: int = 0
    compute_union_ns: int = 0
    communication_sum_ns: int = 0
    communication_union_ns: int = 0
    overlap_ns: int = 0
    exposed_communication_ns: int = 0
    memcpy_union_ns: int = 0
    memset_union_ns: int = 0
    exposed_memory_ns: int = 0
    device_span_ns: int = 0
    device_busy_ns: int = 0
    device_idle_ns: int = 0


Cause = Literal["data", "host", "synchronisation", "copy", "communication", "unrecorded", "other"]
CAUSES: dict[str, str] = {
    "data": "waiting for data",
    "host": "host at work",
    "synchronisation": "after a synchronisation",
    "copy": "host in a copy",
    "communication": "waiting for ranks",
    "unrecorded": "not recorded",
    "other": "other",
}
"""What people read for each cause."""


class IdleCause(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the device was idle: all gaps of one cause. The causes' total_ns sum to the idle time.

    Attributes:
        cause: data: the host waited for the loader; host: it launched too slowly; synchronisation: it had
            waited for the device and had to start anew; copy: it waited in a copy; communication: it waited
            for other ranks; unrecorded: no event says what it did; other: the work was launched and did not
            begin, or nothing tells.
        gaps: number of gaps that have a part of this cause.
        longest_ns: the longest such part.
        operators: what the host was doing, most first: (name, ns). For synchronisation: the operators that
            synchronised.
        stack: call stack of the most costly one, innermost first, where the trace has stacks.
    """

    cause: Cause
    total_ns: int
    share_of_idle: float
    gaps: int = 0
    longest_ns: int = 0
    operators: list[tuple[str, int]] = []
    stack: list[str] = []


class Idle(Struct, frozen=True, kw_only=True):
    """Idle time of the accelerator (of one, or summed over several) in the window of all steps."""

    total_ns: int
    window_ns: int
    causes: list[IdleCause] = []


class Phase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the training step on the host: data, forward, loss, backward, optimizer, compute, other.

    Attributes:
        host_ns: mean per step, on the thread that runs the loop.
        device_ns: mean device time of what it launched, None without an accelerator.
    """

    name: str
    host_ns: int
    device_ns: int | None = None


class Synchronisation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls that made the host wait for the device, by call and operator.

    Attributes:
        call: cudaStreamSynchronize, cudaMemcpyAsync to pageable memory ...
        operator: that caused it: aten::item, aten::_local_scalar_dense ...
        calls: in all steps. wait_ns: time of the host in them.
        stack: innermost first.
    """

    call: str
    operator: str = ""
    calls: int
    wait_ns: int
    stack: list[str] = []


class Overview(Struct, frozen=True, kw_only=True):
    """The first page.

    Attributes:
        step_ns: mean step. step_median_ns: median.
        breakdown: mean over the steps, rounded so that it sums to step_ns.
        devices: one row per accelerator that worked in the window.
        phases: parts of the loop on the host, where the trace tells them.
        between_ns: time in no step, between two that do not touch, for each step.
        unrecorded_ns: of the mean step on the host that no recorded event explains; profiling_ns: part of it
            in which the profiler itself was at work.
        cpu_threads: threads that ran operators; threads_busy: mean number of threads inside an operator
            at the same time (intra-op threads are not in a trace).
    """

    steps: int
    step_ns: int
    step_median_ns: int
    breakdown: Breakdown
    devices: list[DeviceUse] = []
    totals: Totals = Totals()
    idle: Idle | None = None
    synchronisations: list[Synchronisation] = []
    phases: list[Phase] = []
    cpu_threads: int = 0
    threads_busy: float | None = None
    between_ns: int = 0
    unrecorded_ns: int = 0
    profiling_ns: int = 0


# Several files that are the ranks of one job.


class RankRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rank on one line.

    Attributes:
        compute_ns, communication_ns, exposed_communication_ns, idle_ns: over the window of its steps.
        waiting_ns: part of its collectives spent waiting for later ranks; transfer_ns: the rest. None when
            the collectives of the ranks could not be matched.
        last_arrivals: collectives that it was the last to reach.
        clock_offset_ns: added to its times to bring the ranks onto one clock.
    """

    rank: int
    file: str
    steps: int
    step_ns: int
    breakdown: Breakdown
    devices: list[DeviceUse] = []
    compute_ns: int = 0
    communication_ns: int = 0
    exposed_communication_ns: int = 0
    idle_ns: int = 0
    data_wait_ns: int = 0
    waiting_ns: int | None = None
    transfer_ns: int | None = None
    last_arrivals: int | None = None
    clock_offset_ns: int = 0


class CollectiveRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One collective on all ranks (the n-th of its group), in time order.

    Attributes:
        name: all_reduce, all_to_all, ...; kernel: name of the kernel where only that is known.
        ranks: that took part and have a file here. group_size: as the file says.
        start_ns: of the first arriver, since the first event of the rank that began first.
        latency_ns: the shortest duration over ranks: what the transfer takes once everybody is there.
        skew_ns: last start - first start. last, first: ranks.
        waiting_ns: sum over ranks of duration - latency. duration_ns: sum over ranks of durations.
        bytes: size of the message as nccl-tests count it (the larger of what a rank gives and gets), None
            unknown. algorithm_bandwidth, bus_bandwidth: bytes/s during latency_ns, as nccl-tests define.
    """

    name: str
    group: str = ""
    ranks: list[int]
    group_size: int | None = None
    start_ns: int
    latency_ns: int
    skew_ns: int
    first: int
    last: int
    waiting_ns: int
    duration_ns: int
    bytes: int | None = None
    dtype: str = ""
    algorithm_bandwidth: float | None = None
    bus_bandwidth: float | None = None


class Straggler(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rank that others wait for.

    Attributes:
        caused_ns: waiting of all other ranks in collectives that it reached last.
        share: of all waiting.
        last_arrivals: collectives it reached last, of `collectives`.
        why: what it did meanwhile that others did not, in words; "" unknown.
    """

    rank: int
    caused_ns: int
    share: float
    last_arrivals: int
    collectives: int
    why: str = ""


# FLOP and bytes are those that the shapes of the inputs tell; the rest is time whose work nobody counted.

OperatorClass = Literal[
    "matmul", "convolution", "convolution backward", "attention", "recurrent", "normalisation", "elementwise",
    "reduction", "embedding", "copy", "transfer", "communication", "other", "fused",
]  # fmt: skip
"""Transfers are copies between host and device; `other` has operators that no class names, `fused` kernels
of several operators whose own parts are not seen."""


class Work(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All calls of one operator with the same shapes, or of one class of operators.

    Attributes:
        id: the operator and its shapes, or the class.
        kind: class. name, shapes: of one operator; "" for a whole class.
        calls: that were counted, or could not be.
        total_ns: of the device, all that these calls launched; on a CPU their own time.
        uncounted_ns: that part of `total_ns` whose work the shapes do not show.
        uncounted: operators it belongs to, those of most time.
        flop: floating point operations of the counted calls, by dtype. tf32 is float32 on tensor cores.
        bytes: that they must move at least: inputs once, outputs once. None where nothing is counted.
        flops, bandwidth: FLOP and bytes per second of the counted calls.
        intensity: FLOP per byte.
        bound: the ceiling that is nearer; "" where the ceilings are not known.
        share: of that ceiling, 0 to 1; None where it is not known, or would mislead: `note` says why.
    """

    id: str
    kind: OperatorClass
    name: str = ""
    shapes: str = ""
    calls: int
    total_ns: int
    uncounted_ns: int = 0
    uncounted: list[str] = []
    flop: dict[str, float] = {}
    bytes: float | None = None
    flops: float | None = None
    bandwidth: float | None = None
    intensity: float | None = None
    bound: Literal["compute", "memory", ""] = ""
    share: float | None = None
    note: str = ""


class Ceilings(Struct, frozen=True, kw_only=True):
    """What the device can do at most.

    Attributes:
        flops: per second, by dtype. bandwidth: bytes per second between the device and its memory.
        source: where the figures come from, in words.
    """

    device: str
    flops: dict[str, float]
    bandwidth: float | None
    source: str


class Roofline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Work by class and by operator and shape, most time first.

    Attributes:
        classes: their times sum to all device time; on a CPU to all time of operators.
        operators: counted ones, those of most time.
        ceilings: None where nothing is known of the device.
        missing: why nothing could be counted, and what to do; "" where something was.
    """

    classes: list[Work] = []
    operators: list[Work] = []
    ceilings: Ceilings | None = None
    missing: str = ""
