"""Steps and their summary: breakdown, devices, idle time, communication, phases."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Breakdown(Struct, frozen=True, kw_only=True):
    """A step's time in the plugin's categories, by priority: each takes what no earlier one has taken.

    The sum is the step. `communication` counts the kernels of collectives as they really ran; the plugin
    counted host ranges instead (`plugin_communication_ns` in `Overview` has its number).

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
        plugin_communication_ns: what the TensorBoard plugin would have called communication (host ranges
            of `nccl:*` and `gloo:*`), for old readers; mean per step.
        phases: parts of the loop on the host, where the trace tells them.
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
    plugin_communication_ns: int = 0
    phases: list[Phase] = []
    cpu_threads: int = 0
    threads_busy: float | None = None
    unrecorded_ns: int = 0
    profiling_ns: int = 0
