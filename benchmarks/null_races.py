"""Is a race of a script against itself fair, on real processes of this machine?

The control of `laptime tune` (`identity`, which changes nothing) against the script as it is: arms in one
process, pairs of forked processes, pairs of fresh ones. Over many races the ratio has to be one: a side that
comes out slower in the mean would hide gains, or invent them. Asked: 1 is inside each 95 % interval.

python benchmarks/null_races.py                                          nanogpt and reference, 10 minutes
python benchmarks/null_races.py --kinds live --races 30 --scripts vae    one question
"""

from __future__ import annotations

import itertools
import math
import sys
import tempfile
from argparse import Namespace
from contextlib import closing
from pathlib import Path
from statistics import mean, stdev

from _harness import Figures, option, run, table
from laptime.analysis.student_t import t_quantile
from laptime.launch.script import Program
from laptime.records.run import Subject
from laptime.tuning.candidates import Choice
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.script.trial_runner import TrialRunner

WILD = Path(__file__).resolve().parent.parent / "examples" / "wild"
CONTROL = Recipe((Change("identity"),))
KINDS = ("live", "forked", "fresh")


def ratios(script: str, kinds: list[str], races: int, rounds: int) -> dict[str, list[float]]:
    """Log of the control's time over the script's own, a number a race; of pairs one a pair."""
    words = [str(WILD / f"{script}.py")]
    program = Program(words, Subject(target=words[0], source="file"), sys.executable)
    logs: dict[str, list[float]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as folder, closing(TrialRunner(program, Path(folder))) as runner:
        evaluator = TrialEvaluator(runner, Choice())
        evaluator.diagnose(Recipe())
        for number in range(races):
            for kind, values in logs.items():
                if kind == "live":
                    race = evaluator.race(Recipe(), CONTROL)
                    with closing(race):
                        taken = list(itertools.islice(race, rounds))
                    values.append(mean(math.log(each.ratio) for each in taken))
                else:
                    pair = runner.pair(Recipe(), CONTROL, number, fresh=kind == "fresh")
                    values.append(math.log(pair.ratio))
    return logs


def interval(logs: list[float]) -> tuple[float, float, float]:
    """Mean ratio with the 95 % interval of Student's t over races."""
    middle, half = mean(logs), t_quantile(0.975, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def main(asked: Namespace, data: Figures) -> int:
    """Print the table; 1 when a kind is not fair."""
    data |= {"logs": {}}
    rows, fair = [], True
    for script in asked.scripts:
        data["logs"][script] = ratios(script, asked.kinds, asked.races, asked.rounds)
        data.keep()
        for kind, logs in data["logs"][script].items():
            middle, low, high = interval(logs)
            fair = fair and low <= 1 <= high
            spread = f"{100 * stdev(logs):.1f} %"
            rows.append((script, kind, str(len(logs)), f"{middle:.3f} [{low:.3f}, {high:.3f}]", spread))
    table(("script", "trials", "races", "control over the script as it is", "scatter of a race"), rows)
    return int(not fair)


if __name__ == "__main__":
    run(
        main,
        "The script against itself",
        option("--scripts", nargs="+", default=["nanogpt", "reference"], metavar="NAME"),
        option("--kinds", nargs="+", default=list(KINDS), choices=KINDS, metavar="KIND"),
        option("--races", type=int, default=12),
        option("--rounds", type=int, default=4, help="of a live race"),
    )
