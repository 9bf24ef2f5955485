"""Only exhausted memory is OutOfMemory; everything else is the user's code."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from laptime.backends.torch.place import memory_exhausted, translate  # noqa: E402
from laptime.kit.errors import OutOfMemory, TargetError, Unavailable, UserCodeError  # noqa: E402

CUDA_TEXT = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.00 GiB"


@pytest.mark.parametrize(
    ("error", "which"),
    [
        (torch.cuda.OutOfMemoryError(CUDA_TEXT), "device"),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be"), "device"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "device"),
        (RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"), "device"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory: you"),
            "host",
        ),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."), "host"),
        (MemoryError(), "host"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), None),
        (RuntimeError("I ran out of memory of my childhood"), None),
        (ValueError("CUDA out of memory"), None),
    ],
)
def test_what_says_that_memory_is_exhausted(error: Exception, which: str | None) -> None:
    assert memory_exhausted(error) == which
    told = translate(error, doing="model failed")
    assert isinstance(told, OutOfMemory) == (which is not None)
    assert isinstance(told, UserCodeError)
    assert told.exit_code == 4


def test_a_real_failed_allocation_is_recognised() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert memory_exhausted(caught.value) == "host"
    assert "4611686018427387904 bytes" in translate(caught.value, doing="x").why


def test_what_was_asked_for_is_told() -> None:
    assert "20.00 GiB" in translate(torch.cuda.OutOfMemoryError(CUDA_TEXT), doing="x").why


def test_memory_behind_the_users_error_is_found() -> None:
    error = UserCodeError("model.py:build raised", why="RuntimeError")
    error.__cause__ = torch.cuda.OutOfMemoryError(CUDA_TEXT)
    assert isinstance(translate(error, doing="x"), OutOfMemory)


def test_own_errors_stay_as_they_are() -> None:
    error = TargetError("no such model")
    assert translate(error, doing="x") is error


def test_wrong_shape_names_the_inputs_and_the_message() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.nn.Linear(3, 4)(torch.zeros(2, 5))
    told = translate(caught.value, doing="linear failed at batch 2", inputs="float32 (2, 5)")
    assert "batch 2" in told.what
    assert "mat1 and mat2" in told.why
    assert "float32 (2, 5)" in told.why


def test_missing_compiler_is_not_the_users_fault() -> None:
    class InvalidCxxCompiler(Exception):
        pass

    told = translate(InvalidCxxCompiler("No working C++ compiler found"), doing="x")
    assert isinstance(told, Unavailable)
    assert "g++" in told.next


def test_long_messages_are_cut() -> None:
    assert len(translate(RuntimeError("x" * 5000), doing="y").why) < 400
