"""`laptime suite perfzero` on benchmark classes that pass, and on ones that fail in every way there is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from fixtures.command_lines import OWN_VARIABLES
from laptime.store import lookup

Laptime = Callable[..., subprocess.CompletedProcess[str]]

CLASSES = """
import os, signal, sys, time
from laptime.compat.perfzero import Benchmark

class Tiny(Benchmark):
    def __init__(self, output_dir=None, root_data_dir=None, tpu=None, scale=1.0):
        assert output_dir and root_data_dir == "/data" and tpu is None
        self.output_dir, self.scale = output_dir, scale

    def report(self, value=10.0, **more):
        rate = {"name": "exp_per_second", "value": value * self.scale, "min_value": 5, "max_value": None}
        extras = {"model": "none", "batch": 2}
        self.report_benchmark(iters=5, wall_time=0.001, extras=extras, metrics=[rate], **more)

    def benchmark_pass(self): self.report()
    def benchmark_bound(self): self.report(4.0)
    def benchmark_raise(self): raise ValueError("as told")
    def benchmark_exit(self): sys.exit(0)
    def benchmark_segfault(self): os.kill(os.getpid(), signal.SIGSEGV)
    def benchmark_vanish(self): os._exit(0)
    def benchmark_silent(self): pass
    def benchmark_twice(self): self.report(); self.report()
    def benchmark_two_names(self): self.report(); self.report(name="other")
    def benchmark_renamed(self): self.report(name="other")
    def benchmark_nan(self): self.report(float("nan"))
    def benchmark_hang(self):
        if os.fork() == 0:
            open(os.path.join(self.output_dir, "grandchild"), "w").write(str(os.getpid()))
        time.sleep(600)
    def benchmark_flood(self):
        line = "x" * 1023 + "\\n"
        for _ in range(20_000): sys.stdout.write(line)
        print("the very end", flush=True)
        self.report()
    def benchmark_memory(self):
        block = bytearray(200_000_000)
        for i in range(0, len(block), 4096): block[i] = 1
        del block
        self.report()

class Bare(Benchmark):
    def benchmark_pass(self): self.report_benchmark(wall_time=0.001)

def upload(summary):
    with open(os.environ["UPLOADED"], "a") as file: file.write(summary["execution_id"] + "\\n")

