"""Where the time of a step goes: what `laptime trace` and `laptime profile` find out, as plain data, and what
was traced: facts that rules ask for before they give advice.

Every duration is an integer number of nanoseconds and its name ends in `_ns`; shares are fractions (0.5 is 50
%). None, "" and empty lists mean "the trace does not tell", never "no". Tables are sorted as they are shown,
largest first.

    Profile -- files        what was read, and what was wrong with it
            -- steps, overview (breakdown, devices, idle, communication, phases)
            -- operators, annotations, kernels, modules, memory, launches, copies
            -- roofline     what operators compute and move, by class
            -- critical_path     what decides the length of a step
            -- ranks, collectives     when several files are the ranks of one job
            -- timeline, calls     one step, and the calls of all steps, to be drawn
            -- against      the differences to another profile
            -- reconciled   the profiled step beside the untraced one
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from laptime.kit.text import count
from laptime.records import tables
from laptime.records.comparison import Difference
from laptime.records.overview import CollectiveRow, Overview, RankRow, Roofline, Step, Straggler

HostWorkKind = Literal[
    "capture", "initialisation", "autotuning", "compilation", "collection", "preprocessing", "stretch"
]


class HostWork(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Work of the host that launches nothing for a while, by kind; an instant counts for one kind only.

    Attributes:
        kind: capture: CUDA graphs are captured and instantiated. initialisation: one-off calls that make a
            context, load a library or a module, or allocate for the first time, while the device has nothing
            to do. autotuning: kernels are tried. compilation: torch.compile at work. collection: Python's
            garbage collector. preprocessing: samples are decoded, resized, tokenised outside of a loader.
            stretch: anything else between two launches that are far apart.
        calls: ranges. host_ns: their time in the window of the steps; longest_ns: of one.
        idle_ns: part of it in which no accelerator worked.
        names: what the host was in, most time first: (name, ns). stack: of the longest, innermost first.
    """

    kind: HostWorkKind
    calls: int
    host_ns: int
    longest_ns: int = 0
    idle_ns: int = 0
    names: list[tuple[str, int]] = []
    stack: list[str] = []


class WarmUp(Struct, frozen=True, kw_only=True):
    """Steps at the start that are much longer than the settled ones. No other figure has them in it.

    Attributes:
        beyond_ns: what they took more than so many settled steps, by the median of these.
        host_work: what the host did in them that launches nothing, by kind, most time first.
    """

    steps: list[Step]
    beyond_ns: int
    host_work: list[HostWork] = []


class EmptyWait(Struct, frozen=True, kw_only=True):
    """A call that waited for the device while the file shows no work of it. calls, wait_ns: number, and time
    of the host in them. idle_ns: part of it without work in the file."""

    call: str
    calls: int
    wait_ns: int
    idle_ns: int


class CollectiveUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All collectives of one kind and dtype in the window of the steps.

    Attributes:
        kind: all_reduce, all_to_all, all_gather, reduce_scatter, send_recv ...
        dtype: as the file writes it (`Float`, `BFloat16`), "" unknown.
        total_ns: sum of durations. exposed_ns: part in which no kernel computes, one kind after the other:
            the kinds' sum is the exposed communication.
        bytes: of all messages, None where the file does not tell. small: those below 1 MiB.
        in_backward: launched by the thread of the autograd engine, or while it worked.
    """

    kind: str
    dtype: str = ""
    calls: int
    total_ns: int
    exposed_ns: int = 0
    bytes: int | None = None
    small: int = 0
    in_backward: int = 0


class Fusible(Struct, frozen=True, kw_only=True):
    """Kernels that compute elementwise, reduce or copy: those that a compiler can fuse.

    Attributes:
        kernels, total_ns: number and time in the window of the steps.
        runs: rows of at least two of them, one directly after the other on a stream.
        reachable_ns: time of these rows without the longest kernel of each: the fused kernel has to read and
            write at least as much as that one does.
    """

    kernels: int
    total_ns: int
    runs: int
    reachable_ns: int


class Workload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What kind of program it is, and how it runs.

    Attributes:
        kind: training: autograd or an optimizer is at work; inference: operators and neither of them.
        server: vLLM, SGLang, TensorRT-LLM, ... when an inference server was traced.
        stage: prefill, decode, mixed or capture, where a server's ranges tell.
        compiled: kernels or regions of torch.compile are in it.
        graph_share: share of the device's activities that graphs replayed. graph_launches: their calls.
        launch_calls: calls that launched work; a graph is one, whatever it replays.
        loader: a torch DataLoader is in it.
        optimizer: its class, `AdamW`.
        gradient_dtype: of the all-reduces and reduce-scatters in the backward that take most time.
        host_work, empty_waits, collectives: by kind or call, most time first. fusible: None without an
        accelerator.
    """

    kind: Literal["training", "inference", "unknown"] = "unknown"
    server: str = ""
    stage: str = ""
    compiled: bool = False
    graph_share: float = 0.0
    graph_launches: int = 0
    launch_calls: int = 0
    loader: bool = False
    optimizer: str = ""
    gradient_dtype: str = ""
    host_work: list[HostWork] = []
    empty_waits: list[EmptyWait] = []
    collectives: list[CollectiveUse] = []
    fusible: Fusible | None = None


