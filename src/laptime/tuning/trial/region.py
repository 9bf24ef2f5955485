"""The forward part of a step: contexts that are entered before its first module and left before backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from typing import Any


class Region:
    """Open from the first call of a trained module to the backward pass, the losses between them included.

    It is left at the latest when the optimizer steps, a batch is fetched, the step ends, or the model raised.
    So it may be entered more than once in a step: micro-batches, the two halves of a GAN.
    """

    def __init__(self) -> None:
        self._stack: ExitStack | None = None

    @property
    def is_open(self) -> bool:
        """Whether a forward part runs."""
        return self._stack is not None

    def enter(self, contexts: Iterable[Callable[[], AbstractContextManager[Any]]]) -> None:
        """Enter all of them, unless it is open already."""
        if self._stack is not None:
            return
        stack = ExitStack()
        self._stack = stack
        try:
            for context in contexts:
                stack.enter_context(context())
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Leave them, last first. Safe to call when it is not open."""
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()
