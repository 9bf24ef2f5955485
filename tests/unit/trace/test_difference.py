"""Two profiles side by side."""

from __future__ import annotations

from typing import Any

from laptime.records.overview import Breakdown, Idle, IdleCause, Overview, Step
from laptime.records.profile import Accelerator, Profile, TraceFile
from laptime.records.tables import KernelRow, OperatorRow
from laptime.trace.difference import change, difference

MS = 1_000_000


def profile(name: str = "a.json", steps: int = 2, device: str = "cuda", **more: Any) -> Profile:
    """A profile of `steps` steps; `more` are parts of the breakdown in ms."""
    tables = {key: more.pop(key) for key in ("operators", "kernels", "world", "accelerators") if key in more}
    idle = more.pop("idle", None)
    breakdown = Breakdown(**{f"{part}_ns": round(ms * MS) for part, ms in more.items()})
    total = breakdown.total_ns
    one = [
        Step(
            number=n,
            start_ns=n * total,
            end_ns=n * total + total,
            host_start_ns=0,
            host_end_ns=0,
            breakdown=breakdown,
        )
        for n in range(1, steps + 1)
    ]
    return Profile(
        files=[TraceFile(name=name, bytes=1, events=1, format="D")],
        device_type=device,
        steps=one,
        overview=Overview(steps=steps, step_ns=total, step_median_ns=total, breakdown=breakdown, idle=idle),
        **tables,
    )


def operator(name: str, host: int, device: int, calls: int = 2) -> OperatorRow:
    return OperatorRow(
        id=name,
        name=name,
        calls=calls,
        host_total_ns=host,
        host_self_ns=host,
        device_self_ns=device,
        device_total_ns=device,
    )


def kernel(name: str, total: int, calls: int = 2) -> KernelRow:
    return KernelRow(id=name, name=name, calls=calls, total_ns=total, mean_ns=0, min_ns=0, max_ns=0)


def test_parts_are_sorted_by_what_explains_the_difference() -> None:
    found = difference(
        profile(kernel=99, dataloader=59, cpu=14), profile("b.json", kernel=99, dataloader=1, cpu=23)
    )
    assert [(row.name, row.change, row.delta_ns) for row in found.breakdown[:2]] == [
        ("dataloader", "faster", -58 * MS),
        ("cpu", "slower", 9 * MS),
    ]
    assert found.breakdown[0].explains == 58 / 49
    assert found.breakdown[1].explains == -9 / 49
    assert sum(row.explains or 0 for row in found.breakdown) == 1
    assert (found.before, found.before_step_ns, found.after_step_ns) == ("a.json", 172 * MS, 123 * MS)
    assert found.speedup == 172 / 123
    assert found.sentence == (
        "Steps are 1.40 times as fast: 172 ms before, 123 ms now; waiting for data takes 58.0 ms less,"
        " while operators on the host take 9.00 ms more."
    )


def test_longer_steps_are_told_so() -> None:
    found = difference(profile(kernel=10), profile(kernel=10, communication=5))
    assert found.sentence == (
        "Steps are 1.50 times as long: 10.0 ms before, 15.0 ms now; communication takes 5.00 ms more."
    )


def test_equal_steps_are_the_same_whatever_moved_inside_them() -> None:
    found = difference(profile(kernel=10, cpu=5), profile(kernel=5, cpu=10))
    assert found.sentence.startswith(
        "Steps take the same within 2.0 %: 15.0 ms before, 15.0 ms now. Inside them,"
    )
    assert found.breakdown[0].explains is None


def test_runs_of_different_lengths_are_compared_per_step() -> None:
    before = profile(kernel=10, steps=2, kernels=[kernel("gemm", 20 * MS, 4), kernel("old", 2 * MS)])
    after = profile(kernel=10, steps=5, kernels=[kernel("gemm", 50 * MS, 10), kernel("new", 5 * MS)])
    found = difference(before, after)
    assert [(row.name, row.change, row.before_ns, row.after_ns) for row in found.kernels] == [
        ("new", "added", 0, MS),
        ("old", "gone", MS, 0),
    ]
    assert found.kernels[0].after_calls == 2 / 5


def test_operators_are_compared_where_they_ran() -> None:
    old, new = [operator("aten::mm", 4 * MS, 20 * MS)], [operator("aten::mm", 4 * MS, 10 * MS)]
    on_device = difference(profile(kernel=10, operators=old), profile(kernel=5, operators=new))
    assert [(row.name, row.change, row.before_ns) for row in on_device.operators] == [
        ("aten::mm", "faster", 10 * MS)
    ]
    on_host = difference(profile(device="cpu", operators=old), profile(device="cpu", operators=new))
    assert on_host.operators == []


def test_operators_that_came_or_went_without_time_on_the_device_are_not_listed() -> None:
    found = difference(profile(kernel=10, operators=[operator("aten::view", 9 * MS, 0)]), profile(kernel=5))
    assert found.operators == []


def test_idle_time_is_compared_by_cause() -> None:
    def idle(data: int) -> Idle:
        cause = IdleCause(cause="data", total_ns=data, share_of_idle=1.0, gaps=2)
        return Idle(total_ns=data, window_ns=99, causes=[cause])

    found = difference(profile(other=1, idle=idle(8 * MS)), profile(other=1, idle=idle(2 * MS)))
    assert [(row.name, row.change, row.before_ns, row.after_ns) for row in found.idle] == [
        ("data", "faster", 4 * MS, MS)
    ]


def test_a_change_needs_two_percent_and_a_microsecond() -> None:
    assert change(1_000_000, 1_019_999) == "same"
    assert change(1_000_000, 1_020_000) == "slower"
    assert change(10_000, 9_001) == "same"
    assert change(10_000, 9_000) == "faster"


def test_what_makes_profiles_hard_to_compare_is_said() -> None:
    here = profile(kernel=1, world=8, accelerators=[Accelerator(id=0, name="A100")])
    there = profile(kernel=1, world=2, accelerators=[Accelerator(id=0, name="H100")])
    assert difference(here, here).warnings == []
    assert difference(here, there).warnings == [
        "Other accelerator: A100 before, H100 now.",
        "Other ranks in the job: 8 before, 2 now.",
    ]
    assert difference(here, profile(cpu=1, device="cpu", steps=1)).warnings == [
        "Other kind of device: cuda before, cpu now.",
        "A single step now: nothing shows how much steps vary.",
    ]
