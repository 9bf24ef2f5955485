"""What `doctor` says of the host: facts in, lines out. Every warning ends with the command that mends it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.probes.energy import Absence, Meter, shortest_window
from laptime.probes.neighbours import Program
from laptime.probes.scheduler import Reading
from laptime.probes.wall import Timer
from laptime.records.doctor import Line
from laptime.records.environment import Environment

NOTABLE_STEAL = 0.005
"""Share of CPU time from which on the hypervisor's other guests show in the numbers."""
NOTABLE_LOAD = 0.1
"""CPUs that others may use before it is worth a warning: a desktop's background is a few hundredths."""
LITTLE_MEMORY = 2 * 2**30
SLOW_CLOCK = 0.5e-6
"""Seconds of one reading from which on the clock is no processor's counter, but a device behind a bus."""

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


def cpus(environment: Environment) -> list[Line]:
    """How many CPUs there are, and how many of them may be used."""
    lines = [_counted(environment), *_instructions(environment)]
    total, usable = environment.vcpus, environment.usable_cpus
    quota = environment.cpu_quota
    if quota is not None and quota <= usable and quota < total:
        sentence = f"the container limits this process to {quota:g} of {total} CPUs"
        if quota != int(quota):
            sentence += ": a share of a CPU is given by stopping threads in between"
        more = f"docker run --cpus {total} ...   or kubectl: resources.limits.cpu"
        lines.append(Line(name="cpu/quota", outcome="warn", sentence=sentence, next=more))
    elif len(environment.affinity) < total and environment.affinity:
        sentence = f"this process may run on {len(environment.affinity)} of {total} CPUs (affinity)"
        lines.append(
            Line(
                name="cpu/affinity",
                outcome="warn",
                sentence=sentence,
                next=f"taskset -c 0-{total - 1} laptime ...",
            )
        )
    else:
        lines.append(Line(name="cpu/limit", outcome="ok", sentence=f"all {total} CPUs may be used"))
    return lines


def _counted(environment: Environment) -> Line:
    cores, total = environment.physical_cores, environment.vcpus
    if cores is None:
        hidden = "the hypervisor hides" if environment.virtual else "the system does not tell"
        sentence = f"{count(total, 'vCPU')}; {hidden} how many physical cores that is"
        return Line(name="cpu/cores", outcome="none", sentence=sentence)
    of = "each with its own core" if cores == total else f"on {count(cores, 'physical core')} (OCPU)"
    return Line(name="cpu/cores", outcome="ok", sentence=f"{count(total, 'vCPU')} {of}")


def _instructions(environment: Environment) -> list[Line]:
    fast = [name for name in environment.isa if name in _FAST] or environment.isa[-1:]
    if not fast:
        return []
    return [Line(name="cpu/isa", outcome="ok", sentence=f"fast instructions: {', '.join(fast)}")]


def memory(environment: Environment, available: int, *, exact_peak: bool) -> list[Line]:
    """Memory, its limit, and whether a peak can be measured exactly."""
    limit = environment.memory_limit
    of = f"{show(environment.memory, 'B')} memory"
    if limit is not None and limit < environment.memory:
        of = f"{show(limit, 'B')} of {show(environment.memory, 'B')} memory (container limit)"
    sentence = f"{of}, {show(available, 'B')} free to use"
    if available < LITTLE_MEMORY:
        more = "docker run --memory 16g ..." if limit else "ps -eo pid,rss,comm --sort -rss | head"
        lines = [Line(name="memory", outcome="warn", sentence=sentence, next=more)]
    else:
        lines = [Line(name="memory", outcome="ok", sentence=sentence)]
    if not exact_peak:
        sentence = "the exact peak of host memory cannot be reset here: peaks are upper bounds"
        lines.append(Line(name="memory/peak", outcome="none", sentence=sentence))
    return lines


