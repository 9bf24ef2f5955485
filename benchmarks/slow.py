"""Does `laptime tune` name the planted cause of a slow script first, and take the gain of a fix by hand?

Every script under examples/slow/ is slow in one planted way; slow_fixed/ has the fix of somebody who
knows, as a patch. `laptime tune` gets each as a user would start it, with nothing left out. Then the script
as it is, as the tuner's patch makes it, as its suggestion makes it, and as fixed by hand run side by side:
each in a process of its own, in random order in every round. A second table has the CPU time of a step, which
neighbours on the same cores disturb less; that of loader workers is not in it.

python benchmarks/slow.py                        all of them, about half an hour
python benchmarks/slow.py many_tensors chatty    two
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from _forked import Timed, timed
from _harness import Figures, option, run, shown, table, write

HERE = Path(__file__).resolve().parent
SLOW, FIXED = HERE.parent / "examples" / "slow", HERE / "slow_fixed"
SHARE = 0.9
"""Of the gain by hand that the tuner should take."""
WORTH = 1.05
"""Gain by hand below which there is nothing to take a share of: the cause is none on this machine."""

RANKED = "0"
"""Budget of no session at all."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A planted cause.

    Attributes:
        what: in words. names: changes that take it away. settle: steps before those that are timed: a cache
            has to be full, workers have to run.
        is_only_suggested: the change alters what the script prints, so it is shown and not made.
    """

    what: str
    names: tuple[str, ...]
    settle: int = 10
    steps: int = 40
    is_only_suggested: bool = False


CAUSES = {
    "input_bound": Planted(what="heavy decoding and augmentation", names=("num_workers",), settle=15),
    "many_tensors": Planted(
        what="single-tensor AdamW, hundreds of tensors", names=("fused_optimizer", "foreach_optimizer")
    ),
    "chatty": Planted(
        what=".item() and print in every step", names=("defer_logging",), steps=100, is_only_suggested=True
    ),
    "fp32_transformer": Planted(what="float32 matmuls", names=("bf16_autocast", "onednn_bf16", "tf32")),
    "tiny_ops": Planted(what="a Python loop of small operators", names=("compile", "compile_max_autotune")),
    "wrong_threads": Planted(what="16 threads, whatever the cores", names=("threads",)),
    "recomputed_transforms": Planted(
        what="the same transforms in every epoch", names=("cache_dataset",), settle=40
    ),
    "padding_waste": Planted(what="padding to the longest ever", names=("trim_padding",)),
}


def tuned(script: Path, folder: Path, budget: str) -> dict[str, Any]:
    """What `laptime tune --json` says of the script, in a folder of its own."""
    folder.mkdir()
    shutil.copy(script, folder)
    command = [sys.executable, "-m", "laptime", "tune", "--budget", budget, "--json", script.name]
    given = {**os.environ, "LAPTIME_HOME": str(folder / "home")}
    ended = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)
    try:
        found: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        raise SystemExit(f"laptime tune {script.name}: status {ended.returncode}\n{ended.stderr}") from None
    return found


def patched(script: Path, diff: str, folder: Path) -> Path | None:
    """The script with a diff of it applied; None where there is none, or it does not apply."""
    if not diff.strip():
        return None
    folder.mkdir()
    copy = Path(shutil.copy(script, folder))
    command = ["git", "apply", "--include", f"*{script.name}", "-"]
    ended = subprocess.run(command, cwd=folder, input=diff, capture_output=True, text=True, check=False)
    return copy if ended.returncode == 0 and copy.read_text() != script.read_text() else None


def fix_by_hand(name: str) -> str:
    """The patch of somebody who knows, for a copy of the script in a folder of its own."""
    return (FIXED / f"{name}.patch").read_text().replace("/examples/slow/", "/")


def first_named(found: Mapping[str, Any]) -> str:
    """The first suspect of the diagnosis, without its options."""
    suspects = found["diagnosis"]["before"].get("suspects", [])
    return str(suspects[0]["label"]).split(" ")[0].split("=")[0] if suspects else ""


def side_by_side(
    sides: Mapping[str, Path], cause: Planted, folder: Path, rounds: int, order: random.Random
) -> list[dict[str, Timed]]:
    """Seconds of a step of every side, a dictionary for each round; random order in each."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    found = []
    for _ in range(rounds):
        names = order.sample(sorted(sides), len(sides))
        run = {
            name: timed(sides[name], settle=cause.settle, steps=cause.steps, folder=folder / "run")
            for name in names
        }
        found.append(run)
    return found


