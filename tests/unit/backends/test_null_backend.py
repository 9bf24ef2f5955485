"""Planted behaviour: what is planted happens, and a wrong SPEC is explained."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time

import pytest

from laptime.backends import null
from laptime.kit.errors import OutOfMemory, TargetError, Unavailable, UsageError, UserCodeError
from laptime.measure import protocol
from laptime.records.plan import Variant
from laptime.targets.null import Spec, parse_spec


def model(spec: str) -> null.NullModel:
    return null.open(Variant(target=f"null:{spec}", backend="null"))


def seconds(call: object) -> float:
    start = time.thread_time()
    call()  # type: ignore[operator]
    return time.thread_time() - start


def test_grammar() -> None:
    text = "spin=1ms,per_item=200us,first=0.05s,warmup=20x1.5ms,jitter=3%,alloc=2MiB,fits=64,flops=1e9"
    text += ",nan,raise,at=7"
    assert parse_spec(text) == Spec(
        spin=1e-3,
        per_item=pytest.approx(2e-4),  # type: ignore[arg-type]
        first=0.05,
        warmup=(20, 1.5e-3),
        jitter=0.03,
        alloc=2 * 2**20,
        fits=64,
        flops=1e9,
        nan=True,
        fault="raise",
        at=7,
    )
    assert parse_spec("noop") == Spec()
    assert parse_spec("crash,at=load").at == 0


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("spinn=1ms", "did you mean 'spin'?"),
        ("spin=1", "expected a number and one of ns, us, ms, s"),
        ("spin", "spin needs a value"),
        ("raise=3", "takes no value"),
        ("warmup=1ms", "20x1.5ms"),
        ("at=0", "call number from 1"),
        ("", "the words are"),
        ("alloc=2MB", "GiB"),
    ],
)
def test_wrong_spec_is_explained(spec: str, word: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_spec(spec)
    assert word in str(caught.value)


def test_spin_grows_with_the_batch_and_burns_cpu() -> None:
    opened = model("spin=1ms,per_item=1ms")
    one, eight = opened.workload(1), opened.workload(8)
    assert min(seconds(one.call) for _ in range(5)) == pytest.approx(2e-3, rel=0.05)
    assert min(seconds(eight.call) for _ in range(5)) == pytest.approx(9e-3, rel=0.05)


def test_first_call_and_warm_up_are_slow_for_each_batch() -> None:
    opened = model("spin=0.5ms,first=20ms,warmup=3x5ms")
    for batch in (1, 4):
        call = opened.workload(batch).call
        times = [seconds(call) for _ in range(5)]
        assert times[0] > 25e-3
        assert min(times[1:3]) > 5.4e-3
        assert min(times[3:]) < 3e-3


def test_jitter_is_the_same_in_each_run() -> None:
    def factors() -> list[float]:
        call = model("spin=2ms,jitter=20%").workload(1).call
        return [seconds(call) for _ in range(6)]

    first, second = factors(), factors()
    best = [min(pair) for pair in zip(first, second, strict=True)]
    assert max(best) / min(best) > 1.1


def test_faults_happen_when_planted() -> None:
    call = model("raise,at=3").workload(1).call
    call()
    call()
    with pytest.raises(RuntimeError, match="planted"):
        call()
    with pytest.raises(UserCodeError, match="be loaded"):
        model("raise,at=load")
    with pytest.raises(OutOfMemory):
        model("oom,at=load")


def test_batches_that_do_not_fit_run_out_of_memory() -> None:
    opened = model("fits=37")
    opened.workload(37).call()
    with pytest.raises(MemoryError) as caught:
        opened.workload(38).call()
    assert isinstance(opened.explain(caught.value, 38), OutOfMemory)
    assert type(opened.explain(RuntimeError("x"), 38)) is UserCodeError


@pytest.mark.parametrize(("fault", "number"), [("crash", signal.SIGSEGV), ("kill", signal.SIGKILL)])
def test_process_faults_end_the_process(fault: str, number: signal.Signals) -> None:
    code = f"""
from laptime.backends import null
from laptime.records.plan import Variant
null.open(Variant(target='null:{fault}', backend='null')).workload(1).call()
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == -number


def test_nan_is_seen_in_the_output() -> None:
    assert math.isnan(model("nan").workload(1).call())
    assert model("nan").check_outputs(1)["finite"] is False
    assert model("noop").check_outputs(1)["finite"] is True


def test_claimed_flops_grow_with_the_batch() -> None:
    series, _ = model("flops=1e9").count(4)
    assert series[0].samples == [4e9]
    assert model("noop").count(4)[0] == []


def test_abilities() -> None:
    opened = model("noop")
    assert isinstance(opened, protocol.CountsWork)
    assert isinstance(opened, protocol.ChecksOutputs)
    assert isinstance(opened, protocol.Explains)
    assert not isinstance(opened, protocol.TimesDevice)
    assert not isinstance(opened, protocol.MeasuresMemory)


def test_plain_function_is_measured_as_it_is() -> None:
    seen = []
    opened = null.open_object(
        lambda *a, **k: seen.append((a, k)), (1, 2), Variant(target="f", backend="null")
    )
    opened.workload(1).call()
    assert seen == [((1, 2), {})]
    with pytest.raises(UsageError, match="batch 8"):
        opened.workload(8)
    made = null.open_object(lambda n: n, lambda batch: batch * 10, Variant(target="f", backend="null"))
    assert made.workload(8).call() == 80


def test_what_only_a_framework_can_do_is_refused() -> None:
    with pytest.raises(Unavailable):
        null.open(Variant(target="null:noop", backend="null", device="cuda"))
    for variant in (
        Variant(target="null:noop", dtype="bfloat16"),
        Variant(target="null:noop", compile="default"),
        Variant(target="null:noop", threads=2),
    ):
        with pytest.raises(UsageError, match="null backend"):
            null.open(variant)
