"""How much faster is what `laptime tune MODEL` hands back than what a user picks by hand?

EfficientNet-B0, ResNet-50, ViT-B/16 and BERT-base (from its configuration, random weights), each with calls
of 1 and of 8 items: PyTorch eager, torch.compile with defaults and with frozen weights, ONNX Runtime with
defaults, OpenVINO with its hint for latency and for throughput, each in float32 and in the precision that it
chooses itself; and what a session keeps with --strict, and with --allow precision. A session may use several
instances, which nobody picks by hand.

`--models twelve` are those of `_twelve_models.py`, which no code was fitted to, beside eager, torch.compile,
ONNX Runtime and OpenVINO with its hint for latency; a session with --allow precision gets a metric there.

First both sessions run, then all ways are measured in rounds of random order, each in new processes: what
counts is items per second. The best way by hand is the best of all rounds, so it looks better than it is.

With --olive PYTHON, an interpreter that has olive-ai, what Microsoft Olive's own search makes of the same
model and call is measured beside them, in float32 and in int8 (`_olive.py`), each after --olive-seconds.

    python benchmarks/tune_model.py --models all --json tune_model.jsonl               # about 6 hours, quiet
    python benchmarks/tune_model.py --models resnet50,bert --batches 1 --json ...      # about 90 minutes
    python benchmarks/tune_model.py --models twelve --budget 180 --rounds 4 --seconds 2 --json twelve.jsonl
    python benchmarks/tune_model.py --models torchvision:mobilenet_v3_small --batches 1 \
        --budget 60 --rounds 3 --seconds 0.5 --ways eager,onnxruntime,strict           # 3 minutes: a try

It needs torch, torchvision and g++, and: pip install onnx onnxscript onnxruntime openvino nncf transformers.
Olive has an environment of its own: pip install 'olive-ai[auto-opt]' requests onnxruntime torchvision
transformers, in the same versions. With --keep FOLDER the ways that were made are kept there, so that making
them and measuring them can be two runs.
A pair of model and batch size takes two sessions of --budget at most, two minutes of exporting, and rounds x
ways x (start + seconds). The file has a line a way; a pair that it has is not measured again, so a run that
was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import astuple
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import _by_hand
from _harness import Lines, head, parser, table, where, write
from _rounds import factor
from laptime.kit.errors import LaptimeError
from laptime.records.event import Progress
from laptime.records.tuning import Tuning
from laptime.tuning.inference import folder_file
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.folders import Arm
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.setups import Setup
from laptime.tuning.inference.sides import Fleet
from laptime.tuning.inference.subject import tune_model
from laptime.tuning.inference.survey import instructions
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import TrialFailed

MODELS = {
    "efficientnet_b0": "torchvision:efficientnet_b0",
    "resnet50": "torchvision:resnet50",
    "vit_b_16": "torchvision:vit_b_16",
    "bert": f"{Path(__file__).resolve().parent / '_bert.py'}:build",
}
HERE = Path(__file__).resolve().parent
TWELVE = (
    *("convnext", "mobilevit", "maxvit", "deeplabv3", "ssdlite", "whisper", "t5", "detr", "lstm"),
    *("recommender", "conv1d", "two_inputs"),
)
MODELS |= {name: f"{HERE / '_twelve_models.py'}:{name}" for name in TWELVE}
FLOAT32 = ("eager", "compiled", "frozen", "onnxruntime", "openvino_latency", "openvino_throughput")
"""Ways by hand that compute in float32."""
BY_HAND = (*FLOAT32, "openvino_latency_own", "openvino_throughput_own")
OLIVE = {"olive": "float32", "olive_int8": "int8"}
"""What Olive picks, and the precision that its search is asked for."""
BESIDE_OLIVE = {"strict": ("olive",), "precision": ("olive", "olive_int8")}
"""What Olive may use where a session may use as much."""
SESSIONS = {"strict": [], "precision": ["precision"]}
"""What a session may try besides exact and reassociated changes."""
NEVER_BELOW, STRICT, PRECISION = 0.97, 1.10, 1.8
"""Asked for: over the best way by hand; over the best in float32 on two of four models; the same of ResNet-50
and BERT where the CPU has VNNI or AMX."""
OF_TWELVE = ("eager", "compiled", "onnxruntime", "openvino_latency")
"""Ways by hand beside the twelve models."""
MOST_BELOW, OVER_COMPILED = 2 / 24, {"strict": 1.3, "precision": 1.5}
"""Asked for of the twelve: the share of calls in which a session is below `NEVER_BELOW` at most, and the
median over plain torch.compile."""
CELL = """import sys

