"""What mode gate has captured and compared, as the gates read it. A value that was not finite is None."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TensorComparison:
    """How far a tensor of the candidate is from the base's after one step; or all tensors of a group (name
    "").

    Attributes:
        group: gradients, parameters, updates (parameters after a step minus those before it), buffers,
        optimizer. elements: of the whole tensor. equal: bit for bit, the whole. point: floating. norm,
        base_norm: exact 2-norms, of the whole. rms: of the base: its norm over the root of its elements.
        error: root mean square of candidate minus base, over the elements that were kept. largest: of all
            absolute differences. cosine: over the kept elements; None when one of them is zero.
        candidate_error, base_error: as `error`, minus the reference in double precision. reference_norm: of
            the reference's kept elements, as if they were all. None without a reference.
        tensors, unequal: of a group: how many, and how many of them differ.
    """

    step: int
    group: str
    name: str
    elements: int
    equal: bool
    point: bool = True
    norm: float | None = None
    base_norm: float | None = None
    rms: float | None = None
    error: float | None = None
    largest: float | None = None
    cosine: float | None = None
    candidate_error: float | None = None
    base_error: float | None = None
    reference_norm: float | None = None
    tensors: int = 1
    unequal: int = 0


@dataclass(frozen=True, kw_only=True)
class CapturedStep:
    """One optimizer step of one side.

    Attributes:
        losses: what backward passes began from; loss: their sum. rates: learning rate of each group.
        samples: the effective batch. norm: of the gradients when the optimizer stepped; norm_before: when the
            last backward pass ended; clipped_from: norms that the script asked torch to clip.
        bad: non-finite values by group.
    """

    loss: float | None = None
    losses: list[float | None] = field(default_factory=list)
    rates: list[float | None] = field(default_factory=list)
    optimizer_steps: int = 0
    samples: int = 0
    norm: list[float | None] = field(default_factory=list)
    norm_before: list[float | None] = field(default_factory=list)
    clipped_from: list[float | None] = field(default_factory=list)
    bad: dict[str, int] = field(default_factory=dict)


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
    """What one training loader gives in an epoch; see `loader_samples`.

    Attributes:
        iterable: its dataset is an IterableDataset. length: batches of an epoch, as the loader says.
        dataset: samples in it. sizes: of batches. complete: the epoch ended.
        ids, hashes, values: of each sample. draws: hashes by pass, worker and read.
    """

    iterable: bool = False
    workers: int = 0
    batch_size: int | None = None
    drop_last: bool = False
    length: int | None = None
    dataset: int | None = None
    ids: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    complete: bool = False
    hashes: list[str] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    draws: list[list[list[str]]] = field(default_factory=list)


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
        worst where they are many. unmatched: names that only one side has, or of another size; at most 20, as
        of dtypes. data: of trials that ran the loaders alone.
    """

    steps: int = 0
    planned: int = 0
    fed: bool = False
    restored: bool = False
    sampled: int = 1
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
