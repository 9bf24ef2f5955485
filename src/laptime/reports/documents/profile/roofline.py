"""What operators compute and move beside what the device can: tables, and the roofline drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from markupsafe import Markup

from laptime.kit.units import percent, scale, show
from laptime.records.profile import Profile
from laptime.records.roofline import Ceilings, Roofline, Work
from laptime.reports import document as doc
from laptime.reports._words import printable
from laptime.reports.documents.profile import words
from laptime.reports.documents.profile.fields import Field, table
from laptime.reports.page.axes import Scale, frame
from laptime.reports.page.svg import drawing, el, legend, line, spot

_MARKS = {
    "matmul": ("ring", "c0"),
    "convolution": ("ring", "c1"),
    "convolution backward": ("triangle", "c1"),
    "attention": ("diamond", "c2"),
    "recurrent": ("diamond", "c3"),
    "normalisation": ("square", "c4"),
    "reduction": ("triangle", "c4"),
}
_PLAIN = ("square", "c5")
"""Marks of the classes; the others are alike, and lie at the left."""

_BRIEF = 5
"""Classes on a terminal."""


def section(profile: Profile) -> doc.Section:
    """By class, by operator and shape, and drawn; one sentence where nothing could be counted."""
    roofline = profile.roofline or Roofline()
    title, note = "Work by class", "Of the whole file. FLOP and bytes are what the shapes tell, at least."
    if roofline.missing:
        return doc.Section(id="by-class", title=title, blocks=[doc.Text(text=roofline.missing)])
    drawn = charts({"Roofline": roofline}, f"Ceilings: {_source(roofline.ceilings)}.")
    ceilings = doc.Facts(rows=[("ceilings", _source(roofline.ceilings))], detail="text")
    blocks = [*drawn, doc.Views(tables=_tables(roofline)), ceilings] if roofline.classes else []
    return doc.Section(id="by-class", title=title, note=note, blocks=blocks, headed=False, folded=True)


def charts(
    rooflines: Mapping[str, Roofline], note: str = "", *, detail: doc.Detail = "brief"
) -> list[doc.Chart]:
    """A chart by title, all on the same axes; none of what has no operator with FLOP."""
    drawn = {title: _drawn(each) for title, each in rooflines.items()}
    every = [work for works in drawn.values() for work in works]
    return [
        doc.Chart(
            title=title,
            draw=partial(_draw, works, rooflines[title].ceilings, every),
            keys=partial(_keys, works),
            note=note,
            detail=detail,
        )
        for title, works in drawn.items()
        if works
    ]


def _drawn(roofline: Roofline) -> list[Work]:
    return [work for work in roofline.operators if _drawable(work.intensity) and _drawable(work.flops)]


def _source(ceilings: Ceilings | None) -> str:
    if ceilings is None:
        return "those of this device are not known: there are no shares"
    return f"{ceilings.device} on paper: {ceilings.source}"


def _tables(roofline: Roofline) -> list[doc.Table]:
    whole = sum(work.total_ns for work in roofline.classes)
    named = [
        Field("class", "kind", brief=True),
        Field("operator", lambda row: words.operator(row.name, 48), "code"),
        Field("input shapes", lambda row: words.shortened(row.shapes, 60), "code"),
    ]
    numbers = [
        Field("calls", "calls", "count"),
        Field("time", "total_ns", "time", "of the device; on a CPU their own", bar=True, brief=True),
        Field("share", lambda row: row.total_ns / whole if whole else None, "share", brief=True),
        Field("bound", _bound, note="the ceiling that is nearer, and the share of it", brief=True),
        Field("FLOP", lambda row: _cell(sum(row.flop.values()), "FLOP")),
        Field("FLOP/s", lambda row: _cell(row.flops, "FLOP/s"), note="of the counted calls", brief=True),
        Field("bytes", "bytes", "bytes", "at least: inputs read once, outputs written once"),
        Field("bytes/s", "bandwidth", "rate", "of the counted calls", brief=True),
        Field("FLOP/byte", "intensity", "number", "arithmetic intensity"),
        Field("in", lambda row: ", ".join(row.flop), note="types that are computed in"),
        Field(
            "not counted", _uncounted, note="share of the time whose work the shapes do not tell", brief=True
        ),
    ]
    classes = [named[0], *numbers]
    operators = [named[1], named[2], *numbers[:-1]]
    return [
        table("work", classes, roofline.classes, title="by class", brief=_BRIEF, folded=8),
        table("work_by_shape", operators, roofline.operators, title="by operator and shape", most=100),
    ]


def _cell(value: float | None, unit: str) -> doc.Cell | None:
    return doc.Cell(text=show(value, unit), value=value) if value else None


def _bound(work: Work) -> doc.Cell | None:
    if not work.bound:
        return None
    if work.share is None:
        return doc.Cell(text=work.bound, note=work.note)
    return doc.Cell(text=f"{work.bound} {percent(work.share)}", value=work.share)


def _uncounted(work: Work) -> str:
    if not work.uncounted_ns:
        return ""
    of = ", ".join(words.operator(name, 40) for name in work.uncounted)
    share = "all" if work.uncounted_ns == work.total_ns else words.share(work.uncounted_ns, work.total_ns)
    return f"{share}: {of}" if of else share


def _drawable(value: float | None) -> bool:
    """On a logarithmic axis."""
    return value is not None and 0 < value < math.inf


def _draw(works: Sequence[Work], ceilings: Ceilings | None, every: Sequence[Work], width: float) -> Markup:
    """FLOP/s over FLOP per byte, both logarithmic, under the roofs of the types that are computed in.

    Args:
        every: what has room on the axes.
    """
    place = frame(width, 340)
    used = {dtype for work in every for dtype in work.flop}
    peaks = ceilings.flops.items() if ceilings else ()
    roofs = {name: peak for name, peak in peaks if name in used and _drawable(peak)}
    bandwidth = ceilings.bandwidth if ceilings and _drawable(ceilings.bandwidth) else None
    intensities = [work.intensity or 1.0 for work in every]
    rates = [work.flops or 1.0 for work in every]
    ridge = max(roofs.values()) / bandwidth if roofs and bandwidth else 1.0
    x = place.x(min(intensities) / 2, 10 * max(*intensities, ridge), log=True)  # room for the names of roofs
    y = place.y(min(rates) / 2, 2 * max([*rates, *roofs.values()]), log=True)
    factor, unit = scale(y.high, "FLOP/s")
    parts = [
        place.left_axis(y, y.labels(place.up, factor), f"{unit}, logarithmic"),
        place.bottom_axis(x, x.labels(place.across), "FLOP per byte, logarithmic"),
        *(mark for name, peak in roofs.items() for mark in _roof(name, peak, bandwidth, x, y)),
        *(_spot(work, x, y) for work in works),
    ]
    return drawing(width, place.height, *parts, label="roofline: FLOP per second over FLOP per byte")


def _roof(name: str, peak: float, bandwidth: float | None, x: Scale, y: Scale) -> list[Markup]:
    """The slope of the memory up to the peak, and the peak from there on."""
    ridge = min(max(peak / bandwidth, x.low), x.high) if bandwidth else x.low
    points = [(x(ridge), y(peak)), (x(x.high), y(peak))]
    if bandwidth:
        start = max(x.low, y.low / bandwidth)
        points = [(x(start), y(start * bandwidth)), *points]
    text = el(
        "text", printable(f"{name} {show(peak, 'FLOP/s')}"), x=x(x.high) - 4, y=y(peak) - 5, class_="tick end"
    )
    return [line(points, "line c5"), text]


def _spot(work: Work, x: Scale, y: Scale) -> Markup:
    assert work.intensity
    assert work.flops
    shape, colour = _MARKS.get(work.kind, _PLAIN)
    share = f", {percent(work.share)} of the {work.bound} ceiling" if work.share is not None else ""
    text = f"{work.name} {words.shortened(work.shapes, 80)}: {show(work.flops, 'FLOP/s')}{share}"
    text += f", {words.time(work.total_ns)}"
    return spot(x(work.intensity), y(work.flops), shape, f"spot {colour}", printable(text))


def _keys(works: Sequence[Work]) -> Markup:
    """Only of what is drawn."""
    kinds = dict.fromkeys(work.kind if work.kind in _MARKS else "others" for work in works)
    marks = {kind: _MARKS.get(kind, _PLAIN) for kind in kinds}
    return legend([(shape, f"spot {colour}", [el("span", kind)]) for kind, (shape, colour) in marks.items()])
