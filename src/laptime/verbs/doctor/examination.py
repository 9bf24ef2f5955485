"""`doctor`: what this machine can measure, and the smallest difference it can show.

look (1 s) ── ask torch (its import; peaks 4 s a device, once a machine) ── A/A run ── lines"""

import hashlib
import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from laptime.analysis.compare import DECISION_LEVEL, effect, judge
from laptime.analysis.paired import MARGIN, Effect
from laptime.analysis.student_t import t_quantile
from laptime.kit import __version__, registry
from laptime.kit.clock import Clock, SystemClock, utc_now
from laptime.kit.errors import LaptimeError
from laptime.launch import fresh_call
from laptime.probes import energy, host_memory, machine, nvml, wall
from laptime.probes import others as neighbours
from laptime.probes.cpu import Cpu, cpu
from laptime.probes.nvml import Gpu
from laptime.probes.others import Other
from laptime.probes.peaks import Peak, cpu_peak, device_peak
from laptime.probes.scheduler import Evidence
from laptime.records.environment import Device, DoctorCheck, DoctorReport, Environment, NoiseFloor, Rate, warn
from laptime.records.event import Event, Listener, Progress, ignore
from laptime.records.plan import BenchRequest
from laptime.records.series import Regime
from laptime.store import cache
from laptime.verbs.bench import bench
from laptime.verbs.bench.case_worker import OpenSession, fresh_process
from laptime.verbs.doctor import checks

_METER_FACTS = ("name", "device", "covers", "method", "period")


class _Overview(NamedTuple):
    """The machine while nothing of ours was running."""

    environment: Environment
    processor: Cpu
    gpus: list[Gpu]
    running: list[Other]
    timers: list[wall.Timer]
    exact_peak: bool


def examine(*, quick: bool = False, fresh: bool = False, emit: Listener = ignore) -> DoctorReport:
    """Look at the machine.

    Args:
        quick: no measured peaks unless they are known, and a shorter A/A run; some 5 s.
        fresh: measure the peaks although they are known.
        emit: is called with the progress."""
    started, when = SystemClock.now(), utc_now()
    with Evidence() as evidence:
        before = evidence.read()
        _say(emit, 0.05, "looking at the machine")
        overview = _look()
        meters, absent = energy.survey()
        rooms = {room: registry.broken(room) for room in registry.ROOMS}
        _say(emit, 0.15, "asking torch, measuring peaks")
        peaks, trouble = _device_peaks(overview, quick=quick, fresh=fresh)
        _say(emit, 0.45, "measuring a program against itself")
        noise, complaint = _noise(quick=quick, busy=_busy(overview), emit=_second_half(emit))
        after, seconds, cost = evidence.read(), SystemClock.now() - started, evidence.cost
    environment = overview.environment.extend(libraries=peaks.libraries, knobs=peaks.knobs)
    visible, version = [gpu for gpu in overview.gpus if gpu.device], peaks.libraries.get("torch", "")
    listed = {gpu.device for gpu in visible}
    lines = [
        *checks.cpus(environment),
        *checks.memory(environment, host_memory.available_bytes(), exact_peak=overview.exact_peak),
        *checks.clocks(environment, vendor=overview.processor.vendor, battery=neighbours.on_battery()),
        checks.others(overview.running, environment),
        *checks.stolen(before, after, seconds, environment),
        *checks.timing(overview.timers, wall.clock_source(), after, cost),
        *checks.gpus(overview.gpus),
        *checks.framework_devices(peaks.devices, peaks.sync, visible=visible, version=version),
        *checks.energy(meters, absent),
        *checks.frameworks(_versions()),
        *trouble,
        *checks.settings(environment),
        *checks.extensions(rooms, sum(len(registry.names(room)) for room in registry.ROOMS)),
        *complaint,
    ]
    return DoctorReport(
        laptime=__version__,
        started=when,
        seconds=seconds,
        environment=environment,
        devices=[*(gpu.as_device() for gpu in visible), *(d for d in peaks.devices if d.name not in listed)],
        lines=lines,
        timers={timer.name: {"step": timer.step, "cost": timer.cost} for timer in overview.timers},
        sync=peaks.sync,
        meters=[{key: getattr(meter, key) for key in _METER_FACTS} for meter in meters],
        rates=peaks.rates,
        rates_from=peaks.rates_from,
        rates_disturbed=bool(peaks.rates) and peaks.rates_from >= when and _busy(overview),
        noise=noise,
        steal=checks.steal_share(before, after, seconds, environment),
    )


def _look() -> _Overview:
    running = neighbours.programs()
    return _Overview(
        environment=machine.environment(),
        processor=cpu(),
        gpus=_gpus(),
        running=running,
        timers=wall.timers(),
        exact_peak=bool(host_memory.peak_of(lambda: None).exact),
    )


