"""Every way to ask for what cannot be, as a user types it: three lines or a marked case, and the code.

What a worker measured in the block in which it dies (a second at most) is lost; the blocks before are not.
"""

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

import pytest

from fixtures.command_lines import OWN_VARIABLES

QUICK = ["--preset", "quick", "--budget", "300ms"]
Ended = subprocess.CompletedProcess[str]
Laptime = Callable[..., Ended]


def laptime(cwd: Path, *arguments: str, **environment: str) -> Ended:
    clean = {k: v for k, v in os.environ.items() if k not in OWN_VARIABLES}
    return subprocess.run(
        [sys.executable, "-m", "laptime", *arguments],
        cwd=cwd,
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def document(ended: Ended) -> Any:
    return json.loads(ended.stdout)


def three_lines(ended: Ended, code: int, *words: str) -> None:
    assert ended.returncode == code, ended.stderr
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "why", "next"], ended.stderr
    for word in words:
        assert word in ended.stderr


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(
        textwrap.dedent(
            """
            import sys
            import time

            def good():
                return (lambda: sum(range(1000))), None

            def raising():
                raise ValueError("planted in the function")

            def leaving():
                sys.exit(3)

            def calling():
                def call():
                    raise KeyError("planted in the call")
                return call, None

            def nothing():
                return None
            """
        )
    )
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bench", "null:spin=1ms", "--batch", "4,-1"], ["batch -1 is impossible"]),
        (["bench", "nul:noop"], ["'nul'", "did you mean null:noop"]),
        (["bench", "null:spn=1ms"], ["did you mean 'spin'"]),
        (["bench", "torchvison:resnet18"], ["did you mean torchvision:resnet18"]),
        (["bench", "model.py:goood"], ["no function called 'goood'", "did you mean model.py:good"]),
        (["bench", "modle.py:good"], ["modle.py"]),
        (["bench", "model.py"], ["model.py"]),
        (["bench", "null:noop", "--rate", "nan"], ["--rate nan is impossible"]),
        (["bench"], ["no target was named"]),
        (["bnech", "null:noop"], ["bench"]),
        (["show", "last"], ["laptime bench"]),
        (["compare", "last~1", "last"], ["laptime"]),
    ],
)
def test_a_request_that_cannot_be_is_three_lines_and_two(
    here: Laptime, models: Path, arguments: list[str], words: list[str]
) -> None:
    three_lines(here(models, *arguments), 2, *words)
    assert not (models / ".laptime").exists()


def test_a_process_says_the_same_and_ends_with_two(models: Path) -> None:
    words = ["batch 0 is impossible", "--batch 1,8"]
    three_lines(laptime(models, "bench", "null:spin=1ms", "--batch", "0"), 2, *words)


@pytest.mark.parametrize(
    ("function", "code", "kind", "words"),
    [
        ("raising", 4, "user_code", ["planted in the function", "model.py"]),
        ("calling", 4, "user_code", ["planted in the call"]),
        ("nothing", 2, "target", ["None"]),
        ("leaving", 4, None, ["3"]),
    ],
)
def test_a_function_that_fails_is_a_marked_case(
    here: Laptime, models: Path, function: str, code: int, kind: str | None, words: list[str]
) -> None:
    ended = here(models, "bench", f"model.py:{function}", "--backend", "null", "--json", *QUICK)
    assert ended.returncode == code, ended.stderr
    (case,) = document(ended)["cases"]
    assert case["verdict"] == "invalid"
    text = json.dumps(case)
    assert kind is None or f'"{kind}"' in text
    for word in words:
        assert word in text


def test_json_has_the_published_keys(here: Laptime, models: Path) -> None:
    ended = here(models, "bench", "null:spin=1ms,jitter=1%", "--batch", "1,8", "--json", *QUICK)
    assert ended.returncode == 0, ended.stderr
    found = document(ended)
    assert found["schema"]
    assert found["verdict"] in ("trusted", "noisy")
    assert isinstance(found["reasons"], list)
    assert found["environment"]["vcpus"] >= 1
    assert [case["axes"]["batch"] for case in found["cases"]] == [1, 8]
    for case in found["cases"]:
        assert {"key", "axes", "verdict", "reasons", "metrics"} <= case.keys()
        median = case["metrics"]["latency/isolated/median"]
        assert {"value", "unit", "ci95", "n", "regime"} <= median.keys()
        assert median["unit"] == "s"
        assert median["ci95"][0] <= median["value"] <= median["ci95"][1]
        assert median["value"] >= 0.0009
    assert "progress" not in ended.stderr.lower() or ended.stdout.startswith("{")


