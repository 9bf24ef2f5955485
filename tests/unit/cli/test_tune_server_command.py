"""`laptime tune server`, also as it was typed before: what is asked, and what is refused in three lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fixtures import tunings
from laptime.records.event import Listener, RunFinished, RunStarted
from laptime.records.run import Run
from laptime.tuning.server import subject as session
from laptime.tuning.server.request import ServerRequest

Laptime = Callable[..., Any]
VLLM = "vllm serve M --port {port} --max-num-seqs {16,64}"
PLAIN = "serve --port {port} --slots {1,4}"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ServerRequest]:
    """Requests that come to the verb, which tells a session made by hand."""
    requests: list[ServerRequest] = []

    def verb(request: ServerRequest, emit: Listener) -> Run:
        request.check()
        requests.append(request)
        run = tunings.samples()["tuning-server"]()
        emit(RunStarted(run))
        emit(RunFinished("complete", 1.0))
        return run

    monkeypatch.setattr(session, "tune_server", verb)
    return requests


def test_a_rate_asks_for_latency(laptime: Laptime, asked: list[ServerRequest]) -> None:
    ended = laptime(
        "tune", "--server", VLLM, "--rate", "4", "--slo", "ttft=300ms@p95", "--output-tokens", "32"
    )
    assert ended.code == 0, ended.err
    request = asked[0]
    assert (request.goal, request.figure, request.rate, request.output) == ("latency", "ttft", 4.0, 32)
    assert "vllm serve M --port {port} --max-num-seqs 64" in ended.out
    assert (
        laptime(
            "tune", "server", VLLM, "--rate", "4", "--slo", "ttft=300ms@p95", "--output-tokens", "32"
        ).code
        == 0
    )
    assert asked[1] == request


def test_users_ask_for_throughput(laptime: Laptime, asked: list[ServerRequest], tmp_path: Path) -> None:
    body = tmp_path / "x.jsonl"
    body.write_text('{"a": 1}\n{"a": 2}\n')
    url = "http://127.0.0.1:{port}/predict"
    words = ["--concurrency", "8", "--url", url, "--body", str(body), "--header", "authorization: Bearer x"]
    assert laptime("tune", "--server", PLAIN, *words).code == 0
    request = asked[0]
    assert (request.goal, request.figure, request.concurrency) == ("throughput", "throughput", 8)
    assert request.bodies == ['{"a": 1}', '{"a": 2}']
    assert request.headers == [("authorization", "Bearer x")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--server", VLLM], "no load was given"),
        (["--server", VLLM, "--rate", "4", "--goal", "throughput"], "contradict each other"),
        (
            ["--server", VLLM, "--rate", "4", "--goal", "memory"],
            "--goal memory is for training scripts and models",
        ),
        (
            ["--server", VLLM, "--rate", "4", "--allow", "algorithm"],
            "--allow algorithm is for training scripts",
        ),
        (["--server", VLLM, "--rate", "4", "train.py"], "train.py is not part of the server's command"),
        (["--server", VLLM, "--rate", "4", "--steps", "3"], "--steps is for training scripts"),
        (["--server", VLLM, "--rate", "4", "--slo", "tft=3ms"], "tft"),
        (["--server", VLLM, "--rate", "nan"], "--rate"),
        (["--server", "vllm serve M --max-num-seqs {16,64}", "--rate", "4"], "{port} stands in --url"),
        (["--server", VLLM, "--rate", "4", "--url", "http://127.0.0.1:8000/v1"], "{port} stands in --server"),
        (
            ["--server", VLLM, "--rate", "4", "--url", "http://10.0.0.1:{port}/v1"],
            "not an address of this machine",
        ),
        (["--server", VLLM, "--rate", "4", "--url", "localhost:{port}/v1"], "not an address of this machine"),
        (
            ["--server", VLLM, "--rate", "4", "--body", __file__],
            "--body needs the address that it is sent to",
        ),
        (["--server", "vllm serve M", "--rate", "4"], "nothing to choose"),
        (["--rate", "4", "train.py"], "--rate is for servers"),
        (["--output-tokens", "32", "train.py"], "--output-tokens is for servers"),
        (["--server", VLLM, "--rate", "4", "--output", "32"], "--output 32 names a file"),
        (["--url", "http://127.0.0.1/", "torchvision:resnet18"], "--url is for servers"),
        (
            ["--server", PLAIN, "--url", "http://127.0.0.1:{port}/x", "--rate", "4", "--slo", "ttft=1s@p90"],
            "--slo ttft is for language models",
        ),
        ([], "SCRIPT.py|MODEL is missing"),
    ],
)
def test_what_is_impossible_is_refused_in_three_lines(
    laptime: Laptime, asked: list[ServerRequest], words: list[str], said: str
) -> None:
    ended = laptime("tune", *words)
    assert ended.code == 2
    lines = ended.err.strip().splitlines()
    assert said in lines[0]
    assert [line.partition(":")[0] for line in lines] == ["error", "why", "next"]
    assert not asked
