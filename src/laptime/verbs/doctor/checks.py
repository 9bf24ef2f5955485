"""doctor's checks of the host and its accelerators: facts in, checks out. Every warning ends with the command
that mends it."""

import math
from collections.abc import Iterator, Mapping, Sequence

from laptime.kit.extras import install
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.probes.energy import Absence, Meter, shortest_window
from laptime.probes.nvml import Gpu
from laptime.probes.others import Other
from laptime.probes.scheduler import Reading
from laptime.probes.wall import Timer
from laptime.records.environment import Device, DoctorCheck, Environment, absent, ok, warn

NOTABLE_STEAL = 0.005  # share of CPU time from which other guests of the hypervisor show in the numbers
NOTABLE_LOAD = 0.1  # CPUs that others may use without a warning: a desktop's background is a few hundredths
LITTLE_MEMORY = 2 * 2**30
SLOW_CLOCK = 0.5e-6  # seconds of a reading from which the clock must be a device on a bus, no counter
_NO_TURBO = {
    "GenuineIntel": "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo",
    "AuthenticAMD": "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost",
}
_FAST = {"avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_int8", "bf16", "i8mm", "sve", "sve2"}
_HARMFUL = {
    "CUDA_LAUNCH_BLOCKING": "every kernel is waited for",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "every tensor is allocated anew by the driver",
    "TORCH_COMPILE_DISABLE": "--compile compiles nothing",
    "TORCHDYNAMO_DISABLE": "--compile compiles nothing",
}


def cpus(environment: Environment) -> Iterator[DoctorCheck]:
    """Report how many CPUs there are, and how many of them may be used."""
    yield _count_cpus(environment)
    if fast := [name for name in environment.isa if name in _FAST] or environment.isa[-1:]:
        yield ok("cpu/isa", f"fast instructions: {', '.join(fast)}")
    total, usable = environment.vcpus, environment.usable_cpus
    quota = environment.cpu_quota
    if quota is not None and quota <= usable and quota < total:
        sentence = f"the container limits this process to {quota:g} of {total} CPUs"
        if quota != int(quota):
            sentence += ": a share of a CPU is given by stopping threads in between"
        more = f"give the container more: docker run --cpus {total}, or resources.limits.cpu"
        yield warn("cpu/quota", sentence, more)
    elif len(environment.affinity) < total and environment.affinity:
        sentence = f"this process may run on {len(environment.affinity)} of {total} CPUs (affinity)"
        yield warn("cpu/affinity", sentence, f"taskset -c 0-{total - 1} laptime doctor")
    else:
        yield ok("cpu/limit", f"all {total} CPUs may be used")


def _count_cpus(environment: Environment) -> DoctorCheck:
    cores, total = environment.physical_cores, environment.vcpus
    if cores is None:
        hidden = "the hypervisor hides" if environment.virtual else "the system does not say"
        return absent("cpu/cores", f"{count(total, 'vCPU')}; {hidden} how many physical cores that is")
    of = "each with its own core" if cores == total else f"on {count(cores, 'physical core')} (OCPU)"
    return ok("cpu/cores", f"{count(total, 'vCPU')} {of}")


def memory(environment: Environment, available: int, *, exact_peak: bool) -> Iterator[DoctorCheck]:
    """Memory, its limit, and whether a peak can be measured exactly."""
    limit = environment.memory_limit
    of = f"{show(environment.memory, 'B')} memory"
    if limit is not None and limit < environment.memory:
        of = f"{show(limit, 'B')} of {show(environment.memory, 'B')} memory (container limit)"
    sentence = f"{of}, {show(available, 'B')} free to use"
    if available < LITTLE_MEMORY:
        next_step = "give it docker run --memory 16g" if limit else "ps -eo pid,rss,comm --sort -rss | head"
        yield warn("memory", sentence, next_step)
    else:
        yield ok("memory", sentence)
    if not exact_peak:
        sentence = "the exact peak of host memory cannot be reset here: peaks are upper bounds"
        yield absent("memory/peak", sentence)


def clocks(environment: Environment, *, vendor: str, battery: bool | None) -> Iterator[DoctorCheck]:
    """Governor, turbo and battery: what lets the CPU's clock move."""
    if environment.governor is None:
        why = "hidden by the hypervisor" if environment.virtual else "not reported by this system"
        yield absent("cpu/governor", f"CPU clock governor {why}")
    elif environment.governor != "performance":
        sentence = f"CPU clock governor is {environment.governor}: the clock rises only under load"
        yield warn("cpu/governor", sentence, "sudo cpupower frequency-set -g performance")
    else:
        yield ok("cpu/governor", "CPU clock governor is performance")
    if environment.turbo:
        sentence = "turbo is on: the clock depends on heat and on what other cores do"
        yield warn("cpu/turbo", sentence, _NO_TURBO.get(vendor, _NO_TURBO["AuthenticAMD"]))
    elif environment.turbo is False:
        yield ok("cpu/turbo", "turbo is off: the clock is steady")
    if battery:
        sentence = "the machine runs on its battery and saves power"
        next_step = "plug it in   (check: cat /sys/class/power_supply/*/online)"
        yield warn("power/battery", sentence, next_step)


