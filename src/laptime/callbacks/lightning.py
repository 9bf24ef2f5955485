"""For Lightning: `Trainer(callbacks=[StepTimes()])` logs the parts of a step and samples per second.

Parts: data (until the batch is there), forward, backward, optimizer (with whatever follows it in the step).
Lies when: a GPU still works when a part ends: the step is right, its parts are the host's."""

from typing import TYPE_CHECKING, Any

from laptime.edges.callbacks import SharedStepTimes

if TYPE_CHECKING:
    Callback = object
else:
    try:
        from lightning.pytorch.callbacks import Callback
    except ImportError:
        try:
            from pytorch_lightning.callbacks import Callback
        except ImportError:
            Callback = object


class StepTimes(SharedStepTimes, Callback):
    """Logs through the trainer's loggers, as often as they log; arguments: `SharedStepTimes`."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._begin_loop()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the clock anew: the time between two epochs is no step."""
        self.clock.begin()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._batch = _items(batch)
        self.clock.mark("data")

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        self.clock.mark("forward")

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        self.clock.mark("backward")

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.clock.end("optimizer", self._batch)
        if self.clock.steps % trainer.log_every_n_steps == 0 and (numbers := self._send()):
            for logger in trainer.loggers:
                logger.log_metrics(numbers, step=trainer.global_step)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self.clock.begin()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._end_loop()


def _items(batch: Any) -> float:
    """Length of the first tensor in a batch; 0 if there is none."""
    if hasattr(batch, "shape"):
        return float(batch.shape[0]) if len(batch.shape) else 0.0
    values = batch.values() if hasattr(batch, "values") else batch if isinstance(batch, list | tuple) else ()
    return next((items for value in values if (items := _items(value))), 0.0)
