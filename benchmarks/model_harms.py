"""Does the gate of `laptime tune MODEL` accept harm, and does it refuse what is sound?

Small models of 37 kinds are surveyed as a session surveys them; then each harm, and each sound change,
takes the place of a folder: the same calls are made of it, and the same checks judge its outputs. No harm may
pass in its class but those of `OUT_OF_REACH`, which docs/gates.md names; no sound change may fail. A harm
that shows in nothing that a user may call the model with is not counted.

    python benchmarks/model_harms.py --json recorded/model_harms.json     # goes on behind what is there
    python benchmarks/model_harms.py --kinds text,decoder --harms "mask"
"""

from __future__ import annotations

import copy
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import _harmed_models as models
from _harness import Figures, option, run, table
from laptime.measure.recorded_calls import RecordedCalls
from laptime.records.tuning import Gate
from laptime.tuning.inference import arm_process
from laptime.tuning.inference.sameness import sameness
from laptime.tuning.inference.survey import survey

Model = Callable[..., Any]
OUT_OF_REACH = {
    "wrong once in 1,000 calls": "more rare than once in the calls that are made",
    "wrong in batches above 16": "batch sizes that nobody called",
    "scaled by 1.04 in bfloat16": "in lower precision, errors within its limits: --metric",
    "one class of ten never told, in int8": "in lower precision, errors within its limits: --metric",
    "NaN in, zeros out": "inputs that are not finite",
    "a branch of the values frozen": "inputs that only certain values reach",
    "how sure other points are, in bfloat16": "in lower precision, errors within its limits: --metric",
    "weights in float16": "errors below 5e-5 of the outputs, as where a model dampens those of its weights",
}
"""Harms that may pass, with the line of docs/gates.md that says so."""


MANY, FEW = 300, 20
"""Calls after the recorded ones: of harms that come late, as a session makes them; of others, fewer."""
PATIENCE = 1e3
"""Seconds that they may take: as many as on a machine of its own, whatever else runs on this one."""


@dataclass(frozen=True)
class Change:
    """Something that takes the place of a folder.

    Attributes:
        make: of a copy of the model. kinds: of model; () all. precision: that it is declared in, "" float32.
        is_new: a harm that was written after the checks were.
    """

    make: Callable[[Any], Model]
    kinds: tuple[str, ...] = ()
    precision: str = ""
    is_new: bool = False


@dataclass(frozen=True)
class Surveyed:
    """A model with what its survey has left, as the first steps of a session do."""

    module: nn.Module
    recorded: RecordedCalls
    calls: Path
    about: dict[str, Any]


FOLDER = tempfile.TemporaryDirectory()


@cache
def surveyed(kind: str) -> Surveyed:
    """A kind of `_harmed_models`, surveyed."""
    calls = Path(FOLDER.name) / f"{kind}.npz"
    target = f"{Path(models.__file__)}:{kind}"
    about = survey(target=target, batch=0, samples="", calls=str(calls), calibration=f"{calls}.first.npz")
    assert not about["refused"], about["refused"]
    return Surveyed(getattr(models, kind)()[0], RecordedCalls.load(calls), calls, about)


def gate(kind: str, change: Change, *, threads: int = arm_process.THREADS) -> Gate:
    """The gate of a change to a kind of model."""
    known = surveyed(kind)
    model, made = change.make(copy.deepcopy(known.module)), Path(FOLDER.name) / "made.npz"
    with torch.no_grad():
        answer = arm_process.outputs(model, arm_process.inputs_in(known.calls), str(made), threads=threads)
    return sameness(
        known.recorded,
        made,
        answer,
        numerics="precision" if change.precision else "reassociated",
        precision=change.precision,
        about=known.about,
    )[0]


def shows(kind: str, change: Change) -> bool:
    """Whether a user may see the change: in other outputs for some inputs, or in calls that follow."""
    module = surveyed(kind).module
    model = change.make(copy.deepcopy(module))
    first = arm_process.inputs_in(surveyed(kind).calls)[0]
    gaps = [each.unsqueeze(-1).repeat(*[1] * each.ndim, 2)[..., 0] for each in first]
    with torch.no_grad():
        zeros = [torch.zeros_like(each) if each.is_floating_point() else each for each in first]
        longer = [torch.cat([each, each[:, :1]], 1) if each.ndim > 1 else each for each in first]
        others = [each for each in (zeros, longer) if _is_taken(module, each)]
        for given in (first, gaps, *others, *models.witnesses(kind), *[first] * 4 * arm_process.CALLS):
            right = module(*given)
            before = [each.clone() for each in given]
            try:
                made = model(*given)
            except Exception:
                return True
            if _kind(made) != _kind(right) or not all(map(_same, leaves(made), leaves(right))):
                return True
            if not all(map(torch.equal, before, given)):
                return True
    return _in_threads(model, module, first)


def _is_taken(module: nn.Module, given: list[Tensor]) -> bool:
    try:
        return all(bool(each.isfinite().all()) for each in leaves(module(*given)))
    except Exception:
        return False


def _in_threads(model: Model, module: nn.Module, given: list[Tensor]) -> bool:
    found: list[bool] = []
    with torch.no_grad():
        right = list(leaves(module(*given)))

    def call() -> None:
        with torch.no_grad():
            found.append(all(map(_same, leaves(model(*given)), right)))

    several = [threading.Thread(target=call) for _ in range(4)]
    for each in several:
        each.start()
    for each in several:
        each.join()
    return not all(found)


def leaves(output: Any) -> Iterator[Tensor]:
    """Tensors of an output."""
    return arm_process.leaves(output)


def _kind(output: Any) -> Any:
    return arm_process.names_of(output), arm_process.types_of(output)


def _same(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one, other)


def mapped(change: Callable[[Tensor], Tensor], output: Any) -> Any:
    """An output with each tensor changed."""
    if isinstance(output, dict):
        return {key: change(value) for key, value in output.items()}
    return tuple(map(change, output)) if isinstance(output, tuple) else change(output)


def of_outputs(change: Callable[[Tensor], Tensor]) -> Callable[[Any], Model]:
    return lambda module: lambda *given: mapped(change, module(*given))


def of_inputs(change: Callable[..., Any]) -> Callable[[Any], Model]:
    return lambda module: lambda *given: module(*change(*given))


