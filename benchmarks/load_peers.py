"""What do load generators say of four servers whose truth is known, and what do they cost?

A language model of 8 slots (0.2 s an answer), asked ten times a second for ten seconds, at even times:

keeps up    it answers all of them
one slot    one request at a time, 0.27 s each, due 8 times a second: the n-th answer is n x 0.145 s late
stalls      it stands still from second 4 to 6
dies        at its thirtieth answer

Figures are p50, p95 and p99 of what the requests waited from their schedule; one that failed waits for ever.
A request that comes while others are answered waits for the end of their step, a token: truth is a range.
A figure is false if it lies more than 5 % outside and the tool gave no word: no exit status, no count of
failures.
Each tool runs once on each; peers live in environments of their own, and what is not named is left out. wrk
has no schedule: one connection, or eight. Cost: wall and CPU seconds without the server's.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from _harness import Figures, option, run, table
from fixtures.llm_server import Answer, Cost, Script, serving

TOKENS, OFF, LIMIT, LOST = 8, 0.05, 180.0, 1e9
NAMES = ("p50", "p95", "p99")
STALL = 4.0, 2.0
LOCUSTFILE = """
from locust import HttpUser, constant_throughput, task
class User(HttpUser):
    wait_time = constant_throughput({each})
    @task
    def ask(self):
        self.client.post("/v1/completions", json={body})
