"""Bounds: by hand, never beaten by real work, and silent where a peak is not known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures import runs
from laptime.pricing.bounds import bound, may_lower, work_of
from laptime.probes.cpu import cpu
from laptime.probes.peaks import accelerator_name
from laptime.records.cost import Machine, Work
from laptime.verbs.trace import trace

TRACES = Path(__file__).parents[2] / "data" / "traces"


def machine(**changes: object) -> Machine:
    return Machine(provider="x", shape="x", usd_per_hour=1.0, **changes)  # type: ignore[arg-type]


def test_the_bound_of_cores_is_as_by_hand() -> None:
    # 16 Zen 2 cores x 32 FLOP x 3.9 GHz = 1.9968 TFLOP/s; 20e9 FLOP take 10.016 ms
    best = bound(Work(flops={"float32": 20e9}), machine(cpu=["Zen 2"], cores=16.0))
    assert best is not None
    assert best.seconds == pytest.approx(0.0100160, rel=1e-4)


def test_of_several_possible_cores_the_best_counts() -> None:
    one = bound(Work(flops={"float32": 1e9}), machine(cpu=["Zen 3"], cores=8.0))
    either = bound(Work(flops={"float32": 1e9}), machine(cpu=["Zen 2", "Zen 3"], cores=8.0))
    assert one is not None
    assert either is not None
    assert either.rate == pytest.approx(one.rate)


def test_float32_may_run_as_tf32_and_loosely_as_bfloat16() -> None:
    work, a100 = Work(flops={"float32": 156e12}), machine(accelerator="A100-80GB", accelerators=1.0)
    strict, loose = bound(work, a100), bound(work, a100, is_loose=True)
    assert strict is not None
    assert loose is not None
    assert (strict.seconds, loose.seconds) == (pytest.approx(1.0), pytest.approx(0.5))


def test_weights_beyond_any_cache_have_to_be_read() -> None:
    # 14 GB less 0.27 GB of cache at 3.35 TB/s: 4.099 ms
    work, h100 = (
        Work(flops={"float16": 14e9}, weights=14e9),
        machine(accelerator="H100-SXM", accelerators=1.0),
    )
    best = bound(work, h100)
    assert best is not None
    assert best.limit == "memory"
    assert best.seconds == pytest.approx((14e9 - 256 * 2**20) / 3.35e12, rel=1e-6)


def test_eight_accelerators_do_eight_times_as_much() -> None:
    work = Work(flops={"float32": 1e12})
    one, eight = (bound(work, machine(accelerator="H100-SXM", accelerators=n)) for n in (1.0, 8.0))
    assert one is not None
    assert eight is not None
    assert eight.rate == pytest.approx(8 * one.rate)


@pytest.mark.parametrize(
    "unknown",
    [{"accelerator": "tpu-v5e", "accelerators": 1.0}, {"cpu": ["Zen 99"], "cores": 4.0}, {"cores": 4.0}, {}],
)
def test_without_a_peak_there_is_no_bound(unknown: dict[str, object]) -> None:
    assert bound(Work(flops={"float32": 1e9}), machine(**unknown)) is None


def test_a_dtype_without_a_peak_has_no_bound() -> None:
    assert bound(Work(flops={"float64": 1e9}), machine(accelerator="T4", accelerators=1.0)) is None


@pytest.mark.parametrize(
    ("knobs", "backend", "lower"),
    [
        ({}, "torch", False),
        ({"torch.float32_matmul_precision": "highest"}, "torch", False),
        ({"torch.float32_matmul_precision": "medium"}, "torch", True),
        ({"env.ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}, "torch", True),
        ({}, "openvino", True),
    ],
)
def test_settings_that_lower_precision_loosen_the_bound(
    knobs: dict[str, str], backend: str, lower: bool
) -> None:
    assert may_lower(knobs, backend) is lower


def test_runs_without_kernels_of_convolutions_count_their_products_alone() -> None:
    counted = {"aten.convolution": 3_000, "aten.addmm": 1_000, "aten.bmm": 500}
    work = work_of(runs.case(details={"count": {"counted": counted}}))
    assert work is not None
    assert work.flops == {"float32": 1_000.0}
    assert work_of(runs.case(details={"count": {"counted": {"aten.convolution": 3_000}}})) is None
    assert work_of(runs.case()) is None


@pytest.mark.torch
def test_least_work_is_as_by_hand() -> None:
    import torch

    from laptime.backends.torch.count import count

    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(8 * 16, 10)
    )
    inputs = torch.randn(2, 3, 4, 4)
    _, receipt = count([model], lambda: model(inputs), batch=2)
    # Convolution as 1 x 1: 2 x (2 x 8 x 16) x 3 = 1536; linear: 2 x 2 x 10 x 128 = 5120
    assert receipt["least"]["flops"] == {"float32": 6656}
    assert receipt["least"]["weights"] == 4 * (8 * 3 * 9 + 10 * 128)
    with torch.autocast("cpu", torch.bfloat16):
        _, lower = count([model], lambda: model(inputs), batch=2)
    assert lower["least"]["flops"] == {"bfloat16": 6656}


@pytest.mark.torch
def test_a_real_product_never_beats_the_bound_of_this_machine() -> None:
    import time

    import torch

    from laptime.backends.torch.count import count
    from laptime.probes.peaks import core_ceiling

    here = cpu()
    zen = ["Zen 4", "Zen 5"] if "avx512f" in here.isa else ["Zen 3"]
    names = (
        zen if here.vendor == "AuthenticAMD" else ["Granite Rapids"] if here.vendor == "GenuineIntel" else []
    )
    if not names or core_ceiling(names) is None:
        pytest.skip("this machine's cores are not in the table")
    own = machine(cpu=names, cores=float(here.vcpus))
    left, image, layer = (
        torch.randn(512, 512),
        torch.randn(1, 64, 56, 56),
        torch.nn.Conv2d(64, 64, 3, padding=1),
    )
    for call in (lambda: left @ left, lambda: layer(image)):
        with torch.no_grad():
            _, receipt = count([], call, batch=1)
            best = bound(Work(flops=receipt["least"]["flops"]), own)
            call()
            began = time.perf_counter()
            for _ in range(5):
                call()
            took = (time.perf_counter() - began) / 5
        assert best is not None
        assert took > best.seconds


@pytest.mark.parametrize("name", ["h100_bert_small.json.gz", "mi300_vit.json.gz"])
def test_operators_of_imported_runs_never_beat_the_bound_of_their_accelerator(name: str) -> None:
    profile = trace([TRACES / name]).profile
    assert profile is not None
    device = profile.accelerators[0]
    one = machine(accelerator=accelerator_name(device.name, device.memory), accelerators=1.0)
    seen = 0
    for row in profile.operators_by_shape:
        if row.name != "aten::addmm" or not row.device_total_ns:
            continue
        _, left, right, *_ = json.loads(row.shapes)
        dtype = {"c10::BFloat16": "bfloat16", "float": "float32"}[json.loads(row.dtypes[0])[1]]
        best = bound(Work(flops={dtype: 2.0 * left[0] * left[1] * right[1]}), one)
        assert best is not None
        assert row.device_total_ns / row.calls / 1e9 > best.seconds
        seen += 1
    assert seen >= 4
