"""What a session that tuned a model says besides: its calls, what bounds them, the folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from laptime.analysis import shifting_level, tuned
from laptime.analysis.quantiles import quantile, samples_needed
from laptime.kit.text import count
from laptime.kit.units import percent, show, show_interval
from laptime.records.bounds import CallBounds, ClassBound
from laptime.records.overview import Ceilings, Work
from laptime.records.quantity import BROKEN, UNDECIDED, Judgement
from laptime.records.tuning import Measured, TunedModel, Tuning
from laptime.reports import _words
from laptime.reports import document as doc
from laptime.reports.documents.profile import roofline
from laptime.reports.documents.tuning import ladder
from laptime.reports.documents.tuning.ladder import gate_facts, gate_result, questions

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
_LEAST = 0.05
"""Shares of a call that a line names, where none has half of it."""
_COLUMNS: tuple[tuple[str, doc.Kind, int], ...] = (
    ("call", "text", 0),
    ("class", "text", 0),
    ("operators", "number", 4),
    ("time", "number", 1),
    ("share", "number", 0),
    ("FLOP/s", "number", 3),
    ("bytes/s", "number", 5),
    ("bound", "text", 0),
    ("largest part", "text", 2),
)
"""Titles, kinds, and which a narrow terminal leaves out first."""


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


def _latencies(before: Measured | None, after: Measured | None) -> doc.Table:
    """Quantiles with intervals; one that the samples cannot support is not told."""
    sides = [(name, side) for name, side in (("as it is", before), ("tuned", after)) if side is not None]
    rows = [
        doc.Row(cells=[name, *(_quantile(side, q) for q in _QUANTILES), _peak(side)]) for name, side in sides
    ]
    heads = [doc.Column(title=f"p{round(100 * q)}", kind="number") for q in _QUANTILES]
    columns = [doc.Column(title="call"), *heads, doc.Column(title="peak memory", kind="number")]
    return doc.Table(id="latencies", columns=columns, rows=rows)


def _quantile(side: Measured, q: float) -> doc.Cell:
    import numpy as np  # not for `laptime --help`

    samples = np.array([seconds for process in side.samples for seconds in process])
    ends = shifting_level.interval(samples, q)
    if ends is None:
        needed = f"{samples_needed(q)} independent calls are needed"
        return doc.Cell(text="-", note=f"{needed}, {len(samples)} were timed")
    value = quantile(samples, q)
    low, high = (show(end, "s") for end in ends)
    return doc.Cell(text=show(value, "s", ends), value=value, interval=f"[{low}, {high}]")


def _peak(side: Measured) -> doc.Cell:
    return doc.Cell(text="-" if side.peak is None else show(side.peak, "B"), value=side.peak)


def sameness(tuning: Tuning, model: TunedModel) -> doc.Section:
    """The gate with its questions, and the errors of each output."""
    gate = tuning.gate
    kinds: dict[str, doc.Kind] = {"output": "text"}
    kinds |= dict.fromkeys(("RMS error", "largest error", "absolute", "cosine"), "number")
    columns = [*doc.columns(kinds), doc.Column(title="top-1 the same", kind="number")]
    columns += doc.columns({"worst input": "text"})
    rows = [
        doc.Row(
            cells=[
                str(each.output + 1),
                *(
                    doc.Cell(text=f"{value:.2g}", value=value)
                    for value in (each.rms, each.largest, each.absolute)
                ),
                doc.Cell(text=f"{each.cosine:.6f}", value=each.cosine),
                doc.Cell(text="-" if each.top1 is None else _words.percent(each.top1), value=each.top1),
                "-" if each.worst is None else f"call {each.worst} of {model.calls}",
            ]
        )
        for each in model.outputs
    ]
    note = "Errors over the root mean square of the model's own output; the worst of all recorded calls."
    table = doc.Table(id="outputs", columns=columns, rows=rows)
    return doc.Section(
        id="same",
        title="Does it compute the same?",
        note=note if rows else "",
        blocks=[doc.Facts(rows=gate_facts(gate, _COMPARED)), table, questions(gate, "questions")],
    )


def served(model: TunedModel) -> doc.Section:
    """What the limits say, and every set that was measured: what no other one beats is on the front."""
    facts = [
        (_LIMITS.get(check.name, "limit"), f"{check.outcome}: {check.sentence}") for check in model.limits
    ]
    many = any(point.instances > 1 or point.batch != model.batch for point in model.points)
    kinds: dict[str, doc.Kind] = {"changes": "text"}
    kinds |= dict.fromkeys(("instances", "batch") if many else (), "number")
    kinds |= dict.fromkeys(("a call", "per second", "memory"), "number")
    energy = any(point.energy is not None for point in model.points)
    kinds |= dict.fromkeys(("energy",) if energy else (), "number")
    kinds |= dict.fromkeys((*(("limits",) if model.limits else ()), "front"), "text")
    return doc.Section(
        id="points",
        title="What was measured on the way",
        note=f"Front: no other one is better in a call's median, throughput{', energy' if energy else ''} or "
        "memory without being worse in another."
        if len(model.points) > 1
        else "",
        blocks=[
            doc.Facts(rows=facts),
            doc.Table(id="front", columns=doc.columns(kinds), rows=_points(model, many, energy)),
        ],
    )


def _points(model: TunedModel, many: bool, energy: bool) -> list[doc.Row]:
    rows = []
    for point in model.points if len(model.points) > 1 else []:
        cells: list[doc.Cell | str] = [point.label]
        cells += [str(point.instances), str(point.batch)] if many else []
        cells += [
            doc.Cell(
                text=show(point.latency, "s", point.ci95),
                value=point.latency,
                interval=show_interval(point.ci95, point.latency, "s") if point.ci95 else "",
            ),
            doc.Cell(text=show(point.throughput, "1/s"), value=point.throughput),
            doc.Cell(text=show(point.peak, "B"), value=point.peak),
        ]
        joules = doc.Cell(text=show(point.energy, "J"), value=point.energy) if point.energy else "-"
        cells += [joules] if energy else []
        cells += [point.limits or "-"] if model.limits else []
        front = "yes" if point.front else "no"
        rows.append(doc.Row(cells=[*cells, f"{front}, chosen" if point.chosen else front]))
    return rows


def folder(tuning: Tuning, model: TunedModel) -> doc.Section:
    """What runs the model now, and where it is."""
    return doc.Section(id="folder", title="The folder", blocks=[doc.Facts(rows=facts(tuning, model))])


def facts(tuning: Tuning, model: TunedModel) -> list[tuple[str, str]]:
    """What runs the model now, and where it is, as rows."""
    rows = []
    if tuning.recipe:
        rows.append(("runs as", FORMS.get(model.form, model.form)))
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
    """Why the final set was not handed back."""
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
    columns = [doc.Column(title=title, kind=kind, priority=last) for title, kind, last in _COLUMNS]
    rows = [_row(title, each, side) for title, side in sides.items() for each in side.classes]
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
            doc.Table(id="by_class", columns=columns, rows=rows),
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


def _row(title: str, bound: ClassBound, side: CallBounds) -> doc.Row:
    work = _work(side, bound)
    return doc.Row(
        cells=[
            title,
            bound.kind,
            doc.Cell(text=f"{bound.operators:g}", value=bound.operators),
            doc.Cell(text=show(bound.seconds, "s"), value=bound.seconds),
            doc.Cell(text=percent(bound.share), value=bound.share),
            _rate(work.flops if work else None, "FLOP/s"),
            _rate(work.bandwidth if work else None, "B/s"),
            bound.word,
            _largest(bound.reasons),
        ]
    )


def _largest(reasons: Mapping[str, float]) -> str:
    """`memory 8 %`: of the time of a class, whether or not it is half of it."""
    name = max(reasons, key=lambda each: reasons[each], default="")
    return f"{name} {percent(reasons[name])}" if name and reasons[name] >= 0.005 else "-"


def _work(side: CallBounds, bound: ClassBound) -> Work | None:
    classes = side.roofline.classes if side.roofline is not None else []
    return next((work for work in classes if work.kind == bound.kind), None)


def _rate(value: float | None, unit: str) -> doc.Cell:
    return doc.Cell(text=show(value, unit) if value else "-", value=value)


def _source(ceilings: Ceilings | None) -> str:
    if ceilings is None:
        return "those of these cores are not known"
    return f"{ceilings.device}: {ceilings.source}"
