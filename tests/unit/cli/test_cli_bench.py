from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.apps.cli.output import exit_code
from laptime.records.case import Case, Failure
from laptime.records.plan import BenchRequest
from laptime.records.run import Run
from laptime.store import files, folder, lookup
from laptime.verbs import bench as verb

Laptime = Callable[..., Any]
Fake = Callable[[Run], Any]


def asked(laptime: Laptime, fake_bench: Fake, *options: str) -> BenchRequest:
    fake = fake_bench(runs.trusted())
    ended = laptime("bench", "a:b", *options)
    assert ended.code == 0, ended.err
    request: BenchRequest = fake.requests[0]
    return request


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        (["--batch", "1,8"], "batch", [1, 8]),
        (["--batch", "8, 8,1"], "batch", [8, 1]),
        (["--batch", "auto"], "batch", "auto"),
        (["--batch", "auto:linear"], "batch", "auto:linear"),
        (["--device", "cuda:1"], "device", "cuda:1"),
        (["--dtype", "fp32,bf16,float32"], "dtype", ["float32", "bfloat16"]),
        (["--threads", "1,2"], "threads", [1, 2]),
        (["--channels-last"], "channels_last", True),
        (["--compile"], "compile", "default"),
        (["--compile", "reduce-overhead"], "compile", "reduce-overhead"),
        (["--compile=max-autotune"], "compile", "max-autotune"),
        (["--precision", "1%"], "precision", 0.01),
        (["--budget", "2m"], "budget", 120.0),
        (["--preset", "strict"], "preset", "strict"),
        (["--regime", "isolated,saturated"], "regimes", ["isolated", "saturated"]),
        (["--rate", "20"], "rate", 20.0),
        (["--processes", "3"], "processes", 3),
        (["--timeout", "1.5h"], "timeout", 5400.0),
        (["--backend", "null"], "backends", ["null"]),
        (["--backend", "torch, null"], "backends", ["torch", "null"]),
        (["--python", "torch=a/python", "--python", "null=b"], "python", {"torch": "a/python", "null": "b"}),
        (["--seed", "7"], "seed", 7),
        (["--name", "baseline"], "name", "baseline"),
        (["--no-save"], "save", False),
    ],
)
def test_option_reaches_the_request_with_its_origin(
    laptime: Laptime, fake_bench: Fake, options: list[str], field: str, value: object
) -> None:
    request = asked(laptime, fake_bench, *options)
    assert getattr(request, field) == value
    assert request.origins == {"targets": "flag", field: "flag"}


def test_options_left_out_are_left_to_the_verb(laptime: Laptime, fake_bench: Fake) -> None:
    request = asked(laptime, fake_bench)
    assert request == BenchRequest(targets=["a:b"], origins={"targets": "flag"})


def test_bare_compile_does_not_swallow_the_target(laptime: Laptime, fake_bench: Fake) -> None:
    fake = fake_bench(runs.trusted())
    laptime("bench", "--compile", "a:b", "c:d")
    assert fake.requests[0].targets == ["a:b", "c:d"]
    assert fake.requests[0].compile == "default"


