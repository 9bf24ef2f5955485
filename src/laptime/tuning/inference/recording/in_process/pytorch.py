"""Calls of a model that PyTorch runs, recorded by torch.profiler with the shapes of inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


class Recorder:
    """Made before the folder is loaded.

    Args:
        place: the file that is written, a trace of Kineto.
    """

    def __init__(self, place: Path) -> None:
        self._place = place

    def record(self, model: Callable[..., Any], inputs: Sequence[Any], calls: int) -> dict[str, Any]:
        """Record so many calls; seconds of one, and what runs them."""
        import torch

        options: dict[str, Any] = {"activities": [torch.profiler.ProfilerActivity.CPU], "record_shapes": True}
        with torch.profiler.profile(**options):
            model(*inputs)  # the first start of the profiler takes part of the first call's time
        with torch.profiler.profile(**options) as profiler:
            began = time.perf_counter()
            for _ in range(calls):
                model(*inputs)
            seconds = time.perf_counter() - began
        profiler.export_chrome_trace(str(self._place))
        return {
            "seconds": seconds / calls,
            "threads": torch.get_num_threads(),
            "recorder": f"torch.profiler {torch.__version__}",
        }
