"""What a session that tuned a model says besides: its calls, what bounds them, the folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from laptime.analysis import shifting_level, tuned
from laptime.analysis.paired import from_pairs
from laptime.analysis.quantiles import quantile, samples_needed
from laptime.kit.text import count
from laptime.kit.units import percent, show
from laptime.records.bounds import CallBounds, ClassBound
from laptime.records.overview import Ceilings, Work
from laptime.records.quantity import BROKEN, UNDECIDED, Judgement
from laptime.records.tuning import Measured, OutputSameness, TunedModel, Tuning
from laptime.reports import _words
from laptime.reports import document as doc
from laptime.reports.documents.profile import roofline
from laptime.reports.documents.tuning import ladder
from laptime.reports.documents.tuning.ladder import gate_facts, gate_result, questions
from laptime.reports.fields import Field, listed

FORMS = {
    "as_is": "PyTorch, as it is",
    "exported": "a graph of torch.export under PyTorch",
    "packaged": "a package compiled by AOTInductor",
    "packaged_int8": "a package compiled by AOTInductor, in int8",
    "onnx": "ONNX Runtime",
    "onnx_int8": "ONNX Runtime, in int8",
    "onnx_dynamic_int8": "ONNX Runtime, matrix products in int8",
    "openvino": "OpenVINO",
    "openvino_int8": "OpenVINO, in int8",
    "tensorrt": "TensorRT",
}
_QUANTILES = (0.5, 0.9, 0.99)
_COMPARED = "recorded call"
_LIMITS = {"slo": "SLO", "memory": "memory"}
_TITLES = ("as it is", "tuned")
_PROCESSES, _BEYOND = 3, 5
"""Processes, and calls of each beyond a quantile, from which on a process tells one."""
_LEAST = 0.05
"""Shares of a call that a line names, where none has half of it."""


def brief(tuning: Tuning) -> list[tuple[str, str]]:
    """The gate, what bounds a call, what runs the model now, and where it is."""
    assert tuning.model is not None
    rows = [("gate", text)] if (text := gate_result(tuning.gate, _COMPARED)) else []
    return rows + bound(tuning.model) + facts(tuning, tuning.model)


def sections(tuning: Tuning) -> list[doc.Section]:
    """The folder, the gate, the ladder, what bounds a call, what was measured on the way, a call."""
    model = tuning.model
    assert model is not None
    return [
        folder(tuning, model),
        sameness(tuning, model),
        ladder.section(tuning),
        bounds(model),
        served(model),
        calls(tuning, model),
    ]


def calls(tuning: Tuning, model: TunedModel) -> doc.Section:
    """A call before and after: its inputs and quantiles of its time."""
    facts = [("inputs", f"{model.inputs}, {model.origin}"), ("batch", str(model.batch))]
    if model.instructions:
        facts.append(("instructions", ", ".join(model.instructions)))
    if tuning.before is not None and tuning.baseline is None:
        facts.append(("as it is", f"{show(tuning.before.step, 's')} a call"))
    return doc.Section(
        id="calls", title="A call", blocks=[doc.Facts(rows=facts), _latencies(tuning.baseline, tuning.final)]
    )


def _latencies(*measured: Measured | None) -> doc.Table:
    """Quantiles with intervals; one that the samples cannot support is not told."""
    sides = [(name, side) for name, side in zip(_TITLES, measured, strict=True) if side is not None]
    fields = [
        Field("call", lambda each: each[0]),
        *(Field(f"p{round(100 * q)}", partial(_quantile, q), "number") for q in _QUANTILES),
        Field("peak memory", lambda each: doc.number(each[1].peak, "B"), "number"),
    ]
    return listed("latencies", fields, sides)


def _quantile(q: float, each: tuple[str, Measured]) -> doc.Cell:
    """Geometric mean of that of each process where all have it, as the gain is; else of all calls."""
    import numpy as np  # not for `laptime --help`

    processes = [np.array(seconds) for seconds in each[1].samples]
    samples = np.concatenate(processes) if processes else np.array([])
    value, ends = (quantile(samples, q), shifting_level.interval(samples, q)) if len(samples) else (0.0, None)
    if len(processes) >= _PROCESSES and all((1 - q) * len(seconds) >= _BEYOND for seconds in processes):
        effect = from_pairs([math.log(quantile(seconds, q)) for seconds in processes])
        value, ends = math.exp(effect.mean), (math.exp(effect.lower(0.025)), math.exp(effect.upper(0.025)))
    if ends is None:
        needed = f"{samples_needed(q)} independent calls are needed"
        return doc.Cell(text="-", note=f"{needed}, {len(samples)} were timed")
    return doc.number(value, "s", ends)


def sameness(tuning: Tuning, model: TunedModel) -> doc.Section:
    """The gate with its questions, and the errors of each output."""
    fields = [
        Field("output", lambda each: str(each.output + 1)),
        Field("RMS error", _figure("rms"), "number"),
        Field("largest error", _figure("largest"), "number"),
        Field("absolute", _figure("absolute"), "number"),
        Field("cosine", _figure("cosine", ".6f"), "number"),
        Field("top-1 the same", _top1, "number"),
        Field("worst input", lambda each: f"call {each.worst} of {model.calls}" if each.worst else "-"),
    ]
    note = "Errors over the root mean square of the model's own output; the worst of all recorded calls."
    gate, table = tuning.gate, listed("outputs", fields, model.outputs)
    return doc.Section(
        id="same",
        title="Does it compute the same?",
        note=note if model.outputs else "",
        blocks=[doc.Facts(rows=gate_facts(gate, _COMPARED)), table, questions(gate, "questions")],
    )


def _figure(name: str, digits: str = ".2g") -> Callable[[OutputSameness], doc.Cell]:
    return lambda each: doc.Cell(text=format(getattr(each, name), digits), value=getattr(each, name))


def _top1(each: OutputSameness) -> doc.Cell:
    return doc.Cell(text="-" if each.top1 is None else _words.percent(each.top1), value=each.top1)


def served(model: TunedModel) -> doc.Section:
    """What the limits say, and every set that was measured: what no other one beats is on the front."""
    facts = [
        (_LIMITS.get(check.name, "limit"), f"{check.outcome}: {check.sentence}") for check in model.limits
    ]
    points = model.points if len(model.points) > 1 else []
    many = any(point.instances > 1 or point.batch != model.batch for point in points)
    energy = any(point.energy is not None for point in points)
    fields = [
        Field("changes", "label"),
        many and Field("instances", lambda point: str(point.instances), "number"),
        many and Field("batch", lambda point: str(point.batch), "number"),
        Field("a call", lambda point: doc.number(point.latency, "s", point.ci95), "number"),
        Field("per second", lambda point: doc.number(point.throughput, "1/s"), "number"),
        Field("memory", lambda point: doc.number(point.peak, "B"), "number"),
        energy and Field("energy", lambda point: doc.number(point.energy, "J"), "number"),
        bool(model.limits) and Field("limits", lambda point: point.limits or "-"),
        Field("front", lambda point: ("yes" if point.front else "no") + ", chosen" * point.chosen),
    ]
    better = f"a call's median, throughput{', energy' * energy} or memory"
    note = f"Front: no other one is better in {better} without being worse in another."
    return doc.Section(
        id="points",
        title="What was measured on the way",
        note=note if points else "",
        blocks=[doc.Facts(rows=facts), listed("front", fields, points)],
    )


def folder(tuning: Tuning, model: TunedModel) -> doc.Section:
    """What runs the model now, and where it is."""
    return doc.Section(id="folder", title="The folder", blocks=[doc.Facts(rows=facts(tuning, model))])


def facts(tuning: Tuning, model: TunedModel) -> list[tuple[str, str]]:
    """What runs the model now, and where it is, as rows."""
    rows = [("runs as", FORMS.get(model.form, model.form))] if tuning.recipe else []
    rows += [("takes", model.takes)] if model.takes else []
    if (chosen := model.chosen) and (chosen.instances > 1 or chosen.batch != model.batch):
        each = " each" if chosen.instances > 1 else ""
        threads = f"{count(chosen.threads, 'thread')}{each}"
        rows.append(("setup", f"{count(chosen.instances, 'instance')} of {threads}, batch {chosen.batch}"))
    if model.folder:
        text = f"{model.folder}: tuned.py needs {', '.join(model.needs)}; its load() gives a callable"
        rows.append(("folder", text))
    elif tuning.recipe:
        rows.append(
            ("folder", f"{count(len(tuned.kept(tuning)), 'change')} kept, {_no_folder(tuning, model)}")
        )
    return rows


def _no_folder(tuning: Tuning, model: TunedModel) -> str:
    limits = Judgement.of_all(check.outcome for check in model.limits)
    if limits is BROKEN:
        return "not handed back, as a limit is broken"
    if limits is UNDECIDED:
        return "not handed back, as it is open whether the limits are kept"
    if tuning.gate.word != "passed":
        return "not handed back, as its outputs were not shown to be the model's"
    return "none was asked for: --export FOLDER"


def bound(model: TunedModel) -> list[tuple[str, str]]:
    """`compute 62 % -> memory 71 %`, as a row; none where it was not asked."""
    sides = _sides(model)
    said = [_said(side.word, side.reasons) if side.word else "not recorded" for side in sides.values()]
    if all(not side.word for side in sides.values()):
        said = [side.missing for side in sides.values()][:1]
    return [("bound", " -> ".join(said))] if said else []


def bounds(model: TunedModel) -> doc.Section:
    """Each side in words, its classes of operators, and its roofline."""
    sides = _sides(model)
    fields = [
        Field("call", lambda row: row[0]),
        Field("class", lambda row: row[1].kind),
        Field(
            "operators",
            lambda row: doc.Cell(text=f"{row[1].operators:g}", value=row[1].operators),
            "number",
            priority=4,
        ),
        Field("time", lambda row: doc.number(row[1].seconds, "s"), "number", priority=1),
        Field("share", lambda row: doc.Cell(text=percent(row[1].share), value=row[1].share), "number"),
        Field("FLOP/s", lambda row: _rate(row[2] and row[2].flops, "FLOP/s"), "number", priority=3),
        Field("bytes/s", lambda row: _rate(row[2] and row[2].bandwidth, "B/s"), "number", priority=5),
        Field("bound", lambda row: row[1].word),
        Field("largest part", lambda row: _largest(row[1].reasons), priority=2),
    ]
    rows = [(title, each, _work(side, each)) for title, side in sides.items() for each in side.classes]
    drawn = {title: side.roofline for title, side in sides.items() if side.roofline is not None}
    known = next((each.ceilings for each in drawn.values() if each.ceilings is not None), None)
    facts = [
        ("" if number else title, text)
        for title, side in sides.items()
        for number, text in enumerate(_lines(side))
    ]
    facts += [("ceilings", _source(known))] if drawn else []
    note = (
        "Shares of a call, recorded by the runtime's own profiler. compute, memory: what the ceilings ask "
        "for at least; overhead: outside of operators, and small ones; threads: cores that did not work. "
        "The word has half of the time."
    )
    return doc.Section(
        id="bounds",
        title="What bounds a call",
        note=note if rows else "",
        blocks=[
            doc.Facts(rows=facts),
            listed("by_class", fields, rows),
            *roofline.charts({f"Roofline, {title}": each for title, each in drawn.items()}, detail="page"),
        ],
    )


def _sides(model: TunedModel) -> dict[str, CallBounds]:
    """By title; without those that nobody asked about."""
    if model.bounds is None:
        return {}
    both = zip(_TITLES, (model.bounds.before, model.bounds.after), strict=True)
    return {title: side for title, side in both if side is not None}


def _said(word: str, reasons: Mapping[str, float]) -> str:
    """`compute 62 %`; `neither (compute 45 %, overhead 12 %)`."""
    if word in reasons:
        return f"{word} {percent(reasons[word])}"
    largest = sorted(reasons.items(), key=lambda each: -each[1])
    named = ", ".join(f"{name} {percent(share)}" for name, share in largest if share >= _LEAST)
    return f"{word} ({named})" if named else word


def _lines(side: CallBounds) -> Iterator[str]:
    """What bounds it with all shares, and what was recorded; or why not."""
    if not side.word:
        yield side.missing
        return
    shares = [*side.reasons.items(), ("not counted", side.uncounted)]
    shares = sorted(((name, share) for name, share in shares if share >= 0.005), key=lambda each: -each[1])
    listed = ", ".join(f"{name} {percent(share)}" for name, share in shares)
    named = shares and shares[0][0] == side.word
    yield listed if named else f"{side.word}: {listed}" if listed else side.word
    threads = f"{count(side.threads, 'thread')}, " if side.threads else ""
    busy = f"{side.busy:.1f} of {side.cores:g} cores at work; " if side.busy is not None else ""
    times = f"{show(side.recorded, 's')} a call, {show(side.call, 's')} unrecorded"
    yield f"{threads}{busy}{count(side.calls, 'call')} recorded by {side.recorder}: {times}"


def _largest(reasons: Mapping[str, float]) -> str:
    """`memory 8 %`: of the time of a class, whether or not it is half of it."""
    name = max(reasons, key=lambda each: reasons[each], default="")
    return f"{name} {percent(reasons[name])}" if name and reasons[name] >= 0.005 else "-"


def _work(side: CallBounds, bound: ClassBound) -> Work | None:
    classes = side.roofline.classes if side.roofline is not None else []
    return next((work for work in classes if work.kind == bound.kind), None)


def _rate(value: float | None, unit: str) -> doc.Cell:
    return doc.number(value or None, unit)


def _source(ceilings: Ceilings | None) -> str:
    if ceilings is None:
        return "those of these cores are not known"
    return f"{ceilings.device}: {ceilings.source}"
