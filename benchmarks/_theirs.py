"""What a user of pytorch-benchmark runs: EfficientNet-B0 at batch 1 and N. Run by an interpreter that has it.

python benchmarks/_theirs.py BATCH NUM_RUNS    prints seconds_per_batch_mean by batch size, as JSON
"""

from __future__ import annotations

import json
import sys

import torch
from pytorch_benchmark import benchmark
from torchvision.models import efficientnet_b0

batch, num_runs = int(sys.argv[1]), int(sys.argv[2])
results = benchmark(efficientnet_b0(), torch.randn(batch, 3, 224, 224), num_runs=num_runs)
timing = {
    name.removeprefix("batch_size_"): part["on_device_inference"]["metrics"]["seconds_per_batch_mean"]
    for name, part in results["timing"].items()
}
print(json.dumps({"torch": torch.__version__, "seconds": timing}))
