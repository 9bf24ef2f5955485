"""What do load generators say of one server whose truth is known, and what do they cost?

The experiment: one slot, 0.27 s of service, 30 requests scheduled at 8/s, at most one under way. The n-th
answer is 0.27 + n (0.27 - 0.125) s late, n from 0. Each tool runs once in each round, in turn. Peers live in
environments of their own: what is not named, or not installed, is left out with a word. Cost: wall and CPU
seconds of a test of about 10 s, without the server's.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from _harness import head, parser, table, write
from laptime.testing.llm_server import Cost, Script, serving

REQUESTS, RATE, TOKENS, SERVICE = 30, 8, 8, 0.27
LIMIT = 600.0


class Outcome(NamedTuple):
    """Seconds that a tool took, and the p95 that it prints first (None: it prints none)."""

    wall: float
    cpu: float
    p95: float | None


def truth() -> float:
    """95 of 100 of the requests were answered within so many seconds of their schedule."""
    late = SERVICE + np.arange(REQUESTS) * (SERVICE - 1 / RATE)
    return float(np.quantile(late, 0.95, method="higher"))


def timed(
    words: list[str], folder: Path, environment: dict[str, str] | None = None
) -> tuple[float, float, str]:
    """Wall and CPU seconds of a command, and what it printed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3):  # 3: laptime's own word for a level that is not trusted
        raise RuntimeError(
            f"{words[0]} ended with {done.returncode}: {done.stderr[-600:]}{done.stdout[-300:]}"
        )
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, done.stdout


def laptime(url: str, folder: Path) -> Outcome:
    """`laptime load`: p95 of the window, which a growing queue has in its reason."""
    words = [sys.executable, "-m", "laptime", "load", url, "--rate", str(RATE), "--arrivals", "constant"]
    words += [
        "--requests",
        str(REQUESTS),
        "--concurrency",
        "1",
        "--prompt",
        "16",
        "--output-tokens",
        str(TOKENS),
    ]
    wall, cpu, printed = timed([*words, "--json", "--no-save", "-q"], folder)
    return Outcome(wall, cpu, json.loads(printed)["levels"][0]["window_p95"])


def guidellm(python: Path, tokenizer: Path, url: str, folder: Path) -> Outcome:
    """guidellm: p95 of `request_latency`, its headline."""
    words = [str(python.with_name("guidellm")), "run", "--disable-console-interactive"]
    words += ["--backend", f"kind=openai_http,target={url.removesuffix('/v1')}"]
    words += ["--profile", f"kind=constant,rate={RATE},max_concurrency=1"]
    words += ["--constraint", f"kind=max_requests,count={REQUESTS}"]
    words += ["--tokenizer", f"kind=huggingface_auto,model={tokenizer}"]
    words += ["--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={TOKENS}"]
    words += ["--output", "kind=json,path=out.json"]
    wall, cpu, _ = timed(words, folder, {"HF_HUB_OFFLINE": "1"})
    metrics = json.loads((folder / "out.json").read_text())["benchmarks"][0]["metrics"]
    if (whole := metrics["request_totals"]["successful"]) < REQUESTS:
        raise RuntimeError(f"guidellm had {whole} of {REQUESTS} answers")
    return Outcome(wall, cpu, metrics["request_latency"]["successful"]["percentiles"]["p95"])


def aiperf(python: Path, tokenizer: Path, url: str, folder: Path) -> Outcome:
    """AIPerf: p95 of `request_latency`."""
    words = [
        str(python.with_name("aiperf")),
        "profile",
        "--model",
        "scripted",
        "--url",
        url.removesuffix("/v1"),
    ]
    words += ["--endpoint-type", "completions", "--streaming", "--tokenizer", str(tokenizer), "--ui", "none"]
    words += ["--request-rate", str(RATE), "--request-rate-mode", "constant", "--concurrency", "1"]
    words += ["--request-count", str(REQUESTS), "--osl", str(TOKENS), "--isl", "16"]
    words += ["--output-artifact-dir", "out"]
    wall, cpu, _ = timed(words, folder)
    (file,) = folder.rglob("profile_export_aiperf.json")
    return Outcome(wall, cpu, json.loads(file.read_text())["request_latency"]["p95"] / 1e3)


