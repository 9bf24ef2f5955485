"""What happens inside a worker: commands in, messages out. Runs in any process, with any backend.

The engine keeps one model and one workload per batch size, and answers every command with messages that
end in `Done` or `Failed`. What fails is reported and the engine lives on: earlier samples are with the
parent already.
"""

from __future__ import annotations

import os
import platform
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec

from laptime.kit.clock import Clock, SystemClock
from laptime.kit.errors import LaptimeError, OutOfMemory, TargetError, Unavailable, UsageError, UserCodeError
from laptime.measure import loop, passes
from laptime.measure.metrics import CPU_TIME, LATENCY, LATENESS
from laptime.measure.protocol import (
    Block,
    Close,
    Closes,
    Command,
    Compiles,
    Done,
    Explains,
    Exports,
    Failed,
    Load,
    Loaded,
    Message,
    Model,
    Pass,
    Prepare,
    Prepared,
    Samples,
    Scoped,
    TimesCompilation,
    TimesDevice,
    Workload,
)
from laptime.probes import clocks, garbage, host_memory, others, scheduler
from laptime.probes.host_memory import limit_private_memory
from laptime.probes.scheduler import Evidence
from laptime.records.case import Failure
from laptime.records.metric import Metric
from laptime.records.plan import Variant
from laptime.records.regime import Regime
from laptime.records.series import Label, Series

OpenModel = Callable[[Variant], Model]

_EVIDENCE = {metric.tag: metric for metric in (*scheduler.METRICS, *garbage.METRICS)}


