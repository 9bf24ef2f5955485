"""How fast are some sets of changes to a model, beside each other, without a session?

Each set is written as the folder that a session would race, compared with the model as it is, and timed in
rounds of random order, each in new processes. `@2` after a set: in two instances of one thread on CPUs of
their own. The factor is to the first set; its interval is over rounds.

    python benchmarks/model_sets.py torchvision:efficientnet_b0 onnxruntime@2 onnxruntime+huge_pages@2
    python benchmarks/model_sets.py torchvision:vit_b_16 --batch 1 --rounds 6 openvino@2 openvino+huge_pages@2
    python benchmarks/model_sets.py torchvision:resnet50 openvino@2 openvino_bf16@2 openvino_int8@2

It needs what the changes need: pip install 'laptime[torch,nncf]'.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from _harness import head, parser, table, write
from _rounds import factor
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.setups import Setup, with_threads
from laptime.tuning.inference.survey import instructions
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import TrialFailed

WARM_UP = 0.3
"""Seconds of calls before those that count."""


class Measured(NamedTuple):
    """A set with its setup, the word of its gate, and items per second of each round."""

    recipe: Recipe
    setup: Setup
    gate: str
    rates: list[float]


def recipe_of(text: str) -> tuple[Recipe, int]:
    """`openvino+threads=1@2` as changes and instances."""
    names, _, instances = text.partition("@")
    changes = []
    for word in names.split("+"):
        name, _, value = word.partition("=")
        number = int(value) if value.isdigit() else value
        changes.append(Change(name, {"value": number} if value else {}))
    return Recipe(tuple(changes)), int(instances or 1)


def prepared(text: str, evaluator: ModelEvaluator) -> Measured:
    """The set, written and compared; the reason in place of the word where it cannot be."""
    recipe, instances = recipe_of(text)
    setup = Setup(instances, 1 if instances > 1 else 0, evaluator.batch)
    recipe = with_threads(recipe, setup.threads)
    print(f"{text}: written and compared", file=sys.stderr)
    try:
        gate = evaluator.sameness(recipe)
    except TrialFailed as failed:
        return Measured(recipe, setup, failed.why, [])
    return Measured(recipe, setup, gate.word if gate.word == "passed" else gate.reason, [])


def visit(one: Measured, evaluator: ModelEvaluator, seconds: float) -> None:
    """One more round of a set."""
    with evaluator.fleet(one.recipe, one.setup) as fleet:
        fleet.visit(WARM_UP)
        one.rates.append(fleet.visit(max(seconds, 5 * fleet.call)).rate)


def main() -> int:
    """Print the table."""
    options = parser(__doc__ or "")
    options.add_argument("target", nargs="?", default="")
    options.add_argument("sets", nargs="*", metavar="SET")
    options.add_argument("--batch", type=int, default=1)
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--seconds", type=float, default=2.0, help="of timed calls in each process")
    asked = options.parse_intermixed_args()
    if not asked.sets:
        print("skipped: say which model and sets, see --help")
        return 0
    data = head(f"Sets of changes to {asked.target}, batch {asked.batch}")
    print(f"Instruction set: {', '.join(instructions())}\n")
    request = ModelRequest(target=asked.target, batch=asked.batch, timeout=600.0, save=False)
    with tempfile.TemporaryDirectory(prefix="laptime-sets-", ignore_cleanup_errors=True) as folder:
        evaluator = ModelEvaluator(request, Path(folder))
        made = {text: prepared(text, evaluator) for text in asked.sets}
        order = [text for text, one in made.items() if one.gate == "passed"]
        rng = random.Random(0)
        for number in range(asked.rounds):
            rng.shuffle(order)
            print(f"round {number + 1} of {asked.rounds}", file=sys.stderr)
            for text in order:
                visit(made[text], evaluator, asked.seconds)
    base = made[asked.sets[0]].rates
    table(
        ("set", "items/s, median", "least ... most", "over the first", "gate"),
        [(text, *_row(one, base), one.gate) for text, one in made.items()],
    )
    write(asked.json, {**data, "rates": {text: one.rates for text, one in made.items()}})
    return 0


def _row(one: Measured, base: list[float]) -> tuple[str, str, str]:
    if not one.rates:
        return "-", "-", "-"
    ends = f"{min(one.rates):,.1f} ... {max(one.rates):,.1f}"
    if one.rates is base or len(base) < 2:
        return f"{median(one.rates):,.1f}", ends, "-"
    value, low, high = factor([math.log(ours / first) for ours, first in zip(one.rates, base, strict=True)])
    return f"{median(one.rates):,.1f}", ends, f"{value:.3f}x [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    sys.exit(main())
