"""The work and traffic of operators beside what the device can do: tables, and the roofline drawn."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

from laptime.kit.units import percent, scale, show
from laptime.records.overview import Ceilings, Roofline, Work
from laptime.records.profile import Profile
from laptime.reports import document as doc
from laptime.reports.documents.profile import words
from laptime.reports.fields import Field, table
from laptime.reports.page.plot import Axis, Line, Mark, Note, Plot, Spot, Style, decades

_MARKS = {
    kind: Style(shape, colour, kind)
    for kind, shape, colour in (
        ("matmul", "ring", "c0"),
        ("convolution", "ring", "c1"),
        ("convolution backward", "triangle", "c1"),
        ("attention", "diamond", "c2"),
        ("recurrent", "diamond", "c3"),
        ("normalisation", "square", "c4"),
        ("reduction", "triangle", "c4"),
    )
}
_OTHERS = Style("square", "c5", "others")  # marks of the classes; the others are alike, and lie at the left
_BRIEF = 5  # classes on a terminal


def section(profile: Profile) -> doc.Section:
    """Show work by class, by operator and shape, and drawn; one sentence if nothing could be counted."""
    roofline = profile.roofline or Roofline()
    title, note = "Work by class", "For the whole file. FLOP and bytes, from shapes, are lower bounds."
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
    drawn = {
        title: [work for work in each.operators if _drawable(work.intensity) and _drawable(work.flops)]
        for title, each in rooflines.items()
    }
    every = [work for works in drawn.values() for work in works]
    return [
        doc.Chart(
            title=title,
            plot=partial(_plot, works, rooflines[title].ceilings, every),
            note=note,
            detail=detail,
        )
        for title, works in drawn.items()
        if works
    ]


def _source(ceilings: Ceilings | None) -> str:
    if ceilings is None:
        return "those of this device are not known: there are no shares"
    return f"{ceilings.device} on paper: {ceilings.source}"


def _tables(roofline: Roofline) -> list[doc.Table]:
    whole = sum(work.total_ns for work in roofline.classes)
    named = [
        Field("class", "kind", brief=True),
        Field("operator", lambda row: words.operator(row.name, 48), "code"),
        Field("input shapes", lambda row: words.shorten(row.shapes, 60), "code"),
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
            "not counted", _say_missed, note="share of the time whose work the shapes do not show", brief=True
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


def _say_missed(work: Work) -> str:
    if not work.uncounted_ns:
        return ""
    of = ", ".join(words.operator(name, 40) for name in work.uncounted)
    share = "all" if work.uncounted_ns == work.total_ns else words.share(work.uncounted_ns, work.total_ns)
    return f"{share}: {of}" if of else share


def _drawable(value: float | None) -> bool:
    return value is not None and 0 < value < math.inf


def _plot(works: Sequence[Work], ceilings: Ceilings | None, every: Sequence[Work]) -> Plot:
    """FLOP/s over FLOP per byte, both logarithmic, under the roofs of the types that are computed in. every:
    what has room on the axes."""
    used = {dtype for work in every for dtype in work.flop}
    peaks = ceilings.flops.items() if ceilings else ()
    roofs = {name: peak for name, peak in peaks if name in used and _drawable(peak)}
    bandwidth = ceilings.bandwidth if ceilings and _drawable(ceilings.bandwidth) else None
    intensities = [work.intensity or 1.0 for work in every]
    rates = [work.flops or 1.0 for work in every]
    ridge = max(roofs.values()) / bandwidth if roofs and bandwidth else 1.0
    right = 10 * max(*intensities, ridge)  # room for the names of roofs
    x = Axis(min(intensities) / 2, right, "FLOP per byte", log=True)
    y = decades([*rates, *roofs.values()], 2)._replace(low=min(rates) / 2)
    return Plot(
        label="roofline: FLOP per second over FLOP per byte",
        x=x,
        y=y._replace(unit=scale(y.high, "FLOP/s")),
        marks=[
            *(mark for name, peak in roofs.items() for mark in _roof(name, peak, bandwidth, x, y)),
            *map(_spot, reversed(works)),
        ],
        height=340,
    )


def _roof(name: str, peak: float, bandwidth: float | None, x: Axis, y: Axis) -> list[Mark]:
    """The slope of the memory up to the peak, and the peak from there on."""
    ridge = min(max(peak / bandwidth, x.low), x.high) if bandwidth else x.low
    points = [(ridge, peak), (x.high, peak)]
    if bandwidth:
        start = max(x.low, y.low / bandwidth)
        points = [(start, start * bandwidth), *points]
    text = f"{name} {show(peak, 'FLOP/s')}"
    return [Line(points, "line c5"), Note(x.high, peak, text, "tick end", by=(-4, -5))]


def _spot(work: Work) -> Spot:
    assert work.intensity
    assert work.flops
    share = f", {percent(work.share)} of the {work.bound} ceiling" if work.share is not None else ""
    text = f"{work.name} {words.shorten(work.shapes, 80)}: {show(work.flops, 'FLOP/s')}{share}"
    text += f", {words.time(work.total_ns)}"
    return Spot(work.intensity, work.flops, _MARKS.get(work.kind, _OTHERS), text)