def broken_upload(summary): raise OSError("no route")
"""

# PerfZero's own keys and types, as its 2023 version writes them: `?` is there only when it is set.
SHAPE: dict[str, Any] = {
    "execution_id": str,
    "execution_timestamp": float,
    "benchmark_result": {
        "name": str,
        "wall_time": float,
        "succeeded": bool,
        "extras": [{"name": str, "value": (str, float)}],
        "metrics": [{"name": str, "value": float, "min_value?": float, "max_value?": float}],
        "trial_id": int,
    },
    "benchmark_info": {
        "harness_name": str,
        "harness_info": dict,
        "has_exception": bool,
        "execution_label?": str,
        "output_url?": str,
        "env_vars?": dict,
        "flags": dict,
        "site_package_info": dict,
    },
    "setup_info": dict,
    "ml_framework_info": {"name": str, "version": str, "build_version": str, "build_label?": str},
    "system_info": {
        "platform_name?": str,
        "system_name?": str,
        "accelerator_driver_version?": str,
        "accelerator_model?": str,
        "accelerator_count?": int,
        "cpu_model": str,
        "physical_cpu_count": int,
        "logical_cpu_count": int,
        "cpu_socket_count": int,
        "hostname": str,
    },
    "process_info": {"max_rss?": int, "max_vms?": int, "max_cpu_percent?": float},
    "laptime?": dict,
}


def fits(value: Any, shape: Any, where: str = "") -> None:
    """The value has these keys, no others, and these types."""
    if isinstance(shape, dict):
        assert isinstance(value, dict), where
        known = {name.rstrip("?"): kind for name, kind in shape.items()}
        assert set(value) <= set(known), f"{where}: {set(value) - set(known)}"
        assert {name for name in shape if not name.endswith("?")} <= set(value), where
        for name, item in value.items():
            fits(item, known[name], f"{where}/{name}")
    elif isinstance(shape, list):
        assert isinstance(value, list), where
        for item in value:
            fits(item, shape[0], f"{where}[]")
    else:
        kinds = shape if isinstance(shape, tuple) else (shape,)
        assert type(value) in kinds, f"{where}: {value!r}"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "tinybench.py").write_text(textwrap.dedent(CLASSES))
    return tmp_path


def perfzero_process(work: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`laptime suite perfzero` in a process of its own."""
    environ = {k: v for k, v in os.environ.items() if k not in OWN_VARIABLES}
    return subprocess.run(
        [sys.executable, "-m", "laptime", "suite", "perfzero", *arguments],
        cwd=work, env={**environ, **variables}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.fixture
def perfzero(here: Laptime, monkeypatch: pytest.MonkeyPatch) -> Laptime:
    """The same in this process; each benchmark has one of its own, as always."""

    def call(work: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return here(work, "suite", "perfzero", *arguments)

    return call


def methods(*names: str) -> str:
    return "--benchmark_methods=" + ",".join(f"tinybench.Tiny.benchmark_{name}" for name in names)


def alive(pid: int) -> bool:
    """Whether a process still runs; one that is dead and waits to be collected does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def summaries(work: Path) -> dict[str, dict[str, Any]]:
    """All summaries by the last word of their benchmark, the last trial's when there are several."""
    found = [json.loads(path.read_text()) for path in work.glob("workspace/output/*/perfzero_summary.json")]
    found.sort(key=lambda each: each["benchmark_result"]["trial_id"])
    return {each["benchmark_result"]["name"].rpartition("_")[2]: each for each in found}


def test_a_benchmark_that_passes_writes_perfzeros_summary(work: Path) -> None:
    done = perfzero_process(
        work, methods("pass"), "--execution_id=run_b1", "--execution_label=nightly", PERFZERO_RUN_TAGS="a"
    )
    assert done.returncode == 0, done.stderr
    folder = work / "workspace" / "output" / "run_b1"
    summary = json.loads((folder / "perfzero_summary.json").read_text())
    fits(summary, SHAPE)
    assert summary["benchmark_result"] == {
        "name": "tinybench.Tiny.benchmark_pass",
        "wall_time": 0.001,
        "succeeded": True,
        "extras": [{"name": "model", "value": "none"}, {"name": "batch", "value": 2.0}],
        "metrics": [{"name": "exp_per_second", "value": 10.0, "min_value": 5.0}],
        "trial_id": 1,
    }
    assert summary["execution_id"] == "run_b1"
    assert summary["benchmark_info"]["env_vars"] == {"PERFZERO_RUN_TAGS": "a"}
    assert summary["benchmark_info"]["flags"]["execution_label"] == "nightly"
    assert set(summary["process_info"]) == {"max_rss", "max_vms", "max_cpu_percent"}
    assert summary["laptime"]["reports"][0]["iters"] == 5
    curve = [json.loads(line) for line in (folder / "process_info.log").read_text().splitlines()]
    assert all(set(point) == {"time", "rss", "vms", "cpu_percent"} for point in curve)
    shown = subprocess.run(
        [sys.executable, "-m", "laptime", "show", "last", "--format", "perfzero"],
        cwd=work, capture_output=True, text=True,
    )  # fmt: skip
    assert json.loads(shown.stdout) == summary


def test_the_framework_that_a_benchmark_loads_is_one_of_the_runs_conditions(
    perfzero: Laptime, work: Path
) -> None:
    runs = []
    for version in ("2.20.0", "2.21.0"):
        (work / "tensorflow.py").write_text(f"__version__ = {version!r}\n")
        (work / "framed.py").write_text("import tensorflow\nfrom tinybench import *\n")
        done = perfzero(work, "--benchmark_methods=framed.Bare.benchmark_pass")
        assert done.returncode == 0, done.stderr
        runs.append(lookup.load("last", work / ".laptime"))
    assert [run.environment.libraries["tensorflow"] for run in runs] == ["2.20.0", "2.21.0"]
    assert len({run.environment.fingerprint for run in runs}) == 2


@pytest.mark.slow
def test_every_fault_is_marked_and_the_rest_goes_on(perfzero: Laptime, work: Path) -> None:
    names = "bound raise exit segfault vanish silent twice names renamed nan hang flood pass"
    names = names.replace("names", "two_names")
    done = perfzero(work, methods(*names.split()), "--timeout=4s", "-o", "r.html")
    assert done.returncode == 4, done.stderr
    found = summaries(work)
    for summary in found.values():
        if summary["benchmark_result"]["name"].endswith("_nan"):
            continue
        fits(summary, SHAPE)
    words = {name: each["laptime"]["verdict"]["word"] for name, each in found.items()}
    assert words == {
        "bound": "bound_violated",
        "raise": "raised",
        "exit": "raised",
        "segfault": "crashed",
        "vanish": "crashed",
        "silent": "no_report",
        "twice": "reported_twice",
        "names": "passed",
        "renamed": "passed",
        "nan": "not_a_number",
        "hang": "hung",
        "flood": "passed",
        "pass": "passed",
    }
    succeeded = {name for name, each in found.items() if each["benchmark_result"]["succeeded"]}
    assert succeeded == {"names", "renamed", "flood", "pass"}
    assert found["raise"]["benchmark_result"]["wall_time"] == -1.0
    assert found["nan"]["benchmark_result"]["metrics"][0]["value"] == "NaN"
    assert found["twice"]["benchmark_result"]["wall_time"] == 0.001
    assert len(found["names"]["laptime"]["reports"]) == 2
    assert found["renamed"]["laptime"]["name_overridden"]
    output = work / "workspace" / "output"
    log = (output / found["flood"]["execution_id"] / "perfzero.log").read_bytes()
    assert len(log) < 5_000_000
    assert log.rstrip().endswith(b"the very end")
    assert "left out" in log[:3_000_000].decode()
    hung = output / found["hang"]["execution_id"]
    assert "benchmark_hang" in (hung / "perfzero.log").read_text()  # where it was
    assert not alive(int((hung / "grandchild").read_text()))
    page = (work / "r.html").read_text()
    assert "Process over" in page
    assert lookup.load("last", work / ".laptime").status == "complete"


def test_a_broken_bound_and_a_filter_without_a_match_exit_1(perfzero: Laptime, work: Path) -> None:
    assert perfzero(work, methods("bound")).returncode == 1
    none = perfzero(work, "--benchmark_methods=tinybench.Tiny.filter:nothing_like_it")
    assert none.returncode == 1
    assert "matches no" in none.stderr
    assert len(none.stderr.strip().splitlines()) == 3


def test_trials_under_one_id_do_not_overwrite_and_give_an_interval(perfzero: Laptime, work: Path) -> None:
    for _ in range(2):
        done = perfzero(work, methods("pass"), "--execution_id=same", "--benchmark_num_trials=3")
        assert done.returncode == 0, done.stderr
    folders = sorted(path.name for path in (work / "workspace" / "output").iterdir())
    assert len(folders) == 6
    assert all(name.startswith("same-") for name in folders)
    last = summaries(work)["pass"]
    assert last["benchmark_result"]["trial_id"] == 3
    assert last["laptime"]["metrics"]["exp_per_second"]["values"] == [10.0, 10.0, 10.0]
    assert last["laptime"]["metrics"]["exp_per_second"]["ci95"] == [10.0, 10.0]


def test_both_constructor_styles_and_arguments(perfzero: Laptime, work: Path) -> None:
    given = '--perfzero_constructor_args={"scale": 0.1}'
    assert perfzero(work, methods("pass"), given).returncode == 1  # 10 x 0.1 is below the bound
    bare = "--benchmark_methods=tinybench.Bare:benchmark_pass"
    assert perfzero(work, bare, "--benchmark_class_type=tf_benchmark").returncode == 0
    assert perfzero(work, bare).returncode == 0  # found from its signature


def test_a_peak_between_two_looks_is_seen(perfzero: Laptime, work: Path) -> None:
    assert perfzero(work, methods("memory")).returncode == 0
    assert summaries(work)["memory"]["process_info"]["max_rss"] > 200_000_000


def test_a_failing_uploader_loses_nothing(perfzero: Laptime, work: Path) -> None:
    done = perfzero(
        work,
        methods("pass"),
        "--result_upload_methods=tinybench.broken_upload,tinybench.upload",
        f"--output_gcs_url={work / 'far away'}",
        "--execution_id=up",
        UPLOADED=str(work / "uploaded"),
    )
    assert done.returncode == 2
    assert "no route" in done.stderr
    assert (work / "uploaded").read_text() == "up\n"
    for place in (work / "workspace" / "output", work / "far away"):
        assert (place / "up" / "perfzero_summary.json").is_file()


def test_a_filter_lists_what_it_finds_without_running_it(perfzero: Laptime, work: Path) -> None:
    done = perfzero(work, "--benchmark_methods=tinybench.Tiny.filter:benchmark_(pass|bound)", "--list")
    assert done.stdout.split() == ["tinybench.Tiny.benchmark_bound", "tinybench.Tiny.benchmark_pass"]
    assert not (work / "workspace").exists()


def test_a_class_that_cannot_be_imported_is_a_failure_and_not_ours(perfzero: Laptime, work: Path) -> None:
    done = perfzero(work, "--benchmark_methods=nowhere.Tiny.filter:x,nowhere.Tiny.one", methods("pass"))
    assert done.returncode == 4
    assert "'nowhere'" in done.stdout
    assert summaries(work)["pass"]["benchmark_result"]["succeeded"]


@pytest.mark.parametrize(
    ("flag", "word"),
    [
        ("--bigquery_project_name=p", "BigQuery"),
        ("--gce_nvme_raid=all", "disks"),
        ("--tensorflow_pip_spec=tf-nightly", "installs nothing"),
        ("--gcloud_key_file_url=gs://x/y", "does not fetch keys"),
    ],
)
def test_what_only_the_cloud_has_is_refused_with_a_sentence(
    perfzero: Laptime, work: Path, flag: str, word: str
) -> None:
    done = perfzero(work, methods("pass"), flag)
    assert done.returncode == 2
    assert word in done.stderr


def test_what_loses_nothing_is_ignored_and_dashes_are_welcome(perfzero: Laptime, work: Path) -> None:
    done = perfzero(
        work,
        "--benchmark-methods=tinybench.Tiny.benchmark_pass",
        "--docker_tag=x",
        "--bigquery_project_name=",
    )
    assert done.returncode == 0, done.stderr
    assert "ignored" in done.stderr


def test_benchmarks_of_a_cloned_repository_with_fetched_data(
    perfzero: Laptime, work: Path, tmp_path: Path
) -> None:
    repo = tmp_path / "my $HOME & repo"
    repo.mkdir()
    (work / "tinybench.py").rename(repo / "tinybench.py")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], [*identity, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    (work / "source.txt").write_text("data")
    done = perfzero(
        work,
        methods("pass"),
        f"--git_repos={repo};main",
        f"--python_path={repo.name}",
        f"--data_downloads={(work / 'source.txt').as_uri()};set/data.txt",
        "--root_data_dir=data",
    )
    # The class insists on /data: its constructor's complaint shows that it was given the flag's folder.
    assert done.returncode == 4
    assert "raised AssertionError" in done.stdout
    assert (work / "data" / "set" / "data.txt").read_text() == "data"
    done = perfzero(work, methods("pass"), f"--git_repos={repo};main", f"--python_path={repo.name}")
    assert done.returncode == 0, done.stderr
    info = max(work.glob("workspace/output/*/perfzero_summary.json"), key=lambda path: path.parent.name)
    site = json.loads(info.read_text())["benchmark_info"]["site_package_info"]
    assert site[repo.name]["branch"] == "main"
    assert len(site[repo.name]["hash"]) == 40


def test_ctrl_c_keeps_what_was_run_and_leaves_no_process(work: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "laptime", "suite", "perfzero", methods("pass", "hang")],
        cwd=work, env={k: v for k, v in os.environ.items() if k != "LAPTIME_HOME"} | {"COLUMNS": "120"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for _ in range(600):
        if mark := next(work.glob("workspace/output/*/grandchild"), None):
            break
        time.sleep(0.05)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert "not run" in stdout
    assert mark is not None
    assert not alive(int(mark.read_text()))
    stored = lookup.load("last", work / ".laptime")
    assert stored.status == "interrupted"
    assert [case.status for case in stored.cases] == ["ok", "interrupted"]


def test_a_window_of_the_profiler_ends_with_the_method(perfzero: Laptime, work: Path) -> None:
    (work / "tensorflow.py").write_text(
        "import types\n__version__ = '0.0'\n"
        "def start(folder): open('calls', 'a').write('start ')\n"
        "def stop(): open('calls', 'a').write('stop ')\n"
        "profiler = types.SimpleNamespace(experimental=types.SimpleNamespace(start=start, stop=stop))\n"
    )
    done = perfzero(work, methods("memory"), "--profiler_enabled_time=0:")
    assert done.returncode == 0, done.stderr
    assert (work / "calls").read_text().split() == ["start", "stop"]
    assert summaries(work)["memory"]["ml_framework_info"]["name"] == "tensorflow"
    perfzero(work, methods("pass"), "--profiler_enabled_time=500:600")
    events = summaries(work)["pass"]["laptime"]["profiler"]
    assert [event["event"] for event in events] == ["profiler_late"]