"""
WRK = 'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\nwrk.body = {body!r}\n'
BODY = {"model": "scripted", "prompt": "a " * 16, "max_tokens": TOKENS, "ignore_eos": True, "stream": True}


class Case(NamedTuple):
    """A server and what it is asked: so many requests at this rate, at most so many at once (0: all)."""

    script: Script
    rate: float = 10.0
    requests: int = 100
    at_once: int = 0
    stalls: bool = False

    def truth(self) -> list[float]:
        """p50, p95 and p99 of what the requests wait from their schedule."""
        begin, pause = STALL if self.stalls else (LOST, 0.0)
        free, took = [0.0] * self.script.slots, []
        lost = next((n for n, each in enumerate(self.script.answers) if each.end == "die"), self.requests)
        for number in range(self.requests):
            due = number / self.rate
            came = due if due < begin else max(begin, due - pause)  # by a clock that stands still with it
            free.sort()
            free[0] = max(free[0], came) + self.script.cost.base * TOKENS
            took.append(LOST if number >= lost else free[0] + pause * (free[0] > begin) - due)
        return [float(np.quantile(took, q, method="higher")) for q in (0.5, 0.95, 0.99)]


def script(seconds: float, slots: int, *answers: Answer) -> Script:
    """A server whose answer of eight tokens takes so long."""
    cost = Cost(base=seconds / TOKENS, prefill_token=0.0, running=0.0)
    return Script(cost=cost, slots=slots, answers=answers or (Answer(),))


CASES = {
    "keeps up": Case(script(0.2, 8)),
    "one slot": Case(script(0.27, 1), 8.0, 30, 1),
    "stalls": Case(script(0.2, 8), stalls=True),
    "dies": Case(script(0.2, 8, *[Answer()] * 29, *[Answer(end="die")] * 71)),
}


class Told(NamedTuple):
    """Seconds by name of the figure; None where it tells none. word: what it said against them."""

    figures: dict[str, float | None]
    word: str = ""


def laptime(case: Case, url: str, folder: Path, asked: Namespace) -> Told:
    """`laptime load`: a queue that grows has no percentile, and a word."""
    words = [sys.executable, "-m", "laptime", "load", url, "--arrivals", "constant", "--prompt", "16"]
    words += ["--rate", f"{case.rate:g}", "--requests", str(case.requests), "--output-tokens", str(TOKENS)]
    words += ["--concurrency", str(case.at_once)] if case.at_once else []
    level = json.loads(ran([*words, "--json", "--no-save", "-q"], folder, (0, 3)))["levels"][0]
    latency = level["latency"]
    told = {"p50": latency["median"], "p95": latency["p95"], "p99": latency["p99"]}
    figures = {name: each and each["value"] for name, each in told.items()}
    word = "unstable" if level["unstable"] else ""
    if word:
        figures["p95"] = level["window_p95"]  # of these very requests; it stands in the reason
    return Told(figures, word or ("invalid" if level["verdict"] == "invalid" else ""))


def guidellm(case: Case, url: str, folder: Path, asked: Namespace) -> Told:
    """guidellm: `request_latency`, its headline."""
    words = [str(asked.guidellm.with_name("guidellm")), "run", "--disable-console-interactive"]
    words += ["--backend", f"kind=openai_http,target={url.removesuffix('/v1')}"]
    most = f",max_concurrency={case.at_once}" if case.at_once else ""
    words += ["--profile", f"kind=constant,rate={case.rate:g}{most}"]
    words += ["--constraint", f"kind=max_requests,count={case.requests}"]
    words += ["--tokenizer", f"kind=huggingface_auto,model={asked.tokenizer}"]
    words += ["--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={TOKENS}"]
    ran([*words, "--output", "kind=json,path=out.json"], folder)
    metrics = json.loads((folder / "out.json").read_text())["benchmarks"][0]["metrics"]
    found = metrics["request_latency"]["successful"]["percentiles"]
    return Told({name: found[name] for name in NAMES}, failures(metrics["request_totals"]["errored"]))


def aiperf(case: Case, url: str, folder: Path, asked: Namespace) -> Told:
    """AIPerf: `request_latency`. Offline it takes a tokenizer from the cache of its hub alone."""
    cached = folder / "hub" / "hub" / "models--made--words"
    shutil.copytree(asked.tokenizer, cached / "snapshots" / "1")
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("1")
    words = [str(asked.aiperf.with_name("aiperf")), "profile", "--model", "scripted"]
    words += ["--url", url.removesuffix("/v1"), "--endpoint-type", "completions", "--streaming"]
    words += ["--tokenizer", "made/words", "--ui", "none", "--request-rate", f"{case.rate:g}"]
    words += ["--request-rate-mode", "constant", "--request-count", str(case.requests)]
    words += ["--concurrency", str(case.at_once)] if case.at_once else []
    words += ["--osl", str(TOKENS), "--isl", "16", "--output-artifact-dir", "out"]
    ran(words, folder)
    (file,) = folder.rglob("profile_export_aiperf.json")
    found = json.loads(file.read_text())
    errors = found.get("error_request_count") or {"avg": 0}
    return Told({name: found["request_latency"][name] / 1e3 for name in NAMES}, failures(errors["avg"]))


def locust(case: Case, url: str, folder: Path, asked: Namespace) -> Told:
    """locust: users with a constant throughput, so many that the rate comes out."""
    users = case.at_once or 20
    (folder / "file.py").write_text(LOCUSTFILE.format(each=case.rate / users, body=BODY))
    words = [str(asked.locust.with_name("locust")), "-f", "file.py", "--headless", "-u", str(users)]
    words += ["-r", str(users), "-t", f"{case.requests / case.rate:.0f}s", "-H", url.removesuffix("/v1")]
    entries = json.loads(ran([*words, "--json"], folder, (0, 1)))
    times = [float(ms) / 1e3 for e in entries for ms, n in e["response_times"].items() for _ in range(n)]
    figures = {name: float(np.quantile(times, int(name[1:]) / 100, method="higher")) for name in NAMES}
    return Told(figures, failures(sum(each["num_failures"] for each in entries)))


def wrk(case: Case, url: str, folder: Path, asked: Namespace) -> Told:
    """wrk: no schedule; it tells p50, p90 and p99."""
    (folder / "body.lua").write_text(WRK.format(body=json.dumps(BODY)))
    connections = case.at_once or 8
    words = ["wrk", f"-t{min(2, connections)}", f"-c{connections}", f"-d{case.requests / case.rate:.0f}s"]
    said = ran([*words, "--latency", "-s", "body.lua", f"{url}/completions"], folder)
    unit = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
    found = {name: float(n) * unit[u] for name, n, u in re.findall(r"(\d\d)%\s+([\d.]+)(us|ms|s)\b", said)}
    errors = re.search(r"Socket errors: (.*)", said)
    word = errors[1] if errors and re.search(r"[1-9]", errors[1]) else ""
    return Told({name: found.get(name[1:]) for name in NAMES}, word)


def failures(number: float) -> str:
    """The word of a tool that counts them."""
    return f"{number:.0f} failed" if number else ""


def ran(words: list[str], folder: Path, sound: tuple[int, ...] = (0,)) -> str:
    """What a command printed. Raises RuntimeError: it ended otherwise."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hub")}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode not in sound:
        raise RuntimeError(f"exit status {done.returncode}: {(done.stderr + done.stdout)[-300:]}")
    return done.stdout


