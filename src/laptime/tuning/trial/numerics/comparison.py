"""How far the numerics of a candidate are from the base's, step by step and tensor by tensor: figures only.

For each step and group there is a row for all tensors together and one for each of the worst, with the fields
of `messages.TensorComparison`. What is allowed is the business of `gates`."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

WORST = 20  # rows that are kept by each measure
ALL = 20_000
"""Rows up to which all are kept, some megabytes: a tensor is judged by what simulated rounding does to it, so
the worst ones are those that are farthest beyond that, which nobody knows here."""
_CHUNK = 1 << 20
GROUPS = ("gradients", "parameters", "buffers", "optimizer")
RUNNING = ("running_mean", "running_var")  # ends of the names of BatchNorm's running statistics


class _Sums:
    """Sums over pairs of tensors, in double precision."""

    def __init__(self) -> None:
        self.kept = self.elements = 0
        self.aa = self.bb = self.rr = self.ab = self.dd = self.da = self.db = 0.0
        self.norm = self.base_norm = 0.0
        self.equal = self.has_reference = self.point = True

    def add(self, other: "_Sums") -> None:
        """Add the sums of another pair."""
        for name in ("kept", "elements", "aa", "bb", "rr", "ab", "dd", "da", "db"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.norm = math.hypot(self.norm, other.norm)
        self.base_norm = math.hypot(self.base_norm, other.base_norm)
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
        }
        if self.aa > 0 and self.bb > 0:
            row["cosine"] = self.ab / math.sqrt(self.aa) / math.sqrt(self.bb)
        if self.has_reference:
            row["candidate_error"] = math.sqrt(self.da / count)
            row["base_error"] = math.sqrt(self.db / count)
            row["reference_norm"] = math.sqrt(self.rr * max(self.elements, 1) / count)
        return row


def _sum_up(a: Any, b: Any, r: Any | None) -> _Sums:
    """Sum the values of candidate, base and reference."""
    sums = _Sums()
    sums.kept, sums.has_reference = a.numel(), r is not None
    for start in range(0, a.numel(), _CHUNK):
        candidate, base = a[start : start + _CHUNK].double(), b[start : start + _CHUNK].double()
        difference = candidate - base
        sums.aa += float(candidate @ candidate)
        sums.bb += float(base @ base)
        sums.ab += float(candidate @ base)
        sums.dd += float(difference @ difference)
        if r is not None:
            exact = r[start : start + _CHUNK].double()
            wrong, base_wrong = candidate - exact, base - exact
            sums.rr += float(exact @ exact)
            sums.da += float(wrong @ wrong)
            sums.db += float(base_wrong @ base_wrong)
    return sums


def _of_tensor(a: dict[str, Any], b: dict[str, Any], r: dict[str, Any] | None) -> _Sums | None:
    """Compare the summaries of one tensor; None when they are not of one size."""
    if a["elements"] != b["elements"] or a["values"].numel() != b["values"].numel():
        return None
    exact = r["values"] if r is not None and r["values"].numel() == a["values"].numel() else None
    sums = _sum_up(a["values"], b["values"], exact)
    sums.elements, sums.norm, sums.base_norm = a["elements"], a["norm"], b["norm"]
    sums.equal = a["bits"] == b["bits"] and a["dtype"] == b["dtype"]
    sums.point = a["point"]
    return sums


def _of_update(after: list[Any], before: list[Any]) -> _Sums | None:
    """Compare an update; lists of the summaries of candidate, base, reference (None without one)."""
    a, b, r = [
        one["values"].double() - other["values"].double() if one is not None and other is not None else None
        for one, other in zip(after, before, strict=True)
    ]
    if a is None or b is None or a.numel() != b.numel():
        return None
    sums = _sum_up(a, b, r if r is not None and r.numel() == a.numel() else None)
    sums.elements = after[0]["elements"]
    scale = math.sqrt(sums.elements / max(sums.kept, 1))
    sums.norm, sums.base_norm = math.sqrt(sums.aa) * scale, math.sqrt(sums.bb) * scale
    sums.equal = sums.dd == 0
    return sums


def compare(
    candidate: dict[str, Any], base: dict[str, Any], reference: dict[str, Any] | None
) -> dict[str, Any]:
    """The rows of two captures: totals, tensors, unmatched, dtypes of `messages.NumericsComparison`."""
    totals: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    unmatched: set[str] = set()
    dtypes: dict[str, dict[str, str]] = {}
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
                    dtypes[name] = {"name": name, "candidate": a["dtype"], "base": b["dtype"]}
            _add(totals, rows, number, group, sums)
        captures = candidate, base, reference
        _add(totals, rows, number, "updates", _updates(captures, number, "parameters"))
        # Of all together: one that hardly moves says nothing alone.
        _add(totals, [], number, "statistics", _updates(captures, number, "buffers"))
    return {
        "totals": totals,
        "tensors": _worst(rows),
        "unmatched": sorted(unmatched)[:WORST],
        "dtypes": [dtypes[name] for name in sorted(dtypes)[:WORST]],
        "dtypes_count": len(dtypes),
    }


def _step(captured: dict[str, Any] | None, number: int) -> dict[str, Any]:
    return captured["steps"][number] if captured is not None and number < len(captured["steps"]) else {}


def _before(captured: dict[str, Any] | None, number: int, group: str) -> Any:
    if captured is not None and (number == 0 or captured["restored"]):
        return captured["start"]
    return _step(captured, number - 1).get(group, {})


def _updates(captures: tuple[dict[str, Any] | None, ...], number: int, group: str) -> dict[str, _Sums]:
    """The updates of candidate, base and reference: parameters, or among buffers BatchNorm's statistics."""
    sums = {}
    for name in sorted(_step(captures[0], number)[group]):
        if group == "parameters" or name.endswith(RUNNING):
            after = [_step(capture, number).get(group, {}).get(name) for capture in captures]
            before = [_before(capture, number, group).get(name) for capture in captures]
            sums[name] = _of_update(after, before)
    return {name: each for name, each in sums.items() if each is not None}


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
    everything.equal = all(each.equal for each in sums.values())
    totals.append(everything.row(step, group, "") | {"tensors": len(sums)})
    rows += [each.row(step, group, name) for name, each in sums.items()]


