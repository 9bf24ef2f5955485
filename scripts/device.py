"""Tests and benchmarks of accelerators on a machine that may have nothing but python3 with torch.

    python3 scripts/device.py            run tests/device, then benchmarks/device but the long ones
    python3 scripts/device.py --only tune_ladder        the files with this in their name alone
    python3 scripts/device.py --fetch    on a machine with a package index: fill .whl/ for one without

Libraries that the machine lacks are installed from the folder .whl/, without any index, into .device-site/
beside it; the machine's own Python stays as it is. Nothing is measured where there is no accelerator: the
tests then say what they skipped.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

LONG = ("tune_ladder", "tune_model")
"""Benchmarks that fill a call of ten minutes by themselves: run when they are named."""
ROOT = Path(__file__).resolve().parent.parent
WHEELS = ROOT / ".whl"
SITE = ROOT / ".device-site"

# Module -> distribution, of what laptime and its device tests import. torch is the machine's own.
NEEDED = {
    "click": "click",
    "jinja2": "jinja2",
    "libcst": "libcst",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "psutil": "psutil",
    "pytest": "pytest",
    "pytest_timeout": "pytest-timeout",
    "rich": "rich",
    "yaml": "pyyaml",
}


def missing() -> list[str]:
    """Distributions that this interpreter cannot import."""
    return sorted(name for module, name in NEEDED.items() if importlib.util.find_spec(module) is None)


def fetch(python: str, machine: str) -> int:
    """Download Linux wheels of everything needed, for another Python and processor, into .whl/."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(WHEELS)]
    command += ["--only-binary", ":all:", "--python-version", python]
    for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014"):
        command += ["--platform", f"{tag}_{machine}"]
    command += ["-c", str(ROOT / "constraints.txt"), *sorted(NEEDED.values())]
    status = subprocess.run(command).returncode
    if status == 0:
        size = sum(file.stat().st_size for file in WHEELS.iterdir())
        print(f".whl: {len(list(WHEELS.glob('*.whl')))} wheels, {size / 2**20:.0f} MiB")
    return status


def install(names: list[str]) -> int:
    """Install distributions from .whl/ into .device-site/; 2 when there is no such folder."""
    if not WHEELS.is_dir():
        print(f"error: this Python has no {', '.join(names)}", file=sys.stderr)
        print("why:   and there is no folder .whl/ to install them from", file=sys.stderr)
        print(
            "next:  `make device-wheels` on a machine with a package index, then copy .whl/ here",
            file=sys.stderr,
        )
        return 2
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", str(WHEELS)]
    return subprocess.run([*command, "--upgrade", "--target", str(SITE), *names]).returncode


def describe() -> None:
    """One line about the interpreter, torch and the devices it sees."""
    code = (
        "import sys\n"
        "print('python', sys.version.split()[0], end=' ')\n"
        "try:\n"
        "    import torch\n"
        "except ImportError:\n"
        "    print('without torch: all device tests will be skipped')\n"
        "else:\n"
        "    n = torch.cuda.device_count()\n"
        "    seen = [torch.cuda.get_device_name(i) for i in range(n)]\n"
        "    seen += ['mps'] if torch.backends.mps.is_available() else []\n"
        "    print('torch', torch.__version__, 'on', ', '.join(seen) or 'no accelerator')\n"
    )
    subprocess.run([sys.executable, "-c", code], env=environment())


def environment() -> dict[str, str]:
    """This environment with src/ and .device-site/ in front of the module path."""
    paths = [str(ROOT / "src"), str(SITE), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def chosen(only: str) -> tuple[list[Path], list[Path]]:
    """Files of tests and of benchmarks to run."""
    tests = sorted((ROOT / "tests" / "device").glob("test_*.py"))
    scripts = sorted((ROOT / "benchmarks" / "device").glob("[!_]*.py"))
    if only:
        return [file for file in tests if only in file.stem], [file for file in scripts if only in file.stem]
    return tests, [file for file in scripts if file.stem not in LONG]


def run(only: str = "") -> int:
    """Run tests, then benchmarks; 1 when any of them failed, 2 when there are none of this name."""
    tests, scripts = chosen(only)
    if not tests and not scripts:
        print(f"error: no test or benchmark of accelerators has {only!r} in its name", file=sys.stderr)
        return 2
    os.environ["PYTHONPATH"] = environment()["PYTHONPATH"]
    sys.path.insert(1, str(SITE))  # an earlier call may have installed here
    lacking = missing()
    if lacking and (status := install(lacking)) != 0:
        return status
    describe()
    command = [sys.executable, "-m", "pytest", "-rs", "-v", *map(str, tests)]
    failed = ["tests/device"] if tests and subprocess.run(command, cwd=ROOT).returncode not in (0, 5) else []
    for script in scripts:
        print(f"\n--- benchmarks/device/{script.name}", flush=True)
        if subprocess.run([sys.executable, str(script)], cwd=ROOT).returncode != 0:
            failed.append(f"benchmarks/device/{script.name}")
    print(
        "failed: " + ", ".join(failed) if failed else "all device tests and benchmarks passed or were skipped"
    )
    return 1 if failed else 0


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fetch", action="store_true", help="fill .whl/ instead of running anything")
    parser.add_argument("--python", default="3.12", help="with --fetch: version of the other Python")
    parser.add_argument("--machine", default="x86_64", help="with --fetch: its processor")
    parser.add_argument("--only", default="", help="run the tests and benchmarks with this in their name")
    asked = parser.parse_args()
    return fetch(asked.python, asked.machine) if asked.fetch else run(asked.only)


if __name__ == "__main__":
    sys.exit(main())
