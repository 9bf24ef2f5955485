"""Commands with `--on`: a stand-in for ssh starts the other half elsewhere, with a cache of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from laptime.store.files import read

Here = Callable[..., CompletedProcess[str]]
TRACE = Path(__file__).parents[1] / "data/traces/h100_bert_small.json.gz"
SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done
[ "$1" = dead ] && { echo 'ssh: connect to host dead port 22: No route to host' >&2; exit 255; }
cd "$ELSEWHERE" && export LAPTIME_CACHE="$ELSEWHERE/$1"
shift
exec sh -c "$*"
"""
QUICK = ("--backend", "null", "--budget", "500ms", "--processes", "1", "--regime", "isolated")


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What `--on` is told: hosts a1, a2 and b1 with this Python."""
    for name in ("bin", "elsewhere", "work/sub"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin/ssh").write_text(SSH)
    (tmp_path / "bin/ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("ELSEWHERE", str(tmp_path / "elsewhere"))
    (tmp_path / "work/sub/part.py").write_text("N = 999\n")
    (tmp_path / "work/model.py").write_text(
        "from sub.part import N\n\n\ndef build():\n    return lambda: sum(range(N))\n\n\nother = build\n"
    )
    return f"ssh:dead,{','.join(f'{host}{sys.executable}' for host in ('a1', 'a2', 'b1'))}"


def caches(tmp_path: Path) -> list[str]:
    return sorted(path.parent.parent.name for path in (tmp_path / "elsewhere").glob("*/code/*"))


def test_bench_runs_there_and_is_kept_here(tmp_path: Path, here: Here, on: str) -> None:
    done = here(
        tmp_path / "work", "bench", "model.py:build", *QUICK, "--on", on, "--machines", "b*", "--json"
    )
    assert done.returncode in (0, 3), done.stderr
    run = json.loads(done.stdout)
    assert run["subjects"][0]["source"] == "model.py"
    assert [case["status"] for case in run["cases"]] == ["ok"]
    assert "sending 2 files" in done.stderr
    assert caches(tmp_path) == ["b1"]
    listed = here(tmp_path / "work", "show", "last", "--json")
    assert json.loads(listed.stdout)["environment"]["git"] == run["environment"]["git"]


def test_compare_measures_both_sides_on_one_machine_and_passes_over_a_dead_one(
    tmp_path: Path, here: Here, on: str
) -> None:
    done = here(
        tmp_path / "work", "compare", "model.py:build", "model.py:other", *QUICK, "--on", on, "--json"
    )
    assert done.returncode in (0, 3), done.stderr
    run = json.loads(done.stdout)
    assert [case["status"] for case in run["cases"]] == ["ok", "ok"]
    assert len(caches(tmp_path)) == 1


def test_trace_sends_the_file_alone(tmp_path: Path, here: Here, on: str) -> None:
    shutil.copy(TRACE, tmp_path / "there.json.gz")
    words = ("trace", str(tmp_path / "there.json.gz"), "--on", on, "--machines", "a1", "--json")
    done = here(tmp_path / "work", *words)
    assert done.returncode == 0, done.stderr
    alone = here(tmp_path / "work", "trace", str(tmp_path / "there.json.gz"), "--json")
    there, at_home = json.loads(done.stdout), json.loads(alone.stdout)
    assert there["overview"] == at_home["overview"]
    assert "sending 1 file" in done.stderr


def test_load_is_put_on_a_model_there(tmp_path: Path, here: Here, on: str) -> None:
    words = ("load", "null:sleep=2ms", "--rate", "20", "--duration", "1s", "--on", on, "--machines", "a2")
    done = here(tmp_path / "work", *words, "--json")
    assert done.returncode in (0, 3), done.stderr
    assert len(json.loads(done.stdout)["levels"]) == 1
    assert caches(tmp_path) == [], "no file of the user is named"


def test_a_suite_takes_its_models_along(tmp_path: Path, here: Here, on: str) -> None:
    table = '[[benchmark]]\nname = "b{0}"\ntarget = "model.py:build"\nbackend = "null"\nbudget = "300ms"\n'
    (tmp_path / "work/two.toml").write_text("\n".join(map(table.format, range(2))))
    done = here(tmp_path / "work", "suite", "run", "two.toml", "--on", on, "--json")
    assert done.returncode in (0, 3), done.stderr
    assert [case["status"] for case in json.loads(done.stdout)["cases"]] == ["ok", "ok"]
    assert "sending 3 files" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("bench", "../far.py:build", "--on", "ON"), "far.py lies on this machine alone"),
        (("bench", "model.py:bild", "--on", "ON"), "has no function called 'bild'"),
        (("bench", "model.py:build", "--machines", "a*"), "--machines says which of many"),
        (("bench", "model.py:build", "--on", "ON", "--machines", "c*"), "--machines c* matches none"),
        (("trace", "none.json", "--on", "ON"), "there is no file"),
        (("trace", "t.json", "--slim", "s.json.gz", "--on", "ON"), "--slim writes here"),
        (("bench", "model.py:build", "--on", "ssh:dead"), "lost with dead: "),
        (("doctor", "--links"), "--links measures between machines"),
        (("doctor", "--links", "--on", "ON", "--machines", "b*"), "--links needs two machines"),
    ],
)
def test_bad_input_is_named_in_three_lines(
    tmp_path: Path, here: Here, on: str, words: tuple[str, ...], says: str
) -> None:
    (tmp_path / "far.py").write_text("def build():\n    return int\n")
    done = here(tmp_path / "work", *(on if word == "ON" else word for word in words))
    assert says in done.stderr, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith(("error:", "why:", "next:"))]
    assert errors[0].startswith("error:")
    assert errors[-1].startswith("next:")
    assert done.returncode == (4 if "dead" in words[-1] else 2)
    assert caches(tmp_path) == []


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(400)
def test_a_session_of_tune_brings_its_patch_home(tmp_path: Path, here: Here, on: str) -> None:
    work = tmp_path / "work"
    for name in ("sleepy.py", "awake.py"):
        shutil.copy(Path(__file__).with_name("tune_scripts") / name, work)
    asked = ("--with", "awake.py", "--only", "awake", "--budget", "2m", "sleepy.py")
    done = here(work, "tune", "--on", on, "--machines", "a*", *asked)
    assert done.returncode == 0, done.stderr
    assert "faster" in done.stdout
    assert 'os.environ["AWAKE"]' in (work / "sleepy.laptime.patch").read_text()
    assert json.loads((work / "sleepy.laptime.json").read_text())
    apply = ["git", "apply", "--check", "sleepy.laptime.patch"]
    assert subprocess.run(apply, cwd=work, capture_output=True, check=False).returncode == 0


def test_links_are_measured_between_those_that_are_there(tmp_path: Path, here: Here, on: str) -> None:
    words = ("doctor", "--quick", "--links", "--on", on, "--machines", "dead,a*", "--json")
    done = here(tmp_path / "work", *words)
    assert done.returncode == 4, done.stderr
    assert done.stderr.count("error: dead was lost: ") == 1
    rows = {(row["machine"], row.get("speed")): row for row in json.loads(done.stdout)["machines"]}
    assert {name for name, _ in rows} == {"dead", "a1", "a2", "a1 - a2", "a1 - dead", "a2 - dead"}
    largest = rows["a1 - a2", "16777216 B"]
    assert len(largest["seconds"]) == 3
    assert largest["backend"] == "gloo"
    assert not largest["failure"]


# In the background


def laptime(folder: Path, *words: str) -> CompletedProcess[str]:
    command = [sys.executable, "-m", "laptime", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def eventually(is_so: Callable[[], object], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.3)


def started_below(folder: Path) -> list[str]:
    """Programs that still run for a store in this folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if str(folder).encode() in (place / "environ").read_bytes() and "laptime" in words:
                found.append(words)
    return found


