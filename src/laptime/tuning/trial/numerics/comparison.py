"""How alike two witnesses are, step by step and tensor by tensor: figures only, what is allowed is not said.

For each step and group (gradients, parameters, updates, buffers, optimizer) there is a row for all tensors
together and one for each of the worst. A row has

    equal             bit for bit, the whole tensor (of `total` rows: all of them)
    norm, base_norm   exact 2-norms, of the whole
    rms               of the base: its norm over the root of its elements
    error             root mean square of candidate minus base, over the elements that were kept
    candidate_error, base_error     the same of candidate and base minus the reference in double precision;
                      missing without one
    reference_norm    of the reference's kept elements, as if they were all
    cosine            between candidate and base, over the kept elements; missing when one of them is zero
    largest           of all absolute differences
`updates` are parameters after a step minus parameters before it.
"""

from __future__ import annotations

import math
from typing import Any

WORST = 20
"""Rows by each measure."""
ALL = 200
"""Rows that are all written, whichever they are."""
_CHUNK = 1 << 20
GROUPS = ("gradients", "parameters", "buffers", "optimizer")


class _Sums:
    """Sums over pairs of tensors, in double precision."""

    def __init__(self) -> None:
        self.kept = self.elements = 0
        self.aa = self.bb = self.rr = self.ab = self.dd = self.da = self.db = 0.0
        self.norm = self.base_norm = 0.0
        self.largest = 0.0
        self.equal = True
        self.has_reference = True
        self.point = True

    def add(self, other: _Sums) -> None:
        """What another has summed up."""
        for name in ("kept", "elements", "aa", "bb", "rr", "ab", "dd", "da", "db"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.norm = math.hypot(self.norm, other.norm)
        self.base_norm = math.hypot(self.base_norm, other.base_norm)
        self.largest = max(self.largest, other.largest)
        self.equal = self.equal and other.equal
        self.has_reference = self.has_reference and other.has_reference

    def row(self, step: int, group: str, name: str) -> dict[str, Any]:
        """As it is written."""
        kept = max(self.kept, 1)
        found: dict[str, Any] = {
            "step": step,
            "group": group,
            "name": name,
            "elements": self.elements,
            "equal": self.equal,
            "point": self.point,
            "norm": self.norm,
            "base_norm": self.base_norm,
            "rms": self.base_norm / math.sqrt(max(self.elements, 1)),
            "error": math.sqrt(self.dd / kept) if self.dd >= 0 else math.nan,
            "largest": self.largest,
        }
        if self.aa > 0 and self.bb > 0:
            found["cosine"] = self.ab / math.sqrt(self.aa) / math.sqrt(self.bb)
        if self.has_reference:
            found["candidate_error"] = math.sqrt(self.da / kept)
            found["base_error"] = math.sqrt(self.db / kept)
            found["reference_norm"] = math.sqrt(self.rr * max(self.elements, 1) / kept)
        return found


def _summed(a: Any, b: Any, r: Any | None) -> _Sums:
    """Of the values of candidate, base and reference."""
    found = _Sums()
    found.kept, found.has_reference = a.numel(), r is not None
    for start in range(0, a.numel(), _CHUNK):
        mine, base = a[start : start + _CHUNK].double(), b[start : start + _CHUNK].double()
        apart = mine - base
        found.aa += float(mine @ mine)
        found.bb += float(base @ base)
        found.ab += float(mine @ base)
        found.dd += float(apart @ apart)
        found.largest = max(found.largest, float(apart.abs().max()))
        if r is not None:
            exact = r[start : start + _CHUNK].double()
            found.rr += float(exact @ exact)
            found.da += float((mine - exact) @ (mine - exact))
            found.db += float((base - exact) @ (base - exact))
    return found


def _of_tensor(a: dict[str, Any], b: dict[str, Any], r: dict[str, Any] | None) -> _Sums | None:
    """Of one tensor as it was kept; None when they are not of one size."""
    if a["elements"] != b["elements"] or a["values"].numel() != b["values"].numel():
        return None
    usable = r is not None and r["values"].numel() == a["values"].numel()
    found = _summed(a["values"], b["values"], r["values"] if usable and r is not None else None)
    found.elements, found.norm, found.base_norm = a["elements"], a["norm"], b["norm"]
    found.equal = a["bits"] == b["bits"] and a["dtype"] == b["dtype"]
    found.point = a["point"]
    return found


def _of_update(now: list[Any], before: list[Any]) -> _Sums | None:
    """Of an update; lists of candidate, base, reference (None without one)."""
    values = [
        one["values"].double() - other["values"].double() if one is not None and other is not None else None
        for one, other in zip(now, before, strict=True)
    ]
    a, b, r = values
    if a is None or b is None or a.numel() != b.numel():
        return None
    found = _summed(a, b, r if r is not None and r.numel() == a.numel() else None)
    scale = math.sqrt(now[0]["elements"] / max(found.kept, 1))
    found.elements = now[0]["elements"]
    found.norm, found.base_norm = math.sqrt(found.aa) * scale, math.sqrt(found.bb) * scale
    found.equal = found.dd == 0
    return found


def compared(mine: dict[str, Any], base: dict[str, Any], reference: dict[str, Any] | None) -> dict[str, Any]:
    """Rows of two witnesses.

    Returns:
        totals (a row a step and group), tensors (the worst rows), unmatched (names that only one has, or of
        another size), dtypes (parameters and states whose type is another), at most WORST names of each.
    """
    totals: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    unmatched: set[str] = set()
    dtypes: dict[str, tuple[str, str]] = {}
    for number, (own, other) in enumerate(zip(mine["steps"], base["steps"], strict=False)):
        exact = _step(reference, number)
        for group in GROUPS:
            names = sorted(set(own[group]) | set(other[group]))
            sums = {}
            for name in names:
                a, b = own[group].get(name), other[group].get(name)
                found = _of_tensor(a, b, exact.get(group, {}).get(name)) if a and b else None
                if found is None:
                    unmatched.add(f"{group}: {name}")
                    continue
                sums[name] = found
                if a["dtype"] != b["dtype"]:
                    dtypes[name] = (a["dtype"], b["dtype"])
            _add(totals, rows, number, group, sums)
        _add(totals, rows, number, "updates", _updates(mine, base, reference, number))
    return {
        "totals": totals,
        "tensors": _worst(rows),
        "unmatched": sorted(unmatched)[:WORST],
        "unmatched_count": len(unmatched),
        "dtypes": [
            {"name": name, "candidate": dtypes[name][0], "base": dtypes[name][1]}
            for name in sorted(dtypes)[:WORST]
        ],
        "dtypes_count": len(dtypes),
    }


def _step(witness: dict[str, Any] | None, number: int) -> dict[str, Any]:
    if witness is None or number >= len(witness["steps"]):
        return {}
    found: dict[str, Any] = witness["steps"][number]
    return found


def _before(witness: dict[str, Any] | None, number: int) -> dict[str, Any]:
    """Parameters before a step."""
    if witness is None:
        return {}
    if number == 0 or witness["apart"]:
        start: dict[str, Any] = witness["start"]
        return start
    found: dict[str, Any] = _step(witness, number - 1).get("parameters", {})
    return found


def _updates(
    mine: dict[str, Any], base: dict[str, Any], reference: dict[str, Any] | None, number: int
) -> dict[str, _Sums]:
    witnesses = (mine, base, reference)
    sums = {}
    for name in sorted(mine["steps"][number]["parameters"]):
        now = [_step(each, number).get("parameters", {}).get(name) for each in witnesses]
        before = [_before(each, number).get(name) for each in witnesses]
        found = _of_update(now, before)
        if found is not None:
            sums[name] = found
    return sums


def _add(
    totals: list[dict[str, Any]], rows: list[dict[str, Any]], step: int, group: str, sums: dict[str, _Sums]
) -> None:
    """Rows of a group, and the one of all its floating tensors together."""
    if not sums:
        return
    whole = _Sums()
    for each in sums.values():
        if each.point:
            whole.add(each)
        else:
            whole.equal = whole.equal and each.equal
    total = whole.row(step, group, "")
    total["tensors"] = len(sums)
    total["unequal"] = sum(not each.equal for each in sums.values())
    totals.append(total)
    rows += [each.row(step, group, name) for name, each in sums.items()]


def _worst(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All rows while they are few; else the WORST of every group by every measure."""
    if len(rows) <= ALL:
        return rows
    measures = (_unequal, _relative, _against_reference, _turned, _stretched)
    chosen: dict[tuple[int, str, str], dict[str, Any]] = {}
    first = [row for row in rows if row["step"] == 0]
    for of in (first, [row for row in rows if row["step"] > 0]):
        for group in (*GROUPS, "updates"):
            own = [row for row in of if row["group"] == group]
            for measure in measures:
                for row in sorted(own, key=measure, reverse=True)[:WORST]:
                    chosen[row["step"], row["group"], row["name"]] = row
    return list(chosen.values())


def _number(value: float) -> float:
    return value if math.isfinite(value) else math.inf


def _unequal(row: dict[str, Any]) -> float:
    return 0.0 if row["equal"] else 1.0 + (0.0 if row["point"] else 1.0)


def _relative(row: dict[str, Any]) -> float:
    return _number(row["error"] / max(row["rms"], 1e-30))


def _against_reference(row: dict[str, Any]) -> float:
    apart = row.get("candidate_error", 0.0) - 2 * row.get("base_error", 0.0)
    return float(_number(apart / max(row["rms"], 1e-30)))


def _turned(row: dict[str, Any]) -> float:
    return 1 - float(row.get("cosine", 1.0))


def _stretched(row: dict[str, Any]) -> float:
    return abs(math.log(max(row["norm"], 1e-30) / max(row["base_norm"], 1e-30)))


def plain(value: Any) -> Any:
    """Ready for JSON: what is not finite has no number there, and becomes None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value
