"""Peaks on paper: the right row for a device's name, and honest estimates."""

from __future__ import annotations

import csv
import re
from importlib.resources import files

import pytest
from msgspec import structs

from laptime.probes.cpu import Cpu
from laptime.probes.peaks import cpu_peak, device_peak

GIB = 2**30


@pytest.mark.parametrize(
    ("model", "memory", "name"),
    [
        ("NVIDIA H200", 140 * GIB, "H200"),
        ("NVIDIA H200 NVL", 140 * GIB, "H200-NVL"),
        ("NVIDIA H20", 95 * GIB, "H20"),
        ("NVIDIA H100 80GB HBM3", 80 * GIB, "H100-SXM"),
        ("NVIDIA H100 PCIe", 80 * GIB, "H100-PCIe"),
        ("NVIDIA A10", 22 * GIB, "A10"),
        ("NVIDIA A10G", 22 * GIB, "A10G"),
        ("NVIDIA A100-SXM4-40GB", 40 * GIB, "A100-40GB"),
        ("NVIDIA A100-SXM4-80GB", None, "A100-80GB"),
        ("NVIDIA A100 80GB PCIe", 80 * GIB, "A100-80GB-PCIe"),
        ("NVIDIA L40S", 45 * GIB, "L40S"),
        ("NVIDIA L40", 45 * GIB, "L40"),
        ("NVIDIA L4", 23 * GIB, "L4"),
        ("Tesla T4", 15 * GIB, "T4"),
        ("NVIDIA GeForce RTX 4090", 24 * GIB, "RTX-4090"),
        ("NVIDIA GB200", 185 * GIB, "GB200"),
        ("NVIDIA B200", 179 * GIB, "B200"),
        ("AMD Instinct MI250X/MI250", 64 * GIB, "MI250X"),
        ("AMD Instinct MI300X", 192 * GIB, "MI300X"),
        ("Orin", 61 * GIB, "Jetson-AGX-Orin-64GB"),
        ("Orin", 7 * GIB, "Jetson-Orin-Nano-8GB"),
    ],
)
def test_the_right_row_is_found(model: str, memory: int | None, name: str) -> None:
    peak = device_peak(model, memory=memory)
    assert peak is not None
    assert (peak.name, peak.source) == (name, "datasheet")


@pytest.mark.parametrize(
    ("model", "memory"),
    [
        ("NVIDIA GeForce RTX 3090 Ti", 24 * GIB),
        ("NVIDIA GeForce RTX 4080 SUPER", 16 * GIB),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 16 * GIB),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 5 * GIB),
        ("NVIDIA GeForce GTX 1080", 8 * GIB),
        ("NVIDIA GH200 480GB", 140 * GIB),
        ("NVIDIA T400 4GB", 4 * GIB),
    ],
)
def test_a_device_that_only_sounds_alike_is_unknown(model: str, memory: int) -> None:
    assert device_peak(model, memory=memory) is None


def test_figures_are_dense_and_in_flop_per_second() -> None:
    peak = device_peak("NVIDIA H200")
    assert peak is not None
    assert peak.flops["bfloat16"] == pytest.approx(989.4e12)  # the sparse figure would be 1979
    assert peak.flops["float32"] == pytest.approx(66.9e12)
    assert peak.bandwidth == pytest.approx(4.8e12)
    assert peak.power == 700.0


def test_one_die_of_a_double_card_is_half_of_it() -> None:
    peak = device_peak("AMD Instinct MI250X", memory=64 * GIB)
    assert peak is not None
    assert peak.flops["bfloat16"] == pytest.approx(191.5e12)


def test_an_unknown_gpu_is_estimated_from_its_structure() -> None:
    # An A100 by its structure: 108 multiprocessors at 1.41 GHz.
    details = {"capability": (8, 0), "multiprocessors": 108, "max_clock": 1.41e9}
    peak = device_peak("NVIDIA New Thing", details=details)
    assert peak is not None
    assert peak.source == "estimated"
    assert peak.flops["bfloat16"] == pytest.approx(312e12, rel=0.01)
    assert peak.flops["float32"] == pytest.approx(19.5e12, rel=0.01)
    assert peak.flops["tf32"] == pytest.approx(156e12, rel=0.01)


def test_a_geforce_accumulates_at_half_rate() -> None:
    details = {"capability": [8, 6], "multiprocessors": 84, "max_clock": 1.86e9}
    ti = device_peak("NVIDIA GeForce RTX 3090 Ti", memory=24 * GIB, details=details)
    assert ti is not None
    assert ti.flops["float16"] == pytest.approx(80e12, rel=0.01)