sys.path[:0] = [{here!r}]
import _twelve_models


def samples():
    return _twelve_models.samples({name!r}, {batch})


def score(outputs):
    return _twelve_models.score({name!r}, {batch}, outputs)
"""
"""Inputs and metric of one of the twelve, in calls of a size."""
TIMEOUT = 600.0
PACKAGES = ("torch", "torchvision", "onnx", "onnxruntime", "openvino", "nncf", "transformers")


class Way(NamedTuple):
    """One way to run a model: a folder, the processes that run it, and what is written about it.

    `own`: the folder was handed back, and runs without laptime and this script.
    """

    folder: Path
    setup: Setup
    about: dict[str, Any]
    own: bool = False


Ways = dict[str, Way | str]
"""By name; the reason where there is none."""


def ways_by_hand(names: Sequence[str], target: str, batch: int, work: Path) -> tuple[Ways, Path]:
    """The folders of some ways by hand, and the file of the inputs that all are called with."""
    home = work / "by_hand"
    home.mkdir()
    evaluator = ModelEvaluator(ModelRequest(target=target, batch=batch, timeout=TIMEOUT), home)
    written = partial(_by_hand.write, target=target, batch=batch)
    ways: Ways = {}
    for name in names:
        try:
            ways[name] = _by_hand_way(name, evaluator, partial(written, work / name))
        except (TrialFailed, LaptimeError) as error:
            ways[name] = str(error)
    return ways, home / "calls.npz"


def _by_hand_way(name: str, evaluator: ModelEvaluator, write: Callable[..., Path]) -> Way:
    setup = Setup(batch=evaluator.batch)
    if name == "eager":
        return Way(write("eager"), setup, {})
    if name in ("compiled", "frozen"):
        return Way(write("compiled", frozen=name == "frozen"), setup, {})
    runtime, _, how = name.partition("_")
    exported = evaluator.folders.ensure(Recipe((Change(runtime),)))
    if runtime == "onnxruntime":
        return Way(write(runtime, file=str(exported / "model.onnx")), setup, {})
    hint, _, own = how.partition("_")
    options = {"file": str(exported / "model.xml"), "hint": hint.upper(), "precision": "" if own else "f32"}
    if hint == "throughput":
        setup = Setup(batch=_by_hand.REQUESTS * evaluator.batch)
    return Way(write(runtime, **options), setup, {})


def olive_way(name: str, target: str, batch: int, asked: argparse.Namespace, work: Path) -> Way | str:
    """What Olive picks, run in ONNX Runtime as it says; the reason where there is nothing."""
    if not asked.olive:
        return "no --olive PYTHON"
    print(f"Olive, {OLIVE[name]}: {target}, batch {batch}", file=sys.stderr)
    home = _by_hand.write(work / f"for_{name}", "eager", target, batch)
    here = Path(__file__).resolve().parent
    commands = (
        [sys.executable, str(here / "_by_hand.py"), str(home)],
        [asked.olive, str(here / "_olive.py"), str(home), OLIVE[name], str(asked.olive_seconds)],
    )
    for command in commands:
        surroundings = {
            key: value
            for key, value in os.environ.items()
            if key != "PYTHONPATH" or command[0] != asked.olive
        }
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, env=surroundings)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{type(error).__name__}: {error}"[:300]
        if done.returncode:
            return (done.stderr.strip() or "it failed").splitlines()[-1][:300]
    pick = json.loads((home / "pick.json").read_text())
    if failed := pick.get("failed"):
        return str(failed)
    about = {"picked": pick["picked"], "olive": {"seconds": pick["seconds"], "metrics": pick["metrics"]}}
    folder = _by_hand.write(
        work / name, "onnxruntime", target, batch, file=pick["file"], session=pick["session"]
    )
    return Way(folder, Setup(batch=batch), about)


def session(name: str, target: str, batch: int, budget: float, work: Path) -> Way | str:
    """What a session keeps, or why it handed nothing back; the model as it is where nothing helped."""
    place = work / name
    model, given = target.rpartition(":")[2], {"batch": batch}
    if model in TWELVE and name == "precision":
        data = work / "data.py"
        data.write_text(CELL.format(here=str(HERE), name=model, batch=batch))
        given = {"inputs": f"{data}:samples", "metric": f"{data}:score"}
    request = ModelRequest(
        target=target,
        **given,
        allow=SESSIONS[name],
        instances=[],  # as many as the CPUs take
        budget=budget,
        export=place,
        timeout=TIMEOUT,
        save=False,
    )
    print(f"laptime tune {target}, batch {batch}, {name}, {budget:.0f} s at most", file=sys.stderr)
    try:
        tuning = tune_model(request, _progress).tuning or Tuning()
    except LaptimeError as error:
        return f"{error.what}: {error.why}"
    about = {"session": {"seconds_by": tuning.seconds_by, "ended": tuning.ended, "gate": tuning.gate.word}}
    about["session"]["ladder"] = [
        {
            "label": each.label,
            "word": each.verdict,
            "speedup": each.speedup,
            "gate": each.gate.word,
            "rounds": each.rounds,
            "seconds": each.seconds,
        }
        for each in tuning.ladder
    ]
    about["picked"] = ", ".join(f"{each.name} {each.options or ''}".strip() for each in tuning.recipe)
    if not place.is_dir():
        about["picked"] += " (not handed back)" if tuning.recipe else "as it is"
        return Way(_by_hand.write(place, "eager", target, batch), Setup(batch=batch), about)
    serve = folder_file.read(place / "recipe.json").serve
    setup = Setup(serve.instances, serve.threads, serve.batch or batch)
    about |= {"instances": setup.instances, "threads": setup.threads}
    return Way(place, setup, about, own=True)


def _progress(event: object) -> None:
    if isinstance(event, Progress):
        print(f"  {event.text}", file=sys.stderr)


def _started(folder: Path, calls: Path, cpus: Sequence[int], *, own: bool) -> Arm:
    return Arm(folder, calls, isolated=own, timeout=TIMEOUT, cpus=cpus)


def measured(ways: Ways, calls: Path, *, rounds: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Rates, seconds of a call and peaks of each way, one a round; `failed` where it does not run.

    After Ctrl-C the rounds that were whole are the result.
    """
    seen: dict[str, dict[str, Any]] = {
        name: {"rates": [], "calls": [], "peak": 0, "failed": way if isinstance(way, str) else ""}
        for name, way in ways.items()
    }
    order = [(name, way) for name, way in ways.items() if isinstance(way, Way)]
    rng = random.Random(0)
    done = 0
    try:
        for done in range(rounds):
            rng.shuffle(order)
            for name, way in order:
                if not seen[name]["failed"]:
                    print(f"round {done + 1} of {rounds}: {name}", file=sys.stderr)
                    _visited(seen[name], way, calls, seconds)
    except KeyboardInterrupt:
        if not done:
            raise
        for made in seen.values():
            del made["rates"][done:], made["calls"][done:]
    return seen


