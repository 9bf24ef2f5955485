"""The messages into a trial and out of it, all of it JSON as in `tuning.wire_format`.

in     a `TrialPlan`, in an environment variable; a file `stop` in its folder ends the trial at the next
       boundary; if it waits for turns, a byte in the pipe TURNS of its folder for each
out    FILE in its folder, a message a line: a `Block` as each ends, a `LoopProfile` or `NumericsComparison`
       if the mode gives one, a `TrialResult` at the end. Of these three the last one of its kind counts
"""

import errno
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from laptime.tuning import wire_format
from laptime.tuning.loop_profile import LoopProfile

VARIABLE = "LAPTIME_TRIAL"  # environment variable that holds the plan
TEMPORARY = "LAPTIME_TEMPORARY"
"""Environment variable with the folder where temporary files usually go; those of a trial go into its own."""
LIBRARIES = ("torch", "numpy", "torch._dynamo", "torchvision", "timm", "transformers", "lightning")
"""What a prepared interpreter imports before trials are forked, if the script has imported it; torch
imports its `_dynamo` when the first optimizer is made."""
FILE = "messages.jsonl"
INCOMPLETE = "the result is incomplete: "  # how the note of a trial begins whose mode has failed
TURNS, GO = "turns", b"g"
"""A named pipe in the folder of a trial, and what it reads there when it is to go on."""
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class CapturePlan:
    """Mode gate: which numerics are captured, and what they are compared with. Files are torch.save's."""

    write: str | None = None  # file for what is captured
    compare: str | None = None  # that of the base
    reference: str | None = None  # of one with `double`
    # file of the inputs, batches and initial state; it is made when it does not exist. Without it the
    # loader's own batches are used, and steps follow each other.
    batches: str | None = None
    # samples of each captured batch at most: a reference in double precision has no fast kernels for
    # convolutions. None: all.
    most: int | None = None
    steps: int = 3  # to be captured
    # everything in double precision: the reference. Tensor.float gives doubles then, too.
    double: bool = False
    # "bfloat16", "float16": activations and their gradients are rounded to it, module by module: how far this
    # precision turns the gradients of this model; "last_bits": by the last bits of their own type, as another
    # order of summation does (`gates.rounding_noise`)
    rounds: str | None = None
    draw: int = 0  # which errors of that size
    # batches for which the loader alone is run, an epoch at most (`numerics.captured_inputs`); no step is
    # trained. None: steps are captured.
    samples: int | None = None
    # compiled code draws the random numbers of eager code (`numerics.model_variants`)
    eager_draws: bool = False


@dataclass(frozen=True, kw_only=True)
class TrialPlan:
    """The task of a trial."""

    folder: str  # where its messages go
    fresh: bool = False  # in an interpreter that is started for it, whatever is prepared
    mode: str = "race"  # race, diagnose or gate
    # changes that are on from the start to the end, as `Recipe.to_json`
    base: list[dict[str, Any]] = field(default_factory=list)
    # changes on top of it, one list an arm; arms alternate in random order, a block each, round by round. One
    # empty arm times the base alone. Several arms need changes whose TOGGLE is live.
    arms: list[list[dict[str, Any]]] = field(default_factory=lambda: [[]])
    settle: int = 2  # steps before anything counts, at least; the trial takes more while compilation goes on
    resettle: int = 1  # steps that do not count after a switch of arms
    steps: int = 3  # timed steps in a block
    rounds: int = 12  # rounds at most
    seconds: float = 60.0  # of timing at most, after `settle`
    order: int = 0  # seed of the random order of arms
    # it waits for its turn before each block, and takes `resettle` steps that do not count first
    turns: bool = False
    # added to the seeds that the script sets, and set at its start; None leaves them alone
    seed: int | None = None
    # bytes of this process and its children at most; above, the trial ends as `memory`. None: no limit.
    memory: int | None = None
    step_by: str = ""  # optimizer, loader or forward; "" finds out
    scratch: str = ""  # folder for the script's writes; "" lets them through
    # files in place of the user's, by absolute path: a patched script runs under its own name
    sources: dict[str, str] = field(default_factory=dict)
    capture: CapturePlan = CapturePlan()  # for mode gate

    @classmethod
    def from_environment(cls) -> "TrialPlan | None":
        """The plan of this process, None when there is none. Raises WireError: the variable holds no plan."""
        text = os.environ.get(VARIABLE)
        return wire_format.decode(text, cls) if text else None