@pytest.mark.parametrize(
    ("options", "what", "next"),
    [
        (["--batch", "x"], "--batch: there is no search called 'x'", "--batch"),
        (["--batch", "aut"], "--batch: there is no search called 'aut'", "did you mean --batch auto?"),
        (["--batch", "1,,x"], "--batch: '1,,x' is not a list of whole numbers", "1,8"),
        (["--batch", ","], "--batch: the list is empty", "1,8"),
        (["--threads", "1.5"], "--threads: '1.5' is not a list", "1,8"),
        (["--precision", "0"], "--precision: '0' is not a percentage", "1%"),
        (["--precision", "1"], "--precision: '1' is not a percentage", "did you mean 1%?"),
        (["--budget", "fast"], "--budget: 'fast' is not a duration", "90s"),
        (["--timeout", "-1s"], "--timeout: '-1s' is not a duration", "90s"),
        (["--backend", "torhc"], "--backend: no backend is called 'torhc'", "did you mean 'torch'?"),
        (["--backend", "torch,nul"], "--backend: no backend is called 'nul'", "did you mean 'null'?"),
        (["--backend", ","], "--backend: no backend is called ','", "laptime doctor"),
        (["--python", "python3"], "--python: 'python3' is not a name with a value", ".venv-tf/bin/python"),
        (["--python", "torhc=a"], "--python: no backend is called 'torhc'", "did you mean 'torch'?"),
        (["--compile=fastest"], "'fastest' is not one of", "--help"),
        (["--regime", "isolated", "--rate", "20"], "--rate needs the paced regime", "isolated,paced"),
        (["--name", "last"], "a run cannot be called 'last'", "--name"),
        (["--name", "last~1"], "a run cannot be called 'last~1'", "--name"),
        (["-o", "x.jsn"], "there is no report format for .jsn", "-o x.json"),
        (["-o", "x"], "there is no report format for a file without suffix", "-o x.html"),
        (["-o", "no/such/x.html"], "no/such/x.html cannot be written", "mkdir -p no/such"),
        (["-o", "."], "no report format for", "-o"),
    ],
)
def test_impossible_request_is_refused_before_measuring(
    laptime: Laptime, fake_bench: Fake, options: list[str], what: str, next: str
) -> None:
    fake = fake_bench(runs.trusted())
    ended = laptime("bench", "a:b", *options)
    assert ended.code == 2
    assert ended.out == ""
    first, why, last = ended.err.splitlines()
    assert what in first
    assert len(why) > len("why:   ")
    assert next in last
    assert fake.requests == []
    assert not Path(".laptime").exists()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--batch", "0"], "batch 0 is impossible"),
        (["--batch", "8,-1"], "batch -1 is impossible"),
        (["--dtype", "flaot32"], "no dtype is called 'flaot32'"),
        (["--regime", "pased"], "no regime is called 'pased'"),
        (["--regime", "paced"], "the paced regime needs a rate"),
        (["--rate", "-3"], "--rate -3 is impossible"),
        (["--processes", "0"], "--processes 0 is impossible"),
        (["--threads", "0"], "--threads 0 is impossible"),
    ],
)
def test_impossible_value_is_refused_by_the_verb_and_leaves_nothing(
    laptime: Laptime, options: list[str], what: str
) -> None:
    ended = laptime("bench", "null:spin=1ms", *options)
    assert ended.code == 2
    assert what in ended.err
    assert len(ended.err.splitlines()) == 3
    assert ended.out == ""
    assert not Path(".laptime").exists()


def test_result_goes_to_stdout_and_progress_to_stderr(laptime: Laptime, fake_bench: Fake) -> None:
    fake_bench(runs.compared())
    ended = laptime("bench", "a:b")
    assert "trusted" in ended.out
    assert "measuring torchvision:resnet18" in ended.err
    assert "measuring" not in ended.out
    assert "\x1b[" not in ended.out + ended.err


def test_quiet_says_nothing_on_stderr(laptime: Laptime, fake_bench: Fake) -> None:
    fake_bench(runs.trusted())
    assert laptime("bench", "a:b", "-q", "-o", "x.md").err == ""
    assert laptime("--quiet", "bench", "a:b").err == ""


def test_json_is_one_document_and_nothing_else(laptime: Laptime, fake_bench: Fake) -> None:
    fake_bench(runs.trusted())
    for more in ([], ["-o", "-"]):
        document = json.loads(laptime("bench", "a:b", "--json", *more).out)
        assert document["schema"] == "laptime.report/1"
        assert document["verdict"] == "trusted"


def test_reports_are_picked_by_suffix_and_all_written(laptime: Laptime, fake_bench: Fake) -> None:
    fake_bench(runs.trusted())
    ended = laptime("bench", "a:b", "-o", "r.md", "-o", "r.JSON", "-o", "r.txt")
    assert ended.code == 0
    assert json.loads(Path("r.JSON").read_text())["schema"] == "laptime.report/1"
    assert "trusted" in Path("r.md").read_text()
    assert "trusted" in Path("r.txt").read_text()
    assert "wrote r.md" in ended.err
    assert sorted(os.listdir()) == [".laptime", "r.JSON", "r.md", "r.txt"]  # noqa: PTH208


def test_run_is_stored_under_its_name(laptime: Laptime, fake_bench: Fake) -> None:
    fake_bench(runs.trusted())
    laptime("bench", "a:b", "--name", "baseline")
    assert lookup.load("baseline").cases == runs.trusted().cases
    assert lookup.load("last").id == runs.trusted().id


def test_no_save_stores_nothing_and_says_so(laptime: Laptime, fake_bench: Fake) -> None:
    fake_bench(runs.trusted())
    ended = laptime("bench", "a:b", "--no-save")
    assert ended.code == 0
    assert "Not saved" in ended.out
    assert not Path(".laptime").exists()


def test_id_that_was_taken_is_shown_as_the_one_it_is_kept_under(laptime: Laptime, fake_bench: Fake) -> None:
    fake_bench(runs.trusted())
    first = json.loads(laptime("bench", "a:b", "--json").out)["id"]
    second = json.loads(laptime("bench", "a:b", "--json").out)["id"]
    assert first != second
    assert lookup.load(second).id == second


