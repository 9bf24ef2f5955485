"""Arguments of the libraries that run a loop for the user: remembered where a script imports them."""

from __future__ import annotations

import functools
import sys
from typing import Any

from laptime.instrument.importing import WhenImported
from laptime.tuning.trial.constructors import Constructors

CLASSES = (
    ("transformers.training_args", "TrainingArguments"),
    ("lightning.pytorch.trainer.trainer", "Trainer"),
    ("pytorch_lightning.trainer.trainer", "Trainer"),
)
"""Module and class whose constructor calls are kept in `Constructors.calls`."""


class Remembered(WhenImported):
    """Remembers constructor calls of one class once its module is imported; `remove` gives it back."""

    def __init__(self, module: str, name: str, made: Constructors) -> None:
        super().__init__(module, self._wrap)
        self._place = module, name
        self._made = made
        self._original: tuple[Any, Any] | None = None

    def remove(self) -> None:
        """Watch and remember no longer. Safe to call twice."""
        super().remove()
        if self._original is not None:
            cls, original = self._original
            cls.__init__ = original
            self._original = None

    def _wrap(self) -> None:
        module, name = self._place
        cls = getattr(sys.modules[module], name, None)
        if cls is None or "__init__" not in vars(cls):
            return
        original, made = cls.__init__, self._made

        @functools.wraps(original)
        def __init__(self_: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            made.other(original, self_, args, kwargs)

        self._original = cls, original
        cls.__init__ = __init__


def watches(made: Constructors) -> list[WhenImported]:
    """One for each class."""
    return [Remembered(module, name, made) for module, name in CLASSES]