def gains(rounds: list[dict[str, float]], name: str) -> list[float]:
    """Time of the slow script over that of a side, round by round."""
    return [each["slow"] / each[name] for each in rounds if name in each]


def share(rounds: list[dict[str, float]], name: str) -> float | None:
    """What a side gains over what the fix by hand gains, speedups less one; None without a gain by hand."""
    by_hand = median(gains(rounds, "by hand"))
    if by_hand < WORTH or name not in rounds[0]:
        return None
    return (median(gains(rounds, name)) - 1) / (by_hand - 1)


def ranked_first(script: Path, folder: Path) -> dict[str, Any]:
    """No session: the script is diagnosed, and what the tuner would race first is written as its patch."""
    from laptime.tuning.optimization import Recipe
    from laptime.tuning.patch.sources import Sources
    from laptime.tuning.script import final_set
    from laptime.tuning.script.records import diagnosis, with_suggested
    from laptime.tuning.script.request import TuneRequest, choice_of, program_of
    from laptime.tuning.script.trial_evaluator import TrialEvaluator
    from laptime.tuning.script.trial_runner import TrialRunner
    from laptime.tuning.search import ranking
    from laptime.tuning.search.race import make_rung

    folder.mkdir()
    request = TuneRequest(program=str(shutil.copy(script, folder)))
    runner = TrialRunner(program_of(request), folder / "trials")
    evaluator = TrialEvaluator(runner, choice_of(request))
    loop_profile = evaluator.diagnose(Recipe())
    candidates = ranking.rank(evaluator.candidates(loop_profile, Recipe()).usable)
    able = [each for each in candidates if not ranking.missing(each, {}, loop_profile, loop_profile)]
    suggested, suggestions = final_set.suggestions(evaluator, loop_profile)
    rungs = [make_rung(each) for each in able if each.change.name != ranking.CONTROL]
    sources = Sources(
        loop_profile.sites + loop_profile.syncs, final_set.main_file(evaluator), loop_profile.device
    )
    first = next(each for each in able if each.change.name != ranking.CONTROL)
    sources.apply(first.change, "ranked first, not raced")
    ladder = [msgspec.to_builtins(each) for each in with_suggested(rungs, suggested)]
    for rung in ladder:
        rung.setdefault("verdict", "not tried")
        rung |= {"kept": rung["name"] == first.change.name, "dropped": False}
    return {
        "ladder": ladder,
        "patch": {"text": sources.diff(), "suggestions": suggestions},
        "recipe": [str(first.change)],
        "outcome": "ranked, not raced",
        "speedup": None,
        "seconds": evaluator.elapsed(),
        "diagnosis": {"before": msgspec.to_builtins(diagnosis(Recipe(), loop_profile, evaluator.choice))},
    }


def session(name: str, folder: Path, budget: str, kept: Path | None) -> dict[str, Any]:
    """What `laptime tune` says, now or, where it was kept, at an earlier start of this benchmark."""
    file = kept / f"{name}.json" if kept else None
    if file and file.is_file():
        found: dict[str, Any] = json.loads(file.read_text())
        return found
    script, work = SLOW / f"{name}.py", folder / "session"
    found = ranked_first(script, work) if budget == RANKED else tuned(script, work, budget)
    write(file, found)
    return found