Bound = Literal[
    "input", "host", "device", "communication", "copy", "synchronisation", "cpu", "memory", "compilation",
    "unknown",
]  # fmt: skip
JSON_FORMATS = ("A", "B", "C", "D", "rocprof")  # formats of Kineto's traces


class TraceFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that was read.

    Attributes:
        name: file name without folders.
        bytes: of JSON in it, uncompressed.
        events: of all kinds.
        format: A (torch 1.8-1.9), B (1.12-1.13), C (2.0-2.2), D (2.3 and later); xplane (TensorFlow);
            nsys (Nsight Systems), rocpd and rocprof (ROCm), snapshot (memory of PyTorch's allocator),
            torch_trace (log of torch.compile).
        truncated: it ends in the middle; what came before was used.
        warnings: sentences about what was repaired or left out.
    """

    name: str
    bytes: int
    events: int
    format: str
    rank: int | None = None
    truncated: bool = False
    warnings: list[str] = []


class Accelerator(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An accelerator that did work in this trace. Unknown: "" and None.

    Attributes:
        id: as the trace calls it.
        memory: bytes.
        capability: compute capability, "8.0".
        sms: streaming multiprocessors or compute units.
    """

    id: int
    name: str = ""
    memory: int | None = None
    capability: str = ""
    sms: int | None = None


BOUND = {
    "input": "input-bound",
    "host": "host-bound",
    "device": "device-bound",
    "communication": "communication-bound",
    "copy": "copy-bound",
    "synchronisation": "synchronisation-bound",
    "cpu": "CPU-bound",
    "memory": "memory alone",
    "compilation": "compilation alone",
    "unknown": "undecided",
}
"""The word that people read for each bound."""


class Bottleneck(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What limits the step.

    Attributes:
        bound: input: waits for data; host: Python or launches too slow for the device; device: the device
            computes; communication; copy; synchronisation; cpu: no accelerator, operators take the time;
            memory, compilation: the file is a memory snapshot or a log of torch.compile, without times of
            work.
        sentence: in words with numbers.
        share: of the step that this takes.
    """

    bound: Bound
    sentence: str
    share: float | None = None


class CallTree(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All calls in the steps, those of one name below the same callers as one node, depth first.

    Attributes:
        parent: number of the node above, -1 for threads. name_index, category: into names and categories.
        calls, host_ns, device_ns: of the node itself, over all steps; kernels lie below what launched them.
        left_out: nodes with too little time, which counts for what called them.
    """

    names: list[str] = []
    categories: list[str] = []
    parent: list[int] = []
    name_index: list[int] = []
    category: list[int] = []
    calls: list[int] = []
    host_ns: list[int] = []
    device_ns: list[int] = []
    left_out: int = 0


class Reconciled(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The step without the profiler beside the profiled one; only `laptime profile` knows both.

    Attributes:
        untraced_ns: median step before the profiler was started; untraced_steps: how many of them.
        untraced_ci95_ns: distribution-free interval of that median, None when there are too few steps.
        traced_ns: median profiled step.
        slowdown: traced / untraced.
        parts_ns: the untraced step in parts, by phase: data, forward, backward, optimizer, other. They
            sum to untraced_ns. Measured without the profiler.
        loader_wait_ns: mean wait for the loader per untraced step.
        outside_ns: between untraced steps (epochs, evaluation, saving), mean per step.
        pauses: how often one did not follow the other at once.
        evaluation_ns: of outside_ns in calls of models and in loaders.
        workers_ns: starting and ending a loader's workers, and what the first step of an epoch waits for
            them beyond other steps; mean per step, of it workers_wait_ns inside steps.
        threads_busy: CPU time of the process / wall time, untraced: how many threads were busy.
        others: CPUs that other programs used meanwhile, on average; None where that is not known.
        note: what could not be reconciled, in words.
    """

    untraced_ns: int
    untraced_steps: int
    untraced_ci95_ns: tuple[int, int] | None = None
    traced_ns: int
    slowdown: float
    parts_ns: dict[str, int] = {}
    loader_wait_ns: int | None = None
    outside_ns: int = 0
    pauses: int = 0
    evaluation_ns: int = 0
    workers_ns: int = 0
    workers_wait_ns: int = 0
    threads_busy: float | None = None
    others: float | None = None
    note: str = ""


class Primitive(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A oneDNN primitive of one step on the CPU, from its verbose output.

    Attributes:
        kind: convolution, matmul, reorder ...
        implementation: brgconv:avx512_core, jit:avx2 ...
        shapes: oneDNN's problem description.
        calls, total_ns: in the observed step.
    """

    kind: str
    implementation: str
    shapes: str = ""
    calls: int
    total_ns: int


class Profile(Struct, frozen=True, kw_only=True):
    """All that is known about where the time went.

    The tables speak of one rank: `rank`, the one whose file comes first. `ranks` has one row each.

    Attributes:
        device_type: cuda, hip, mtia, xpu ..., or cpu when there was no accelerator work.
        span_ns: from the first to the last event of the file.
        window_ns: time in the steps: what the overview covers. Tables cover the file.
        other_jobs: names of files beside these that belong to other jobs.
        compilations: what torch.compile compiled, in time order; empty without its log.
        critical_path: of the step nearest the median; None for a file without operators.
        roofline: None where nothing was looked at: no operator, or another format than PyTorch's.
        warm_up: slow steps at the start, apart from all other figures; None without. Only `memory`, the
            totals and `span_ns` cover them, too.
        workload: what was traced; None where nothing looked (TensorFlow).
        facts: other scalars of the file: with_stack, record_shapes, cuda_runtime_version ...
    """

    files: list[TraceFile]
    rank: int | None = None
    world: int | None = None
    device_type: str = "cpu"
    accelerators: list[Accelerator] = []
    span_ns: int = 0
    window_ns: int = 0
    verdict: Bottleneck | None = None
    steps: list[Step] = []
    overview: Overview
    operators: list[tables.OperatorRow] = []
    operators_by_shape: list[tables.OperatorRow] = []
    annotations: list[tables.AnnotationRow] = []
    kernels: list[tables.KernelRow] = []
    kernels_by_launch: list[tables.KernelRow] = []
    modules: list[tables.ModuleRow] = []
    memory: list[tables.Memory] = []
    launches: tables.Launches | None = None
    copies: list[tables.CopyRow] = []
    ranks: list[RankRow] = []
    collectives: list[CollectiveRow] = []
    stragglers: list[Straggler] = []
    timeline: tables.Timeline | None = None
    calls: CallTree | None = None
    against: Difference | None = None
    reconciled: Reconciled | None = None
    primitives: list[Primitive] = []
    other_jobs: list[str] = []
    compilations: list[tables.Compilation] = []
    roofline: Roofline | None = None
    critical_path: tables.CriticalPath | None = None
    workload: Workload | None = None
    warm_up: WarmUp | None = None
    facts: dict[str, str | int | float | bool] = {}

    @property
    def ranks_given(self) -> str:
        """Whose files were given: `all 8 ranks`, `2 of 128 ranks`; `2 ranks` of a job of unknown size."""
        given, world = len(self.ranks), self.world
        if not world or world < given:
            return count(given, "rank")
        return f"all {given:,} ranks" if given == world else f"{given:,} of {world:,} ranks"

    @property
    def is_log(self) -> bool:
        """Whether it shows the compilations of torch.compile alone, and no work."""
        return bool(self.files) and self.files[0].format == "torch_trace"

    @property
    def is_snapshot(self) -> bool:
        """Whether it shows memory alone, and no work."""
        return bool(self.files) and self.files[0].format == "snapshot"
