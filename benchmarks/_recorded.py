"""Traces of scripts of our own, recorded here on the CPU: what the real ones at hand do not have.

python benchmarks/_recorded.py FOLDER      one file a kind
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = 3
EVERYTHING = {"record_shapes": True, "with_stack": True, "with_modules": True, "profile_memory": True}


def record(into: Path) -> dict[str, Path]:
    """Traces by kind: activation checkpointing, checkpoints in checkpoints, nested modules, recursion."""
    return {
        kind: _recorded(make(), into / f"{kind}.json")
        for kind, make in (
            ("checkpointing", _checkpointing),
            ("nested checkpoints", _nested_checkpoints),
            ("nested modules", _nested_modules),
            ("recursion", _recursion),
        )
    }


def _recorded(step: Callable[[], Any], file: Path) -> Path:
    from torch.profiler import ProfilerActivity, profile, schedule

    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=STEPS),
        on_trace_ready=lambda each: each.export_chrome_trace(str(file)),
        **EVERYTHING,
    ) as running:
        for _ in range(STEPS + 1):
            step()
            running.step()
    return file


def _blocks() -> Any:
    from torch import nn

    return nn.Sequential(
        *(nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16)) for _ in range(12))
    )


def _trained(model: Any, forward: Callable[[], Any]) -> Callable[[], None]:
    import torch

    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        forward().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _checkpointing() -> Callable[[], None]:
    import torch
    from torch.utils.checkpoint import checkpoint

    model = _blocks()

    def forward() -> Any:
        x = torch.randn(4, 16, requires_grad=True)
        for block in model:
            x = checkpoint(block, x, use_reentrant=False)
        return x

    return _trained(model, forward)


def _nested_checkpoints() -> Callable[[], None]:
    import torch
    from torch.utils.checkpoint import checkpoint

    model = _blocks()

    def rest(at: int, x: Any) -> Any:
        if at == len(model):
            return x
        return checkpoint(lambda y: rest(at + 1, model[at](y)), x, use_reentrant=True)

    return _trained(model, lambda: rest(0, torch.randn(4, 16, requires_grad=True)))


def _nested_modules() -> Callable[[], None]:
    import torch
    from torch import nn

    class Nested(nn.Module):
        def __init__(self, depth: int) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)
            self.inner = Nested(depth - 1) if depth else nn.Identity()

        def forward(self, x: Any) -> Any:
            return torch.relu(self.layer(self.inner(x)))

    model = Nested(60)
    return _trained(model, lambda: model(torch.randn(4, 8)))


def _recursion() -> Callable[[], None]:
    import torch
    from torch.profiler import record_function

    def deeper(x: Any, depth: int) -> Any:
        with record_function(f"level {depth % 7}"):
            return deeper(x + 1, depth - 1) if depth else x * 2

    def step() -> None:
        for _ in range(6):
            deeper(torch.randn(8), 150)

    return step


if __name__ == "__main__":
    print(*record(Path(sys.argv[1])).values(), sep="\n")
