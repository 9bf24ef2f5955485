"""Calls of a model that ONNX Runtime runs, recorded by its own profiler (`enable_profiling`)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


class Recorder:
    """Made before the folder is loaded: sessions are profiled from their beginning or not at all.

    Args:
        place: the file that is written, as ONNX Runtime writes it.
    """

    def __init__(self, place: Path) -> None:
        import onnxruntime

        self._place, self._sessions = place, list[Any]()
        made = onnxruntime.InferenceSession

        def profiled(path: Any, options: Any = None, *rest: Any, **more: Any) -> Any:
            options = more.pop("sess_options", options) or onnxruntime.SessionOptions()
            options.enable_profiling = True
            options.profile_file_prefix = str(place.with_suffix(""))
            session = made(path, options, *rest, **more)
            self._sessions.append((session, options.intra_op_num_threads))
            return session

        onnxruntime.InferenceSession = profiled

    def record(self, model: Callable[..., Any], inputs: Sequence[Any], calls: int) -> dict[str, Any]:
        """Record so many calls, the last ones of the file; seconds of one, and what runs them."""
        import onnxruntime

        began = time.perf_counter()
        for _ in range(calls):
            model(*inputs)
        seconds = time.perf_counter() - began
        session, threads = self._sessions[-1]
        shutil.move(session.end_profiling(), self._place)
        return {
            "seconds": seconds / calls,
            "threads": threads,
            "recorder": f"ONNX Runtime {onnxruntime.__version__}, enable_profiling",
        }
