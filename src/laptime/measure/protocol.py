"""The contract of backends, and the messages between parent and worker.

A backend file (`laptime.backends.<name>`) has:

    def open(variant: Variant) -> Model          load the target; raises LaptimeError
    def open_object(subject, inputs, variant) -> Model     the same for objects that live in this process
    def available() -> dict[str, str]            versions when importable; {} when not installed; never raises

and may have:

    TARGETS: tuple[str, ...]     kinds of targets that it can run; without it any
    OPTIONS: dict[str, str]      settings of its own and what they mean, given by --option NAME=VALUE; a name
                                 that ends in a dot stands for all that begin so. Text in `Variant.options`

Parent and worker exchange JSON lines: commands in, messages out, `Done` or `Failed` last."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from msgspec import Struct

from laptime.kit.errors import LaptimeError
from laptime.records.case import Failure
from laptime.records.details import Details
from laptime.records.environment import Device
from laptime.records.plan import Variant
from laptime.records.series import Series

if TYPE_CHECKING:
    import numpy as np


class Workload(Protocol):
    """One model with inputs of one batch size, ready to be called.

    call: runs the program once. May return before a device has finished. sync: returns when everything
    started on the device is done; a no-op on the CPU."""

    batch: int  # items in one call
    synchronous: bool  # `call` itself returns only when the result is there (CPU)

    def call(self) -> Any: ...
    def sync(self) -> None: ...


class Loadable(Protocol):
    """A loaded model that describes itself."""

    def facts(self) -> dict[str, Any]:
        """Return known facts about the model: source, inputs (shapes, dtypes, guessed or given), knobs ..."""

    def devices(self) -> list[Device]:
        """Devices it runs on, as the framework names them."""

    def libraries(self) -> dict[str, str]:
        """Versions of the framework and of what it brings."""

    def knobs(self) -> dict[str, Any]:
        """Effective settings of the framework that change speed or results."""


class Model(Loadable, Protocol):
    """A loaded target."""

    def workload(self, batch: int) -> Workload:
        """Inputs of this batch size bound to the model. Calls nothing yet.
        Raises UsageError: these inputs cannot be made with this batch size."""


# Abilities that a Model may have besides; a missing one is not offered.


@runtime_checkable
class Settles(Protocol):
    """Learns from the first call how calls have to be made: with fresh inputs, in which mode of autograd.

    If calls change their inputs, the workload has `apart`: what lays fresh ones, and the call alone."""

    def watch(self, batch: int) -> None:
        """The first call comes now: keep what it may change."""

    def settle(self, batch: int, outcome: Any, whole: Callable[[Any], Any] | None) -> bool:
        """Whether calls are made in another way from now on. `outcome`: what the first returned, or raised;
        `whole`: computes the rest of an output that is lazy, as a part of each call."""


@runtime_checkable
class CountsWork(Protocol):
    """Parameters, buffers, MACs and FLOPs with receipt."""

    def count(self, batch: int) -> tuple[list[Series], dict[str, Any]]:
        """Series params/all, params/trainable, buffers/all, macs, flops; the receipt goes to `details`."""


@runtime_checkable
class TellsInputs(Protocol):
    """Knows the inputs that it was given, and what is the batch in them."""

    def own_batch(self) -> int | None:
        """Items in a call with the inputs as they were given: nothing else is measured unless asked for.

        `workload` of this batch size has exactly those inputs. None if nothing tells: `workload(1)` has
        them, and no other size is possible. 1 if inputs are made for each batch size."""

    def inputs_of(self, batch: int) -> dict[str, Any]:
        """Describe the inputs of a call: `shapes` in words, `batch_is`: how the batch is known ..."""


@runtime_checkable
class MeasuresMemory(Protocol):
    """Device memory, split; host peak is measured by the engine for every model."""

    def device_memory(self, batch: int) -> tuple[list[Series], dict[str, Any]]:
        """Series memory/device/{weights,activations,reserved,peak}."""


@runtime_checkable
class TimesDevice(Protocol):
    """Times on the device itself."""

    def device_times(self, batch: int, calls: int) -> list[float]:
        """Seconds between events recorded around each of `calls` calls on the device's stream."""


@runtime_checkable
class TimesCopies(Protocol):
    """Host-to-device and device-to-host copies of inputs and outputs."""

    def copies(self, batch: int, repeats: int) -> list[Series]:
        """Series copy/{h2d,d2h}/{pageable,pinned} in seconds; empty if there is no device memory."""


@runtime_checkable
class ChecksOutputs(Protocol):
    """Looks at what the model returns."""

    def check_outputs(self, batch: int) -> dict[str, Any]:
        """`finite`: bool or None when there are no floats; `shape`: what came out, in words."""


@runtime_checkable
class GivesOutputs(Protocol):
    """Runs on given inputs, so that the outputs of two implementations can be compared."""

    def input_arrays(self, batch: int) -> "list[np.ndarray[Any, Any]]":
        """The tensors among its inputs of this batch size, in the order of `outputs`; bfloat16 as float32."""

    def outputs(self, inputs: "list[np.ndarray[Any, Any]]") -> "list[np.ndarray[Any, Any]]":
        """The model's outputs for these inputs, floats as float32 (float64 stays). inputs: its tensors in the
        order in which the model takes them, nested ones flattened; floats are cast to the model's dtype. They
        are not changed."""