def others(running: Sequence[Other], environment: Environment) -> DoctorCheck:
    """Other programs that use the CPU."""
    total = sum(program.cpus for program in running)
    if total < NOTABLE_LOAD:
        return ok("load", f"nobody else uses the CPUs ({total:.2f} of a CPU)")
    named = ", ".join(f"{p.name} of {p.user or '?'} ({p.pid}) {p.cpus:.0%}" for p in running[:3])
    more = f" and {len(running) - 3} more" if len(running) > 3 else ""
    busy = [p for p in running[:3] if p.cpus >= NOTABLE_LOAD / 2] or running[:3]
    pids = ",".join(str(p.pid) for p in busy)
    used = f"others use {total:.1f} of {environment.vcpus} CPUs: {named}{more}"
    sentence = f"{used}; wait for them, or ask their owners"
    return warn("load", sentence, f"ps -o user,pid,etime,args -p {pids}")


def stolen(
    before: Reading, after: Reading, seconds: float, environment: Environment
) -> Iterator[DoctorCheck]:
    """Report the time that the hypervisor and the container's quota took while the doctor looked."""
    share = steal_share(before, after, seconds, environment)
    if share is None:
        yield absent("cpu/steal", "stolen CPU time is not reported here")
    elif share > NOTABLE_STEAL:
        sentence = f"the hypervisor gave {share:.1%} of the CPU time to others during {seconds:.0f} s"
        next_step = "laptime bench ... --preset strict   (or rent a machine with dedicated cores)"
        yield warn("cpu/steal", sentence, next_step)
    else:
        yield ok("cpu/steal", f"no CPU time was stolen during {seconds:.0f} s")
    if before.throttled_s is not None and after.throttled_s is not None:
        throttled = after.throttled_s - before.throttled_s
        if throttled > 0:
            sentence = f"the container's CPU quota stopped its programs for {show(throttled, 's')}"
            next_step = f"laptime bench ... --threads {max(1, math.floor(environment.usable_cpus))}"
            yield warn("cpu/throttled", sentence, next_step)


def steal_share(before: Reading, after: Reading, seconds: float, environment: Environment) -> float | None:
    """Stolen CPU time as a share of what all CPUs had; None if it is not told."""
    if before.stolen_s is None or after.stolen_s is None or seconds <= 0:
        return None
    return (after.stolen_s - before.stolen_s) / (seconds * environment.vcpus)


def timing(
    timers: Sequence[Timer], source: str | None, evidence: Reading, cost: float
) -> Iterator[DoctorCheck]:
    """Report how fine time can be read, and what evidence of disturbance there is."""
    wall = timers[0]
    sentence = f"timer steps {show(wall.step, 's')} and costs {show(wall.cost, 's')} to read"
    if wall.cost > SLOW_CLOCK:
        next_step = "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
        yield warn("timer", f"{sentence}: the kernel's clock is {source or 'slow'}", next_step)
    else:
        yield ok("timer", sentence)
    names = ("waiting for a CPU", "stolen time", "quota stops", "context switches", "missing CPU time")
    readable = [name for name, value in zip(names, evidence, strict=True) if value is not None]
    blind = [name for name, value in zip(names, evidence, strict=True) if value is None]
    if readable:
        sentence = f"disturbances are seen: {', '.join(readable)}; {show(cost, 's')} a reading"
        yield ok("evidence", sentence)
    if blind:
        yield absent("evidence/missing", f"not reported here: {', '.join(blind)}")


def energy(meters: Sequence[Meter], absences: Mapping[str, Absence]) -> Iterator[DoctorCheck]:
    """Meters that work, and why others do not; a warning only if a command would help."""
    for meter in meters:
        window = shortest_window([meter])
        how = "energy counter" if meter.method == "counter" else "power, integrated"
        sentence = f"{how} of {meter.covers} updates every {show(meter.period, 's')}"
        if window >= 0.5:
            sentence += f": energy needs windows of {window:g} s and more"
        yield ok(f"energy/{meter.name}", sentence)
    hopeless = [absence.why for absence in absences.values() if not absence.next]
    for name, absence in absences.items():
        if absence.next:
            sentence = f"no energy readings: {absence.why}"
            yield warn(f"energy/{name}", sentence, absence.next)
    if hopeless:
        what = "no other energy readings" if meters else "no energy readings"
        sentence = f"{what}: {'; '.join(hopeless)}"
        yield absent("energy/none", sentence)


def settings(environment: Environment) -> Iterator[DoctorCheck]:
    """Variables in the environment, and thread counts, that slow everything down."""
    for name, effect in _HARMFUL.items():
        if environment.knobs.get(name, "0") not in ("", "0"):
            sentence = f"{name} is set: {effect}"
            yield warn(f"knob/{name}", sentence, f"unset {name}")
    threads = environment.knobs.get("torch.num_threads")
    usable = environment.usable_cpus
    if isinstance(threads, int) and threads > math.ceil(usable):
        few = max(1, math.floor(usable))
        sentence = f"torch takes {threads} threads for {usable:g} usable CPUs: they get into each other's way"
        yield warn("knob/threads", sentence, f"export OMP_NUM_THREADS={few}")


