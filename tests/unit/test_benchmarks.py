"""The benchmarks of laptime itself: what they conclude from figures, and that the shared parts keep them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from laptime.records.comparison import Comparison

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def _beside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def benchmark(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{Path(name).stem}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_medians_are_shown_with_interval_where_one_exists() -> None:
    shown = benchmark("_shown").shown
    assert shown([1.0, 2.0, 3.0], factor=1e3, unit="ms", digits=0) == "2000 ms"
    assert shown([5, 1, 9, 3, 7, 2, 8, 4, 6], factor=1, unit="s", digits=0) == "5 [2, 8] s"


def test_a_file_of_figures_is_replaced_in_one_move(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    for number in (1, 2):
        benchmark("_shown").write(file, {"number": number})
        assert json.loads(file.read_text()) == {"number": number}
    assert list(tmp_path.iterdir()) == [file]


# Honesty


def compared(word: str, ci95: tuple[float, float]) -> Comparison:
    return Comparison(
        baseline="a",
        candidate="b",
        metric="latency/isolated",
        speedup=1.0,
        ci95=ci95,
        word=word,  # type: ignore[arg-type]
        margin=0.01,
        pairs=30,
    )


def test_a_wrong_word_and_a_missed_truth_are_counted() -> None:
    honesty = benchmark("honesty")
    found = [compared("same", (0.99, 1.01))] * 98 + [compared("faster", (1.02, 1.04))] * 2
    score = honesty.scored("quiet", 1.0, found)
    assert (score["n"], score["wrong"], score["covered"]) == (100, 2, 98)
    assert not honesty.kept(score)
    assert honesty.kept(honesty.scored("quiet", 1.0, found[:-1]))


def test_a_slowdown_that_is_called_same_breaks_the_promise() -> None:
    honesty = benchmark("honesty")
    right, unsure = compared("slower", (0.94, 0.96)), compared("unclear", (0.94, 1.01))
    assert honesty.kept(honesty.scored("quiet", 1.05, [right] * 95 + [unsure] * 5))
    assert not honesty.kept(honesty.scored("quiet", 1.05, [right] * 94 + [unsure] * 6))
    assert not honesty.kept(honesty.scored("quiet", 1.05, [right] * 99 + [compared("same", (0.99, 1.0))]))


def test_a_planted_slowdown_is_slower_on_the_scripted_machine() -> None:
    found = benchmark("honesty").scripted({}, 1.05, 0)
    assert found.word == "slower"


# Comparisons of known truth with real processes


def test_real_comparisons_go_on_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = benchmark("real_comparisons")
    made: list[tuple[str, int]] = []

    def one(name: str, seed: int) -> dict[str, Any]:
        made.append((name, seed))
        word, truth = "slower" if "10" in name else "unclear", 1 / script.PAIRS[name][2]
        ci95 = [0.99 * truth, 1.01 * truth]
        return {"pair": name, "seed": seed, "word": word, "speedup": truth, "ci95": ci95, "wall": 20.0}

    monkeypatch.setattr(script, "compared", one)
    for each in (1, 2):
        monkeypatch.setattr(sys, "argv", ["x", "--each", str(each), "--json", str(tmp_path / "c.json")])
        assert script.main() == 0
    assert sorted(made) == sorted((name, seed) for name in script.PAIRS for seed in (0, 1))
    assert "| 10 % more | 2 | 0 | 2 | 0 | 0 | 2 of 2 | 0.91% | 20 s |" in capsys.readouterr().out


# Against pytorch-benchmark


def a_round(
    their: float, our: float, ci95: list[float] | None, *, verdict: str = "trusted"
) -> dict[str, Any]:
    case = {"value": our, "ci95": ci95, "n": 30, "verdict": verdict, "reasons": []}
    return {
        "burn": False,
        "theirs": {"wall": 30.0, "torch": "2", "seconds": {"1": their}},
        "timer": {"wall": 9.0, "torch": "2", "seconds": {"1": 0.021}},
        "ours": {"wall": 12.0, "torch": "2", "exit": 0, "verdict": verdict, "cases": {"1": case}},
    }


def test_spreads_coverage_and_verdicts_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    rounds = [
        a_round(0.030, 0.020, [0.019, 0.021]),
        a_round(0.045, 0.022, [0.0215, 0.0225], verdict="noisy"),
        a_round(0.036, 0.020, None, verdict="noisy"),
    ]
    benchmark("against_pytorch_benchmark").tables(rounds, rounds, "Quiet")
    told = capsys.readouterr().out
    assert "| wall time | 30.0 s | 12.0 s | 0.40 |" in told
    columns = "| 1 | 36.0 ms, 1.50x | 21.0 ms, 1.00x | 20.0 ms, 1.10x | 1.00x of 1 | 1 of 3 | 0 of 2 |"
    assert columns in told
    assert "our verdicts: noisy 2, trusted 1" in told


def test_rounds_are_kept_and_missing_ones_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    against = benchmark("against_pytorch_benchmark")
    file = tmp_path / "against.json"
    ran: list[str] = []

    def theirs(python: str, script: str, *arguments: int) -> dict[str, Any]:
        ran.append(script)
        return {"wall": 2.0, "torch": "2", "seconds": {"1": 0.03}}

    monkeypatch.setattr(against, "theirs", theirs)
    monkeypatch.setattr(against, "ours", lambda batch: a_round(0.03, 0.02, None)["ours"])
    for asked, total in ((1, 1), (3, 3), (2, 3)):
        monkeypatch.setattr(
            sys, "argv", ["x", "--their-python", "p", "--rounds", str(asked), "--json", str(file)]
        )
        assert against.main() == 0
        assert len(json.loads(file.read_text())["rounds"]) == ran.count("_theirs.py") == total
        assert ran.count("_timer.py") == total
    monkeypatch.setattr(sys, "argv", ["x", "--their-python", "p", "--num-runs", "7", "--json", str(file)])
    assert against.main() == 2


def test_the_busy_neighbour_burns_and_ends() -> None:
    against = benchmark("against_pytorch_benchmark")
    with against.neighbour(True, 3):
        import psutil

        (child,) = (
            process for process in psutil.Process().children() if "_burn.py" in " ".join(process.cmdline())
        )
        used = 0.0
        end = time.monotonic() + 10
        while used < 0.1 and time.monotonic() < end:
            time.sleep(0.05)
            used = child.cpu_times().user
    assert used >= 0.1
    assert not child.is_running()


def test_the_script_for_the_other_tool_is_skipped_without_it() -> None:
    script = FOLDER / "against_pytorch_benchmark.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("skipped: it needs --their-python PATH")


# The article's ladder


def test_both_ladders_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    ladder = benchmark("device/tune_ladder")
    document = {
        "diagnosis": {"before": {"step": 0.08, "batch": 32, "utilization": 0.3}},
        "ladder": [
            {"name": "identity", "kept": False, "speedup": 1.0},
            {
                "name": "num_workers",
                "label": "num_workers=8",
                "kept": True,
                "speedup": 4.0,
                "ci95": [3.9, 4.1],
                "step": 0.02,
                "throughput": 1600.0,
                "utilization": 0.9,
            },
        ],
        "speedup": {"value": 8.5, "ci95": [8.0, 9.0]},
        "baseline": {"throughput": 400.0},
        "final": {"throughput": 3400.0},
        "gate": {"word": "passed"},
    }
    ladder.show(document)
    told = capsys.readouterr().out
    assert "| num_workers=8 | 4.00x [3.90, 4.10] | 20.0 ms | 1,600.0 | 4.00 x | 90.0 % |" in told
    assert "| as it is | - | 80.0 ms | 400.0 | 1.00 x | 30.0 % |" in told
    assert "identity" not in told
    assert "| 3,268 | 8.17x |" in told
    assert "8.50x [8.00, 9.00], 400 -> 3,400 samples/s; the article: 8.17x" in told
    assert ladder.holds(document)
    assert not ladder.holds({**document, "speedup": {"value": 8.0, "ci95": [7, 9]}})
    assert not ladder.holds({**document, "gate": {"word": "failed"}})
    assert "not measured" in ladder.whole({"ended": "budget"})


# The exhaustive grid


def grid_of(knobs: str) -> list[str]:
    from laptime.tuning.loop_profile import LoopProfile

    grid = benchmark("tune_grid")
    loop_profile = LoopProfile(step=1.0, cpus=2, threads=2, facts=frozenset({"cpu", "conv"}))
    return [str(recipe) for recipe in grid.grid(grid.axes(knobs, loop_profile))]


def test_a_grid_has_every_combination_that_does_not_conflict() -> None:
    assert grid_of("channels_last,threads=1:2") == [
        "as it is",
        "threads=1",
        "threads=2",
        "channels_last",
        "channels_last + threads=1",
        "channels_last + threads=2",
    ]
    both = grid_of("fused_optimizer,foreach_optimizer")
    assert "fused_optimizer" in both
    assert "fused_optimizer + foreach_optimizer" not in both


def test_regret_against_the_best_of_the_other_rounds() -> None:
    regret = benchmark("tune_grid").regret
    seen = {0: [1.0, 1.01, 0.99, 1.0], 1: [0.5, 0.51, 0.5, 0.49], 2: [0.6, 0.61, 0.6, 0.59]}
    assert regret(seen, 1).value == 0.0
    worse = regret(seen, 2)
    assert worse.value == pytest.approx(0.2, abs=0.01)
    assert worse.low < worse.value < worse.high
    with pytest.raises(ValueError, match="fewest"):
        regret({0: [1.0, 1.0]}, 0)


def test_the_best_of_noise_is_no_regret() -> None:
    """All settings are the same: a best that was picked and judged on the same rounds would be better."""
    import random

    rng, regret = random.Random(3), benchmark("tune_grid").regret
    found = []
    for _ in range(40):
        seen = {at: [rng.gauss(1.0, 0.05) for _ in range(6)] for at in range(16)}
        found.append(regret(seen, 0).value)
    assert abs(sum(found) / len(found)) < 0.01