@pytest.fixture
def detached(tmp_path: Path, on: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a suite of three benchmarks that works on a1 and a2."""
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "300")
    table = '[[benchmark]]\nname = "b{0}"\ntarget = "model.py:build"\nbackend = "null"\nbudget = "{1}s"\n'
    (tmp_path / "work/bg.toml").write_text("\n".join(table.format(n, (1, 6, 6)[n]) for n in range(3)))
    words = ("suite", "run", "bg.toml", "--on", on, "--machines", "a*", "--detach")
    done = laptime(tmp_path / "work", *words)
    assert done.returncode == 0, done.stderr
    return done.stderr.split(" works in the background")[0].splitlines()[-1]


def stored(tmp_path: Path) -> list[str]:
    runs = tmp_path / "home/runs"  # one above 1 MB is compressed; one that is not finished ends in .jsonl
    return sorted(read(path).name for path in (*runs.glob("*/*.json"), *runs.glob("*/*.json.gz")))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fleet_shows_what_works_and_stop_leaves_nothing(tmp_path: Path, detached: str) -> None:
    eventually(lambda: "bg:b" in laptime(tmp_path / "work", "fleet").stdout)
    shown = laptime(tmp_path / "work", "fleet").stdout
    assert detached in shown
    assert "suite run bg.toml" in shown
    assert started_below(tmp_path)
    stopped = laptime(tmp_path / "work", "fleet", "stop", detached)
    assert stopped.returncode == 0, stopped.stderr
    assert not started_below(tmp_path)
    again = laptime(tmp_path / "work", "fleet", "stop", detached)
    assert again.returncode == 2
    assert again.stderr.startswith(f"error: nothing works under the id '{detached}'")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_head_that_dies_loses_nothing_and_counts_nothing_twice(tmp_path: Path, detached: str) -> None:
    eventually(lambda: "bg:b0" in stored(tmp_path))
    head = json.loads((tmp_path / f"home/fleet/{detached}.json").read_text())
    os.kill(head["pid"], signal.SIGKILL)
    eventually(lambda: not started_below(tmp_path))  # nodes end when nobody listens any more
    before = stored(tmp_path)
    words = ("suite", "run", "bg.toml", "--on", f"ssh:a1{sys.executable}", "--resume", "--json")
    done = laptime(tmp_path / "work", *words)
    assert done.returncode in (0, 3), done.stderr
    assert [case["axes"]["benchmark"] for case in json.loads(done.stdout)["cases"]] == ["b0", "b1", "b2"]
    assert f"{len(before)} of them stored already" in done.stderr
    assert stored(tmp_path) == ["bg:b0", "bg:b1", "bg:b2"]
