"""Where a run took place. Fields that could not be read are None, never a guess."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs


class Device(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An accelerator, or the CPU as the device it is for a framework.

    Attributes:
        name: as frameworks write it: cpu, cuda:0, mps.
        model: the vendor's name, "NVIDIA H200".
        memory: bytes of device memory.
        driver: driver version.
        details: compute capability, power limit (W), clocks (Hz), ...
    """

    name: str
    model: str
    memory: int | None = None
    driver: str | None = None
    details: dict[str, Any] = {}


class Environment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Machine, limits, libraries and knobs that a measured speed depends on.

    Attributes:
        host: machine name (left out of shared reports).
        os: kernel and distribution.
        python: version.
        cpu: model name, as the machine tells it.
        vcpus: logical CPUs of the machine (hyperthreads counted).
        physical_cores: physical cores of the machine; clouds' OCPU. None when the hypervisor hides it.
        sockets: CPU packages of the machine, as far as the system tells.
        usable_cpus: what this process may use: affinity and cgroup quota together (fractions are possible).
        affinity: logical CPUs that this process may run on.
        cpu_quota: cgroup quota in CPUs, None without one.
        isa: instruction sets that matter for speed: avx2 avx512f avx512_bf16 amx_bf16 ...
        memory: bytes of RAM in the machine.
        memory_limit: cgroup limit in bytes, None without one.
        virtual: hypervisor's name where one was seen, "" on bare metal, None unknown.
        cloud: provider and shape, `aws:c5.xlarge`, as far as the mainboard's name (DMI) tells; None unknown.
        governor: cpufreq governor, None when hidden.
        turbo: whether turbo is on, None when hidden.
        load: load average over 1 minute at the start, and other facts about neighbours.
        devices: accelerators and the CPU.
        libraries: versions of what matters: torch, cuda, cudnn, numpy, laptime ...
        knobs: effective settings: threads, TF32, cudnn.benchmark, matmul precision, determinism, environment.
        packages_sha256: hash over the sorted names and versions of all installed packages; not compared.
        git: commit, dirty, of the folder the user works in.
    """

    host: str
    os: str
    python: str
    cpu: str
    vcpus: int
    physical_cores: int | None = None
    sockets: int | None = None
    usable_cpus: float
    affinity: list[int] = []
    cpu_quota: float | None = None
    isa: list[str] = []
    memory: int
    memory_limit: int | None = None
    virtual: str | None = None
    cloud: str | None = None
    governor: str | None = None
    turbo: bool | None = None
    load: dict[str, float] = {}
    devices: list[Device] = []
    libraries: dict[str, str] = {}
    knobs: dict[str, Any] = {}
    packages_sha256: str | None = None
    git: dict[str, Any] | None = None

    def extended(
        self,
        devices: Iterable[Device] = (),
        libraries: Mapping[str, str] | None = None,
        knobs: Mapping[str, Any] | None = None,
    ) -> Environment:
        """With what a process that used the machine says of it; a device that is known stays as it is."""
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
    def fingerprint(self) -> str:
        """Short hash of all that must be equal before two runs are compared unasked."""
        return hashlib.sha256(_text(_decisive(self))).hexdigest()[:12]


# Who, where and when, not how fast: these may differ between compared runs. Sockets go with the CPU.
_ASIDE = ("host", "load", "git", "packages_sha256", "sockets", "cloud")


def _decisive(environment: Environment) -> dict[str, Any]:
    """The fields that a measured speed depends on, as plain data.

    They go through JSON first, so that a stored run equals the one in memory. A library or knob that could
    not be read (None) counts as not mentioned.
    """
    stored = msgspec.json.decode(msgspec.json.encode(environment), type=Environment)
    fields = {name: getattr(stored, name) for name in stored.__struct_fields__ if name not in _ASIDE}
    for name, value in fields.items():
        if isinstance(value, dict):
            fields[name] = {key: setting for key, setting in value.items() if setting is not None}
    return fields


def _text(value: Any) -> bytes:
    """The text that is compared and hashed: True, 1 and 1.0 differ."""
    return msgspec.json.encode(value, order="sorted")


def differences(a: Environment, b: Environment) -> list[str]:
    """Differences that make two runs incomparable, one phrase each: `torch 2.14 and 2.15`.

    Empty exactly when the fingerprints are equal.
    """
    phrases = []
    left, right = _decisive(a), _decisive(b)
    for name, ours in left.items():
        theirs = right[name]
        if _text(ours) == _text(theirs):
            continue
        if name == "devices":
            phrases.append("devices or drivers")
        elif isinstance(ours, dict):
            for key in sorted({*ours, *theirs}):
                if _text(ours.get(key)) != _text(theirs.get(key)):
                    phrases.append(f"{key} {ours.get(key)} and {theirs.get(key)}")
        else:
            phrases.append(f"{name.replace('_', ' ')} {ours} and {theirs}")
    return phrases


def distinctions(environments: Sequence[Environment]) -> list[list[str]]:
    """What sets each of several environments apart from the others: `machine ci-1`, `torch 2.15` ...

    A field is named where two of them differ in it, as what it is in each.
    """
    flat = [{"machine": each.machine, **_flat(_decisive(each))} for each in environments]
    names = list(dict.fromkeys(name for fields in flat for name in fields))
    differing = [name for name in names if len({_text(fields.get(name)) for fields in flat}) > 1]
    return [[f"{name} {_short(fields.get(name))}" for name in differing] for fields in flat]


def _flat(fields: dict[str, Any]) -> dict[str, Any]:
    """Libraries and knobs by their own names, versions first."""
    nested = {key: setting for name in ("libraries", "knobs") for key, setting in fields[name].items()}
    named = {
        name.replace("_", " "): value for name, value in fields.items() if name not in ("libraries", "knobs")
    }
    return {**nested, **named}


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_short(each) for each in value) or "none"
    if isinstance(value, Device):
        return " ".join(filter(None, [value.model, value.driver]))
    return "unknown" if value in (None, "") else str(value)
