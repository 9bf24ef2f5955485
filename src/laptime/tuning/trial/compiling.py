"""What torch.compile does while the loop runs: seconds, how often, graph breaks.

Told by torch._dynamo.callback, which is there from PyTorch 2.2 on and calls around every compilation: of
frames, of backward graphs at their first run, of captured CUDA graphs. Without it nothing is known, and
nothing counts.
"""

from __future__ import annotations

import sys
from time import perf_counter_ns
from typing import Any

from laptime.instrument.importing import WhenImported

_MODULE = "torch._dynamo.callback"


class Compiling:
    """Listens to compilation.

    Attributes:
        seconds: in all. times: how often something was compiled.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.times = 0
        self._begun: int | None = None
        self._handler: Any = None
        self._watch = WhenImported(_MODULE, self._register)

    def install(self) -> None:
        """Listen as soon as the compiler is imported."""
        self._watch.install()

    def remove(self) -> None:
        """Listen no longer. Safe to call twice."""
        self._watch.remove()
        if self._handler is not None:
            for known, own in (("start", self._starts), ("end", self._ends)):
                callbacks = getattr(self._handler, f"{known}_callbacks")
                if own in callbacks:
                    callbacks.remove(own)
        self._handler = None

    def _register(self) -> None:
        handler: Any = getattr(sys.modules[_MODULE], "callback_handler", None)
        if hasattr(handler, "start_callbacks") and hasattr(handler, "end_callbacks"):
            self._handler = handler
            handler.start_callbacks.append(self._starts)
            handler.end_callbacks.append(self._ends)

    def _starts(self, *told: Any) -> None:
        self._begun = perf_counter_ns()

    def _ends(self, *told: Any) -> None:
        if self._begun is not None:
            self.seconds += (perf_counter_ns() - self._begun) / 1e9
            self.times += 1
        self._begun = None


def graph_breaks() -> int:
    """Graph breaks of everything that was compiled so far."""
    module: Any = sys.modules.get("torch._dynamo.utils")
    return sum(module.counters["graph_break"].values()) if module is not None else 0
