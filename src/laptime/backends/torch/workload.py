"""Inputs of one batch size bound to a model: what the loop calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class TorchWorkload:
    """Inputs of one batch size bound to the model.

    `call` runs in inference mode: it enters that itself unless the thread is in it (`TorchModel.scope`).
    """

    call: Callable[[], Any]
    sync: Callable[[], None]
    batch: int
    synchronous: bool
    inputs: Any
    eager: Callable[[], Any]
