"""trace on the command line; show, list and compare of what it stores."""

from __future__ import annotations

import csv
import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec import structs

from fixtures import profiles, runs, traces
from laptime.records.run import Run
from laptime.store import files
from laptime.store.journal import Journal
from laptime.verbs import trace as verb

Laptime = Callable[..., Any]
JOBS = sorted({"dlrm_8_ranks" if name.startswith("dlrm") else name for name in traces.names()})
DEVICE = [
    {
        "id": 0,
        "name": "Example GPU",
        "totalGlobalMem": 2**34,
        "computeMajor": 8,
        "computeMinor": 0,
        "numSms": 10,
    }
]


def event(
    cat: str, name: str, ts: float, dur: float, tid: int | str = 1, pid: int = 1, **args: Any
) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def write(path: Path, *, scale: float = 1.0, name: str = "gemm", **top: Any) -> Path:
    """Three steps of 1000 us: an operator of 300 us that launches a kernel of 400 us * scale."""
    events = []
    for step in range(3):
        at = 1000.0 * step
        events += [
            event("user_annotation", f"ProfilerStep#{step}", at, 1000),
            event("cpu_op", "aten::mm", at + 100, 300),
            event("cuda_runtime", "cudaLaunchKernel", at + 200, 10, correlation=step + 1),
            event(
                "kernel", name, at + 300, 400 * scale, tid=7, pid=0, correlation=step + 1, device=0, stream=7
            ),
        ]
    path.write_text(
        json.dumps({"schemaVersion": 1, "deviceProperties": DEVICE, "traceEvents": events, **top})
    )
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write(tmp_path / "a.json")


@pytest.mark.usefixtures("trace")
def test_trace_ends_in_a_verdict_and_is_stored(laptime: Laptime) -> None:
    brief = laptime("trace", "a.json")
    assert brief.code == 0, brief.err
    assert brief.out.startswith("host-bound  51 % of the 1.00 ms step")
    assert laptime("show", "last").out == brief.out
    ended = laptime("trace", "a.json", "--details")
    assert ended.out.startswith("trace a.json\nhost-bound  51 % of the 1.00 ms step")
    assert "1.00 ms mean" in ended.out
    assert "aten::mm" in ended.out
    assert laptime("show", "last", "--details").out == ended.out
    assert laptime("show", "--format", "markdown").out.startswith("### trace a.json")


@pytest.mark.usefixtures("trace")
def test_json_is_one_document_and_nothing_else(laptime: Laptime) -> None:
    ended = laptime("trace", "a.json", "--json")
    document = json.loads(ended.out)
    assert document["schema"] == "laptime.profile/1"
    assert document["overview"]["steps"] == 3
    assert document["overview"]["breakdown"]["kernel_ns"] == 400_000
    assert document["kernels"][0]["total_ns"] == 1_200_000


@pytest.mark.usefixtures("trace")
def test_not_saved_says_so_and_leaves_nothing(laptime: Laptime) -> None:
    assert "Not saved" in laptime("trace", "a.json", "--no-save").out.splitlines()[-1]
    assert not Path(".laptime").exists()


def test_a_name_finds_the_run_again(laptime: Laptime, trace: Path) -> None:
    laptime("trace", trace.name, "--name", "monday")
    assert laptime("show", "monday").code == 0


def test_reports_are_written_by_suffix(laptime: Laptime, trace: Path) -> None:
    ended = laptime("trace", trace.name, "-o", "r.md", "-o", "r.json", "-o", "r.txt")
    assert ended.code == 0
    assert Path("r.md").read_text().startswith("### trace")
    assert json.loads(Path("r.json").read_text())["verb"] == "trace"
    assert "wrote r.md" in ended.err


def test_a_junit_file_of_a_trace_has_a_test_case_for_the_verdict_and_each_finding(
    laptime: Laptime, trace: Path
) -> None:
    assert laptime("trace", trace.name, "-o", "t.xml").code == 0
    suite = ElementTree.parse("t.xml").find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    assert int(suite.get("tests", "0")) == len(cases) > 1
    assert {"verdict", "findings"} <= {case.get("classname") for case in cases}
    findings = json.loads(laptime("show", "last", "--json").out)["findings"]
    assert len(findings) == sum(case.get("classname") == "findings" for case in cases)


@pytest.mark.parametrize("format", ["perfzero", "asv", "pytest_benchmark"])
def test_a_format_of_timings_refuses_a_trace(laptime: Laptime, trace: Path, format: str) -> None:
    laptime("trace", trace.name)
    shown = laptime("show", "last", "--format", format)
    assert (shown.code, shown.out) == (2, "")
    what, why, then = shown.err.strip().splitlines()
    assert f"the {format} report" in what
    assert why.startswith("why: ")
    assert "laptime show" in then


