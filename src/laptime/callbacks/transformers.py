"""For the Hugging Face Trainer: `Trainer(..., callbacks=[StepTimes()])`; its numbers join the trainer's logs.

Parts: data (until the step's batches are there), compute (forward and backward), optimizer.
Lies when: a GPU still works when a part ends: the step is right, its parts are the host's."""

from typing import TYPE_CHECKING, Any

from laptime.edges.callbacks import SharedStepTimes

if TYPE_CHECKING:
    TrainerCallback = object
else:
    try:
        from transformers import TrainerCallback
    except ImportError:
        TrainerCallback = object


class StepTimes(SharedStepTimes, TrainerCallback):
    """Numbers join what the trainer logs, and go where its loss goes; arguments: `SharedStepTimes`."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._samples = args.train_batch_size * args.gradient_accumulation_steps
        self._begin_loop()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Start the clock anew: the time between two epochs is no step."""
        self.clock.begin()

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.clock.mark("data")

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.clock.mark("compute")

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.clock.end("optimizer", self._samples)

    def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.clock.begin()

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **more: Any
    ) -> None:
        """Add the numbers to a training log, before the callbacks behind this one see it."""
        if logs is not None and "loss" in logs:
            logs.update(self._send())

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self._end_loop()
