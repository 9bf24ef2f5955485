"""What is known of a case beside its samples: a typed record, whose fields are written by the verb that
knows.

On disk the fields stand beside each other, and only those that say something. What a backend tells of a
model, of its inputs and of what it counted is open: other packages add facts, reports show them all.
`Details.known_model`, `known_inputs` and `receipt` read what laptime itself goes by.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from laptime.records.load import Level

# How far outputs are from those of another implementation; `analysis.agreement` measures and judges.


class OutputError(Struct, frozen=True, kw_only=True):
    """How far one output tensor is from the reference's; see `analysis.agreement`.

    Attributes:
        output: its place.
        rms, largest, gain, spread: see there. Of whole numbers `rms` is the share that differs. Gain and
            spread are None where nothing tells.
        absolute: largest absolute error, in the output's own unit.
        cosine: of all calls as one vector; 1 for equal ones.
        top1: share of rows whose largest element is at the same place; None for other outputs.
        exact: whole numbers or booleans.
        rounding: see there; 0 where it is not known.
        worst: place of the call whose RMS error is the largest.
        small: see there; 0 where no column is small.
    """

    output: int
    rms: float
    largest: float
    absolute: float
    gain: float | None = None
    spread: float | None = None
    cosine: float
    top1: float | None = None
    exact: bool = False
    rounding: float = 0.0
    worst: int = 0
    small: float = 0.0


class Agreement(Struct, frozen=True, kw_only=True):
    """Outputs against a reference's.

    Attributes:
        against: whose they are compared with.
        dtype: the reference's precision.
        inputs: number of different inputs.
        batches: their batch sizes.
        outputs: one entry an output tensor that is not empty.
        reason: why there are none: shapes differ, the call failed.
        undetermined: why nothing could be compared: the reference draws random numbers.
    """

    against: str
    dtype: str = "float32"
    inputs: int = 0
    batches: list[int] = []
    outputs: list[OutputError] = []
    reason: str = ""
    undetermined: str = ""


# What is known of a case.


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a case has no (complete) numbers: the three lines of an error, and its kind. kind: user_code,
    out_of_memory, hung, died, target, unavailable, usage, interrupted, bug."""

    kind: str
    what: str
    why: str = ""
    next: str = ""
    traceback: str = ""


class KnownInputs(Struct, frozen=True, omit_defaults=True):
    """The inputs of a call.

    Attributes:
        shapes: in words. origin: given, known, guessed or none. batch_is: how the batch is known.
        resized: cut or repeated from what was given.
    """

    shapes: str = ""
    origin: str = ""
    batch_is: str = ""
    resized: bool = False


class LanguageModel(Struct, frozen=True, omit_defaults=True):
    """A phase of a language model.

    Attributes:
        phase: prefill or decode. tokens: of one item.
        weight_bytes, cache_bytes: read for a step of decoding, of the cache by each sequence. None: prefill.
        context: tokens in the cache. bandwidth: bytes per second of a copy in the same process.
    """

    phase: str
    tokens: float
    weight_bytes: int | None = None
    cache_bytes: float = 0.0
    context: float = 1.0
    bandwidth: float | None = None


class KnownModel(Struct, frozen=True, omit_defaults=True):
    """Facts about a model.

    Attributes:
        dtypes: numbers of tensors. sha256: of its file. is_file: nothing but the file makes the model.
        inputs: before they were made fit for a batch size.
    """

    dtypes: dict[str, int] = {}
    sha256: str = ""
    is_file: bool = False
    inputs: KnownInputs = KnownInputs()
    llm: LanguageModel | None = None


class LeastWork(Struct, frozen=True, omit_defaults=True):
    """Work that no machine can leave out: FLOPs by dtype, bytes of the weights that they read."""

    flops: dict[str, float] = {}
    weights: float = 0.0


class Receipt(Struct, frozen=True, omit_defaults=True):
    """Work as it was counted.

    Attributes:
        counter: what counted. counted: FLOPs by operator. least: None where the counter does not tell.
        complete: whether all was counted; doubtful: what may not have been. reason: why nothing was.
    """

    counter: str = ""
    counted: dict[str, float] = {}
    complete: bool = True
    doubtful: list[str] = []
    least: LeastWork | None = None
    reason: str = ""


