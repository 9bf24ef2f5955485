"""`gate.json` of `trial.witness`, typed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct


class Row(Struct, frozen=True, kw_only=True):
    """Likeness of one tensor in one step, or of a whole group (name ""); see `trial._likeness`."""

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


def turned(rows: Iterable[Row]) -> list[float]:
    """1 - cosine of each, where it is known."""
    return [1 - row.cosine for row in rows if row.cosine is not None]


def lengthened(rows: Iterable[Row]) -> list[float]:
    """How far the norm of each is off, relative, where it is known."""
    return [abs(row.norm / row.base_norm - 1) for row in rows if row.norm and row.base_norm]


class Step(Struct, frozen=True, kw_only=True):
    """One optimizer step of one side; see `trial.witness`. None where it was not finite."""

    loss: float | None = None
    losses: list[float | None] = []
    rates: list[float | None] = []
    optimizer_steps: int = 0
    samples: int = 0
    norm: list[float | None] = []
    norm_before: list[float | None] = []
    clipped_from: list[float | None] = []
    bad: dict[str, int] = {}


class Side(Struct, frozen=True, kw_only=True):
    """Candidate, base or reference."""

    steps: list[Step] = []
    settings: list[dict[str, Any]] = []


class Dtype(Struct, frozen=True, kw_only=True):
    """A parameter or optimizer state that has another type."""

    name: str
    candidate: str
    base: str


class Samples(Struct, frozen=True, kw_only=True):
    """What one training loader gives; see `trial._samples`."""

    iterable: bool = False
    workers: int = 0
    batch_size: int | None = None
    drop_last: bool = False
    length: int | None = None
    dataset: int | None = None
    ids: list[str] = []
    sizes: list[int] = []
    complete: bool = False
    hashes: list[str] = []
    values: list[float | None] = []
    draws: list[list[list[str]]] = []


class Pair(Struct, frozen=True, kw_only=True):
    """Training loaders of both sides, in order."""

    candidate: list[Samples] = []
    base: list[Samples] = []


class Found(Struct, frozen=True, kw_only=True):
    """A whole gate.json.

    Attributes:
        steps, asked: optimizer steps that were witnessed, and that were wanted. fed: batches of the capture.
        apart: every step began from the captured state; else they follow each other.
        refused: changes of the recipe that could not be applied: {"name", "why"}.
    """

    steps: int = 0
    asked: int = 0
    fed: bool = False
    apart: bool = False
    notes: list[str] = []
    refused: list[dict[str, str]] = []
    candidate: Side = Side()
    base: Side = Side()
    reference: Side = Side()
    totals: list[Row] = []
    tensors: list[Row] = []
    unmatched: list[str] = []
    unmatched_count: int = 0
    dtypes: list[Dtype] = []
    dtypes_count: int = 0
    data: Pair = Pair()


def decoded(document: dict[str, Any] | None) -> Found | None:
    """The document typed; None when there is none, or it is no such document."""
    if document is None:
        return None
    try:
        return msgspec.convert(document, Found)
    except msgspec.ValidationError:
        return None