def extensions(broken: Mapping[str, Mapping[str, str]], total: int) -> Iterator[DoctorCheck]:
    """Extensions that cannot be imported."""
    faults = [(room, name, why) for room, names in broken.items() for name, why in names.items()]
    if not faults:
        yield ok("extensions", f"all {total} extensions can be loaded")
    for room, name, why in faults:
        sentence = f"{room}: {name} is broken ({why})"
        next_step = "pip check   then reinstall the package that it comes from"
        yield warn(f"extension/{room}/{name}", sentence, next_step)


def frameworks(versions: Mapping[str, Mapping[str, str]]) -> Iterator[DoctorCheck]:
    """Frameworks that can run models, by backend; {} means not installed."""
    for backend, packages in versions.items():
        if backend == "null":
            continue
        if packages:
            listed = ", ".join(f"{name} {version}" for name, version in packages.items())
            yield ok(f"framework/{backend}", listed)
        else:
            yield absent(f"framework/{backend}", f"{backend} is not installed", install(backend))


# Accelerators.

BUSY = 0.02  # share of time with a kernel running from which a GPU counts as busy
SUSTAINED = 0.7  # share of the highest clock that boards hold under load; the vendor's base clock is near it


def gpus(devices: Sequence[Gpu]) -> Iterator[DoctorCheck]:
    """Each GPU of the machine: what it is, who else uses it, whether its clock can move."""
    for gpu in devices:
        if gpu.device:
            parts = [gpu.model, show(gpu.memory, "B") if gpu.memory else ""]
            parts += [f"driver {gpu.driver}" if gpu.driver else ""]
            parts += [f"power limit {show(gpu.power_limit, 'W')}" if gpu.power_limit else ""]
            parts += [f"{gpu.temperature:.0f} °C" if gpu.temperature else ""]
            yield ok(f"gpu/{gpu.index}", f"{gpu.device}: {', '.join(filter(None, parts))}")
            yield _neighbours(gpu)
            yield from _unsteady(gpu)
        else:
            sentence = f"GPU {gpu.index} ({gpu.model}) is hidden by CUDA_VISIBLE_DEVICES"
            yield absent(f"gpu/{gpu.index}", sentence)


def _neighbours(gpu: Gpu) -> DoctorCheck:
    name = f"gpu/{gpu.index}/others"
    busy = f", busy {gpu.busy:.0%} of the time" if gpu.busy is not None and gpu.busy >= BUSY else ""
    if gpu.others or busy:
        who = count(len(gpu.others), "other program") if gpu.others else "somebody"
        used = f", {show(gpu.memory_used, 'B')} in use" if gpu.memory_used else ""
        query = "--query-compute-apps=pid,name,used_memory --format=csv"
        sentence = f"{who} on {gpu.device}{busy}{used}"
        return warn(name, sentence, f"nvidia-smi -i {gpu.index} {query}")
    return ok(name, f"nobody else on {gpu.device}")


def _unsteady(gpu: Gpu) -> Iterator[DoctorCheck]:
    """Report what holds the GPU back now, or can make its clock move."""
    if gpu.throttles:
        sentence = f"{gpu.device} is held back now: {', '.join(gpu.throttles)}"
        next_step = f"nvidia-smi -i {gpu.index} -q -d PERFORMANCE,TEMPERATURE,POWER"
        yield warn(f"gpu/{gpu.index}/throttled", sentence, next_step)
    if gpu.clock is not None and gpu.max_clock is not None:
        steady = round(SUSTAINED * gpu.max_clock / 15e6) * 15  # boards step by 15 MHz
        now, most = f"{gpu.clock / 1e6:.0f} MHz now", f"up to {gpu.max_clock / 1e6:.0f}"
        next_step = f"sudo nvidia-smi -i {gpu.index} -lgc {steady}   (back: -rgc)"
        sentence = f"the clock of {gpu.device} may move ({now}, {most})"
        yield warn(f"gpu/{gpu.index}/clock", sentence, next_step)
    if gpu.persistent is False:
        sentence = f"the driver of {gpu.device} is set up anew by every program (persistence mode off)"
        yield warn(f"gpu/{gpu.index}/persistence", sentence, f"sudo nvidia-smi -i {gpu.index} -pm 1")


def framework_devices(
    devices: Sequence[Device], sync: Mapping[str, float], *, visible: Sequence[Gpu], version: str
) -> Iterator[DoctorCheck]:
    """Report the devices that torch sees, the cost of waiting for them, and GPUs that it does not see."""
    for name, seconds in sync.items():
        if name != "cpu":
            yield ok(f"sync/{name}", f"waiting for an idle {name} costs {show(seconds, 's')}")
    names = {device.name for device in devices}
    missing = [gpu for gpu in visible if gpu.device and gpu.device not in names]
    if missing and version:
        listed = ", ".join(f"{gpu.device} ({gpu.model})" for gpu in missing)
        yield warn(
            "framework/torch/devices",
            f"torch {version} does not see {listed}",
            "python -c 'import torch; torch.zeros(1).cuda()'   says why",
        )