def _failing(*kinds: str) -> Run:
    cases = [
        structs.replace(runs.failing(Failure(kind=kind, what="it failed")), key=f"case/{number}")
        for number, kind in enumerate(kinds)
    ]
    return runs.run(*cases)


def _with_good_case(run: Run) -> Run:
    good: Case = runs.trusted().cases[0]
    return structs.replace(run, cases=[good, *run.cases])


@pytest.mark.parametrize(
    ("run", "code"),
    [
        (runs.trusted(), 0),
        (runs.noisy(), 0),
        (runs.invalid(), 3),
        (runs.run(), 3),
        (runs.interrupted(), 130),
        (_failing("user_code"), 4),
        (_failing("out_of_memory"), 4),
        (_failing("hung"), 4),
        (_failing("died"), 4),
        (_failing("target"), 2),
        (_failing("unavailable"), 2),
        (_failing("target", "died"), 4),
        (_failing("bug", "died"), 70),
        (_with_good_case(_failing("out_of_memory")), 4),
        (_with_good_case(_failing("unavailable")), 2),
    ],
)
def test_exit_code_tells_what_came_of_it(laptime: Laptime, fake_bench: Fake, run: Run, code: int) -> None:
    assert exit_code(run) == code
    fake_bench(run)
    ended = laptime("bench", "a:b")
    assert ended.code == code
    assert ended.out  # the report comes all the same
    assert len(files.list_files()) == 1


def test_case_skipped_by_a_search_is_no_failure() -> None:
    run = runs.trusted()
    skipped = structs.replace(run.cases[0], key="other", status="skipped")
    assert exit_code(structs.replace(run, cases=[*run.cases, skipped])) in (0, 3)


def test_interrupted_run_is_shown_kept_and_130(laptime: Laptime, fake_bench: Fake) -> None:
    fake_bench(runs.interrupted())
    ended = laptime("bench", "a:b", "-o", "r.md")
    assert ended.code == 130
    assert "interrupted" in ended.out
    assert Path("r.md").exists()
    assert lookup.load("last").status == "interrupted"


def test_full_disk_under_the_store_still_shows_the_result(
    laptime: Laptime, fake_bench: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Path("blocker").write_text("")
    monkeypatch.setenv("LAPTIME_HOME", "blocker/.laptime")
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    fake_bench(runs.trusted())
    ended = laptime("bench", "a:b", "-q")
    assert ended.code == 2
    assert "trusted" in ended.out
    assert "blocker/.laptime" in ended.err
    (kept,) = elsewhere.glob("*/runs/*/*.json")
    assert str(kept) in ended.err
    assert files.read(kept).cases == runs.trusted().cases


def test_nowhere_to_save_still_shows_the_result(
    laptime: Laptime, fake_bench: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAPTIME_HOME", "/dev/null/x")
    monkeypatch.setattr(tempfile, "tempdir", "/dev/null/y")
    fake_bench(runs.trusted())
    ended = laptime("bench", "a:b")
    assert ended.code == 2
    assert "trusted" in ended.out
    assert "Not saved" in ended.out
    assert "LAPTIME_HOME" in ended.err


def test_report_that_cannot_be_written_after_all_does_not_cost_the_others(
    laptime: Laptime, fake_bench: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = folder.write_whole

    def full(path: Path, data: bytes) -> None:
        if path.name == "a.md":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, data)

    monkeypatch.setattr("laptime.apps.cli.output.write_whole", full)
    fake_bench(runs.trusted())
    ended = laptime("bench", "a:b", "-o", "a.md", "-o", "b.md")
    assert ended.code == 2
    assert "error: a.md could not be written\nwhy:   No space left on device" in ended.err
    assert Path("b.md").exists()
    assert "trusted" in ended.out


def test_bug_in_the_verb_is_70_and_keeps_what_was_measured(
    laptime: Laptime, fake_bench: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = fake_bench(runs.trusted())

    def breaks(request: BenchRequest, emit: Callable[[Any], None]) -> Run:
        def half(event: Any) -> None:
            if type(event).__name__ == "RunFinished":
                raise ZeroDivisionError("half way")
            emit(event)

        run: Run = fake(request, half)
        return run

    monkeypatch.setattr(verb, "bench", breaks)
    monkeypatch.setattr("laptime.apps.cli.error_boundary.tempfile.tempdir", str(tmp_path))
    ended = laptime("bench", "a:b")
    assert ended.code == 70
    assert "ZeroDivisionError: half way" in ended.err
    assert lookup.load("last").status == "interrupted"
    assert lookup.load("last").cases[0].series


def test_colour_follows_the_environment(
    laptime: Laptime, fake_bench: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_bench(runs.trusted())
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in laptime("bench", "a:b").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in laptime("bench", "a:b").out
