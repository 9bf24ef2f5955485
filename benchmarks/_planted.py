"""Programs of which one does exactly so many per cent more work than the other: 128x128 matrix products.

`_planted.py:work_100` makes 100 of them in each call, `work_105` makes 105.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch


def __getattr__(name: str) -> Callable[[], Callable[[], None]]:
    kind, _, percent = name.partition("_")
    if kind != "work" or not percent.isdigit():
        raise AttributeError(name)
    return partial(_program, int(percent))


def _program(products: int) -> Callable[[], None]:
    torch.manual_seed(0)
    a, out = torch.randn(128, 128), torch.empty(128, 128)

    @torch.inference_mode()
    def work() -> None:
        for _ in range(products):
            torch.mm(a, a, out=out)

    return work
