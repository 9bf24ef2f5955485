"""Why two tools disagree: one model in every regime, beside a bare loop and torch's own timer.

    python benchmarks/device/regimes.py [DEVICE]

A table for docs/measurements.md. Without an accelerator there is nothing to show, unless a device is named.
"""

from __future__ import annotations

import statistics
import sys
import time

TARGETS = ("torchvision:resnet18", "torchvision:efficientnet_b0")
BATCHES = [1, 32]


def unsynchronised(model: object, inputs: object, calls: int = 50) -> float:
    """Median seconds by the host's clock around each call, nothing waited for: what is often published."""
    import torch

    samples = []
    with torch.inference_mode():
        for _ in range(calls):
            started = time.perf_counter()
            model(inputs)  # type: ignore[operator]
            samples.append(time.perf_counter() - started)
    return statistics.median(samples)


def torch_timer(model: object, inputs: object) -> float:
    """Seconds by torch.utils.benchmark: the mean of blocks, one synchronisation each."""
    import torch
    from torch.utils.benchmark import Timer

    threads = torch.get_num_threads()  # its default is 1
    with torch.inference_mode():
        timer = Timer("model(inputs)", globals={"model": model, "inputs": inputs}, num_threads=threads)
        return float(timer.blocked_autorange(min_run_time=1.0).median)


def main(device: str | None) -> int:
    """Print one row for each target and batch."""
    import torch
    import torchvision

    import laptime
    from laptime.analysis.summary import summarize

    if device is None and not torch.cuda.is_available():
        print("skipped: no accelerator")
        return 0
    device = device or "cuda:0"
    print("| target | batch | isolated | saturated | device | torch Timer | clock without sync | trust |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for target in TARGETS:
        model = torchvision.models.get_model(target.partition(":")[2], weights=None).eval().to(device)
        run = laptime.bench(target, batch=BATCHES, device=device, budget=20.0)
        for case in run.cases:
            stats = summarize(case)
            inputs = torch.randn(case.batch, 3, 224, 224, device=device)
            times = [stats.get(f"latency/{regime}/median") for regime in ("isolated", "saturated", "device")]
            others = [torch_timer(model, inputs), unsynchronised(model, inputs)]
            values = [*(stat.value if stat else None for stat in times), *others]
            shown = " | ".join("-" if value is None else f"{value * 1e3:.3f} ms" for value in values)
            print(f"| {target} | {case.batch} | {shown} | {case.trust} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
