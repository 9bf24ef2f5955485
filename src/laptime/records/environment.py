"""Where a run took place, and what `laptime doctor` says of it. Fields that could not be read are None, never
a guess."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct, structs

Amount = Annotated[float, msgspec.Meta(ge=0)]  # a number that is known; a stored NaN is refused


class Device(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An accelerator, or the CPU as the device it is for a framework.

    Attributes:
        name: as frameworks write it: cpu, cuda:0, mps.
        model: the vendor's name, "NVIDIA H200".
        memory: bytes of device memory.
        driver: driver version.
        details: compute capability, power limit (W), clocks (Hz), ..."""

    name: str
    model: str
    memory: int | None = None
    driver: str | None = None
    details: dict[str, Any] = {}


class Environment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Machine, limits, libraries and knobs that a measured speed depends on."""

    host: str  # machine name (left out of shared reports)
    os: str  # kernel and distribution
    python: str  # version
    cpu: str  # model name, as the machine tells it
    vcpus: int  # logical CPUs of the machine (hyperthreads counted)
    # physical cores of the machine; clouds' OCPU. None when the hypervisor hides it.
    physical_cores: int | None = None
    sockets: int | None = None  # CPU packages of the machine, as far as the system tells
    # what this process may use: affinity and cgroup quota together (fractions are possible)
    usable_cpus: Amount
    affinity: list[int] = []  # logical CPUs that this process may run on
    # what these are where they are some of the machine's: how many on how many cores, and their highest clock
    # where the machine has CPUs of several; "" otherwise
    cpu_kind: str = ""
    cpu_quota: Amount | None = None  # cgroup quota in CPUs, None without one
    isa: list[str] = []  # instruction sets that matter for speed: avx2 avx512f avx512_bf16 amx_bf16 ...
    memory: int  # bytes of RAM in the machine
    memory_limit: int | None = None  # cgroup limit in bytes, None without one
    virtual: str | None = None  # hypervisor's name where one was seen, "" on bare metal, None unknown
    # provider and shape, `aws:c5.xlarge`, as far as the mainboard's name (DMI) tells; None unknown
    cloud: str | None = None
    governor: str | None = None  # cpufreq governor, None when hidden
    turbo: bool | None = None  # whether turbo is on, None when hidden
    load: dict[str, float] = {}  # load average over 1 minute at the start, and other facts about neighbours
    devices: list[Device] = []  # accelerators and the CPU
    libraries: dict[str, str] = {}  # versions of what matters: torch, cuda, cudnn, numpy, laptime ...
    # effective settings: threads, TF32, cudnn.benchmark, matmul precision, determinism, environment
    knobs: dict[str, Any] = {}
    # hash over the sorted names and versions of all installed packages; not compared
    packages_sha256: str | None = None
    git: dict[str, Any] | None = None  # commit, dirty, of the folder the user works in

    def extend(
        self,
        devices: Iterable[Device] = (),
        libraries: Mapping[str, str] | None = None,
        knobs: Mapping[str, Any] | None = None,
    ) -> "Environment":
        """Add what a process that used the machine says of it; a device that is known stays as it is."""
        names = {device.name for device in self.devices}
        return structs.replace(
            self,
            devices=[*self.devices, *(device for device in devices if device.name not in names)],
            libraries={**self.libraries, **(libraries or {})},
            knobs={**self.knobs, **(knobs or {})},
        )

    @property
    def machine(self) -> str:
        """The host's name; "" for the id of a container, which is another one each time."""
        return "" if re.fullmatch(r"[0-9a-f]{12}|[0-9a-f]{64}", self.host) else self.host

    @property
    def hardware(self) -> str:
        """Short hash of what a speed depends on of the machine; equal on two machines of one kind."""
        return hashlib.sha256(_text(_hardware(self))).hexdigest()[:12]

    @property
    def fingerprint(self) -> str:
        """Short hash of hardware and conditions: equal in two runs that are compared unasked."""
        return hashlib.sha256(_text(_decisive(self))).hexdigest()[:12]


# Other fields say who and when, not how fast. docs/compare.md has the same as a table.

_PLACES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GOMP_CPU_AFFINITY")
"""Knobs that number devices or CPUs: how many there are counts, not which."""


def _hardware(environment: Environment) -> dict[str, Any]:
    return {
        "cpu": environment.cpu,
        "vcpus": environment.vcpus,
        "physical_cores": environment.physical_cores,
        "isa": environment.isa,
        "memory": _round_up(environment.memory, "GiB"),
        "virtual": environment.virtual,
        "devices": [
            " ".join(filter(None, (device.name, device.model, _round_up(device.memory, "GiB"))))
            for device in environment.devices
            if device.name != "cpu"
        ],
    }


def _conditions(environment: Environment) -> dict[str, Any]:
    quota, places = environment.cpu_quota, re.compile(r"[ ,]+")
    return {
        "os": re.sub(r"(\d+\.\d+)[\w.+-]*", r"\1", environment.os),
        "python": environment.python,
        "usable_cpus": round(float(environment.usable_cpus), 2),
        "cpu_kind": environment.cpu_kind,
        "cpu_quota": None if quota is None else round(float(quota), 2),
        "memory_limit": _round_up(environment.memory_limit, "MiB"),
        "governor": environment.governor,
        "turbo": environment.turbo,
        "drivers": {
            f"{device.name} {name}": value
            for device in environment.devices
            for name, value in {"driver": device.driver, **device.details}.items()
        },
        "libraries": environment.libraries,
        "knobs": {
            name: f"{len(places.split(str(value)))} of them" if value and name in _PLACES else value
            for name, value in environment.knobs.items()
        },
    }