class Engine:
    """Measures one variant.

    Args:
        open_model: loads the variant; imports the framework.
        import_framework: imports it beforehand, so that its seconds are told apart from loading.
        clock: the machine's clocks, or a scripted machine's.
    """

    def __init__(
        self,
        open_model: OpenModel,
        *,
        import_framework: Callable[[Variant], object] = lambda variant: None,
        clock: type[SystemClock] | Clock = SystemClock,
    ) -> None:
        self._open = open_model
        self._import = import_framework
        self._clock = clock
        self._model: Model | None = None
        self._scope: AbstractContextManager[Any] = nullcontext()
        self._workloads: dict[int, Workload] = {}
        self._evidence: Evidence | None = None
        self._read_clock: clocks.Read | None = None
        self._collections = garbage.Collections(None if clock is SystemClock else clock)

    def answer(self, command: Command) -> Iterator[Message]:
        """Carry out one command; the last message is Done or Failed."""
        try:
            match command:
                case Load():
                    yield self._load(command)
                case Prepare(batch):
                    yield self._prepare(batch)
                case Block():
                    yield self._block(command)
                case Pass():
                    workload = self._workload(command.batch)
                    yield passes.run(command, self._loaded, workload)
                case Close():
                    self.close()
            yield Done()
        except Exception as error:  # whatever user code raises is an answer, not our end
            yield Failed(self._failure(error, getattr(command, "batch", 0)))

    def close(self) -> None:
        """Leave the backend's scope and let it undo what it changed."""
        self._scope.__exit__(None, None, None)
        self._scope = nullcontext()
        model: object = self._model
        if isinstance(model, Closes):
            model.close()
        if self._evidence is not None:
            self._evidence.close()
        self._model, self._evidence = None, None
        self._workloads.clear()

    @property
    def _loaded(self) -> Model:
        if self._model is None:
            raise LaptimeError("a command came before the model was loaded")
        return self._model

    def _workload(self, batch: int) -> Workload:
        if batch not in self._workloads:
            raise LaptimeError(f"batch {batch} was not prepared")
        return self._workloads[batch]

    def _load(self, command: Load) -> Loaded:
        now = self._clock.now
        started = now()
        self._import(command.variant)
        imported = now()
        limit = command.memory_limit
        if limit is not None and command.variant.device == "cpu":
            limit_private_memory(limit)
        model = self._open(command.variant)
        loaded = now()
        devices = model.devices()
        # With device "auto" it is known only now; CUDA processes map far more than they use: no limit there.
        if limit is not None and all(device.name == "cpu" for device in devices):
            limit_private_memory(limit)
        self._model = model
        if isinstance(model, Scoped):
            self._scope = model.scope()
        self._scope.__enter__()
        exported = model.exported() if isinstance(model, Exports) else None
        return Loaded(
            imported=imported - started,
            loaded=loaded - imported - (exported or 0.0),
            exported=exported,
            pid=os.getpid(),
            python=platform.python_version(),
            facts=model.facts(),
            devices=devices,
            libraries=model.libraries(),
            knobs=model.knobs(),
        )

    def _prepare(self, batch: int) -> Prepared:
        workload = self._loaded.workload(batch)
        workload.sync()
        started = self._clock.now()
        workload.call()
        workload.sync()
        seconds = self._clock.now() - started
        self._workloads[batch] = workload
        if self._evidence is None:
            self._evidence = Evidence()
            self._read_clock = clocks.reader(self._loaded.devices()[0].name)
        model: object = self._model
        compiled = model.compile_seconds(batch) if isinstance(model, TimesCompilation) else None
        return Prepared(batch=batch, first_call=seconds, compiles=self._compiles(), compile=compiled)

    def _compiles(self) -> int:
        return self._model.compiles() if isinstance(self._model, Compiles) else 0

    def _block(self, command: Block) -> Samples:
        workload = self._workload(command.batch)
        if command.regime == Regime.DEVICE:
            return self._device_block(command, workload)
        assert self._evidence is not None
        self._evidence.refresh_threads()
        compiled = self._compiles()
        self._collections.clear()
        watched = _Others(self._clock)
        with self._collections:
            tape = self._record(command, workload, self._evidence)
        share = watched.share()
        label = [0] * len(tape.seconds)
        for index, spent in enumerate(self._collections.inside(tape.start, tape.seconds)):
            if spent > 0:
                label[index] |= Label.GC
        if self._compiles() != compiled:
            label = [bits | Label.RECOMPILED for bits in label]
        if command.regime == Regime.PACED:
            label = [b | (Label.LATE if late > 1e-3 else 0) for b, late in zip(label, tape.late, strict=True)]
        series = _as_series(tape, command.regime, label)
        if share is not None:
            series.append(_constant(others.OTHERS, round(share, 4), series[0]))
        more = [*self._clock_column(series[0]), *self._memory_now()]
        return Samples(batch=command.batch, series=[*series, *more])

    def _memory_now(self) -> list[Series]:
        """The process's memory at the end of a block, while nothing is timed."""
        now = host_memory.resident()
        if now is None:
            return []
        at = [round(self._clock.now(), 6)]
        return [Series(metric=host_memory.OVER_TIME, samples=[float(now)], at=at, probe="host_memory")]

    def _clock_column(self, latency: Series) -> list[Series]:
        """The device's clock now, at the end of a block, beside each of its samples."""
        hertz = self._read_clock() if self._read_clock else None
        if hertz is None:
            return []
        return [_constant(clocks.CLOCK, hertz, latency)]

    def _record(self, command: Block, workload: Workload, evidence: Evidence) -> loop.Tape:
        if command.regime == Regime.PACED:
            if not command.rate:
                raise LaptimeError("the paced regime needs a rate")
            return loop.paced(
                workload,
                rate=command.rate,
                seconds=command.seconds,
                min_calls=command.min_calls,
                max_calls=command.max_calls,
                evidence=evidence,
                clock=self._clock,
            )
        if command.regime == Regime.SATURATED:
            return loop.saturated(
                workload,
                seconds=command.seconds,
                min_calls=command.min_calls,
                max_calls=command.max_calls,
                evidence=evidence,
                clock=self._clock,
                estimate=command.estimate,
            )
        return loop.isolated(
            workload,
            seconds=command.seconds,
            min_calls=command.min_calls,
            max_calls=command.max_calls,
            evidence=evidence,
            clock=self._clock,
        )

    def _device_block(self, command: Block, workload: Workload) -> Samples:
        model: object = self._model
        if not isinstance(model, TimesDevice):
            raise Unavailable(
                "this device keeps no times of its own",
                why="the device regime reads event timers on an accelerator's stream",
                next="--regime isolated",
            )
        started = self._clock.now()
        workload.call()
        workload.sync()
        one = max(self._clock.now() - started, 1e-7)
        calls = max(command.min_calls, min(command.max_calls, int(command.seconds / one)))
        # The queue of a stream is finite: events are recorded in portions it can hold.
        seconds: list[float] = []
        at: list[float] = []
        while len(seconds) < calls:
            portion = min(256, calls - len(seconds))
            began = self._clock.now()
            times = model.device_times(command.batch, portion)
            at += [began + sum(times[:i]) for i in range(len(times))]
            seconds += times
        series = Series(metric=LATENCY, regime=Regime.DEVICE, samples=seconds, at=at, clock="device events")
        return Samples(batch=command.batch, series=[series, *self._clock_column(series)])

    def _failure(self, error: Exception, batch: int) -> Failure:
        model: object = self._model
        if not isinstance(error, LaptimeError) and isinstance(model, Explains):
            told = model.explain(error, batch)
            if told is not error:
                told.__cause__ = error
                return failure_of(told)
        return failure_of(error)


