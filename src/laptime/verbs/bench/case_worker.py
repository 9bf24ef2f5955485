"""One variant's worker and its cases during a run, and what happens when it fails."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from laptime.launch import interpreter
from laptime.launch.instances import Instances
from laptime.launch.worker import CommandFailed, InProcessWorker, Worker, WorkerProcess
from laptime.measure import metrics
from laptime.measure.passes import PEAK
from laptime.measure.protocol import Block, Facts, Load, Loaded, Message, Pass, Prepare, Prepared, Samples
from laptime.probes.host_memory import available_bytes
from laptime.probes.peaks import on_paper
from laptime.records.case import Case, Failure, case_key
from laptime.records.details import Details, Peak
from laptime.records.event import CaseAdded, Event, Measured
from laptime.records.plan import Variant
from laptime.records.series import Label, Metric, Regime, Series
from laptime.verbs.bench.planning import axes_of
from laptime.verbs.bench.variants import cpus_of

Emit = Callable[[Event], None]
OpenSession = Callable[[Variant], Worker]
SHORT = 30e-6  # seconds of a call from which two readings of the clock are below 1 % of it
MOST_SAMPLES = 20_000  # of calls one by one in a block: each takes 20 us to send, keep and look at
MEMORY_SHARE = 0.9  # share of the free memory that a worker may map; the rest keeps the machine responsive


def fresh_process(variant: Variant) -> Worker:
    """A worker in a process of its own, or in several if the variant has instances."""
    if cpus := cpus_of(variant):
        return Instances(lambda each: _process(variant, each), cpus)
    return _process(variant)


def _process(variant: Variant, cpus: Sequence[int] = ()) -> WorkerProcess:
    if not variant.python:
        return WorkerProcess(name=variant.target, cpus=cpus)
    python, environ = interpreter.path_of(variant.python), interpreter.environment(variant.python)
    return WorkerProcess(name=variant.target, python=python, environ=environ, cpus=cpus)


@dataclass(kw_only=True, eq=False)
class CaseWorker:
    """A variant's worker process (one after another) and its cases."""

    variant: Variant = field(kw_only=False)
    asked: Sequence[int] | None = field(kw_only=False)  # batch sizes; None: that of the inputs
    emit: Emit
    timeout: float
    open_session: OpenSession
    keys: dict[int, str] = field(default_factory=dict)  # case key by batch size; empty until the first load
    failed: dict[int, Failure] = field(default_factory=dict)  # by batch size; it is not measured further
    loaded: Loaded | None = None  # the worker's answer to its first load
    inputs: dict[int, dict[str, Any]] = field(default_factory=dict)  # of a call, as the backend tells
    estimate: dict[int, float] = field(default_factory=dict)  # seconds of one call, as far as known
    asynchronous: set[int] = field(default_factory=set)  # sizes whose calls return before results are there
    _session: Worker | None = None
    _opened: Loaded | Failure | None = None
    _is_abandoned: bool = False
    _process: int = -1
    _prepared: set[int] = field(default_factory=set)
    _counted: set[tuple[int, str, str | None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.batches = [1] if self.asked is None else list(self.asked)

    def start(self) -> None:
        self.close()
        self._session = self.open_session(self.variant)
        self._process += 1
        self._prepared = set()

    @property
    def is_here(self) -> bool:
        """Whether its process is this one."""
        return isinstance(self._session, InProcessWorker)

    @property
    def active(self) -> list[int]:
        return [batch for batch in self.batches if batch not in self.failed]

    def open(self) -> None:
        """Load the variant; `prepare` takes up the result. Several workers may do this at the same time."""
        try:
            messages = self._ask(self._load_command())
        except CommandFailed as error:
            self._opened = error.failure
        else:
            self._opened = next(m for m in messages if isinstance(m, Loaded))

    def prepare(self, note: str = "") -> None:
        """Record import and load times, and make the first call with every batch size. note: a note on the
        times of import and load."""
        opened = self._opened
        if isinstance(opened, Failure):
            self.fail(opened)
            return
        assert opened is not None
        first_time = self.loaded is None
        self.loaded = opened
        if first_time and self.asked is None:
            self.batches = [opened.batch or 1]
        for batch in self.batches:
            self._add_case(batch, opened)
            if first_time and not self.is_here:
                self._single(batch, metrics.IMPORT, opened.imported, note)
            if first_time:
                self._single(batch, metrics.LOAD, opened.loaded, note)
                if opened.exported is not None:
                    self._single(batch, metrics.EXPORT, opened.exported, note)
            self._revive(batch)

    def fail(self, failure: Failure) -> None:
        for batch in self.batches:
            self._fail(batch, failure)

    def measure(
        self,
        batch: int,
        *,
        regime: Regime,
        seconds: float,
        resumed: bool,
        round: int,
        epoch: float,
        rate: float | None = None,
    ) -> None:
        """One block of one case. A call that outlasts the block is made once or twice, not three times.

        When other cases ran since, the caches are cold: the first call is labelled `resumed`."""
        if not self._revive(batch):
            return
        estimate = self.estimate[batch]
        slow = estimate > seconds
        # Short blocks stay short if calls are long: what lies side by side shares the machine's drift.
        fewest = 1 if slow else max(2, min(5, int(seconds / max(estimate, 1e-9))))
        command = Block(
            batch=batch,
            regime=regime,
            seconds=seconds,
            rate=rate,
            min_calls=fewest + resumed,
            estimate=estimate,
            max_calls=(1 + resumed) if slow else MOST_SAMPLES if regime == Regime.ISOLATED else 100_000,
        )
        try:
            messages = self._ask(command, extra=seconds)
        except CommandFailed as error:
            self._fail(batch, error.failure)
            return
        for message in messages:
            if isinstance(message, Samples):
                for series in message.series:
                    n = len(series.samples)
                    placed = self._place(series, round, epoch)
                    if series.metric.tag == "latency" and n:
                        if regime != Regime.PACED:  # there it holds the waiting in line, too
                            self.estimate[batch] = sorted(series.samples)[n // 2]
                        if resumed and regime.times_calls:
                            label = placed.label or [0] * n
                            label = [int(label[0] | Label.RESUMED), *label[1:]]
                            placed = msgspec.structs.replace(placed, label=label)
                    self.emit(Measured(self.keys[batch], placed))

    def _place(self, series: Series, round: int, epoch: float) -> Series:
        """Samples with the process and round that they come from; times from the start of the run."""
        n = len(series.samples)
        at = [began - epoch for began in series.at]
        return msgspec.structs.replace(series, at=at, process=[self._process] * n, round=[round] * n)

    def peak(self, batch: int, *, round: int, epoch: float) -> tuple[list[Series], Peak | None]:
        """A block of the device's peak: its samples and what the worker tells of them; None if there is none.
        A block that failed says why."""
        if not self._revive(batch):
            return [], None
        try:
            messages = self._ask(Pass(kind=PEAK, batch=batch))
        except CommandFailed as error:
            return [], Peak(reason=error.failure.why or error.failure.what)
        told = [message for message in messages if isinstance(message, Facts)]
        samples = [self._place(series, round, epoch) for facts in told for series in facts.series]
        return samples, next((facts.details.peak for facts in told if facts.series), None)

    def do(self, kind: str, batch: int, case: Case, **more: str) -> Case:
        """One pass; returns the case with its series and details. The details say when it failed. more: what
        else the command says, see `measure.protocol.Pass`."""
        if not self._revive(batch):
            return case
        try:
            messages = self._ask(Pass(kind=kind, batch=batch, seconds=0.0, **more))
        except CommandFailed as error:
            failure = msgspec.structs.replace(error.failure, traceback="")
            told = msgspec.structs.replace(case.details, **{f"{kind}_failed": failure})
            return msgspec.structs.replace(case, details=told)
        for message in messages:
            if isinstance(message, Facts):
                for series in message.series:
                    case = case.with_series(series)
                case = msgspec.structs.replace(case, details=case.details.merge(message.details))
        return case

    def regimes(self, batch: int, asked: Sequence[str], *, is_long_round: bool) -> list[tuple[Regime, float]]:
        """Regimes of a round, each with its share of a block; paced calls have stretches of their own.

        By default latency is measured in every round and the other regimes in long ones. If a call returns
        with its result, calls back to back are calls one by one; very short ones are timed in blocks, too.

        asked: the regimes that the user named; empty takes what the device offers."""
        if asked:
            return [(regime, 1.0) for regime in map(Regime, asked) if not regime.needs_rate]
        on_cpu = self.loaded is None or all(device.name == "cpu" for device in self.loaded.devices)
        is_long_call = self.estimate.get(batch, SHORT) >= SHORT and batch not in self.asynchronous
        if not is_long_round or (on_cpu and is_long_call):
            return [(Regime.ISOLATED, 1.0)]
        more = [(Regime.SATURATED, 0.4)] if on_cpu else [(Regime.SATURATED, 1.0), (Regime.DEVICE, 1.0)]
        return [(Regime.ISOLATED, 1.0), *more]

    def knobs(self) -> dict[str, Any]:
        """The worker's settings, and its Python version if it has another interpreter than laptime."""
        if self.loaded is None:
            return {}
        python = {f"{self.variant.backend}.python": self.loaded.python} if self.variant.python else {}
        return {**self.loaded.knobs, **python}

    def peak_on_paper(self) -> Peak:
        """The datasheet's peak of the device, for backends that measure none."""
        if self.loaded is None or not self.loaded.devices:
            return Peak()
        device, dtype = self.loaded.devices[0], self.variant.dtype
        # Frameworks may use TF32 for float32 on GPUs unasked.
        dtypes = [dtype, "tf32"] if dtype == "float32" and device.name != "cpu" else [dtype]
        limit = on_paper(device, dtypes)
        return Peak(limit=limit, source="of the peak on paper") if limit else Peak()

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def abandon(self) -> None:
        """End the worker while another thread waits for its answer; this does not count as a failure."""
        self._is_abandoned = True
        self.close()

    def _revive(self, batch: int) -> bool:
        """Whether this batch size is ready; if another batch size has killed the worker, in a new one."""
        if self._session is None or batch in self.failed:
            return False
        if not self._session.alive:
            self.start()
            try:
                self._ask(self._load_command())
            except CommandFailed as error:
                self._fail(batch, error.failure)
                return False
        if batch not in self._prepared:
            self._prepare(batch)
        return batch not in self.failed

    def _load_command(self) -> Load:
        """The command to load, with a memory limit, which no worker in the user's own process sets."""
        is_on_cpu = self.variant.device in ("cpu", "auto")
        limit = int(available_bytes() * MEMORY_SHARE) if is_on_cpu else None
        return Load(variant=self.variant, memory_limit=limit)

    def _prepare(self, batch: int) -> None:
        try:
            messages = self._ask(Prepare(batch=batch, asked=self.asked is not None))
        except CommandFailed as error:
            self._fail(batch, error.failure)
            return
        self._prepared.add(batch)
        prepared = next(m for m in messages if isinstance(m, Prepared))
        self.estimate[batch] = prepared.first_call
        if not prepared.synchronous:
            self.asynchronous.add(batch)
        self.inputs[batch] = prepared.inputs
        note = "after one call that showed what the batch is" if prepared.inputs.get("looked") else ""
        self._single(batch, metrics.FIRST_CALL, prepared.first_call, note)
        if prepared.compile is not None:
            self._single(batch, metrics.COMPILE, prepared.compile, "given by the framework's compiler")

    def _ask(self, command: Load | Prepare | Block | Pass, *, extra: float = 0.0) -> list[Message]:
        assert self._session is not None
        return self._session.ask(command, timeout=self.timeout + extra)

    def _add_case(self, batch: int, loaded: Loaded | None) -> None:
        if batch in self.keys:
            return
        device = loaded.devices[0].name if loaded and loaded.devices else self.variant.device
        held = loaded.facts.get("dtypes", {}) if loaded else {}
        is_known = self.asked is not None or loaded is None or loaded.batch is not None
        axes = axes_of(self.variant, batch if is_known else None, device=device, held=held)
        key = case_key(self.variant.target, axes)
        self.keys[batch] = key
        details = Details(
            model=loaded.facts if loaded else {},
            in_process=self.is_here,
            shared_process=max(1, len(self.batches)),
        )
        self.emit(CaseAdded(Case(key=key, target=self.variant.target, axes=axes, details=details)))

    def _single(self, batch: int, metric: Metric, value: float, note: str = "") -> None:
        """A number that is recorded once, from the first process: later ones find warm caches."""
        mark = (batch, metric.tag, None)
        if mark not in self._counted:
            self._counted.add(mark)
            self.emit(
                Measured(self.keys[batch], Series(metric=metric, samples=[value], probe="wall", note=note))
            )

    def _fail(self, batch: int, failure: Failure) -> None:
        if self._is_abandoned:
            return
        self._add_case(batch, self.loaded)
        self.failed[batch] = failure
