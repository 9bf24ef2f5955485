"""What a session spends its time on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Ledger:
    """What a session has done.

    Attributes:
        seconds: by kind of work. trials: processes that were started.
        compiling: longest torch.compile seen. compile_seconds: all of it. first: seconds to the first
            step's end.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    trials: int = 0
    compiling: float | None = None
    compile_seconds: float = 0.0
    first: float | None = None
    compiled_by: dict[str, float] = field(default_factory=dict)
    _booking: bool = False

    @contextmanager
    def spent(self, kind: str) -> Iterator[None]:
        """Book what is done inside under this kind of work, torch.compile apart; once, by the outermost."""
        if self._booking:
            yield
            return
        self._booking = True
        began, compiled = time.monotonic(), self.compile_seconds
        try:
            yield
        finally:
            self._booking = False
            compiling = self.compile_seconds - compiled
            own = max(0.0, time.monotonic() - began - compiling)
            self.seconds[kind] = self.seconds.get(kind, 0.0) + own
            self.seconds["compile"] = self.seconds.get("compile", 0.0) + compiling
