"""Sessions of `tune` made by hand, for tests of reports: every field filled, numbers that agree."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from laptime.records.run import Run, Subject
from laptime.records.tuning import (
    Applied,
    Convergence,
    Patched,
    Rung,
    Speedup,
    Tuning,
)
from laptime.testing import runs
from laptime.testing._tuning_parts import (
    AFTER,
    BEFORE,
    DIFF,
    convergence,
    diagnosis,
    failed_gate,
    ladder_of_cpu,
    measured,
    passed,
    rung,
    suspects,
)

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`|{{ 7*7 }}\u2028\u202e\x1b[31m"
"""A name that a page, a table, a terminal or a template might obey."""


def samples() -> dict[str, Callable[[], Run]]:
    """Every session by the name of its golden files."""
    return {
        "tuning": full,
        "tuning-nothing": nothing,
        "tuning-interrupted": interrupted,
        "tuning-gpu": gpu,
        "tuning-gate": gate_failed,
        "tuning-memory": memory,
        "tuning-dry": dry_run,
    }


def full() -> Run:
    """ResNet-18 on two CPUs: three changes kept, the rest not, a verified patch."""
    final = [
        Applied(name="autocast_bf16"),
        Applied(name="channels_last"),
        Applied(name="num_workers", options={"value": 1}),
    ]
    step = 32 / 9.4
    tuning = Tuning(
        before=diagnosis(
            step,
            BEFORE,
            "compute",
            "forward and backward take 87 % of the step; the loader 9 %",
            syncs=[{"what": "aten::item", "where": "train.py(52): main", "count": 1.0}],
            suspects=suspects(step),
        ),
        after=diagnosis(
            step / 2.31, AFTER, "compute", "forward and backward take 91 % of the step", recipe=final
        ),
        ladder=ladder_of_cpu(),
        ruled_out={
            "tf32": "no CUDA device",
            "fp16": "no CUDA device",
            "ddp_bucket": "the script trains in one process",
            "sdpa": "no attention in the model",
        },
        baseline=measured(step, 32, peak=1_610_612_736),
        final=measured(step / 2.31, 32, peak=1_207_959_552),
        speedup=Speedup(value=2.31, ci95=(2.24, 2.38), word="faster", pairs=3, ratios=[2.27, 2.31, 2.36]),
        recipe=final,
        recipe_path="train.laptime.json",
        gate=passed("precision", 8),
        convergence=convergence(),
        patch=_patch(),
        seconds_by={
            "diagnose": 61.0,
            "race": 262.0,
            "gate": 38.0,
            "compile": 48.2,
            "measure": 92.0,
            "patch": 27.0,
        },
        trials=37,
        breakdown_before={"cpu": step * 0.88, "dataloader": step * 0.09, "other": step * 0.03},
        breakdown_after={
            "cpu": step / 2.31 * 0.93,
            "dataloader": step / 2.31 * 0.02,
            "other": step / 2.31 * 0.05,
        },
    )
    return _run(tuning, seconds=541.0)


def _patch() -> Patched:
    return Patched(
        path="train.laptime.patch",
        text=DIFF,
        hunks=["channels_last", "num_workers", "autocast_bf16"],
        applies=True,
        speedup=Speedup(value=2.28, ci95=(2.2, 2.36), word="faster", pairs=2),
        same_losses=True,
        sentence="the patched script ran for 12 steps without hooks and gave the recipe's losses",
        suggestions="--- a/train.py\n+++ b/train.py\n@@ -52 +52,2 @@\n-        print(loss.item())\n"
        "+        if step % 50 == 0:\n+            print(loss.item())\n",
    )


def nothing() -> Run:
    """A session in which no change helped."""
    tuning = Tuning(
        mode="certify",
        before=diagnosis(0.0121, BEFORE, "compute", "forward and backward take 87 % of the step"),
        ladder=[
            rung("identity", 0.999, 0.005, "same", reason="the control: nothing was changed"),
            rung("channels_last", 1.003, 0.006, "same", reason="no faster than it was"),
            rung("compile", 0.81, 0.02, "slower", compile_seconds=31.0, reason="slower"),
        ],
        ruled_out={"tf32": "no CUDA device"},
        seconds_by={"diagnose": 20.0, "race": 71.0},
        trials=9,
    )
    return _run(tuning, seconds=93.0)


def interrupted() -> Run:
    """Stopped by the user after one change had been kept."""
    tuning = Tuning(
        before=diagnosis(3.404, BEFORE, "compute", "forward and backward take 87 % of the step"),
        ladder=ladder_of_cpu()[:2],
        recipe=[Applied(name="autocast_bf16")],
        recipe_path="train.laptime.json",
        gate=passed("precision"),
        seconds_by={"diagnose": 61.0, "race": 64.0, "gate": 8.0},
        trials=11,
        ended="interrupted",
    )
    return structs.replace(_run(tuning, seconds=141.0), status="interrupted")


def _gpu_ladder(names: tuple[str, ...]) -> list[Rung]:
    rates = [1200.0, 1584.0, 1670.0, 2477.0, 3268.0]
    shares = [0.7281, 0.9237, 0.9402, 0.9751]
    labels = ("num_workers=8", "pin_memory", "autocast_bf16", "compile mode=max-autotune")
    ladder = [rung("identity", 1.0, 0.004, "same", reason="the control: nothing was changed")]
    for at, (name, label) in enumerate(zip(names, labels, strict=True)):
        speedup = rates[at + 1] / rates[at]
        ladder.append(
            rung(
                name,
                speedup,
                0.01 * speedup,
                at=rates[at],
                label=label,
                utilization=shares[at],
                step=96 / rates[at + 1],
                compile_seconds=71.0 if name == "compile" else 0.0,
                pays_back=3_400 if name == "compile" else None,
                reason="beyond 1 % faster, and the gate passed",
            )
        )
    return ladder


def gpu() -> Run:
    """A GPU that starves: the loader first, then the copy, then the kernels; utilisation beside each rung."""
    names = ("num_workers", "pin_memory", "autocast_bf16", "compile")
    final = [Applied(name=name) for name in names]
    tuning = Tuning(
        mode="certify",
        before=diagnosis(
            96 / 1200,
            {"data": 0.61, "transfer": 0.07, "forward": 0.11, "backward": 0.17, "optimizer": 0.04},
            "data",
            "61 % of the step waits for the loader, and the device is idle meanwhile",
            utilization=0.3165,
            batch=96,
        ),
        after=diagnosis(
            96 / 3268,
            {"data": 0.01, "transfer": 0.02, "forward": 0.34, "backward": 0.55, "optimizer": 0.08},
            "compute",
            "forward and backward take 89 % of the step",
            utilization=0.9751,
            batch=96,
        ),
        ladder=_gpu_ladder(names),
        baseline=measured(96 / 1200, 96, peak=6 << 30),
        final=measured(96 / 3268, 96, peak=5 << 30),
        speedup=Speedup(value=3268 / 1200, ci95=(2.69, 2.76), word="faster", pairs=3),
        recipe=final,
        recipe_path="train.laptime.json",
        gate=passed("precision", 8),
        patch=Patched(
            path="train.laptime.patch",
            text=DIFF,
            hunks=["num_workers", "pin_memory", "autocast_bf16"],
            left_out={"compile": "the model is made in pkg/model.py, which is not the script's own"},
            applies=True,
            same_losses=None,
        ),
        seconds_by={"diagnose": 41.0, "race": 212.0, "gate": 58.0, "compile": 71.0, "measure": 60.0},
        trials=29,
    )
    return _run(tuning, seconds=450.0)


def gate_failed() -> Run:
    """The final set trains differently; one rung fell to its gate before."""
    run = full()
    assert run.tuning is not None
    bad = rung(
        "fp16",
        1.9,
        0.05,
        at=9.4,
        kept=False,
        hunk=False,
        numerics="precision",
        gate=failed_gate(),
        reason="faster, but the gate failed: gradient norm",
    )
    ladder = [run.tuning.ladder[0], bad, *run.tuning.ladder[1:3]]
    patch = Patched(left_out={"autocast_bf16": "the gate of the final set failed"})
    convergence = Convergence(word="inconclusive", seeds=1, steps=10, sentence="one seed does not tell")
    return structs.replace(
        run,
        tuning=structs.replace(
            run.tuning, ladder=ladder, gate=failed_gate(), patch=patch, convergence=convergence
        ),
    )


def memory() -> Run:
    """Goal memory: activation checkpointing makes it smaller, and slower."""
    run = full()
    assert run.tuning is not None
    own = Rung(
        name="checkpointing",
        label="checkpointing",
        verdict="smaller",
        speedup=0.78,
        ci95=(0.76, 0.8),
        memory=0.58,
        rounds=4,
        kept=True,
        hunk=True,
        gate=passed(),
        reason="42 % less memory at 0.78 times the speed",
    )
    other = structs.replace(own, name="set_to_none", label="set_to_none", verdict="larger", memory=1.02)
    other = structs.replace(
        other, kept=False, hunk=False, speedup=1.0, ci95=(0.99, 1.01), reason="no less memory"
    )
    return structs.replace(
        run,
        tuning=structs.replace(
            run.tuning,
            goal="memory",
            ladder=[run.tuning.ladder[0], own, other],
            recipe=[Applied(name="checkpointing")],
            final=measured(3.404 / 0.78, 32, peak=934_155_386),
            speedup=Speedup(value=0.78, ci95=(0.76, 0.8), word="slower", pairs=3),
            gate=passed("exact", 8),
            convergence=Convergence(),
            patch=structs.replace(run.tuning.patch, hunks=["checkpointing"], speedup=None),
        ),
    )


def dry_run() -> Run:
    """Diagnosed, and what would be tried."""
    tuning = Tuning(
        before=diagnosis(3.404, BEFORE, "compute", "forward and backward take 87 % of the step"),
        ladder=[
            Rung(name="autocast_bf16", label="autocast_bf16", numerics="precision", bound=1.48, seconds=40.0),
            Rung(
                name="channels_last", label="channels_last", numerics="reassociated", bound=1.4, seconds=35.0
            ),
        ],
        ruled_out={"tf32": "no CUDA device"},
        seconds_by={"diagnose": 61.0},
        trials=3,
        ended="dry run",
    )
    return _run(tuning, seconds=63.0)


def hostile() -> Run:
    """The full session, every word of a stranger's replaced by one that wants to be obeyed."""
    run = gate_failed()
    assert run.tuning is not None
    tuning = run.tuning
    ladder = [
        structs.replace(each, name=HOSTILE, label=HOSTILE, title=HOSTILE, reason=HOSTILE, suggestion=HOSTILE)
        for each in tuning.ladder
    ]
    checks = [structs.replace(each, sentence=HOSTILE) for each in tuning.gate.checks]
    assert tuning.before is not None
    before = structs.replace(
        tuning.before,
        sentence=HOSTILE,
        shares={HOSTILE: 1.0, "data": 0.5},
        notes=[HOSTILE],
        syncs=[{"what": HOSTILE, "where": HOSTILE, "count": HOSTILE}],
    )
    patch = Patched(
        path=HOSTILE,
        text=f"--- a/{HOSTILE}\n+++ b\n@@ -1 +1 @@\n-{HOSTILE}\n+{HOSTILE}\n",
        hunks=[HOSTILE],
        left_out={HOSTILE: HOSTILE},
        sentence=HOSTILE,
        suggestions=f"+{HOSTILE}\n",
    )
    return structs.replace(
        run,
        name=HOSTILE,
        subjects=[Subject(target=HOSTILE, source=HOSTILE)],
        tuning=structs.replace(
            tuning,
            ladder=ladder,
            before=before,
            gate=structs.replace(tuning.gate, reason=HOSTILE, checks=checks),
            convergence=Convergence(word="inconclusive", metric=HOSTILE, sentence=HOSTILE),
            ruled_out={HOSTILE: HOSTILE},
            recipe=[Applied(name=HOSTILE, options={HOSTILE: HOSTILE})],
            recipe_path=HOSTILE,
            seconds_by={HOSTILE: 4.0},
            patch=patch,
            breakdown_before={HOSTILE: 1.0},
            breakdown_after={HOSTILE: 0.5},
        ),
    )


def _run(tuning: Tuning, *, seconds: float) -> Run:
    return structs.replace(
        runs.run(),
        id="20261121-101530-204-9c11aa",
        verb="tune",
        started="2026-11-21T10:15:30Z",
        seconds=seconds,
        status="complete",
        command=["laptime", "tune", "train.py"],
        subjects=[Subject(target="train.py", source="train.py")],
        plan={},
        findings=[],
        tuning=tuning,
    )
