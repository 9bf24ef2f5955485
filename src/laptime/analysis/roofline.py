"""A roofline from rows of calls: FLOP/s, bytes per second and intensity, beside what the device can at most.

    seconds >= sum over dtypes of FLOP / peak of the dtype        compute
    seconds >= bytes / bandwidth                                  memory

The larger of the two is the bound; over the measured seconds it is the share. Source: Williams, Waterman and
Patterson, Roofline (2009)."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from msgspec import structs

from laptime.analysis.operator_work import PRODUCTS
from laptime.kit.units import show
from laptime.records.overview import Ceilings, Roofline, Work

MOST = 60  # operators that are kept, those of most time
_NAMED = 3  # uncounted operators that a class names


def roofline(rows: Sequence[Work]) -> Roofline:
    """Classes and the operators of most time. rows: by operator and shapes: calls and times, `flop` and
    `bytes` if they are counted."""
    by_kind = defaultdict[str, list[Work]](list)
    for row in rows:
        by_kind[row.kind].append(row)
    classes = [_rate(_sum(each)) for each in by_kind.values()]
    counted = sorted((row for row in rows if row.bytes is not None and row.name), key=_longest)
    return Roofline(classes=sorted(classes, key=_longest), operators=[_rate(row) for row in counted[:MOST]])


def beside(roofline: Roofline, ceilings: Ceilings | None) -> Roofline:
    """The same beside what the device can: which bound is nearer, and the share of it."""
    if ceilings is None:
        return roofline
    classes, operators = (
        [_bound(w, ceilings) for w in works] for works in (roofline.classes, roofline.operators)
    )
    return structs.replace(roofline, classes=classes, operators=operators, ceilings=ceilings)


def _longest(work: Work) -> tuple[int, str]:
    return -work.total_ns, work.id


def _sum(rows: Sequence[Work]) -> Work:
    """One class: what its rows have together."""
    flop = Counter[str]()
    for row in rows:
        flop.update(row.flop)
    moved = [row.bytes for row in rows if row.bytes is not None]
    uncounted = sorted((row for row in rows if row.uncounted_ns), key=lambda row: -row.uncounted_ns)
    return Work(
        id=rows[0].kind,
        kind=rows[0].kind,
        calls=sum(row.calls for row in rows),
        total_ns=sum(row.total_ns for row in rows),
        uncounted_ns=sum(row.uncounted_ns for row in rows),
        uncounted=list(dict.fromkeys(row.name for row in uncounted if row.name))[:_NAMED],
        flop=dict(flop.most_common()),
        bytes=sum(moved) if moved else None,
    )


def _rate(work: Work) -> Work:
    seconds = (work.total_ns - work.uncounted_ns) / 1e9
    flop = sum(work.flop.values())
    if work.bytes is None or not seconds:
        return work
    return structs.replace(
        work,
        flops=flop / seconds if flop else None,
        bandwidth=work.bytes / seconds if work.bytes else None,
        intensity=flop / work.bytes if flop and work.bytes else None,
    )


def _bound(work: Work, ceilings: Ceilings) -> Work:
    """Add the nearer ceiling and its share; neither if the work is done faster than that."""
    seconds = (work.total_ns - work.uncounted_ns) / 1e9
    compute = seconds_to_compute(work, ceilings.flops)
    if not work.bytes or not seconds or not ceilings.bandwidth or compute is None or work.kind == "transfer":
        return work
    memory = work.bytes / ceilings.bandwidth
    share = max(compute, memory) / seconds
    bound = "compute" if compute > memory else "memory"
    if share <= 1:
        return structs.replace(work, bound=bound, share=share)
    what, why = show(work.bandwidth, "B/s"), "the data is in caches"
    if bound == "compute":
        what, why = show(work.flops, "FLOP/s"), "an algorithm or a mask skips work, or the peak is another"
    return structs.replace(work, bound=bound, note=f"{what} is above the ceiling: {why}")


def seconds_to_compute(work: Work, peaks: dict[str, float]) -> float | None:
    """At least, over `peaks` in FLOP/s by dtype; None for products in a dtype whose peak is not known.
    Elsewhere FLOP limit nothing."""
    known = {dtype: flop for dtype, flop in work.flop.items() if dtype in peaks}
    if work.kind in PRODUCTS and len(known) < len(work.flop):
        return None
    return sum(flop / peaks[dtype] for dtype, flop in known.items())
