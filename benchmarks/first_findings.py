"""Does what comes first name the cause? Of planted causes, of edited traces of others, of slow loops.

Three sets that were written when the rules were done, beside the expert's one (`scripts/advice.py`,
docs/rules.md), with which the rules were repaired:

drawn    20 causes in training steps; device, depth, lengths and share of the step are drawn at random
         (tests/advice/made/drawn.py)
edited   traces of others with one thing changed: a planted cause, or something that means nothing
         (tests/advice/made/edited.py)
loops    slow scripts of benchmarks/slow_loops, profiled here: the name of each is its cause (`LOOPS`)

right     the first finding is the planted cause (of none: nothing false is said)
harmless  it is true of the program, and the cause comes later
wrong     neither
false     findings that are not true of the program

python benchmarks/first_findings.py                    drawn and edited, about a minute
python benchmarks/first_findings.py loops [NAME ...]   profiles the loops, about twenty seconds each
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from advice import scoring  # noqa: E402
from advice.made import drawn, edited  # noqa: E402
from laptime import rules  # noqa: E402
from laptime.records.check import Finding  # noqa: E402
from laptime.rules import _reading  # noqa: E402
from laptime.verbs.trace import analyse  # noqa: E402

SEEDS = (1, 2, 3)
LOOPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "new_workers": (("new-workers",), ("num-workers",)),
    "evaluates_each_epoch": (("between-steps",), ()),
    "evaluates_inside": (("between-steps",), ("uneven-steps",)),
    "saves_each_epoch": (("between-steps",), ()),
    "rows_of_tensors": (("batched-fetch",), ("num-workers",)),
    "rows_of_a_class": (("batched-fetch",), ("num-workers",)),
    "same_transform": (("recomputed-samples",), ("num-workers", "batched-fetch", "between-steps")),
    "one_tensor_at_a_time": (("unfused-optimizer",), ("elementwise",)),
    "one_thread": (("idle-threads",), ()),
    "collects_garbage": (("garbage-collection",), ()),
    "random_crops": (("num-workers",), ("batched-fetch", "between-steps")),
    "slow_python_dataset": (("num-workers",), ("recomputed-samples", "between-steps")),
    "own_generator": (("hidden-input",), ()),
    "loops_over_elements": (("loop-indexing",), ()),
    "too_many_threads": (("idle-threads",), ()),
    "small_operators": (("elementwise",), ("unfused-optimizer", "loop-indexing")),
    "rmsprop_by_tensor": (("unfused-optimizer",), ("elementwise",)),
    "plain_convolution": (("slow-convolution",), ("cpu-precision", "onednn-reorders")),
    "spawned_workers": (("new-workers",), ("num-workers", "between-steps")),
    "nothing_wrong": ((), ()),
}
"""By script: findings that may come first, and those that are true besides. From `random_crops` on they were
written when the rules for loops were done. A dataset made anew in each epoch is work between steps."""
ALWAYS = (
    "uneven-steps",
    "warm-up",
    "crowded-cpu",
    "idle-threads",
    "cpu-precision",
    "onednn-reorders",
    "elementwise",
)
"""True of small loops on a shared CPU, where they are said."""


class Answer:
    """What is said first, and how far it is true."""

    def __init__(
        self, name: str, findings: list[Finding], first: tuple[str, ...], true: tuple[str, ...], step: float
    ) -> None:
        self.name = name
        said = [
            scoring.kind(one)
            for one in findings
            if scoring.kind(one) not in scoring.NOTES or scoring.kind(one) in first
        ]
        self.said = said
        self.false = [kind for kind in said if kind not in (*first, *true)]
        right = said[0] in first if first and said else not first and not self.false
        self.word = "right" if right else "harmless" if (not said) or said[0] in true else "wrong"
        if first and not said:
            self.word = "wrong"
        self.above = [one.kind for one in findings if one.gain and one.gain > step * (1 + 1e-9)]


def asked(path: Path) -> tuple[list[Finding], float]:
    """All findings, and the seconds of a step that they can be of."""
    profile = analyse([path])
    return rules.diagnose(profile), _reading.turn(profile)


def of_drawn() -> Iterator[Answer]:
    """Every cause, as often as there are seeds."""
    with tempfile.TemporaryDirectory() as folder:
        for cause, (_, first, true) in drawn.CAUSES.items():
            for seed in SEEDS:
                path = Path(folder) / "rank0.pt.trace.json.gz"
                drawn.draw(cause, seed).write(path)
                findings, step = asked(path)
                yield Answer(f"{cause} {seed}", findings, first, true + drawn.EVERYWHERE, step)


def of_edited() -> Iterator[Answer]:
    """Every edit of every file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank0.pt.trace.json.gz"
        for file in edited.FILES:
            edited.write(edited.read(file), path)
            before = tuple(scoring.kind(one) for one in asked(path)[0])
            for name, edit in edited.EDITS.items():
                document = edited.read(file)
                edit.change(document)
                edited.write(document, path)
                findings, step = asked(path)
                yield Answer(
                    f"{file}, {name}", findings, edit.first or before[:1], (*before, "host-bound"), step
                )


def of_loops(names: list[str]) -> Iterator[Answer]:
    """Profiles the scripts, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names or LOOPS:
            script = ROOT / "benchmarks" / "slow_loops" / f"{name}.py"
            command = [sys.executable, "-m", "laptime", "profile", "--json", "--no-save", str(script)]
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
            document = json.loads(done.stdout)
            findings = [
                Finding(
                    kind=each["kind"],
                    severity=each.get("severity", "info"),
                    sentence=each["sentence"],
                    gain=(each.get("gain_ns") or 0) / 1e9,
                )
                for each in document["findings"]
            ]
            first, true = LOOPS[name]
            answer = Answer(name, findings, first, true + ALWAYS, float("inf"))
            print(f"{answer.word:9} {name:22} {', '.join(answer.said)}", flush=True)
            yield answer


def table(rows: dict[str, list[Answer]]) -> str:
    """Markdown, one row a set."""
    lines = [
        "| set | problems | right | harmless | wrong | false findings | gains above the step |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, answers in rows.items():
        words = Counter(each.word for each in answers)
        cells = [name, len(answers), words["right"], words["harmless"], words["wrong"]]
        cells += [sum(len(each.false) for each in answers), sum(len(each.above) for each in answers)]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Ask, print what is not right, then the table."""
    if arguments[:1] == ["loops"]:
        rows = {"loops": list(of_loops(arguments[1:]))}
    else:
        rows = {"drawn": list(of_drawn()), "edited": list(of_edited())}
    for answers in rows.values():
        for each in answers:
            if each.word != "right" or each.false or each.above:
                false = f"; false: {', '.join(each.false)}" if each.false else ""
                print(f"{each.word}: {each.name}: {', '.join(each.said)}{false} {each.above or ''}")
    print(table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
