"""Parts that made-up sessions of `tune` are built from: rungs, gates, diagnoses, measurements."""

from __future__ import annotations

import math
import random

from msgspec import structs

from laptime.records.tuning import (
    Convergence,
    Diagnosis,
    Gate,
    GateCheck,
    Measured,
    Numerics,
    Rung,
    Suspect,
)

DIFF = """--- a/train.py
+++ b/train.py
@@ -31,8 +31,9 @@ def main() -> None:
     model = torchvision.models.resnet18(num_classes=10)
+    model.to(memory_format=torch.channels_last)  # laptime: channels_last, 1.31x [1.27, 1.35]
     optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
-    loader = DataLoader(dataset, batch_size=32, shuffle=True)
+    loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=1)  # laptime: num_workers, 1.08x
     for images, labels in loader:
@@ -44,5 +45,6 @@ def main() -> None:
-        loss = criterion(model(images), labels)
+        with torch.autocast("cpu", dtype=torch.bfloat16):  # laptime: autocast_bf16, 1.74x [1.70, 1.78]
+            loss = criterion(model(images), labels)
         loss.backward()
         optimizer.step()
"""


def passed(numerics: Numerics = "exact", steps: int = 3) -> Gate:
    """A gate that found the same training."""
    limits = {"loss": 2e-3, "gradient_norm": 0.02, "gradient_direction": 0.01, "parameters": 1e-3}
    checks = [
        GateCheck(
            name=name,
            outcome="ok",
            value=limit / 7,
            limit=limit,
            sentence=f"{name.replace('_', ' ')} differs by {limit / 7:.2g}, {limit:g} is allowed",
        )
        for name, limit in limits.items()
    ]
    checks += [
        GateCheck(name="samples", outcome="ok", sentence="all 96 sample ids are the same"),
        GateCheck(name="finite", outcome="ok", sentence="no NaN and no infinity"),
    ]
    return Gate(word="passed", numerics=numerics, steps=steps, checks=checks)


def rung(
    name: str, speedup: float, half: float, verdict: str = "faster", *, at: float = 0.0, **changes: object
) -> Rung:
    """A raced rung; `at`: samples per second of the incumbent, from which step and throughput follow."""
    dice = random.Random(name)  # noqa: S311 (not for secrets)
    found = Rung(
        name=name,
        label=name,
        title=name.replace("_", " "),
        verdict=verdict,  # type: ignore[arg-type]
        speedup=speedup,
        ci95=(speedup - half, speedup + half),
        rounds=8,
        ratios=[1 / (speedup + dice.uniform(-half, half)) for _ in range(8)],
        seconds=31.0,
        gate=passed(),
        kept=verdict == "faster",
        throughput=at * speedup if at else None,
        step=32 / (at * speedup) if at else None,
        hunk=verdict == "faster",
    )
    return structs.replace(found, **changes)


def measured(step: float, batch: int, *, processes: int = 3, peak: int | None = None) -> Measured:
    """Fresh processes around a step time in seconds."""
    dice = random.Random(round(step * 1e6))  # noqa: S311
    raw = [[step * dice.uniform(0.97, 1.05) for _ in range(12)] for _ in range(processes)]
    return Measured(
        step=step,
        ci95=(step * 0.985, step * 1.02),
        throughput=batch / step,
        processes=processes,
        steps=12 * processes,
        samples=raw,
        peak=peak,
    )


def diagnosis(
    step: float, shares: dict[str, float], bound: str, sentence: str, **changes: object
) -> Diagnosis:
    """A diagnosis whose shares (fractions) add up to the step."""
    found = Diagnosis(
        step=step,
        shares={name: step * share for name, share in shares.items()},
        what_if={"whole": step, "cached": step * (1 - shares.get("data", 0.0))},
        bound=bound,
        sentence=sentence,
        noise=0.011,
        detectable=0.012,
        batch=32,
        peak=1_610_612_736,
        facts=["batchnorm", "conv", "cpu", "loader", "map_dataset"],
    )
    return structs.replace(found, **changes)


def suspects(step: float) -> list[Suspect]:
    """Two that can be kept, and one that is only ever suggested."""
    return [
        Suspect(label="autocast_bf16", title="bf16 autocast", saves=step * 0.65),
        Suspect(label="channels_last", title="NHWC", saves=step * 0.43),
        Suspect(label="defer_logging every=50", saves=step * 0.05, suggests=True),
    ]


