"""cuDNN times its convolution algorithms for each shape and keeps the fastest.

Source: torch.backends.cudnn.benchmark, "Performance Tuning Guide".
Lies when: shapes vary: each new one is timed again."""

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import Optimization, Options


def apply(loop: Any, options: Options) -> None:
    import torch

    loop.set_attribute(torch.backends.cudnn, "benchmark", True)


OPTIMIZATION = Optimization(
    title="cuDNN picks algorithms by timing",
    numerics="reassociated",
    saves={"forward": 1 / 3, "backward": 1 / 3},
    live=True,
    needs=frozenset({"cuda", "conv", "!cudnn_benchmark_on", "!varying_shapes"}),
    gives=frozenset({"cudnn_benchmark_on"}),
    prior=0.2,
    switch=r"(use_)?cudnn_benchmark",
    apply=apply,
    edit=lambda script, options: (
        by_trainer(script, lightning={"benchmark": "True"})
        or script.at_start("torch.backends.cudnn.benchmark = True", "import torch")
    ),
)