def _worst(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All rows while they are few; else the WORST of every group by every measure."""
    if len(rows) <= ALL:
        return rows
    chosen: dict[tuple[int, str, str], dict[str, Any]] = {}
    for is_first, group, measure in product((True, False), (*GROUPS, "updates"), MEASURES):
        of_group = [row for row in rows if (row["step"] == 0) is is_first and row["group"] == group]
        for row in sorted(of_group, key=measure, reverse=True)[:WORST]:
            chosen[row["step"], row["group"], row["name"]] = row
    return list(chosen.values())


def _share(row: dict[str, Any], error: float) -> float:
    share = error / max(row["rms"], 1e-30)
    return share if math.isfinite(share) else math.inf


MEASURES: tuple[Callable[[dict[str, Any]], float], ...] = (
    lambda row: 0.0 if row["equal"] else 1.0 if row["point"] else 2.0,
    lambda row: _share(row, row["error"]),
    lambda row: _share(row, row.get("candidate_error", 0.0) - 2 * row.get("base_error", 0.0)),
    lambda row: 1 - float(row.get("cosine", 1.0)),
    lambda row: abs(math.log(max(row["norm"], 1e-30) / max(row["base_norm"], 1e-30))),
)
"""How bad a row is: unequal, off, further off than the base, turned, stretched."""


def finite(value: Any) -> Any:
    """The same plain value with None in place of numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    return [finite(each) for each in value] if isinstance(value, (list, tuple)) else value
