"""The machine's GPUs, asked as PerfZero does: a program of the driver's, no framework and no library."""

from __future__ import annotations

import shutil
import subprocess

from laptime.records.environment import Device

TIMEOUT = 20.0
_QUERY = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits")


def devices() -> list[Device]:
    """NVIDIA GPUs in the driver's order; none where the driver's program is missing or does not answer."""
    if shutil.which(_QUERY[0]) is None:
        return []
    try:
        done = subprocess.run(_QUERY, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    return parse(done.stdout) if done.returncode == 0 else []


def parse(text: str) -> list[Device]:
    """Devices from the program's lines `name, driver, MiB`; other lines are passed over."""
    devices: list[Device] = []
    for line in text.splitlines():
        name, driver, memory = ([part.strip() for part in line.split(",")] + ["", "", ""])[:3]
        if name and driver:
            devices.append(
                Device(
                    name=f"cuda:{len(devices)}",
                    model=name,
                    driver=driver,
                    memory=int(memory) * 2**20 if memory.isdigit() else None,
                )
            )
    return devices
