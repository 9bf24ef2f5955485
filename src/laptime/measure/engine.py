"""The engine inside a worker: commands in, messages out. Runs in any process, with any backend.

The engine keeps one model and one workload per batch size, and answers every command with messages that
end in `Done` or `Failed`. A failure is reported and the engine lives on; earlier samples have been sent."""

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import msgspec

from laptime.kit.clock import Clock, SystemClock
from laptime.kit.errors import LaptimeError, TargetError, Unavailable
from laptime.measure import first_call, loop, passes, protocol
from laptime.measure.failures import failure_of
from laptime.measure.metrics import CPU_TIME, LATENCY, LATENESS
from laptime.probes import TimedBlock, Watch, scheduler, watches
from laptime.probes.host_memory import limit_private_memory
from laptime.probes.ruler import RULER, Ruler, open_ruler
from laptime.probes.scheduler import Evidence
from laptime.records.case import Failure
from laptime.records.details import Details, Peak
from laptime.records.plan import Variant
from laptime.records.series import Label, Metric, Regime, Series

MAY_BE_SHORT = 1e-3  # seconds of a first call, which may be a thousand times as long as the next
LATE = 1e-3  # seconds behind its schedule from which a paced call is labelled late
OpenModel = Callable[[Variant], protocol.Model]