def clocks(environment: Environment, *, vendor: str, battery: bool | None) -> list[Line]:
    """Governor, turbo and battery: what lets the CPU's clock move."""
    lines = []
    if environment.governor is None:
        why = "hidden by the hypervisor" if environment.virtual else "not told by this system"
        lines.append(Line(name="cpu/governor", outcome="none", sentence=f"CPU clock governor {why}"))
    elif environment.governor != "performance":
        sentence = f"CPU clock governor is {environment.governor}: the clock rises only under load"
        next_step = "sudo cpupower frequency-set -g performance"
        lines.append(Line(name="cpu/governor", outcome="warn", sentence=sentence, next=next_step))
    else:
        lines.append(Line(name="cpu/governor", outcome="ok", sentence="CPU clock governor is performance"))
    if environment.turbo:
        sentence = "turbo is on: the clock depends on heat and on what other cores do"
        next_step = _NO_TURBO.get(vendor, _NO_TURBO["AuthenticAMD"])
        lines.append(Line(name="cpu/turbo", outcome="warn", sentence=sentence, next=next_step))
    elif environment.turbo is False:
        lines.append(Line(name="cpu/turbo", outcome="ok", sentence="turbo is off: the clock is steady"))
    if battery:
        sentence = "the machine runs on its battery and saves power"
        next_step = "plug it in   (check: cat /sys/class/power_supply/*/online)"
        lines.append(Line(name="power/battery", outcome="warn", sentence=sentence, next=next_step))
    return lines


def others(running: Sequence[Program], environment: Environment) -> Line:
    """Other programs that use the CPU."""
    total = sum(program.cpus for program in running)
    if total < NOTABLE_LOAD:
        return Line(name="load", outcome="ok", sentence=f"nobody else uses the CPUs ({total:.2f} of a CPU)")
    named = ", ".join(f"{p.name} ({p.pid}) {p.cpus:.0%}" for p in running[:3])
    more = f" and {len(running) - 3} more" if len(running) > 3 else ""
    busy = [p for p in running[:3] if p.cpus >= NOTABLE_LOAD / 2] or running[:3]
    pids = " ".join(str(p.pid) for p in busy)
    return Line(
        name="load",
        outcome="warn",
        sentence=f"others use {total:.1f} of {environment.vcpus} CPUs: {named}{more}",
        next=f"kill -STOP {pids}   (later: kill -CONT {pids})",
    )


def stolen(before: Reading, after: Reading, seconds: float, environment: Environment) -> list[Line]:
    """What the hypervisor and the container's quota took while the doctor looked."""
    lines = []
    share = steal_share(before, after, seconds, environment)
    if share is None:
        lines.append(Line(name="cpu/steal", outcome="none", sentence="stolen CPU time is not told here"))
    elif share > NOTABLE_STEAL:
        lines.append(
            Line(
                name="cpu/steal",
                outcome="warn",
                sentence=f"the hypervisor gave {share:.1%} of the CPU time to others during {seconds:.0f} s",
                next="laptime bench ... --preset strict   (or rent a machine with dedicated cores)",
            )
        )
    else:
        lines.append(
            Line(name="cpu/steal", outcome="ok", sentence=f"no CPU time was stolen during {seconds:.0f} s")
        )
    if before.throttled_s is not None and after.throttled_s is not None:
        throttled = after.throttled_s - before.throttled_s
        if throttled > 0:
            sentence = f"the container's CPU quota stopped its programs for {show(throttled, 's')}"
            next_step = f"laptime bench ... --threads {max(1, math.floor(environment.usable_cpus))}"
            lines.append(Line(name="cpu/throttled", outcome="warn", sentence=sentence, next=next_step))
    return lines


def steal_share(before: Reading, after: Reading, seconds: float, environment: Environment) -> float | None:
    """Stolen CPU time as a share of what all CPUs had; None where it is not told."""
    if before.stolen_s is None or after.stolen_s is None or seconds <= 0:
        return None
    return (after.stolen_s - before.stolen_s) / (seconds * environment.vcpus)


