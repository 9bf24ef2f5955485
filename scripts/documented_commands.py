"""Runs the commands of README and docs in a fresh folder that has what their pages assume.

    python scripts/documented_commands.py             every command that needs no network and no hour
    python scripts/documented_commands.py --quick     those that only read what is stored; CI runs these
    python scripts/documented_commands.py bench.md    those of one page

A command passes when it ends with an answer (exit code 0, 1, 3 or 5), without an error and without a
traceback, and has written the files that its line names. Measuring gets a small budget, so nothing is said
about numbers. What is left out stands in `LEFT_OUT` with the reason; a library that is
missing here is said, too.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _documented import ROOT, commands

LEFT_OUT = {
    r"^laptime [a-z]+$(?<!doctor)(?<!history)(?<!check)": "the name of a verb in a sentence",
    r"\b(RUN|NAME|TARGET|A B|COMMIT|FOLDER)\b|--against-rev$": "a shape: capital letters stand for something",
    r"^laptime (suite run|suite perfzero)$": "the name of a verb in a sentence",
    r"^laptime show bench:": "a name that a suite of the page gave",
    r"cost update": "reads public price lists: network",
    r"^laptime tune server": "needs the user's server; tests/e2e/test_tune_server.py",
    r"^laptime load http": "needs a server of a language model",
    r"^laptime tune .*(resnet18|--resume|tuned|SCRIPT)": "ten minutes; tests/e2e/test_tune_session.py",
    r"^laptime verify": "needs the recipe of a session of ten minutes",
    r"torchrun": "two processes train; tests/e2e/test_profile_scripts.py runs it",
    r"^laptime scale": "several processes train; tests/e2e/test_scale.py",
    r"--on (ssh|slurm|ray)|fleet stop ID": "other machines; tests/e2e/test_on_machines.py has a stand-in",
    r"^laptime (push|pull) ": "a store of a team; tests/unit/store/test_shared.py",
    r"benchmark_methods=pkg|package\.module|pkg\.mod": "a user's class; see tests/e2e/test_perfzero.py",
    r"^laptime compare --same .*--python|\.venv-": "needs a second environment",
    r"big\.json": "a trace of 1 GB that the page describes",
    r"\$E3|resnet50 --threads": "16 to 64 CPUs",
    r"exported/|model\.xml": "files that other frameworks export; tests/unit/backends has some",
    r"--backend jax": "a model of JAX; tests/unit/backends/test_jax_backend.py runs it",
    r"^laptime profile script\.py": "the name of a user's script in a sentence",
    r"keras": "TensorFlow; tests/e2e/test_frameworks.py runs it where it is installed",
    r"suite run standard|--last 3000|list --all": "minutes, or thousands of stored runs",
    r"cost load": "needs a run of a load test",
}
"""What is not run, as a regular expression of the line, and why."""

QUICK = re.compile(
    r"^laptime (history|list|show|cost|export|completion|suite list|--help|compare last|check last|check$"
    r"|trace )"
)
ANSWERS = (0, 1, 3, 5)
"""Yes, no, undecided, nothing to do."""
MISSING_HERE = re.compile(
    r"[^\n]*(?:not installed|cannot be imported|no price is known for the machine|no case of"
    r"|under the same conditions)[^\n]*"
)
"""A library, a price list that knows this machine, a baseline of this machine: the error says what to do."""
BUDGET = re.compile(r"^laptime (bench|compare (?!last))")
SHORTER = {
    r"^laptime tune (?!--dry-run)": "--budget 60s",
    r"^laptime bench .*--llm": "--output-tokens 4",
    r"^laptime profile (?=examples/)": "--wait 1 --warmup 1 --steps 1",
}
"""Options behind the verb of a line that takes minutes otherwise."""
LONGEST = 300.0
"""Seconds of one command."""


def furnished(folder: Path) -> None:
    """What the pages assume: models, scripts, traces, a suite, budgets, stored runs, a git repository."""
    shutil.copytree(ROOT / "scripts/documented", folder, dirs_exist_ok=True)
    for name in ("a.py", "b.py"):
        shutil.copy(folder / "model.py", folder / name)
    (folder / "package").mkdir()
    (folder / "package/__init__.py").touch()
    shutil.copy(folder / "train.py", folder / "package/train.py")
    (folder / "llm").mkdir()
    shutil.copy(ROOT / "examples/llm/tiny_gpt.py", folder / "llm/model.py")
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copy(ROOT / "tests/contract/small.onnx", folder / "model.onnx")
    trace = ROOT / "tests/data/traces/h100_bert_small.json.gz"
    (folder / "traces").mkdir()
    for name in ("trace.json.gz", "before.json.gz", "after.json.gz", "traces/rank0.json.gz"):
        shutil.copy(trace, folder / name)
    session = folder / "logs/plugins/profile/2026_11_20_10_00_00"
    session.mkdir(parents=True)
    shutil.copy(ROOT / "tests/unit/trace/keras_fit.xplane.pb", session / "host.xplane.pb")
    (folder / "trace.json").write_bytes(gzip.decompress(trace.read_bytes()))
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "-q", "-b", "main"), ("add", "model.py"), ("commit", "-qm", "model")):
        subprocess.run([*git, *words], cwd=folder, check=True)
    subprocess.run([sys.executable, "stored_runs.py"], cwd=folder, check=True)
    shutil.copytree(folder / ".laptime", folder / "stored")


def laptime(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """One command as a shell would start it."""
    words = [
        str(found)
        if "*" in word and "FOLDER" not in word and (found := next(folder.glob(word), None))
        else word
        for word in shlex.split(line, comments=True)
    ]
    return subprocess.run(
        [sys.executable, "-m", "laptime", *words],
        cwd=folder, capture_output=True, text=True, timeout=LONGEST, stdin=subprocess.DEVNULL,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
    )  # fmt: skip


def fault(line: str, folder: Path) -> str:
    """Why a command does not do what its page says, "" when it does, "skipped: ..." where that cannot be."""
    words = line.partition("#")[0].strip()
    where = folder / "llm" if "--llm model.py" in words else folder
    named = [where / name for name in re.findall(r"-o (\S+)", words)]
    for file in named:
        file.unlink(missing_ok=True)
    shutil.rmtree(folder / ".laptime", ignore_errors=True)  # `last` is not what another page left
    shutil.copytree(folder / "stored", folder / ".laptime")
    short = " --budget 2s" if BUDGET.match(words) and "--budget" not in words else ""
    for pattern, options in SHORTER.items():
        if re.match(pattern, words):
            words = re.sub(r"--budget \w+ ", "", words)
            words = re.sub(r"^(laptime \w+)", rf"\1 {options}", words)
    try:
        ended = laptime(words.removeprefix("laptime ") + short, where)
    except subprocess.TimeoutExpired:
        return f"took longer than {LONGEST:g} s"
    if ended.returncode == 2 and (lack := MISSING_HERE.search(ended.stderr)):
        return f"skipped: {lack[0]}"
    if ended.returncode not in ANSWERS or "Traceback" in ended.stderr:
        return f"exit code {ended.returncode}\n{ended.stderr[-1500:]}"
    missing = [file.name for file in named if not file.is_file()]
    if missing:
        return f"did not write {', '.join(missing)}"
    if not named and not ended.stdout.strip() and not ended.stderr.strip():
        return "printed nothing"
    return ""


def rows(text: str) -> list[str]:
    """The first words of lines that are not indented; the words of trust are one."""
    words = [line.split()[0] for line in text.splitlines() if line[:1].strip()]
    return ["trust" if word in ("trusted", "noisy", "invalid") else word for word in words]


def shape_fault(folder: Path) -> str:
    """Whether the answer that docs/reading.md explains has the rows that `laptime show` prints."""
    shown = re.search(r"```text\n(.*?)```", (ROOT / "docs/reading.md").read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    page, printed = rows(shown[1]), rows(laptime("show baseline", folder).stdout)
    return "" if printed[: len(page)] == page else f"the page shows rows {page}, laptime prints {printed}"


def main(*words: str) -> int:
    """Run those that are asked for; 1 when one does not do what its page says."""
    pages = {word for word in words if not word.startswith("-")}
    wanted: dict[str, str] = {}
    left_out = 0
    for page, line in commands():
        command = line.partition("#")[0].strip()
        if pages and page not in pages:
            continue
        if any(re.search(pattern, command) for pattern in LEFT_OUT):
            left_out += 1
        elif QUICK.match(command) or "--quick" not in words:
            wanted.setdefault(command, page)
    faults = skipped = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        furnished(folder)
        if shape := shape_fault(folder):
            faults += 1
            print(f"reading.md: {shape}")
        for command, page in wanted.items():
            began = time.perf_counter()
            said = fault(command, folder)
            skipped += said.startswith("skipped")
            faults += bool(said) and not said.startswith("skipped")
            print(f"{time.perf_counter() - began:5.1f} s  {page}: {command}   {said or 'ok'}", flush=True)
    print(
        f"{len(wanted)} commands run, {faults} faults, {skipped} skipped, {left_out} left out: see LEFT_OUT"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