@dataclass
class Block:
    """Timed steps of one arm, back to back."""

    # round, arm: which; round -1, without steps, says that a trial with turns is warm
    round: int
    arm: int
    # wall time of each step, the device waited for at both ends of the block; with an accelerator its steps
    # are the block's time divided evenly
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # of each step, if a scalar was backpropagated
    samples: list[int] = field(default_factory=list)  # in each step
    compiling: float = 0.0  # of the seconds, those of torch.compile: another shape came by


@dataclass
class TrialResult:
    """How a trial went."""

    ended: str = ""  # stopped (we had enough), returned, exited, raised, memory, recompiles, refused, died
    error: str = ""  # one line
    traceback: str = ""  # without our frames
    status: int = 0  # exit status
    source: str = ""  # what steps were found by; "" when there was none
    settled: int = 0  # steps before the timing
    first: float | None = None  # seconds until the first step ended
    compile_seconds: float = 0.0  # of torch.compile in all
    peak: int | None = None  # bytes, of the process (RSS, CPU) or the device's allocator
    world: int = 1  # processes of the job; rank
    rank: int = 0
    torch: bool = False
    device: str = "cpu"  # cpu, cuda:0 ..
    # what an `undo` could not give back; empty when all is well
    left: list[str] = field(default_factory=list)
    # changes that could not be applied, with the reason: {"name": ..., "why": ...}
    refused: list[dict[str, str]] = field(default_factory=list)
    # of the environment that the script had set by the time torch was imported
    variables: list[str] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)  # libraries among LIBRARIES that it has imported
    libraries: dict[str, str] = field(default_factory=dict)
    devices: list[dict[str, Any]] = field(default_factory=list)
    knobs: dict[str, Any] = field(default_factory=dict)
    effects: list[str] = field(default_factory=list)  # facts of a step, as changes have made it (`facts`)
    notes: list[str] = field(default_factory=list)


# What mode gate has captured and compared, as the gates read it. A value that was not finite is None.


@dataclass(frozen=True, kw_only=True)
class TensorComparison:
    """How far a tensor of the candidate is from the base's after one step; or all tensors of a group (name
    "")."""

    step: int
    # gradients, parameters, updates (parameters after a step minus those before it), buffers, statistics (the
    # same of BatchNorm's running ones), optimizer
    group: str
    name: str
    elements: int  # of the whole tensor
    equal: bool  # bit for bit, the whole
    point: bool = True  # floating
    # norm, base_norm: exact 2-norms, of the whole
    norm: float | None = None
    base_norm: float | None = None
    rms: float | None = None  # of the base: its norm over the root of its elements
    error: float | None = None  # root mean square of candidate minus base, over the elements that were kept
    cosine: float | None = None  # over these; None when one of them is zero
    # candidate_error, base_error: as `error`, minus the reference in double precision
    candidate_error: float | None = None
    base_error: float | None = None
    # of the reference's kept elements, as if they were all. None without a reference.
    reference_norm: float | None = None
    tensors: int = 1  # of a group: how many


@dataclass(frozen=True, kw_only=True)
class CapturedStep:
    """One optimizer step of one side."""

    loss: float | None = None  # their sum
    losses: list[float | None] = field(default_factory=list)  # what backward passes began from
    rates: list[float | None] = field(default_factory=list)  # learning rate of each group
    optimizer_steps: int = 0
    samples: int = 0  # the effective batch, as loaders give it
    shapes: list[list[list[int]]] = field(default_factory=list)  # of the tensors in each call of a model
    norm: list[float | None] = field(default_factory=list)  # of the gradients when the optimizer stepped
    norm_before: list[float | None] = field(default_factory=list)  # when the last backward pass ended
    # norms that the script asked torch to clip
    clipped_from: list[float | None] = field(default_factory=list)
    bad: dict[str, int] = field(default_factory=dict)  # non-finite values by group


