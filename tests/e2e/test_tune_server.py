"""Real servers of known truth, started, loaded and compared: three flags of known effect."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from laptime.analysis import tuned
from laptime.kit.errors import ExitCode, UserCodeError
from laptime.records.run import Run
from laptime.tuning.server.request import ServerRequest
from laptime.tuning.server.subject import tune_server

HTTP = f"{sys.executable} -m laptime.testing.http_server --port {{port}}"
MODEL = f"{sys.executable} -m fixtures.llm_server --port {{port}}"
PREDICT = "http://127.0.0.1:{port}/predict"


def tune(command: str, **options: object) -> Run:
    run = tune_server(ServerRequest(command=command, **options))  # type: ignore[arg-type]
    words = ("laptime.testing.http_server", "fixtures.llm_server")
    left = [each.cmdline() for each in psutil.Process().children(recursive=True) if each.is_running()]
    assert not [line for line in left if any(word in line for word in words)], (
        "no server outlives its session"
    )
    return run


@pytest.mark.slow
def test_three_flags_of_known_effect() -> None:
    """Four users: four slots answer four at once, 60 ms of service for 90 are 1.5x, a seed does nothing."""
    run = tune(
        f"{HTTP} --slots {{1,4}} --service {{0.09,0.06}} --seed {{0,1}}",
        url=PREDICT,
        concurrency=4,
        budget=220.0,
    )
    assert run.tuning is not None
    assert run.tuning.server is not None
    assert tuned.outcome(run) == "faster", run.tuning
    assert {each.name: each.options["value"] for each in run.tuning.recipe} == {"slots": 4, "service": 0.06}
    assert run.tuning.server.command == f"{HTTP} --slots 4 --service 0.06 --seed 0"
    assert run.tuning.gate.word == "passed"
    assert run.tuning.speedup is not None
    assert run.tuning.speedup.value == pytest.approx(6.0, rel=0.1)


@pytest.mark.slow
def test_a_language_model_at_a_rate_and_its_promise() -> None:
    """One slot serves about 9 of 10 requests per second: a queue; eight keep a TTFT of 150 ms."""
    run = tune(
        f"{MODEL} --slots {{1,8}} --cost.base 0.01",
        rate=10.0,
        prompt=16,
        output=8,
        slo="ttft=150ms@p90",
        goal="latency",
        budget=120.0,
    )
    assert run.tuning is not None
    assert run.tuning.server is not None
    assert run.tuning.recipe[0].options == {"value": 8}
    assert [check.outcome for check in run.tuning.server.limits] == ["kept"]
    assert tuned.outcome(run) == "faster"


@pytest.mark.slow
def test_a_flag_that_the_server_refuses_is_a_row_and_the_search_goes_on() -> None:
    run = tune(
        f"{HTTP} --slots 1 --law {{constant,nonsense}} --service {{0.1,0.05}}",
        url=PREDICT,
        concurrency=2,
        budget=100.0,
    )
    assert run.tuning is not None
    rungs = {rung.name: rung for rung in run.tuning.ladder}
    assert rungs["law"].verdict == "failed"
    assert "'nonsense'" in rungs["law"].reason
    assert rungs["service"].kept


def test_a_server_that_does_not_run_as_it_is_says_its_last_words() -> None:
    with pytest.raises(UserCodeError) as caught:
        tune(f"{HTTP} --slots {{none,1}}", url=PREDICT, concurrency=1)
    assert "Expected `int`" in caught.value.why


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(UserCodeError) as caught:
        tune("no-such-program --port {port} {1,2}", url=PREDICT, concurrency=1)
    assert "no-such-program:" in caught.value.why


def test_ctrl_c_ends_the_server_that_is_starting(tmp_path: Path) -> None:
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
    silent = shlex.join([sys.executable, "-c", code, str(tmp_path / "pid")])
    words = [sys.executable, "-m", "laptime", "tune", "--no-save", "--concurrency", "1"]
    session = subprocess.Popen([*words, "--server", f"{silent} {{port}} {{1,2}}"], stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert time.monotonic() < until
            time.sleep(0.02)
        session.send_signal(signal.SIGINT)
        assert session.wait(20) == ExitCode.INTERRUPTED
    finally:
        session.kill()
        session.wait()
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
