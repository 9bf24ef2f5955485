"""The doctor's report: rendering, the peaks' cache, the command."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import structs

from laptime.analysis.paired import Effect
from laptime.apps.cli.commands.doctor import command
from laptime.kit.errors import Died, Hung, LaptimeError, Unavailable
from laptime.launch import fresh_call
from laptime.probes import machine
from laptime.probes import others as neighbours
from laptime.probes.cpu import cpu
from laptime.records.environment import DoctorCheck, DoctorReport, Environment, Rate
from laptime.reports.documents.doctor import data, document
from laptime.reports.formats import text as terminal
from laptime.store import cache
from laptime.verbs import doctor
from laptime.verbs.doctor import examination
from laptime.verbs.doctor.examination import floor_of, noise_floor


def to_text(report: DoctorReport, **layout: Any) -> str:
    return terminal.render_document(document(report), **layout)


def _report(**changes: Any) -> DoctorReport:
    environment = Environment(
        host="gpu-07", os="Linux 6.8", python="3.12.1 CPython", cpu="Xeon", vcpus=4, usable_cpus=4.0, memory=1
    )
    effect = Effect(mean=-0.002, error=0.004, df=6.0, rounds=36, processes=3)
    report = DoctorReport(
        laptime="0.1.0",
        started="2026-11-20T19:00:00Z",
        seconds=12.0,
        environment=environment,
        lines=[
            DoctorCheck(name="load", outcome="ok", sentence="nobody else uses the CPUs"),
            DoctorCheck(
                name="cpu/governor", outcome="warn", sentence="governor is powersave", next="sudo cpupower"
            ),
            DoctorCheck(name="energy", outcome="none", sentence="no energy readings"),
        ],
        rates=[
            Rate(
                device="cpu",
                kind="gemm",
                dtype="float32",
                unit="FLOP/s",
                value=2e11,
                ceiling=4e11,
                ceiling_source="estimated",
            ),
            Rate(device="cpu", kind="copy", dtype="float32", unit="B/s", value=2.3e10),
            Rate(device="cpu", kind="gemm", dtype="float16", unit="FLOP/s", reason="not implemented"),
        ],
        rates_from="2026-11-20T19:00:00Z",
        noise=floor_of(effect, device="cpu", workload="a small network", seconds=12.0),
    )
    return structs.replace(report, **changes)


def test_the_text_reads_as_it_should() -> None:
    assert to_text(_report()).splitlines() == [
        "doctor gpu-07",
        "Can see differences from about 2.9% on cpu: a small network against itself: unclear, difference "
        "0.2%",
        "± 1.0%; 36 pairs, 3 fresh processes each, 12.0 s",
        "",
        "Xeon · Linux 6.8 · Python 3.12.1",
        "",
        "ok          nobody else uses the CPUs",
        "warning     governor is powersave",
        "            next: sudo cpupower",
        "--          no energy readings",
        "",
        "Peak rates",
        "  measured 2026-11-20; again: laptime doctor --fresh",
        "",
        "  device  what            peak  on paper",
        "  cpu     float32  200 GFLOP/s  50% of 400 GFLOP/s (estimated)",
        "  cpu     copy       23.0 GB/s  -",
        "  cpu     float16            -  not implemented",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_sentences_stay_within_the_width_and_commands_stay_whole(width: int) -> None:
    long = DoctorCheck(name="x", outcome="warn", sentence="word " * 40, next="sudo " + "x" * 70)
    text = to_text(_report(lines=[long]), width=width)
    for line in text.splitlines():
        assert len(line) <= width or "next:" in line or "on paper" in line or "Peak rates" in line
    assert "sudo " + "x" * 70 in text


def test_names_of_strangers_cannot_steer_the_terminal() -> None:
    hostile = DoctorCheck(name="load", outcome="warn", sentence="evil\x1b[2J\nname", next="kill \x07 1")
    text = to_text(_report(lines=[hostile]), color=False)
    assert "\x1b" not in text
    assert "\x07" not in text


def test_colours_only_repeat_what_words_say() -> None:
    assert "\x1b[" in to_text(_report(), color=True)
    assert "\x1b[" not in to_text(_report(), color=False)


def test_a_machine_that_is_too_busy_is_not_praised() -> None:
    effect = Effect(mean=-0.5, error=0.4, df=6.0, rounds=10, processes=3)
    noisy = floor_of(effect, device="cpu", workload="x", seconds=1.0)
    text = to_text(_report(noise=structs.replace(noisy, word="slower")))
    assert "beyond a factor" in text
    nothing = to_text(_report(noise=structs.replace(noisy, word="unclear")))
    assert "Too disturbed" in nothing
    assert "Can see" not in nothing
    assert "not known" in to_text(_report(noise=None))


def test_peaks_measured_beside_others_say_so() -> None:
    assert "other programs" in to_text(_report(rates_disturbed=True))


def test_the_json_is_one_document_in_si_units() -> None:
    found = data(_report())
    assert found["schema"] == "laptime.doctor/1"
    assert found["rates"][0]["value"] == 2e11
    assert found["noise"]["smallest"] > 0.01
    assert len(found["environment"]["fingerprint"]) == 12
    assert [line["outcome"] for line in found["lines"]] == ["ok", "warn", "none"]


def test_the_smallest_difference_grows_with_the_error() -> None:
    def smallest(error: float) -> float:
        effect = Effect(mean=0.0, error=error, df=6.0, rounds=36, processes=3)
        return floor_of(effect, device="cpu", workload="x", seconds=1.0).smallest

    assert smallest(0.0) == pytest.approx(0.01)  # the margin below which nothing is claimed
    assert smallest(0.001) < smallest(0.01) < smallest(0.1)
    # 1 % margin + (t_0.995 + t_0.80 at 6 degrees of freedom) x 1 % = (3.707 + 0.906) x 1 %
    assert smallest(0.01) == pytest.approx(1.01 * 2.718281828 ** (4.613 * 0.01) - 1, abs=2e-4)


# Peaks and their cache


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A torch that answers; the seconds that it was asked to measure for."""
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path))
    seconds: list[float] = []

    def call(function: str, arguments: dict[str, Any], *, timeout: float) -> dict[str, Any]:
        seconds.append(arguments["seconds"])
        row = {
            "kind": "gemm",
            "device": "cpu",
            "dtype": "float32",
            "unit": "FLOP/s",
            "value": 1e11,
            "size": 512,
        }
        return {
            "devices": [{"name": "cpu", "model": "CPU"}],
            "libraries": {"torch": "2.15"},
            "knobs": {},
            "sync": {"cpu": 0.0},
            "rates": [row] if arguments["seconds"] else [],
        }

    monkeypatch.setattr(fresh_call, "call", call)
    monkeypatch.setattr(machine, "find_version", lambda package: "2.15")
    return seconds


