"""The scripts with a planted cause: they train, and the fix by hand changes their speed and nothing else."""

from __future__ import annotations

import difflib
import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from laptime.tuning.script import trial_process as trials
from laptime.tuning.trial.messages import TrialPlan

ROOT = Path(__file__).resolve().parents[2]
SLOW, FIXED = ROOT / "examples" / "slow", ROOT / "benchmarks" / "slow_fixed"
NAMES = sorted(path.stem for path in SLOW.glob("*.py"))
SAME_BITS = {"chatty", "recomputed_transforms"}
OTHER_RANDOM_NUMBERS = {"input_bound"}
HALF_PRECISION, SAME_MATHS = 2e-2, 1e-4
"""Relative distance of losses: bfloat16 has 8 bits; other orders of summation in float32."""


def losses(script: Path, folder: Path, **options: Any) -> list[float]:
    """Of the first three steps, in a process of its own."""
    plan = TrialPlan(folder=str(folder), settle=0, steps=3, rounds=1, seed=0, **options)
    with trials.start([str(script)], python=sys.executable, plan=plan, timeout=300) as running:
        blocks = list(running.blocks())
        ended = running.finish()
    assert blocks, ended.error or running.last_words()
    return blocks[0].losses


def fixed_by_hand(name: str, folder: Path) -> Path:
    """The script as the benchmark patches it."""
    slow = benchmark()
    script: Path | None = slow.patched(SLOW / f"{name}.py", slow.fix_by_hand(name), folder)
    assert script is not None, f"{name}.patch does not apply"
    return script


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_fix_by_hand_trains_as_the_slow_script_does(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    if name == "tiny_ops" and importlib.util.find_spec("torch._inductor") is None:
        pytest.skip("nothing to compile with")
    slow = losses(SLOW / f"{name}.py", tmp_path / "slow")
    fixed = losses(fixed_by_hand(name, tmp_path / "by hand"), tmp_path / "fixed")
    assert len(slow) == len(fixed) == 3
    assert all(map(math.isfinite, slow))
    if name in SAME_BITS:
        assert slow == fixed
    elif name not in OTHER_RANDOM_NUMBERS:
        allowed = HALF_PRECISION if name == "fp32_transformer" else SAME_MATHS
        assert fixed == pytest.approx(slow, rel=allowed)


def test_every_script_has_a_fix_that_is_small(tmp_path: Path) -> None:
    assert sorted(path.stem for path in FIXED.glob("*.patch")) == NAMES == sorted(benchmark().CAUSES)
    for name in NAMES:
        scripts = (SLOW / f"{name}.py", fixed_by_hand(name, tmp_path / name))
        before, after = (script.read_text().splitlines() for script in scripts)
        changed = [line for line in difflib.ndiff(before, after) if line.startswith("+ ")]
        assert 0 < len(changed) <= 9, name


# What the benchmark concludes.


def benchmark() -> ModuleType:
    folder = str(ROOT / "benchmarks")
    spec = importlib.util.spec_from_file_location("benchmarks_slow", ROOT / "benchmarks" / "slow.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
        del sys.modules[spec.name]
    return module


def found(name: str, first: str, **seconds: float) -> dict[str, Any]:
    slow = benchmark()
    rounds = [{side.replace("_", " "): each for side, each in seconds.items()}] * 3
    shares = {side: slow.share(rounds, side) for side in ("tuner", "suggestion")}
    return {"name": name, "first": first, "rounds": rounds, "shares": shares}


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("num_workers=2", "num_workers"),
        ("defer_logging every=50 sites=[0]", "defer_logging"),
        ("compile", "compile"),
    ],
)
def test_the_first_suspect_is_what_is_named_first(label: str, name: str) -> None:
    first_named = benchmark().first_named
    suspects = [{"label": label}, {"label": "allocator"}]
    assert first_named({"diagnosis": {"before": {"suspects": suspects}}}) == name
    assert first_named({"diagnosis": {"before": {}}}) == ""


def test_a_share_is_of_the_gain_and_not_of_the_time() -> None:
    slow = benchmark()
    rounds = [{"slow": 3.0, "by hand": 1.0, "tuner": 1.5}]
    assert slow.share(rounds, "tuner") == pytest.approx(0.5)
    assert slow.share(rounds, "suggestion") is None
    assert slow.share([{"slow": 1.0, "by hand": 1.0, "tuner": 0.5}], "tuner") is None


def test_a_cause_counts_when_it_is_first_and_nine_tenths_are_taken() -> None:
    is_kept = benchmark().is_kept
    assert is_kept(found("many_tensors", "fused_optimizer", slow=2.0, by_hand=1.0, tuner=1.05))
    assert not is_kept(found("many_tensors", "fused_optimizer", slow=2.0, by_hand=1.0, tuner=1.06))
    assert not is_kept(found("many_tensors", "threads", slow=2.0, by_hand=1.0, tuner=1.0))
    assert not is_kept(found("many_tensors", "fused_optimizer", slow=2.0, by_hand=1.0))
    assert is_kept(found("fp32_transformer", "", slow=1.0, by_hand=2.0))
    assert is_kept(found("chatty", "defer_logging", slow=2.0, by_hand=1.0, tuner=1.9, suggestion=1.0))
