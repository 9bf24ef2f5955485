"""Runs docs/tutorial.md from its first line to its last in a fresh folder; `--write` puts its outputs there.

A block of Python whose first line is `# NAME.py` becomes that file. Each line of a shell block runs, but for
a block under `<!-- shown only -->`; the text block behind it is what its commands print. A line passes
if it ends with an answer (exit code 0, 1, 3 or 5), writes the files that it names, and prints something where
the page shows something. Lines that need a patch are left out if the session found nothing to keep.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs/tutorial.md"
FILE = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
STEP = re.compile(
    r"(?P<skipped><!-- shown only -->\n)?^```sh\n(?P<lines>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
ANSWERS = (0, 1, 3, 5)
"""Yes, no, undecided, nothing to do."""


def output(line: str, folder: Path) -> tuple[str, str]:
    """What a line prints on stdout, and its fault: "" if it did what the page says."""
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100", "GIT_CEILING_DIRECTORIES": str(folder)}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    ended = subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, env=environment)
    wanted = r"-o (\S+)" if ended.returncode else r"(?:-o|--patch) (\S+)"  # undecided: there is no patch
    missing = [name for name in re.findall(wanted, line) if not (folder / name).is_file()]
    if ended.returncode not in ANSWERS or "Traceback" in ended.stderr:
        return ended.stdout, f"exit code {ended.returncode}\n{ended.stderr[-1500:]}"
    if missing:
        return ended.stdout, f"did not write {', '.join(missing)}"
    return ended.stdout, ""


def main(*words: str) -> int:
    """Run the page; 1 if a line does not do what it says."""
    page, faults = PAGE.read_text(encoding="utf-8"), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, code in FILE.findall(page):
            (folder / file).write_text(code, encoding="utf-8")

        def run(step: re.Match[str]) -> str:
            nonlocal faults
            if step["skipped"]:
                return step[0]
            printed = ""
            for line in step["lines"].splitlines():
                began = time.perf_counter()
                if re.search(r"\bfaster\.(patch|json)$", line) and not (folder / "faster.patch").exists():
                    print(f"left out: {line}   no patch was written", flush=True)
                    continue
                text, fault = output(line, folder)
                printed += text
                faults += bool(fault)
                print(f"{time.perf_counter() - began:5.1f} s  {line}   {fault or 'ok'}", flush=True)
            if step["output"] is None:
                return step[0]
            if not printed.strip():
                faults += 1
                print(f"nothing was printed by: {step['lines']}")
                return step[0]
            shown = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
            return f"```sh\n{step['lines']}```\n\n```text\n{shown}\n```\n"

        written = STEP.sub(run, page)
    if "--write" in words:
        PAGE.write_text(written, encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