class _Others:
    """How many CPUs everything but this process uses, from when this is made until `share` is asked for."""

    def __init__(self, clock: type[SystemClock] | Clock) -> None:
        self._clock = clock
        self._busy = others.busy() if clock is SystemClock else None  # a scripted machine has none
        self._cpu, self._now = clock.cpu(), clock.now()

    def share(self) -> float | None:
        """Mean number of CPUs, None where it is not told. Ticks of 10 ms can make it a little negative."""
        busy = others.busy() if self._busy is not None else None
        span = self._clock.now() - self._now
        if busy is None or self._busy is None or span <= 0:
            return None
        return (busy - self._busy - (self._clock.cpu() - self._cpu)) / span


def _constant(metric: Metric, value: float, latency: Series) -> Series:
    """What is known of a block as a whole, beside each of its samples."""
    return Series(metric=metric, regime=latency.regime, samples=[value] * len(latency.samples))


def failure_of(error: BaseException) -> Failure:
    """The record of an error; errors of user code keep their traceback."""
    root = error.__cause__ or error
    trace = "".join(traceback.format_exception(root))
    if isinstance(error, LaptimeError):
        return Failure(kind=_kind(error), what=error.what, why=error.why, next=error.next, traceback=trace)
    if isinstance(error, MemoryError):
        return Failure(kind="out_of_memory", what="the machine has no memory left for this", traceback=trace)
    return Failure(
        kind="user_code", what=f"the model raised {type(error).__name__}", why=str(error), traceback=trace
    )


_KINDS: tuple[tuple[type[LaptimeError], str], ...] = (
    (OutOfMemory, "out_of_memory"),
    (UserCodeError, "user_code"),
    (TargetError, "target"),
    (Unavailable, "unavailable"),
    (UsageError, "usage"),
)


def _kind(error: LaptimeError) -> str:
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), "bug")


def _as_series(tape: loop.Tape, regime: str, label: list[int]) -> list[Series]:
    """The latency series, and one series for each kind of evidence beside it, all of one length."""

    def column(metric: Metric, values: list[float]) -> Series:
        return Series(metric=metric, regime=regime, samples=[round(v, 9) for v in values])

    blocks = any(calls > 1 for calls in tape.calls)
    found = [
        Series(
            metric=LATENCY,
            regime=regime,
            samples=[round(v, 10) for v in tape.seconds],
            at=[round(v, 6) for v in tape.start],
            label=[int(bits) for bits in label] if any(label) else [],
            calls=tape.calls if blocks else [],
            probe="wall",
            clock="perf_counter",
        ),
        column(CPU_TIME, tape.cpu),
    ]
    for name, values in (("waited", tape.waited), ("stolen", tape.stolen), ("throttled", tape.throttled)):
        if values:
            found.append(column(_EVIDENCE[f"disturbance/{name}"], values))
    if regime == Regime.PACED:
        found.append(column(LATENESS, tape.late))
    return found


def decode_command(line: bytes) -> Command:
    """One line of JSON as a command."""
    return _COMMANDS.decode(line)


_COMMANDS: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command)
