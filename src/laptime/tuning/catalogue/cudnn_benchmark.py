"""cuDNN times its convolution algorithms for each shape and keeps the fastest.

Source: torch.backends.cudnn.benchmark, "Performance Tuning Guide".
Lies when: shapes vary: each new one is timed again.
"""

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import Options

TITLE = "cuDNN picks algorithms by timing"
NUMERICS = "reassociated"
SAVES = {"forward": 1 / 3, "backward": 1 / 3}
TOGGLE = "live"
NEEDS = frozenset({"cuda", "conv", "!cudnn_benchmark_on", "!varying_shapes"})
GIVES = frozenset({"cudnn_benchmark_on"})
PRIOR = 0.2


def apply(loop: Any, options: Options) -> None:
    import torch

    loop.set_attribute(torch.backends.cudnn, "benchmark", True)


def edit(script: Any, options: Options) -> None:
    if not by_trainer(script, lightning={"benchmark": "True"}):
        script.at_start("torch.backends.cudnn.benchmark = True", "import torch")
