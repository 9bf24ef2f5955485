"""For Keras: `model.fit(..., callbacks=[StepTimes()])`; its numbers join the logs of each epoch.

Parts: between (from one step to the next: with the backends torch and jax, waiting for data), compute.
Lies when: the backend is TensorFlow, which waits for data inside the step; a GPU still works when a step
ends; `steps_per_execution` is above 1."""

from typing import TYPE_CHECKING, Any

from laptime.edges.callbacks import SharedStepTimes

if TYPE_CHECKING:
    Callback = object
else:
    try:
        from keras.callbacks import Callback
    except ImportError:
        Callback = object


class StepTimes(SharedStepTimes, Callback):
    """Numbers are added to the logs of an epoch, where `History` and other callbacks find them.

    Args:
        batch_size: samples in a step, for samples per second; 0 leaves them out.
        show, export, to: as in `SharedStepTimes`.
    """

    def __init__(self, batch_size: int = 0, *, show: bool = True, export: str = "", to: str = "") -> None:
        super().__init__(show=show, export=export, to=to)
        self._samples = float(batch_size)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Start the clock anew: the time between two epochs is no step."""
        self.clock.begin()

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.clock.mark("between")

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.clock.end("compute", self._samples)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            logs.update(self._send())

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._end_loop()
