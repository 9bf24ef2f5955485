"""The benchmarks of laptime itself: what they conclude from figures, and that the shared parts keep them."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
import time
from argparse import Namespace
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
    shown = benchmark("_harness").shown
    assert shown([1.0, 2.0, 3.0], factor=1e3, unit="ms", digits=0) == "2000 ms"
    assert shown([5, 1, 9, 3, 7, 2, 8, 4, 6], factor=1, unit="s", digits=0) == "5 [2, 8] s"


def test_a_file_of_figures_is_replaced_in_one_move(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    for number in (1, 2):
        benchmark("_harness").write(file, {"number": number})
        assert json.loads(file.read_text()) == {"number": number}
    assert list(tmp_path.iterdir()) == [file]


def test_a_benchmark_reads_its_options_and_keeps_figures_and_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    harness, file = benchmark("_harness"), tmp_path / "figures.json"

    def main(asked: Any, figures: Any) -> int:
        figures.again("rounds", []).append(asked.rounds)
        figures.keep()
        assert json.loads(file.read_text())["rounds"] == figures["rounds"]
        figures["limit"] = 3
        return int(asked.rounds > 3)

    for rounds, status in ((2, 0), (5, 1)):
        monkeypatch.setattr(sys, "argv", ["x", "--json", str(file), "--rounds", str(rounds)])
        with pytest.raises(SystemExit) as ended:
            harness.run(main, "A title", harness.option("--rounds", type=int, default=1))
        assert ended.value.code == status
    kept = json.loads(file.read_text())
    assert (kept["title"], kept["rounds"], kept["limit"]) == ("A title", [2, 5], 3)
    assert "**A title**" in capsys.readouterr().out


def test_answers_of_hours_are_a_line_each_and_those_of_before_are_there(tmp_path: Path) -> None:
    lines, file = benchmark("_harness").Lines, tmp_path / "answers.jsonl"
    first = lines(file)
    first.add({"target": "a"})
    second = lines(file)
    second.add({"target": "b"})
    assert lines(file) == [{"target": "a"}, {"target": "b"}]
    assert second == lines(file) != first
    alone = lines(None)
    alone.add({"target": "c"})
    assert alone == [{"target": "c"}]


def test_figures_of_lines_are_not_written_over_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness, file = benchmark("_harness"), tmp_path / "answers.jsonl"
    monkeypatch.setattr(sys, "argv", ["x", "--json", str(file)])

    def main(asked: Any, figures: Any) -> int:
        harness.Lines(asked.json).add({"target": "a"})
        return 0

    with pytest.raises(SystemExit):
        harness.run(main, "Answers", lines=True)
    assert harness.Lines(file) == [{"target": "a"}]


def test_the_index_names_every_benchmark() -> None:
    index = (FOLDER / "README.md").read_text()
    scripts = [
        path.relative_to(FOLDER) for place in (".", "device") for path in (FOLDER / place).glob("[a-z]*.py")
    ]
    assert [str(path) for path in scripts if f"({path})" not in index] == []


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
    made: list[tuple[str, str, int]] = []

    def one(name: str, length: str, seed: int, budget: float | None) -> dict[str, Any]:
        made.append((name, length, seed))
        before, after = script.PAIRS[name]
        word, truth = "slower" if "10" in name else "unclear", before / after
        found = {"word": word, "speedup": truth, "ci95": [0.99 * truth, 1.01 * truth], "wall": 20.0}
        return {"pair": name, "length": length, "seed": seed, **found}

    monkeypatch.setattr(script, "compared", one)
    for each in (1, 2):
        figures = script.Figures(tmp_path / "c.json", {})
        asked = Namespace(
            each=each, minutes=math.inf, only=None, length=None, burner=False, budget=None, pause=0
        )
        assert script.main(asked, figures) == 0
    kinds = [(name, length) for name in script.PAIRS for length in script.LENGTHS]
    assert sorted(made) == sorted((*kind, seed) for kind in kinds for seed in (0, 1))
    line = "| 10 % more | 20 ms | 2 | 0 | 2 | 0 | 0 | 2 of 2 | 0.91% | 20 s |"
    assert line in capsys.readouterr().out


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
    assert "wall time | 30.0 s | 12.0 s | 0.40 |" in told
    columns = "| 1 | 36.0 ms, 1.50x | 21.0 ms, 1.00x | 20.0 ms, 1.10x | 1.00x of 1 | 1 of 3 | 0 of 2 |"
    assert columns in told
    assert "noisy 2, trusted 1" in told


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
    assert "--their-python PATH" in done.stdout


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
    regret = benchmark("_regret").regret
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

    rng, regret = random.Random(3), benchmark("_regret").regret
    found = []
    for _ in range(40):
        seen = {at: [rng.gauss(1.0, 0.05) for _ in range(6)] for at in range(16)}
        found.append(regret(seen, 0).value)
    assert abs(sum(found) / len(found)) < 0.01


# The exhaustive grid of model changes


def points_of(facts: set[str], *names: str) -> list[str]:
    from laptime.tuning.loop_profile import LoopProfile

    profile = LoopProfile(step=1.0, cpus=2, threads=2, facts=frozenset(facts))
    return [str(point) for point in benchmark("tune_model_grid").points(profile, names)]


def test_a_grid_of_model_changes_has_what_goes_together() -> None:
    names = ("channels_last", "compiled", "graph_optimization", "onnxruntime", "threads")
    assert points_of({"conv", "cpu", "gcc"}, *names) == [
        "as it is",
        "threads=1",
        "onnxruntime",
        "onnxruntime + threads=1",
        "graph_optimization=EXTENDED + onnxruntime",
        "graph_optimization=EXTENDED + onnxruntime + threads=1",
        "graph_optimization=BASIC + onnxruntime",
        "graph_optimization=BASIC + onnxruntime + threads=1",
        "compiled",
        "compiled + threads=1",
        "channels_last",
        "channels_last + threads=1",
        "channels_last + compiled",
        "channels_last + compiled + threads=1",
    ]
    assert points_of({"cpu", "gcc"}, "channels_last", "fold_batch_norm", "compiled") == [
        "as it is",
        "compiled",
    ]


def test_what_gives_the_same_fact_is_never_in_one_point() -> None:
    two = points_of({"bf16", "cpu", "fp16", "gcc"}, "compiled", "compiled_max_autotune", "bf16", "fp16")
    assert two == [
        "as it is",
        "fp16",
        "bf16",
        "compiled_max_autotune",
        "compiled_max_autotune + fp16",
        "compiled_max_autotune + bf16",
        "compiled",
        "compiled + fp16",
        "compiled + bf16",
    ]


def test_a_grid_is_allowed_what_its_session_is() -> None:
    from laptime.tuning.inference.request import ModelRequest

    allowed = benchmark("tune_model_grid").allowed
    strict = allowed(ModelRequest(target="torchvision:resnet18", skip=["threads"]))
    assert "channels_last" in strict
    assert not {"threads", "identity", "bf16", "onnxruntime_int8"} & set(strict)
    every = allowed(ModelRequest(target="torchvision:resnet18", allow=["precision"]))
    assert every.index("fold_batch_norm") < every.index("bf16")


def test_halving_ends_with_no_more_than_twice_the_finalists() -> None:
    halves = benchmark("tune_model_grid").halves
    assert halves(20) == [20, 10, 5]
    assert halves(8) == [8]
    assert halves(100) == [100, 50, 25, 13, 7]


def test_a_grid_that_was_stopped_goes_on_and_finds_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Points of known times with noise of 2 %: the race has the best, each point was timed once a stage."""
    import random

    grid = benchmark("tune_model_grid")
    truth = {"as it is": 2.0, **{f"threads={number}": 1.0 + 0.1 * number for number in range(19)}}
    for point in truth:
        grid.Journal(tmp_path).add("built", point=point, folder=point)
    rng, timed = random.Random(1), []

    def one(self: Any, point: str) -> float:
        timed.append(point)
        return truth[point] * rng.gauss(1.0, 0.02)

    monkeypatch.setattr(grid.Timer, "_timed", one)
    for _ in range(200):  # each run times one point, and is stopped
        ends = iter([0.0])
        monkeypatch.setattr(grid.time, "monotonic", lambda ends=ends: next(ends, 2.0))
        journal = grid.Journal(tmp_path)
        timer = grid.Timer(journal, seconds=1.0, batch=1, until=1.0)
        if grid.measured(journal, timer, 5, "threads=3"):
            break
    race = journal.times("race")
    assert set(race) == {"as it is", *(f"threads={number}" for number in range(4))}
    assert {len(times) for times in race.values()} == {5}
    assert len(timed) == 20 + 10 + 5 + 5 * 5
    found = benchmark("_regret").regret(race, "threads=3")
    assert found.low < 0.3 < found.high
    assert found.value == pytest.approx(0.3, abs=0.05)