def _gpus() -> list[Gpu]:
    """NVIDIA's GPUs; the energy meters say why there are none."""
    if not nvml.has_hardware():
        return []
    try:
        return nvml.Nvml().gpus()
    except (ImportError, OSError):
        return []


def _device_peaks(
    overview: _Overview, *, quick: bool, fresh: bool
) -> "tuple[DevicePeaks, list[DoctorCheck]]":
    try:
        known, keep = (overview.environment, overview.gpus, overview.processor), not _busy(overview)
        return device_peaks(*known, quick=quick, fresh=fresh, keep=keep), []
    except LaptimeError as error:
        sentence = f"torch is installed, but does not work: {error.why or error.what}"
        next_step = "python -c 'import torch; print(torch.__version__)'"
        return DevicePeaks(), [warn("framework/torch/works", sentence, next_step)]


def _busy(overview: _Overview) -> bool:
    return sum(program.cpus for program in overview.running) >= checks.NOTABLE_LOAD


def _noise(*, quick: bool, busy: bool, emit: Listener) -> tuple[NoiseFloor | None, list[DoctorCheck]]:
    try:
        floor = noise_floor(quick=quick, emit=emit)
    except LaptimeError as error:
        sentence = f"the noise floor could not be measured: {error.what} {error.why}".strip()
        next_step = error.next or "laptime doctor   (again, when nobody else uses the machine)"
        return None, [warn("noise", sentence, next_step)]
    if floor.word in ("faster", "slower"):
        size = abs(floor.seen)
        by = f"{size:.1%}" if size < 1 else f"a factor of {1 + size:.1f}"
        sentence = f"the same program against itself came out {floor.word} by {by}"
        next_step = "laptime doctor   (again: this may happen 1 time in 100)"
        if busy:
            sentence += ", while others used the CPUs"
            next_step = "stop the others (see above), then: laptime doctor"
        return floor, [warn("noise", sentence, next_step)]
    return floor, []


def _versions() -> dict[str, dict[str, str]]:
    """Versions of each backend's packages; broken backends are listed among the extensions."""
    versions = {}
    for name in registry.names("backends"):
        try:
            versions[name] = registry.load("backends", name).available()
        except LaptimeError:
            continue
    return versions


def _say(emit: Listener, done: float, text: str) -> None:
    emit(Progress(done=done, remaining=0.0, text=text))


def _second_half(emit: Listener) -> Listener:
    """The A/A run's progress, as the second half of the whole."""

    def pass_on(event: Event) -> None:
        if isinstance(event, Progress):
            emit(Progress(done=0.45 + 0.55 * event.done, remaining=event.remaining, text=event.text))

    return pass_on


# Devices as torch sees them, and their measured peaks, which are stored until the machine changes.


SECONDS = 4.0  # time for the measured peaks of each device
_SURVEY = "laptime.backends.torch.peaks:survey"
_TIMEOUT = 180.0


class DevicePeaks(Struct, frozen=True, kw_only=True):
    """The facts about devices from torch; empty if it is not installed."""

    devices: list[Device] = []
    libraries: dict[str, str] = {}
    knobs: dict[str, Any] = {}
    sync: dict[str, float] = {}  # seconds to wait for an idle device, by device
    # measured peaks; `rates_from` is the time they were measured, "" when they were not
    rates: list[Rate] = []
    rates_from: str = ""


def device_peaks(
    environment: Environment,
    gpus: list[Gpu],
    processor: Cpu,
    *,
    quick: bool = False,
    fresh: bool = False,
    keep: bool = True,
) -> DevicePeaks:
    """Ask torch in a process of its own.
    quick: measure no peaks, but report those that are stored. fresh: measure them although they are stored.
    keep: store what is measured; not on a machine that others are using.
    Raises Died, Hung: torch is installed, but does not answer."""
    if machine.find_version("torch") is None:
        return DevicePeaks()
    key = _key(environment, gpus)
    stored = None if fresh else cache.get("peaks", key)
    seconds = 0.0 if stored or quick else SECONDS
    answer = fresh_call.call(_SURVEY, {"seconds": seconds}, timeout=_TIMEOUT)
    when = utc_now() if seconds else (stored or {}).get("when", "")
    rows = answer.pop("rates") if seconds else (stored or {}).get("rates", [])
    if seconds and keep:
        cache.put("peaks", key, {"when": when, "rates": rows})
    devices = msgspec.convert(answer["devices"], list[Device])
    ceilings = {device.name: _ceiling(device, gpus, processor, environment) for device in devices}
    return DevicePeaks(
        devices=devices,
        libraries=answer["libraries"],
        knobs=answer["knobs"],
        sync=answer["sync"],
        rates=[_rate(row, ceilings.get(row["device"])) for row in rows],
        rates_from=when,
    )


