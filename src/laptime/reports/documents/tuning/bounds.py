"""What bounds a call of a model, before and after: a line, a table by class of operators, the rooflines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from laptime.kit.text import count
from laptime.kit.units import percent, show
from laptime.records.bounds import CallBounds, ClassBound
from laptime.records.roofline import Ceilings, Work
from laptime.records.tuning import TunedModel
from laptime.reports import document as doc
from laptime.reports.documents.profile import roofline

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


def fact(model: TunedModel) -> list[tuple[str, str]]:
    """`compute 62 % -> memory 71 %`, as a row; none where it was not asked."""
    sides = _sides(model)
    said = [_said(side.word, side.reasons) if side.word else "not recorded" for side in sides.values()]
    if all(not side.word for side in sides.values()):
        said = [side.missing for side in sides.values()][:1]
    return [("bound", " -> ".join(said))] if said else []


def section(model: TunedModel) -> doc.Section:
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
