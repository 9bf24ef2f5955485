"""The tables of operators against trees whose times are known because they were built from them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from laptime.trace.reading import reader
from laptime.trace.tables import kernels, operators
from laptime.trace.view import View, find_steps, link


@dataclass
class Call:
    """An operator; `inside` are operators and launches (ns of the kernel), `gap` us around each of them."""

    name: str
    gap: int
    inside: list[Call | int] = field(default_factory=list)


calls = st.recursive(
    st.builds(Call, st.sampled_from("abc"), st.integers(1, 9), st.lists(st.integers(1, 50), max_size=2)),
    lambda inner: st.builds(
        Call,
        st.sampled_from("abc"),
        st.integers(1, 9),
        st.lists(inner | st.integers(1, 50), min_size=1, max_size=3),
    ),
    max_leaves=12,
)


@dataclass
class Written:
    """Events of a trace, and the sums by name that they must give."""

    events: list[dict[str, Any]] = field(default_factory=list)
    sums: dict[str, Counter[str]] = field(default_factory=dict)
    correlation: int = 0

    def event(self, cat: str, name: str, ts: int, dur: int, tid: int, **args: Any) -> None:
        same = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}
        self.events.append({**same, "args": args})

    def launch(self, at: int, kernel: int, tid: int) -> int:
        """A launch of 2 us; returns its end."""
        self.correlation += 1
        self.event("cuda_runtime", "cudaLaunchKernel", at, 2, tid, correlation=self.correlation)
        self.event("kernel", "k", 10**6, kernel, 99, device=0, stream=7, correlation=self.correlation)
        return at + 2

    def call(
        self, call: Call, at: int, tid: int, merged: bool = False, above: frozenset[str] = frozenset()
    ) -> tuple[int, Counter[str]]:
        """Writes a call; returns its end and what it and those in it come to, in us.

        Device time of an operator inside one of its own name is in that one's total already.
        """
        now, own = at, Counter[str](calls=1, host_self=call.gap)
        children = [each for each in call.inside if isinstance(each, Call)]
        one = len(children) == 1 and children[0].name == call.name
        for each in call.inside:
            now += call.gap
            own["host_self"] += call.gap
            if isinstance(each, int):
                now = self.launch(now, each, tid)
                own.update(kernels=1, device_self=each, device_total=each)
            else:
                now, inner = self.call(each, now, tid, merged=one, above=above | {call.name})
                own["device_total"] += inner["device_total"]
                if one:
                    own.update({key: inner[key] for key in ("host_self", "kernels", "device_self")})
        now += call.gap
        own["host_total"] = now - at
        self.event("cpu_op", call.name, at, now - at, tid)
        if not merged:
            sums = self.sums.setdefault(call.name, Counter())
            sums.update(
                {key: value for key, value in own.items() if key != "device_total" or call.name not in above}
            )
        return now, own


@given(st.lists(calls, min_size=1, max_size=4), st.integers(1, 3), st.randoms())
def test_sums_by_name_are_those_that_the_tree_was_built_from(
    roots: list[Call], threads: int, random: Any
) -> None:
    written, now = Written(), 0
    for number, root in enumerate(roots):
        now = written.call(root, now, number % threads)[0]
    random.shuffle(written.events)
    trace = reader.parse(json.dumps(written.events).encode())
    linked = link(trace)
    view = View(trace, linked, find_steps(trace, linked))
    for rows in (operators.operators(view), operators.operators_by_shape(view)):
        assert {row.name: row.calls for row in rows} == {
            name: each["calls"] for name, each in written.sums.items()
        }
        for row in rows:
            sums = written.sums[row.name]
            assert row.kernels == sums["kernels"]
            for column in ("host_total", "host_self", "device_total", "device_self"):
                assert getattr(row, f"{column}_ns") == 1000 * sums[column], (row.name, column)
    device = sum(sums["device_self"] for sums in written.sums.values())
    for table in (kernels.kernels(view), kernels.kernels_by_launch(view)):
        assert sum(row.total_ns for row in table) == 1000 * device
        assert sum(row.calls for row in table) == written.correlation
