"""What a user of torch.utils.benchmark runs: `blocked_autorange` of EfficientNet-B0 at batch 1 and N.

python benchmarks/_timer.py BATCH    prints the median of each batch size in seconds, as JSON
"""

from __future__ import annotations

import json
import sys

import torch
from torch.utils.benchmark import Timer
from torchvision.models import efficientnet_b0

SECONDS = 5.0

model = efficientnet_b0().eval()
seconds = {}
with torch.inference_mode():
    for batch in (1, int(sys.argv[1])):
        timer = Timer(
            "model(x)",
            globals={"model": model, "x": torch.randn(batch, 3, 224, 224)},
            num_threads=torch.get_num_threads(),
        )
        seconds[str(batch)] = timer.blocked_autorange(min_run_time=SECONDS).median
print(json.dumps({"torch": torch.__version__, "seconds": seconds}))
