"""Steps and their summary (breakdown, devices, idle time, communication, phases), the ranks of one job, and
the roofline."""

from typing import Literal

from msgspec import Struct


class Breakdown(Struct, frozen=True, kw_only=True):
    """A step's time in the plugin's categories, by priority: each takes what no earlier one has taken.

    The sum is the step. `communication` counts collectives as they ran; the plugin counted host ranges."""

    kernel_ns: int = 0  # kernels that compute
    # memcpy_ns, memset_ns: on the device
    memcpy_ns: int = 0
    memset_ns: int = 0
    communication_ns: int = 0  # collectives' kernels, and host ranges of gloo collectives
    runtime_ns: int = 0  # CUDA/HIP runtime and driver calls
    dataloader_ns: int = 0  # waiting in a DataLoader's `__next__`
    cpu_ns: int = 0  # other operators, annotations and Python events ("CPU Exec")
    other_ns: int = 0  # the rest

    @property
    def total_ns(self) -> int:
        """The whole step."""
        return sum(getattr(self, name) for name in self.__struct_fields__)


class Step(Struct, frozen=True, kw_only=True):
    """One device-aware step: from the end of the one before to the end of the last device work it
    launched."""

    number: int  # of ProfilerStep#N; 0 for the only one of a trace without steps
    # start_ns, end_ns: since the first event of the file
    start_ns: int
    end_ns: int
    # host_start_ns, host_end_ns: of its annotation on the host
    host_start_ns: int
    host_end_ns: int
    breakdown: Breakdown
    device_busy_ns: int = 0  # union of all work on the accelerators inside it
    data_wait_ns: int = 0  # waiting for the loader on the host, whatever the device did meanwhile


class DeviceUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How well one accelerator was used, over the window of all steps."""

    device: int  # id as the trace calls it
    utilization: float  # share of the window in which a kernel ran (copies not counted)
    busy: float  # the same with copies and memsets
    sm_efficiency: float | None = None  # integral of min(sum of blocks per SM of running kernels, 1) / window
    occupancy: float | None = None  # mean achieved occupancy weighted by kernel time, 0 to 1
    # time of kernels that use tensor or matrix cores / time of kernels that compute
    tensor_core_share: float | None = None
    # time of kernels launched by operators that could use them / the same
    tensor_core_eligible: float | None = None
    unknown_kernels: int = 0
    # time of kernels of unknown families, `unknown_kernels` names / the same
    unknown_share: float | None = None
    # compute_ns, communication_ns, memcpy_ns, memset_ns: unions over the window
    compute_ns: int = 0
    communication_ns: int = 0
    overlapped_communication_ns: int = 0
    exposed_communication_ns: int = 0  # communication while no compute kernel runs. overlapped is the rest.
    memcpy_ns: int = 0
    memset_ns: int = 0
    exposed_copy_ns: int = 0  # copies and memsets while no kernel of any kind runs
    idle_ns: int = 0  # window without any work
    busy_curve: list[float] = []  # share busy in equal buckets over the window, for a chart


class Totals(Struct, frozen=True, kw_only=True):
    """Exact sums and unions over the whole file, all accelerators: what other tools can be checked against.

    "compute" is every kernel that does not communicate; names are those of trace/names.py."""

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
    """Why the device was idle: all gaps of one cause. The causes' total_ns sum to the idle time."""

    # data: the host waited for the loader; host: it launched too slowly; synchronisation: it had waited for
    # the device and had to start anew; copy: it waited in a copy; communication: it waited for other ranks;
    # unrecorded: no event says what it did; other: the work was launched and did not begin, or nothing tells
    cause: Cause
    total_ns: int
    share_of_idle: float
    gaps: int = 0  # number of gaps that have a part of this cause
    longest_ns: int = 0  # the longest such part
    # what the host was doing, most first: (name, ns). For synchronisation: the operators that synchronised.
    operators: list[tuple[str, int]] = []
    stack: list[str] = []  # call stack of the most costly one, innermost first, if the trace has stacks


