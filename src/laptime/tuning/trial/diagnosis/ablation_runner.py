"""Mode diagnose: times the step as it is and with parts left out, without a trace.

`ablation_blocks` has the variants of a step. A script that fails in one of the later variants loses none of
what is known by then."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from laptime.tuning.trial import facts, messages
from laptime.tuning.trial.batches import CachedBatch, size, tensors
from laptime.tuning.trial.diagnosis import ablation_blocks, loader_probe
from laptime.tuning.trial.diagnosis.ablation_blocks import CACHED, CUTS, NO_OPTIMIZER, RISKY, LoopTraits
from laptime.tuning.trial.diagnosis.observations import Observations, loop_profile
from laptime.tuning.trial.hooks.loop_hooks import TrialMode
from laptime.tuning.trial.messages import TrialPlan
from laptime.tuning.trial.source_sites import library

MOST_COMPILING = 20  # steps to settle at most while torch.compile goes on
SLOW_SETTLED = 2  # steps to settle if a step takes seconds
SHAPES = 16  # batches whose shapes are compared and whose padding is counted


class AblationRunner(TrialMode):
    """Lets the first steps settle, then runs planned blocks of variants."""

    def __init__(self, plan: TrialPlan, hooks: Any) -> None:
        self._plan, self._hooks = plan, hooks
        self._clock = ablation_blocks.PartClock(self._wait)
        self._observed = Observations(hooks, [])
        self._is_finished = False
        self._start_over()

    def _start_over(self) -> None:
        """The loop begins, or a better source of steps was found: what the other has timed does not count."""
        before = self._observed
        self._observed = Observations(self._hooks, before.notes)
        self._observed.loader, self._observed.peak = before.loader, before.peak
        self._source = self._hooks.steps.source
        self._variant, self._state = "whole", "settling"  # then running, done
        self._block = self._observed.settled
        self._queue: list[ablation_blocks.TimedBlock] = []
        self._batches: dict[str, dict[int, CachedBatch]] = {}
        self._step_returns: dict[int, Any] = {}
        self._in_optimizer_step = False
        self._step_began: float | None = None
        self._stretch_began = self._planned_at = 0.0
        self._left = self._skip = self._stretch_steps = self._compiled = 0
        self._samples = self._faults = 0
        self._asked = self._fetched = self._most_asked = 0

    # What the loop does.

    def fetch(self, loader: Any, take: Callable[[], Any]) -> Any:
        """A batch: the loader's own, or the cached one."""
        before = self._clock.begins("data")
        self._note_site("fetch", loader, self._hooks.loaders)
        self._observed.syncs.muted = True
        try:
            batch = self._batch(loader, take)
        finally:
            self._observed.syncs.muted = False
            self._clock.begins("transfer" if before != "data" else before)
        self._samples += size(batch)
        return batch

    def _batch(self, loader: Any, take: Callable[[], Any]) -> Any:
        if self._variant in CACHED and any(loader is each for each in self._hooks.loaders):
            cached = self._batches.get(self._variant, self._observed.cached)
            self._asked += 1
            # A walk through the loader that is no training would never end.
            if id(loader) in cached and self._asked <= self._most_asked:
                return cached[id(loader)].give()
        batch = take()
        self._fetched += 1
        if self._state != "running":
            self._keep(loader, batch)
        return batch

    def _keep(self, loader: Any, batch: Any) -> None:
        """Cache the batch; the last one stays, but for a ragged end of an epoch."""
        if loader is None:
            return
        observed = self._observed
        cached = observed.cached.get(id(loader))
        if cached is None or size(batch) >= size(cached.batch):
            observed.cached[id(loader)] = CachedBatch(batch)
            observed.loaders[id(loader)] = loader
        if len(observed.integers) < SHAPES:
            parts = [tensor for _, tensor in tensors(batch)]
            observed.integers.append([tensor for tensor in parts if not tensor.is_floating_point()])
            observed.shapes.add((id(loader), *(tuple(tensor.shape[1:]) for tensor in parts)))

    def forward(self, module: Any, inputs: Any) -> None:
        self._clock.begins("forward")
        observed = self._observed
        if self._in_optimizer_step:
            observed.closure = True
        if self._state == "settling":
            import torch

            models = self._hooks.models
            # A loss is a module, too.
            if torch.is_grad_enabled() and any(module is model for model in models):
                self._note_site("forward", module, models)
                observed.libraries.add(library())
            observed.autocast = observed.autocast or facts.is_autocast()

    def backward(self, root: Any, run: Callable[[], Any]) -> Any:
        """A backward pass; nothing in variant forward."""
        self._clock.begins("backward")
        self._observed.backwards += self._state == "settling"
        scaled = self._hooks.scaled
        if scaled is not None and scaled[0] is not scaled[1]:
            self._observed.facts.add("grad_scaler")
        self._note_site("backward", root)
        if self._variant == "forward":
            self._clock.begins("other")
            return None
        try:
            return run()
        finally:
            self._clock.begins("optimizer" if self._in_optimizer_step else "other")

    def step(self, optimizer: Any, run: Callable[[], Any]) -> Any:
        """An optimizer's step; in variants without one, what the last step returned."""
        self._clock.begins("optimizer")
        self._note_site("step", optimizer, self._hooks.optimizers)
        if self._variant in NO_OPTIMIZER:
            self._clock.begins("other")
            return self._step_returns.get(id(optimizer))
        self._in_optimizer_step = self._observed.syncs.optimizes = True
        try:
            returned = run()
        finally:
            self._in_optimizer_step = self._observed.syncs.optimizes = False
            self._clock.begins("other")
        detach = getattr(returned, "detach", None)
        self._step_returns[id(optimizer)] = detach() if detach is not None else returned
        return returned

    def zero_grad(self, owner: Any, set_to_none: bool = True) -> None:
        if not set_to_none:
            self._observed.facts.add("zero_grad_to_zero")
        if self._state == "settling":
            self._observed.sites.note("zero_grad", owner, detail="" if set_to_none else "set_to_none=False")

    def clip(self, norm: Any) -> None:
        self._observed.facts.add("clipping")

    def _note_site(self, kind: str, owner: Any, owners: Any = ()) -> None:
        if self._state == "settling":
            index = next((index for index, each in enumerate(owners) if each is owner), 0)
            self._observed.sites.note(kind, owner, index=index, detail=type(owner).__name__)

    # Steps.

    def boundary(self, *, ended: bool, begins: bool) -> None:
        now = perf_counter()
        if self._hooks.steps.source != self._source:
            self._observed.syncs.leave()
            self._start_over()
        if self._step_began is not None and ended:
            self._step_ended(now - self._step_began, pauses=not begins)
        elif self._stretch_steps:
            # This step does not count; nor do those since the device was waited for last.
            self._block.drop_last(self._stretch_steps)
            self._left += self._stretch_steps
            self._stretch_steps = 0
        self._step_began = None
        if not begins:
            self._observed.syncs.leave()
            return
        is_stopped = self._state == "running" and Path(self._plan.folder, "stop").exists()
        if self._state == "done" or is_stopped:
            self._stop_watching()
            self._probe_loader()
            self._hooks.stop()
        self._step_begins()

    def _step_begins(self) -> None:
        observed = self._observed
        if self._state == "settling" and not observed.settled_steps:
            observed.sites.restart()
            observed.backwards = 0
            observed.accelerator = self._device_kind() != "cpu"
        if self._variant == "lint":
            observed.syncs.accelerator = observed.accelerator
            observed.syncs.enter()
        if self._variant == "traced":
            observed.device_time.enter(self._device_kind())
        if observed.accelerator and self._stretch_steps == 0:
            self._wait()
            self._stretch_began = perf_counter()
        self._samples, self._faults = 0, facts.page_faults()
        self._asked = self._fetched = 0
        self._clock.cut()
        self._step_began = perf_counter()

    def _step_ended(self, host_seconds: float, *, pauses: bool) -> None:
        """One step has ended; on an accelerator so far only for the host."""
        observed, block, is_last = self._observed, self._block, self._left <= 1
        if observed.accelerator and (is_last or pauses or self._skip == 1):
            self._wait()
        parts = self._clock.cut()
        self._stretch_steps += observed.accelerator
        if self._skip:
            self._skip -= 1
            self._stretch_began, self._stretch_steps = perf_counter(), 0
            return
        block.parts.append(parts)
        block.samples.append(self._samples)
        block.faults.append(facts.page_faults() - self._faults)
        if not observed.accelerator:
            block.seconds.append(host_seconds)
        else:
            if block.host is None and self._stretch_steps == 1:
                block.host = host_seconds
            if is_last or pauses:
                seconds = (perf_counter() - self._stretch_began) / max(self._stretch_steps, 1)
                self._block.seconds += [seconds] * self._stretch_steps
                self._stretch_began, self._stretch_steps = perf_counter(), 0
        if self._state == "settling":
            observed.settled_steps += 1
            self._most_asked = max(self._most_asked, self._fetched + 2)
            self._settle()
            return
        self._left -= 1
        observed.syncs.steps += self._variant == "lint"
        if self._left <= 0:
            observed.syncs.leave()
            self._next_block()

    def _settle(self) -> None:
        """Plan the blocks once enough steps have passed and nothing compiles any more."""
        observed = self._observed
        compiled, steps = facts.sum_compiled(), observed.settled_steps
        compiles, self._compiled = compiled != self._compiled, compiled
        self._left = 1
        is_slow = observed.settled.seconds[-1] > ablation_blocks.SLOW
        usual = min(self._plan.settle, SLOW_SETTLED) if is_slow else self._plan.settle
        if steps < max(1, usual) or (compiles and steps < MOST_COMPILING):
            return
        queued = sum(
            int(getattr(loader, "num_workers", 0)) * int(getattr(loader, "prefetch_factor", None) or 0)
            for loader in observed.loaders.values()
        )
        traits = LoopTraits(
            step=min(observed.settled.seconds),
            queued=queued,
            can_cache=bool(observed.cached),
            accelerator=observed.accelerator,
            closure=observed.closure,
            scaler="grad_scaler" in observed.facts,
            compiled=facts.sum_compiled() > 0,
            cuts=tuple(variant for variant in CUTS if observed.cached and self._cut(variant)),
        )
        self._queue = ablation_blocks.plan_blocks(traits, seconds=self._plan.seconds, order=self._plan.order)
        self._state, self._planned_at = "running", perf_counter()
        self._next_block()

    def _cut(self, variant: str) -> bool:
        """Cut or double the cached batches; False if they cannot be, or the memory would not last."""
        cached = self._observed.cached.items()
        batches = {key: each.half() if variant == "half_batch" else each.double() for key, each in cached}
        if None in batches.values():
            self._observed.notes.append(f"{variant}: the batch's tensors share no leading dimension")
            return False
        if variant == "double_batch" and not facts.has_room(self._device_kind(), self._plan.memory):
            self._observed.notes.append("double_batch: it might not fit into memory")
            return False
        self._batches[variant] = {key: each for key, each in batches.items() if each is not None}
        return True

    def _next_block(self) -> None:
        """Begin the next block; before the first risky one write what is known."""
        observed = self._observed
        observed.device_time.leave()
        spent = perf_counter() - self._planned_at > self._plan.seconds
        while self._queue and self._queue[0].variant in RISKY and spent:
            variant = self._queue.pop(0).variant
            observed.notes.append(f"{variant}: {self._plan.seconds:.0f} s were used up before")
        if not self._queue:
            self._state = "done"
            return
        block = self._block = self._queue.pop(0)
        self._variant, self._skip, self._left = block.variant, block.skip, block.steps
        if block.variant in RISKY and observed.peak is None:
            observed.peak = facts.peak(self._device_kind())
            self._probe_loader()
            self._write()  # what comes now may end the process
        self._stretch_steps = 0
        self._clock.waits = block.variant == "synchronised"
        observed.blocks.append(block)
        if block.variant == "on_device" and "on_device" not in self._batches and self._hooks.models:
            device = next(self._hooks.models[0].parameters()).device
            self._batches["on_device"] = {key: each.on(device) for key, each in observed.cached.items()}

    def _device_kind(self) -> str:
        return str(getattr(self._hooks.device, "name", "cpu"))

    def _wait(self) -> None:
        if self._observed.accelerator:
            self._hooks.device.wait()

    # The end.

    def _stop_watching(self) -> None:
        self._observed.syncs.leave()
        self._observed.device_time.leave()

    def _probe_loader(self) -> None:
        """Read from the training loader's dataset, while the script still has it open."""
        if self._observed.loader is None and self._observed.loaders:
            began = perf_counter()
            self._observed.loader, notes = loader_probe.probe(self._observed.training_loader())
            self._observed.notes += notes
            self._planned_at += perf_counter() - began  # steps have time of their own

    def finish(self) -> None:
        """Write what is known, if there was a step. Safe to call twice."""
        if self._is_finished:
            return
        self._is_finished = True
        self._stop_watching()
        if self._state == "running":  # the script ended before the plan did
            notes, result = self._observed.notes, self._hooks.result
            notes.append(f"the script ended in mode {self._variant}: what comes after it is unknown")
            if self._variant in RISKY and result.ended == "raised":  # that is no failure
                notes.append(f"{self._variant}: {result.error}")
                result.ended, result.status, result.error, result.traceback = "stopped", 0, "", ""
        if not self._observed.settled.seconds:
            return  # without a step nothing is known: a profile would be taken for a diagnosis
        with suppress(RuntimeError):  # the device may be what the script has failed with
            self._wait()
        self._probe_loader()
        self._write()

    def _write(self) -> None:
        messages.write(self._plan.folder, loop_profile(self._observed))
