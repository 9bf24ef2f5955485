"""Results of other tools become runs; what those tools did not keep is not made up."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fixtures import runs
from fixtures.served import AIPERF_LINES, AIPERF_SUMMARY, GUIDELLM, VLLM
from laptime.analysis.summary import headline, throughputs
from laptime.edges import imports
from laptime.edges.formats import asv as to_asv
from laptime.edges.formats import pytest_benchmark as to_pytest_benchmark
from laptime.edges.imports import vllm_bench
from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.store import files
from laptime.verbs.history import history

PYTEST: dict[str, Any] = {
    "machine_info": {
        "node": "build-7",
        "system": "Linux",
        "release": "6.8",
        "python_version": "3.11.9",
        "cpu": {"brand_raw": "Example Xeon", "count": 4},
    },
    "commit_info": {"id": "0123abcd", "dirty": True, "branch": "main"},
    "benchmarks": [
        {
            "name": "test_sort[10]",
            "fullname": "tests/test_x.py::test_sort[10]",
            "params": {"n": 10},
            "stats": {"median": 0.5, "rounds": 9, "iterations": 1, "data": [0.4, 0.5, 0.6] * 3},
        },
        {
            "name": "test_fast",
            "fullname": "tests/test_x.py::test_fast",
            "params": None,
            "stats": {"median": 1e-6, "rounds": 100, "iterations": 50},
        },
    ],
    "datetime": "2026-08-01T14:25:01.123456+00:00",
    "version": "5.1.0",
}
ASV: dict[str, Any] = {
    "commit_hash": "cb63287e63db10ce3eb0f3b8c279fd995678d0ae",
    "env_name": "conda-py3.11",
    "date": 1696315841000,
    "params": {"cpu": "A CPU", "machine": "m", "num_cpu": "8", "os": "Linux", "ram": "16GB"},
    "python": "3.11",
    "requirements": {"numpy": "2.0"},
    "env_vars": {},
    "result_columns": ["result", "params", "version", "started_at", "duration", "stats_ci_99_a",
                       "stats_ci_99_b", "stats_q_25", "stats_q_75", "stats_number", "stats_repeat",
                       "samples"],
    "results": {
        "suite.time_sort": [[4.7e-07], [], "v", 1, 0.4, [4.6e-07], [4.9e-07], [4.7e-07], [4.8e-07], [22921],
                            [10]],
        "suite.time_by": [[0.1, None, 0.3], [["1", "2", "3"]], "v", 1, 0.4, [float("-inf")] * 3, [0] * 3,
                          [0] * 3, [0] * 3, [1] * 3, [3] * 3, [[0.1, 0.1, 0.2], None, [0.3, 0.2, 0.3]]],
        "suite.peakmem_all": [[1000.0], []],
        "suite.track_loss": [[-0.5], []],
        "suite.time_broken": [None],
    },
    "durations": {},
    "version": 2,
}  # fmt: skip
PERFZERO: dict[str, Any] = {
    "execution_id": "run_b1",
    "execution_timestamp": 1795198500.941539,
    "benchmark_result": {
        "name": "tinybench.EffNetBenchmark.benchmark_b1",
        "wall_time": 0.969,
        "succeeded": True,
        "extras": [{"name": "model", "value": "EfficientNetB0"}],
        "metrics": [
            {"name": "exp_per_second", "value": 30.95, "min_value": 50},
            {"name": "p50_ms", "value": 28.7, "max_value": 5000.0},
            {"name": "loss", "value": "NaN"},
        ],
        "trial_id": 1,
    },
    "benchmark_info": {"harness_name": "perfzero", "site_package_info": {"tf": {"hash": "abc"}}},
    "setup_info": {},
    "ml_framework_info": {"name": "tensorflow", "version": "2.21.0"},
    "system_info": {"cpu_model": "AMD EPYC", "logical_cpu_count": 2, "hostname": "vm"},
    "process_info": {"max_rss": 407236608, "max_cpu_percent": 99.5},
}
HYPERFINE: dict[str, Any] = {
    "results": [
        {
            "command": "sort big.txt",
            "mean": 0.102,
            "stddev": 0.001,
            "median": 0.102,
            "user": 0.09,
            "system": 0.01,
            "min": 0.101,
            "max": 0.103,
            "times": [0.101, 0.102, 0.103],
            "exit_codes": [0, 0, 1],
            "parameters": {"size": "3"},
        },
        {"command": "true", "mean": 0.002, "stddev": None, "median": 0.002, "user": 0.0, "system": 0.0},
    ]
}
GOOGLE: dict[str, Any] = {
    "context": {
        "date": "2023-05-16T10:20:30+02:00",
        "host_name": "build-7",
        "num_cpus": 8,
        "mhz_per_cpu": 3000,
        "load_avg": [0.1],
    },
    "benchmarks": [
        *(
            {
                "name": "BM_Copy/8",
                "run_name": "BM_Copy/8",
                "run_type": "iteration",
                "repetitions": 3,
                "repetition_index": at,
                "threads": 1,
                "iterations": 1000,
                "real_time": time,
                "cpu_time": 9.0,
                "time_unit": "us",
                "bytes_per_second": 5e9,
            }
            for at, time in enumerate((10.0, 11.0, 12.0))
        ),
        {"name": "BM_Copy/8_mean", "run_name": "BM_Copy/8", "run_type": "aggregate", "aggregate_name": "mean",
         "real_time": 11.0, "cpu_time": 9.0, "time_unit": "us"},
        {"name": "BM_Lock/threads:4", "run_name": "BM_Lock/threads:4", "run_type": "iteration", "threads": 4,
         "iterations": 9, "real_time": 2.0, "cpu_time": 2.0, "time_unit": "ms"},
        {"name": "BM_Old_mean", "iterations": 5, "real_time": 70.0, "cpu_time": 70.0, "time_unit": "ns"},
        {"name": "BM_Old_median", "iterations": 5, "real_time": 71.0, "cpu_time": 70.0, "time_unit": "ns"},
        {"name": "BM_Copy_BigO", "run_name": "BM_Copy", "run_type": "aggregate", "big_o": "N"},
    ],
}  # fmt: skip
KNOWN: dict[str, Any] = {
    "hyperfine": HYPERFINE,
    "google_benchmark": GOOGLE,
    "pytest_benchmark": PYTEST,
    "asv": ASV,
    "perfzero": PERFZERO,
    "vllm_bench": VLLM,
    "guidellm": GUIDELLM,
    "aiperf": AIPERF_SUMMARY,
}


def read(folder: Path, document: Any, format: str = "") -> list[Run]:
    path = folder / "results.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return imports.read(path, format)


@pytest.mark.parametrize("name", KNOWN)
def test_every_format_knows_its_own_and_no_other(name: str) -> None:
    assert {
        own for own in registry.names("imports") if registry.load("imports", own).matches(KNOWN[name])
    } == {name}


def test_there_is_an_example_of_every_format() -> None:
    assert set(registry.names("imports")) == {*KNOWN, "laptime"}  # its own: test_cli_stored


@pytest.mark.parametrize("name", KNOWN)
def test_an_imported_run_is_noisy_and_the_same_every_time(name: str, tmp_path: Path) -> None:
    found = read(tmp_path, KNOWN[name])
    assert [run.id for run in found] == [run.id for run in read(tmp_path, KNOWN[name])]
    for run in found:
        stored = files.read(files.save(run, tmp_path))
        assert stored.command == ["laptime", "import", "results.json"]
        assert (run.verb, run.status, run.trust) == ("import", "complete", "noisy")
        assert "imported" in run.cases[0].checks[0].sentence


def test_pytest_benchmark_keeps_samples_where_there_are_any(tmp_path: Path) -> None:
    (run,) = read(tmp_path, PYTEST)
    assert run.id.startswith("20260801-142501-123-")
    assert run.environment.cpu == "Example Xeon"
    assert run.environment.git == {"commit": "0123abcd", "branch": "main", "dirty": True}
    sort, fast = run.cases
    assert (sort.target, sort.axes) == ("tests/test_x.py::test_sort", {"n": 10})
    assert sort.series[0].samples == [0.4, 0.5, 0.6] * 3
    assert fast.series[0].samples == [1e-6]
    assert fast.series[0].calls == [50]
    assert "100 rounds" in fast.series[0].note
    stat = headline(fast)
    assert stat is not None
    assert stat.ci95 is None


def test_one_benchmark_without_a_time_does_not_lose_the_others(tmp_path: Path) -> None:
    zero = {"name": "test_zero", "fullname": "t.py::test_zero", "stats": {"median": 0.0, "rounds": 5}}
    (run,) = read(tmp_path, {**PYTEST, "benchmarks": [*PYTEST["benchmarks"], zero]})
    assert [case.status for case in run.cases] == ["ok", "ok", "failed"]
    assert run.cases[2].failure is not None
    assert "above zero" in run.cases[2].failure.why
    (run,) = read(tmp_path, {**ASV, "results": {**ASV["results"], "suite.time_none": [[0.0], []]}})
    assert [case.target for case in run.cases if case.status == "failed"] == ["suite.time_none"]


@pytest.mark.parametrize(
    "document",
    [
        {"results": [*HYPERFINE["results"], {"command": "x", "mean": None, "user": None, "system": None}]},
        {"results": [*HYPERFINE["results"], {**HYPERFINE["results"][0], "times": [0.1, None]}]},
        *(
            {**PYTEST, "benchmarks": [*PYTEST["benchmarks"], {"name": "x", "stats": stats}]}
            for stats in (None, {}, {"median": None}, {"median": 0.1, "data": [0.1, None]})
        ),
        {**GOOGLE, "benchmarks": [*GOOGLE["benchmarks"], {"name": "BM_X", "real_time": None}]},
    ],
    ids=lambda document: str([*document.values()][-1])[-60:],
)
def test_a_time_that_was_not_written_down_costs_its_own_case_alone(document: Any, tmp_path: Path) -> None:
    (run,) = read(tmp_path, document)
    assert len(run.cases) > 2
    assert [case.status for case in run.cases[:-1]] == ["ok"] * (len(run.cases) - 1)
    assert run.cases[-1].failure is not None
    assert "missing" in run.cases[-1].failure.why


def test_asv_before_2018_has_numbers_and_rows_by_name(tmp_path: Path) -> None:
    old = {
        "commit_hash": "05d2",
        "date": 1386688801000,
        "params": {"machine": "m", "ram": 8804682956.8, "cpu": "A CPU", "os": "Linux"},
        "python": "2.7",
        "requirements": {"numpy": "1.8"},
        "profiles": {},
        "results": {
            "suite.time_plain": 6.5e-05,
            "suite.time_lost": None,
            "suite.mem_all": 400,
            "suite.time_by": {
                "params": [["1", "2"]],
                "result": [0.1, None],
                "stats": [{"number": 7, "repeat": 3, "mean": 0.1}, None],
                "samples": [[0.1, 0.1, 0.2], None],
            },
            "suite.time_one": {"params": [], "result": [0.3], "stats": [{"number": 2, "repeat": 5}]},
        },
        "version": 1,
    }
    (run,) = read(tmp_path, old)
    found = {case.key: case.series[0] for case in run.cases}
    assert list(found) == ["suite.mem_all", "suite.time_by/param1=1", "suite.time_one", "suite.time_plain"]
    assert (found["suite.time_by/param1=1"].samples, found["suite.time_by/param1=1"].calls) == (
        [0.1, 0.1, 0.2],
        [7, 7, 7],
    )
    assert "5 samples" in found["suite.time_one"].note
    assert found["suite.mem_all"].metric.unit == "B"


def test_hyperfine_has_a_case_a_command(tmp_path: Path) -> None:
    (run,) = read(tmp_path, HYPERFINE)
    sort, true = run.cases
    assert (sort.key, sort.series[0].samples) == ("sort big.txt/size=3", [0.101, 0.102, 0.103])
    assert sort.series[0].calls == []
    assert [check.name for check in sort.checks] == ["imported", "exit_codes"]
    assert (true.series[0].samples, "median" in true.series[0].note) == ([0.002], True)


def test_google_benchmark_has_a_sample_a_repetition(tmp_path: Path) -> None:
    failed = {
        "name": "BM_Broken",
        "run_name": "BM_Broken",
        "error_occurred": True,
        "error_message": "no file",
    }
    # Since version 1.8 there are skipped ones, too.
    skipped = {"name": "BM_Gpu", "real_time": 0.0, "skipped": True, "skip_message": "no GPU"}
    (run,) = read(tmp_path, {**GOOGLE, "benchmarks": [*GOOGLE["benchmarks"], failed, skipped]})
    assert (run.started, run.environment.host) == ("2023-05-16T08:20:30Z", "build-7")
    assert run.environment.vcpus == 8
    copy, lock, old, *others = run.cases
    assert copy.series[0].samples == pytest.approx([1e-5, 1.1e-5, 1.2e-5])
    assert copy.series[0].calls == [1000] * 3
    assert (copy.series[1].key, copy.series[1].metric.unit) == (("bytes_per_second", None), "1/s")
    assert (lock.axes, lock.series[0].samples) == ({"threads": 4}, [0.002])
    assert (old.target, old.series[0].samples) == ("BM_Old", pytest.approx([7.1e-8]))
    assert [case.status for case in others] == ["failed", "failed"]
    assert [case.failure.why for case in others if case.failure] == ["no file", "no GPU"]


def test_a_byte_order_mark_is_no_damage(tmp_path: Path) -> None:
    assert len(read(tmp_path, "\ufeff" + json.dumps(HYPERFINE))) == 1
    (tmp_path / "shell.json").write_bytes(json.dumps(HYPERFINE).encode("utf-16"))  # as PowerShell writes
    assert len(imports.read(tmp_path / "shell.json")) == 1


@pytest.mark.parametrize(
    "document",
    [{**PYTEST, "benchmarks": []}, {**ASV, "results": {}}, {"results": []}, {**GOOGLE, "benchmarks": []}, []],
)
def test_an_import_of_nothing_is_an_error(document: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read(tmp_path, document)


def test_asv_has_a_case_a_combination_and_leaves_failures_out(tmp_path: Path) -> None:
    (run,) = read(tmp_path, ASV)
    assert run.started == "2023-10-03T06:50:41Z"
    assert run.environment.memory == 16 * 2**30
    found = {case.key: case.series[0] for case in run.cases}
    assert list(found) == [
        "suite.peakmem_all",
        "suite.time_by/param1=1",
        "suite.time_by/param1=3",
        "suite.time_sort",
        "suite.track_loss",
    ]
    assert found["suite.time_by/param1=3"].samples == [0.3, 0.2, 0.3]
    assert found["suite.time_sort"].calls == [22921]
    assert (found["suite.peakmem_all"].metric.unit, found["suite.track_loss"].samples) == ("B", [-0.5])


def test_asv_parameters_have_the_names_of_benchmarks_json(tmp_path: Path) -> None:
    machine = tmp_path / "results" / "m"
    machine.mkdir(parents=True)
    known = {"suite.time_by": {"param_names": ["n"], "params": [["1", "2", "3"]]}, "version": 2}
    (machine.parent / "benchmarks.json").write_text(json.dumps(known))
    (run,) = read(machine, ASV)
    assert {case.key for case in run.cases if case.axes} == {"suite.time_by/n=1", "suite.time_by/n=3"}
    known["suite.time_by"] = {"param_names": ["n", "m"]}  # of another version of the benchmark
    (machine.parent / "benchmarks.json").write_text(json.dumps(known))
    (run,) = read(machine, ASV)
    assert {case.key for case in run.cases if case.axes} == {
        "suite.time_by/param1=1",
        "suite.time_by/param1=3",
    }


def test_an_asv_file_that_grew_adds_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    command = import_module("laptime.apps.cli.commands.import").command
    path = tmp_path / "results.json"
    few = {name: ASV["results"][name] for name in ("suite.time_sort", "suite.time_by")}
    printed = []
    for results in (few, few, ASV["results"], ASV["results"]):
        path.write_text(json.dumps({**ASV, "results": results}))
        printed.append(CliRunner().invoke(command, [str(path)]).output)
    assert "3 cases" in printed[0]
    assert "already stored" in printed[1]
    assert "2 cases (3 more are already stored)" in printed[2]
    assert "already stored" in printed[3]
    stored = [files.read(file) for file in files.list_files()]
    assert sorted(len(run.cases) for run in stored) == [2, 3]
    for found in history():
        assert len(found.points) == 1
    # What was measured again is another measurement.
    few["suite.time_sort"] = [[5e-07], [], *ASV["results"]["suite.time_sort"][2:]]
    path.write_text(json.dumps({**ASV, "results": few}))
    assert "1 case (2 more" in CliRunner().invoke(command, [str(path)]).output
    assert len(history("suite.time_sort")[0].points) == 2


@pytest.mark.parametrize(
    ("document", "change"),
    [
        (ASV, {"params": {**ASV["params"], "machine": "other"}}),
        (PERFZERO, {"system_info": {**PERFZERO["system_info"], "hostname": "other"}}),
        (PERFZERO, {"ml_framework_info": {"name": "tensorflow", "version": "2.22.0"}}),
    ],
)
def test_imports_of_other_machines_and_versions_are_other_histories(
    document: dict[str, Any], change: dict[str, Any], tmp_path: Path
) -> None:
    for number, more in enumerate(({}, change)):
        later = {"date": 1696315841000 + number} if document is ASV else {"execution_timestamp": 5.0 + number}
        for run in read(tmp_path, {**document, **later, **more}):
            files.save(run, tmp_path / "home")
    found = [
        each for each in history(root=tmp_path / "home") if "sort" in each.case or "benchmark" in each.case
    ]
    assert [len(each.points) for each in found] == [1, 1]
    assert all(each.differs for each in found)


def test_perfzero_has_its_metrics_in_si_and_its_bounds_as_verdicts(tmp_path: Path) -> None:
    (run,) = read(tmp_path, PERFZERO)
    found = {series.metric.tag: (series.samples[0], series.metric.unit) for series in run.cases[0].series}
    assert found["wall_time"] == (0.969, "s")
    assert found["p50_ms"] == (pytest.approx(0.0287), "s")
    assert found["exp_per_second"] == (30.95, "1/s")
    assert found["process/max_rss"] == (407236608, "B")
    assert "loss" not in found
    assert [(v.metric, v.word) for v in run.verdicts] == [("exp_per_second", "broken"), ("p50_ms", "kept")]
    assert len(read(tmp_path, [PERFZERO, {**PERFZERO, "execution_timestamp": 5.0}])) == 2


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("{}", "not a file that can be imported"),
        ("[]", "not a file that can be imported"),
        ({**PYTEST, "benchmarks": [{}]}, "is not what pytest_benchmark writes"),
        ({**PYTEST, "benchmarks": 3}, "is not what pytest_benchmark writes"),
        ({**PYTEST, "datetime": "yesterday"}, "is not what pytest_benchmark writes"),
        ({**ASV, "date": None}, "is not what asv writes"),
        ({**PERFZERO, "benchmark_result": {}}, "is not what perfzero writes"),
        ({**PERFZERO, "execution_timestamp": 1e300}, "is not what perfzero writes"),
        ({**VLLM, "ttfts": [0.2]}, "is not what vllm_bench writes"),
        ({**VLLM, "latencies": [None] * 4}, "is not what vllm_bench writes"),
        ({**VLLM, "duration": 0}, "is not what vllm_bench writes"),
        ({**VLLM, "errors": ["no"] * 4}, "is not what vllm_bench writes"),
        ({**GUIDELLM, "benchmarks": []}, "is not what guidellm writes"),
        ({**AIPERF_SUMMARY, "benchmark_duration": {"unit": "weeks", "avg": 1}}, "is not what aiperf writes"),
        ([{"metadata": {"credit_issued_ns": 0}, "metrics": {}}], "is not what aiperf writes"),
        (AIPERF_LINES[:-9], "is not JSON"),
    ],
)
def test_damaged_files_are_errors_in_three_lines(document: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        read(tmp_path, document)


@pytest.mark.parametrize("document", [VLLM, GUIDELLM, AIPERF_LINES])
def test_requests_count_from_when_they_were_due(document: Any, tmp_path: Path) -> None:
    (run,) = read(tmp_path, document)
    (case,) = run.cases
    found = {series.metric.tag: series.samples for series in case.series}
    assert found["latency"] == pytest.approx([0.24, 0.38, 0.52], abs=1e-6)
    assert found["load/ttft"] == pytest.approx([0.2, 0.34, 0.48], abs=1e-6)
    assert found["load/tpot"] == pytest.approx([0.01] * 3, abs=1e-6)
    assert {check.name: check.outcome for check in case.checks} == {
        "imported": "warn",
        "answers": "warn",
        "waited": "note",
    }
    assert "1 of 4 requests" in case.checks[1].sentence
    assert not throughputs(case)


def test_load_generators_say_what_they_drove_and_what_was_answered(tmp_path: Path) -> None:
    (vllm,), (guidellm,), (aiperf,) = (read(tmp_path, each) for each in (VLLM, GUIDELLM, AIPERF_SUMMARY))
    assert [run.id[:15] for run in (vllm, guidellm, aiperf)] == [
        "20261123-023301", "20261123-024851", "20261123-024851",
    ]  # fmt: skip
    assert vllm.name == "night"
    assert vllm.cases[0].axes == aiperf.cases[0].axes == {"rate": 10.0, "concurrency": 1}
    assert guidellm.cases[0].axes == {"arrivals": "constant", "rate": 10.0}
    for run in (vllm, guidellm, aiperf):
        found = {series.metric.tag: series.samples for series in run.cases[0].series}
        assert run.cases[0].target == "tiny"
        assert (found["load/answered"], found["load/output_tokens"]) == ([4.0], [20.0])


def test_without_requests_a_median_stands_for_them(tmp_path: Path) -> None:
    bare = {key: value for key, value in VLLM.items() if key not in ("ttfts", "itls", "latencies")}
    for document, latency in ((bare, None), (AIPERF_SUMMARY, 0.38)):
        (run,) = read(tmp_path, document)
        found = {series.metric.tag: series for series in run.cases[0].series}
        assert latency == (found["latency"].samples[0] if "latency" in found else None)
        assert found["load/ttft"].samples == pytest.approx([0.2])
        assert found["load/tpot"].samples == pytest.approx([0.01])
        assert "the median" in found["load/ttft"].note


def test_older_vllm_does_not_tell_what_it_waited(tmp_path: Path) -> None:
    older = {key: value for key, value in VLLM.items() if key not in ("latencies", "queue_times")}
    (run,) = read(tmp_path, {**older, "itls": [[0.01] * 4, [0.01] * 4, [], [0.02, 0.02]]})
    latency = run.cases[0].find("latency", "paced")
    assert latency is not None
    assert latency.samples == pytest.approx([0.24] * 3)
    assert "no more" in latency.note
    assert "waited" not in [check.name for check in run.cases[0].checks]


def test_what_we_export_we_import(tmp_path: Path) -> None:
    for made in (to_pytest_benchmark.render(runs.compared()), to_asv.render(runs.compared())):
        (run,) = read(tmp_path, made)
        ours = [headline(case) for case in runs.compared().cases]
        theirs = [headline(case) for case in run.cases]
        assert sorted(stat.value for stat in theirs if stat and stat.value) == pytest.approx(
            sorted(stat.value for stat in ours if stat and stat.value)
        )


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="be read"):
        imports.read(tmp_path / "none.json")


def test_a_page_says_nothing_of_a_machine_that_the_other_tool_did_not_write_down() -> None:
    (run,) = vllm_bench.runs(VLLM, Path("vllm.json"))
    assert words.machine(run) == ["cpu"]