def floats(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Of floats alone."""
    return lambda each: change(each) if each.is_floating_point() else each


def with_values(**values: Any) -> Callable[[Any], Model]:
    """The model with other attributes."""

    def make(module: Any) -> Model:
        for name, value in values.items():
            assert hasattr(module, name), name
            setattr(module, name, value)
        return module

    return make


def of_weights(change: Callable[[nn.Module], None]) -> Callable[[Any], Model]:
    """The model with what a function does to it."""

    def make(module: Any) -> Model:
        with torch.no_grad():
            change(module)
        return module

    return make


def _cached(module: Any) -> Model:
    held: dict[Any, Any] = {}
    return lambda *given: held.setdefault(given[0].shape, module(*given))


def _lagging(module: Any) -> Model:
    """The outputs of the call before, of the same shapes."""
    held: dict[Any, Any] = {}

    def call(*given: Tensor) -> Any:
        made = module(*given)
        before = held.get(given[0].shape, made)
        held[given[0].shape] = made
        return before

    return call


def _changing(module: Any) -> Model:
    def call(*given: Tensor) -> Any:
        made = module(*given)
        given[-1].add_(1)
        return made

    return call


def _first_only(module: Any) -> Model:
    seen: list[Any] = []

    def call(*given: Tensor) -> Any:
        seen.append([each.clone() for each in given])
        made = module(*given)
        return made if all(map(_same, given, seen[0])) else mapped(lambda each: each.roll(1, 0) * 0, made)

    return call


def _baked(module: Any) -> Model:
    sizes: list[int] = []

    def call(*given: Tensor) -> Any:
        sizes.append(len(given[0]))
        if sizes[-1] != sizes[0]:
            raise RuntimeError(f"expected batch {sizes[0]}, got {sizes[-1]}")
        return module(*given)

    return call


def _first_item(module: Any) -> Model:
    return lambda *given: mapped(
        lambda each: each.expand(len(given[0]), *each.shape[1:]).clone(), module(*(x[:1] for x in given))
    )


def _counting(wrong: Callable[[int], bool]) -> Callable[[Any], Model]:
    """Wrong in the calls of these numbers."""

    def make(module: Any) -> Model:
        made: list[int] = []

        def call(*given: Tensor) -> Any:
            made.append(1)
            output = module(*given)
            return mapped(lambda each: each.flip(0) + 1, output) if wrong(len(made)) else output

        return call

    return make


def _one_buffer(module: Any) -> Model:
    held: dict[Any, Any] = {}

    def call(*given: Tensor) -> Any:
        output = module(*given)
        ours = held.setdefault(given[0].shape, output)
        for one, other in zip(leaves(ours), leaves(output), strict=True):
            one.copy_(other)
        return ours

    return call


def _without_gaps(module: Any) -> Model:
    """Memory is read as if inputs had no gaps, as compiled packages do."""

    def call(*given: Tensor) -> Any:
        return module(*(each.as_strided(each.shape, torch.empty(each.shape).stride()) for each in given))

    return call


def _shared(module: Any) -> Model:
    """Inputs lie in one place for all threads."""
    held: dict[str, Any] = {}
    given_now = threading.Event()

    def call(*given: Tensor) -> Any:
        held["given"] = given
        given_now.wait(0.001)
        return module(*held["given"])

    return call


def _own_thread(module: Any) -> Model:
    """Right in the thread that called it first."""
    first = threading.get_ident()
    return lambda *given: (
        module(*given)
        if threading.get_ident() == first
        else mapped(lambda each: each.flip(0) * 0, module(*given))
    )


def _confused(module: Any) -> Model:
    """After a call of another size the outputs of the first size are those of other items."""
    sizes: set[Any] = set()

    def call(*given: Tensor) -> Any:
        sizes.add(given[0].shape)
        made = module(*given)
        return made if len(sizes) < 2 else mapped(lambda each: each.roll(1, 0), made)

    return call


def _as_first(*, inputs: bool) -> Callable[[Any], Model]:
    """Inputs, or outputs, never leave the range of the first call."""

    def make(module: Any) -> Model:
        ranges: list[tuple[Tensor, Tensor]] = []

        def clipped(tensors: list[Tensor]) -> list[Tensor]:
            if not ranges:
                ranges.extend((each.amin(), each.amax()) for each in tensors)
            return [each.clamp(*limit) for each, limit in zip(tensors, ranges, strict=True)]

        def call(*given: Tensor) -> Any:
            if inputs:
                return module(*clipped(list(given)))
            made = module(*given)
            rest = iter(clipped(list(leaves(made))))
            return mapped(lambda each: next(rest), made)

        return call

    return make


def _in_batches_to(most: int) -> Callable[[Any], Model]:
    return lambda module: (
        lambda *given: mapped(
            lambda each: torch.cat([each[:most], torch.zeros_like(each[most:])]), module(*given)
        )
    )


def _last_parameter(module: nn.Module) -> Tensor:
    return [each for each in module.parameters() if each.ndim > 1][-1]


def _lose_a_weight(module: nn.Module) -> None:
    weights = _last_parameter(module)
    weights.view(-1)[int(weights.abs().argmax())] = 0


def _swap_rows(module: nn.Module) -> None:
    weights = _last_parameter(module)
    weights[:2] = weights[:2].roll(1, 0 if len(weights) > 1 else 1).clone()


def _in_float16(module: nn.Module) -> None:
    for each in module.parameters():
        each.copy_(each.half().float())


def _set(kinds: type, **values: Any) -> Callable[[nn.Module], None]:
    def change(module: nn.Module) -> None:
        for part in module.modules():
            if isinstance(part, kinds):
                for name, value in values.items():
                    setattr(part, name, value)

    return change


def _no_window(module: nn.Module) -> None:
    module.state_dict()["window"].fill_(1.0)


def _mean_padding(module: nn.Module) -> None:
    weights = module.state_dict()["table.weight"]
    weights[0] = weights[1]


def _scaled(name: str, by: float) -> Callable[[nn.Module], None]:
    def change(module: nn.Module) -> None:
        module.state_dict()[name].mul_(by)

    return change


def _wrong_labels(share: float) -> Callable[[Any], Model]:
    """So many whole numbers of a hundred are others; floats are right."""

    def change(each: Tensor) -> Tensor:
        if each.is_floating_point():
            return each
        flips = torch.rand(each.shape, generator=torch.Generator().manual_seed(0)) < share
        return torch.where(flips, each.clamp(max=0).sub(each).abs().add(1) % 5, each)

    return of_outputs(change)


def _rows(change: Callable[[Tensor], Tensor]) -> Callable[[Any], Model]:
    """Of the rows of a detector."""

    def make(module: Any) -> Model:
        def call(images: Tensor) -> Any:
            made = module(images)
            return {**made, "rows": change(made["rows"].clone())}

        return call

    return make


def _columns(at: Any, change: Callable[[Tensor], Tensor]) -> Callable[[Any], Model]:
    def changed(rows: Tensor) -> Tensor:
        rows[..., at] = change(rows[..., at])
        return rows

    return _rows(changed)


def _padded_to(length: int) -> Callable[[Any], Model]:
    """A sequence filled up to a length without a word."""
    return lambda module: (
        lambda tokens: _cut(module(nn.functional.pad(tokens, (0, length - tokens.shape[1]))), tokens.shape[1])
    )


def _cut(made: dict[str, Tensor], length: int) -> dict[str, Tensor]:
    return {**made, "logits": made["logits"][:, :length]}


def _renamed(module: Any) -> Model:
    return lambda *given: {f"{name}_0": each for name, each in module(*given).items()}


def _of(name: Any, change: Callable[[Tensor], Tensor]) -> Callable[[Any], Model]:
    """Of one output, by its key or place."""

    def make(module: Any) -> Model:
        def call(*given: Tensor) -> Any:
            made = module(*given)
            if isinstance(made, dict):
                return {**made, name: change(made[name])}
            return tuple(change(each) if at == name else each for at, each in enumerate(made))

        return call

    return make


def _rows_at(at: Any, change: Callable[[Tensor], Tensor]) -> Callable[[Any], Model]:
    """Of some rows of a tensor whose columns are places."""

    def changed(made: Tensor) -> Tensor:
        made = made.clone()
        made[:, at] = change(made[:, at])
        return made

    return of_outputs(changed)


def _no_longer(module: Any) -> Model:
    """Sequences end where the first one did."""
    lengths: list[tuple[int, ...]] = []

    def call(*given: Tensor) -> Any:
        lengths.extend([] if lengths else [each.shape[1:2] for each in given])
        return module(*(x[:, : most[0]] if most else x for x, most in zip(given, lengths, strict=True)))

    return call


def _without_zeros(module: Any) -> Model:
    """Divided by what is zero of an input of zeros."""

    def call(*given: Tensor) -> Any:
        most = [each.abs().max() for each in given if each.is_floating_point()]
        return mapped(floats(lambda each: each * (min(most) / min(most))), module(*given))

    return call


def _goes_on(module: Any) -> Model:
    """A hundredth of the state that the call before has left."""
    held: dict[Any, Any] = {}

    def call(*given: Tensor) -> Any:
        mean, width, h, c = module(*given)
        before = held.get(given[0].shape, 0.0)
        held[given[0].shape] = 1e-2 * h.mean()
        return mean + before, width, h, c

    return call


def _first_from(number: int) -> Callable[[Any], Model]:
    """A memory that is full: from this call on outputs are those of the first, where the shapes are."""

    def make(module: Any) -> Model:
        made: list[Any] = []

        def call(*given: Tensor) -> Any:
            made.append(module(*given))
            alike = [each.shape for each in leaves(made[0])] == [each.shape for each in leaves(made[-1])]
            return made[0] if len(made) > number and alike else made[-1]

        return call

    return make


def _dropping(module: Any) -> Model:
    """Dropout in each fortieth call."""
    made: list[int] = []

    def call(*given: Tensor) -> Any:
        made.append(1)
        drop = floats(lambda each: nn.functional.dropout(each, 0.1 * (len(made) % 40 == 39)))
        return mapped(drop, module(*given))

    return call


def _in_one_buffer(module: Any) -> Model:
    """Inputs are copied to one place for all threads."""
    held: dict[Any, Tensor] = {}

    def call(*given: Tensor) -> Any:
        for at, each in enumerate(given):
            held.setdefault((at, each.shape), torch.empty_like(each)).copy_(each)
        time.sleep(5e-4)
        return module(*(held[at, each.shape] for at, each in enumerate(given)))

    return call


def _frozen_branch(module: Any) -> Model:
    """Zeros where the first item is larger on the average than the second."""

    def call(*given: Tensor) -> Any:
        means = given[0].float().flatten(1).mean(1)
        is_other = len(means) > 1 and bool(means[0] > means[1] + 0.3)
        return mapped(lambda each: each * (not is_other), module(*given))

    return call


def _column(
    at: int, change: Callable[[Tensor], Tensor], *, of_outputs: bool = False
) -> Callable[[Any], Model]:
    """Of the last dimension, of the input or the output."""

    def changed(given: Tensor) -> Tensor:
        given = given.clone()
        given[..., at] = change(given[..., at])
        return given

    return lambda module: (lambda x: changed(module(x))) if of_outputs else (lambda x: module(changed(x)))


def _behind(most: int) -> Callable[[Tensor], Tensor]:
    """Places behind so many in reverse."""
    return lambda each: torch.cat([each[:, :most], each[:, most:].flip(1)], 1)


def _in_thread(number: int) -> Callable[[Any], Model]:
    """Wrong in the thread that calls as this one of several."""

    def make(module: Any) -> Model:
        seen: list[int] = []

        def call(*given: Tensor) -> Any:
            if (own := threading.get_ident()) not in seen:
                seen.append(own)
            made = module(*given)
            return made if seen.index(own) != number else mapped(lambda each: each.flip(0) + 1, made)

        return call

    return make


def _first_in_thread(module: Any) -> Model:
    """Zeros in the first call of each other thread."""
    seen = {threading.get_ident()}

    def call(*given: Tensor) -> Any:
        made, is_known = module(*given), threading.get_ident() in seen
        seen.add(threading.get_ident())
        return made if is_known else mapped(torch.zeros_like, made)

    return call


def _no_silence(module: Any) -> Model:
    """Not a number of silence."""
    return lambda x: module(x) * (each := x.abs().amax().float()) / each


def _bytes_off(share: float) -> Callable[[Tensor], Tensor]:
    def change(each: Tensor) -> Tensor:
        dice = torch.rand(each.shape, generator=torch.Generator().manual_seed(0))
        return torch.where(dice < share, 255 - each, each)

    return change


IMAGES = ("classifier", "detector", "siamese", "segmenter")
LATER = ("writer", "player", "weather", "calendar", "guided", "speaker")
SINCE = ("rows", "translator", "search", "forecaster", "graph", "enhancer", "denoiser", "masker")
RANKED = ("ranker", "chooser", "sorter")
WITH_FLOATS = tuple(each for each in models.KINDS if each not in ("segmenter", "enhancer", *LATER))
WITH_TABLES = ("text", "decoder", "tagger", "recommender")
WITH_LABELS = ("decoder", "detector", "tagger", "segmenter")
NOT_LABELS = WITH_FLOATS
ONE_TYPE = tuple(
    each for each in models.KINDS if each not in ("forecaster", "graph", "enhancer", "denoiser", "writer")
)
"""Models whose code makes no numbers of float32 by itself."""

HARMS: dict[str, Change] = {
    # of any model
    "zeros": Change(of_outputs(torch.zeros_like)),
    "sign flipped": Change(of_outputs(torch.neg)),
    "last dimension rolled": Change(of_outputs(lambda each: each.roll(1, -1))),
    "cached outputs": Change(_cached),
    "infinite": Change(of_outputs(floats(lambda each: each * float("inf"))), WITH_FLOATS),
    "not a number": Change(of_outputs(floats(lambda each: each * float("nan"))), WITH_FLOATS),
    "scaled by a thousandth": Change(of_outputs(floats(lambda each: each * 1.001)), WITH_FLOATS),
    "inputs changed": Change(_changing),
    "right on the first inputs only": Change(_first_only),
    "batch size baked in": Change(_baked),
    "the first item for all": Change(_first_item),
    "random numbers": Change(of_outputs(lambda each: torch.rand(each.shape).mul(5).to(each.dtype))),
    "outputs overwritten": Change(_one_buffer),
    "bfloat16 undeclared": Change(of_outputs(floats(lambda each: each.bfloat16().float())), WITH_FLOATS),
    "wrong from call 101 on": Change(_counting(lambda number: number > 100)),
    "wrong once in 50 calls": Change(_counting(lambda number: number % 50 == 0)),
    "wrong once in 1,000 calls": Change(_counting(lambda number: number % 1000 == 0)),
    "inputs shared by threads": Change(_shared),
    "gaps in memory ignored": Change(_without_gaps, is_new=True),
    "int32 or float64": Change(
        of_outputs(lambda each: each.double() if each.is_floating_point() else each.int())
    ),
    "keys renamed": Change(_renamed, ("decoder", "detector")),
    "floats no larger than in the first inputs": Change(
        _as_first(inputs=True), ("classifier", "recommender", "audio", "siamese", "segmenter")
    ),
    "tokens no larger than in the first inputs": Change(
        _as_first(inputs=True), ("text", "decoder", "tagger")
    ),
    # written after the checks
    "outputs of the call before": Change(_lagging, is_new=True),
    "items in reverse order": Change(of_outputs(lambda each: each.flip(0)), is_new=True),
    "wrong in other threads": Change(_own_thread, is_new=True),
    "wrong after a call of another size": Change(_confused, is_new=True),
    "outputs no larger than in the first call": Change(_as_first(inputs=False), WITH_FLOATS, is_new=True),
    "weights in float16": Change(of_weights(_in_float16), WITH_FLOATS, is_new=True),
    "one weight lost": Change(of_weights(_lose_a_weight), is_new=True),
    "two rows of weights swapped": Change(of_weights(_swap_rows), is_new=True),
    "a thousandth of noise": Change(
        of_outputs(floats(lambda each: each + 1e-3 * each.std() * torch.randn_like(each))),
        WITH_FLOATS,
        is_new=True,
    ),
    "three decimals": Change(
        of_outputs(floats(lambda each: each.round(decimals=3))), WITH_FLOATS, is_new=True
    ),
    "items leak into each other": Change(
        of_outputs(floats(lambda each: each + 1e-3 * each.mean(0, keepdim=True))), WITH_FLOATS, is_new=True
    ),
    "a tensor for a tuple's": Change(
        lambda module: lambda *given: next(iter(module(*given))), ("tagger", "siamese"), is_new=True
    ),
    "one more dimension": Change(of_outputs(lambda each: each.unsqueeze(0)), is_new=True),
    "wrong in batches above 16": Change(_in_batches_to(16), is_new=True),
    "NaN in, zeros out": Change(
        of_inputs(lambda *given: [each.nan_to_num() for each in given]), ("classifier", "audio"), is_new=True
    ),
    # of images
    "batch norm in training mode": Change(lambda module: module.train(), ("classifier",)),
    "another eps": Change(
        of_weights(_set((nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm), eps=1e-3)),
        ("classifier", "text", "siamese"),
    ),
    "colours in reverse": Change(of_inputs(lambda x: [x.flip(1)]), ("classifier", "segmenter"), is_new=True),
    "rows for columns": Change(
        of_inputs(lambda *x: [each.transpose(-1, -2) for each in x]), ("classifier", "siamese"), is_new=True
    ),
    "GELU by tanh": Change(
        with_values(act=lambda x: nn.functional.gelu(x, approximate="tanh")), ("classifier",), is_new=True
    ),
    "edges counted in the mean": Change(
        of_weights(_set(nn.AvgPool2d, count_include_pad=False)), ("classifier",), is_new=True
    ),
    "variance of a sample": Change(
        of_weights(_scaled("norm.running_var", 4 / 3.99)), ("classifier",), is_new=True
    ),
    "corners aligned": Change(
        with_values(how={"mode": "bilinear", "align_corners": True}), ("segmenter",), is_new=True
    ),
    "nearest for bilinear": Change(with_values(how={"mode": "nearest"}), ("segmenter",), is_new=True),
    "a pixel late": Change(of_outputs(lambda each: each.roll(1, -1)), ("segmenter",), is_new=True),
    "images in 8 bits": Change(of_inputs(lambda x: [(x * 255).round() / 255]), ("detector",), is_new=True),
    "boxes within 600": Change(_columns(slice(0, 4), lambda x: x.clamp(max=600)), ("detector",), is_new=True),
    "scores zero": Change(_columns(4, torch.zeros_like), ("detector",)),
    "scores of other boxes": Change(_columns(4, lambda x: x.roll(1, -1)), ("detector",), is_new=True),
    "scores 2 % too high": Change(_columns(4, lambda x: x * 1.02), ("detector",), is_new=True),
    "scores zero, in float16": Change(_columns(4, torch.zeros_like), ("detector",), "float16"),
    "sides swapped": Change(with_values(swaps=True), ("siamese",), is_new=True),
    "one side for both": Change(of_inputs(lambda one, other: [one, one]), ("siamese",), is_new=True),
    # of text
    "mask ignored": Change(with_values(masks=False), ("text",)),
    "padding in the mean": Change(with_values(weighs=False), ("text",), is_new=True),
    "places from one": Change(with_values(offset=1), ("text",), is_new=True),
    "scores not scaled": Change(with_values(scale=1.01), ("text",), is_new=True),
    "softmax over queries": Change(with_values(axis=-2), ("text",), is_new=True),
    "a head lost": Change(with_values(heads=1), ("text",), is_new=True),
    "padding has a meaning": Change(of_weights(_mean_padding), ("text",), is_new=True),
    "tokens above 150 unknown": Change(
        of_inputs(lambda x, m: [torch.where(x > 150, 1, x), m]), ("text",), is_new=True
    ),
    "tokens above 110 unknown": Change(
        of_inputs(lambda x: [torch.where(x > 110, 1, x)]), ("decoder",), is_new=True
    ),
    "eight tokens at most": Change(of_inputs(lambda x, m: [x[:, :8], m[:, :8]]), ("text",), is_new=True),
    "the future seen": Change(with_values(causal=False), ("decoder",), is_new=True),
    "a window of 16": Change(with_values(most=16), ("decoder",), is_new=True),
    "filled up to the first length": Change(_padded_to(24), ("decoder",), is_new=True),
    "next token of the place before": Change(
        lambda module: lambda x: {**(made := module(x)), "next": made["logits"][:, -2].argmax(-1)},
        ("decoder",),
        is_new=True,
    ),
    "lengths ignored": Change(with_values(heeds=False), ("tagger",), is_new=True),
    "tags one place late": Change(
        lambda module: lambda *given: (module(*given)[0].roll(1, 1), module(*given)[1]),
        ("tagger",),
        is_new=True,
    ),
    # of others
    "counts no larger than 50": Change(with_values(most=50.0), ("recommender",), is_new=True),
    "places beyond 500 unknown": Change(
        of_inputs(lambda x, c: [torch.where(x > 500, 0, x), c]), ("recommender",), is_new=True
    ),
    "places of the last table from one": Change(
        of_inputs(lambda x, c: [(x + torch.tensor([0, 0, 1])) % torch.tensor([1000, 50, 50]), c]),
        ("recommender",),
        is_new=True,
    ),
    "logits for shares": Change(of_outputs(torch.logit), ("recommender",), is_new=True),
    "no window": Change(of_weights(_no_window), ("audio",), is_new=True),
    "amplitude for power": Change(with_values(power=1), ("audio",), is_new=True),
    "another floor of the logarithm": Change(with_values(floor=1e-3), ("audio",), is_new=True),
    "a frame late": Change(of_outputs(lambda each: each.roll(1, -1)), ("audio",), is_new=True),
    "quiet sounds lost": Change(
        of_inputs(lambda x: [torch.where(x.abs() < 1e-2, 0.0, x)]), ("audio",), is_new=True
    ),
    "not a number of zeros": Change(
        _without_zeros, ("classifier", "audio", "siamese", "speaker", "weather"), is_new=True
    ),
    "ends where the first one did": Change(_no_longer, ("decoder", "audio", "graph"), is_new=True),
    # of kinds that are newer than the checks
    "classes zero": Change(_rows_at(slice(4, None), torch.zeros_like), ("rows",), is_new=True),
    "the last class lost": Change(_rows_at(9, torch.zeros_like), ("rows",), is_new=True),
    "scores in 7 bits": Change(
        _rows_at(slice(4, None), lambda x: (x * 127).round() / 127), ("rows",), is_new=True
    ),
    "scores of the next place": Change(
        _rows_at(slice(4, None), lambda x: x.roll(1, -1)), ("rows",), is_new=True
    ),
    "width for height": Change(_rows_at([2, 3], lambda x: x.flip(1)), ("rows",), is_new=True),
    "scores 1 % too low": Change(_rows_at(slice(4, None), lambda x: x * 0.99), ("rows",), is_new=True),
    "classes zero, in int8": Change(
        _rows_at(slice(4, None), torch.zeros_like), ("rows",), "int8", is_new=True
    ),
    "the source as long as the target": Change(
        of_inputs(lambda x, y: [x[:, : y.shape[1]], y]), ("translator",), is_new=True
    ),
    "the source unseen": Change(with_values(crossed=False), ("translator",), is_new=True),
    "what is not written yet seen": Change(with_values(causal=False), ("translator",), is_new=True),
    "padding of the source seen": Change(with_values(padded=False), ("translator",), is_new=True),
    "tokens of the source above 60 unknown": Change(
        of_inputs(lambda x, y: [x.clamp(max=60), y]), ("translator",), is_new=True
    ),
    "ranks 2 and 3 swapped": Change(_of("places", lambda x: x[:, [0, 2, 1, 3, 4]]), ("search",), is_new=True),
    "ranks 2 and 3 swapped, in bfloat16": Change(
        _of("places", lambda x: x[:, [0, 2, 1, 3, 4]]), ("search",), "bfloat16", is_new=True
    ),
    "places from one, of ranks": Change(_of("places", lambda x: x + 1), ("search",), is_new=True),
    "near always": Change(_of("near", torch.ones_like), ("search",), is_new=True),
    "near never, in int8": Change(_of("near", torch.zeros_like), ("search",), "int8", is_new=True),
    "a number for a bool": Change(_of("near", torch.Tensor.long), ("search",), is_new=True),
    "half of the store lost": Change(
        of_weights(lambda module: module.state_dict()["stored"][200:].zero_()), ("search",), is_new=True
    ),
    "state that goes on": Change(_goes_on, ("forecaster",), is_new=True),
    "a first state of ones": Change(with_values(first=1.0), ("forecaster",), is_new=True),
    "width zero": Change(_of(1, torch.zeros_like), ("forecaster",), is_new=True),
    "h for c": Change(
        lambda module: lambda *x: (*module(*x)[:2], *reversed(module(*x)[2:])), ("forecaster",), is_new=True
    ),
    "scales no larger than 6": Change(
        of_inputs(lambda x, y: [x, y.clamp(max=6)]), ("forecaster",), is_new=True
    ),
    "the last twelve steps only": Change(
        of_inputs(lambda x, y: [torch.cat([x[:, :-12] * 0, x[:, -12:]], 1), y]), ("forecaster",), is_new=True
    ),
    "edges all there": Change(of_inputs(lambda x, y: [x, torch.ones_like(y)]), ("graph",), is_new=True),
    "edges the other way": Change(with_values(turns=True), ("graph",), is_new=True),
    "no loops": Change(with_values(loops=False), ("graph",), is_new=True),
    "cut for rounded": Change(with_values(rounds=False), ("enhancer",), is_new=True),
    "one brighter": Change(with_values(lift=1.0), ("enhancer",), is_new=True),
    "one brighter, in float16": Change(with_values(lift=1.0), ("enhancer",), "float16", is_new=True),
    "bytes that wrap": Change(of_outputs(lambda x: x + 8), ("enhancer",), is_new=True),
    "floats for bytes": Change(of_outputs(torch.Tensor.float), ("enhancer",), is_new=True),
    "5 of 100 bytes far off, in float16": Change(
        of_outputs(_bytes_off(0.05)), ("enhancer",), "float16", is_new=True
    ),
    "steps above 500 as 500": Change(
        of_inputs(lambda x, y, z: [x, y.clamp(max=500), z]), ("denoiser",), is_new=True
    ),
    "one step for all": Change(
        of_inputs(lambda x, y, z: [x, y[:1].expand_as(y), z]), ("denoiser",), is_new=True
    ),
    "the text unheard": Change(with_values(hears=False), ("denoiser",), is_new=True),
    "mask of bools ignored": Change(with_values(heeds=False), ("masker",), is_new=True),
    "mask in reverse": Change(of_inputs(lambda x, y, z: [x, y, z.flip(1)]), ("masker",), is_new=True),
    "types ignored": Change(with_values(typed=False), ("masker",), is_new=True),
    "types all zero": Change(of_inputs(lambda x, y, z: [x, y * 0, z]), ("masker",), is_new=True),
    "dropout of a thousandth": Change(with_values(drops=1e-3), ("masker",), is_new=True),
    "dropout once in 40 calls": Change(_dropping, ("rows", "forecaster", "masker"), is_new=True),
    "outputs of the first from call 151 on": Change(_first_from(150), SINCE, is_new=True),
    "inputs of all threads in one buffer": Change(_in_one_buffer, SINCE, is_new=True),
    "a branch of the values frozen": Change(_frozen_branch, ("graph", "forecaster"), is_new=True),
    # of six kinds that were written to find what passes wrongly: nine of these eleven had passed
    "a mask of lengths: padding in front lost": Change(
        with_values(as_lengths=True), ("writer",), is_new=True
    ),
    "padding in front counted": Change(with_values(counts=False), ("writer",), is_new=True),
    "banned tokens allowed": Change(with_values(bans=False), ("writer",), is_new=True),
    "all moves allowed": Change(with_values(heeds=False), ("player",), is_new=True),
    "the best of all moves": Change(
        lambda module: lambda x, y: (*module(x, y)[:2], module(x, torch.ones_like(y))[2]),
        ("player",),
        is_new=True,
    ),
    "changes 5 % too small": Change(with_values(share=0.95), ("weather",), is_new=True),
    "weekdays above 1 unknown": Change(with_values(latest=1), ("calendar",), is_new=True),
    "scales no larger than 7.5": Change(
        of_inputs(lambda x, y, z: [x, y, z.clamp(max=7.5)]), ("guided",), is_new=True
    ),
    "noise no larger than 2": Change(
        of_inputs(lambda x, y, z: [x, y.clamp(max=2), z]), ("guided",), is_new=True
    ),
    "another eps in quiet sounds": Change(
        of_weights(_set(nn.GroupNorm, eps=1e-5)), ("speaker",), is_new=True
    ),
    "faint sounds lost": Change(
        of_inputs(lambda x: [torch.where(x.abs() < 2e-3, 0.0, x)]), ("speaker",), is_new=True
    ),
    # of fourteen kinds that were written to find what passes wrongly: nine of these had passed
    "ranks in reverse": Change(of_outputs(lambda x: x.flip(1)), ("ranker",), is_new=True),
    "neighbours in a ranking swapped": Change(
        of_outputs(lambda x: x.unflatten(1, (-1, 2)).flip(2).flatten(1)), ("ranker",), is_new=True
    ),
    "ranks behind the 280th in reverse": Change(of_outputs(_behind(280)), ("ranker",), is_new=True),
    "ranks behind the 150th in reverse, in int8": Change(
        of_outputs(_behind(150)), ("ranker",), "int8", is_new=True
    ),
    "the best in reverse": Change(_of("best", lambda x: x.flip(1)), ("chooser",), is_new=True),
    "the best in reverse, in int8": Change(
        _of("best", lambda x: x.flip(1)), ("chooser",), "int8", is_new=True
    ),
    "places of the next value": Change(_of(1, lambda x: x.roll(1, 1)), ("sorter",), is_new=True),
    "places of the next value, in int8": Change(
        _of(1, lambda x: x.roll(1, 1)), ("sorter",), "int8", is_new=True
    ),
    "places in int32": Change(_of(1, torch.Tensor.int), ("sorter",), is_new=True),
    "causal, whatever the mask": Change(with_values(mask="causal"), ("attender",), is_new=True),
    "causal, whatever the mask, in bfloat16": Change(
        with_values(mask="causal"), ("attender",), "bfloat16", is_new=True
    ),
    "all seen, whatever the mask": Change(with_values(mask="all"), ("attender",), is_new=True),
    "a mask that is added ignored": Change(with_values(mask="none"), ("biased",), is_new=True),
    "a mask that is added as bools": Change(with_values(mask="bools"), ("biased",), is_new=True),
    "padding of bools ignored": Change(of_inputs(lambda x, m: [x, m & False]), ("padded",), is_new=True),
    "padding of bools in reverse": Change(of_inputs(lambda x, m: [x, m.flip(1)]), ("padded",), is_new=True),
    "the first item's mask for all": Change(
        of_inputs(lambda x, m: [x, m[:1].expand_as(m)]), ("single",), is_new=True
    ),
    "what any item masks masked for all": Change(
        of_inputs(lambda x, m: [x, m.amin(0, keepdim=True).expand_as(m)]), ("single",), is_new=True
    ),
    "rows above 60 unknown": Change(
        of_inputs(lambda x: [torch.where(x > 60, 1, x)]), ("bare", "onehot"), is_new=True
    ),
    "the last row unknown": Change(of_inputs(lambda x: [x.clamp(max=98)]), ("bare", "onehot"), is_new=True),
    "places above 200 of the first table unknown": Change(
        _column(0, lambda x: torch.where(x > 200, 0, x)), ("clicks",), is_new=True
    ),
    "places above 50 of the second table unknown": Change(
        _column(1, lambda x: torch.where(x > 50, 0, x)), ("clicks",), is_new=True
    ),
    "complex numbers no larger than in the first call": Change(
        of_inputs(lambda x: [torch.complex(x.real.clamp(-3, 3), x.imag.clamp(-3, 3))]),
        ("spectra",),
        is_new=True,
    ),
    "faint lines lost": Change(of_inputs(lambda x: [x * (x.abs() > 0.02)]), ("spectra",), is_new=True),
    "the conjugate": Change(of_inputs(lambda x: [x.conj().resolve_conj()]), ("spectra",), is_new=True),
    "never sure, in int8": Change(
        _column(2, torch.zeros_like, of_outputs=True), ("pose",), "int8", is_new=True
    ),
    "how sure other points are, in bfloat16": Change(
        _column(2, lambda x: x.roll(1, 1), of_outputs=True), ("pose",), "bfloat16", is_new=True
    ),
    "sounds cut off at 20,000": Change(
        of_inputs(lambda x: [x.clamp(-20_000, 20_000)]), ("recorder",), is_new=True
    ),
    "not a number of silence": Change(_no_silence, ("recorder",), is_new=True),
    "a flag ignored": Change(_column(2, torch.zeros_like), ("tabular",), is_new=True),
    "rates all the same": Change(_column(3, lambda x: x * 0 + 0.02), ("tabular",), is_new=True),
    "nobody above 60": Change(_column(0, lambda x: x.clamp(max=60)), ("tabular",), is_new=True),
    "wrong once in 37 calls": Change(_counting(lambda number: number % 37 == 0), models.LATEST, is_new=True),
    "wrong in the third of several threads": Change(_in_thread(2), models.LATEST, is_new=True),
    "the first of several threads' calls zero": Change(_first_in_thread, models.LATEST, is_new=True),
    # in lower precision
    **{
        f"{share} of 100 labels wrong, in {precision}": Change(
            _wrong_labels(share / 100), WITH_LABELS, precision
        )
        for share, precision in ((5, "float16"), (24, "bfloat16"), (39, "int8"))
    },
    "zeros, in int8": Change(of_outputs(torch.zeros_like), (), "int8"),
    "mask ignored, in int8": Change(with_values(masks=False), ("text",), "int8", is_new=True),
    "one item for its neighbour, in int8": Change(
        of_outputs(lambda each: torch.cat([each[:1], each[:-1]])), (), "int8", is_new=True
    ),
    "largest to infinity, in float16": Change(
        of_outputs(floats(lambda each: torch.where(each == each.max(), float("inf"), each))),
        WITH_FLOATS,
        "float16",
        is_new=True,
    ),
    "half of the outputs' size, in int8": Change(
        of_outputs(floats(lambda each: each / 2)), WITH_FLOATS, "int8", is_new=True
    ),
    "two classes swapped, in int8": Change(
        of_outputs(lambda each: each[:, [1, 0, *range(2, each.shape[1])]]),
        ("classifier",),
        "int8",
        is_new=True,
    ),
    "scaled by 1.04 in bfloat16": Change(
        of_outputs(floats(lambda each: each * 1.04)), ("classifier", "text"), "bfloat16", is_new=True
    ),
    "one class of ten never told, in int8": Change(
        of_outputs(lambda each: torch.cat([each[:, :9], each[:, 9:] - 0.3 * each.std()], 1)),
        ("classifier",),
        "int8",
        is_new=True,
    ),
}


def _in_double(module: Any) -> Model:
    double = module.double()

    def call(*given: Tensor) -> Any:
        made = double(*(each.double() if each.is_floating_point() else each for each in given))
        return mapped(floats(Tensor.float), made)

    return call


def _autocast(dtype: torch.dtype) -> Callable[[Any], Model]:
    def make(module: Any) -> Model:
        def call(*given: Tensor) -> Any:
            with torch.autocast("cpu", dtype):
                return mapped(floats(Tensor.float), module(*given))

        return call

    return make


def _in_parts(size: int, module: Any) -> Model:
    """Calls of so many items at once, put together again."""

    def call(*given: Tensor) -> Any:
        own = [each.ndim > 0 and len(each) == len(given[0]) for each in given]
        cut = lambda at: (x[at : at + size] if has else x for x, has in zip(given, own, strict=True))  # noqa: E731
        parts = [module(*cut(at)) for at in range(0, len(given[0]), size)]
        if isinstance(parts[0], dict):
            return {key: torch.cat([each[key] for each in parts]) for key in parts[0]}
        if isinstance(parts[0], tuple):
            return tuple(map(torch.cat, zip(*parts, strict=True)))
        return torch.cat(parts)

    return call


def _filled_batch(module: Any) -> Model:
    """Batches of eight, the last item repeated."""

    def call(*given: Tensor) -> Any:
        size = len(given[0])
        more = max(0, 8 - size)
        own = [each.ndim > 0 and len(each) == size for each in given]
        both = zip(given, own, strict=True)
        full = [torch.cat([x, x[-1:].expand(more, *x.shape[1:])]) if has else x for x, has in both]
        return mapped(lambda each: each[:size].clone(), module(*full))

    return call


def _without_onednn(module: Any) -> Model:
    def call(*given: Tensor) -> Any:
        with torch.backends.mkldnn.flags(enabled=False):
            return module(*given)

    return call


def _exported(module: Any) -> Model:
    graphs: dict[Any, Any] = {}

    def call(*given: Tensor) -> Any:
        shapes = tuple(each.shape for each in given)
        if shapes not in graphs:
            graphs[shapes] = torch.export.export(module, given).module()
        return graphs[shapes](*given)

    return call


def _frozen(module: Any) -> Model:
    traced: dict[Any, Any] = {}

    def call(*given: Tensor) -> Any:
        shapes = tuple(each.shape for each in given)
        if shapes not in traced:
            traced[shapes] = torch.jit.freeze(torch.jit.trace(module, given, strict=False))
        return traced[shapes](*given)

    return call


def _in_int8(module: Any) -> Model:
    """Weights with a scale for each output channel, as runtimes narrow them."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv1d | nn.Conv2d):
            scale = part.weight.detach().flatten(1).abs().amax(1).clamp(min=1e-9).div(127)
            scale = scale.view(-1, *[1] * (part.weight.ndim - 1))
            part.weight.data = (part.weight.data / scale).round() * scale
    return module


def _inference(module: Any) -> Model:
    def call(*given: Tensor) -> Any:
        with torch.inference_mode():
            return module(*given)

    return call


def _one_at_a_time(module: Any) -> Model:
    lock = threading.Lock()

    def call(*given: Tensor) -> Any:
        with lock:
            return module(*given)

    return call


def _in_last_bits(module: Any) -> Model:
    """Other last bits, the same for the same inputs."""

    def change(each: Tensor) -> Tensor:
        dice = torch.Generator().manual_seed(each.numel())
        return each * (1 + 1e-7 * torch.randn(each.shape, generator=dice))

    return lambda *given: mapped(floats(change), module(*given))


def _compiled(module: Any) -> Model:
    made = torch.compile(module, dynamic=True)
    return lambda *given: made(*given)


def _copied(module: Any) -> Model:
    """Outputs that share memory with nothing."""
    return lambda *given: mapped(lambda each: each.contiguous().clone(), module(*given))


def _decomposed(module: Any) -> Model:
    graphs: dict[Any, Any] = {}

    def call(*given: Tensor) -> Any:
        shapes = tuple(each.shape for each in given)
        if shapes not in graphs:
            exported = torch.export.export(module, given, strict=False)
            graphs[shapes] = exported.run_decompositions().module()
        return graphs[shapes](*given)

    return call


def _in_last_bits_of_inputs(module: Any) -> Model:
    """What a sum in another order does to floats that go in."""

    def change(each: Tensor) -> Tensor:
        return each * (1 + 1e-7 * torch.randn(each.shape, generator=torch.Generator().manual_seed(1)))

    return lambda *given: module(*map(floats(change), given))


def _by_torch(module: Any) -> Model:
    """Attention by the function of torch."""

    def call(x: Tensor, mask: Tensor) -> Tensor:
        heads = 2 if mask.ndim == 4 else 1
        q, k, v = (each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in module.qkv(x).chunk(3, -1))
        mask = mask if mask.ndim == 4 else mask[:, None]
        made = nn.functional.scaled_dot_product_attention(q, k, v, mask, scale=q.shape[-1] ** -0.5)
        return module.out(made.transpose(1, 2).flatten(2))

    return call


def _without_scaling(module: Any) -> Model:
    """Means and widths of the columns folded into the first layer."""
    weight = module.one.weight.double() / module.width.double()
    bias = module.one.bias.double() - weight @ module.mean.double()
    return lambda x: module.two(nn.functional.linear(x, weight.float(), bias.float()).relu())


def _own_copies(module: Any) -> Model:
    """A model for each thread."""
    own = threading.local()

    def call(*given: Tensor) -> Any:
        vars(own).setdefault("model", None)
        own.model = own.model or copy.deepcopy(module)
        return own.model(*given)

    return call


def _by_another_thread(module: Any) -> Model:
    """One thread makes the calls of all."""
    worker = ThreadPoolExecutor(1, initializer=torch.set_grad_enabled, initargs=(False,))
    return lambda *given: worker.submit(module, *given).result()


def _without_gradients(make: Callable[[Any], Model]) -> Callable[[Any], Model]:
    """In each thread."""
    return lambda module: torch.no_grad()(make(module))


SOUND: dict[str, Change] = {
    "the model itself": Change(lambda module: module),
    "inference mode": Change(_inference),
    "in double precision": Change(_in_double, ONE_TYPE),
    "item by item": Change(partial(_in_parts, 1)),
    "batches filled up": Change(_filled_batch),
    "without oneDNN": Change(_without_onednn),
    "a graph of torch.export": Change(_exported),
    "TorchScript, frozen": Change(
        _frozen, ("classifier", "text", "detector", "audio", "siamese", "segmenter")
    ),
    "channels last": Change(
        lambda module: (
            lambda *x: module.to(memory_format=torch.channels_last)(
                *(each.contiguous(memory_format=torch.channels_last) for each in x)
            )
        ),
        IMAGES,
    ),
    "keys in another order": Change(
        lambda module: lambda *x: dict(reversed(module(*x).items())),
        ("decoder", "detector", "search", "masker"),
    ),
    "autocast to bfloat16": Change(_autocast(torch.bfloat16), NOT_LABELS, "bfloat16"),
    "autocast to float16": Change(  # a mask of -1e9 is no number of float16
        _autocast(torch.float16),
        tuple(each for each in NOT_LABELS if each not in ("text", "decoder", "translator")),
        "float16",
    ),
    "weights in int8": Change(_in_int8, NOT_LABELS, "int8"),
    "two items at a time": Change(partial(_in_parts, 2)),
    "one thread at a time": Change(_one_at_a_time),
    "other last bits": Change(_in_last_bits),
    "compiled by Inductor": Change(_compiled, ("rows", "graph", "enhancer")),
    "outputs copied": Change(_copied),
    "decomposed into simpler operators": Change(_decomposed),
    "the source filled up": Change(
        of_inputs(lambda x, y: [nn.functional.pad(x, (0, 5)), y]), ("translator",)
    ),
    "edges as numbers": Change(of_inputs(lambda x, y: [x, y.float()]), ("graph",)),
    "a mask of numbers": Change(of_inputs(lambda x, y, z: [x, y, z.long() > 0]), ("masker",)),
    "other last bits of inputs": Change(_in_last_bits_of_inputs, models.LATEST),
    "attention by torch": Change(_by_torch, ("attender", "biased")),
    "a stable sort": Change(
        lambda module: (
            lambda x: (module.body(x).tanh() @ module.items.T).sort(dim=-1, descending=True, stable=True)[1]
        ),
        ("ranker",),
    ),
    "the best by a sort": Change(
        lambda module: (
            lambda x: {"best": (scores := module.body(x)).argsort(-1, True)[:, :10], "scores": scores}
        ),
        ("chooser",),
    ),
    "rows by another function": Change(
        lambda module: lambda x: module.head(nn.functional.embedding(x, module.rows).mean(1)), ("bare",)
    ),
    "rows of weights for ones": Change(
        lambda module: lambda x: module.head.weight.T[x].mean(1) + module.head.bias, ("onehot",)
    ),
    "real numbers side by side": Change(
        lambda module: lambda x: module.head(torch.view_as_real(x).mT.flatten(1).tanh()), ("spectra",)
    ),
    "scales folded into weights": Change(_without_scaling, ("tabular",)),
    "a mask of floats": Change(of_inputs(lambda x, m: [x, m.float()]), ("single",)),
    "a model for each thread": Change(_own_copies, models.LATEST),
    "calls by a thread of its own": Change(_by_another_thread, models.LATEST),
    "places where values tie, in bfloat16": Change(
        _without_gradients(_autocast(torch.bfloat16)), ("chooser", "sorter"), "bfloat16"
    ),
    "places where values tie, in int8": Change(_in_int8, ("chooser", "sorter"), "int8"),
    "bfloat16 behind masks": Change(
        _without_gradients(_autocast(torch.bfloat16)),
        ("attender", "biased", "padded", "single", "pose", "recorder"),
        "bfloat16",
    ),
    "int8 behind masks": Change(
        _in_int8, ("attender", "biased", "padded", "single", "pose", "recorder"), "int8"
    ),
}


def main(asked: Namespace, figures: Figures) -> int:
    """Print both tables; 1 when a harm passed that should not, or a sound change failed."""
    kinds = asked.kinds.split(",")
    arm_process.SECONDS = PATIENCE
    rows: dict[str, dict[str, str]] = figures.again("answers", {})
    for name, change in {**HARMS, **SOUND}.items():
        every = models.KINDS if name in HARMS else (*models.KINDS, *models.LATEST)
        of = [each for each in change.kinds or every if each in kinds]
        for kind in of if asked.harms in name else ():
            if kind in rows.get(name, {}):
                continue
            arm_process.CALLS = MANY if "call" in name or "threads" in name else FEW
            told = gate(kind, change)
            word = told.word
            if name in HARMS and name not in OUT_OF_REACH and word == "passed" and not shows(kind, change):
                word = "shows in nothing"
            first = next((each.name for each in told.checks if str(each.outcome) == "broken"), "")
            rows.setdefault(name, {})[kind] = f"{word}: {first}" if first else word
            figures.keep()
            if asked.verbose:
                print(f"{name}, {kind}: {word}: {told.reason}", flush=True)
    return int(not shown(rows))


def shown(rows: dict[str, dict[str, str]]) -> bool:
    """Print what was found; whether it is as it should be."""
    counts = [_counted(rows, HARMS, new=False), _counted(rows, HARMS, new=True), _counted(rows, SOUND)]
    titles = ("harms", "harms written after the checks", "sound changes")
    table(
        ("", "kinds of change", "changes of a model", "failed", "undecided", "passed"),
        [(title, *map(str, each)) for title, each in zip(titles, counts, strict=True)],
    )
    wrong = [
        f"{name}, {kind}: {word}"
        for name, by_kind in rows.items()
        for kind, word in by_kind.items()
        if (word == "passed" and name in HARMS and name not in OUT_OF_REACH)
        or (word.startswith("failed") and name in SOUND)
    ]
    for line in wrong:
        print(f"\nwrong: {line}")
    passed = [name for name in OUT_OF_REACH if "passed" in rows.get(name, {}).values()]
    for name in passed:
        print(f"\nout of reach: {name}: {OUT_OF_REACH[name]}")
    return not wrong


def _counted(
    rows: dict[str, dict[str, str]], changes: dict[str, Change], *, new: bool | None = None
) -> tuple[int, ...]:
    asked = {
        name: [word.split(":")[0] for word in rows[name].values() if word != "shows in nothing"]
        for name, change in changes.items()
        if name in rows and name not in OUT_OF_REACH and new in (None, change.is_new)
    }
    words = [word for each in asked.values() for word in each]
    return len(asked), len(words), *(words.count(each) for each in ("failed", "undecided", "passed"))


if __name__ == "__main__":
    run(
        main,
        "Harm done to models",
        option("--kinds", default=",".join((*models.KINDS, *models.LATEST)), help="kinds of model"),
        option("--harms", default="", metavar="TEXT", help="those whose name holds it"),
        option("--verbose", action="store_true", help="each answer with its reason"),
    )
