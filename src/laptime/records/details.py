"""Known facts of a case beside its samples: a typed record, whose fields are written by the verb that
knows.

On disk the fields stand beside each other, and only those that say something. What a backend tells of a
model, of its inputs and of what it counted is open: other packages add facts, reports show them all.
`Details.known_model`, `known_inputs` and `receipt` read what laptime itself goes by."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from laptime.records.load import Level
from laptime.records.scale import OnRanks

# How far outputs are from those of another implementation; `analysis.agreement` measures and judges.


class OutputError(Struct, frozen=True, kw_only=True):
    """How far one output tensor is from the reference's; see `analysis.agreement`."""

    output: int  # its place
    # rms, largest, gain, spread: see there. Of whole numbers `rms` is the share that differs. Gain and spread
    # are None if nothing tells.
    rms: float
    largest: float
    absolute: float  # largest absolute error, in the output's own unit
    gain: float | None = None
    spread: float | None = None
    cosine: float  # of all calls as one vector; 1 for equal ones
    # share of rows whose largest element is at the same place; None for other outputs
    top1: float | None = None
    exact: bool = False  # whole numbers or booleans
    rounding: float = 0.0  # see there; 0 if it is not known
    worst: int = 0  # place of the call whose RMS error is the largest
    small: float = 0.0  # see there; 0 if no column is small


class Agreement(Struct, frozen=True, kw_only=True):
    """Outputs against a reference's."""

    against: str  # whose they are compared with
    dtype: str = "float32"  # the reference's precision
    inputs: int = 0  # number of different inputs
    batches: list[int] = []  # their batch sizes
    outputs: list[OutputError] = []  # one entry an output tensor that is not empty
    reason: str = ""  # why there are none: shapes differ, the call failed
    undetermined: str = ""  # why nothing could be compared: the reference draws random numbers


# What is known of a case.


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a case has no (complete) numbers: the three lines of an error, and its kind.

    Attributes:
        kind: user_code, out_of_memory, hung, died, target, unavailable, usage, interrupted, bug."""

    kind: str
    what: str
    why: str = ""
    next: str = ""
    traceback: str = ""


class KnownInputs(Struct, frozen=True, omit_defaults=True):
    """The inputs of a call."""

    shapes: str = ""  # in words
    origin: str = ""  # given, known, guessed or none
    batch_is: str = ""  # how the batch is known
    resized: bool = False  # cut or repeated from what was given


class LanguageModel(Struct, frozen=True, omit_defaults=True):
    """A phase of a language model."""

    phase: str  # prefill or decode
    tokens: float  # of one item
    # weight_bytes, cache_bytes: read for a step of decoding, of the cache by each sequence. None: prefill.
    weight_bytes: int | None = None
    cache_bytes: float = 0.0
    context: float = 1.0  # tokens in the cache
    bandwidth: float | None = None  # bytes per second of a copy in the same process


class KnownModel(Struct, frozen=True, omit_defaults=True):
    """Facts about a model."""

    dtypes: dict[str, int] = {}  # numbers of tensors
    sha256: str = ""  # of its file
    is_file: bool = False  # nothing but the file makes the model
    inputs: KnownInputs = KnownInputs()  # before they were made fit for a batch size
    llm: LanguageModel | None = None


class LeastWork(Struct, frozen=True, omit_defaults=True):
    """Work that no machine can leave out: FLOPs by dtype, bytes of the weights that they read."""

    flops: dict[str, float] = {}
    weights: float = 0.0


class Receipt(Struct, frozen=True, omit_defaults=True):
    """Work as it was counted."""

    counter: str = ""  # what counted
    counted: dict[str, float] = {}  # FLOPs by operator
    complete: bool = True  # whether all was counted
    doubtful: list[str] = []  # what may not have been
    least: LeastWork | None = None  # None if the counter does not say
    reason: str = ""  # why nothing was


class Outputs(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Observations of one output."""

    finite: bool | None = None  # None if nothing tells
    shape: str = ""  # in words
    batch: str = ""  # why it may be no batch
    pending: bool = False  # it was still being computed after the call and the wait for it
    # an export's outputs against those of the model that it was made of
    against_torch: Agreement | None = None
    threads: int | None = None  # that calls had
    in_eval: float | None = None  # time of a call in eval mode as a share of one as it is