def test_a_kept_set_is_found_in_the_grid_in_whatever_order() -> None:
    from laptime.tuning.optimization import Change, Recipe

    point_of = benchmark("tune_model_grid").point_of
    points = ["as it is", "compiled + threads=1", "channels_last + compiled"]
    assert point_of(Recipe((Change("compiled"), Change("channels_last"))), points) == points[2]
    assert point_of(Recipe((Change("threads", {"value": 1}), Change("compiled"))), points) == points[1]
    assert point_of(Recipe(), points) == "as it is"
    assert point_of(Recipe((Change("openvino"),)), points) == ""


def test_a_session_that_builds_too_long_misses(capsys: pytest.CaptureFixture[str]) -> None:
    told = benchmark("tune_model_grid").shown_session
    line = {"seconds_by": {"build": 100.0, "race": 200.0}, "ended": "nothing is left", "gate": "passed"}
    assert told(line)
    assert "33%" in capsys.readouterr().out
    assert not told({**line, "seconds_by": {"build": 250.0, "race": 200.0}})
    assert not told({**line, "seconds_by": {"build": 100.0, "race": 501.0}})


# What another tool picks


def test_ways_are_kept_in_a_folder(tmp_path: Path) -> None:
    script = benchmark("tune_model")
    ways = {
        "olive": script.Way(tmp_path, script.Setup(2, 1, 8), {"picked": "x"}),
        "olive_int8": "no set of passes gave a model",
        "strict": script.Way(tmp_path, script.Setup(), {}, own=True),
    }
    script._keep(ways, tmp_path / "ways.json")
    assert script.ways_in(tmp_path / "ways.json") == ways
    assert script.ways_in(tmp_path / "none.json") == {}


