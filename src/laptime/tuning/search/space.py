"""A climb along one line of options: the recommended one, then its neighbours for as long as they win.

Effects along such a line (workers, prefetch, threads, batch) rise to a knee and fall behind it, so a
neighbour that does not win ends its direction.
"""

from __future__ import annotations

from collections.abc import Iterator

from laptime.records.tuning import RungWord
from laptime.tuning.optimization import Change

WON = ("faster", "smaller")
LOST = ("slower", "larger", "failed")


class Climb:
    """Options to race, one after the other; the word of each is recorded before the next is asked for.

    Attributes:
        line: options in order. limit: races at most.
    """

    def __init__(self, line: tuple[Change, ...], start: Change, limit: int = 6) -> None:
        self.line = line
        self.limit = limit
        self._start = line.index(start)
        self._words: dict[int, str] = {}

    def __iter__(self) -> Iterator[Change]:
        while len(self._words) < self.limit:
            at = self._next()
            if at is None:
                return
            yield self.line[at]
            # Without a record it could not be raced, so nothing is known of what lies behind it.
            self._words.setdefault(at, "unclear")

    def record(self, change: Change, word: RungWord, *, kept: bool) -> None:
        """Take the word of an option; one that won but was not kept (its gate failed) counts as lost."""
        self._words[self.line.index(change)] = "won" if kept else ("slower" if word in WON else word)

    def _next(self) -> int | None:
        if not self._words:
            return self._start
        start = self._words[self._start]
        if start == "won":
            up = self._beyond(+1)
            # Downwards only when nothing above has won: behind a knee there is no second one.
            is_behind_knee = up is None and self._words.get(self._start + 1) == "won"
            return up if up is not None or is_behind_knee else self._beyond(-1)
        # The recommended option did not win: one look at what is less, and at more unless more hurts.
        below, above = self._start - 1, self._start + 1
        if start not in LOST and above < len(self.line) and above not in self._words:
            return above
        if self._words.get(above) == "won":
            return self._beyond(+1)
        if below >= 0 and below not in self._words:
            return below
        return self._beyond(-1) if self._words.get(below) == "won" else None

    def _beyond(self, direction: int) -> int | None:
        """The first open option in this direction, when all before it have won."""
        at = self._start + direction
        while self._words.get(at) == "won":
            at += direction
        return at if 0 <= at < len(self.line) and at not in self._words else None
