"""A scripted machine: its speed, drift, noise and neighbours are known, and its hours pass in milliseconds.

    machine = ScriptedMachine({"null:noop": 0.010, "null:spin=1ms": 0.0105}, seed=7)
    run = bench(request, open_session=machine.open_session, clock=machine)

Every session it opens answers the real protocol, so everything above the worker is the real program."""

import math
import random
from dataclasses import dataclass, field

from laptime.launch.worker import CommandFailed
from laptime.measure import protocol
from laptime.measure.metrics import CPU_TIME, LATENCY
from laptime.measure.passes import PEAK_RATE
from laptime.probes import scheduler
from laptime.records.case import Failure
from laptime.records.details import Details, Peak
from laptime.records.environment import Device
from laptime.records.plan import Variant
from laptime.records.series import Label, Metric, Series

_FLOPS = Metric(tag="flops", unit="FLOP", title="FLOPs in one call")


@dataclass
class ScriptedMachine:
    """A machine with one clock for all its processes."""

    seconds: dict[str, float]  # true seconds of one call with one item, by target
    fixed: float = 0.0  # seconds that a call takes beside those of its items, so that larger batches pay
    fits: int = 0  # the largest batch that memory holds; 0 holds any
    noise: float = 0.01  # standard deviation of a sample, as a share
    tail: float = 0.02  # share of samples that are slower by an exponential of mean `tail_size`
    tail_size: float = 0.3
    drift: float = 0.05  # standard deviation of the speed's slow wandering (minutes), as a share
    between: float = 0.003  # standard deviation between processes of one program, as a share
    # share of the time in which another program takes half of the CPUs, in bursts of 0.2 to 2 s; samples in a
    # burst take up to twice as long, and the evidence shows the waiting
    neighbour: float = 0.0
    warm_up: int = 3  # calls of each process that take 1.5 times as long
    flops: float = 0.0  # FLOPs of one call with one item; 0 if they cannot be counted
    peak: float = 0.0  # FLOP/s that the machine reaches at best; 0 when it has no peak to measure
    # share of the peak that is gone in every second stretch of 1.5 s, as on machines whose hypervisor lends
    # and takes back their speed; no evidence shows it
    swing: float = 0.0
    seed: int = 0  # everything random comes from it
    _time: float = field(default=0.0, init=False)
    _level: float = field(default=0.0, init=False)
    _burst_until: float = field(default=0.0, init=False)
    _quiet_until: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311 - a simulation
        if self.neighbour:
            self._quiet_until = self.random.uniform(0.2, 2.0)

    def now(self) -> float:
        return self._time

    def cpu(self) -> float:
        """The machine's CPU time: as if one process always ran."""
        return self._time

    def sleep(self, seconds: float) -> None:
        self._time += seconds
        # Ornstein-Uhlenbeck with a time constant of 20 s: slow drift that comes back.
        pull = seconds / 20.0
        step = self.drift * math.sqrt(2 * pull) if pull < 1 else self.drift
        self._level += -min(pull, 1.0) * self._level + step * self.random.gauss(0, 1)
        if self.neighbour and self._time >= max(self._burst_until, self._quiet_until):
            burst = self.random.uniform(0.2, 2.0)
            self._burst_until = self._time + burst
            self._quiet_until = self._burst_until + burst * (1 - self.neighbour) / self.neighbour

    def open_session(self, variant: Variant) -> "ScriptedSession":
        return ScriptedSession(self, variant)

    def speed(self) -> float:
        """Factor of every duration now, the same for all processes."""
        return math.exp(self._level)

    def find_wait(self) -> float:
        """Share of a sample started now that its threads wait for a CPU."""
        return 0.5 if self._time < self._burst_until else 0.0

    def peak_now(self) -> float:
        """FLOP/s that a large matrix product reaches now."""
        is_slow = int(self._time / 1.5) % 2 == 1
        wobble = math.exp(self.random.gauss(0, self.noise))
        return self.peak * wobble / self.speed() * ((1 - self.swing) if is_slow else 1.0)


