"""Another batch size: the smallest one at which a sample costs nearly the least.

What a step costs besides its samples (starting kernels, the optimizer) is spread over more of them. This
changes the training itself: fewer, larger steps an epoch. The learning rate goes with it by a rule, linear
for SGD and by the square root for Adam, and only a convergence check can tell whether that is as good.

Source: McCandlish et al., "An Empirical Model of Large-Batch Training", 2018; Goyal et al. 2017 and Malladi
et al. 2022 for the rules.
Lies when: a larger batch needs more epochs: throughput is not progress."""

import inspect
import re
from typing import Any

from laptime.tuning.catalogue import _bounds, _loader
from laptime.tuning.optimization import CannotEdit, LoopProfile, Optimization, Options

KNEE = 0.03
"""A larger batch stops paying where what a step costs besides its samples is less than this share of it."""
LARGEST = 64  # times the present batch, at most
ROOM = 0.8  # share of the free memory that larger batches may take
RULES = {"sgd": "linear", "adam": "sqrt", "adamw": "sqrt", "adagrad": "sqrt"}
"""By the fact that names the optimizer."""
SIMPLE = re.compile(r"[\w.]+(e-?\d+)?")


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Twice the batch, four times, ... up to the knee and what memory holds."""
    if why_not(loop_profile):
        return []
    size, rule = _loader.batch_size(loop_profile), _rule(loop_profile.facts)
    return [{"value": size * times, "times": times, "lr": rule} for times in _times(loop_profile)]


def why_not(loop_profile: LoopProfile) -> str:
    if _loader.batch_size(loop_profile) < 1:
        return "the loader has no batch size of its own"
    if not _rule(loop_profile.facts):
        return "no rule is known for the learning rate of this optimizer"
    if _fit_fixed(loop_profile) is None:
        return "the time of half and twice the batch is not known"
    if not _times(loop_profile):
        return "throughput is at its knee already, or memory has no room for a larger batch"
    return ""


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """The share that a step of n times the batch saves for as many samples as a step has now: what a step
    costs besides its samples, less the n-th part of it."""
    return _bounds.within(loop_profile, (_fit_fixed(loop_profile) or 0.0) * (1 - 1 / float(options["times"])))


def apply(loop: Any, options: Options) -> None:
    """batch_size of every DataLoader that makes batches of this size itself; lr of every optimizer."""
    times = float(options["times"])
    by = _factor(str(options["lr"]), times)
    _loader.enlarge_batch(loop, int(options["value"]), times)
    loop.optimizer(lambda call: _scale_rate(call, by))


def edit(script: Any, options: Options) -> None:
    """Two arguments: of the training loader and of the optimizer."""
    if not script.has_site("loader"):
        raise CannotEdit("the loader is made by a library: set the batch size and the learning rate there")
    by, rate = _factor(str(options["lr"]), float(options["times"])), script.argument("optimizer", "lr")
    if rate is None:
        raise CannotEdit(f"the optimizer is given no lr: multiply its default by {by:.6g}")
    template = "{}" if SIMPLE.fullmatch(rate) else "({})"
    script.wrap_argument("optimizer", "lr", f"{template} * {by:.6g}")  # `lr=0.1` becomes `lr=0.1 * 2`
    script.set_arguments("loader", batch_size=str(int(options["value"])))


def _fit_fixed(loop_profile: LoopProfile) -> float | None:
    """Seconds of a step that do not grow with its batch: T(b) = fixed + slope * b through half and twice the
    batch. None if one of them was not measured."""
    half, twice = (loop_profile.what_if.get(name) for name in ("half_batch", "double_batch"))
    if half is None or twice is None:
        return None
    slope = max(0.0, (twice - half) / 1.5)
    return max(0.0, min((half + twice) / 2 - 1.25 * slope, loop_profile.step))


def _times(loop_profile: LoopProfile) -> list[int]:
    fixed = _fit_fixed(loop_profile) or 0.0
    multiples = [1]
    while multiples[-1] < LARGEST and fixed / multiples[-1] > KNEE * loop_profile.step:
        if not _has_room(loop_profile, 2 * multiples[-1]):
            break
        multiples.append(2 * multiples[-1])
    return multiples[1:]


def _has_room(loop_profile: LoopProfile, times: int) -> bool:
    """Whether activations of so many batches fit; what parameters and optimizer take stays."""
    free = loop_profile.memory if loop_profile.device == "cpu" else loop_profile.device_memory
    if free is None or loop_profile.peak is None:
        return times <= 4
    grows = max(loop_profile.batch_bytes, loop_profile.peak - loop_profile.state_bytes)
    return grows * (times - 1) < ROOM * free


# The learning rate that goes with another batch size: a rule, said openly, not a proof. Linear for SGD, Goyal
# et al., "Accurate, Large Minibatch SGD", 2017; square root for Adam, Malladi et al., "On the SDEs and
# Scaling Rules for Adaptive Gradient Algorithms", NeurIPS 2022.


def _rule(facts: frozenset[str]) -> str:
    """linear or sqrt; "" if no rule is known, or the optimizers want two."""
    rules = {RULES[fact] for fact in facts & RULES.keys()}
    return rules.pop() if len(rules) == 1 else ""


def _factor(name: str, times: float) -> float:
    """Return the factor of the learning rate for a batch that is `times` as large."""
    return times if name == "linear" else times**0.5


def _scale_rate(call: Any, by: float) -> None:
    """The learning rates of an optimizer's constructor call, those of single groups too."""
    rate = call.arguments.get("lr")
    if rate is None:
        parameter = inspect.signature(call.cls.__init__).parameters.get("lr")
        rate = getattr(parameter, "default", inspect.Parameter.empty)
    if rate is not None and rate is not inspect.Parameter.empty:
        call.arguments["lr"] = rate * by
    groups = call.arguments.get("params")
    if isinstance(groups, (list, tuple)) and all(isinstance(group, dict) for group in groups):
        rates = [{"lr": group["lr"] * by} if "lr" in group else {} for group in groups]
        call.arguments["params"] = [{**group, **own} for group, own in zip(groups, rates, strict=True)]


OPTIMIZATION = Optimization(
    title="larger batch, learning rate by rule",
    numerics="algorithm",
    saves=bound,
    needs=frozenset({"loader", "!custom_batch_sampler", "!accumulation"}),
    prior=0.6,
    propose=propose,
    why_not=why_not,
    apply=apply,
    edit=edit,
)
