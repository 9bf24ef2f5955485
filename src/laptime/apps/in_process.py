"""A call of this process, measured by the engine: a notebook's cell, a test."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from laptime.verbs.public_run import Run


def measured(call: Callable[[], Any], *, budget: float, name: str = "", save: bool = False) -> Run:
    """The run of a call, which may do anything (train, too), and whose result is thrown away.

    Args:
        budget: seconds of measuring.
        save: keep the run under .laptime/.
    """
    from laptime.verbs import api

    return api.bench(
        finished(call), budget=budget, backends=["null"], regimes=["isolated"], name=name, save=save
    )


def finished(call: Callable[[], Any]) -> Callable[[], Any]:
    """The call with a wait for the GPU behind it, where the user's own PyTorch has begun to use one."""
    wait = gpu_wait()
    if wait is None:
        return call

    def call_and_wait() -> Any:
        result = call()
        wait()
        return result

    call_and_wait.__name__ = getattr(call, "__name__", type(call).__name__)
    return call_and_wait


def gpu_wait() -> Callable[[], object] | None:
    """What returns when the GPU of this process's PyTorch is done; None where none is in use."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        wait: Callable[[], object] = torch.cuda.synchronize
        return wait
    return None
