"""What every optimization of computing says about itself, and when it is proposed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from laptime.kit import registry
from laptime.tuning import optimization
from laptime.tuning.catalogue import allocator, huge_pages
from laptime.tuning.catalogue.threads import MOST
from laptime.tuning.loop_profile import FACTS, LoopProfile, unmet_need

_NAMES = """
channels_last bf16_autocast fp16_autocast tf32 onednn_bf16
compile compile_reduce_overhead compile_max_autotune mark_dynamic
fused_optimizer foreach_optimizer set_to_none
threads allocator huge_pages flush_denormal cudnn_benchmark gc_freeze no_anomaly_detection
sdpa activation_checkpointing no_checkpointing expandable_segments
ddp_bucket_size ddp_static_graph ddp_gradient_as_bucket_view ddp_bf16_hook find_unused_parameters
"""
NAMES = _NAMES.split()

SHARES = {
    "data": 0.1,
    "transfer": 0.05,
    "forward": 0.25,
    "backward": 0.4,
    "optimizer": 0.15,
    "other": 0.05,
}


def loop_profile(*facts: str, device: str = "cpu", **others: Any) -> LoopProfile:
    given: dict[str, Any] = {
        "step": 1.0,
        "shares": SHARES,
        "cpus": 4,
        "threads": 4,
        "device": device,
    } | others
    return LoopProfile(facts=frozenset(facts), **given)


CPU = loop_profile("cpu", "conv", "linear", "gcc", "adamw", "loader")
GPU = loop_profile(
    "cuda", "conv", "linear", "attention", "gcc", "adamw", "bf16", "fp16", "tf32", "loader", "clipping",
    "accumulation", "hf_model", "blocks", device="cuda:0", enqueue=0.95, details={"sdpa": ["eager"]},
)  # fmt: skip
DDP = loop_profile("cuda", "ddp", "find_unused", "adamw", "linear", device="cuda:0", parameters=50_000_000)
VARYING = loop_profile(
    "cuda", "compiled", "varying_shapes", "checkpointing", "zero_grad_to_zero", device="cuda:0"
)
ODD = loop_profile(
    "cpu", "bf16", "conv", "blocks", details={"flush_denormal": {"share": 0.5}, "gc_freeze": {"seconds": 9}}
)
EMPTY = LoopProfile()


def reason(name: str, found: LoopProfile) -> str:
    """Why it is not proposed, as reports say it."""
    own = optimization.load(name)
    return unmet_need(own.needs, found.facts) or str(own.why_not(found))


@pytest.mark.parametrize("name", NAMES)
def test_what_it_says_of_itself_is_in_the_words_of_the_contract(name: str) -> None:
    own = optimization.load(name)
    assert own.numerics in optimization.NUMERICS
    assert isinstance(own.live, bool)
    assert 0 <= own.prior <= 1
    given = set().union(*(optimization.load(each).given_facts for each in NAMES))
    for fact in {*own.needs, *own.conflicts}:
        assert fact.removeprefix("!") in FACTS | given
    assert own.given_facts
    doc = registry.load("optimizations", name).__doc__ or ""
    assert "Source:" in doc
    assert "Lies when:" in doc


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("found", [CPU, GPU, DDP, VARYING, ODD, EMPTY])
def test_options_are_plain_and_save_no_more_than_a_step(name: str, found: LoopProfile) -> None:
    own = optimization.load(name)
    proposed = own.offer(found)
    assert json.loads(json.dumps(proposed)) == proposed
    assert len({json.dumps(options) for options in proposed}) == len(proposed)
    for options in proposed:
        assert 0 <= own.bound(found, options) <= found.step


@pytest.mark.parametrize("name", NAMES)
def test_a_reason_is_given_where_nothing_is_known(name: str) -> None:
    own = optimization.load(name)
    missing = [need for need in own.needs if not need.startswith("!")]
    if own.offer(EMPTY) == [] or missing:
        assert reason(name, EMPTY)


@pytest.mark.parametrize(
    ("name", "found", "yes"),
    [
        ("bf16_autocast", CPU, False),
        ("bf16_autocast", GPU, True),
        ("tf32", GPU, True),
        ("tf32", loop_profile("cuda", "tf32", "conv"), False),
        ("onednn_bf16", ODD, True),
        ("onednn_bf16", loop_profile("cpu", "bf16"), False),
        ("fused_optimizer", CPU, True),
        ("fused_optimizer", loop_profile("cpu"), False),
        ("foreach_optimizer", CPU, True),
        ("foreach_optimizer", GPU, False),
        ("set_to_none", CPU, False),
        ("set_to_none", VARYING, True),
        ("sdpa", GPU, True),
        ("sdpa", CPU, False),
        ("mark_dynamic", VARYING, True),
        ("mark_dynamic", CPU, False),
        ("flush_denormal", CPU, False),
        ("flush_denormal", ODD, True),
        ("gc_freeze", ODD, True),
        ("gc_freeze", CPU, False),
        ("threads", CPU, True),
        ("threads", loop_profile("cpu", cpus=1, threads=1), False),
        ("threads", loop_profile("cpu", cpus=1, threads=8), True),
        ("threads", loop_profile("cuda", "workers", device="cuda:0"), False),
        ("threads", loop_profile("cuda", device="cuda:0", shares={"data": 0.5, "forward": 0.5}), True),
        ("activation_checkpointing", ODD, True),
        ("activation_checkpointing", CPU, False),
        ("no_checkpointing", VARYING, True),
        ("no_checkpointing", loop_profile("checkpointing", device="cuda:0", device_memory=1, peak=2), False),
        ("expandable_segments", VARYING, True),
        ("expandable_segments", GPU, False),
        ("ddp_bucket_size", DDP, True),
        ("ddp_bucket_size", loop_profile("ddp", parameters=1000), False),
        ("find_unused_parameters", DDP, True),
        (
            "find_unused_parameters",
            loop_profile("ddp", "find_unused", details={"find_unused_parameters": {"unused": 2}}),
            False,
        ),
    ],
)
def test_when_it_is_proposed(name: str, found: LoopProfile, yes: bool) -> None:
    own = optimization.load(name)
    holds = not unmet_need(own.needs, found.facts)
    assert (holds and bool(own.offer(found))) is yes
    if not yes:
        assert reason(name, found)


def test_a_cpu_without_bfloat16_is_told_that_it_would_be_slower() -> None:
    assert "slower" in reason("bf16_autocast", CPU)


def test_threads_are_a_space_that_begins_near_the_present() -> None:
    threads = optimization.load("threads")
    assert [each["threads"] for each in threads.offer(loop_profile("cpu"))] == [3, 2, 1]
    many = [each["threads"] for each in threads.offer(loop_profile("cpu", cpus=96, threads=48))]
    assert {1, 96} < set(many)
    assert 48 not in many
    assert len(many) <= MOST + 2
    assert [abs(each - 48) for each in many] == sorted(abs(each - 48) for each in many)


def test_more_threads_than_present_are_bound_by_their_number() -> None:
    threads = optimization.load("threads")
    assert threads.bound(loop_profile("cpu", threads=1), {"threads": 4}) == pytest.approx(0.8 * 3 / 4)
    too_many = loop_profile("cpu", cpus=2, threads=64)
    assert threads.bound(too_many, {"threads": 2}) > threads.bound(loop_profile("cpu"), {"threads": 2})


def test_fewer_threads_that_have_a_core_each_save_what_sharing_operators_costs() -> None:
    threads, fewer = optimization.load("threads"), {"threads": 2}
    few, many = (loop_profile("cpu", details={"operators": {"count": count}}) for count in (100, 100_000))
    assert threads.bound(few, fewer) == pytest.approx(0.005 + 0.8 / 20)
    assert threads.bound(many, fewer) == pytest.approx(0.8 / 3)
    beside_workers = replace(few, facts=few.facts | {"workers"})
    assert threads.bound(beside_workers, fewer) >= 0.8 / 3


def test_half_precisions_exclude_each_other() -> None:
    given = [optimization.load(name).given_facts for name in ("bf16_autocast", "fp16_autocast")]
    assert given[0] & given[1]
    assert "autocast" in optimization.load("onednn_bf16").conflicts


def test_ways_to_compile_exclude_each_other_and_say_that_they_compile() -> None:
    for name in ("compile", "compile_reduce_overhead", "compile_max_autotune"):
        own = optimization.load(name)
        assert "compiled" in own.given_facts
        assert "!compiled" in own.needs
        assert own.compiles


def test_what_only_saves_memory_has_another_goal_and_saves_no_time() -> None:
    own = optimization.load("activation_checkpointing")
    assert own.goal == "memory"
    assert own.bound(ODD, {}) == 0


def test_huge_pages_are_asked_for_where_asking_helps(monkeypatch: Any, tmp_path: Any) -> None:
    own = optimization.load("huge_pages")
    monkeypatch.delenv(huge_pages.VARIABLE, raising=False)
    switch = tmp_path / "enabled"
    monkeypatch.setattr(huge_pages, "SWITCH", switch)
    assert own.offer(CPU) == []
    for text, yes in (
        ("[always] madvise never", 0),
        ("always [madvise] never", 1),
        ("always madvise [never]", 0),
    ):
        switch.write_text(text)
        assert len(own.offer(CPU)) == yes
        assert yes or own.why_not(CPU)


def test_the_allocator_is_left_to_those_who_have_set_it(monkeypatch: Any) -> None:
    own = optimization.load("allocator")
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(allocator, "_is_glibc", lambda: True)
    assert own.offer(CPU) == [{}]
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "1")
    assert own.offer(CPU) == []
    assert "environment" in own.why_not(CPU)


def test_another_allocator_is_seen(monkeypatch: Any) -> None:
    own = optimization.load("allocator")
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libjemalloc.so.2")
    assert own.offer(CPU) == []
    assert "glibc" in own.why_not(CPU)


def test_page_faults_that_were_counted_bound_what_memory_can_gain() -> None:
    kept, huge = (optimization.load(name) for name in ("allocator", "huge_pages"))
    plain = loop_profile("cpu")
    few, many = (replace(plain, details={"page_faults": faults}) for faults in (0, 10**9))
    assert kept.bound(few, {}) == 0
    assert kept.bound(many, {}) == kept.bound(plain, {})
    assert huge.bound(few, {}) < huge.bound(many, {}) == huge.bound(plain, {})


def test_what_compiling_can_gain_follows_from_the_operators() -> None:
    own = optimization.load("compile")
    plain = loop_profile("cpu")
    library, chain = (
        replace(plain, details={"operators": {"count": 100, "fusable": share}}) for share in (0.0, 1.0)
    )
    counted = replace(plain, details={"operators": {"count": 100}})
    assert own.bound(library, {}) < own.bound(plain, {}) < own.bound(chain, {})
    assert own.bound(counted, {}) == own.bound(plain, {})


def test_what_narrower_numbers_can_gain_follows_from_the_operators() -> None:
    plain = loop_profile("cpu", "bf16")
    products, chain = (
        replace(plain, details={"operators": {"count": 100, "fusable": share}}) for share in (0.0, 1.0)
    )
    for name in ("bf16_autocast", "onednn_bf16"):
        own = optimization.load(name)
        assert own.bound(products, {}) == own.bound(plain, {})
        assert own.bound(chain, {}) < 0.5 * own.bound(products, {})
    tiny, compiling = optimization.load("bf16_autocast"), optimization.load("compile")
    assert tiny.bound(chain, {}) < 0.5 * compiling.bound(chain, {})
