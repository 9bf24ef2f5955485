"""Is it the same model? Parameters and FLOPs of one architecture in several frameworks, before any speed.

    same architecture   one target run by several backends, or targets whose names differ in spelling only
    one file            the same bytes are the same model, whatever each framework makes of them and counts
    parameters          trainable ones if both tell them, else all; running statistics are counted as
                        parameters by some frameworks and not by others, so either sum may agree
    FLOPs               per item; frameworks count differently (elementwise operations or products only), so
                        they agree within 5 %, and the counters are named if they do not

Lies when: two models of one name differ in what neither number shows (strides, activations, epsilon)."""

import re
from typing import NamedTuple

from laptime.kit.registry import names
from laptime.kit.units import percent, show
from laptime.records.case import Case
from laptime.records.check import Finding

TOLERANCE = 0.05  # relative difference of FLOPs that counters of two frameworks make of one model


class Size(NamedTuple):
    """The known size of a model. None if the backend does not report it."""

    # trainable, every: parameters
    trainable: float | None
    every: float | None
    held: float | None  # every parameter and buffer element
    flops: float | None  # of one item
    counter: str  # what counted them
    at_least: bool = False  # not all of them could be counted
    file: str = ""  # hash of the model's file; "" if it is made by code


def plain(name: str) -> str:
    """A model's name without what spelling changes: `EfficientNetB0` and `efficientnet_b0` are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def architecture(target: str) -> str:
    """The name that one model has in all frameworks: what stands behind `kind:`, or the whole target."""
    kind, _, name = target.partition(":")
    return plain(name) if kind in names("targets") and kind != "null" else target


def work_of(case: Case) -> tuple[object, ...]:
    """Return the axes that set a language model's work; a case with other work is never faster."""
    return tuple(case.axes.get(name) for name in ("phase", "prompt", "output"))


def same_models(cases: list[Case]) -> list[Finding]:
    """A finding for each further framework that runs an architecture: the same model, or how it differs."""
    groups: dict[str, dict[tuple[str, str], list[Case]]] = {}
    for case in cases:
        members = groups.setdefault(architecture(case.target), {})
        members.setdefault((case.target, backend_of(case)), []).append(case)
    findings = []
    for group in groups.values():
        told = [(members[0], size) for members in group.values() if (size := _size(members))]
        findings += [_compare(case, size, *told[0]) for case, size in told[1:]]
    return findings


def backend_of(case: Case) -> str:
    """The framework that ran it."""
    return str(case.axes.get("backend", "torch"))


def _size(cases: list[Case]) -> Size | None:
    """Return the size of the first case that has one."""
    for case in cases:
        values = {series.metric.tag: series.samples[0] for series in case.series if series.samples}
        every, flops = values.get("params/all"), values.get("flops")
        if every is None and flops is None:
            continue
        held = None if every is None else every + values.get("buffers/all", 0.0)
        receipt, model = case.details.receipt, case.details.known_model
        return Size(
            trainable=values.get("params/trainable"),
            every=every,
            held=held,
            flops=None if flops is None else flops / case.batch,
            counter=receipt.counter,
            at_least=not receipt.complete,
            file=model.sha256 if model.is_file else "",  # what code makes may be another one each time
        )
    return None


def _compare(case: Case, size: Size, reference: Case, theirs: Size) -> Finding:
    who, other = (f"{each.target} in {backend_of(each)}" for each in (case, reference))
    parameters, alike = _parameters(size, theirs)
    work, worked = _work(size, theirs)
    if size.file and size.file == theirs.file:
        alike, worked = True, None
        parameters = f"one file; {parameters}" if parameters.endswith("in both") else "one file"
    kind, lead, reason = "model/same", f"{who} is the same model as {other}", ""
    if alike is False or worked is False:
        kind, lead = "model/differs", f"{who} is not the same model as {other}"
        reason = "; so their speeds differ for that reason, too"
    elif alike is worked is None:
        kind, lead = "model/unknown", f"it is not clear whether {who} is the same model as {other}"
    return Finding(
        kind=kind,
        sentence=f"{lead}: {parameters}; {work}{reason}",
        evidence={"ours": size._asdict(), "reference": theirs._asdict()},
        cases=[case.key, reference.key],
    )


def _parameters(ours: Size, theirs: Size) -> tuple[str, bool | None]:
    if ours.every is None or theirs.every is None:
        return "parameters not given by both", None
    others = {theirs.trainable, theirs.every, theirs.held}
    for number in (ours.trainable, ours.every, ours.held):
        if number is not None and number in others:
            return f"{number:,.0f} parameters in both", True
    a, b = ours.every, theirs.every
    if ours.trainable and theirs.trainable:
        a, b = ours.trainable, theirs.trainable
    return f"{a:,.0f} parameters against {b:,.0f} ({_relative(a, b)})", False


def _work(ours: Size, theirs: Size) -> tuple[str, bool | None]:
    if not ours.flops or not theirs.flops:
        return "FLOPs not counted by both", None
    a, b = ours.flops, theirs.flops
    if ours.at_least or theirs.at_least:
        # Neither equal nor different numbers prove anything of a count with a hole in it.
        each = [f"{'at least ' * size.at_least}{show(size.flops or 0.0, 'FLOP')}s" for size in (ours, theirs)]
        return f"{each[0]} an item against {each[1]}", None
    text = f"{show(a, 'FLOP')}s an item against {show(b, 'FLOP')}s ({_relative(a, b)})"
    if abs(a / b - 1) <= TOLERANCE:
        return text if a != b else f"{show(a, 'FLOP')}s an item in both", True
    if ours.counter != theirs.counter:
        # No proof of another model: one may count what the other does not.
        return f"{text}, counted by {ours.counter or '?'} and by {theirs.counter or '?'}", None
    return text, False


def _relative(ours: float, theirs: float) -> str:
    change = ours / theirs - 1
    return f"{'+' if change >= 0 else '-'}{percent(abs(change))}"
