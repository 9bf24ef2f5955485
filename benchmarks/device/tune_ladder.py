"""The article's ladder beside the one that `laptime tune` climbs from the same naive start, on CUDA.

    python benchmarks/device/tune_ladder.py [--budget 8m] [--script examples/resnet18.py] [--again FILE.json]
    make test-device ONLY=tune_ladder      # on a bare machine; one call of ten minutes

ResNet-18, images of 32x32 resized to 224, batches of 32, no loader workers, float32, a loss that is read in
every step. Each rung is what its own race and the diagnosis after it say; the gain of the whole is measured
afresh in new processes. Asked for: at least 8.17 times, as the article took by hand.

The two ladders are not rung by rung the same: the tuner takes what gains most first, and some rungs of the
article it may find useless here. `--again` shows a document that was written before. Everything goes to
$OUT/tune_ladder.json when OUT is set, the report beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _harness import head, parser, table, write

ROOT = Path(__file__).resolve().parents[2]
CHANGES = (
    "loader workers, pinned memory, larger batch, bytes over the bus, gradients set to None, "
    "mixed precision, compilation"
)
RATES = (1200.0, 1584.0, 1670.0, 2477.0, 3268.0)
"""Samples per second that the article names, in its order; its start is 3268 / 8.17 = 400."""
BUSY = (0.3165, 0.7281, 0.9237, 0.9751)
"""GPU utilisation that it names, from its start on."""
STEPS = (0.080, 0.037)
WHOLE = 8.17


def climbed(tuning: dict[str, Any]) -> list[dict[str, Any]]:
    """Rungs in the order in which they were kept, the start first: label, step, rate, busy, gain, ci95."""
    before = tuning["diagnosis"]["before"]
    batch, step = before.get("batch", 1), before["step"]
    found = [
        {
            "label": "as it is",
            "step": step,
            "rate": batch / step,
            "busy": before.get("utilization"),
            "gain": None,
            "ci95": None,
        }
    ]
    for rung in tuning.get("ladder", ()):
        if rung.get("kept"):
            found.append(
                {
                    "label": rung.get("label") or rung["name"],
                    "step": rung.get("step"),
                    "rate": rung.get("throughput"),
                    "busy": rung.get("utilization"),
                    "gain": rung.get("speedup"),
                    "ci95": rung.get("ci95"),
                }
            )
    return found


def show(tuning: dict[str, Any]) -> None:
    """Both ladders, and the whole."""
    rungs = climbed(tuning)
    start = rungs[0]["rate"]
    print("\n**Here**\n")
    table(
        ("change", "its gain", "step", "samples/s", "so far", "GPU busy"),
        [
            (
                each["label"],
                _gain(each),
                _told(each["step"], 1e3, "ms"),
                _told(each["rate"], 1, ""),
                _told(each["rate"] and each["rate"] / start, 1, "x", digits=2),
                _told(each["busy"], 100, "%"),
            )
            for each in rungs
        ],
    )
    print(f"\n**The article** ({CHANGES})\n")
    rates = [RATES[-1] / WHOLE, *RATES]
    table(("samples/s", "so far"), [(f"{rate:,.0f}", f"{rate / rates[0]:.2f}x") for rate in rates])
    print(f"\nGPU busy there: {' -> '.join(f'{share:.2%}' for share in BUSY)}")
    print(f"A step in its profiler: {' -> '.join(f'{step * 1e3:.0f} ms' for step in STEPS)}\n")
    print(whole(tuning))


def whole(tuning: dict[str, Any]) -> str:
    """The gain measured afresh, beside the article's."""
    speedup = tuning.get("speedup")
    if not speedup:
        return (
            f"whole: not measured (the session: {tuning.get('ended') or 'complete'}); the article: {WHOLE}x"
        )
    low, high = speedup["ci95"]
    rates = [(tuning.get(side) or {}).get("throughput", 0.0) for side in ("baseline", "final")]
    gained = f"{speedup['value']:.2f}x [{low:.2f}, {high:.2f}]"
    return f"whole: {gained}, {rates[0]:,.0f} -> {rates[1]:,.0f} samples/s; the article: {WHOLE}x"


def holds(tuning: dict[str, Any]) -> bool:
    """Whether it is as fast as asked for, and still trains."""
    gained = (tuning.get("speedup") or {}).get("value", 0.0)
    return bool(gained >= WHOLE) and (tuning.get("gate") or {}).get("word") != "failed"


def _gain(rung: dict[str, Any]) -> str:
    if rung["gain"] is None:
        return "-"
    around = "" if rung["ci95"] is None else f" [{rung['ci95'][0]:.2f}, {rung['ci95'][1]:.2f}]"
    return f"{rung['gain']:.2f}x{around}"


def _told(value: float | None, factor: float, unit: str, *, digits: int = 1) -> str:
    return "-" if value is None else f"{value * factor:,.{digits}f} {unit}".strip()


def tuned(script: Path, budget: str, out: Path) -> dict[str, Any] | None:
    """The session's document; None when there is none, what was said is then on stderr."""
    with tempfile.TemporaryDirectory(prefix="laptime-ladder-") as work:
        words = ["tune", "--allow", "algorithm", "--budget", budget, "--json"]
        words += ["--patch", str(out / "tune_ladder.patch"), "-o", str(out / "tune_ladder.html")]
        done = subprocess.run(
            [sys.executable, "-m", "laptime", *words, str(script), "--epochs", "1000"],
            stdout=subprocess.PIPE,
            cwd=work,
            env={**os.environ, "LAPTIME_HOME": work},
            check=False,
        )
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        print(f"no document; laptime tune ended with status {done.returncode}", file=sys.stderr)
        return None
    return found


def main() -> int:
    """Tune, then show; 1 when it is below what was asked for."""
    made = parser(__doc__ or "")
    made.add_argument("--script", type=Path, default=ROOT / "examples" / "resnet18.py")
    made.add_argument(
        "--budget", default="8m", help="of the session; new processes and the start come on top"
    )
    made.add_argument("--again", type=Path, metavar="FILE", help="show a document that is there")
    asked = made.parse_args()
    if asked.again is None and not _has_cuda():
        print("skipped: no CUDA device")
        return 0
    data = head("The article's ladder, and ours")
    if asked.again is not None:
        tuning = json.loads(asked.again.read_text())
    else:
        with tempfile.TemporaryDirectory() as elsewhere:
            out = Path(os.environ.get("OUT") or elsewhere)
            tuning = tuned(asked.script.resolve(), asked.budget, out)
            if tuning is None:
                return 1
            if "OUT" in os.environ:
                write(out / "tune_ladder.json", tuning)
    show(tuning)
    write(asked.json, {**data, "tuning": tuning})
    return 0 if holds(tuning) else 1


def _has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


if __name__ == "__main__":
    sys.exit(main())
