"""The environment of a run: machine, limits, neighbours, libraries and knobs. What cannot be read is None.

Which cloud this machine is of: what its mainboard's name (DMI) tells, read from /sys; no network.

Amazon writes the instance type into the product's name; the others tell the provider alone.

Source: systemd's src/basic/virt.c for the vendors' names; cloud-init's ds-identify for the chassis asset tags
of OCI and Azure."""

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from laptime.kit import __version__, system_files
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
    """This machine and this process, in about 20 ms. Never raises. folder: whose git state is told; None for
    the working directory. Accelerators and frameworks are added by those who load them."""
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
        cpu_kind=processor.kind,
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
        libraries=libraries(),
        knobs=dict(knobs()),
        packages_sha256=packages_sha256(),
        git=git_state(folder),
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
    if (total := system_files.size(Path(root) / "proc/meminfo", "MemTotal")) is not None:
        return total
    import psutil

    return int(psutil.virtual_memory().total)


def load(root: str = "/") -> dict[str, float]:
    """Load average over a minute, runnable threads now, share of 10 s in which something waited for a CPU.

    Only what the system tells: `average`, `runnable`, `pressure` (a share, 0 to 1)."""
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


# Which cloud it is of.


AZURE_TAG = "7783-7084-3265-9085-8269-3286-77"


def cloud(root: str = "/") -> str | None:
    """`aws:c5.xlarge`, or `oci:`, `gcp:`, `azure:` if only the provider is told; None if nothing is."""
    folder = Path(root) / "sys/class/dmi/id"
    names = ("sys_vendor", "product_name", "chassis_asset_tag", "bios_vendor")
    vendor, product, tag, bios = (system_files.text(folder / name) or "" for name in names)
    if vendor.startswith("Amazon EC2") or bios.startswith("Amazon EC2"):
        return f"aws:{product if '.' in product else ''}"
    if tag.startswith("OracleCloud"):
        return "oci:"
    if tag == AZURE_TAG:
        return "azure:"
    return "gcp:" if product.startswith("Google Compute Engine") else None


# The software: libraries, settings in the environment, the state of the user's code.


_KNOBS = """
OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS NUMEXPR_NUM_THREADS OMP_PROC_BIND OMP_PLACES
OMP_WAIT_POLICY OMP_DYNAMIC GOMP_CPU_AFFINITY KMP_AFFINITY KMP_BLOCKTIME KMP_HW_SUBSET MKL_DYNAMIC MKL_CBWR
MKL_ENABLE_INSTRUCTIONS DNNL_MAX_CPU_ISA ONEDNN_MAX_CPU_ISA ATEN_CPU_CAPABILITY
CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_LAUNCH_BLOCKING CUDA_MODULE_LOADING CUBLAS_WORKSPACE_CONFIG
NVIDIA_TF32_OVERRIDE TORCH_ALLOW_TF32_CUBLAS_OVERRIDE PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF
PYTORCH_NO_CUDA_MEMORY_CACHING PYTORCH_ENABLE_MPS_FALLBACK TORCH_COMPILE_DISABLE TORCHDYNAMO_DISABLE
TORCHINDUCTOR_MAX_AUTOTUNE TORCHINDUCTOR_FREEZING HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES
PYTHONMALLOC PYTHONOPTIMIZE PYTHONHASHSEED PYTHON_GIL MALLOC_ARENA_MAX MALLOC_CONF MALLOC_TRIM_THRESHOLD_
GLIBC_TUNABLES LD_PRELOAD
"""
KNOBS = tuple(_KNOBS.split())  # environment variables that change the speed or the results of a program


def knobs(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return those of `KNOBS` that are set. Of preloaded libraries only the names, not where they lie."""
    environ = os.environ if environ is None else environ
    values = {name: environ[name] for name in KNOBS if environ.get(name)}
    if preloaded := values.get("LD_PRELOAD"):
        values["LD_PRELOAD"] = " ".join(Path(part).name for part in preloaded.replace(":", " ").split())
    return values


def libraries() -> dict[str, str]:
    """Versions of laptime and numpy; frameworks add their own when they are loaded."""
    versions = {"laptime": __version__}
    if version := find_version("numpy"):
        versions["numpy"] = version
    return versions


_version = cache(metadata.version)  # parses a file; what is not installed raises, and is asked for again


def find_version(package: str) -> str | None:
    """Version of an installed package, without importing it."""
    with suppress(metadata.PackageNotFoundError, KeyError, ValueError):
        return _version(package)
    return None


def packages_sha256(path: Sequence[str] | None = None) -> str:
    """Hash over the sorted `name==version` lines of all installed packages, in less than a millisecond.

    Names and versions are those of the folders that installers write beside a package; none is opened. path:
    folders to look in; None for those that this interpreter imports from."""
    lines = set()
    for folder in sys.path if path is None else path:
        with suppress(OSError):  # a zip file, or not there
            for entry in Path(folder).iterdir():
                if entry.suffix in (".dist-info", ".egg-info"):
                    name, _, version = entry.stem.partition("-")
                    lines.add(f"{name.lower().replace('_', '-')}=={version}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def git_state(folder: str | Path | None = None, *, timeout: float = 1.0) -> dict[str, Any] | None:
    """Commit, branch and whether tracked files were changed; None outside a repository or without git.

    Git takes no locks and runs no program that the repository's configuration names."""
    command = ["git", "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch"]
    command += ["--untracked-files=no", "--ignore-submodules=all"]
    environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        run = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False, env=environ
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if run.returncode != 0:
        return None
    state: dict[str, Any] = {"commit": None, "branch": None, "dirty": False}
    for line in run.stdout.splitlines():
        if line.startswith("# branch.oid "):
            commit = line.split()[-1]
            state["commit"] = None if commit == "(initial)" else commit
        elif line.startswith("# branch.head "):
            state["branch"] = line.split(maxsplit=2)[-1]
        elif not line.startswith("#"):
            state["dirty"] = True
    return state
