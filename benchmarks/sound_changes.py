"""How often is a sound change refused by the gate of `laptime tune MODEL`?

Untrained vision models with settled batch norms. Each change is written as the folder that a session would
race and hand back, called in a process of its own, and its outputs are judged as a session judges them. At
most 2 % may be refused. With --json FILE every answer is kept, and a second start asks what is missing there.

    python benchmarks/sound_changes.py                                        # folding and channels_last
    python benchmarks/sound_changes.py --changes onnxruntime,openvino,compiled --json sound.jsonl

onnxruntime and openvino need: pip install onnx onnxscript onnxruntime openvino; compiled needs g++.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import Namespace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from _harness import Figures, Lines, option, run, table
from laptime.kit.errors import LaptimeError
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import TrialFailed

TORCHVISION = (
    *("alexnet", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "mnasnet0_5", "mnasnet1_0"),
    *("mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "regnet_x_400mf", "regnet_y_400mf"),
    *("resnet18", "resnet34", "resnet50", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "squeezenet1_1"),
    *("vgg11_bn", "wide_resnet50_2", "resnext50_32x4d", "efficientnet_v2_s"),
)
TIMM = (
    *("ghostnet_100", "lcnet_050", "mixnet_s", "mobilenetv3_small_100", "regnety_002", "resnet18d"),
    *("tf_efficientnet_lite0", "hardcorenas_a"),
)
EVERY = [*(f"torchvision:{name}" for name in TORCHVISION), *(f"timm:{name}" for name in TIMM)]
LIMIT = 0.02
"""Share of sound changes that may be refused."""
CHANGES = ("channels_last", "fold_batch_norm")
PACKAGES = ("torch", "torchvision", "timm", "onnx", "onnxruntime", "openvino")
CANNOT = "cannot"
"""The word for a change that cannot be made of a model: a row of the ladder with its reason, no refusal."""


def words_of(target: str, changes: list[str]) -> dict[str, str]:
    """The word of the gate, by change, with the reason where it has not passed."""
    words = {}
    with tempfile.TemporaryDirectory() as folder:
        evaluator = ModelEvaluator(
            ModelRequest(target=target, batch=2, timeout=900.0, save=False), Path(folder)
        )
        offered = evaluator.candidates(evaluator.diagnose(Recipe()), Recipe())
        usable = {one.change.name: one.change for one in offered.usable}
        for name in changes:
            if name in usable:
                words[name] = _word(evaluator, usable[name])
            else:
                words[name] = f"{CANNOT}: {offered.ruled_out.get(name, 'not offered')}"
    return words


def _word(evaluator: ModelEvaluator, change: Change) -> str:
    try:
        gate = evaluator.sameness(Recipe((change,)))
    except TrialFailed as failed:
        return f"{CANNOT}: {failed.kind}: {failed.why}"
    return gate.word if gate.word == "passed" else f"{gate.word}: {gate.reason}"


def answers(lines: Lines) -> dict[str, dict[str, str]]:
    """What the file has, by target."""
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        found.setdefault(line["target"], {}).update(line["words"])
    return found


def show(rows: dict[str, dict[str, str]]) -> bool:
    """Print the table and every word that is not `passed`; whether few enough were refused."""
    changes = list(dict.fromkeys(name for row in rows.values() for name in row))
    short = {target: {name: word.split(":")[0] for name, word in row.items()} for target, row in rows.items()}
    table(
        ("model", *changes),
        [(target, *(row.get(name, "-") for name in changes)) for target, row in short.items()],
    )
    for target, row in rows.items():
        for name, word in row.items():
            if word != "passed":
                print(f"\n{target}, {name}: {word}")
    words = [word for row in short.values() for word in row.values() if word != CANNOT]
    refused = sum(word != "passed" for word in words)
    print(f"\n{refused} of {len(words)} sound changes refused or undecided")
    return refused <= LIMIT * len(words)


def main(asked: Namespace, data: Figures) -> int:
    """Print the table; 1 when too many were refused."""
    print(", ".join(f"{name} {version(name)}" for name in PACKAGES if find_spec(name)), end="\n\n")
    lines = Lines(asked.json)
    rows = answers(lines)
    for target in asked.targets:
        missing = [name for name in asked.changes.split(",") if name not in rows.get(target, {})]
        if not missing:
            continue
        try:
            words = words_of(target, missing)
        except (LaptimeError, TrialFailed) as error:
            print(f"{target}: {error}", file=sys.stderr)
            continue
        rows.setdefault(target, {}).update(words)
        lines.add({"target": target, "words": words})
    return int(not show(rows))


if __name__ == "__main__":
    run(
        main,
        "Sound changes",
        option("targets", nargs="*", default=EVERY, metavar="TARGET"),
        option("--changes", default=",".join(CHANGES)),
        lines=True,
    )