def test_olive_that_fails_is_a_row_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import argparse

    script = benchmark("tune_model")
    asked = argparse.Namespace(olive="/no/python", olive_seconds=1.0)
    monkeypatch.setattr(script.sys, "executable", "true")
    why = script.olive_way("olive", "torchvision:resnet18", 1, asked, tmp_path)
    assert why.startswith("FileNotFoundError: ")

    tool = tmp_path / "python"
    tool.write_text('#!/bin/sh\necho "ValueError: no such pass" >&2\nexit 1\n')
    tool.chmod(0o755)
    asked.olive = str(tool)
    assert "ValueError: no" in script.olive_way("olive_int8", "torchvision:resnet18", 1, asked, tmp_path)


def test_what_olive_picked_is_run_with_its_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import argparse

    script = benchmark("tune_model")
    pick = {
        "file": "model.onnx",
        "session": {"intra_op_num_threads": 2},
        "picked": "session",
        "metrics": {},
        "seconds": 9.0,
    }
    tool = tmp_path / "python"
    tool.write_text(f"#!/bin/sh\necho '{json.dumps(pick)}' > \"$2/pick.json\"\n")
    tool.chmod(0o755)
    monkeypatch.setattr(script.sys, "executable", "true")
    asked = argparse.Namespace(olive=str(tool), olive_seconds=1.0)
    way = script.olive_way("olive", "torchvision:resnet18", 4, asked, tmp_path)
    assert way.setup.batch == 4
    assert "'session': {'intra_op_num_threads': 2}" in (way.folder / "tuned.py").read_text()