def judged(name: str, budget: str, rounds: int, kept: Path | None) -> dict[str, Any]:
    """One script: tuned, then measured beside the slow one and the one fixed by hand."""
    cause, script = CAUSES[name], SLOW / f"{name}.py"
    with tempfile.TemporaryDirectory(prefix="laptime-slow-") as work:
        folder = Path(work)
        found = session(name, folder, budget, kept)
        before = os.getloadavg()[0]
        sides = {"slow": script}
        text, suggestion = found["patch"]["text"], found["patch"]["suggestions"]
        for side, diff in (("by hand", fix_by_hand(name)), ("tuner", text), ("suggestion", suggestion)):
            edited = patched(script, diff, folder / side)
            if edited is not None:
                sides[side] = edited
        measured = side_by_side(sides, cause, folder, rounds, random.Random(name))
        wall = [{side: each.wall for side, each in one.items()} for one in measured]
        return {
            "name": name,
            "what": cause.what,
            "first": first_named(found),
            "recipe": found["recipe"],
            "outcome": found["outcome"],
            "claimed": found["speedup"],
            "session": found["seconds"],
            "ladder": found["ladder"],
            "bound": found["diagnosis"]["before"],
            "load": [before, os.getloadavg()[0]],
            "rounds": wall,
            "cpu": [{side: each.cpu for side, each in one.items()} for one in measured],
            "shares": {side: share(wall, side) for side in ("tuner", "suggestion")},
        }


def is_kept(found: Mapping[str, Any]) -> bool:
    """The planted cause was named first, and its share taken: by the patch, or by what is only suggested."""
    cause = CAUSES[found["name"]]
    if median(gains(found["rounds"], "by hand")) < WORTH:
        return True
    taken = found["shares"]["suggestion" if cause.is_only_suggested else "tuner"]
    return found["first"] in cause.names and taken is not None and taken >= SHARE


def row(found: Mapping[str, Any]) -> list[str]:
    """A line of the table."""
    measured = found["rounds"]
    cells = [
        f"{found['name']}: {found['what']}",
        found["first"] or "nothing",
        shown([each["slow"] for each in measured], factor=1e3, unit="ms", digits=1),
        *_ratios(measured),
    ]
    return cells + ["-" if each is None else f"{each:.0%}" for each in found["shares"].values()]


def _ratios(measured: list[dict[str, float]]) -> list[str]:
    ratios = [gains(measured, side) for side in ("by hand", "tuner", "suggestion")]
    return [shown(each, factor=1, unit="x") if each else "-" for each in ratios]


def main(asked: Namespace, data: Figures) -> int:
    """Tune, measure, print; status 1 where a cause is not named first or too little of its gain is taken."""
    found: list[dict[str, Any]] = []
    for name in asked.names or CAUSES:
        found.append(judged(name, asked.budget, asked.rounds, asked.sessions))
        data["found"] = found
        data.keep()
        print(f"{name}: {found[-1]['outcome']}, {found[-1]['session']:.0f} s", file=sys.stderr, flush=True)
    columns = ["planted cause", "first named", "step", "by hand", "tuner's patch", "its suggestion"]
    table([*columns, "share of the patch", "of the suggestion"], (row(each) for each in found))
    print("\nCPU time of a step, without loader workers:\n")
    table(["planted cause", *columns[3:]], ([each["name"], *_ratios(each["cpu"])] for each in found))
    missed = [each["name"] for each in found if not is_kept(each)]
    if missed:
        print(f"\nmissed: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    run(
        main,
        "Planted causes: found, and taken away",
        option("names", nargs="*", default=[], choices=[[], *CAUSES], metavar="NAME"),
        option("--budget", default="3m", help="of each session (3m); 0: no race, what is ranked first"),
        option("--rounds", type=int, default=6, help="side by side; six make an interval (6)"),
        option(
            "--sessions",
            type=Path,
            metavar="FOLDER",
            help="keep what tune says here; what is there is not tuned",
        ),
    )
