"""The learning rate that goes with another batch size: a rule, said openly, not a proof.

Source: linear for SGD, Goyal et al., "Accurate, Large Minibatch SGD", 2017; square root for Adam, Malladi et
al., "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms", NeurIPS 2022.
"""

import inspect
import re
from typing import Any

from laptime.tuning.optimization import CannotEdit

RULES = {"sgd": "linear", "adam": "sqrt", "adamw": "sqrt", "adagrad": "sqrt"}
"""By the fact that names the optimizer."""
SIMPLE = re.compile(r"[\w.]+(e-?\d+)?")


def rule(facts: frozenset[str]) -> str:
    """linear or sqrt; "" where no rule is known, or the optimizers want two."""
    rules = {RULES[fact] for fact in facts & RULES.keys()}
    return rules.pop() if len(rules) == 1 else ""


def factor(name: str, times: float) -> float:
    """What the learning rate is multiplied by when the batch is `times` as large."""
    return times if name == "linear" else times**0.5


def scale(call: Any, by: float) -> None:
    """The learning rates of an optimizer's constructor call, those of single groups too."""
    rate = call.arguments.get("lr")
    if rate is None:
        parameter = inspect.signature(call.cls.__init__).parameters.get("lr")
        rate = (
            None if parameter is None or parameter.default is inspect.Parameter.empty else parameter.default
        )
    if rate is not None:
        call.arguments["lr"] = rate * by
    groups = call.arguments.get("params")
    if isinstance(groups, (list, tuple)) and all(isinstance(group, dict) for group in groups):
        call.arguments["params"] = [
            {**group, "lr": group["lr"] * by} if "lr" in group else group for group in groups
        ]


def edit(script: Any, by: float) -> None:
    """The same in the source: `lr=0.1` becomes `lr=0.1 * 2`."""
    rate = script.argument("optimizer", "lr")
    if rate is None:
        raise CannotEdit(f"the optimizer is given no lr: multiply its default by {by:.6g}")
    template = "{}" if SIMPLE.fullmatch(rate) else "({})"
    script.wrap_argument("optimizer", "lr", f"{template} * {by:.6g}")