def test_a_csv_file_of_a_trace_has_every_operator(laptime: Laptime, trace: Path) -> None:
    assert laptime("trace", trace.name, "-o", "t.csv").code == 0
    with Path("t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    operators = {row["name"] for row in rows if row["section"] == "by-operator"}
    assert "aten::mm" in operators
    (total,) = [row for row in rows if (row["table"], row["column"], row["row"]) == ("by name", "total", "1")]
    assert (float(total["value"]), total["text"]) == (0.0012, "1.20 ms")


def test_a_difference_is_told_against_another_trace(laptime: Laptime, trace: Path) -> None:
    write(Path("b.json"), scale=2.0)
    ended = laptime("trace", "b.json", "--against", trace.name)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("unclear: 0.97x the speed [0.84, 1.11]"), "so few steps tell no 3 %"
    assert "Against a.json" in laptime("show", "--details").out


def test_a_folder_is_the_ranks_of_one_job(laptime: Laptime, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(2):
        write(folder / f"rank{rank}.json", distributedInfo={"rank": rank, "world_size": 2})
    document = json.loads(laptime("trace", "job", "--json").out)
    assert [row["rank"] for row in document["ranks"]] == [0, 1]


def test_a_slimmed_trace_is_written_beside_the_report(laptime: Laptime, trace: Path) -> None:
    ended = laptime("trace", trace.name, "--slim", "s.json.gz")
    assert ended.code == 0, ended.err
    assert Path("s.json.gz").stat().st_size > 0
    assert "wrote s.json.gz" in ended.err


def test_a_folder_without_traces_is_nothing_to_do(laptime: Laptime, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ended = laptime("trace", "empty")
    assert ended.code == 5
    assert len(ended.err.splitlines()) == 3


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["trace"], "FILE|DIR"),
        (["trace", "b.json"], "a.json"),
        (["trace", "a.json", "-o", "r.pdf"], "-o"),
        (["trace", "a.json", "--slim", "s.txt"], "--slim s.json.gz"),
        (["trace", "a.json", "--slim", "no/where/s.json.gz"], "mkdir -p no/where"),
        (["trace", "a.json", "--agains", "b.json"], "--against"),
        (["trace", "a.json", "--against", "c.json"], "a.json"),
        (["trace", "text.txt"], "text.txt"),
    ],
)
def test_wrong_use_is_three_lines_with_what_to_type(
    laptime: Laptime, trace: Path, line: list[str], told: str
) -> None:
    Path("text.txt").write_text("hello")
    ended = laptime(*line)
    assert ended.code == 2, ended.err
    assert told in ended.err
    assert len(ended.err.splitlines()) == 3
    assert not ended.out


def test_what_cannot_be_stored_is_shown_all_the_same(
    laptime: Laptime, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*ignored: Any) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Journal, "_open", full)
    ended = laptime("trace", trace.name)
    assert ended.code == 2
    assert ended.out.startswith("host-bound  51 % of the 1.00 ms step")
    assert "Not saved" in ended.out
    assert "no space" in ended.err


def test_an_operators_name_cannot_move_the_cursor(laptime: Laptime, tmp_path: Path) -> None:
    write(tmp_path / "evil.json", name="k\x1b[2J</script>")
    ended = laptime("trace", "evil.json", "--details")
    assert "\x1b" not in ended.out
    assert "</script>" in ended.out


def test_colours_need_a_terminal(laptime: Laptime, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in laptime("trace", trace.name).out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in laptime("trace", trace.name).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in laptime("trace", trace.name).out


def test_list_shows_a_profile_with_its_step_and_what_limits_it(laptime: Laptime) -> None:
    files.save(profiles.example())
    line = laptime("list").out.splitlines()[1]
    assert "input-bound" in line
    assert "182 ms a step" in line
    assert "train.py" in line
    (record,) = json.loads(laptime("list", "--json").out)["runs"]
    assert record["bound"] == "input"
    assert record["headline"]["tag"] == "step"
    assert record["headline"]["value"] == pytest.approx(0.182, abs=0.002)


def test_profiles_are_not_compared_by_latency(laptime: Laptime) -> None:
    old = structs.replace(profiles.example(), id="20260801-000000-000-aaa111")
    files.save(old)
    files.save(structs.replace(runs.trusted(), id="20260802-000000-000-bbb222"))
    for line in (["aaa111", "aaa111"], ["aaa111", "bbb222"], ["bbb222", "aaa111"], ["aaa111", "null:steady"]):
        ended = laptime("compare", *line)
        assert ended.code == 2
        assert "laptime trace" in ended.err
        assert "--against" in ended.err


def test_an_interrupt_ends_with_its_own_code(
    laptime: Laptime, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> Run:
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "trace", stop)
    assert laptime("trace", trace.name).code == 130


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if traces.path(name).stat().st_size > 10**6 else ())
        for name in JOBS
    ],
)
def test_every_real_trace_ends_in_a_verdict_that_fits_on_the_terminal(laptime: Laptime, name: str) -> None:
    ended = laptime("trace", str(traces.path(name)), "-o", "r.json", "-o", "r.md", "--no-save", "-q")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert len(lines) <= 90
    assert all(len(line) <= 100 or "next: " in line for line in lines)
    document = json.loads(Path("r.json").read_text())
    overview = document["overview"]
    assert sum(overview["breakdown"].values()) == overview["step_ns"]
    causes = overview["idle"]["causes"] if overview["idle"] else []
    assert sum(cause["total_ns"] for cause in causes) == (overview["idle"] or {"total_ns": 0})["total_ns"]
    assert document["verdict"]["sentence"]