def _key(environment: Environment, gpus: list[Gpu]) -> str:
    """All that a measured peak depends on: machine, limits, settings, torch, GPUs and their power limits."""
    parts = [environment.fingerprint, machine.find_version("torch")]
    parts += [f"{gpu.uuid} {gpu.driver} {gpu.power_limit} {gpu.device}" for gpu in gpus]
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


def _ceiling(device: Device, gpus: list[Gpu], processor: Cpu, environment: Environment) -> Peak | None:
    if device.name == "cpu":
        return cpu_peak(processor, usable=environment.usable_cpus)
    details = dict(device.details)
    if capability := details.get("compute_capability"):
        details["capability"] = tuple(int(part) for part in str(capability).split("."))
    gpu = next((gpu for gpu in gpus if gpu.device == device.name), None)
    if gpu is not None and gpu.max_clock:
        details["max_clock"] = gpu.max_clock
    return device_peak(device.model, memory=device.memory, details=details)


def _rate(row: dict[str, Any], ceiling: Peak | None) -> Rate:
    if ceiling is not None:
        limit = ceiling.bandwidth if row["kind"] == "copy" else ceiling.flops.get(row["dtype"])
        row = {**row, "ceiling": limit, "ceiling_source": ceiling.source if limit else ""}
    return msgspec.convert(row, Rate)


# The noise floor: a program measured against itself.


POWER = 0.8  # probability of finding a difference of the size named
_NETWORK = "laptime.probes.ruler:network"
_PRODUCTS = "laptime.probes.ruler:products"


def noise_floor(
    *,
    quick: bool = False,
    emit: Callable[[Event], None] | None = None,
    open_session: OpenSession = fresh_process,
    clock: Clock = SystemClock,
) -> NoiseFloor:
    """Measure a small program against itself, on the device that `bench` would take.
    open_session, clock: as in `bench`. quick: without torch, three processes instead of five, and a third of
    the time. What lies between processes is part of the error: from two of them it is hardly known, and the
    floor is then wide.
    Raises LaptimeError: the program could not be measured; why is in the error."""
    has_torch = find_spec("torch") is not None and not quick
    request = BenchRequest(
        targets=[_NETWORK if has_torch else _PRODUCTS] * 2,
        backends=["torch" if has_torch else "null"],
        regimes=[Regime.ISOLATED],
        processes=3 if quick else 5,
        budget=3.0 if quick else 9.0,
        precision=1e-4,  # use the whole budget: the question is how good it gets
        save=False,
        timing_only=True,
    )
    started = clock.now()
    run = bench(request, emit or (lambda event: None), open_session=open_session, clock=clock)
    if run.status == "interrupted":
        raise KeyboardInterrupt
    seconds = clock.now() - started
    failed = next((case.failure for case in run.cases if case.failure is not None), None)
    if failed is not None:
        raise LaptimeError(failed.what, why=failed.why, next=failed.next)
    if len(run.cases) != 2:
        raise LaptimeError(f"the same program twice gave {len(run.cases)} cases")
    first, second = run.cases[0], run.cases[1]
    left, right = first.find("latency", Regime.ISOLATED), second.find("latency", Regime.ISOLATED)
    measured = effect(left, right) if left is not None and right is not None else None
    if measured is None:
        raise LaptimeError("too few blocks of the same program were measured to know the noise floor")
    what = "a small network" if has_torch else "matrix products"
    floor = floor_of(measured, device=str(first.axes.get("device", "cpu")), workload=what, seconds=seconds)
    # A comparison would not say a word on thin evidence, so neither does the floor.
    return msgspec.structs.replace(floor, word="unclear") if measured.doubt else floor


def floor_of(measured: Effect, *, device: str, workload: str, seconds: float) -> NoiseFloor:
    """The noise floor that an A/A comparison with this effect shows."""
    reach = t_quantile((1 + DECISION_LEVEL) / 2, measured.df) + t_quantile(POWER, measured.df)
    word, (low, high) = judge(measured)
    # The error moderated by what is expected between processes (see analysis.compare).
    return NoiseFloor(
        device=device,
        workload=workload,
        smallest=math.expm1(math.log1p(MARGIN) + reach * measured.error),
        half_width=(high - low) / 2,
        seen=math.expm1(-measured.mean),
        between=measured.error * math.sqrt(measured.processes) if measured.processes > 1 else None,
        word=word,
        pairs=measured.rounds,
        processes=measured.processes,
        seconds=seconds,
    )
