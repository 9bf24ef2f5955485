"""Writes constraints.txt: name==version of everything in .venv, and nothing else.

Run it after an upgrade that passed `make check` and `make test-all`. The file holds no addresses and
no hashes, so it works with whatever package index the user has configured.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"[A-Za-z0-9._-]+==[^\s@;]+")
LEFT_OUT = ("laptime", "pip")  # ourselves; and pip, which comes with the interpreter
HEADER = "# Tested together. Written by scripts/pin.py; change pyproject.toml first, then run it.\n"


def pins(frozen: str) -> list[str]:
    """The `name==version` lines of a freeze; editable installs and direct addresses are no pins."""
    lines = (line.strip() for line in frozen.splitlines())
    return sorted(line for line in lines if PIN.fullmatch(line) and line.split("==")[0] not in LEFT_OUT)


def main() -> int:
    """Freeze .venv into constraints.txt; 2 without one."""
    uv, python = ROOT / ".venv/bin/uv", ROOT / ".venv/bin/python"
    if not uv.exists():
        print(
            "error: .venv has no uv\nwhy:   there is no environment to pin yet\nnext:  make install",
            file=sys.stderr,
        )
        return 2
    command = [str(uv), "pip", "freeze", "-p", str(python)]
    frozen = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = pins(frozen)
    (ROOT / "constraints.txt").write_text(HEADER + "\n".join(found) + "\n", encoding="utf-8")
    print(f"constraints.txt: {len(found)} pins")
    return 0


if __name__ == "__main__":
    sys.exit(main())
