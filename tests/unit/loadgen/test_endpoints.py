"""Load on scripted servers over real sockets: what is told is what the server did."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("h11")
pytest.importorskip("aiohttp")

from fixtures import llm_server
from fixtures.scripted_servers import served
from laptime.analysis.load import LevelStats, level_stats
from laptime.kit.errors import UsageError
from laptime.records.event import Event, RequestsEnded
from laptime.records.run import Run
from laptime.testing import http_server
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.load.run import load

FAST = llm_server.Cost(base=0.002, prefill_token=0.0, running=0.0)


def loaded(target: str, **options: Any) -> Run:
    return load(LoadRequest(target=target, **options))


def numbers(run: Run, at: int = 0) -> LevelStats:
    stats = level_stats(run.cases[at])
    assert stats is not None
    return stats


def test_the_queue_of_a_slow_server_is_inside_the_latency_within_3_percent() -> None:
    """Thirty requests at 16/s, 0.135 s each, one at a time: peers print a p95 of 0.1 to 0.15 s.

    The server's own log is the truth: on a busy machine thirty answers take longer than 30 x 0.135 s.
    """
    with http_server.serving(http_server.Script(slots=0, service=0.135)) as server:
        run = loaded(server.url, rates=[16], arrivals="constant", requests=30, concurrency=[1])
        jobs = server.truth()[-30:]
    stats = numbers(run)
    truth = np.asarray([job.end - jobs[0].arrival - at / 16 for at, job in enumerate(jobs)])
    served = np.asarray([job.end - job.arrival for job in jobs])
    assert truth.max() > 2
    assert stats.window == pytest.approx(np.quantile(truth, 0.95, method="higher"), rel=0.03)
    assert stats.turn == pytest.approx(float((truth - served).mean()), rel=0.03)
    assert "capacity" in [check.name for check in run.cases[0].checks if check.outcome == "warn"]


def test_latencies_are_those_of_the_server() -> None:
    with http_server.serving(http_server.Script(slots=1, service=0.02)) as server:
        run = loaded(server.url, rates=[30], duration=2.0)
        jobs = server.truth()[1:]  # the first asked whether it answers
    stats = numbers(run)
    assert stats.facts.answered == len(jobs) == stats.facts.scheduled
    truth = np.asarray([job.end - job.arrival for job in jobs])
    excess = stats.requests.latency - truth
    assert excess.min() > -0.001
    assert np.median(excess) < 0.015


def test_every_kind_of_failure_is_counted_and_none_is_taken_for_fast() -> None:
    answers = (
        *(http_server.Answer(),) * 3,
        http_server.Answer(status=429, body="slow down"),
        http_server.Answer(status=503),
        http_server.Answer(end="cut", chunks=2),
    )
    with served(http_server.Script(slots=0, answers=answers)) as url:
        run = loaded(url, rates=[100], arrivals="constant", requests=60)
    facts = numbers(run).facts
    kinds = {each.kind: each.count for each in facts.errors}
    assert kinds["http 429"] == kinds["http 503"] == kinds["cut"] == 10
    assert facts.answered == 30
    assert numbers(run).latency["p95"].value is None
    assert any(each.name == "answers" and each.outcome == "warn" for each in run.cases[0].checks)
    assert "slow down" in next(each.example for each in facts.errors if each.kind == "http 429")


def test_a_server_that_dies_leaves_what_was_measured() -> None:
    answers = (*(http_server.Answer(),) * 20, http_server.Answer(end="die"))
    with http_server.serving(http_server.Script(slots=0, answers=answers)) as server:
        run = loaded(server.url, rates=[50], arrivals="constant", requests=40, timeout=3.0)
    facts = numbers(run).facts
    assert facts.answered == 19
    assert facts.answered + facts.failed == 40


def test_tokens_of_a_scripted_language_model_are_exact() -> None:
    cost = llm_server.Cost(base=0.010, prefill_token=0.0001, running=0.002)
    with llm_server.serving(llm_server.Script(cost=cost, slots=4)) as server:
        run = loaded(server.url, concurrency=[1], requests=8, prompt=100, output=16)
        jobs = server.truth()[-8:]
    tokens = numbers(run).tokens
    assert tokens is not None
    assert (tokens.prompt, tokens.output, tokens.short, tokens.exact) == (100, 16, 0, True)
    assert tokens.ttft["median"].value == pytest.approx(
        float(np.median([job.ttft for job in jobs])), abs=0.010
    )
    assert tokens.gap["median"].value == pytest.approx(0.012, rel=0.1)
    assert tokens.tpot["median"].value == pytest.approx(0.012, rel=0.1)


def test_usage_that_lies_or_is_missing_makes_a_level_invalid() -> None:
    for answer in (llm_server.Answer(usage=False), llm_server.Answer(usage_error=-5)):
        with served(llm_server.Script(cost=FAST, answers=(answer,))) as url:
            run = loaded(url, concurrency=[1], requests=10, prompt=20, output=8)
        assert [check.outcome for check in run.cases[0].checks if check.name == "tokens"] == ["fail"]
        assert run.cases[0].trust == "invalid"


def test_a_model_that_is_not_served_is_refused_with_the_nearest() -> None:
    with (
        served(llm_server.Script()) as url,
        pytest.raises(UsageError, match="scriptd") as told,
    ):
        loaded(url, rates=[1], model="scriptd")
    assert "scripted" in told.value.next


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("http://127.0.0.1:9", "refused"),
        ("http://example.com/x", "not this machine"),
        ("http://", "not an address"),
        ("http://127.0.0.1:99999", "not an address"),
    ],
)
def test_addresses_that_cannot_be_loaded(target: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        loaded(target, rates=[1], duration=1.0)


def test_a_sender_that_stands_still_is_called_late_never_a_slow_server() -> None:
    stopped: list[int] = []

    def stop(event: Event) -> None:
        """Stop the sender for a second in the middle."""
        if isinstance(event, RequestsEnded) and not stopped:
            stopped.append(sender())
            os.kill(stopped[0], signal.SIGSTOP)
            time.sleep(1.0)
            os.kill(stopped[0], signal.SIGCONT)

    def sender() -> int:
        import psutil

        mine = psutil.Process().children(recursive=True)
        return next(each.pid for each in mine if "laptime.launch.sender" in " ".join(each.cmdline()))

    with http_server.serving(http_server.Script(slots=0, service=0.01)) as server:
        run = load(LoadRequest(target=server.url, rates=[50], duration=3.0), stop)
    assert stopped
    failed = {check.name for check in run.cases[0].checks if check.outcome == "fail"}
    assert failed & {"late", "stalled"}, [(c.name, c.outcome, c.sentence) for c in run.cases[0].checks]
    assert run.trust == "invalid"


def test_secrets_are_neither_stored_nor_shown(tmp_path: Path) -> None:
    with http_server.serving(http_server.Script(slots=0)) as server:
        url = server.url.replace("http://", "http://user:hunter2@") + "?key=hunter3"
        words = [sys.executable, "-m", "laptime", "load", url, "--rate", "20", "--requests", "5"]
        words += ["-H", "Authorization: Bearer hunter4", "-Hx-key: hunter5", "-o", "out.html", "--json"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr  # 3: so fast an answer is told late on a busy machine
    assert json.loads(done.stdout)["levels"][0]["facts"]["answered"] == 5
    written = done.stdout + done.stderr + (tmp_path / "out.html").read_text()
    stored = [file for file in (tmp_path / ".laptime").rglob("*") if file.is_file()]
    assert any(".json" in file.name for file in stored)
    for file in stored:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        written += data.decode(errors="replace")
    assert "hunter" not in written


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    with http_server.serving(http_server.Script(slots=0, service=0.01)) as server:
        words = [sys.executable, "-m", "laptime", "load", server.url, "--rate", "50", "--duration", "30s"]
        process = subprocess.Popen([*words, "--json"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        until = time.monotonic() + 20
        while len(server.truth()) < 60 and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert json.loads(out)["levels"][0]["facts"]["answered"] > 20


def test_the_queue_in_front_of_a_program_is_that_of_the_closed_form() -> None:
    run = loaded("null:sleep=20ms", rates=[25], duration=6.0)
    stats = numbers(run)
    truth = 0.02 + 0.5 * 0.02 * 0.5 / 0.5
    mean = stats.latency["mean"]
    assert mean.ci95 is not None
    assert mean.ci95[0] <= truth * 1.05 or run.trust != "trusted"
    assert mean.ci95[1] >= truth * 0.95 or run.trust != "trusted"