def _round_up(amount: int | None, unit: Literal["GiB", "MiB"]) -> str | None:
    """Bytes in whole units, rounded up: kernels keep a little of what is built in, each another amount."""
    return None if amount is None else f"{-(-amount // (2**30 if unit == 'GiB' else 2**20))} {unit}"


def _decisive(environment: Environment) -> dict[str, Any]:
    """The fields that a measured speed depends on, as plain data. A driver, library or knob that could not be
    read (None) counts as not mentioned."""
    fields = {**_hardware(environment), **_conditions(environment)}
    for name, value in fields.items():
        if isinstance(value, dict):
            fields[name] = {key: setting for key, setting in value.items() if setting is not None}
    return fields


def _text(value: Any) -> bytes:
    """The text that is compared and hashed: True, 1 and 1.0 differ."""
    return msgspec.json.encode(value, order="sorted")


def differences(a: Environment, b: Environment) -> list[str]:
    """Differences that make two runs incomparable, one phrase each: `torch 2.14 and 2.15`.

    Empty exactly when the fingerprints are equal."""
    phrases = []
    left, right = _flat(_decisive(a)), _flat(_decisive(b))
    for name in dict.fromkeys((*left, *right)):
        ours, theirs = left.get(name), right.get(name)
        if _text(ours) != _text(theirs):
            phrases.append(f"{name} {_short(ours)} and {_short(theirs)}")
    return phrases


def distinctions(environments: Sequence[Environment]) -> list[list[str]]:
    """Return what sets each of several environments apart from the others: `machine ci-1`, `torch 2.15` ...

    A field is named where two of them differ in it, as what it is in each."""
    flat = [{"machine": environment.machine, **_flat(_decisive(environment))} for environment in environments]
    names = list(dict.fromkeys(name for fields in flat for name in fields))
    differing = [name for name in names if len({_text(fields.get(name)) for fields in flat}) > 1]
    return [[f"{name} {_short(fields.get(name))}" for name in differing] for fields in flat]


def _flat(fields: dict[str, Any]) -> dict[str, Any]:
    """Drivers, libraries and knobs by their own names, versions first."""
    groups = ("drivers", "libraries", "knobs")
    nested = {key: setting for group in groups for key, setting in fields[group].items()}
    named = {name.replace("_", " "): value for name, value in fields.items() if name not in groups}
    return {**nested, **named}


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value in (None, "") else str(value)


# The report of `laptime doctor`: its checks, and the numbers behind them.

SCHEMA = "laptime.doctor/1"
Outcome = Literal["ok", "warn", "none"]


class DoctorCheck(Struct, frozen=True):
    """One check of the machine, shown as a line."""

    name: str  # stable name for machines, `cpu/limit`
    outcome: Outcome  # ok; warn (it hurts measurements, `next` mends it); none (not there, or not to be read)
    sentence: str  # what was found, with its numbers
    next: str = ""  # the command that mends it


def ok(name: str, sentence: str) -> DoctorCheck:
    """Nothing to mend."""
    return DoctorCheck(name, "ok", sentence)


def warn(name: str, sentence: str, next: str) -> DoctorCheck:
    """It hurts measurements, and `next` mends it."""
    return DoctorCheck(name, "warn", sentence, next)


def absent(name: str, sentence: str, next: str = "") -> DoctorCheck:
    """Report a value that is not there, or cannot be read."""
    return DoctorCheck(name, "none", sentence, next)


class Rate(Struct, frozen=True, kw_only=True):
    """A measured peak of a device."""

    device: str
    kind: Literal["gemm", "copy"]  # gemm (dense matrix product) or copy (memory to memory on the device)
    dtype: str
    unit: str
    # FLOP/s of a product, B/s of a copy (bytes read and written); None when the device cannot
    value: float | None = None
    size: int | None = None
    ceiling: float | None = None  # what the hardware can do on paper, in the same unit; None unknown
    ceiling_source: str = ""  # datasheet or estimated
    reason: str = ""  # why there is no value


class NoiseFloor(Struct, frozen=True, kw_only=True):
    """A program against itself, interleaved, in fresh processes."""

    device: str
    workload: str
    smallest: float  # smallest relative difference that a comparison like this one shows 4 times in 5
    half_width: float  # half of the 95 % interval of the ratio
    seen: float  # the difference that was measured between the two equals
    # standard deviation between processes that was seen, as a share; None with one process
    between: float | None
    word: str  # same or unclear; faster or slower would be a false alarm
    pairs: int  # alternating pairs of blocks; `processes` fresh ones of each side; `seconds` in all
    processes: int
    seconds: float


class DoctorReport(Struct, frozen=True, kw_only=True):
    """Everything that the doctor measured and checked."""

    schema: str = SCHEMA
    laptime: str
    started: str
    seconds: float
    environment: Environment
    devices: list[Device] = []
    lines: list[DoctorCheck] = []  # in the order of reading, by topic
    timers: dict[str, dict[str, float]] = {}  # step and cost in seconds, by clock
    sync: dict[str, float] = {}  # seconds that waiting for an idle device takes, by device
    meters: list[dict[str, Any]] = []  # energy meters that work: name, device, covers, method, period
    # measured peaks; `rates_from` tells when they were measured, `rates_disturbed` that others used the
    # machine meanwhile (then they are too low, and not kept)
    rates: list[Rate] = []
    rates_from: str = ""
    rates_disturbed: bool = False
    noise: NoiseFloor | None = None  # the noise floor, None if it could not be measured
    steal: float | None = None  # share of the machine's CPU time that the hypervisor gave to others meanwhile

    @property
    def warnings(self) -> int:
        """How many lines warn."""
        return sum(line.outcome == "warn" for line in self.lines)
