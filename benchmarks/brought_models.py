"""Which kinds of model does `laptime tune MODEL` take, and what does each runtime make of them?

Each of `_brought_models` is surveyed; then each change is written as the folder that a session would race and
hand back, called in a process of its own, and judged. A model either runs or is refused in a sentence; what
ends otherwise is a fault, and the benchmark exits with 1. The table is that of docs/tune_model.md.

    python benchmarks/brought_models.py --json recorded/brought_models.json

onnxruntime and openvino need: pip install onnx onnxscript onnxruntime openvino.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from pathlib import Path

import _brought_models as models
from _harness import Figures, option, run, table
from laptime.kit.errors import LaptimeError
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import TrialFailed

CHANGES = ("inference_mode", "onnxruntime", "openvino")
FAULT = "fault"


def answers(function: str, changes: list[str]) -> dict[str, str]:
    """By change, `passed`, or why not; `model` where the model itself is refused."""
    target = f"{Path(models.__file__)}:{function}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            evaluator = ModelEvaluator(ModelRequest(target=target, timeout=300.0, save=False), Path(folder))
        except LaptimeError as error:
            return {"model": f"{error.what}: {error.why}".replace(f"{target} ", "")}
        except Exception as error:
            return {"model": f"{FAULT}: {type(error).__name__}: {error}"}
        return {name: _answer(evaluator, name) for name in changes}


def _answer(evaluator: ModelEvaluator, name: str) -> str:
    try:
        gate = evaluator.sameness(Recipe((Change(name),)))
    except TrialFailed as failed:
        return f"{'' if failed.kind == 'refused' else FAULT + ': ' + failed.kind + ': '}{failed.why}"
    except LaptimeError as error:
        return f"{FAULT}: {error.what}: {error.why}"
    return gate.word if gate.word == "passed" else f"{gate.word}: {gate.reason}"


def main(asked: Namespace, figures: Figures) -> int:
    """Print the table and each answer that is not `passed`; 1 where one is a fault."""
    changes = asked.changes.split(",")
    rows = figures.again("answers", {})
    for words, function in models.MODELS.items():
        if function not in rows and asked.models in function:
            rows[function] = {"words": words, **answers(function, changes)}
            figures.keep()
    shown = [
        (
            row["words"],
            *(["refused"] * len(changes) if "model" in row else (_short(row[name]) for name in changes)),
        )
        for row in rows.values()
    ]
    table(("model", *changes), shown)
    for row in rows.values():
        for name, word in row.items():
            if name != "words" and word != "passed":
                print(f"\n{row['words']}, {name}: {word}")
    return int(any(FAULT in word for row in rows.values() for word in row.values()))


def _short(word: str) -> str:
    return (
        word
        if word == "passed"
        else word.split(":")[0]
        if word.startswith((FAULT, "failed", "undecided"))
        else "cannot"
    )


if __name__ == "__main__":
    run(
        main,
        "Models that people bring",
        option("--changes", default=",".join(CHANGES)),
        option("--models", default="", metavar="TEXT", help="those whose function holds it"),
    )
