"""Mode diagnose: the step as it is and with parts left out, without a trace.

    whole             as it is              cached            a kept batch, the loader is not asked
    on_device         kept on the device    no_optimizer      optimizers do not step
    forward_backward  cached, no optimizer  forward           and no backward pass
    half_batch, double_batch                the kept batch cut or doubled
    synchronised      each part waited for  lint, traced      see `sync_detector`, `watchers`

A script that fails in one of the later modes loses none of what is known by then.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from laptime.tuning.trial import result
from laptime.tuning.trial.batches import Kept, size, tensors
from laptime.tuning.trial.diagnosis import ablation_blocks, facts, loader_probe, observations
from laptime.tuning.trial.diagnosis.ablation_blocks import PartClock, PlannedBlock, TimedBlock
from laptime.tuning.trial.diagnosis.sync_detector import SyncDetector
from laptime.tuning.trial.diagnosis.watchers import DeviceTime, GradientWatch
from laptime.tuning.trial.hooks.loop_hooks import LoopHooks
from laptime.tuning.trial.plan import TrialPlan
from laptime.tuning.trial.source_sites import SiteCounts, library
from laptime.tuning.trial.trial_mode import TrialMode

NO_OPTIMIZER = frozenset({"no_optimizer", "forward_backward", "forward"})
CACHED = frozenset({"cached", "on_device", "forward_backward", "forward", "half_batch", "double_batch"})
CUTS = ("half_batch", "double_batch")
RISKY = frozenset({"forward", *CUTS})
COMPILING = 20
"""Steps at most that are waited for while torch.compile goes on."""
SHAPES = 16
"""Batches whose shapes are compared and whose padding is counted."""


class AblationRunner(TrialMode):
    """Runs the blocks that `ablation_blocks.plan_blocks` has planned.

    Attributes:
        taken: blocks that have ended. settling: seconds of the first steps.
        kept: a batch by loader. batches: integer tensors of some batches, for their padding.
        shapes: of batches, without the leading dimension. libraries: packages that run the loop.
        closure: an optimizer calls the model. autocast: it was on where a model was called.
        lint: what synchronises. asked: what the dataset tells. notes: what could not be found out.
    """

    def __init__(self, plan: TrialPlan, hooks: LoopHooks) -> None:
        self.plan = plan
        self.hooks = hooks
        self.watch = GradientWatch()
        self.meter = PartClock(self._wait)
        self.notes: list[str] = []
        self.asked: dict[str, Any] | None = None
        self.peak: int | None = None
        self._in_step = self._is_finished = False
        self._step_returns: dict[int, Any] = {}
        self._anew()

    def _anew(self) -> None:
        """The loop begins, or a better source of steps was found: what was seen by the other one is none."""
        self._source = getattr(self.hooks.steps, "source", "")
        self.taken: list[TimedBlock] = []
        self.settled = TimedBlock("whole", -1)
        self.kept: dict[int, Kept] = {}
        self.loaders: dict[int, Any] = {}
        self.batches: list[Any] = []
        self.shapes: set[tuple[Any, ...]] = set()
        self.libraries: set[str] = set()
        self.closure = self.autocast = self.accelerator = False
        self.backwards = self.counted = self.all_steps = 0
        self.places = self.watch.places = SiteCounts()
        self.lint, self.busy = SyncDetector(), DeviceTime()
        self._mode, self._state = "whole", "settle"
        self._queue: list[PlannedBlock] = []
        self._planned: PlannedBlock | None = None
        self._block = self.settled
        self._gives: dict[str, dict[int, Kept]] = {}
        self._began: float | None = None
        self._run_began = self._planned_at = self._collected = self.gc_seconds = 0.0
        self._left = self._skip = self._run_steps = self._compiled = 0
        self._samples = self._faults = self._given = self._fetched = self._most_given = 0

    # What the loop does.

    def fetch(self, loader: Any, take: Callable[[], Any]) -> Any:
        """A batch: the loader's own, or the kept one."""
        self.watch.install()
        before = self.meter.begins("data")
        self._note("fetch", loader)
        self.lint.muted = True
        try:
            batch = self._batch(loader, take)
        finally:
            self.lint.muted = False
            self.meter.begins("transfer" if before != "data" else before)
        self._samples += size(batch)
        return batch

    def _batch(self, loader: Any, take: Callable[[], Any]) -> Any:
        if self._mode in CACHED and any(loader is each for each in self.hooks.loaders):
            gives = self._gives.get(self._mode, self.kept)
            self._given += 1
            # A walk through the loader that is no training would never end.
            if id(loader) in gives and self._given <= self._most_given:
                return gives[id(loader)].give()
        batch = take()
        self._fetched += 1
        if self._state != "run":
            self._keep(loader, batch)
        return batch

    def _keep(self, loader: Any, batch: Any) -> None:
        """Remember the batch; the last one stays, but for a ragged end of an epoch."""
        known = self.kept.get(id(loader))
        if loader is None:
            return
        if known is None or size(batch) >= size(known.batch):
            self.kept[id(loader)] = Kept(batch)
            self.loaders[id(loader)] = loader
        if len(self.batches) < SHAPES:
            found = [each for _, each in tensors(batch)]
            self.batches.append([each for each in found if not each.is_floating_point()])
            self.shapes.add((id(loader), *(tuple(each.shape[1:]) for each in found)))

    def forward(self, module: Any) -> None:
        """A model is about to be called."""
        self.watch.install()
        self.meter.begins("forward")
        if self._in_step:
            self.closure = True
        if self._state == "settle":
            import torch

            index = next((i for i, each in enumerate(self.hooks.models) if each is module), None)
            if index is not None and torch.is_grad_enabled():  # a loss is a module, too
                self.places.note("forward", module, index=index, detail=type(module).__name__)
                self.libraries.add(library())
            self.autocast = self.autocast or facts.is_autocast()

    def backward(self, root: Any, run: Callable[[], Any]) -> Any:
        """A backward pass; nothing in mode forward."""
        self.meter.begins("backward")
        self.backwards += self._state == "settle"
        self._note("backward", root)
        if self._mode == "forward":
            self.meter.begins("other")
            return None
        try:
            return run()
        finally:
            self.meter.begins("optimizer" if self._in_step else "other")

    def step(self, optimizer: Any, run: Callable[[], Any]) -> Any:
        """An optimizer's step; without one what it gave last."""
        self.meter.begins("optimizer")
        self._note("step", optimizer)
        if self._mode in NO_OPTIMIZER:
            self.meter.begins("other")
            return self._step_returns.get(id(optimizer))
        self._in_step = self.lint.optimizes = True
        try:
            given = run()
        finally:
            self._in_step = self.lint.optimizes = False
            self.meter.begins("other")
        self._step_returns[id(optimizer)] = (
            None if given is None else getattr(given, "detach", lambda: given)()
        )
        return given

    @property
    def is_compiled(self) -> bool:
        """Whether torch.compile has compiled something."""
        return facts.compiled() > 0

    def _note(self, kind: str, owner: Any) -> None:
        if self._state == "settle":
            known = {"fetch": self.hooks.loaders, "step": self.hooks.optimizers}.get(kind, [])
            index = next((i for i, each in enumerate(known) if each is owner), 0)
            self.places.note(kind, owner, index=index, detail=type(owner).__name__)

    # Steps.

    def boundary(self, *, ended: bool, begins: bool) -> None:
        """A step lies behind, another one may follow."""
        now = perf_counter()
        self.watch.install()
        if getattr(self.hooks.steps, "source", "") != self._source:
            self.lint.leave()
            self._anew()
        if self._began is not None and ended:
            self._ended(now, pauses=not begins)
        elif self._run_steps:
            self._dropped()
        self._began = None
        if not begins:
            self.lint.leave()
            return
        if self._state == "done" or self._is_told():
            self._finish_steps()
            self._ask_loaders()
            self.hooks.stop()
        self._begins()

    def _dropped(self) -> None:
        """A step was none, and the device was not waited for before it: those since then count no more."""
        block, count = self._block, self._run_steps
        block.parts, block.samples = block.parts[:-count], block.samples[:-count]
        block.faults = block.faults[:-count]
        self._left += count
        self._run_steps = 0

    def _ended(self, now: float, *, pauses: bool) -> None:
        """One step has ended."""
        assert self._began is not None
        host, is_last = now - self._began, self._left <= 1
        if self.accelerator and (is_last or pauses or self._skip == 1):
            self._wait()
        parts = self.meter.cut()
        self._run_steps += self.accelerator
        self.all_steps += 1
        self.gc_seconds += self.watch.gc_seconds - self._collected
        if self._skip:
            self._skip -= 1
            self._run_began, self._run_steps = perf_counter(), 0
            return
        block = self._block
        block.parts.append(parts)
        block.samples.append(self._samples)
        block.faults.append(facts.page_faults() - self._faults)
        if not self.accelerator:
            block.seconds.append(host)
        else:
            block.host = host if block.host is None and self._run_steps == 1 else block.host
            if is_last or pauses:
                self._spread()
        if self._state == "settle":
            self.counted += 1
            self._most_given = max(self._most_given, self._fetched + 2)
            self._settle()
            return
        self._left -= 1
        self.lint.steps += self._mode == "lint"
        if self._left <= 0:
            self.lint.leave()
            self._next()

    def _spread(self) -> None:
        """The device was waited for: what it took since it was last, evenly on the steps between."""
        seconds = (perf_counter() - self._run_began) / max(self._run_steps, 1)
        self._block.seconds += [seconds] * self._run_steps
        self._run_began, self._run_steps = perf_counter(), 0

    def _begins(self) -> None:
        if self._state == "settle" and not self.counted:
            self.places.restart()
            self.watch.zero_grad_seconds = 0.0
            self.backwards = 0
            self.accelerator = self._kind() != "cpu"
        if self._mode == "lint":
            self.lint.accelerator = self.accelerator
            self.lint.enter()
        if self._mode == "traced":
            self.busy.enter(self._kind())
        if self.accelerator and self._run_steps == 0:
            self._wait()
            self._run_began = perf_counter()
        self._samples, self._faults = 0, facts.page_faults()
        self._given = self._fetched = 0
        self._collected = self.watch.gc_seconds
        self.meter.cut()
        self._began = perf_counter()

    def _settle(self) -> None:
        """Whether the first steps are over: as many as were asked for, and nothing compiles any more."""
        compiled = facts.compiled()
        enough = self.counted >= max(1, self.plan.settle)
        self._left = 1
        goes_on, self._compiled = compiled != self._compiled, compiled
        if not enough or (goes_on and self.counted < COMPILING):
            return
        self.watch.notes = False
        self._queue = ablation_blocks.plan_blocks(
            self._known(), seconds=self.plan.seconds, order=self.plan.order
        )
        self._state, self._planned_at = "run", perf_counter()
        self._next()

    def _known(self) -> ablation_blocks.LoopTraits:
        queued = sum(
            int(getattr(each, "num_workers", 0)) * int(getattr(each, "prefetch_factor", None) or 0)
            for each in self.loaders.values()
        )
        return ablation_blocks.LoopTraits(
            step=min(self.settled.seconds),
            queued=queued,
            can_cache=bool(self.kept),
            accelerator=self.accelerator,
            closure=self.closure,
            scaler="grad_scaler" in self.watch.seen,
            compiled=self.is_compiled,
            cuts=self._cuts(),
        )

    def _cuts(self) -> tuple[str, ...]:
        """Whether kept batches can be cut and doubled, and the memory would last."""
        found: list[str] = []
        for mode in CUTS if self.kept else ():
            made = {
                key: each.half() if mode == "half_batch" else each.double() for key, each in self.kept.items()
            }
            if None in made.values():
                self.notes.append(f"{mode}: the batch's tensors share no leading dimension")
            elif mode == "double_batch" and not observations.has_room(self._kind(), self.plan.memory):
                self.notes.append("double_batch: it might not fit into memory")
            else:
                self._gives[mode] = {key: each for key, each in made.items() if each is not None}
                found.append(mode)
        return tuple(found)

    def _next(self) -> None:
        """The next block; after the safe ones the dataset is asked."""
        self.busy.leave()
        if not self._queue:
            self._state = "done"
            return
        planned = self._queue.pop(0)
        if planned.mode in RISKY and perf_counter() - self._planned_at > self.plan.seconds:
            self.notes.append(f"{planned.mode}: {self.plan.seconds:.0f} s were used up before")
            self._next()
            return
        self._planned, self._mode = planned, planned.mode
        self._skip, self._left = planned.skip, planned.steps
        if planned.mode in RISKY and self.peak is None:
            self.peak = facts.peak(self._kind())
            self._ask_loaders()
            self._write()  # what comes now may end the process
        self._run_steps = 0
        self.meter.waits = planned.mode == "synchronised"
        self._block = TimedBlock(planned.mode, planned.round)
        self.taken.append(self._block)
        if planned.mode == "on_device" and "on_device" not in self._gives and self.hooks.models:
            device = next(self.hooks.models[0].parameters()).device
            self._gives["on_device"] = {key: each.on(device) for key, each in self.kept.items()}

    def _kind(self) -> str:
        return str(getattr(self.hooks.device, "name", "cpu"))

    def _is_told(self) -> bool:
        return self._state == "run" and Path(self.plan.folder, "stop").exists()

    def _wait(self) -> None:
        if self.accelerator:
            self.hooks.device.wait()

    # The end.

    def _finish_steps(self) -> None:
        self.lint.leave()
        self.busy.leave()
        self.watch.undo()

    def _ask_loaders(self) -> None:
        """What the training loader's dataset tells, while the script still has it open."""
        if self.asked is None and self.loaders:
            began = perf_counter()
            self.asked, notes = loader_probe.probe(observations.training_loader(self))
            self.notes += notes
            self._planned_at += perf_counter() - began  # steps have time of their own

    def finish(self) -> None:
        """Write what is known, if there was a step. Safe to call twice."""
        if self._is_finished:
            return
        self._is_finished = True
        self._finish_steps()
        if self._state == "run" and self._planned is not None:
            self._failed(self._planned.mode)
        if not self.settled.seconds:
            return  # no step, nothing to tell: a document would be taken for a diagnosis
        with suppress(RuntimeError):  # the device may be what the script has failed with
            self._wait()
        self._ask_loaders()
        self._write()

    def _failed(self, mode: str) -> None:
        """The script ended before the plan did. Where we have led it into that, it is no failure."""
        self.notes.append(f"the script ended in mode {mode}: what comes after it is unknown")
        trial: Any = getattr(self.hooks, "result", None)
        if mode in RISKY and trial is not None and trial.ended == "raised":
            self.notes.append(f"{mode}: {trial.error}")
            trial.ended, trial.status, trial.error, trial.traceback = "stopped", 0, "", ""

    def _write(self) -> None:
        result.write(self.plan.folder, "situation.json", observations.loop_profile(self))
