"""Measured peaks: formulas, best of five, and an end in time."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from laptime.backends.torch import peaks  # noqa: E402
from laptime.kit.errors import Unavailable  # noqa: E402


def test_rates_follow_their_formulas() -> None:
    gemm, nothing, copy = peaks.peaks("cpu", ["float32", "tf32"], 0.6)
    assert gemm["value"] == pytest.approx(2 * gemm["size"] ** 3 / gemm["seconds"])
    assert gemm["unit"] == "FLOP/s"
    assert gemm["value"] > 1e9
    assert nothing["value"] is None
    assert "NVIDIA" in nothing["reason"]
    assert copy["value"] == pytest.approx(2 * copy["size"] / copy["seconds"])
    assert copy["unit"] == "B/s"
    assert copy["value"] > 1e8


def test_precision_setting_is_given_back() -> None:
    before = torch.get_float32_matmul_precision()
    peaks.peaks("cpu", ["float32"], 0.1)
    assert torch.get_float32_matmul_precision() == before


def test_switches_of_torchs_two_kinds_beside_each_other_stop_nothing() -> None:
    """torch then refuses to say its precision, and a model that sets both could not be measured."""
    code = """
import torch
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.mkldnn.matmul.fp32_precision = "bf16"
from laptime.backends.torch import peaks, place
from laptime.tuning.trial import facts
print(place.knobs(torch.device("cpu"))["torch.float32_matmul_precision"], facts.of_torch())
peaks.work_of_model(torch.device("cpu"), "float32", size=64).call()
print(peaks.peaks("cpu", ["float32"], 0.1)[0]["value"] > 0, torch.backends.mkldnn.matmul.fp32_precision)
"""
    if not hasattr(torch.backends.mkldnn, "matmul"):
        pytest.skip("this torch has switches of the old kind alone")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout.split() == ["mixed", "set()", "True", "bf16"], ended.stderr


def test_best_of_five() -> None:
    naps = iter([0.0, 0.012, 0.03, 0.012, 0.03, 0.012, 0.03])
    timed = peaks.best_of(lambda: time.sleep(next(naps)), lambda: None, deadline=time.perf_counter() + 60)
    assert len(timed["samples"]) == 5
    assert timed["seconds"] == min(timed["samples"]) == pytest.approx(0.012, abs=4e-3)


def test_deadline_ends_it_after_one_sample() -> None:
    timed = peaks.best_of(lambda: time.sleep(0.01), lambda: None, deadline=0.0)
    assert len(timed["samples"]) == 1


def test_the_product_of_a_model_is_long_enough_and_counted() -> None:
    work = peaks.work_of_model(torch.device("cpu"), "float32")
    size = work.facts["size"]
    assert work.flops == 2 * size**3
    assert size in peaks._SIZES
    assert "float32 GEMM" in work.facts["source"]
    began = time.perf_counter()
    work.call()
    work.sync()
    assert 1e9 < work.flops / (time.perf_counter() - began) < 1e15
    assert peaks.work_of_model(torch.device("cpu"), "float32", size=512).facts["size"] == 512


def test_its_matrices_are_not_the_heaps_that_the_model_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocator that has freed large blocks serves later calls another way; random numbers stay, too."""
    monkeypatch.setattr(torch, "empty", None)
    state = torch.get_rng_state()
    peaks.work_of_model(torch.device("cpu"), "bfloat16", size=64).call()
    assert torch.equal(torch.get_rng_state(), state)


def test_a_dtype_that_cannot_be_multiplied_is_an_error() -> None:
    with pytest.raises((RuntimeError, AttributeError)):
        peaks.work_of_model(torch.device("cpu"), "float8_e4m3fn", size=64).call()


def test_missing_device_is_told() -> None:
    with pytest.raises(Unavailable):
        peaks.peaks("cuda:77", ["float32"], 0.1)