def test_reports_are_written_and_compared(here: Laptime, models: Path) -> None:
    files = ["r.html", "r.md", "r.json"]
    wanted = [part for file in files for part in ("-o", file)]
    first = here(models, "bench", "null:spin=1ms", *QUICK, *wanted)
    assert first.returncode == 0, first.stderr
    assert (models / "r.html").read_text().lower().startswith("<!doctype html")
    assert "null:spin=1ms" in (models / "r.md").read_text()
    assert json.loads((models / "r.json").read_text())["cases"]
    here(models, "bench", "null:spin=4ms", *QUICK)
    compared = here(models, "compare", "last~1", "last", "--json")
    assert compared.returncode == 0, compared.stderr
    (comparison,) = document(compared)["comparisons"]
    assert comparison["word"] == "slower"
    assert here(models, "show", "last").returncode == 0


def test_nan_is_invalid_and_three(here: Laptime, tmp_path: Path) -> None:
    ended = here(tmp_path, "bench", "null:nan,spin=1ms", "--json", *QUICK)
    assert ended.returncode == 3
    assert document(ended)["verdict"] == "invalid"
    assert "NaN" in ended.stdout


def test_a_batch_that_exhausts_memory_costs_no_other_its_numbers(here: Laptime, tmp_path: Path) -> None:
    ended = here(tmp_path, "bench", "null:spin=1ms,fits=4", "--batch", "1,8,2", "--json", *QUICK)
    assert ended.returncode == 4
    cases = {case["axes"]["batch"]: case for case in document(ended)["cases"]}
    assert "out_of_memory" in json.dumps(cases[8])
    for batch in (1, 2):
        assert cases[batch]["metrics"]["latency/isolated/median"]["value"] > 0


def test_real_allocation_beyond_the_limit_is_a_marked_case(here: Laptime, tmp_path: Path) -> None:
    ended = here(tmp_path, "bench", "null:alloc=1GiB", "--batch", "100000", "--json", *QUICK)
    assert ended.returncode == 4
    assert "out_of_memory" in ended.stdout


@pytest.mark.parametrize("fault", ["crash", "kill"])
def test_a_process_that_dies_in_the_middle_keeps_what_was_measured(
    here: Laptime, tmp_path: Path, fault: str
) -> None:
    target = f"null:spin=1ms,{fault},at=2500"
    # So precise a wish is never granted: it goes on until the process dies.
    ended = here(tmp_path, "bench", target, "--budget", "30s", "--precision", "0.0001%", "--json")
    assert ended.returncode == 4
    text = here(tmp_path, "show", "last").stdout
    assert ("SIGSEGV" if fault == "crash" else "SIGKILL") in text
    (case,) = document(ended)["cases"]
    # How many calls are left once the warm-up is taken off depends on the machine: 6 were left on a busy one.
    latency = case["metrics"]["latency/isolated/median"]
    assert latency["n"] > 0
    assert 0.001 <= latency["value"] < 0.1


def test_ctrl_c_alone_ends_soon_with_a_hundred_and_thirty(tmp_path: Path) -> None:
    """To the parent only, while a call of ten seconds runs in the worker."""
    process = subprocess.Popen(
        [sys.executable, "-m", "laptime", "bench", "null:sleep=1ms", "null:sleep=30s", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    for _ in range(300):
        if any("first_call" in path.read_text() for path in tmp_path.glob(".laptime/runs/*/*.jsonl")):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    out, _ = process.communicate(timeout=60)
    assert time.monotonic() - started < 10
    assert process.returncode == 130
    assert json.loads(out)["status"] == "interrupted"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_home_that_cannot_be_written_is_told_after_the_result(tmp_path: Path) -> None:
    ended = laptime(tmp_path, "bench", "null:spin=1ms", *QUICK, LAPTIME_HOME="/dev/full")
    assert "null:spin=1ms" in ended.stdout
    assert ended.returncode == 2
    assert "/dev/full" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.torch
@pytest.mark.slow
def test_inputs_of_the_wrong_shape_are_a_marked_case(here: Laptime, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\ndef wrong():\n    return torch.nn.Linear(8, 2), torch.randn(1, 9)\n"
    )
    ended = here(tmp_path, "bench", "net.py:wrong", "--json", *QUICK)
    assert ended.returncode == 4, ended.stderr
    text = json.dumps(document(ended)["cases"])
    assert "shapes" in text
    assert "out_of_memory" not in text


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_a_second_process_to_load(tmp_path: Path) -> None:
    targets = ["null:spin=1ms,load=5s", "null:noop,load=5s"]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "laptime",
            "bench",
            *targets,
            "--processes",
            "2",
            "--budget",
            "500ms",
            "--json",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for _ in range(600):
        if any(
            '"regime":"isolated"' in path.read_text() for path in tmp_path.glob(".laptime/runs/*/*.jsonl")
        ):
            break
        time.sleep(0.05)
    time.sleep(1.5)  # the first processes have ended, the second ones load
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - started < 4
    assert process.returncode == 130
    assert "Traceback" not in err
    found = json.loads(out)
    assert {case["status"] for case in found["cases"]} == {"interrupted"}
    assert all(case["metrics"]["latency/isolated/median"]["value"] > 0 for case in found["cases"][:1])