def _visited(made: dict[str, Any], way: Way, calls: Path, seconds: float) -> None:
    try:
        with Fleet(partial(_started, own=way.own), way.folder, calls, way.setup) as fleet:
            visit = fleet.visit(max(seconds, 5 * fleet.call))
    except TrialFailed as failure:
        made["failed"] = f"{failure.kind}: {failure.why}"
        return
    made["rates"].append(visit.rate)
    made["calls"].append(median(visit.seconds))
    made["peak"] = max(made["peak"], visit.peak)


def prepared(target: str, batch: int, asked: argparse.Namespace, work: Path) -> tuple[Ways, Path]:
    """The ways that are asked for, and the file of inputs; what the folder has is not made again."""
    file, calls = work / "ways.json", work / "calls.npz"
    ways = ways_in(file)
    missing = [way for way in asked.ways if way not in ways]
    by_hand = [way for way in BY_HAND if way in missing]
    if by_hand or not calls.is_file():
        made, recorded = ways_by_hand(by_hand, target, batch, Path(tempfile.mkdtemp(dir=work)))
        shutil.copyfile(recorded, calls)
        ways |= made
        _keep(ways, file)
    for way in missing:
        if way in OLIVE:
            ways[way] = olive_way(way, target, batch, asked, work)
        elif way in SESSIONS:
            ways[way] = session(way, target, batch, asked.budget, work)
        _keep(ways, file)
    return {way: ways[way] for way in (*BY_HAND, *OLIVE, *SESSIONS) if way in asked.ways}, calls


def ways_in(file: Path) -> Ways:
    """What `_keep` has written; nothing where it has not."""
    kept = json.loads(file.read_text()) if file.is_file() else {}
    return {
        name: one if isinstance(one, str) else Way(Path(one[0]), Setup(*one[1]), one[2], one[3])
        for name, one in kept.items()
    }


def _keep(ways: Ways, file: Path) -> None:
    kept = {
        name: way if isinstance(way, str) else (str(way.folder), astuple(way.setup), way.about, way.own)
        for name, way in ways.items()
    }
    write(file, kept)