@contextmanager
def served(case: Case) -> Iterator[str]:
    """The address of a server, which stands still for a while from its first request on where it does."""

    def stall() -> None:
        with suppress(OSError):
            while not server.truth():
                time.sleep(0.01)
            time.sleep(STALL[0])
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(STALL[1])
            server.process.send_signal(signal.SIGCONT)

    with serving(case.script) as server:
        if case.stalls:
            threading.Thread(target=stall, daemon=True).start()
        yield server.url


TOOLS = {each.__name__: each for each in (laptime, guidellm, aiperf, locust, wrk)}


def shown(value: float | None) -> str:
    """Seconds of a cell."""
    return "-" if value is None else "never" if value >= LOST else f"{value:.2f} s"


def main(asked: Namespace, figures: Figures) -> int:
    """A row a server and a tool; 1 if laptime said something false."""
    rows, false_words = [], 0
    for name, case in CASES.items():
        truth = dict(zip(NAMES, case.truth(), strict=True))
        rows.append((name, "truth", "", "", *map(shown, truth.values()), "", ""))
        for tool in asked.tools.split(","):
            is_here = getattr(asked, tool, None) or (
                tool == "laptime" or (tool == "wrk" and shutil.which("wrk"))
            )
            if not is_here:
                print(f"left out: {tool} (--{tool} PYTHON says where it is)", file=sys.stderr)
                continue
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            try:
                with served(case) as url, tempfile.TemporaryDirectory() as folder:
                    told = TOOLS[tool](case, url, Path(folder), asked)
            except (RuntimeError, OSError, LookupError, subprocess.TimeoutExpired) as error:
                told = Told(dict.fromkeys(NAMES), str(error).split("\n")[0][:60])
            wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            step = case.script.cost.base
            known = {n: v for n, v in told.figures.items() if v is not None}
            off = [n for n, v in known.items() if not -OFF < v / truth[n] - 1 < OFF + step / truth[n]]
            false = 0 if told.word else len(off)
            false_words += false * (tool == "laptime")
            cells = (shown(told.figures[each]) for each in NAMES)
            rows.append((name, tool, f"{wall:.1f} s", f"{cpu:.1f} s", *cells, told.word or "-", str(false)))
            figures[f"{name}, {tool}"] = {"wall": wall, "cpu": cpu, **told.figures, "word": told.word}
            figures.keep()
    table(("server", "tool", "wall", "CPU", *NAMES, "its word", "false"), rows)
    return int(bool(false_words))


run(
    main,
    "Load generators on servers of known truth",
    option("--tools", default=",".join(TOOLS), help="of these, in this order"),
    *(option(f"--{name}", type=Path, metavar="PYTHON") for name in ("guidellm", "aiperf", "locust")),
    option("--tokenizer", type=Path, metavar="FOLDER", help="that peers make prompts with"),
)
