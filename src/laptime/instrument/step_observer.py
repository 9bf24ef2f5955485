"""The stages of a loop's steps, one after another, until enough is known.

settle      the first steps: allocators, autotuning, compilation
time        untraced steps, each with its phases
trace       warm-up and recorded steps under torch.profiler
primitives  one more step with oneDNN's verbose lines, if there is no accelerator
done        the script is stopped, or goes on without us"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter_ns, process_time_ns
from typing import Any

from laptime.instrument import device as facts
from laptime.instrument import messages
from laptime.instrument.batches import size
from laptime.instrument.device import Device
from laptime.instrument.messages import Observed, Sample, Settings, is_joined, rank, world
from laptime.instrument.recorder import Capture, Recorder
from laptime.instrument.steps import NAMES, Cut, StepFinder

FEWEST = 5  # untraced steps, however long they take
USUAL = 20  # untraced steps that are enough after BRIEF seconds
BRIEF = 0.5
TOGETHER = 20  # untraced steps of each of several ranks: they must agree without a word, so no clock decides
ATTEMPTS = 3  # windows that epochs may cut off in their warm-up before a single step is traced without one
LOOK = 20_000_000  # nanoseconds between two looks whether enough steps were timed
_ENDS_AND_BEGINS = Cut.ENDS | Cut.BEGINS
_Moment = tuple[int, int, Any]
"""The host's clock, CPU time of the process, and an event in the device's queue if that has a clock."""
_Step = tuple[_Moment, _Moment, list[int]]
"""Begin, end, and phases between them. A tuple, and made into more when the steps are over: this is hot."""


class StepObserver(StepFinder):
    """Listens to the loop and decides; all methods are called by hooks, on the thread of the loop. observed:
    what is known by now. is_done: nothing is left to observe. on_done: called when all is observed."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.step_by)
        self.settings = settings
        self.share = world() if settings.shares_batch else 1
        self.observed = Observed(rank=rank(), world=world(), pid=os.getpid())
        self.is_done = False
        self.on_done: Callable[[], None] = lambda: None
        self._device: Any = Device()
        self._make_recorder: Callable[..., Any] = Recorder
        self._annotates = True
        self._source = ""
        self._begin_anew()

    def _begin_anew(self) -> None:
        """A better source of steps was found: what was measured by the other one is none."""
        self._source = self.steps.source
        self.phases.annotate = False
        self.observed = Observed(rank=rank(), world=world(), pid=os.getpid(), source=self._source)
        self._state = "settle"
        self._timed: list[_Step] = []
        self._traced: list[_Step] = []
        self._recorder: Recorder | None = None
        self._capture: Capture | None = None
        self._begun: _Moment | None = None
        self._has_clock = False
        self._world = world()
        self._timed_since = self._look_at = perf_counter_ns()
        self._run = self._longest_run = self._attempts = 0
        self._has_paused = False
        self._dropped = self._taken = 0
        self._given: dict[int, int] = {}
        self._outside = [0, 0, 0, 0]
        self._pauses: dict[int, tuple[int, list[int]]] = {}
        self._workers_before = self.workers_ns

    def use(self, device: Any, recorder: Callable[..., Any]) -> None:
        """The device and recorder of another framework than torch, whose profiler hears of no phases."""
        self._device, self._make_recorder, self._annotates = device, recorder, False

    def take(self, batch: Any, loader: int, batches: float) -> None:
        if self.settings.exactly and self._state == "time" and self.steps.is_training(loader):
            self._taken += size(batch)
            self.observed.batches = int(batches) if batches < sys.maxsize else 0

    def give(self, inputs: Any, module: int) -> None:
        if self.settings.exactly and self._state == "time":
            self._given[module] = self._given.get(module, 0) + size(inputs)

    def _cut(self, cut: int) -> None:
        if self.is_done:
            if self.stopped:
                self.stop()
            return
        if self.steps.source != self._source:
            if self._recorder is not None:
                self._recorder.stop()
            self._begin_anew()
        if not cut:
            return
        moment = self._moment()
        if self._state == "time" and cut == _ENDS_AND_BEGINS and self._begun is not None:
            self._time_one(self._begun, moment)
            return
        if cut & (Cut.ENDS | Cut.DROPS):
            begin, self._begun = self._begun, None
            phases = self.phases.cut()
            step = None if begin is None else (begin, moment, phases)
            if step is not None and not cut & Cut.ENDS:
                self._is_outside(step[2])
            self._run += 1
            pauses = not cut & Cut.BEGINS
            self._end_step(step if cut & Cut.ENDS else None, pauses=pauses)
            if pauses:
                self._longest_run = max(self._longest_run, self._run)
                self._run, self._has_paused = 0, True
        else:
            self._is_outside(self.phases.cut())
        if cut & Cut.BEGINS and not self.is_done:
            self._begins()
            # While steps are timed one ends when the other begins; in a trace our own work lies between.
            self._begun = moment if self._state == "time" else self._moment()

    def _time_one(self, begin: _Moment, end: _Moment) -> None:
        """Time one step without a detour: every call costs time in the middle of somebody else's step."""
        self._timed.append((begin, end, self.phases.totals))
        self.phases.totals = [0, 0, 0, 0]
        self._run += 1
        self._begun = end
        # Several ranks count and do not look at the clock: they must come to the same number.
        if end[0] < self._look_at and self._world == 1 and len(self._timed) < self.settings.timed:
            return
        self._look_at = end[0] + LOOK
        self._begins()
        if self._state != "time":
            self._begun = self._moment()

    def _moment(self) -> _Moment:
        return perf_counter_ns(), process_time_ns(), self._device.mark() if self._has_clock else None

    def _is_outside(self, phases: list[int]) -> None:
        """These phases ran in no step: the next one is the first after a pause."""
        if self._state == "time" and self._timed:
            self._outside = [so_far + more for so_far, more in zip(self._outside, phases, strict=True)]
            self._pauses[len(self._timed)] = self.workers_ns, self._outside

    # What steps are used for.

    def _end_step(self, step: _Step | None, *, pauses: bool) -> None:
        """A step has ended; None for one that is none. The loop pauses when no other begins at once."""
        if self._state == "settle":
            self.observed.settled += 1
        elif self._state == "time":
            if step is not None:
                self._timed.append(step)
            else:
                self._dropped += 1
        elif self._state == "trace":
            self._end_in_trace(step, pauses=pauses)
        elif self._capture is not None:
            self._complete()

    def _begins(self) -> None:
        if self._state == "settle" and self.observed.settled >= self.settings.wait:
            # The first steps are over: what they have started is known.
            self._state, self._timed_since = "time", perf_counter_ns()
            self._world, self.observed.joined = world(), is_joined()
            self._has_clock = self._device.name != "cpu"
            self._workers_before = self.workers_ns
            self.on_settled()
            self.say(f"steps found by {self._source}; timing some, then tracing {self.settings.steps}")
        if self._state == "time" and self._is_timed() and self._is_room_in_epoch():
            self._keep_timed()
            if not self.settings.steps:
                self._complete()
                return
            # Warm-up and traced steps; fewer if epochs are shorter than what was asked for.
            warmup, steps = self.settings.warmup, self.settings.steps
            if self._attempts >= ATTEMPTS:
                warmup, steps = 0, 1
            elif self._has_paused and self._world == 1:
                warmup = min(warmup, self._longest_run - 1)
                steps = min(steps, self._longest_run - warmup)
            self._recorder = self._make_recorder(self.settings, warmup=warmup, steps=steps)
            self._recorder.start()
            self.phases.annotate = self._annotates
            self._state = "trace"
        elif self._state == "primitives":
            self._capture = Capture()
            if not self._capture.start():
                self._capture = None
                self._complete()

    def _is_timed(self) -> bool:
        timed, most = len(self._timed), self.settings.timed
        if self._attempts:
            return True
        if exactly := self.settings.exactly:
            return timed >= exactly
        if timed < min(FEWEST, most):
            return False
        if self._world > 1:
            return timed >= min(TOGETHER, most)
        seconds = (perf_counter_ns() - self._timed_since) / 1e9
        return timed >= most or seconds >= self.settings.seconds or (timed >= USUAL and seconds >= BRIEF)

    def _is_room_in_epoch(self) -> bool:
        """Whether the window can end before the epoch does, as far as earlier epochs tell.

        Several ranks must begin together, and one of them may evaluate alone: they do not ask."""
        if not self._has_paused or not self._run or self._world > 1 or not self.settings.steps:
            return True
        needed = self.settings.warmup + self.settings.steps
        return self._run + needed <= self._longest_run

    def _end_in_trace(self, step: _Step | None, *, pauses: bool) -> None:
        assert self._recorder is not None
        if self._recorder.is_active:
            if step is not None:
                self._traced.append(step)
            else:
                self._note("evaluation ran inside a traced step")
        if pauses and self._world == 1:
            if self._recorder.end() or self._recorder.files:
                if len(self._traced) < self.settings.steps:
                    traced = len(self._traced)
                    self._note(f"an epoch ended: {traced} of {self.settings.steps} steps were traced")
                self._end_recording()
            else:  # the epoch ended in the warm-up: once more, from the beginning of the next
                self._recorder, self._state = None, "time"
                self.phases.annotate = False
                self._attempts += 1
        elif self._recorder.step():
            self._end_recording()
        elif pauses:
            self._note("what ran between two epochs is in the traced step after it")

    def _end_recording(self) -> None:
        assert self._recorder is not None
        self._device.wait()
        self._keep_traced()
        is_wanted = self.settings.primitives and self._device.name == "cpu" and self._world == 1
        if is_wanted:
            self._state = "primitives"
        else:
            self._complete()

    def _keep_traced(self) -> None:
        assert self._recorder is not None
        self.phases.annotate = False
        self.observed.traced = self._by_device(self._traced)
        self.observed.traces = self._recorder.files
        self._recorder = None

    def _by_device(self, steps: list[_Step]) -> list[Sample]:
        """The samples, with the device's wall times in place of the host's if it has a clock."""
        self.observed.clock = self._device.clock
        samples = []
        for (begun, cpu_begun, mark), (ended, cpu_ended, end_mark), phases in steps:
            host = ended - begun
            wall = self._device.between(mark, end_mark) or host
            named = dict(zip(NAMES, phases, strict=True))
            if not self._annotates:  # all that is known: inside a compiled function, or outside
                named = {"compute": named["forward"]}
            samples.append(Sample(wall=wall, host=host, cpu=cpu_ended - cpu_begun, phases=named))
        return samples

    # The end.

    def _complete(self) -> None:
        self.observed.complete = True
        self.finish()
        self.on_done()
        if self.settings.stop:
            self.say(f"{len(self.observed.traced)} steps traced; stopping the script")
            self.stop()

    def finish(self) -> None:
        """Write down what is known: the script has ended, or need not go on for us. Safe to call twice."""
        if self.is_done:
            return
        self.is_done = True
        record = self.observed
        if world() > 1:  # not known when we began, no longer known once the script has left its group
            record.rank, record.world = rank(), world()
        # The device may be what the script has failed with.
        with suppress(RuntimeError):
            # Keep what a script leaves that ends before all is observed.
            if self._recorder is not None:
                if self._recorder.active:
                    self._note(
                        "the script ended while it was traced: the last step in the trace is cut short"
                    )
                self._recorder.stop()
                self._keep_traced()
            elif self._timed and not self.observed.untraced:
                self._keep_timed()
        if self._capture is not None:
            record.primitives = self._capture.stop()
        record.seen = dict(self.steps.seen)
        if "torch" in sys.modules:
            record.torch = True
            with suppress(RuntimeError):
                libraries, devices, knobs = facts.libraries(), facts.devices(), facts.knobs()
                record.libraries, record.devices, record.knobs = libraries, devices, knobs
                if self._device.name == "cpu":
                    groups = [group for optimizer in self.made_optimizers for group in optimizer.param_groups]
                    parameters = [parameter for group in groups for parameter in group["params"]]
                    record.denormal = facts.denormal_share(parameters, self.made_optimizers)
        elif "tensorflow" in sys.modules:
            record.tensorflow = True
            record.libraries = {"tensorflow": str(getattr(sys.modules["tensorflow"], "__version__", ""))}
        messages.write(self.settings.folder, "observed", record.rank, record)

    def _keep_timed(self) -> None:
        counted = self._taken or next(iter(self._given.values()), 0)
        self.observed.samples = counted / (len(self._timed) + self._dropped)
        self.observed.untraced = self._by_device(self._timed)
        inside = sum(end[0] - begin[0] for begin, end, _ in self._timed)
        self.observed.outside = self._timed[-1][1][0] - self._timed[0][0][0] - inside
        self.observed.firsts = [first for first in self._pauses if first < len(self._timed)]
        if self.observed.firsts:
            workers, phases = self._pauses[self.observed.firsts[-1]]
            self.observed.outside_phases = dict(zip(NAMES, phases, strict=True))
            self.observed.workers = min(self.observed.outside, workers - self._workers_before)

    def _note(self, text: str) -> None:
        if text not in self.observed.notes:
            self.observed.notes.append(text)

    def say(self, text: str) -> None:
        """A remark on stderr, of the first rank only."""
        if not self.settings.quiet and rank() == 0:
            os.write(2, f"laptime: {text}\n".encode())
