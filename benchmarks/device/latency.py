"""Latency on CUDA in every regime, eager and compiled, with copies, energy and the share of the GEMM peak.

    python benchmarks/device/latency.py [--budget 12] [--batches 1,8,64] [--modes eager,default]

The device regime is checked against two other ways: torch.utils.benchmark (calls back to back, host's part
included when it is the slower one) and a CUDA graph of the same eager call, replayed between two events (no
host in it, but neither the gaps that eager kernels have between them: the device regime should be a little
longer, never shorter by more than its interval). Figures go to $OUT/latency.json when OUT is set.
"""

from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from _harness import head, parser, table, write

TARGETS = "torchvision:resnet50,torchvision:efficientnet_b0"
REGIMES = ("isolated", "saturated", "device")
BESIDE = {
    "throughput/saturated": (1.0, "{:,.0f}/s"),
    "flops/share_of_peak": (1e2, "{:.1f} %"),
    "copy/h2d/pageable": (1e6, "{:.1f} us"),
    "copy/h2d/pinned": (1e6, "{:.1f} us"),
    "copy/d2h/pageable": (1e6, "{:.1f} us"),
    "copy/d2h/pinned": (1e6, "{:.1f} us"),
    "energy/gross": (1e3, "{:.2f} mJ"),
    "energy/net": (1e3, "{:.2f} mJ"),
    "power/mean": (1.0, "{:.0f} W"),
    "memory/device/peak": (1 / 2**20, "{:.0f} MiB"),
    "time/compile": (1.0, "{:.1f} s"),
}


def torch_timer(model: Any, inputs: Any) -> float:
    """Seconds of a call by torch.utils.benchmark: blocks of calls, one synchronisation each."""
    import torch
    from torch.utils.benchmark import Timer

    with torch.inference_mode():
        timer = Timer("model(inputs)", globals={"model": model, "inputs": inputs})
        return float(timer.blocked_autorange(min_run_time=1.0).median)


def graph_time(model: Any, inputs: Any, *, rounds: int = 15, replays: int = 20) -> float:
    """Seconds of one replay of the call as a CUDA graph: median of rounds of replays between two events."""
    import torch

    with torch.inference_mode():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):  # autotuning and allocation must be over before the capture
                model(inputs)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(inputs)
        samples = []
        for _ in range(rounds):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()
            first.record()
            for _ in range(replays):
                graph.replay()
            last.record()
            torch.cuda.synchronize()
            samples.append(first.elapsed_time(last) * 1e-3 / replays)
    return statistics.median(samples)


def checked(target: str, batches: list[int], device: str) -> dict[int, dict[str, float]]:
    """The eager call by other tools, by batch size; the graph only on CUDA."""
    import torch

    from laptime.backends import torch as backend
    from laptime.records.plan import Variant

    found = {}
    model = backend.open(Variant(target=target, device=device))
    try:
        for batch in batches:
            work = model.workload(batch)
            (module,), inputs = model.modules(), work.inputs
            inputs = inputs[0] if isinstance(inputs, tuple) else inputs
            found[batch] = {"torch timer": torch_timer(module, inputs)}
            if device.startswith("cuda"):
                found[batch]["cuda graph"] = graph_time(module, inputs)
                torch.cuda.empty_cache()
    finally:
        model.close()
    return found


def measured(
    target: str, mode: str, batches: list[int], *, device: str, budget: float
) -> list[dict[str, Any]]:
    """One row of figures for each batch size."""
    import laptime
    from laptime.analysis.summary import summarize

    compile = "" if mode == "eager" else mode
    run = laptime.bench(target, batch=batches, device=device, compile=compile, budget=budget, timeout=400.0)
    others = checked(target, batches, device) if mode == "eager" else {}
    rows = []
    for case in run.cases:
        stats = summarize(case)
        keys = [*(f"latency/{regime}/median" for regime in REGIMES), *BESIDE]
        row: dict[str, Any] = {"target": target, "mode": mode, "batch": case.batch, "verdict": case.trust}
        row["failure"] = case.failure.what if case.failure else None
        row["reasons"] = [check.sentence for check in case.checks if check.outcome in ("warn", "fail")]
        row["stats"] = {
            key: {"value": stats[key].value, "ci95": stats[key].ci95, "n": stats[key].n}
            for key in keys
            if key in stats
        }
        row["checked"] = others.get(case.batch, {})
        rows.append(row)
    return rows


def value(row: dict[str, Any], key: str) -> float | None:
    """One figure of a row, or None."""
    return row["stats"].get(key, {}).get("value")


def milliseconds(seconds: float | None) -> str:
    """As printed; `-` for None."""
    return "-" if seconds is None else f"{seconds * 1e3:.3f} ms"


def times(row: dict[str, Any]) -> tuple[str, ...]:
    """A line of the first table."""
    device, graph = value(row, "latency/device/median"), row["checked"].get("cuda graph")
    return (
        row["target"],
        row["mode"],
        str(row["batch"]),
        *(milliseconds(value(row, f"latency/{regime}/median")) for regime in REGIMES),
        milliseconds(row["checked"].get("torch timer")),
        milliseconds(graph),
        f"{device / graph:.3f}" if device and graph else "-",
        row["failure"] or row["verdict"],
    )


def beside(row: dict[str, Any]) -> tuple[str, ...]:
    """A line of the second table."""
    cells = []
    for key, (factor, form) in BESIDE.items():
        found = value(row, key)
        cells.append("-" if found is None else form.format(found * factor))
    return row["target"], row["mode"], str(row["batch"]), *cells


def main() -> int:
    """Print both tables; 1 when the device regime comes out shorter than the replayed graph by over 5 %."""
    options = parser(__doc__ or "")
    options.add_argument("--device", help="cuda:0 when there is one")
    options.add_argument("--targets", default=TARGETS)
    options.add_argument("--batches", default="1,8,64")
    options.add_argument("--modes", default="eager,default", help="eager, or a mode of torch.compile")
    options.add_argument(
        "--budget", type=float, default=12.0, help="seconds of measuring for a target and mode"
    )
    asked = options.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: no torch")
        return 0
    if asked.device is None and not torch.cuda.is_available():
        print("skipped: no CUDA device")
        return 0
    device = asked.device or "cuda:0"
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else device
    data: dict[str, Any] = {
        **head(f"Latency on {name}, torch {torch.__version__}"),
        "device": name,
        "rows": [],
    }
    file = asked.json or (Path(os.environ["OUT"]) / "latency.json" if os.environ.get("OUT") else None)
    batches = [int(word) for word in asked.batches.split(",")]
    columns = (*REGIMES, "torch Timer", "CUDA graph", "device / graph", "verdict")

    def lines() -> Any:
        for target in asked.targets.split(","):
            for mode in asked.modes.split(","):
                for row in measured(target, mode, batches, device=device, budget=asked.budget):
                    data["rows"].append(row)
                    write(file, data)
                    yield times(row)

    table(("target", "mode", "batch", *columns), lines())
    print()
    table(("target", "mode", "batch", *BESIDE), [beside(row) for row in data["rows"]])
    return int(any(too_short(row) for row in data["rows"]))


def too_short(row: dict[str, Any]) -> bool:
    """Whether the device regime says less than the device needs without any host."""
    device, graph = value(row, "latency/device/median"), row["checked"].get("cuda graph")
    return bool(device and graph and device < 0.95 * graph)


if __name__ == "__main__":
    sys.exit(main())