BEFORE = {"data": 0.09, "forward": 0.3, "backward": 0.57, "optimizer": 0.03, "other": 0.01}
AFTER = {"data": 0.02, "forward": 0.31, "backward": 0.6, "optimizer": 0.06, "other": 0.01}


def ladder_of_cpu() -> list[Rung]:
    """Rungs of every kind, the control first."""
    return [*_first_rungs(), *_last_rungs()]


def _first_rungs() -> list[Rung]:
    return [
        rung("identity", 1.001, 0.006, "same", at=9.4, reason="the control: nothing was changed"),
        rung(
            "autocast_bf16",
            1.74,
            0.04,
            at=9.4,
            title="forward in bfloat16",
            numerics="precision",
            gate=passed("precision"),
            bound=1.48,
            reason="beyond 1 % faster, and the gate passed",
        ),
        rung(
            "channels_last",
            1.31,
            0.04,
            at=16.36,
            title="memory format channels_last",
            numerics="reassociated",
            gate=passed("reassociated"),
            reason="beyond 1 % faster, and the gate passed",
        ),
        rung(
            "compile",
            0.93,
            0.03,
            "slower",
            at=21.4,
            label="compile mode=default",
            options={"mode": "default"},
            numerics="reassociated",
            compile_seconds=48.2,
            seconds=96.0,
            reason="slower, and 48.2 s of compiling before the first step",
        ),
        rung(
            "num_workers",
            1.08,
            0.03,
            at=21.4,
            label="num_workers=1",
            options={"value": 1},
            numerics="random",
            gate=passed("random"),
            reason="beyond 1 % faster; 2 workers were not better than 1",
        ),
    ]


def _last_rungs() -> list[Rung]:
    return [
        rung(
            "foreach",
            1.012,
            0.008,
            "same",
            at=23.1,
            kept=False,
            dropped=True,
            reason="kept at first; without it the whole is no slower",
        ),
        rung("threads", 1.004, 0.02, "unclear", at=23.1, label="threads=1", reason="12 rounds did not tell"),
        Rung(
            name="prefetch_factor",
            label="prefetch_factor=4",
            verdict="failed",
            seconds=12.0,
            reason="crashed: RuntimeError: DataLoader worker (pid 411) exited unexpectedly",
        ),
        Rung(
            name="pin_memory",
            label="pin_memory",
            bound=0.004,
            reason="could save 0.1 % at most, 1.2 % can be shown",
        ),
        Rung(
            name="item_every_step",
            label="item_every_step",
            verdict="suggested",
            reason="train.py(52) prints the loss in every step",
            suggestion="print every 50th step: it waits for the device each time",
        ),
    ]


def convergence() -> Convergence:
    dice = random.Random(3)  # noqa: S311

    def curve() -> list[float]:
        return [2.3 * math.exp(-i / 40) + 0.4 + dice.gauss(0, 0.03) for i in range(60)]

    return Convergence(
        word="holds",
        margin=0.05,
        difference=0.006,
        upper=0.031,
        seeds=3,
        steps=60,
        smoke_test=True,
        sentence="over 60 steps and 3 seeds the loss ends 0.006 higher, at most 0.031; 0.05 was allowed",
        baseline=[curve() for _ in range(3)],
        final=[curve() for _ in range(3)],
    )


def failed_gate() -> Gate:
    """A gate with one answer of each kind."""
    return Gate(
        word="failed",
        numerics="precision",
        steps=3,
        reason="gradient norm of layer4.1.conv2.weight is 0.31 of what it was; 0.9 is allowed",
        checks=[
            GateCheck(name="loss", outcome="ok", value=4e-4, limit=2e-3, sentence="loss differs by 0.0004"),
            GateCheck(
                name="gradient_norm",
                outcome="fail",
                value=0.31,
                limit=0.9,
                sentence="gradient norm of layer4.1.conv2.weight is 0.31 of what it was; 0.9 is allowed",
            ),
            GateCheck(
                name="optimizer_state", outcome="unknown", sentence="the optimizer keeps no state to compare"
            ),
        ],
    )
