from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

HEAVY = {"numpy", "torch", "torchvision", "timm", "rich", "jinja2", "msgspec", "psutil"}


def _imported_by(*arguments: str) -> set[str]:
    program = f"""
import io, json, sys
from laptime.apps.cli.main import run
stdout, sys.stdout = sys.stdout, io.StringIO()
code = run({list(arguments)!r})
print(json.dumps([code, sorted({{name.partition('.')[0] for name in sys.modules}})]), file=stdout)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    code, modules = json.loads(done.stdout)
    assert code in (0, 2, 3)
    return set(modules)


@pytest.mark.parametrize("arguments", [["--help"], [], ["--version"], ["bnech"]])
def test_front_door_imports_nothing_heavy(arguments: list[str]) -> None:
    assert _imported_by(*arguments) & HEAVY == set()


def test_commands_import_no_framework() -> None:
    for arguments in (["bench", "--help"], ["list"], ["show", "--help"], ["compare", "--help"],
                      ["check", "--help"], ["history", "--help"], ["import", "--help"]):  # fmt: skip
        assert _imported_by(*arguments) & {"torch", "torchvision", "timm"} == set(), arguments


def test_a_measurement_imports_what_it_needs_alone() -> None:
    """It is a part of a short budget; loops of asyncio are for programs that return coroutines."""
    line = ["bench", "null:spin=100us", "--budget", "200ms", "--preset", "quick", "--no-save"]
    assert _imported_by(*line) & {"asyncio", "torch", "jinja2", "libcst", "unittest"} == set()


def _cpu_seconds(*arguments: str) -> float:
    """CPU time of the leanest of some starts. It starts one thread, so on an idle machine this is the wall
    time; on a busy one it leaves the neighbours out."""
    found = []
    for _ in range(7):
        process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        found.append(used.ru_utime + used.ru_stime)
    return min(found)


def test_start_up_stays_a_small_multiple_of_the_bare_interpreters() -> None:
    """In units of its own start, since guests have several speeds. Milliseconds: benchmarks/startup.py."""
    bare = _cpu_seconds("-c", "pass")
    assert _cpu_seconds("-m", "laptime", "--help") < 12 * bare
    assert _cpu_seconds("-c", "import laptime") < 5 * bare
