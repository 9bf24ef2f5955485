"""The parts of a session that tuned a model: its calls, what bounds them, the folder."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from laptime.analysis import shifting_level, tuned
from laptime.analysis.paired import from_pairs
from laptime.analysis.quantiles import quantile, samples_needed
from laptime.kit.text import count
from laptime.kit.units import percent, show
from laptime.records.overview import CallBounds, Ceilings
from laptime.records.quantity import BROKEN, UNDECIDED, Judgement
from laptime.records.tuning import Measured, OutputSameness, TunedModel, Tuning
from laptime.reports import _words
from laptime.reports import document as doc
from laptime.reports.documents.profile import roofline
from laptime.reports.documents.tuning import ladder
from laptime.reports.documents.tuning.ladder import gate_facts, gate_result, questions
from laptime.reports.fields import Field, tabulate, tell

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
_PROCESSES, _BEYOND = 3, 5  # processes, and calls of each beyond a quantile, from which a process tells one
_LEAST = 0.05  # shares of a call that a line names, if none has half of it


def brief(tuning: Tuning) -> list[tuple[str, str]]:
    """The gate, what bounds a call, what runs the model now, and where it is."""
    assert tuning.model is not None
    gate = ("gate", gate_result(tuning.gate, _COMPARED))
    return [gate, ("bound", bound(tuning.model)), *facts(tuning, tuning.model)]


def sections(tuning: Tuning) -> list[doc.Section]:
    """The folder, the gate, the ladder, what bounds a call, what was measured on the way, a call."""
    model = tuning.model
    assert model is not None
    return [
        doc.Section("folder", "The folder", [doc.Facts(facts(tuning, model))]),
        sameness(tuning, model),
        ladder.section(tuning),
        bounds(model),
        show_points(model),
        calls(tuning, model),
    ]


def calls(tuning: Tuning, model: TunedModel) -> doc.Section:
    """A call before and after: its inputs and quantiles of its time."""
    facts = [("inputs", f"{model.inputs}, {model.origin}"), ("batch", str(model.batch))]
    facts.append(("instructions", ", ".join(model.instructions)))
    if tuning.before is not None and tuning.baseline is None:
        facts.append(("as it is", f"{show(tuning.before.step, 's')} a call"))
    return doc.Section("calls", "A call", [doc.Facts(facts), _latencies(tuning.baseline, tuning.final)])


def _latencies(*measured: Measured | None) -> doc.Table:
    """Quantiles with intervals; one that the samples cannot support is not told."""
    sides = [(name, side) for name, side in zip(_TITLES, measured, strict=True) if side is not None]
    fields = [
        Field("call", lambda each: each[0]),
        *(Field(f"p{round(100 * q)}", partial(_quantile, q), "number") for q in _QUANTILES),
        Field("peak memory", lambda each: doc.number(each[1].peak, "B"), "number"),
    ]
    return tabulate("latencies", fields, sides)


def _quantile(q: float, each: tuple[str, Measured]) -> doc.Cell:
    """Geometric mean of that of each process if all have it, as the gain is; else of all calls."""
    import numpy as np  # not for `laptime --help`

    processes = [np.array(seconds) for seconds in each[1].samples]
    samples = np.concatenate(processes) if processes else np.array([])
    value, ends = (quantile(samples, q), shifting_level.interval(samples, q)) if len(samples) else (0.0, None)
    if len(processes) >= _PROCESSES and all((1 - q) * len(seconds) >= _BEYOND for seconds in processes):
        effect = from_pairs([math.log(quantile(seconds, q)) for seconds in processes])
        value, ends = math.exp(effect.mean), (math.exp(effect.lower(0.025)), math.exp(effect.upper(0.025)))
    if ends is None:
        needed = f"{samples_needed(q)} independent calls are needed"
        return doc.Cell("-", note=f"{needed}, {len(samples)} were timed")
    return doc.number(value, "s", ends)


def sameness(tuning: Tuning, model: TunedModel) -> doc.Section:
    """The gate with its questions, and the errors of each output."""
    fields = [
        Field("output", lambda each: str(each.output + 1)),
        Field("RMS error", _figure("rms"), "number"),
        Field("largest error", _figure("largest"), "number"),
        Field("absolute", _figure("absolute"), "number"),
        Field("cosine", _figure("cosine", ".6f"), "number"),
        Field("top-1 the same", lambda each: tell(each.top1, _words.percent), "number"),
        Field("worst input", lambda each: f"call {each.worst} of {model.calls}" if each.worst else "-"),
    ]
    note = "Errors over the root mean square of the model's own output; the worst of all recorded calls."
    gate = doc.Facts(gate_facts(tuning.gate, _COMPARED))
    blocks = [gate, tabulate("outputs", fields, model.outputs), questions(tuning.gate, "questions")]
    return doc.Section("same", "Does it compute the same?", blocks, note=note if model.outputs else "")


def _figure(name: str, digits: str = ".2g") -> Callable[[OutputSameness], doc.Cell]:
    return lambda each: doc.Cell(format(getattr(each, name), digits), getattr(each, name))


def show_points(model: TunedModel) -> doc.Section:
    """Show the limits, and every set that was measured: those that no other one beats are on the front."""
    limits = [(_LIMITS.get(each.name, "limit"), f"{each.outcome}: {each.sentence}") for each in model.limits]
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
    blocks = [doc.Facts(limits), tabulate("front", fields, points)]
    return doc.Section("points", "What was measured on the way", blocks, note=note if points else "")


def facts(tuning: Tuning, model: TunedModel) -> list[tuple[str, str]]:
    """Return rows that say what runs the model now, and where it is."""
    rows = [("runs as", FORMS.get(model.form, model.form) if tuning.recipe else ""), ("takes", model.takes)]
    if (chosen := model.chosen) and (chosen.instances > 1 or chosen.batch != model.batch):
        each = " each" if chosen.instances > 1 else ""
        threads = f"{count(chosen.threads, 'thread')}{each}"
        rows.append(("setup", f"{count(chosen.instances, 'instance')} of {threads}, batch {chosen.batch}"))
    if model.folder:
        text = f"{model.folder}: tuned.py needs {', '.join(model.needs)}; its load() gives a callable"
    else:
        kept = count(len(tuned.list_kept(tuning)), "change")
        text = f"{kept} kept, {_no_folder(tuning, model)}" if tuning.recipe else ""
    return [*rows, ("folder", text)]


def _no_folder(tuning: Tuning, model: TunedModel) -> str:
    limits = Judgement.of_all(check.outcome for check in model.limits)
    if limits is BROKEN:
        return "not handed back, as a limit is broken"
    if limits is UNDECIDED:
        return "not handed back, as it is open whether the limits are kept"
    if tuning.gate.word != "passed":
        return "not handed back, as its outputs were not shown to be the model's"
    return "no folder was requested: --export FOLDER"


def bound(model: TunedModel) -> str:
    """`compute 62 % -> memory 71 %`; "" if it was not asked."""
    sides = _sides(model).values()
    said = [_say_share(side.word, side.reasons) if side.word else "not recorded" for side in sides]
    if all(not side.word for side in sides):
        said = [side.missing for side in sides][:1]
    return " -> ".join(said)


def bounds(model: TunedModel) -> doc.Section:
    """Each side in words, its classes of operators, and its roofline."""
    sides, number = _sides(model), "{:g}".format
    fields = [
        Field("call", lambda row: row[0]),
        Field("class", lambda row: row[1].kind),
        Field("operators", lambda row: tell(row[1].operators, number), "number", priority=4),
        Field("time", lambda row: doc.number(row[1].seconds, "s"), "number", priority=1),
        Field("share", lambda row: tell(row[1].share, percent), "number"),
        Field("FLOP/s", lambda row: doc.number(row[2] and row[2].flops, "FLOP/s"), "number", priority=3),
        Field("bytes/s", lambda row: doc.number(row[2] and row[2].bandwidth, "B/s"), "number", priority=5),
        Field("bound", lambda row: row[1].word),
        Field("largest part", lambda row: _largest(row[1].reasons), priority=2),
    ]
    drawn = {title: side.roofline for title, side in sides.items() if side.roofline is not None}
    work = {(title, each.kind): each for title, roofline in drawn.items() for each in roofline.classes}
    rows = [(t, each, work.get((t, each.kind))) for t, side in sides.items() for each in side.classes]
    known = next((each.ceilings for each in drawn.values() if each.ceilings is not None), None)
    facts = [
        ("" if at else title, text) for title, side in sides.items() for at, text in enumerate(_lines(side))
    ]
    facts += [("ceilings", _source(known))] if drawn else []
    note = (
        "Shares of a call, recorded by the runtime's own profiler. compute, memory: what the ceilings ask "
        "for at least; overhead: outside of operators, and small ones; threads: cores that did not work. "
        "The word has half of the time."
    )
    charts = roofline.charts({f"Roofline, {title}": each for title, each in drawn.items()}, detail="page")
    blocks = [doc.Facts(facts), tabulate("by_class", fields, rows), *charts]
    return doc.Section("bounds", "What bounds a call", blocks, note=note if rows else "")


def _sides(model: TunedModel) -> dict[str, CallBounds]:
    """Return the sides by title; without those that were not requested."""
    if model.bounds is None:
        return {}
    both = zip(_TITLES, (model.bounds.before, model.bounds.after), strict=True)
    return {title: side for title, side in both if side is not None}


def _say_share(word: str, reasons: Mapping[str, float]) -> str:
    """`compute 62 %`; `neither (compute 45 %, overhead 12 %)`."""
    if word in reasons:
        return f"{word} {percent(reasons[word])}"
    largest = sorted(reasons.items(), key=lambda each: -each[1])
    named = ", ".join(f"{name} {percent(share)}" for name, share in largest if share >= _LEAST)
    return f"{word} ({named})" if named else word


def _lines(side: CallBounds) -> Iterator[str]:
    """Yield the bound with all shares, and what was recorded; or why there is none."""
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


def _source(ceilings: Ceilings | None) -> str:
    return f"{ceilings.device}: {ceilings.source}" if ceilings else "those of these cores are not known"