def _device_peaks(**how: bool) -> examination.DevicePeaks:
    return examination.device_peaks(machine.environment(), [], cpu(), **how)


def test_peaks_are_measured_once_for_a_machine(asked: list[float]) -> None:
    first, second = _device_peaks(), _device_peaks()
    assert asked == [examination.SECONDS, 0.0]
    assert first.rates == second.rates
    assert first.rates[0].value == 1e11
    assert second.rates_from == first.rates_from != ""


def test_fresh_measures_them_again(asked: list[float]) -> None:
    _device_peaks()
    _device_peaks(fresh=True)
    assert asked == [examination.SECONDS, examination.SECONDS]


def test_quick_measures_none_but_tells_those_known(asked: list[float]) -> None:
    assert _device_peaks(quick=True).rates == []
    _device_peaks()
    assert _device_peaks(quick=True).rates[0].value == 1e11
    assert asked == [0.0, examination.SECONDS, 0.0]


def test_peaks_of_a_busy_machine_are_not_kept(asked: list[float]) -> None:
    assert _device_peaks(keep=False).rates
    _device_peaks()
    assert asked == [examination.SECONDS, examination.SECONDS]


def test_another_torch_is_another_machine(asked: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    _device_peaks()
    monkeypatch.setattr(machine, "find_version", lambda package: "2.16")
    _device_peaks()
    assert asked == [examination.SECONDS, examination.SECONDS]
    assert len(list(cache.folder().iterdir())) == 2


def test_without_torch_nothing_is_asked(asked: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "find_version", lambda package: None)
    assert _device_peaks() == examination.DevicePeaks()
    assert asked == []


# One question to a fresh process


def test_a_fresh_process_answers() -> None:
    assert (
        fresh_call.call("laptime.kit.text:count", {"number": 2, "noun": "sample"}, timeout=30) == "2 samples"
    )


def test_a_function_that_raises_is_told_with_its_last_words() -> None:
    with pytest.raises(Died) as caught:
        fresh_call.call("laptime.kit.text:count", {"number": "x"}, timeout=30)
    assert "TypeError" in caught.value.why


def test_a_package_that_is_missing_is_named_with_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['psutil'] = None")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(Unavailable, match="psutil is") as caught:
        fresh_call.call("laptime.probes.others:programs", {"seconds": 0.1}, timeout=30)
    assert "install psutil" in caught.value.next


def test_a_function_that_hangs_is_ended() -> None:
    with pytest.raises(Hung):
        fresh_call.call("laptime.probes.others:programs", {"seconds": 60}, timeout=1.0)


def test_only_our_own_functions_are_called() -> None:
    with pytest.raises(Died) as caught:
        fresh_call.call("os:getcwd", {}, timeout=30)
    assert "only functions" in caught.value.why


# The verb and the command


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> DoctorReport:
    """The real examination of this machine, without its two slow parts."""

    def no_noise(**how: object) -> None:
        raise LaptimeError("not measured", why="a test")

    monkeypatch.setattr(examination, "noise_floor", no_noise)
    monkeypatch.setattr(examination, "device_peaks", lambda *given, **how: examination.DevicePeaks())
    monkeypatch.setattr(neighbours, "programs", lambda: [])
    return doctor.examine(quick=True)


def test_every_warning_of_this_machine_ends_with_a_command(examined: DoctorReport) -> None:
    for line in examined.lines:
        assert line.sentence
        assert line.outcome != "warn" or line.next, line
    assert len({line.name for line in examined.lines}) == len(examined.lines)


def test_a_noise_floor_that_failed_is_a_warning_and_not_an_error(examined: DoctorReport) -> None:
    assert examined.noise is None
    (line,) = [line for line in examined.lines if line.name == "noise"]
    assert "not measured" in line.sentence


def test_timers_are_in_seconds(examined: DoctorReport) -> None:
    assert 0 < examined.timers["perf_counter"]["step"] < 1e-3


def test_a_torch_that_is_broken_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def died(*given: object, **how: object) -> None:
        raise Died("x", why="ImportError: libcudart.so")

    monkeypatch.setattr(examination, "device_peaks", died)
    monkeypatch.setattr(neighbours, "programs", lambda: [])
    found, lines = examination._device_peaks(examination._look(), quick=True, fresh=False)
    assert found == examination.DevicePeaks()
    assert "libcudart" in lines[0].sentence
    assert lines[0].next


def test_the_command_prints_one_json_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examine", lambda **how: _report())
    answer = CliRunner().invoke(command, ["--json"])
    assert answer.exit_code == 0
    assert json.loads(answer.stdout)["schema"] == "laptime.doctor/1"


def test_the_command_prints_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examine", lambda **how: _report())
    answer = CliRunner().invoke(command, [])
    assert answer.exit_code == 0
    assert "Can see" in answer.stdout


@pytest.mark.slow
def test_the_noise_floor_is_measured_live() -> None:
    found = noise_floor(quick=True)
    assert found.smallest > 0.01
    assert found.processes == 3
