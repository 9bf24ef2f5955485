"""Fills the output block of README.md from a real run.

    .venv/bin/laptime tune --budget 9m --patch demo.laptime.patch -o demo.html examples/resnet18.py \\
        | python scripts/readme.py

What stands between `<!-- output:begin -->` and `<!-- output:end -->` is replaced by the text on stdin. Colour
codes and padding at the end of lines are taken out. What was not tried, and the suggested diff, are replaced
by `...`: they are long. Nothing else is changed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
BLOCK = re.compile(r"(<!-- output:begin -->\n).*?(<!-- output:end -->)", re.DOTALL)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LONG = re.compile(r"^  (not tried|ruled out) .*\n(?: {12}.*\n)*", re.MULTILINE)
SUGGESTED = re.compile(r"(?<=^Suggested, not applied\n)(?:(?:  .*)?\n)+?(?=\n\S)", re.MULTILINE)
LEFT_OUT = "  ...\n"


def shortened(output: str) -> str:
    """A session of `tune` without its longest parts; each stretch of them leaves one `...`."""
    found = SUGGESTED.sub(LEFT_OUT, LONG.sub(LEFT_OUT, output))
    return re.sub(rf"(?:{re.escape(LEFT_OUT)})+", LEFT_OUT, found)


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
    block = shortened(f"{plain}\n")
    return BLOCK.sub(lambda found: f"{found[1]}```text\n{block}```\n{found[2]}", readme)


def main() -> int:
    """Rewrite README.md in place."""
    README.write_text(filled(README.read_text(encoding="utf-8"), sys.stdin.read()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