class ScriptedSession:
    def __init__(self, machine: ScriptedMachine, variant: Variant) -> None:
        self._machine = machine
        self._seconds = machine.seconds[variant.target]
        self._own = math.exp(machine.random.gauss(0, machine.between))
        self._calls = 0
        self.alive = True

    def ask(self, command: protocol.Command, *, timeout: float) -> list[protocol.Message]:
        """Answer from the script; only what does not fit fails."""
        match command:
            case protocol.Load():
                self._machine.sleep(1.0)
                device = Device(name="cpu", model="scripted CPU")
                return [protocol.Loaded(imported=0.8, loaded=0.2, pid=1, devices=[device])]
            case protocol.Prepare(batch) if 0 < self._machine.fits < batch:
                raise CommandFailed(Failure(kind="out_of_memory", what=f"batch {batch} does not fit"))
            case protocol.Prepare(batch):
                first = self._call(batch)[0] * 3
                self._machine.sleep(first)
                return [protocol.Prepared(batch=batch, first_call=first)]
            case protocol.Block():
                return [protocol.Samples(batch=command.batch, series=self._block(command))]
            case protocol.Pass("peak", batch) if self._machine.peak:
                return [self._peak(batch)]
            case protocol.Pass("count", batch) if self._machine.flops:
                return [
                    protocol.Facts(
                        batch=batch, series=[Series(metric=_FLOPS, samples=[self._machine.flops * batch])]
                    )
                ]
            case protocol.Pass(batch=batch):
                return [protocol.Facts(batch=batch)]
            case _:
                return []

    def close(self) -> None:
        self.alive = False

    def _peak(self, batch: int) -> protocol.Facts:
        """A block of 40 ms; what a neighbour takes away is labelled."""
        machine = self._machine
        lost = machine.find_wait()
        series = Series(
            metric=PEAK_RATE,
            samples=[machine.peak_now() * (1 - lost)],
            at=[machine.now()],
            label=[int(Label.WAITED) if lost else 0],
        )
        machine.sleep(0.04)
        return protocol.Facts(
            batch=batch, series=[series], details=Details(peak=Peak(source="of the scripted peak"))
        )

    def _call(self, batch: int) -> tuple[float, float]:
        """Seconds of a call that starts now, and seconds of it that its threads waited."""
        machine = self._machine
        seconds = (machine.fixed + self._seconds * batch) * self._own * machine.speed()
        seconds *= math.exp(machine.random.gauss(0, machine.noise))
        if machine.random.random() < machine.tail:
            seconds *= 1 + machine.random.expovariate(1 / machine.tail_size)
        if self._calls < machine.warm_up:
            seconds *= 1.5
        self._calls += 1
        share = machine.find_wait()
        if share:
            seconds /= 1 - share * machine.random.uniform(0.6, 1.0)
        return seconds, share * seconds

    def _block(self, command: protocol.Block) -> list[Series]:
        machine = self._machine
        once = machine.fixed + self._seconds * command.batch
        size = max(1, int(0.03 / once)) if command.regime == "saturated" else 1
        at: list[float] = []
        took: list[float] = []
        waited: list[float] = []
        end = machine.now() + command.seconds
        while len(took) * size < command.max_calls and (
            machine.now() < end or len(took) * size < command.min_calls
        ):
            at.append(machine.now())
            calls = [self._call(command.batch) for _ in range(size)]
            machine.sleep(sum(seconds for seconds, _ in calls))
            took.append(sum(seconds for seconds, _ in calls) / size)
            waited.append(sum(lost for _, lost in calls) / size)
        return [
            Series(
                metric=LATENCY,
                regime=command.regime,
                samples=took,
                at=at,
                calls=[size] * len(took) if size > 1 else [],
            ),
            Series(
                metric=CPU_TIME,
                regime=command.regime,
                samples=[s - w for s, w in zip(took, waited, strict=True)],
            ),
            Series(metric=scheduler.WAITED, regime=command.regime, samples=waited),
        ]
