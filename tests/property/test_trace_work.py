"""However operators nest, each activity is in one class and each product counts once."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from laptime.trace import profile
from laptime.trace.reading import reader
from laptime.trace.tables import work

PRODUCT = {"Input Dims": [[2, 4], [8, 4], []], "Input type": ["float", "float", ""]}
SUMMED = {"Input Dims": [[3, 5]], "Input type": ["float"]}
NAMES: dict[str, tuple[dict[str, Any], str, float]] = {
    "aten::linear": (PRODUCT, "matmul", 128.0),
    "aten::relu": (SUMMED, "elementwise", 15.0),
    "aten::conv2d": (PRODUCT, "convolution", 0.0),  # no such convolution: it is not counted
    "aten::unheard_of": (PRODUCT, "other", 0.0),
    "aten::lstm": ({}, "recurrent", 0.0),
}
"""Arguments, class, and FLOP of a call; 0 is not counted."""


class Call(NamedTuple):
    """What lies in it in order; a number is a kernel of so many us."""

    name: str
    inside: list[Call | int]


kernels = st.lists(st.integers(1, 9), max_size=2)
calls = st.recursive(
    st.builds(Call, st.sampled_from(sorted(NAMES)), kernels),
    lambda inner: st.builds(
        Call, st.sampled_from(sorted(NAMES)), st.lists(st.one_of(inner, st.integers(1, 9)), max_size=3)
    ),
    max_leaves=12,
)


class Written:
    """A trace as events, and what its classes should come to."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.flop, self.ns, self.uncounted = Counter[str](), Counter[str](), Counter[str]()
        self.kernels = 0

    def event(self, cat: str, name: str, ts: int, dur: int, **args: Any) -> None:
        fields = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}
        self.events.append({**fields, "args": args})

    def call(self, call: Call, at: int, kind: str = "other", counted: str = "") -> tuple[int, int]:
        """Writes a call in one of `kind`, or in a counted one; returns its end and launched ns."""
        shapes, own, flop = NAMES[call.name]
        kind = own if own != "other" else kind
        root = not counted and flop > 0 and _launches(call)
        now, total = at + 1, 0
        for each in call.inside:
            if isinstance(each, int):
                self.kernels += 1
                self.event("cuda_runtime", "cudaLaunchKernel", now, 1, correlation=self.kernels)
                place = 1_000_000 + 10 * self.kernels
                self.event("kernel", "gemm", place, each, device=0, stream=7, correlation=self.kernels)
                inside = kind if root else counted
                self.ns[inside or kind] += 1000 * each
                self.uncounted[kind] += 0 if inside else 1000 * each
                now, total = now + 2, total + 1000 * each
            else:
                now, inner = self.call(each, now, kind, kind if root else counted)
                now, total = now + 1, total + inner
        self.flop[own] += round(flop) if root else 0
        self.event("cpu_op", call.name, at, now - at, **shapes)
        return now, total


def _launches(call: Call) -> bool:
    return any(isinstance(each, int) or _launches(each) for each in call.inside)


@given(st.lists(calls, min_size=1, max_size=4))
def test_no_work_and_no_time_counts_twice(roots: list[Call]) -> None:
    written, now = Written(), 0
    for root in [*roots, Call("aten::relu", [1])]:  # the last launches: times are those of the device
        now = written.call(root, now)[0] + 5
    found = work.roofline(profile.view(reader.parse(json.dumps(written.events).encode())))
    assert found is not None
    classes = {row.kind: row for row in found.classes}
    assert {kind: row.total_ns for kind, row in classes.items() if row.total_ns} == +written.ns
    assert {kind: row.uncounted_ns for kind, row in classes.items() if row.uncounted_ns} == +written.uncounted
    assert Counter({kind: int(sum(row.flop.values())) for kind, row in classes.items()}) == written.flop
