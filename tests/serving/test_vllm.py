"""`laptime load` against a real vLLM: what it counts is what the server counts, to the unit.

`make test-serving` installs vLLM for CPUs into `.serving` (5.9 GB), starts it with a random Llama and runs
this with its address in LAPTIME_VLLM. Without the address there is nothing to test.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

ADDRESS = os.environ.get("LAPTIME_VLLM", "")
ORIGIN = f"http://{ADDRESS}"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not ADDRESS, reason="LAPTIME_VLLM names no server")]


class Counts(NamedTuple):
    """Requests, prompt tokens and output tokens."""

    requests: float
    prompt: float
    output: float

    def since(self, before: Counts) -> Counts:
        """What came after `before`."""
        return Counts(*(now - then for now, then in zip(self, before, strict=True)))


def counters() -> Counts:
    with urllib.request.urlopen(f"{ORIGIN}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    names = ("request_success_total", "prompt_tokens_total", "generation_tokens_total")
    return Counts(
        *(
            sum(map(float, re.findall(rf"^vllm:{name}{{[^}}]*}} (\S+)$", text, re.MULTILINE)))
            for name in names
        )
    )


def load(folder: Path, requests: int, path: str) -> tuple[Counts, Counts]:
    """What laptime counted and what the server did."""
    before = counters()
    words = ("--rate", "4", "--requests", str(requests), "--prompt", "64", "--output-tokens", "16", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "laptime", "load", f"{ORIGIN}/v1{path}", *words],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    after = counters()
    assert done.returncode in (0, 3), done.stderr
    (level,) = json.loads(done.stdout)["levels"]
    (stored,) = (folder / ".laptime" / "runs").rglob(f"{json.loads(done.stdout)['id']}*.json")
    series = {each["metric"]["tag"]: each for each in json.loads(stored.read_text())["cases"][0]["series"]}
    assert level["facts"]["failed"] == 0
    tokens = (sum(series[f"load/tokens_{way}"]["samples"]) for way in ("in", "out"))
    return Counts(level["facts"]["answered"], *tokens), after.since(before)


@pytest.mark.parametrize("path", ["/completions", "/chat/completions"])
def test_requests_and_tokens_are_those_that_the_server_counts(path: str, tmp_path: Path) -> None:
    """Probes before a level are the same for both runs, so that they fall out of the difference."""
    ours, theirs = zip(load(tmp_path, 5, path), load(tmp_path, 25, path), strict=True)
    assert ours[1].since(ours[0]) == theirs[1].since(theirs[0])
    assert ours[1].since(ours[0]).requests == 20
    assert ours[1].since(ours[0]).output == 20 * 16
