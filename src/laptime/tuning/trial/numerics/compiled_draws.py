"""Random numbers of compiled code: dropout's masks, a VAE's and a GAN's noise.

Inductor draws them inside its kernels, by another generator than eager code: of the same distribution, but a
step under other masks cannot be compared with one. For a comparison it can draw as eager code does.
Source: torch._inductor.config.fallback_random.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def as_eager() -> Callable[[], None]:
    """Let compiled code draw as eager code does; what was compiled is compiled anew. The result undoes it."""
    from torch import compiler
    from torch._inductor import config

    settings: Any = config
    before = settings.fallback_random

    def switch(value: bool) -> None:
        settings.fallback_random = value
        compiler.reset()

    switch(True)

    def undo() -> None:
        switch(before)

    return undo