def lines_of(name: str, **rates: float) -> list[dict[str, Any]]:
    about = {"model": name, "batch": 1, "failed": ""}
    return [{**about, "way": way, "rates": [rate] * 3} for way, rate in rates.items()]


@pytest.mark.parametrize(
    ("slow", "strict", "met"), [(2, 1.31, True), (3, 1.31, False), (0, 1.29, False), (24, 1.31, False)]
)
def test_twelve_models_are_held_against_the_best_by_hand_and_torch_compile(
    slow: int, strict: float, met: bool
) -> None:
    """slow: of 24 calls, below OpenVINO. strict: times torch.compile in all."""
    script = benchmark("tune_model")
    pairs = {}
    for number in range(24):
        name, best = script.TWELVE[number // 2], 2 * strict if number < slow else strict
        lines = lines_of(name, eager=0.9, compiled=1.0, openvino_latency=best, strict=strict)
        pairs[name, 1 + 7 * (number % 2)] = lines
    assert script._is_fast(pairs) is met
    assert script._is_fast({("resnet50", 1): lines_of("resnet50", compiled=1.0, strict=0.5)})


def test_a_cell_that_fails_is_tried_again_by_a_second_start_and_the_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, made, broken = benchmark("tune_model"), list[str](), ["t5"]

    def cell(name: str, batch: int, asked: Any) -> list[dict[str, Any]]:
        made.append(name)
        if name in broken:
            raise script.LaptimeError("it does not run")
        return lines_of(name, eager=1.0, strict=2.0)

    monkeypatch.setattr(script, "cell", cell)
    words = ["tune_model", "--models", "lstm,t5", "--batches", "1", "--json", str(tmp_path / "a.jsonl")]
    monkeypatch.setattr(sys, "argv", words)
    for _ in range(2):
        script.main()
        broken.clear()
    assert made == ["lstm", "t5", "t5"]
    kept = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [line["model"] for line in kept] == ["lstm", "lstm", "t5", "t5"]
    assert all(line["cell_seconds"] >= 0 for line in kept)


def test_rounds_that_were_whole_count_after_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = benchmark("tune_model")
    visits = iter(range(5))

    def visited(made: dict[str, Any], way: Any, calls: Path, seconds: float) -> None:
        if next(visits, None) is None:
            raise KeyboardInterrupt
        made["rates"].append(1.0)
        made["calls"].append(1.0)

    monkeypatch.setattr(script, "_visited", visited)
    ways = {name: script.Way(tmp_path, script.Setup(), {}) for name in ("eager", "strict")}
    ways["olive"] = "no --olive PYTHON"
    seen = script.measured(ways, tmp_path, rounds=9, seconds=1.0)
    assert [len(seen[name]["rates"]) for name in ways] == [2, 2, 0]


def test_the_quantisation_that_olive_picked_is_told() -> None:
    options = {"quant_mode": "static", "per_channel": True, "quant_format": {"type": "Conditional"}}
    nodes = {
        "given": {"from_pass": None, "pass_run_config": None, "parent_model_id": None},
        "int8": {
            "from_pass": "onnxquantization",
            "pass_run_config": options,
            "parent_model_id": "given",
        },
        "tuned": {"from_pass": "ortsessionparamstuning", "pass_run_config": {}, "parent_model_id": "int8"},
    }
    chosen = benchmark("_olive").chosen
    assert chosen(nodes, "tuned") == ["quant_mode=static", "per_channel=True"]
    assert chosen(nodes, "given") == []
