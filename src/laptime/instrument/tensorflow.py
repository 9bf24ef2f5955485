"""TensorFlow's part: calls of compiled functions are the loop's calls, tf.profiler records them.

Every `tf.function` is called through one method, which Keras's `fit` and `predict` use, too. That one is
wrapped; a step is from one call of the function that leads the loop to its next."""

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from laptime.instrument.messages import Settings
from laptime.instrument.recorder import worker_name
from laptime.instrument.step_observer import StepObserver
from laptime.instrument.steps import FORWARD

STEP = "laptime::step"
"""The name of the ranges that we write around recorded steps; `trace.xplane.steps` knows it."""


class Host:
    """TensorFlow has no clock of its device to read: steps are timed by the host."""

    name = "tensorflow"
    clock = "host"

    def mark(self) -> None:
        """No mark."""

    def between(self, begin: Any, end: Any) -> None:
        """Return None: it is not known."""

    def wait(self) -> None:
        """tf.profiler waits by itself when it stops."""


class Hooks:
    """Wraps the call of compiled functions. `undo` gives back the very object that was there."""

    def __init__(self, listener: StepObserver) -> None:
        self._listener = listener
        self._owner: Any = None
        self._original: Any = None
        self._pid = os.getpid()
        self.is_used = False

    def install(self) -> None:
        import tensorflow as tf

        self._owner = type(tf.function(lambda: None))
        self._original = original = self._owner.__call__
        listener, phases = self._listener, self._listener.phases
        pid, self_ = self._pid, self

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            # If a script uses torch, that is its loop; many import TensorFlow only to write logs. Inside
            # another function's tracing this is no call of the loop; nor is it in a forked child.
            foreign = "torch" in sys.modules or os.getpid() != pid or not tf.executing_eagerly()
            if foreign or not phases.is_free_for(FORWARD):
                return original(self, *args, **kwargs)
            if not self_.is_used:
                self_.is_used = True
                listener.use(Host(), Recorder)
            listener.forward(id(self))
            phases.enter(FORWARD)
            try:
                return original(self, *args, **kwargs)
            finally:
                phases.leave()

        self._owner.__call__ = __call__

    def undo(self) -> None:
        if self._original is not None:
            self._owner.__call__, self._original = self._original, None


class Recorder:
    """Warm-up steps that are not recorded, then those that are; one file. The shape of `recorder.Recorder`.
    files: names of the traces that were written."""

    def __init__(self, settings: Settings, *, warmup: int, steps: int) -> None:
        import tensorflow as tf

        self._profiler: Any = tf.profiler.experimental
        self._folder = Path(settings.folder)
        self._warmup, self._steps = warmup, steps
        self._number = 0
        self._range: Any = None
        self.files: list[str] = []

    @property
    def is_active(self) -> bool:
        return self._range is not None

    @property
    def active(self) -> int:
        return max(0, self._number - self._warmup) if self.is_active else 0

    def start(self) -> None:
        if not self._warmup:
            self._record()

    def step(self) -> bool:
        self._number += 1
        if self._number < self._warmup:
            return False
        if self._number == self._warmup:
            self._record()
            return False
        self._close()
        if self._number < self._warmup + self._steps:
            self._open()
            return False
        self._write()
        return True

    def end(self) -> bool:
        self._number += 1
        was_active = self.is_active
        self.stop()
        return was_active

    def stop(self) -> None:
        if self.is_active:
            self._close()
            self._write()

    def _record(self) -> None:
        self._profiler.start(str(self._folder / "tensorflow"))
        self._open()

    def _open(self) -> None:
        self._range = self._profiler.Trace(STEP, step_num=self._number - self._warmup, _r=1)
        self._range.__enter__()

    def _close(self) -> None:
        self._range.__exit__(None, None, None)
        self._range = None

    def _write(self) -> None:
        self._profiler.stop()
        for path in sorted((self._folder / "tensorflow").rglob("*.xplane.pb"))[:1]:
            name = f"{worker_name()}.{time.time_ns()}.xplane.pb"
            shutil.move(path, self._folder / name)
            self.files.append(name)
        shutil.rmtree(self._folder / "tensorflow", ignore_errors=True)