class HostMemory(Struct, frozen=True, kw_only=True, omit_defaults=True):  # as `probes.host_memory.peak_of`
    peak: int | None = None
    baseline: int | None = None
    increase: int | None = None
    exact: bool | None = None
    note: str = ""
    virtual: int | None = None


class Memory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Memory of one call. `device`: how its backend splits it, in bytes."""

    host: HostMemory | None = None
    device: dict[str, Any] = {}


class EnergyUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Energy of a stretch of calls."""

    measured: bool | None = None  # whether there is a reading
    items: int | None = None  # of the stretch
    meters: list[dict[str, Any]] = []  # a reading each
    why: dict[str, Any] | str = ""  # of meters that are not there, what is missing

    @property
    def reason(self) -> str:
        """Why there is no number; "" if there is one."""
        if self.measured is not False:
            return ""
        tried = self.why.values() if isinstance(self.why, dict) else [self.why]
        return "; ".join(str(each.get("why", "")) if isinstance(each, dict) else str(each) for each in tried)


class Peak(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The peak of the device, in FLOP/s."""

    flops: float | None = None  # measured
    limit: float | None = None  # on paper
    source: str = ""  # of which of them a share is told
    # dtype, size: of the matrices
    dtype: str = ""
    size: int | None = None
    reason: str = ""  # why it was not measured


class Details(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of a case that are no series."""

    # model, inputs, count: as the backend tells them
    model: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    count: dict[str, Any] = {}
    outputs: Outputs | None = None
    outputs_compared: Agreement | None = None  # against those of the first case
    peak: Peak | None = None
    memory: Memory | None = None
    energy: EnergyUse | None = None
    # why a pass has no answer
    outputs_failed: Failure | None = None
    count_failed: Failure | None = None
    memory_failed: Failure | None = None
    copies_failed: Failure | None = None
    energy_failed: Failure | None = None
    record_failed: Failure | None = None
    compare_failed: Failure | None = None
    usable_cpus: int | float | None = None
    physical_cores: int | float | None = None
    known_work: float | None = None  # seconds of known arithmetic at its best in earlier runs
    in_process: bool = False  # it ran in the user's own process
    shared_process: int = 1  # cases of one worker, if several
    extra_info: dict[str, Any] = {}  # what the user of the pytest fixture keeps with it
    # steps_found_by, seen, settled, notes: of a script's steps (the verb profile)
    steps_found_by: str = ""
    seen: dict[str, int] = {}
    settled: int | None = None
    notes: list[str] = []
    load: Level | None = None  # the facts of a level
    ranks: OnRanks | None = None  # of a training on several ranks
    unit: str = ""  # of what was answered
    slo: str = ""  # the promise that a search was for
    perfzero: dict[str, Any] = {}  # the summary of a benchmark, as PerfZero writes it
    # failed, extras: requests that failed, and what else there is, of results that were imported
    failed: int | None = None
    extras: list[Any] = []

    def merge(self, more: "Details") -> "Details":
        nothing = structs.asdict(_NOTHING)
        told = {name: value for name, value in structs.asdict(more).items() if value != nothing[name]}
        return structs.replace(self, **told)

    @property
    def known_model(self) -> KnownModel:
        """The facts of `model` that laptime uses."""
        return _read_known(self.model, KnownModel)

    @property
    def known_inputs(self) -> KnownInputs:
        """The facts of `inputs` that laptime uses."""
        return _read_known(self.inputs, KnownInputs)

    @property
    def receipt(self) -> Receipt:
        """The facts of `count` that laptime uses."""
        return _read_known(self.count, Receipt)

    @property
    def unmeasured(self) -> dict[str, str]:
        """Return attempts that gave no number, with the reason: a missing number is never a zero."""
        reasons = {"count": self.receipt.reason}
        for name in ("outputs_compared", "peak", "energy"):
            reasons[name] = getattr(getattr(self, name), "reason", "")
        for name in self.__struct_fields__:
            if name.endswith("_failed") and (failure := getattr(self, name)) is not None:
                reasons[name.removesuffix("_failed")] = failure.why or failure.what or "failed"
        return {name: reason for name, reason in reasons.items() if reason}


_NOTHING = Details()
Known = TypeVar("Known")


def _read_known(told: dict[str, Any], kind: type[Known]) -> Known:
    """The fields of a record in open facts; those of a damaged file say nothing."""
    try:
        return msgspec.convert(told, kind, strict=False)
    except msgspec.ValidationError:
        return kind()
