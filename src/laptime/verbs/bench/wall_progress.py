"""How far a benchmark is by wall time: loading, measuring and the passes behind it each take their share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from laptime.records.event import Listener, Progress

LOADING = 3.0
"""Seconds that one variant takes to load: a guess, until all have loaded once."""
PASSES = 1.0
"""Seconds that the passes of one case (outputs, FLOPs, memory ...) take beside calls of the model."""
CALLS = 10
"""Calls of the model that they make."""


class WallProgress:
    """Tells the share of the time that has passed of all that it will take, and what is being done.

    The share is never 1: whatever is still going on has some time left. While nobody knows how long a phase
    takes (a search for batch sizes) it is 0.
    """

    def __init__(self, emit: Listener, now: Callable[[], float], *, variants: int, processes: int) -> None:
        self._emit, self._now, self._begun = emit, now, now()
        self._variants, self._processes = variants, processes
        self._loading, self._measuring = LOADING * variants, 0.0
        self._passes = PASSES * variants
        self._generation, self._is_loading, self._is_searching = 0, True, False
        self._since = self._begun

    def searching(self) -> None:
        self._is_searching = True

    def loading(self, generation: int, budget: float) -> None:
        """Workers of a generation load; `budget` is the measuring of all of them, in seconds."""
        self._generation, self._is_loading, self._is_searching = generation, True, False
        self._measuring, self._since = budget / self._processes, self._now()

    def loaded(self, calls: Iterable[float]) -> None:
        """They have: now it is known how long that takes, and a call of each case, in seconds."""
        self._loading, self._is_loading = self._now() - self._since, False
        self._passes = sum(PASSES + CALLS * seconds for seconds in calls)
        self._since = self._now()

    def measuring(self, remaining: float) -> None:
        """A round is over; `remaining` is of the budget of this generation, in seconds."""
        share = "" if self._processes == 1 else f", process {self._generation + 1} of {self._processes}"
        self._tell(f"measuring{share}", max(0.0, remaining) + self._later + self._passes)

    def completing(self, text: str, share: float) -> None:
        self._tell(text, (1 - share) * self._passes)

    def say(self, text: str) -> None:
        gone = self._now() - self._since if self._is_loading else 0.0
        left = max(0.0, self._loading - gone) + self._measuring + self._later + self._passes
        self._tell(text, left)

    @property
    def _later(self) -> float:
        return (self._processes - self._generation - 1) * (self._loading + self._measuring)

    def _tell(self, text: str, left: float) -> None:
        gone = self._now() - self._begun
        done = 0.0 if self._is_searching or gone <= 0 else gone / (gone + left)
        self._emit(Progress(done=min(0.99, done), remaining=left, text=text))
