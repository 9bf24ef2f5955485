"""A server that is started: ready, dying, silent, not alone at its port; gone with what it has started."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.server.visit import LiveServer, answers, free_port, last_words

SERVER = """
import http.server, os, sys, time
status = int(os.environ.get("STATUS", "200"))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(os.environ["WORD"].encode())
    log_message = lambda *words: None
if os.environ.get("CHILD"):
    child = os.fork()
    if not child:
        os.setsid()
        time.sleep(60)
    open(os.environ["CHILD"], "w").write(str(child))
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def server(folder: Path, code: str = SERVER, timeout: float = 20.0, **variables: str) -> LiveServer:
    port = free_port()
    words = [sys.executable, "-S", "-c", code, str(port)]
    return LiveServer(
        words, {"WORD": "hello", **variables}, f"http://127.0.0.1:{port}/", folder / "log", timeout
    )


def test_it_is_up_inside_the_block_and_gone_after_it(tmp_path: Path) -> None:
    live = server(tmp_path)
    with live:
        assert answers(live.probe)
        assert 0 < live.seconds < 20
        assert live.say_death() == ""
    assert not answers(live.probe)


def test_what_it_has_started_ends_with_it_even_outside_its_group(tmp_path: Path) -> None:
    with server(tmp_path, CHILD=str(tmp_path / "child")):
        child = int((tmp_path / "child").read_text())
        assert psutil.pid_exists(child)
    until = time.monotonic() + 5
    while psutil.pid_exists(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_a_death_before_it_is_ready_tells_its_last_words(tmp_path: Path) -> None:
    code = "import sys; print('no memory is left', file=sys.stderr); sys.exit(3)"
    with pytest.raises(TrialFailed, match="status 3: no memory") as caught:
        server(tmp_path, code).__enter__()
    assert caught.value.kind == "crashed"


def test_the_root_of_a_chain_of_errors_is_told() -> None:
    output = """
    (EngineCore) Traceback (most recent call last):
    (EngineCore) ValueError: No available memory for the cache blocks.
    Traceback (most recent call last):
    RuntimeError: Engine core initialization failed. See root cause above.
    """
    assert last_words(output) == (
        "RuntimeError: Engine core initialization failed. See root cause above. "
        "(before it: ValueError: No available memory for the cache blocks.)"
    )
    assert last_words("a\nKeyError: 'x'\n") == "KeyError: 'x'"
    assert last_words("") == ""


def test_a_server_that_is_never_ready_is_ended(tmp_path: Path) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with pytest.raises(TrialFailed, match=r"within 300 ms.*: \d+") as caught:
        server(tmp_path, code, timeout=0.3).__enter__()
    assert caught.value.kind == "hung"
    assert not psutil.pid_exists(int((tmp_path / "log").read_text()))


def test_5xx_is_not_ready_and_4xx_is(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match="not answer"):
        server(tmp_path, timeout=0.5, STATUS="503").__enter__()
    with server(tmp_path, STATUS="405"):
        pass


def test_a_port_where_somebody_else_answers_is_refused(tmp_path: Path) -> None:
    with server(tmp_path) as first, pytest.raises(TrialFailed, match="else answers"):
        LiveServer(["true"], {}, first.probe, tmp_path / "log2", 1.0).__enter__()


def test_a_proxy_of_the_environment_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with server(tmp_path) as live:
        assert answers(live.probe)
    assert os.environ["http_proxy"]
