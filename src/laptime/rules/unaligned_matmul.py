"""Half-precision matrix products whose dimensions are not multiples of 8 miss the fast tensor-core kernels.

Lies when: the library pads inside, as cuBLAS does for many shapes from version 11 on.
Source: NVIDIA's guide to matrix multiplication; PyTorch's own profiler has the same pattern; 2 % is our own.
"""

from laptime.records.tables import OperatorRow
from laptime.rules._evidence import DEVICE, Finding, Profile, finding
from laptime.rules._reading import NARROW, WORTH, only, per_step, shapes, share, times

MULTIPLE = 8
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")


def rule(profile: Profile) -> Finding | None:
    """Look at rows by shape: the inner and the last dimension decide how rows are aligned in memory."""
    unaligned = [row for row in profile.operators_by_shape if row.device_self_ns > 0 and odd(row)]
    spent = per_step(profile, sum(row.device_self_ns for row in unaligned))
    if not unaligned or share(profile, spent) < WORTH:
        return None
    worst = max(unaligned, key=lambda row: row.device_self_ns)
    return finding(
        profile,
        f"{worst.name} of {' x '.join(str(shape) for shape in matrices(worst))} in half precision:"
        f" dimensions that are not multiples of {MULTIPLE} take {times(profile, spent)}",
        gain_is="all time in these products",
        limits=DEVICE,
        reaches={"compute": spent},
        evidence={"shapes": [row.shapes for row in unaligned[:5]]},
        rows=[f"operators/{row.id}" for row in unaligned],
        change=f"pad the dimension (vocabulary, channels) to a multiple of {MULTIPLE}, better of 64",
        optimization="",
        stack=worst.stacks[0].frames if worst.stacks else [],
    )


def matrices(row: OperatorRow) -> list[list[int]]:
    """The shapes of the two matrices that are multiplied; [] if the file does not say."""
    last = [shape for shape in shapes(row) if len(shape) >= 2][-2:]
    return last if len(last) == 2 and all(size > 0 for shape in last for size in shape) else []


def odd(row: OperatorRow) -> bool:
    """Whether it multiplies half-precision matrices of which a row is not aligned."""
    if row.name not in PRODUCTS or not only(row.dtypes, NARROW):
        return False
    found = matrices(row)
    return bool(found) and any(size % MULTIPLE for size in (found[0][-1], found[1][-1]))
