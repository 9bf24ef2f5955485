"""Larger micro-batches, and fewer of them: the effective batch stays, the device gets more to do at once.

In a trial the script's own count of micro-batches goes on, so optimizers also step in between, at the end of
the backward pass that completes an effective batch, and gradients are scaled as if the loss were divided by
the new number.

Source: MosaicML Composer, automatic micro-batching; Hugging Face, "Gradient accumulation fix" (2024) for what
can go wrong.
Lies when: the model has BatchNorm, or the loss is a mean over tokens or a sum over samples: then larger
micro-batches are another training."""

from typing import Any

from laptime.tuning.catalogue import _loader
from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import CannotEdit, LoopProfile, Optimization, Options


def look(hooks: Any) -> int:
    """Micro-batches of an optimizer step, from how often each was seen."""
    counts = hooks.steps.seen
    return round(counts["backward"] / counts["optimizer"]) if counts["optimizer"] else 1


def propose(loop_profile: LoopProfile) -> list[Options]:
    """All divisors of the number of micro-batches, the smallest enlargement first."""
    if why_not(loop_profile):
        return []
    size, steps = _loader.batch_size(loop_profile), int(loop_profile.details["accumulation"])
    divisors = [times for times in range(2, steps + 1) if steps % times == 0]
    return [{"value": size * times, "steps": steps // times, "of": steps} for times in divisors]


def why_not(loop_profile: LoopProfile) -> str:
    if int(loop_profile.details.get("accumulation") or 1) < 2:
        return "the script does not accumulate gradients"
    if {"clipping", "scheduler"} & loop_profile.facts:
        return "gradient clipping and schedules that run once a step of the script would run too seldom"
    return "" if _loader.batch_size(loop_profile) else "the loader has no batch size of its own"


def apply(loop: Any, options: Options) -> None:
    """batch_size of the loaders of this size, gradients to scale, steps in between."""
    size, steps, of = int(options["value"]), int(options["steps"]), int(options["of"])
    times = of // steps
    optimizers: list[Any] = []
    passes = 0

    def end_pass() -> None:
        nonlocal passes
        passes += 1
        if passes % steps == 0 and passes % of:
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()

    def scale(loss: Any) -> Any:
        import torch

        def queue_end(gradient: Any) -> None:
            torch.autograd.Variable._execution_engine.queue_callback(end_pass)

        scaled = loss * times
        scaled.register_hook(queue_end)
        return scaled

    _loader.enlarge_batch(loop, size, times)
    loop.optimizers(optimizers.append)
    loop.backward(scale)


def edit(script: Any, options: Options) -> None:
    """Arguments of a library's trainer; in a loop of one's own the count of micro-batches has no known
    place."""
    size, steps = str(int(options["value"])), str(int(options["steps"]))
    if by_trainer(script, hf={"per_device_train_batch_size": size, "gradient_accumulation_steps": steps}):
        return
    if not script.has_site("lightning_trainer") or not script.has_site("loader"):
        wanted = f"accumulate over {steps} micro-batches of {size}"
        raise CannotEdit(f"{wanted}: the script's own count has no known place")
    by_trainer(script, lightning={"accumulate_grad_batches": steps})
    script.set_arguments("loader", batch_size=size)


OPTIMIZATION = Optimization(
    title="larger micro-batches, the effective batch kept",
    numerics="algorithm",
    # All that a micro-batch costs besides its samples is at most what half of them take: so says T(b) through
    # half and twice the batch; without these half of forward and backward.
    saves={"forward": 0.5, "backward": 0.5, "transfer": 0.5, "other": 0.5},
    needs=frozenset({"loader", "accumulation", "!several_optimizers", "!custom_batch_sampler", "!batchnorm"}),
    conflicts=frozenset({"batch_size", "grad_scaler"}),
    propose=propose,
    why_not=why_not,
    look=look,
    example=4,
    apply=apply,
    edit=edit,
)
