from __future__ import annotations

import gc
from typing import Any

import pytest

from laptime.backends import null
from laptime.kit.clock import SystemClock
from laptime.kit.errors import TargetError, Unavailable
from laptime.measure.engine import Engine, decode_command
from laptime.measure.failures import failure_of
from laptime.measure.protocol import (
    Block,
    Close,
    Command,
    Done,
    Facts,
    Failed,
    Load,
    Loaded,
    Message,
    Pass,
    Prepare,
    Prepared,
    Samples,
)
from laptime.records.plan import Variant
from laptime.records.series import Label

VARIANT = Variant(target="null:noop", backend="null")


def loaded(call: Any, **more: Any) -> Engine:
    engine = Engine(lambda variant: null.open_object(call, lambda batch: None, variant), **more)
    done(engine, Load(variant=VARIANT))
    return engine


def done(engine: Engine, command: Command) -> Message:
    *answers, last = engine.answer(command)
    assert isinstance(last, Done), last
    return answers[0] if answers else last


def failed(engine: Engine, command: Command) -> Any:
    (last,) = engine.answer(command)
    assert isinstance(last, Failed)
    return last.failure


def quick(**more: Any) -> Block:
    given: dict[str, Any] = {"batch": 1, "regime": "isolated", "seconds": 0.001, "min_calls": 5} | more
    return Block(**given)


def test_every_command_has_its_answer() -> None:
    engine = Engine(null.open)
    assert isinstance(done(engine, Load(variant=VARIANT)), Loaded)
    assert isinstance(done(engine, Prepare(batch=2)), Prepared)
    assert isinstance(done(engine, quick(batch=2)), Samples)
    for kind in ("outputs", "count", "memory", "copies"):
        assert isinstance(done(engine, Pass(kind=kind, batch=2)), Facts)
    assert isinstance(done(engine, Close()), Done)


@pytest.mark.parametrize("regime", ["isolated", "saturated", "paced"])
def test_series_of_a_block_are_of_one_length(regime: str) -> None:
    engine = loaded(lambda x: sum(range(2000)))
    done(engine, Prepare(batch=1))
    found = done(engine, quick(regime=regime, rate=1000.0))
    assert isinstance(found, Samples)
    latency, *evidence = [series for series in found.series if series.metric.tag != "evidence/process/memory"]
    assert latency.key == ("latency", regime)
    assert {series.regime for series in (latency, *evidence)} == {regime}
    assert {len(series.samples) for series in evidence} == {len(latency.samples)}
    assert all(value > 0 for value in latency.samples)
    assert latency.at == sorted(latency.at)


def test_the_memory_of_the_process_is_told_once_a_block_after_its_last_call() -> None:
    engine = loaded(lambda x: sum(range(2000)))
    done(engine, Prepare(batch=1))
    found = done(engine, quick(regime="isolated"))
    assert isinstance(found, Samples)
    (memory,) = [series for series in found.series if series.metric.tag == "evidence/process/memory"]
    assert memory.samples[0] > 2**20
    assert memory.at[0] > found.series[0].at[-1]


def test_commands_out_of_order_are_answered_with_the_mistake() -> None:
    engine = Engine(null.open)
    assert "was loaded" in failed(engine, Prepare(batch=1)).what
    done(engine, Load(variant=VARIANT))
    assert "not prepared" in failed(engine, quick()).what
    done(engine, Close())
    assert "was loaded" in failed(engine, Prepare(batch=1)).what


def test_what_fails_leaves_the_engine_alive() -> None:
    calls = []

    def call(x: Any) -> None:
        calls.append(x)
        if len(calls) == 2:
            raise ValueError("planted")

    engine = loaded(call)
    done(engine, Prepare(batch=1))
    found = failed(engine, quick())
    assert found.kind == "user_code"
    assert "planted" in found.why
    assert "in call" in found.traceback
    assert isinstance(done(engine, quick()), Samples)


def test_a_first_call_that_fails_prepares_nothing() -> None:
    engine = loaded(lambda x: 1 / 0)
    assert failed(engine, Prepare(batch=1)).kind == "user_code"
    assert "not prepared" in failed(engine, quick()).what


def test_exhausted_memory_is_told_apart() -> None:
    engine = loaded(lambda x: bytearray(2**62))
    assert failed(engine, Prepare(batch=1)).kind == "out_of_memory"


def test_a_target_that_does_not_load_says_so() -> None:
    found = failed(Engine(null.open), Load(variant=Variant(target="null:nop", backend="null")))
    assert found.kind == "target"
    assert "noop" in found.next


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TargetError("x"), "target"),
        (Unavailable("x"), "unavailable"),
        (MemoryError(), "out_of_memory"),
        (KeyError("x"), "user_code"),
    ],
)
def test_failures_have_kinds(error: Exception, kind: str) -> None:
    assert failure_of(error).kind == kind


def test_a_garbage_collection_is_seen_where_it_ran() -> None:
    number = 0

    def call(x: Any) -> None:
        nonlocal number
        number += 1
        if number == 4:
            gc.collect()

    engine = loaded(call)
    done(engine, Prepare(batch=1))
    enabled = gc.isenabled()
    gc.disable()
    try:
        found = done(engine, quick(min_calls=6, max_calls=6))
    finally:
        if enabled:
            gc.enable()
    assert isinstance(found, Samples)
    assert [Label.GC in Label(bits) for bits in found.series[0].label] == [False, False, True] + [False] * 3


def test_import_and_load_are_told_apart() -> None:
    clock = SystemClock

    def wait(seconds: float) -> None:
        clock.sleep(seconds)

    def slow_open(variant: Variant) -> Any:
        wait(0.02)
        return null.open(variant)

    engine = Engine(slow_open, import_framework=lambda variant: wait(0.05))
    found = done(engine, Load(variant=VARIANT))
    assert isinstance(found, Loaded)
    assert found.imported >= 0.05
    assert found.loaded >= 0.02


def test_commands_are_read_from_json() -> None:
    assert decode_command(b'{"type":"prepare","batch":8}') == Prepare(batch=8)
    assert decode_command(b'{"type":"block","batch":1,"regime":"isolated","seconds":1}') == Block(
        batch=1, regime="isolated", seconds=1
    )
    assert decode_command(b'{"type":"close"}') == Close()
