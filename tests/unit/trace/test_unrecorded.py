"""What no event explains is said as not recorded, and no advice rests on it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from advice.made import parts
from fixtures.kineto import A100, Recording
from laptime import rules
from laptime.records.profile import Profile
from laptime.trace import profile
from laptime.trace.reading import reader


def read(recording: Recording) -> Profile:
    document = {**recording.top, "traceEvents": recording.events}
    found = profile.profile(profile.view(reader.parse(json.dumps(document).encode())))
    assert found.overview.idle is not None
    return found


def with_pause(us: float, *, stack: bool = False, range_name: str = "", flush: bool = False) -> Recording:
    """Four steps of 40 short operators with a pause of the host in each."""
    recording = Recording(A100, with_stack=int(stack))
    for number in range(4):
        with recording.step(number):
            for _ in range(20):
                parts.linear(recording, 50)
            recording.sync()
            if stack:
                with recording.function("train.py(9): log"):
                    recording.work(us)
            elif range_name:
                with recording.annotation(range_name):
                    recording.work(us)
            elif flush:
                recording._emit("overhead", "Buffer Flush", recording.now, us, {})
                recording.now += us
            else:
                recording.work(us)
            for _ in range(20):
                parts.linear(recording, 50)
    recording.sync()
    return recording


def causes(found: Profile) -> dict[str, float]:
    """Milliseconds per step of each cause of idle time."""
    assert found.overview.idle is not None
    return {row.cause: row.total_ns / 4e6 for row in found.overview.idle.causes}


def test_a_long_gap_without_any_event_is_not_recorded() -> None:
    found = read(with_pause(20_000))
    assert causes(found)["unrecorded"] == pytest.approx(
        18.5, rel=0.02
    )  # the wait before it cost 1.3 ms of lead
    assert causes(found).get("host", 0) + causes(found).get("synchronisation", 0) < 2
    assert found.overview.unrecorded_ns == pytest.approx(20e6, rel=0.05)
    assert found.workload is not None
    assert [row for row in found.workload.host_work if row.kind == "stretch"] == []
    verdict = rules.verdict(found)
    assert verdict.bound == "unknown"
    assert "recorded 19.7 ms" in verdict.sentence
    findings = rules.diagnose(found)
    assert [one.kind for one in findings if "not-recorded" in one.kind] == ["trace/not-recorded"]
    assert sum(one.gain or 0 for one in findings) < 4e-3  # none of it rests on the 20 ms


@pytest.mark.parametrize("shown", [{"stack": True}, {"range_name": "log"}])
def test_what_a_stack_or_a_range_names_is_the_programs(shown: dict[str, Any]) -> None:
    found = read(with_pause(20_000, **shown))
    assert found.overview.unrecorded_ns == 0
    assert "unrecorded" not in causes(found)


def test_short_gaps_are_python_between_operators() -> None:
    assert read(with_pause(600)).overview.unrecorded_ns == 0


def test_flushing_buffers_is_the_profilers_own() -> None:
    found = read(with_pause(20_000, flush=True))
    assert "buffers 20.0 ms" in rules.verdict(found).sentence
    assert found.overview.idle is not None
    (row,) = [row for row in found.overview.idle.causes if row.cause == "unrecorded"]
    assert row.operators[0][0] == "the profiler"
    (said,) = [one for one in rules.diagnose(found) if one.kind == "trace/not-recorded"]
    assert "profiler" in said.sentence


def test_causes_still_sum_to_the_idle_time() -> None:
    idle = read(with_pause(20_000)).overview.idle
    assert idle is not None
    assert sum(row.total_ns for row in idle.causes) == idle.total_ns
