"""Fills the output block of README.md from a real run.

    .venv/bin/laptime bench torchvision:efficientnet_b0 --batch 1,8 | python scripts/readme.py

What stands between `<!-- output:begin -->` and `<!-- output:end -->` is replaced by the text on stdin;
colour codes and the end of long lines' padding are taken out, nothing else is changed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCK = re.compile(r"(<!-- output:begin -->\n).*?(<!-- output:end -->)", re.DOTALL)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def filled(readme: str, output: str) -> str:
    """The README with this output in its block.

    Raises:
        ValueError: the README has no such block, or there is no output.
    """
    plain = "\n".join(line.rstrip() for line in COLOUR.sub("", output).strip("\n").splitlines())
    if not plain:
        raise ValueError("nothing came in on stdin")
    if not BLOCK.search(readme):
        raise ValueError("README.md has no output:begin ... output:end block")
    return BLOCK.sub(lambda found: f"{found[1]}```text\n{plain}\n```\n{found[2]}", readme)


def main() -> int:
    """Rewrite README.md in place."""
    README.write_text(filled(README.read_text(encoding="utf-8"), sys.stdin.read()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
