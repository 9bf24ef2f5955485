"""Where the time of a step goes: what `laptime trace` and `laptime profile` find out, as plain data, and what
was traced: facts that rules ask for before they give advice.

Every duration is an integer number of nanoseconds and its name ends in `_ns`; shares are fractions (0.5 is 50
%). None, "" and empty lists mean "the trace does not say", never "no". Tables are sorted as they are shown,
largest first.

    Profile -- files        what was read, and what was wrong with it
            -- steps, overview (breakdown, devices, idle, communication, phases)
            -- operators, annotations, kernels, modules, memory, launches, copies
            -- roofline     what operators compute and move, by class
            -- critical_path     what decides the length of a step
            -- ranks, collectives     when several files are the ranks of one job
            -- timeline, calls     one step, and the calls of all steps, to be drawn
            -- against      the differences to another profile
            -- reconciled   the profiled step beside the untraced one"""

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
    """Work of the host that launches nothing for a while, by kind; an instant counts for one kind only."""

    # capture: CUDA graphs are captured and instantiated. initialisation: one-off calls that make a context,
    # load a library or a module, or allocate for the first time, while the device has nothing to do.
    # autotuning: kernels are tried. compilation: torch.compile at work. collection: Python's garbage
    # collector. preprocessing: samples are decoded, resized, tokenised outside of a loader. stretch: anything
    # else between two launches that are far apart.
    kind: HostWorkKind
    calls: int  # ranges
    host_ns: int  # their time in the window of the steps
    longest_ns: int = 0  # of one
    idle_ns: int = 0  # part of it in which no accelerator worked
    names: list[tuple[str, int]] = []  # what the host was in, most time first: (name, ns)
    stack: list[str] = []  # of the longest, innermost first


class WarmUp(Struct, frozen=True, kw_only=True):
    """Steps at the start that are much longer than the settled ones. No other figure has them in it."""

    steps: list[Step]
    beyond_ns: int  # what they took more than so many settled steps, by the median of these
    # what the host did in them that launches nothing, by kind, most time first
    host_work: list[HostWork] = []


class EmptyWait(Struct, frozen=True, kw_only=True):
    """A call that waited for the device while the file shows no work of it."""

    call: str
    # calls, wait_ns: number, and time of the host in them
    calls: int
    wait_ns: int
    idle_ns: int  # part of it without work in the file


class CollectiveUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All collectives of one kind and dtype in the window of the steps."""

    kind: str  # all_reduce, all_to_all, all_gather, reduce_scatter, send_recv ...
    dtype: str = ""  # as the file writes it (`Float`, `BFloat16`), "" unknown
    calls: int
    total_ns: int  # sum of durations
    # part in which no kernel computes, one kind after the other: the kinds' sum is the exposed communication
    exposed_ns: int = 0
    bytes: int | None = None  # of all messages, None if the file does not say
    small: int = 0  # those below 1 MiB
    in_backward: int = 0  # launched by the thread of the autograd engine, or while it worked


class Fusible(Struct, frozen=True, kw_only=True):
    """Kernels that compute elementwise, reduce or copy: those that a compiler can fuse."""

    # kernels, total_ns: number and time in the window of the steps
    kernels: int
    total_ns: int
    runs: int  # rows of at least two of them, one directly after the other on a stream
    # time of these rows without the longest kernel of each: the fused kernel has to read and write at least
    # as much as that one does
    reachable_ns: int


class Workload(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The kind of program, and how it runs."""

    # training: autograd or an optimizer is at work; inference: operators and neither of them
    kind: Literal["training", "inference", "unknown"] = "unknown"
    server: str = ""  # vLLM, SGLang, TensorRT-LLM, ... when an inference server was traced.
    stage: str = ""  # prefill, decode, mixed or capture, if a server's ranges tell
    compiled: bool = False  # kernels or regions of torch.compile are in it
    graph_share: float = 0.0  # share of the device's activities that graphs replayed
    graph_launches: int = 0  # their calls
    launch_calls: int = 0  # calls that launched work; a graph is one, whatever it replays
    loader: bool = False  # a torch DataLoader is in it
    optimizer: str = ""  # its class, `AdamW`
    gradient_dtype: str = ""  # of the all-reduces and reduce-scatters in the backward that take most time
    # host_work, empty_waits, collectives: by kind or call, most time first
    host_work: list[HostWork] = []
    empty_waits: list[EmptyWait] = []
    collectives: list[CollectiveUse] = []
    fusible: Fusible | None = None  # None without an accelerator


Bound = Literal[
    "input", "host", "device", "communication", "copy", "synchronisation", "cpu", "memory", "compilation",
    "unknown",
]  # fmt: skip
JSON_FORMATS = ("A", "B", "C", "D", "rocprof")  # formats of Kineto's traces


class TraceFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that was read."""

    name: str  # file name without folders
    bytes: int  # of JSON in it, uncompressed
    events: int  # of all kinds
    # A (torch 1.8-1.9), B (1.12-1.13), C (2.0-2.2), D (2.3 and later); xplane (TensorFlow); nsys (Nsight
    # Systems), rocpd and rocprof (ROCm), snapshot (memory of PyTorch's allocator), torch_trace (log of
    # torch.compile)
    format: str
    rank: int | None = None
    truncated: bool = False  # it ends in the middle; what came before was used
    warnings: list[str] = []  # sentences about what was repaired or left out


class Accelerator(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An accelerator that did work in this trace. Unknown: "" and None."""

    id: int  # as the trace calls it
    name: str = ""
    memory: int | None = None  # bytes
    capability: str = ""  # compute capability, "8.0"
    sms: int | None = None  # streaming multiprocessors or compute units


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
    """The limit of the step."""

    # input: waits for data; host: Python or launches too slow for the device; device: the device computes;
    # communication; copy; synchronisation; cpu: no accelerator, operators take the time; memory, compilation:
    # the file is a memory snapshot or a log of torch.compile, without times of work
    bound: Bound
    sentence: str  # in words with numbers
    share: float | None = None  # of the step that this takes


class CallTree(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All calls in the steps, those of one name below the same callers as one node, depth first."""

    names: list[str] = []
    categories: list[str] = []
    parent: list[int] = []  # number of the node above, -1 for threads
    # name_index, category: into names and categories
    name_index: list[int] = []
    category: list[int] = []
    # calls, host_ns, device_ns: of the node itself, over all steps; kernels lie below what launched them
    calls: list[int] = []
    host_ns: list[int] = []
    device_ns: list[int] = []
    left_out: int = 0  # nodes with too little time, which counts for what called them


class Reconciled(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The step without the profiler beside the profiled one; only `laptime profile` knows both."""

    untraced_ns: int  # median step before the profiler was started
    untraced_steps: int  # how many of them
    # distribution-free interval of that median, None when there are too few steps
    untraced_ci95_ns: tuple[int, int] | None = None
    traced_ns: int  # median profiled step
    slowdown: float  # traced / untraced
    # the untraced step in parts, by phase: data, forward, backward, optimizer, other. They sum to
    # untraced_ns. Measured without the profiler.
    parts_ns: dict[str, int] = {}
    loader_wait_ns: int | None = None  # mean wait for the loader per untraced step
    outside_ns: int = 0  # between untraced steps (epochs, evaluation, saving), mean per step
    pauses: int = 0  # how often one did not follow the other at once
    evaluation_ns: int = 0  # of outside_ns in calls of models and in loaders
    # starting and ending a loader's workers, and what the first step of an epoch waits for them beyond other
    # steps; mean per step, of it workers_wait_ns inside steps
    workers_ns: int = 0
    workers_wait_ns: int = 0
    # CPU time of the process / wall time, untraced: how many threads were busy
    threads_busy: float | None = None
    # CPUs that other programs used meanwhile, on average; None if that is not known
    others: float | None = None
    note: str = ""  # what could not be reconciled, in words


class Primitive(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A oneDNN primitive of one step on the CPU, from its verbose output."""

    kind: str  # convolution, matmul, reorder ...
    implementation: str  # brgconv:avx512_core, jit:avx2 ...
    shapes: str = ""  # oneDNN's problem description
    # calls, total_ns: in the observed step
    calls: int
    total_ns: int


class Profile(Struct, frozen=True, kw_only=True):
    """All known facts about where the time went.

    The tables speak of one rank: `rank`, the one whose file comes first. `ranks` has one row each."""

    files: list[TraceFile]
    rank: int | None = None
    world: int | None = None
    device_type: str = "cpu"  # cuda, hip, mtia, xpu ..., or cpu when there was no accelerator work
    accelerators: list[Accelerator] = []
    span_ns: int = 0  # from the first to the last event of the file
    window_ns: int = 0  # time in the steps: what the overview covers. Tables cover the file.
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
    other_jobs: list[str] = []  # names of files beside these that belong to other jobs
    # what torch.compile compiled, in time order; empty without its log
    compilations: list[tables.Compilation] = []
    # None if nothing was looked at: no operator, or another format than PyTorch's
    roofline: Roofline | None = None
    # of the step nearest the median; None for a file without operators
    critical_path: tables.CriticalPath | None = None
    workload: Workload | None = None  # what was traced; None if nothing looked (TensorFlow)
    # slow steps at the start, apart from all other figures; None without. Only `memory`, the totals and
    # `span_ns` cover them, too.
    warm_up: WarmUp | None = None
    # other scalars of the file: with_stack, record_shapes, cuda_runtime_version ...
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