def timing(clocks_found: Sequence[Timer], source: str | None, evidence: Reading, cost: float) -> list[Line]:
    """How fine time can be read, and what evidence of disturbance there is."""
    wall = clocks_found[0]
    sentence = f"timer steps {show(wall.step, 's')} and costs {show(wall.cost, 's')} to read"
    if wall.cost > SLOW_CLOCK:
        slow = Line(
            name="timer",
            outcome="warn",
            sentence=f"{sentence}: the kernel's clock is {source or 'slow'}",
            next="echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
        return [slow, *_evidence(evidence, cost)]
    return [Line(name="timer", outcome="ok", sentence=sentence), *_evidence(evidence, cost)]


def _evidence(evidence: Reading, cost: float) -> list[Line]:
    names = ("waiting for a CPU", "stolen time", "quota stops", "context switches")
    readable = [name for name, value in zip(names, evidence, strict=True) if value is not None]
    blind = [name for name, value in zip(names, evidence, strict=True) if value is None]
    lines = []
    if readable:
        sentence = f"disturbances are seen: {', '.join(readable)}; {show(cost, 's')} a reading"
        lines.append(Line(name="evidence", outcome="ok", sentence=sentence))
    if blind:
        lines.append(
            Line(name="evidence/missing", outcome="none", sentence=f"not told here: {', '.join(blind)}")
        )
    return lines


def energy(meters: Sequence[Meter], absent: Mapping[str, Absence]) -> list[Line]:
    """Meters that work, and why others do not; a warning only where a command would help."""
    lines = []
    for meter in meters:
        window = shortest_window([meter])
        how = "energy counter" if meter.method == "counter" else "power, integrated"
        sentence = f"{how} of {meter.covers} updates every {show(meter.period, 's')}"
        if window >= 0.5:
            sentence += f": energy needs windows of {window:g} s and more"
        lines.append(Line(name=f"energy/{meter.name}", outcome="ok", sentence=sentence))
    hopeless = [absence.why for absence in absent.values() if not absence.next]
    for name, absence in absent.items():
        if absence.next:
            sentence = f"no energy readings: {absence.why}"
            lines.append(Line(name=f"energy/{name}", outcome="warn", sentence=sentence, next=absence.next))
    if hopeless:
        what = "no other energy readings" if meters else "no energy readings"
        sentence = f"{what}: {'; '.join(hopeless)}"
        lines.append(Line(name="energy/none", outcome="none", sentence=sentence))
    return lines


def settings(environment: Environment) -> list[Line]:
    """Variables in the environment, and thread counts, that slow everything down."""
    lines = []
    for name, effect in _HARMFUL.items():
        if environment.knobs.get(name, "0") not in ("", "0"):
            sentence = f"{name} is set: {effect}"
            lines.append(Line(name=f"knob/{name}", outcome="warn", sentence=sentence, next=f"unset {name}"))
    threads = environment.knobs.get("torch.num_threads")
    usable = environment.usable_cpus
    if isinstance(threads, int) and threads > math.ceil(usable):
        few = max(1, math.floor(usable))
        sentence = f"torch takes {threads} threads for {usable:g} usable CPUs: they get into each other's way"
        lines.append(
            Line(name="knob/threads", outcome="warn", sentence=sentence, next=f"export OMP_NUM_THREADS={few}")
        )
    return lines


def extensions(broken: Mapping[str, Mapping[str, str]], total: int) -> list[Line]:
    """Extensions that cannot be imported."""
    faults = [(room, name, why) for room, names in broken.items() for name, why in names.items()]
    if not faults:
        return [Line(name="extensions", outcome="ok", sentence=f"all {total} extensions can be loaded")]
    return [
        Line(
            name=f"extension/{room}/{name}",
            outcome="warn",
            sentence=f"{room}: {name} is broken ({why})",
            next="pip check   then reinstall the package that it comes from",
        )
        for room, name, why in faults
    ]


def frameworks(versions: Mapping[str, Mapping[str, str]]) -> list[Line]:
    """Frameworks that can run models, by backend; {} means not installed."""
    lines = []
    for backend, packages in versions.items():
        if backend == "null":
            continue
        if packages:
            listed = ", ".join(f"{name} {version}" for name, version in packages.items())
            lines.append(Line(name=f"framework/{backend}", outcome="ok", sentence=listed))
        else:
            lines.append(
                Line(
                    name=f"framework/{backend}",
                    outcome="none",
                    sentence=f"{backend} is not installed",
                    next=f"pip install 'laptime[{backend}]'",
                )
            )
    return lines
