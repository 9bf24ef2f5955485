"""What torch raises, as laptime's errors. Only exhausted memory is OutOfMemory."""

from __future__ import annotations

import re
from typing import Literal

from laptime.kit.errors import LaptimeError, OutOfMemory, Unavailable, UserCodeError
from laptime.targets._code import line_of

# Texts with which libraries say that memory is exhausted when they raise a plain RuntimeError.
_HOST = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "std::bad_alloc",
)
_DEVICE = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "MPS backend out of memory",
    "HIP out of memory",
    "XPU out of memory",
)
_ASKED, _LONGEST = re.compile(r"[Tt]ried to allocate ([\d.]+ ?(?:bytes|[KMGT]i?B))"), 300


def memory_exhausted(error: BaseException | None) -> Literal["host", "device"] | None:
    """Which memory an exception says is exhausted; None when it says something else."""
    import torch

    if error is None:
        return None
    if isinstance(error, MemoryError):
        return "host"
    # One class for all accelerators from torch 2.5 on; CUDA's own before.
    if isinstance(error, getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)):
        return "device"
    if isinstance(error, RuntimeError):
        text = str(error)
        if any(part in text for part in _HOST):
            return "host"
        if any(part in text for part in _DEVICE):
            return "device"
    return None


def translate(error: BaseException, *, doing: str, inputs: str = "") -> LaptimeError:
    """One of laptime's errors for whatever loading or calling a model raised; laptime's own come back as they
    are, unless memory is behind them. doing: the first line. inputs: in words, told when the model refuses
    them."""
    behind = _behind(error)
    which = memory_exhausted(behind)
    if which is not None:
        request = _ASKED.search(str(behind))
        return OutOfMemory(
            f"{doing}: {which} memory is exhausted",
            why=f"it asked for {request[1]} more" if request else _first_line(behind),
            next="a smaller --batch, or --batch auto to find the largest that fits",
        )
    if isinstance(error, LaptimeError):
        return error
    kind = type(error).__name__
    if "InvalidCxxCompiler" in f"{kind} {error}":
        return Unavailable(
            f"{doing}: torch.compile needs a C++ compiler",
            why=_first_line(error),
            next="install g++, or leave --compile out",
        )
    why = f"{kind}: {_first_line(error)}".rstrip(": ")
    if place := line_of(error):
        why += f" ({place})"
    if inputs:
        why += f"; the inputs were {inputs}"
    in_training = "more than 1 value per channel when training" in why  # a batch norm
    advice = "--option mode=eval   (the model was given in training mode)"
    other = "check the model and its inputs: return (model, inputs) that fit"
    return UserCodeError(doing, why=why, next=advice if in_training else other)


def _behind(error: BaseException) -> BaseException:
    """The exception that a UserCodeError, or a compiler, was raised from when memory is the reason."""
    cause: BaseException | None = error
    while cause is not None:
        if memory_exhausted(cause) is not None:
            return cause
        cause = cause.__cause__
    return error


def _first_line(error: BaseException) -> str:
    line = str(error).strip().partition("\n")[0] or type(error).__name__  # MemoryError often says nothing
    return line if len(line) <= _LONGEST else line[: _LONGEST - 4] + " ..."
