"""What was traced: facts that rules ask for before they give advice.

None, "" and empty lists mean "the trace does not tell", never "no".
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from laptime.records.overview import Step

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
    """A call that waited for the device while the file shows no work of it.

    Attributes:
        calls, wait_ns: number, and time of the host in them. idle_ns: part of it without work in the file.
    """

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