def wrk(url: str, folder: Path) -> Outcome:
    """wrk: no rate, no schedule; one connection for 10 s. It prints p90 and p99, no p95."""
    origin = url.removesuffix("/v1")
    wall, cpu, _ = timed(["wrk", "-t1", "-c1", "-d10s", "--latency", f"{origin}/health"], folder)
    return Outcome(wall, cpu, None)


def packages(python: Path | None) -> str:
    """How many an environment holds."""
    if python is None:
        return "-"
    count = "import importlib.metadata as m; print(len(list(m.distributions())))"
    return subprocess.run([python, "-c", count], capture_output=True, text=True).stdout.strip()


def tools(asked: Any) -> dict[str, tuple[Callable[[str, Path], Outcome], Path | None]]:
    """The tools at hand, each with its environment."""
    at_hand: dict[str, tuple[Callable[[str, Path], Outcome], Path | None]] = {"laptime": (laptime, None)}
    for name, peer in (("guidellm", guidellm), ("aiperf", aiperf)):
        python = getattr(asked, name)
        if python is None or asked.tokenizer is None:
            print(
                f"left out: {name} (--{name} PYTHON and --tokenizer FOLDER say where it is)", file=sys.stderr
            )
            continue
        run = lambda url, folder, peer=peer, python=python: peer(python, asked.tokenizer, url, folder)  # noqa: E731
        at_hand[name] = (run, python)
    if shutil.which("wrk"):
        at_hand["wrk"] = (wrk, None)
    else:
        print("left out: wrk is not installed", file=sys.stderr)
    return at_hand


def main() -> int:
    """Print the table; 1 when laptime's p95 is more than 3 % off."""
    options = parser(__doc__ or "")
    for name in ("guidellm", "aiperf"):
        options.add_argument(f"--{name}", type=Path, metavar="PYTHON", help=f"of {name}'s environment")
    options.add_argument("--tokenizer", type=Path, metavar="FOLDER", help="that peers make prompts with")
    options.add_argument("--rounds", type=int, default=1)
    asked = options.parse_args()
    for name in ("guidellm", "aiperf"):
        if python := getattr(asked, name):
            setattr(asked, name, python.absolute())
    asked.tokenizer = asked.tokenizer and asked.tokenizer.resolve()
    data = head("`laptime load` beside its peers")
    at_hand = tools(asked)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in at_hand}
    for _ in range(asked.rounds):
        for name, (run, _) in at_hand.items():
            script = Script(cost=Cost(base=SERVICE / TOKENS, prefill_token=0.0, running=0.0), slots=1)
            with serving(script) as server, tempfile.TemporaryDirectory() as folder:
                outcomes[name].append(run(server.url, Path(folder)))
    table(["tool", "wall", "CPU", "p95 it tells", "packages"], [
        [
            name,
            ", ".join(f"{each.wall:.1f} s" for each in made),
            ", ".join(f"{each.cpu:.1f} s" for each in made),
            ", ".join("-" if each.p95 is None else f"{each.p95:.2f} s" for each in made),
            packages(at_hand[name][1]),
        ]
        for name, made in outcomes.items()
    ])  # fmt: skip
    print(f"\nTruth: p95 {truth():.2f} s after the schedule.")
    write(
        asked.json,
        {**data, "truth": truth(), "outcomes": {k: [e._asdict() for e in v] for k, v in outcomes.items()}},
    )
    return int(any(abs((each.p95 or 0.0) / truth() - 1) > 0.03 for each in outcomes["laptime"]))


if __name__ == "__main__":
    raise SystemExit(main())
