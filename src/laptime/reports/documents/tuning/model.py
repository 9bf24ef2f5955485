"""What a session that tuned a model says besides: its calls, the errors of its outputs, the folder."""

from __future__ import annotations

from laptime.analysis import shifting_level, tuned
from laptime.analysis.quantiles import quantile, samples_needed
from laptime.kit.text import count
from laptime.kit.units import show, show_interval
from laptime.records.quantity import BROKEN, UNDECIDED, Judgement
from laptime.records.tuning import Measured, TunedModel, Tuning
from laptime.reports import _words
from laptime.reports import document as doc
from laptime.reports.documents.tuning.ladder import doubts, question, questions
from laptime.reports.documents.tuning.training import gate_result

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
_LIMITS = {"slo": "SLO", "memory": "memory"}


def section(tuning: Tuning) -> doc.Section:
    """A call before and after: its inputs and quantiles of its time."""
    model = tuning.model
    assert model is not None
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
    facts = [("gate", text)] if (text := gate_result(gate, "recorded call")) else []
    facts += [(check.outcome, question(check)) for check in doubts(gate)]
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
        blocks=[doc.Facts(rows=facts), table, questions(gate, "questions")],
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
