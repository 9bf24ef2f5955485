from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from laptime.instrument.hooks import Hooks
from laptime.instrument.messages import Observed, Settings
from laptime.instrument.step_observer import StepObserver
from laptime.instrument.steps import Stop

Observe = Callable[..., Observed]


@pytest.fixture
def observe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Observe]:
    """Runs a loop under hooks in this process until it is stopped, or ends; what was observed."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    observers: list[tuple[StepObserver, Hooks]] = []

    def run(loop: Callable[[], object], **changes: object) -> Observed:
        small = {"wait": 1, "timed": 3, "warmup": 1, "steps": 2, "stack": False, "primitives": False}
        observer = StepObserver(Settings(folder=str(tmp_path), quiet=True, **{**small, **changes}))  # type: ignore[arg-type]
        hooks = Hooks(observer)
        observers.append((observer, hooks))
        hooks.install()
        try:
            loop()
        except Stop:
            pass
        finally:
            hooks.undo()
        observer.finish()
        return observer.observed

    yield run
    for _, hooks in observers:
        hooks.undo()