class Outputs(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was seen of one output.

    Attributes:
        finite: None where nothing tells. shape: in words. batch: why it may be no batch.
        pending: it was still being computed after the call and the wait for it.
        against_torch: an export's outputs against those of the model that it was made of.
        threads: that calls had. in_eval: time of a call in eval mode as a share of one as it is.
    """

    finite: bool | None = None
    shape: str = ""
    batch: str = ""
    pending: bool = False
    against_torch: Agreement | None = None
    threads: int | None = None
    in_eval: float | None = None


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
    """Energy of a stretch of calls.

    Attributes:
        measured: whether there is a reading. items: of the stretch. meters: a reading each.
        why: of meters that are not there, what is missing.
    """

    measured: bool | None = None
    items: int | None = None
    meters: list[dict[str, Any]] = []
    why: dict[str, Any] | str = ""

    @property
    def reason(self) -> str:
        """Why there is no number; "" if there is one."""
        if self.measured is not False:
            return ""
        tried = self.why.values() if isinstance(self.why, dict) else [self.why]
        return "; ".join(str(each.get("why", "")) if isinstance(each, dict) else str(each) for each in tried)


class Peak(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The peak of the device, in FLOP/s.

    Attributes:
        flops: measured. limit: on paper. source: of which of them a share is told.
        dtype, size: of the matrices. reason: why it was not measured.
    """

    flops: float | None = None
    limit: float | None = None
    source: str = ""
    dtype: str = ""
    size: int | None = None
    reason: str = ""


class Details(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of a case that are no series.

    Attributes:
        model, inputs, count: as the backend tells them.
        outputs_compared: against those of the first case.
        outputs_failed ... compare_failed: why a pass has no answer.
        known_work: seconds of known arithmetic at its best in earlier runs.
        in_process: it ran in the user's own process. shared_process: cases of one worker, if several.
        extra_info: what the user of the pytest fixture keeps with it.
        steps_found_by, seen, settled, notes: of a script's steps (the verb profile).
        load: the facts of a level. unit: of what was answered. slo: the promise that a search was for.
        perfzero: the summary of a benchmark, as PerfZero writes it.
        failed, extras: requests that failed, and what else there is, of results that were imported.
    """

    model: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    count: dict[str, Any] = {}
    outputs: Outputs | None = None
    outputs_compared: Agreement | None = None
    peak: Peak | None = None
    memory: Memory | None = None
    energy: EnergyUse | None = None
    outputs_failed: Failure | None = None
    count_failed: Failure | None = None
    memory_failed: Failure | None = None
    copies_failed: Failure | None = None
    energy_failed: Failure | None = None
    record_failed: Failure | None = None
    compare_failed: Failure | None = None
    usable_cpus: int | float | None = None
    physical_cores: int | float | None = None
    known_work: float | None = None
    in_process: bool = False
    shared_process: int = 1
    extra_info: dict[str, Any] = {}
    steps_found_by: str = ""
    seen: dict[str, int] = {}
    settled: int | None = None
    notes: list[str] = []
    load: Level | None = None
    unit: str = ""
    slo: str = ""
    perfzero: dict[str, Any] = {}
    failed: int | None = None
    extras: list[Any] = []

    def merged(self, more: Details) -> Details:
        nothing = structs.asdict(_NOTHING)
        told = {name: value for name, value in structs.asdict(more).items() if value != nothing[name]}
        return structs.replace(self, **told)

    @property
    def known_model(self) -> KnownModel:
        """What of `model` laptime goes by."""
        return _known(self.model, KnownModel)

    @property
    def known_inputs(self) -> KnownInputs:
        """What of `inputs` laptime goes by."""
        return _known(self.inputs, KnownInputs)

    @property
    def receipt(self) -> Receipt:
        """What of `count` laptime goes by."""
        return _known(self.count, Receipt)

    @property
    def unmeasured(self) -> dict[str, str]:
        """What was tried and has no number, with the reason: a missing number is never a zero."""
        reasons = {"count": self.receipt.reason}
        for name in ("outputs_compared", "peak", "energy"):
            reasons[name] = getattr(getattr(self, name), "reason", "")
        for name in self.__struct_fields__:
            if name.endswith("_failed") and (failure := getattr(self, name)) is not None:
                reasons[name.removesuffix("_failed")] = failure.why or failure.what or "failed"
        return {name: reason for name, reason in reasons.items() if reason}


_NOTHING = Details()
Known = TypeVar("Known")


def _known(told: dict[str, Any], kind: type[Known]) -> Known:
    """The fields of a record in open facts; those of a damaged file say nothing."""
    try:
        return msgspec.convert(told, kind, strict=False)
    except msgspec.ValidationError:
        return kind()