@dataclass(frozen=True, kw_only=True)
class CapturedRun:
    """Candidate, base or reference. settings: of every parameter group of the optimizers."""

    steps: list[CapturedStep] = field(default_factory=list)
    settings: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class DtypeChange:
    """A parameter or optimizer state that has another type."""

    name: str
    candidate: str
    base: str


@dataclass(frozen=True, kw_only=True)
class LoaderSamples:
    """The samples that one training loader gives in an epoch; see `loader_samples`."""

    iterable: bool = False  # its dataset is an IterableDataset
    workers: int = 0
    batch_size: int | None = None
    drop_last: bool = False
    length: int | None = None  # batches of an epoch, as the loader says
    dataset: int | None = None  # samples in it
    # ids, hashes, values: of each sample
    ids: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # of batches
    complete: bool = False  # the epoch ended
    hashes: list[str] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    draws: list[list[list[str]]] = field(default_factory=list)  # hashes by pass, worker and read


@dataclass(frozen=True, kw_only=True)
class LoaderPair:
    """Training loaders of both sides, in order."""

    candidate: list[LoaderSamples] = field(default_factory=list)
    base: list[LoaderSamples] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class NumericsComparison:
    """A candidate compared with the base, step by step and tensor by tensor.

    Attributes:
        steps, planned: optimizer steps that were captured, and that should have been. fed: on captured
        batches. restored: every step began from the captured state; else they follow each other. sampled: of
        large tensors every so many-th element was kept. refused: changes of the recipe that could not be
        applied: {"name", "why"}. totals: a row a step and group. tensors: the rows of single tensors, the
        worst if they are many. unmatched: names that only one side has, or of another size; at most 20, as
        of dtypes. data: of trials that ran the loaders alone.
    """

    steps: int = 0
    planned: int = 0
    fed: bool = False
    restored: bool = False
    notes: list[str] = field(default_factory=list)
    refused: list[dict[str, str]] = field(default_factory=list)
    candidate: CapturedRun = CapturedRun()
    base: CapturedRun = CapturedRun()
    reference: CapturedRun = CapturedRun()
    totals: list[TensorComparison] = field(default_factory=list)
    tensors: list[TensorComparison] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    dtypes: list[DtypeChange] = field(default_factory=list)
    dtypes_count: int = 0
    data: LoaderPair = LoaderPair()


# Writing and reading.

KINDS = (Block, LoopProfile, NumericsComparison, TrialResult)


def write(folder: str, message: Any, rank: int = 0) -> None:
    """Append a message in one write, so that a reader that follows the file sees whole lines. Ranks other
    than the first have a file of their own."""
    line = (wire_format.encode(message) + "\n").encode()
    path = Path(folder) / (f"{rank}-{FILE}" if rank else FILE)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        if os.write(descriptor, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


class Messages:
    """Reads the messages of a trial, also while it runs; an incomplete line is left for later."""

    def __init__(self, folder: str | Path) -> None:
        self._path = Path(folder) / FILE
        self._offset = 0
        self._blocks: list[Block] = []
        self._latest: dict[type, Any] = {}

    def new_blocks(self) -> list[Block]:
        """Blocks that were written since the last call. Raises WireError: a line is not a message."""
        self._read()
        blocks, self._blocks = self._blocks, []
        return blocks

    def latest(self, kind: type[_T]) -> _T | None:
        """The last message of this kind, None without one. Raises WireError: a line is not a message."""
        self._read()
        return self._latest.get(kind)

    def _read(self) -> None:
        data = b""
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            message: Any = wire_format.decode(line, *KINDS)
            if isinstance(message, Block):
                self._blocks.append(message)
            else:
                self._latest[type(message)] = message
