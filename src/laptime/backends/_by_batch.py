"""What every loaded model shares: a workload per batch size; and the refusals that backends word alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from laptime.kit.errors import UsageError
from laptime.kit.text import closest

Workload = TypeVar("Workload")


class ByBatch(ABC, Generic[Workload]):
    """Workloads by batch size: inputs are bound at the first use, and kept."""

    def __init__(self) -> None:
        self._workloads: dict[int, Workload] = {}

    @abstractmethod
    def _bind(self, batch: int) -> Workload:
        """The model with inputs of this batch size."""

    def _unbound(self, error: Exception, batch: int) -> Exception:
        """What to raise when inputs of this batch size cannot be bound; the error as it is by default."""
        return error

    def workload(self, batch: int) -> Workload:
        """The model with inputs of this batch size, on its device. Calls nothing yet.

        Raises:
            UsageError: inputs of this batch size cannot be made.
            UserCodeError, OutOfMemory: making them failed.
        """
        if batch < 1:
            raise UsageError(
                f"batch {batch} is not possible", why="a call has at least one item", next="--batch 1"
            )
        if batch not in self._workloads:
            try:
                self._workloads[batch] = self._bind(batch)
            except Exception as error:
                refusal = self._unbound(error, batch)
                if refusal is error:
                    raise
                raise refusal from error
        return self._workloads[batch]


def unknown_dtype(dtype: str, known: Sequence[str]) -> UsageError:
    """The error for a dtype that a backend does not have."""
    return UsageError(
        f"no dtype is called {dtype!r}",
        why=f"known: {', '.join(known)}",
        next=f"--dtype {closest(dtype, list(known)) or 'float32'}",
    )


def not_a_model(subject: object, models: str) -> UsageError:
    """The error for an object that cannot be called; `models` says what a model of this framework is."""
    return UsageError(
        f"an object of type {type(subject).__name__} cannot be measured",
        why=f"a model is {models} or any other callable",
        next="pass the model itself, or a function that calls it",
    )
