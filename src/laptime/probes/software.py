"""The software around a measurement: libraries, settings in the environment, the state of the user's code."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from laptime.kit import __version__

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
KNOBS = tuple(_KNOBS.split())
"""Environment variables that change the speed or the results of a program."""


def knobs(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Those of `KNOBS` that are set. Of preloaded libraries only the names, not where they lie."""
    environ = os.environ if environ is None else environ
    values = {name: environ[name] for name in KNOBS if environ.get(name)}
    if preloaded := values.get("LD_PRELOAD"):
        values["LD_PRELOAD"] = " ".join(Path(part).name for part in preloaded.replace(":", " ").split())
    return values


def libraries() -> dict[str, str]:
    """Versions of laptime and numpy; frameworks add their own when they are loaded."""
    versions = {"laptime": __version__}
    if version := installed("numpy"):
        versions["numpy"] = version
    return versions


def installed(package: str) -> str | None:
    """Version of an installed package, without importing it."""
    try:
        return metadata.version(package)
    except (metadata.PackageNotFoundError, KeyError, ValueError):
        return None


def packages_sha256(path: Sequence[str] | None = None) -> str:
    """Hash over the sorted `name==version` lines of all installed packages, in less than a millisecond.

    Names and versions are those of the folders that installers write beside a package; none is opened.

    Args:
        path: folders to look in; None for those that this interpreter imports from.
    """
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

    Git takes no locks and runs no program that the repository's configuration names.
    """
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