class Idle(Struct, frozen=True, kw_only=True):
    """Idle time of the accelerator (of one, or summed over several) in the window of all steps."""

    total_ns: int
    window_ns: int
    causes: list[IdleCause] = []


class Phase(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the training step on the host: data, forward, loss, backward, optimizer, compute, other."""

    name: str
    host_ns: int  # mean per step, on the thread that runs the loop
    device_ns: int | None = None  # mean device time of what it launched, None without an accelerator


class Synchronisation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls that made the host wait for the device, by call and operator."""

    call: str  # cudaStreamSynchronize, cudaMemcpyAsync to pageable memory ...
    operator: str = ""  # that caused it: aten::item, aten::_local_scalar_dense ..
    calls: int  # in all steps
    wait_ns: int  # time of the host in them
    stack: list[str] = []  # innermost first


class Overview(Struct, frozen=True, kw_only=True):
    """The first page."""

    steps: int
    step_ns: int  # mean step
    step_median_ns: int  # median
    breakdown: Breakdown  # mean over the steps, rounded so that it sums to step_ns
    devices: list[DeviceUse] = []  # one row per accelerator that worked in the window
    totals: Totals = Totals()
    idle: Idle | None = None
    synchronisations: list[Synchronisation] = []
    phases: list[Phase] = []  # parts of the loop on the host, if the trace tells them
    cpu_threads: int = 0  # threads that ran operators
    # mean number of threads inside an operator at the same time (intra-op threads are not in a trace)
    threads_busy: float | None = None
    between_ns: int = 0  # time in no step, between two that do not touch, for each step
    unrecorded_ns: int = 0  # of the mean step on the host that no recorded event explains
    profiling_ns: int = 0  # part of it in which the profiler itself was at work


# Several files that are the ranks of one job.


class RankRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rank on one line."""

    rank: int
    file: str
    steps: int
    step_ns: int
    breakdown: Breakdown
    devices: list[DeviceUse] = []
    # compute_ns, communication_ns, exposed_communication_ns, idle_ns: over the window of its steps
    compute_ns: int = 0
    communication_ns: int = 0
    exposed_communication_ns: int = 0
    idle_ns: int = 0
    data_wait_ns: int = 0
    waiting_ns: int | None = None  # part of its collectives spent waiting for later ranks
    transfer_ns: int | None = None  # the rest. None when the collectives of the ranks could not be matched.
    last_arrivals: int | None = None  # collectives that it was the last to reach
    clock_offset_ns: int = 0  # added to its times to bring the ranks onto one clock


class CollectiveRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One collective on all ranks (the n-th of its group), in time order."""

    name: str  # all_reduce, all_to_all, ...; kernel: name of the kernel if only that is known
    group: str = ""
    ranks: list[int]  # that took part and have a file here
    group_size: int | None = None  # as the file says
    start_ns: int  # of the first arriver, since the first event of the rank that began first
    latency_ns: int  # the shortest duration over ranks: what the transfer takes once everybody is there
    skew_ns: int  # last start - first start
    first: int
    # last, first: ranks
    last: int
    waiting_ns: int  # sum over ranks of duration - latency
    duration_ns: int  # sum over ranks of durations
    # size of the message as nccl-tests count it (the larger of what a rank gives and gets), None unknown
    bytes: int | None = None
    dtype: str = ""
    # algorithm_bandwidth, bus_bandwidth: bytes/s during latency_ns, as nccl-tests define
    algorithm_bandwidth: float | None = None
    bus_bandwidth: float | None = None


class Straggler(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rank that others wait for."""

    rank: int
    caused_ns: int  # waiting of all other ranks in collectives that it reached last
    share: float  # of all waiting
    last_arrivals: int  # collectives it reached last, of `collectives`
    collectives: int
    why: str = ""  # what it did meanwhile that others did not, in words; "" unknown


# FLOP and bytes are those that the shapes of the inputs tell; the rest is time whose work was not counted.

OperatorClass = Literal[
    "matmul", "convolution", "convolution backward", "attention", "recurrent", "normalisation", "elementwise",
    "reduction", "embedding", "copy", "transfer", "communication", "other", "fused",
]  # fmt: skip
"""Transfers are copies between host and device; `other` has operators that no class names, `fused` kernels
of several operators whose own parts are not seen."""


class Work(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All calls of one operator with the same shapes, or of one class of operators."""

    id: str  # the operator and its shapes, or the class
    kind: OperatorClass  # class
    # name, shapes: of one operator; "" for a whole class
    name: str = ""
    shapes: str = ""
    calls: int  # that were counted, or could not be
    total_ns: int  # of the device, all that these calls launched; on a CPU their own time
    uncounted_ns: int = 0  # that part of `total_ns` whose work the shapes do not show
    uncounted: list[str] = []  # operators it belongs to, those of most time
    # floating point operations of the counted calls, by dtype. tf32 is float32 on tensor cores.
    flop: dict[str, float] = {}
    # that they must move at least: inputs once, outputs once. None if nothing is counted.
    bytes: float | None = None
    # flops, bandwidth: FLOP and bytes per second of the counted calls
    flops: float | None = None
    bandwidth: float | None = None
    intensity: float | None = None  # FLOP per byte
    # the ceiling that is nearer; "" if the ceilings are not known
    bound: Literal["compute", "memory", ""] = ""
    # of that ceiling, 0 to 1; None if it is not known, or would mislead: `note` says why
    share: float | None = None
    note: str = ""


class Ceilings(Struct, frozen=True, kw_only=True):
    """The ceilings of the device."""

    device: str
    flops: dict[str, float]  # per second, by dtype
    bandwidth: float | None  # bytes per second between the device and its memory
    source: str  # where the figures come from, in words


class Roofline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Work by class and by operator and shape, most time first."""

    classes: list[Work] = []  # their times sum to all device time; on a CPU to all time of operators
    operators: list[Work] = []  # counted ones, those of most time
    ceilings: Ceilings | None = None  # None if nothing is known of the device
    missing: str = ""  # why nothing could be counted, and what to do; "" if something was


# What bounds a call of a model, whole and by class of operators, beside what the cores can at most.

BoundWord = Literal["compute", "memory", "overhead", "threads", "neither", "unknown"]
"""What takes at least half of the time. neither: nothing does, as far as is known; unknown: too much of the
time belongs to operators whose work could not be counted, or the ceilings are not known."""


class ClassBound(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The bound of the operators of one class."""

    kind: OperatorClass  # the class
    operators: float  # calls of operators in a call of the model
    seconds: float  # of a call
    share: float  # of the call
    word: BoundWord  # what bounds them
    # share of their seconds by compute, memory, overhead, threads; add up to 1 at most
    reasons: dict[str, float] = {}
    uncounted: float = 0.0  # share of their seconds whose work is not known


class CallBounds(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The bounds of a model's call, from a recording of some calls by the runtime's own profiler."""

    # what bounds the call; "" if it could not be recorded: `missing` says why
    word: BoundWord | Literal[""] = ""
    # share of the call by compute, memory, overhead, threads; add up to 1 at most, the rest is not explained
    reasons: dict[str, float] = {}
    uncounted: float = 0.0  # share of the call in operators whose work is not known
    call: float = 0.0  # seconds of a call that was not recorded
    recorded: float = 0.0  # seconds of a recorded one
    calls: int = 0  # that were recorded
    outside: float = 0.0  # share of the call outside of operators
    threads: int = 0  # of the runtime
    cores: float = 0.0  # that may be used
    busy: float | None = None  # cores that worked on average
    recorder: str = ""  # what recorded it, in words
    classes: list[ClassBound] = []  # most time first
    roofline: Roofline | None = None  # work by class and by operator of one call, with the ceilings
    missing: str = ""


class ModelBounds(Struct, frozen=True, kw_only=True):
    """The bounds of a call of the given model, and of the final set; None if the session has none."""

    before: CallBounds | None = None
    after: CallBounds | None = None
