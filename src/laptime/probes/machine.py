"""The environment of a run: machine, limits, neighbours, libraries and knobs. What cannot be read is None."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from pathlib import Path

from laptime.kit import system_files
from laptime.probes import software
from laptime.probes.cloud import cloud
from laptime.probes.cpu import Cpu, cpu, sockets
from laptime.records.environment import Device, Environment

# Who makes a virtual machine says so in the mainboard's name (DMI), as systemd-detect-virt reads it.
_DMI_GUESTS = {
    "Amazon EC2": "amazon",
    "Google Compute Engine": "google",
    "OracleCloud": "oracle",
    "Alibaba Cloud": "alibaba",
    "OpenStack": "openstack",
    "KubeVirt": "kubevirt",
    "VMware": "vmware",
    "VirtualBox": "virtualbox",
    "innotek": "virtualbox",
    "Parallels": "parallels",
    "Apple Virtualization": "apple",
    "Xen": "xen",
    "Bochs": "bochs",
    "QEMU": "qemu",
    "KVM": "kvm",
}
_CLOCK_GUESTS = {"kvm": "kvm", "hyperv": "hyper-v", "xen": "xen"}


def environment(root: str = "/", *, folder: str | Path | None = None) -> Environment:
    """This machine and this process, in about 20 ms. Never raises.

    Accelerators and frameworks are added by those who load them.

    Args:
        root: where /proc and /sys are, for tests.
        folder: whose git state is told; None for the working directory.
    """
    processor = cpu(root)
    quota = system_files.cpu_quota(root)
    usable = float(len(processor.affinity) or processor.vcpus)
    memory = memory_total(root)
    return Environment(
        host=platform.node(),
        os=operating_system(root),
        python=f"{platform.python_version()} {platform.python_implementation()}",
        cpu=processor.model,
        vcpus=processor.vcpus,
        physical_cores=processor.physical_cores,
        sockets=sockets(root),
        usable_cpus=usable if quota is None else min(usable, quota),
        affinity=processor.affinity,
        cpu_quota=quota,
        isa=processor.isa,
        memory=memory,
        memory_limit=system_files.memory_limit(root),
        virtual=hypervisor(processor, root),
        cloud=cloud(root),
        governor=processor.governor,
        turbo=processor.turbo,
        load=load(root),
        devices=[Device(name="cpu", model=processor.model, memory=memory)],
        libraries=software.libraries(),
        knobs=dict(software.knobs()),
        packages_sha256=software.packages_sha256(),
        git=software.git_state(folder),
    )


def operating_system(root: str = "/") -> str:
    """Kernel and distribution: `Linux 6.8.0 · Ubuntu 24.04.1 LTS`."""
    base = Path(root)
    kernel = system_files.text(base / "proc/sys/kernel/osrelease") or platform.release()
    for line in (system_files.text(base / "etc/os-release") or "").splitlines():
        if line.startswith("PRETTY_NAME="):
            return f"{platform.system()} {kernel} · {line.partition('=')[2].strip().strip(chr(34))}"
    return f"{platform.system()} {kernel}"


def memory_total(root: str = "/") -> int:
    """Bytes of RAM in the machine."""
    if (total := system_files.size(Path(root) / "proc/meminfo", "MemTotal")) is not None:
        return total
    import psutil

    return int(psutil.virtual_memory().total)


def load(root: str = "/") -> dict[str, float]:
    """Load average over a minute, runnable threads now, share of 10 s in which something waited for a CPU.

    Only what the system tells: `average`, `runnable`, `pressure` (a share, 0 to 1).
    """
    base = Path(root)
    loads: dict[str, float] = {}
    words = (system_files.text(base / "proc/loadavg") or "").split()
    with suppress(ValueError, IndexError):
        loads["average"] = float(words[0])
        loads["runnable"] = float(words[3].partition("/")[0])
    if not loads and root == "/" and hasattr(os, "getloadavg"):
        loads["average"] = os.getloadavg()[0]
    waiting = (system_files.text(base / "proc/pressure/cpu") or "").split()
    with suppress(ValueError, IndexError):
        loads["pressure"] = float(waiting[1].removeprefix("avg10=")) / 100.0
    return loads


def hypervisor(processor: Cpu, root: str = "/") -> str | None:
    """Name of the hypervisor; "" on bare metal, "unnamed" when only its presence shows, None unknown."""
    base = Path(root)
    board = " ".join(
        system_files.text(base / "sys/class/dmi/id" / name) or ""
        for name in ("sys_vendor", "product_name", "board_vendor", "chassis_asset_tag")
    )
    if processor.guest is False or ".metal" in board:
        return ""
    if kind := system_files.text(base / "sys/hypervisor/type"):
        return kind
    named = next((name for sign, name in _DMI_GUESTS.items() if sign.lower() in board.lower()), None)
    if named is None and "Microsoft" in board and "Virtual Machine" in board:
        named = "hyper-v"
    if named is None:
        clocks = base / "sys/devices/system/clocksource/clocksource0/available_clocksource"
        sources = system_files.text(clocks) or ""
        named = next((name for sign, name in _CLOCK_GUESTS.items() if sign in sources), None)
    if named is None and processor.guest:
        return "unnamed"
    return named