@runtime_checkable
class Exports(Protocol):
    """May have been exported from another framework while it was loaded."""

    def exported(self) -> float | None:
        """Seconds of `open` that went into exporting, or finding an earlier export; None: there was none."""


@dataclass
class PeakWork:
    """Work that a device does as fast as it does anything, in the model's dtype: a large matrix product."""

    # call, sync, batch, synchronous: as of a `Workload`
    call: Callable[[], Any]
    sync: Callable[[], None]
    flops: float  # FLOPs of one call, which should take some milliseconds
    # `source`: "of the measured float32 GEMM peak"; `limit`: FLOP/s on paper or None; what else is worth
    # storing: dtype, size ..
    facts: dict[str, Any]
    batch: int = 1
    synchronous: bool = True


@runtime_checkable
class MeasuresPeak(Protocol):
    """Has work that shows the device's peak; the engine times it between the blocks of the cases."""

    def peak_work(self) -> PeakWork | None:
        """Made anew for every block and dropped after it, so that none of its memory is the model's; None
        if there is no peak to measure. May spend a tenth of a second on finding its size, once."""


@runtime_checkable
class Compiles(Protocol):
    """Knows how often a compiler ran."""

    def compiles(self) -> int:
        """Graphs compiled so far in this process."""


@runtime_checkable
class TimesCompilation(Protocol):
    """Times compilation apart from the first call that triggers it."""

    def compile_seconds(self, batch: int) -> float | None:
        """Seconds of tracing and compiling for this batch size, once it was called; None when none was."""


@runtime_checkable
class Scoped(Protocol):
    """Has a context that is entered once around many calls (inference mode), so that no call pays for it."""

    def scope(self) -> AbstractContextManager[None]:
        """Entered in the calling thread. Calls outside give the same results, 1 to 2 us slower."""


@runtime_checkable
class Explains(Protocol):
    """Turns what a call raised into one of laptime's errors."""

    def explain(self, error: BaseException, batch: int) -> LaptimeError:
        """OutOfMemory for exhausted memory and nothing else; any other error is a UserCodeError."""


@runtime_checkable
class Closes(Protocol):
    """Restores what it changed in this process (training flags, thread counts)."""

    def close(self) -> None:
        """Undo every change. The model is not called again."""


# Commands: parent to worker.


class Load(Struct, frozen=True, tag="load"):
    """Import the backend and load the variant. Answer: Loaded."""

    variant: Variant
    memory_limit: int | None = None  # bytes of private memory that the worker may map


class Prepare(Struct, frozen=True, tag="prepare"):
    """Make inputs of this batch size, and make and time the first call. Answer: Prepared. asked: the user
    named this batch size; else it is what the inputs have."""

    batch: int
    asked: bool = False


class Block(Struct, frozen=True, tag="block"):
    """Measure one case for a while. Answer: one or more Samples."""

    batch: int
    regime: str  # isolated, saturated, device or paced
    seconds: float  # measure about so long
    # min_calls, max_calls: at least and at most so many calls
    min_calls: int = 3
    max_calls: int = 100_000
    rate: float | None = None  # paced only: calls per second
    # seconds of one call as far as known; sizes the blocks of the saturated regime
    estimate: float | None = None


class Pass(Struct, frozen=True, tag="pass"):
    """A separate pass: count, memory, copies, outputs, energy; a block of the peak; `record`: keep inputs and
    outputs in the file `path`; `compare`: hold the outputs against those in it. Answer: Facts. against,
    dtype: of `compare`: name and precision of what was recorded."""

    kind: str
    batch: int
    seconds: float = 0.0
    path: str = ""
    against: str = ""
    dtype: str = ""


class Close(Struct, frozen=True, tag="close"):
    """End the worker."""


Command = Load | Prepare | Block | Pass | Close


# Messages: worker to parent.


class Loaded(Struct, frozen=True, kw_only=True, tag="loaded"):
    """The model is there."""

    imported: float  # seconds to import the framework (and the target's package)
    loaded: float  # seconds to build the model and move it to the device, without those of exporting
    # seconds to export the target to this framework's format; None if nothing was
    exported: float | None = None
    pid: int
    python: str = ""  # version of the worker's interpreter
    facts: dict[str, Any] = {}
    devices: list[Device] = []
    libraries: dict[str, str] = {}
    knobs: dict[str, Any] = {}
    batch: int | None = 1  # items in a call with the inputs as they were given; None if nothing tells


class Prepared(Struct, frozen=True, kw_only=True, tag="prepared"):
    """First call done: its seconds (with compilation, autotuning, allocation in it)."""

    batch: int
    first_call: float
    compiles: int = 0  # graphs compiled so far in this process
    # seconds of the first call that the compiler took; None when the backend cannot tell
    compile: float | None = None
    synchronous: bool = True  # whether a call returns only when its result is there
    inputs: dict[str, Any] = {}  # what the call got, as `TellsInputs` says; empty when the backend does not


class Samples(Struct, frozen=True, kw_only=True, tag="samples"):
    """Samples of one block, as series (the metric itself and the evidence beside it)."""

    batch: int
    series: list[Series]


class Facts(Struct, frozen=True, kw_only=True, tag="facts"):
    """Answer of a pass."""

    batch: int
    series: list[Series] = []
    details: Details = Details()


class Failed(Struct, frozen=True, tag="failed"):
    """The command failed; the worker lives on unless its process has died."""

    failure: Failure


class Done(Struct, frozen=True, tag="done"):
    """The command is finished."""


Message = Loaded | Prepared | Samples | Facts | Failed | Done