def cell(name: str, batch: int, asked: argparse.Namespace) -> list[dict[str, Any]]:
    """The lines of one model with one batch size; none with --make."""
    target = MODELS.get(name, name)
    with ExitStack() as stack:
        if asked.keep:
            work = asked.keep.resolve() / f"{name.replace(':', '-')}-{batch}"
            work.mkdir(parents=True, exist_ok=True)
        else:
            temporary = tempfile.TemporaryDirectory(prefix="laptime-by-hand-", ignore_cleanup_errors=True)
            work = Path(stack.enter_context(temporary))
        ways, calls = prepared(target, batch, asked, work)
        if asked.make:
            return []
        seen = measured(ways, calls, rounds=asked.rounds, seconds=asked.seconds)
    common = {"model": name, "batch": batch, "instructions": instructions(), "where": where()}
    common["packages"] = {package: version(package) for package in PACKAGES if find_spec(package)}
    return [
        {**common, "way": way, **(ways[way].about if isinstance(ways[way], Way) else {}), **made}
        for way, made in seen.items()
    ]


class Ratio(NamedTuple):
    """Items per second over those of another way: 95 % interval over rounds."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f}x [{self.low:.2f}, {self.high:.2f}]"


def ratio(lines: Sequence[dict[str, Any]], way: str, others: Sequence[str]) -> tuple[Ratio, str] | None:
    """A way over the best of others, and which that is; None where one of them was not measured."""
    by_way = {line["way"]: line["rates"] for line in lines if not line["failed"]}
    there = [other for other in others if other in by_way]
    if way not in by_way or not there or len(by_way[way]) < 2:
        return None
    best = max(there, key=lambda other: median(by_way[other]))
    logs = [math.log(one / other) for one, other in zip(by_way[way], by_way[best], strict=True)]
    return Ratio(*factor(logs)), best


def show(lines: Sequence[dict[str, Any]]) -> bool:
    """Print all lines of a run; whether what was asked for is met, as far as it was measured."""
    pairs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for line in lines:
        pairs.setdefault((line["model"], line["batch"]), []).append(line)
    kept = {
        pair: {
            "below": [ratio(of_pair, way, FLOAT32 if way == "strict" else BY_HAND) for way in SESSIONS],
            **{way: ratio(of_pair, way, FLOAT32) for way in SESSIONS},
        }
        for pair, of_pair in pairs.items()
    }
    rates = {(line["model"], line["batch"], line["way"]): line["rates"] for line in lines}
    rows = [
        (way, *(f"{median(made):,.1f}" if (made := rates.get((*pair, way))) else "-" for pair in pairs))
        for way in (*BY_HAND, *OLIVE, *SESSIONS)
    ]
    for way, others in BESIDE_OLIVE.items():
        over = [ratio(of_pair, way, others) for of_pair in pairs.values()]
        rows.append((f"{way} over Olive", *(f"{one[0]} {one[1]}" if one else "-" for one in over)))
    for way in SESSIONS:
        over = (kept[pair][way] for pair in pairs)
        rows.append((f"{way} over the best float32", *(f"{one[0]} {one[1]}" if one else "-" for one in over)))
    print("Items per second, median of rounds; `_own`: in the precision that OpenVINO chooses itself.\n")
    table(("way", *(f"{name}, batch {batch}" for name, batch in pairs)), rows)
    _show_sessions(lines)
    return all([_is_fast(pairs), _is_met({pair: kept[pair] for pair in kept if pair[0] not in TWELVE})])


def _show_sessions(lines: Sequence[dict[str, Any]]) -> None:
    for line in lines:
        if line["failed"]:
            print(f"\n{line['model']}, batch {line['batch']}: {line['way']} does not run: {line['failed']}")
        if (olive := line.get("olive")) and not line["failed"]:
            print(
                f"\n{line['model']}, batch {line['batch']}, {line['way']}: {line['picked']}; "
                f"Olive took {olive['seconds']:.0f} s"
            )
        if spent := line.get("session", {}).get("seconds_by"):
            total = sum(spent.values())
            print(
                f"\n{line['model']}, batch {line['batch']}, {line['way']}: {line['picked']}; "
                f"{line.get('instances', 1)} instances; session {total:.0f} s, "
                f"{spent.get('build', 0.0) / total:.0%} of it exporting and compiling"
            )


def _is_fast(pairs: dict[tuple[str, int], list[dict[str, Any]]]) -> bool:
    """Say how sessions stand beside what is picked by hand, of the twelve; whether that is as asked for."""
    met = True
    for way, asked in OVER_COMPILED.items():
        of_twelve = {pair: lines for pair, lines in pairs.items() if pair[0] in TWELVE}
        over = {pair: ratio(lines, way, OF_TWELVE) for pair, lines in of_twelve.items()}
        best = {pair: one[0].value for pair, one in over.items() if one}
        compiled = [one[0].value for lines in of_twelve.values() if (one := ratio(lines, way, ["compiled"]))]
        if not best or not compiled:
            continue
        below = [f"{name} {batch}" for (name, batch), value in best.items() if value < NEVER_BELOW]
        met = met and len(below) <= MOST_BELOW * len(best) and median(compiled) >= asked
        print(f"\n{way}: below {NEVER_BELOW}x of the best by hand in {len(below)} of {len(best)} {below}")
        print(f"{way}: {median(compiled):.2f}x of torch.compile in the median, asked for: {asked}x")
    return met


def _is_met(kept: dict[tuple[str, int], dict[str, Any]]) -> bool:
    """Say what is missed."""
    met = True
    for (name, batch), found in kept.items():
        for one in found["below"]:
            if one is not None and one[0].high < NEVER_BELOW:
                met = False
                print(f"\n{name}, batch {batch}: {one[0]} of {one[1]}, asked for: {NEVER_BELOW}x")
    known = {name for (name, _), found in kept.items() if found["strict"] and name in MODELS}
    high = {
        name for (name, _), found in kept.items() if found["strict"] and found["strict"][0].value >= STRICT
    }
    share = f"{len(high & known)} of {len(known)} models"
    print(f"\nstrict is {STRICT}x the best in float32 on {share}, asked for: 2 of 4")
    met = met and (len(known) < len(MODELS) - len(TWELVE) or len(high & known) >= 2)
    if {"avx512_vnni", "avx_vnni", "amx_int8"} & set(instructions()):
        for (name, batch), found in kept.items():
            if name in ("resnet50", "bert") and found["precision"]:
                low = found["precision"][0].high < PRECISION
                met = met and not low
                print(f"{name}, batch {batch}: precision {found['precision'][0]}, asked for {PRECISION}x")
    return met


def options() -> argparse.ArgumentParser:
    """Of the command line."""
    made = parser(__doc__ or "")
    made.add_argument("--models", default="", help=f"{','.join(MODELS)}, or targets; all: the first four")
    made.add_argument("--batches", default="1,8")
    made.add_argument("--ways", default="", help=f"of {','.join((*BY_HAND, *OLIVE, *SESSIONS))}; all")
    made.add_argument("--olive", default="", metavar="PYTHON", help="interpreter that has olive-ai")
    made.add_argument("--olive-seconds", type=float, default=300.0, help="of each of Olive's searches")
    made.add_argument("--keep", type=Path, metavar="FOLDER", help="of the ways that were made")
    made.add_argument("--make", action="store_true", help="make the ways, measure nothing")
    made.add_argument("--rounds", type=int, default=8)
    made.add_argument("--seconds", type=float, default=4.0, help="of timed calls in each process")
    made.add_argument("--budget", type=float, default=600.0, help="seconds of a session at most")
    return made


def main() -> int:
    """Measure what the file does not have, print all of it; 1 when what is asked for is not met."""
    asked = options().parse_args()
    if not asked.models:
        print("skipped: it takes 6 hours; say which models: --models all, or", ",".join(MODELS))
        return 0
    by_hand = OF_TWELVE if asked.models == "twelve" else BY_HAND
    every = (*by_hand, *(OLIVE if asked.olive else ()), *SESSIONS)
    asked.ways = asked.ways.split(",") if asked.ways else list(every)
    four = [name for name in MODELS if name not in TWELVE]
    models = {"all": four, "twelve": list(TWELVE)}.get(asked.models) or asked.models.split(",")
    head("What laptime tune MODEL hands back, beside what is picked by hand")
    print(f"Instruction set: {', '.join(instructions())}\n")
    lines = Lines(asked.json)
    for name in models:
        for batch in map(int, asked.batches.split(",")):
            if any((line["model"], line["batch"]) == (name, batch) for line in lines):
                continue
            began = time.monotonic()
            try:
                made = cell(name, batch, asked)
            except (TrialFailed, LaptimeError) as error:  # the others go on; a second start tries it again
                print(f"{name}, batch {batch}: {error}", file=sys.stderr)
                continue
            for line in made:
                lines.add({**line, "cell_seconds": time.monotonic() - began})
    return 0 if asked.make or show(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