def _cpu(**changes: object) -> Cpu:
    cpu = Cpu(
        model="x",
        vendor="GenuineIntel",
        family=6,
        code=143,
        stepping=8,
        vcpus=8,
        physical_cores=4,
        affinity=list(range(8)),
        isa=["avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"],
        guest=False,
        governor=None,
        turbo=None,
        max_hz=None,
    )
    return structs.replace(cpu, **changes)


def test_a_cpu_counts_cores_and_not_hyperthreads() -> None:
    peak = cpu_peak(_cpu())
    assert peak is not None
    assert peak.name == "Sapphire Rapids"
    assert peak.flops["float32"] == pytest.approx(4 * 64 * 3.0e9)
    assert peak.flops["bfloat16"] == pytest.approx(4 * 1024 * 3.0e9)


def test_the_clock_of_cpufreq_goes_before_the_table() -> None:
    peak = cpu_peak(_cpu(max_hz=2.0e9))
    assert peak is not None
    assert peak.flops["float32"] == pytest.approx(4 * 64 * 2.0e9)


def test_a_container_has_its_share_of_the_peak() -> None:
    peak = cpu_peak(_cpu(), usable=1.5)
    assert peak is not None
    assert peak.flops["float32"] == pytest.approx(1.5 * 64 * 3.0e9)


def test_hidden_cores_are_said_to_be_assumed() -> None:
    peak = cpu_peak(_cpu(physical_cores=None))
    assert peak is not None
    assert "hidden" in peak.note
    assert peak.flops["float32"] == pytest.approx(8 * 64 * 3.0e9)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"code": 85, "stepping": 4, "isa": ["avx2", "avx512f"]}, "Skylake-SP"),
        ({"code": 85, "stepping": 7, "isa": ["avx2", "avx512f"]}, "Cascade Lake"),
        ({"vendor": "AuthenticAMD", "family": 25, "code": 1, "isa": ["avx2"]}, "Zen 3"),
        ({"vendor": "AuthenticAMD", "family": 25, "code": 17, "isa": ["avx2", "avx512f"]}, "Zen 4"),
        ({"vendor": "AuthenticAMD", "family": 23, "code": 49, "isa": ["avx2"]}, "Zen 2"),
        ({"vendor": "AuthenticAMD", "family": 23, "code": 1, "isa": ["avx2"]}, "Zen 1"),
        ({"vendor": "Arm", "family": None, "code": 0xD40, "isa": ["asimd", "bf16"]}, "Neoverse V1"),
    ],
)
def test_the_microarchitecture_is_told_from_numbers_and_flags(changes: dict[str, object], name: str) -> None:
    peak = cpu_peak(_cpu(**changes, max_hz=1e9))
    assert peak is not None
    assert peak.name == name


def test_an_unknown_model_falls_back_to_its_instruction_sets() -> None:
    peak = cpu_peak(_cpu(code=999, max_hz=1e9))
    assert peak is not None
    assert peak.name == "an AMX core"
    assert "assumed" in peak.note


def test_without_any_clock_there_is_no_estimate() -> None:
    assert cpu_peak(_cpu(code=999)) is None
    assert cpu_peak(_cpu(isa=[])) is None


def read(table: str) -> list[dict[str, str]]:
    text = (files("laptime") / "data" / table).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@pytest.mark.parametrize("table", ["accelerators.csv", "cpus.csv"])
def test_every_figure_has_a_source_and_every_number_is_one(table: str) -> None:
    words = {"name", "match", "source", "vendor", "models", "steppings", "needs"}
    words |= {"max_ghz_source", "socket_gb_s_source"}
    rows = read(table)
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        assert row["source"], row["name"]
        for column in row.keys() - words:
            assert row[column] == "" or float(row[column]) > 0, (row["name"], column)


def test_16_bit_rates_are_plausible_against_32_bit() -> None:
    for row in read("accelerators.csv"):
        ratio = float(row["float16"]) / float(row["float32"])
        assert 1.9 <= ratio <= 35, row["name"]


def test_every_limit_of_a_core_has_a_source_that_it_does_not_fall_below() -> None:
    rows = list(csv.DictReader((files("laptime") / "data" / "cpus.csv").read_text().splitlines()))
    for row in rows:
        has_limits = bool(row["max_ghz"]) or bool(row["socket_gb_s"])
        assert has_limits == bool(row["max_ghz_source"]) == bool(row["socket_gb_s_source"]), row["name"]
        if has_limits:
            clock = re.match(r"([\d.]+) GHz: \S", row["max_ghz_source"])
            memory = re.match(r"(\d+) x (\d+) MT/s: \S", row["socket_gb_s_source"])
            assert clock is not None, row["name"]
            assert memory is not None, row["name"]
            assert float(clock[1]) <= float(row["max_ghz"]) <= 1.21 * float(clock[1]), row["name"]
            channels, transfers = map(int, memory.groups())
            assert float(row["socket_gb_s"]) == pytest.approx(channels * transfers * 8 / 1000, rel=1e-3)
