"""How far the numerics of a candidate are from the base's, step by step and tensor by tensor: figures only.

For each step and group there is a row for all tensors together and one for each of the worst, with the fields
of `messages.TensorComparison`. What is allowed is the business of `gates`.
"""

from __future__ import annotations

import math
from typing import Any

WORST = 20
"""Rows that are kept by each measure."""
ALL = 20_000
"""Rows up to which all are kept, some megabytes: a tensor is judged by what simulated rounding does to it, so
the worst ones are those that are farthest beyond that, which nobody knows here."""
_CHUNK = 1 << 20
GROUPS = ("gradients", "parameters", "buffers", "optimizer")
RUNNING = ("running_mean", "running_var")
"""Ends of the names of BatchNorm's running statistics."""


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
        """Add the sums of another pair."""
        for name in ("kept", "elements", "aa", "bb", "rr", "ab", "dd", "da", "db"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.norm = math.hypot(self.norm, other.norm)
        self.base_norm = math.hypot(self.base_norm, other.base_norm)
        self.largest = max(self.largest, other.largest)
        self.equal = self.equal and other.equal
        self.has_reference = self.has_reference and other.has_reference

    def row(self, step: int, group: str, name: str) -> dict[str, Any]:
        """Fields of `messages.TensorComparison`."""
        count = max(self.kept, 1)
        row: dict[str, Any] = {
            "step": step,
            "group": group,
            "name": name,
            "elements": self.elements,
            "equal": self.equal,
            "point": self.point,
            "norm": self.norm,
            "base_norm": self.base_norm,
            "rms": self.base_norm / math.sqrt(max(self.elements, 1)),
            "error": math.sqrt(self.dd / count) if self.dd >= 0 else math.nan,
            "largest": self.largest,
        }
        if self.aa > 0 and self.bb > 0:
            row["cosine"] = self.ab / math.sqrt(self.aa) / math.sqrt(self.bb)
        if self.has_reference:
            row["candidate_error"] = math.sqrt(self.da / count)
            row["base_error"] = math.sqrt(self.db / count)
            row["reference_norm"] = math.sqrt(self.rr * max(self.elements, 1) / count)
        return row


def _summed(a: Any, b: Any, r: Any | None) -> _Sums:
    """Of the values of candidate, base and reference."""
    sums = _Sums()
    sums.kept, sums.has_reference = a.numel(), r is not None
    for start in range(0, a.numel(), _CHUNK):
        candidate, base = a[start : start + _CHUNK].double(), b[start : start + _CHUNK].double()
        difference = candidate - base
        sums.aa += float(candidate @ candidate)
        sums.bb += float(base @ base)
        sums.ab += float(candidate @ base)
        sums.dd += float(difference @ difference)
        sums.largest = max(sums.largest, float(difference.abs().max()))
        if r is not None:
            exact = r[start : start + _CHUNK].double()
            sums.rr += float(exact @ exact)
            sums.da += float((candidate - exact) @ (candidate - exact))
            sums.db += float((base - exact) @ (base - exact))
    return sums


def _of_tensor(a: dict[str, Any], b: dict[str, Any], r: dict[str, Any] | None) -> _Sums | None:
    """Of the summaries of one tensor; None when they are not of one size."""
    if a["elements"] != b["elements"] or a["values"].numel() != b["values"].numel():
        return None
    exact = r["values"] if r is not None and r["values"].numel() == a["values"].numel() else None
    sums = _summed(a["values"], b["values"], exact)
    sums.elements, sums.norm, sums.base_norm = a["elements"], a["norm"], b["norm"]
    sums.equal = a["bits"] == b["bits"] and a["dtype"] == b["dtype"]
    sums.point = a["point"]
    return sums


def _of_update(after: list[Any], before: list[Any]) -> _Sums | None:
    """Of an update; lists of the summaries of candidate, base, reference (None without one)."""
    a, b, r = [
        one["values"].double() - other["values"].double() if one is not None and other is not None else None
        for one, other in zip(after, before, strict=True)
    ]
    if a is None or b is None or a.numel() != b.numel():
        return None
    sums = _summed(a, b, r if r is not None and r.numel() == a.numel() else None)
    sums.elements = after[0]["elements"]
    scale = math.sqrt(sums.elements / max(sums.kept, 1))
    sums.norm, sums.base_norm = math.sqrt(sums.aa) * scale, math.sqrt(sums.bb) * scale
    sums.equal = sums.dd == 0
    return sums


def compared(
    candidate: dict[str, Any], base: dict[str, Any], reference: dict[str, Any] | None
) -> dict[str, Any]:
    """The rows of two captures: totals, tensors, unmatched, dtypes of
    `messages.NumericsComparison`."""
    totals: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    unmatched: set[str] = set()
    dtypes: dict[str, tuple[str, str]] = {}
    for number, (step, base_step) in enumerate(zip(candidate["steps"], base["steps"], strict=False)):
        exact = _step(reference, number)
        for group in GROUPS:
            sums = {}
            for name in sorted(set(step[group]) | set(base_step[group])):
                a, b = step[group].get(name), base_step[group].get(name)
                of_tensor = _of_tensor(a, b, exact.get(group, {}).get(name)) if a and b else None
                if of_tensor is None:
                    unmatched.add(f"{group}: {name}")
                    continue
                sums[name] = of_tensor
                if a["dtype"] != b["dtype"]:
                    dtypes[name] = (a["dtype"], b["dtype"])
            _add(totals, rows, number, group, sums)
        captures = candidate, base, reference
        _add(totals, rows, number, "updates", _updates(captures, number, "parameters"))
        # Of all together: one that hardly moves says nothing alone.
        _add(totals, [], number, "statistics", _updates(captures, number, "buffers"))
    return {
        "totals": totals,
        "tensors": _worst(rows),
        "unmatched": sorted(unmatched)[:WORST],
        "dtypes": [
            {"name": name, "candidate": dtypes[name][0], "base": dtypes[name][1]}
            for name in sorted(dtypes)[:WORST]
        ],
        "dtypes_count": len(dtypes),
    }


def _step(captured: dict[str, Any] | None, number: int) -> dict[str, Any]:
    return captured["steps"][number] if captured is not None and number < len(captured["steps"]) else {}


def _before(captured: dict[str, Any] | None, number: int, group: str) -> dict[str, Any]:
    if captured is None:
        return {}
    if number == 0 or captured["restored"]:
        start: dict[str, Any] = captured["start"]
        return start
    before: dict[str, Any] = _step(captured, number - 1).get(group, {})
    return before


def _updates(captures: tuple[dict[str, Any] | None, ...], number: int, group: str) -> dict[str, _Sums]:
    """Of candidate, base and reference: parameters, or of the buffers BatchNorm's running statistics."""
    sums = {}
    for name in sorted(_step(captures[0], number)[group]):
        if group == "buffers" and not name.endswith(RUNNING):
            continue
        after = [_step(each, number).get(group, {}).get(name) for each in captures]
        before = [_before(each, number, group).get(name) for each in captures]
        of_update = _of_update(after, before)
        if of_update is not None:
            sums[name] = of_update
    return sums


def _add(
    totals: list[dict[str, Any]], rows: list[dict[str, Any]], step: int, group: str, sums: dict[str, _Sums]
) -> None:
    """Rows of a group, and the one of all its floating tensors together."""
    if not sums:
        return
    everything = _Sums()
    for each in sums.values():
        if each.point:
            everything.add(each)
        else:
            everything.equal = everything.equal and each.equal
    total = everything.row(step, group, "")
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
            of_group = [row for row in of if row["group"] == group]
            for measure in measures:
                for row in sorted(of_group, key=measure, reverse=True)[:WORST]:
                    chosen[row["step"], row["group"], row["name"]] = row
    return list(chosen.values())


def _finite_or_infinity(value: float) -> float:
    return value if math.isfinite(value) else math.inf


def _unequal(row: dict[str, Any]) -> float:
    return 0.0 if row["equal"] else 1.0 + (0.0 if row["point"] else 1.0)


def _relative(row: dict[str, Any]) -> float:
    return _finite_or_infinity(row["error"] / max(row["rms"], 1e-30))


def _against_reference(row: dict[str, Any]) -> float:
    excess = row.get("candidate_error", 0.0) - 2 * row.get("base_error", 0.0)
    return float(_finite_or_infinity(excess / max(row["rms"], 1e-30)))


def _turned(row: dict[str, Any]) -> float:
    return 1 - float(row.get("cosine", 1.0))


def _stretched(row: dict[str, Any]) -> float:
    return abs(math.log(max(row["norm"], 1e-30) / max(row["base_norm"], 1e-30)))


def finite(value: Any) -> Any:
    """The same plain value with None in place of numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return value