class Engine:
    """Measures one variant.

    open_model: loads the variant; imports the framework. import_framework: imports it beforehand, so that
    import and load times are separate. clock: the machine's clocks, or a scripted machine's. open_evidence:
    opens the counters of disturbance, likewise. open_ruler: makes the ruler of a device, likewise; a scripted
    machine has none of ours."""

    def __init__(
        self,
        open_model: OpenModel,
        *,
        import_framework: Callable[[Variant], object] = lambda variant: None,
        clock: Clock = SystemClock,
        open_evidence: Callable[[], Evidence] = Evidence,
        open_ruler: Callable[[str, Clock], Ruler | None] = open_ruler,
    ) -> None:
        self._open = open_model
        self._import = import_framework
        self._clock = clock
        self._open_evidence, self._open_ruler = open_evidence, open_ruler
        self._model: protocol.Model | None = None
        self._scope: AbstractContextManager[Any] = nullcontext()
        self._workloads: dict[int, protocol.Workload] = {}
        self._own_batch: int | None = 1
        self._evidence: Evidence | None = None
        self._ruler: Ruler | None = None
        self._watches: list[Watch] = []
        self._inside: dict[int, int] = {}

    def answer(self, command: protocol.Command) -> Iterator[protocol.Message]:
        try:
            match command:
                case protocol.Load():
                    yield self._load(command)
                case protocol.Prepare(batch, asked):
                    if asked and self._own_batch is None:
                        told = self._loaded.facts().get("inputs", {}).get("batch_is")
                        raise TargetError(
                            f"inputs of batch {batch} cannot be made",
                            why=str(told or "nothing says which dimension of the inputs is the batch"),
                            next="leave --batch out to measure the inputs as they are,"
                            " or give the function a `batch` argument",
                        )
                    yield self._prepare(batch)
                case protocol.Block():
                    yield self._block(command)
                case protocol.Pass(kind=passes.PEAK):
                    yield self._peak(command.batch)
                case protocol.Pass():
                    workload = self._workload(command.batch)
                    yield passes.run(command, self._loaded, workload)
                case protocol.Close():
                    self.close()
            yield protocol.Done()
        except Exception as error:  # whatever user code raises is an answer, not our end
            yield protocol.Failed(self._failure(error, getattr(command, "batch", 0)))

    def close(self) -> None:
        self._scope.__exit__(None, None, None)
        self._scope = nullcontext()
        model: object = self._model
        if isinstance(model, protocol.Closes):
            model.close()
        for opened in (self._evidence, self._ruler):
            if opened is not None:
                opened.close()
        self._model, self._evidence, self._ruler = None, None, None
        self._workloads.clear()

    @property
    def _loaded(self) -> protocol.Model:
        if self._model is None:
            raise LaptimeError("a command came before the model was loaded")
        return self._model

    def _workload(self, batch: int) -> protocol.Workload:
        if batch not in self._workloads:
            raise LaptimeError(f"batch {batch} was not prepared")
        return self._workloads[batch]

    def _load(self, command: protocol.Load) -> protocol.Loaded:
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
        if isinstance(model, protocol.Scoped):
            self._scope = model.scope()
        self._scope.__enter__()
        self._own_batch = model.own_batch() if isinstance(model, protocol.TellsInputs) else 1
        exported = model.exported() if isinstance(model, protocol.Exports) else None
        return protocol.Loaded(
            imported=imported - started,
            loaded=loaded - imported - (exported or 0.0),
            exported=exported,
            pid=os.getpid(),
            python=platform.python_version(),
            facts=model.facts(),
            devices=devices,
            libraries=model.libraries(),
            knobs=model.knobs(),
            batch=self._own_batch,
        )

    def _prepare(self, batch: int) -> protocol.Prepared:
        workload, model = self._loaded.workload(batch), self._model
        settles: object = model
        if isinstance(settles, protocol.Settles):
            settles.watch(batch)
        outcome, seconds = self._first_call(workload)
        kind = first_call.kind(outcome)
        if isinstance(settles, protocol.Settles):
            if settles.settle(batch, first_call.whole(outcome), first_call.whole if kind else None):
                outcome, seconds = self._first_call(workload)
        elif kind:
            late = workload.call
            workload.call = lambda: first_call.whole(late())  # type: ignore[method-assign]
            outcome, seconds = self._first_call(workload)
        if isinstance(outcome, Exception):
            raise outcome
        self._workloads[batch] = workload
        if self._evidence is None:
            device = self._loaded.devices()[0].name
            self._evidence = self._open_evidence()
            self._ruler = self._open_ruler(device, self._clock)
            self._watches = watches(device, self._clock)
        compiled = model.compile_seconds(batch) if isinstance(model, protocol.TimesCompilation) else None
        return protocol.Prepared(
            batch=batch,
            first_call=seconds,
            compiles=self._compiles(),
            compile=compiled,
            synchronous=workload.synchronous,
            inputs={
                **(model.inputs_of(batch) if isinstance(model, protocol.TellsInputs) else {}),
                **({"lazy": kind} if kind else {}),
                **({"finite": True} if first_call.finite(outcome) else {}),
            },
        )

    def _first_call(self, workload: protocol.Workload) -> tuple[Any, float]:
        workload.sync()
        started = self._clock.now()
        try:
            outcome = workload.call()
            workload.sync()
        except Exception as error:
            outcome = error
        return outcome, self._clock.now() - started

    def _compiles(self) -> int:
        return self._model.compiles() if isinstance(self._model, protocol.Compiles) else 0

    def _block(self, command: protocol.Block) -> protocol.Samples:
        workload = self._workload(command.batch)
        compiled = self._compiles()
        tape = loop.Tape()  # stays empty when a call fails: every watch that was begun is also ended
        for watch in self._watches:
            watch.begin()
        try:
            tape = self._record(command, workload)
        finally:
            block = TimedBlock(command.regime, tape.start, tape.seconds, [0] * len(tape.seconds))
            watched = [series for watch in self._watches for series in watch.end(block)]
        extra = Label.RECOMPILED if self._compiles() != compiled else Label.NONE
        label = [int(bits | extra) for bits in block.label]
        for index, late in enumerate(tape.late):
            label[index] |= Label.LATE if late > LATE else 0
        return protocol.Samples(
            batch=command.batch, series=[*_as_series(tape, command.regime, label), *watched]
        )

    def _peak(self, batch: int) -> protocol.Facts:
        """A block of the device's peak; nothing if the model cannot show it."""
        model: object = self._model
        work = model.peak_work() if isinstance(model, protocol.MeasuresPeak) else None
        if work is None:
            return protocol.Facts(batch=batch)
        series = passes.peak_block(work, evidence=self._evidence, clock=self._clock)
        details = Details(peak=msgspec.convert(work.facts, Peak))
        return protocol.Facts(batch=batch, series=[series], details=details)

    def _record(self, command: protocol.Block, workload: protocol.Workload) -> loop.Tape:
        evidence = ruler = None
        if command.regime != Regime.DEVICE:
            evidence, ruler = self._evidence, self._ruler
            assert evidence is not None
            evidence.refresh_threads(ruler.threads if ruler else frozenset())
        terms = loop.Terms(
            seconds=command.seconds,
            min_calls=command.min_calls,
            max_calls=command.max_calls,
            evidence=evidence,
            clock=self._clock,
            ruler=ruler,
        )
        if command.regime == Regime.DEVICE:
            model: object = self._model
            if not isinstance(model, protocol.TimesDevice):
                raise Unavailable(
                    "this device has no timer of its own",
                    why="the device regime reads event timers on an accelerator's stream",
                    next=f"--regime {Regime.ISOLATED}",
                )
            return loop.on_device(workload, terms, partial(model.device_times, command.batch))
        if command.regime == Regime.PACED:
            if not command.rate:
                raise LaptimeError("the paced regime needs a rate")
            return loop.time_paced(workload, terms, rate=command.rate)
        if command.regime == Regime.SATURATED:
            return loop.time_saturated(workload, terms, estimate=command.estimate)
        # Calls in a sample; asked once, of calls that may be short.
        may_be_short = command.estimate is not None and command.estimate < MAY_BE_SHORT
        if command.batch not in self._inside and may_be_short:
            self._inside[command.batch] = loop.calls_inside(workload, self._clock)
        return loop.time_isolated(workload, terms, inside=self._inside.get(command.batch, 1))

    def _failure(self, error: Exception, batch: int) -> Failure:
        model: object = self._model
        if not isinstance(error, LaptimeError) and isinstance(model, protocol.Explains):
            explained = model.explain(error, batch)
            if explained is not error:
                explained.__cause__ = error
                return failure_of(explained)
        return failure_of(error)


def _as_series(tape: loop.Tape, regime: str, label: list[int]) -> list[Series]:
    """The latency series, and one series for each kind of evidence beside it, all of one length."""

    def column(metric: Metric, values: list[float]) -> Series:
        return Series(metric=metric, regime=regime, samples=[round(v, 9) for v in values])

    blocks = any(calls > 1 for calls in tape.calls)
    latency = Series(
        metric=LATENCY,
        regime=regime,
        samples=[round(v, 10) for v in tape.seconds],
        at=[round(v, 6) for v in tape.start],
        label=[int(bits) for bits in label] if any(label) else [],
        calls=tape.calls if blocks else [],
        probe="" if regime == Regime.DEVICE else "wall",
        clock="device events" if regime == Regime.DEVICE else "perf_counter",
    )
    evidence = (
        (CPU_TIME, tape.cpu),
        (scheduler.WAITED, tape.waited),
        (scheduler.STOLEN, tape.stolen),
        (scheduler.MISSING, tape.missing),
        (scheduler.THROTTLED, tape.throttled),
        (RULER, tape.ruler),
        (LATENESS, tape.late),
    )
    return [latency, *(column(metric, values) for metric, values in evidence if values)]


decode_command = msgspec.json.Decoder(protocol.Command).decode
