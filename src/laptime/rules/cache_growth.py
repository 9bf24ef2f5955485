"""Keys and values of earlier tokens are copied into a longer tensor for every new token.

Lies when: something else is concatenated along a dimension that grows by one.
Source: the documentation of transformers' caches (`DynamicCache` concatenates, `StaticCache` writes in
place);
5 % of the step is our own threshold."""

from collections import defaultdict

from laptime.records.tables import OperatorRow
from laptime.rules._evidence import DEVICE, Finding, Profile, finding
from laptime.rules._reading import per_step, shapes, share, times

NEEDS = frozenset({"!training"})
THRESHOLD = 0.05
GROWS = 3  # different lengths from which on a dimension is taken to grow


def rule(profile: Profile) -> Finding | None:
    """Fire for `aten::cat` of a long tensor and a short one, whose first length is another one every time."""
    lengths: dict[tuple[int, ...], list[tuple[int, OperatorRow]]] = defaultdict(list)
    for row in profile.operators_by_shape:
        if row.name == "aten::cat" and (found := _growing(row)) is not None:
            lengths[found[0]].append((found[1], row))
    growing = [rows for rows in lengths.values() if len({length for length, _ in rows}) >= GROWS]
    rows = [row for each in growing for _, row in each]
    device = bool(profile.overview.devices)
    spent = per_step(profile, sum(row.device_total_ns if device else row.host_total_ns for row in rows))
    if not rows or share(profile, spent) < THRESHOLD:
        return None
    longest = max(length for each in growing for length, _ in each)
    return finding(
        profile,
        f"aten::cat copies keys and values of up to {longest:,} tokens for every new one:"
        f" {times(profile, spent)}",
        gain_is="all time in these copies",
        limits=(*DEVICE, "cpu"),
        evidence={"shapes": [row.shapes for row in rows[:3]], "longest": longest},
        rows=[f"operators/{row.id}" for row in rows],
        change="a cache of fixed size that is written in place: model.generate(...,"
        ' cache_implementation="static")',
        stack=rows[0].stacks[0].frames if rows[0].stacks else [],
        reaches={"compute": spent},
    )


def _growing(row: OperatorRow) -> tuple[tuple[int, ...], int] | None:
    """The shape without the dimension in which a longer tensor meets one of length 1, and that length."""
    try:
        (long, short) = shapes(row)
        (at,) = (place for place, (a, b) in enumerate(zip(long, short, strict=True)) if a != b)
    except ValueError:
        return None
    if len(long) not in (3, 4) or short[at] != 1:
        return None
    return (*long[:at], 0, *long[at + 1 :]), int(long[at])
