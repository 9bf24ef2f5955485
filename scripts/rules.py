"""Writes docs/rules.md from the docstrings of all rules; `--check` only tells whether it is fresh."""

from __future__ import annotations

import sys

import _pages

from laptime.kit.registry import load, names
from laptime.testing import examples
from laptime.testing.rules import section

HEADER = """# Rules

Every diagnosis that `laptime trace` and `laptime profile` can make: what it means, when it misleads, where
its thresholds come from, and what it says of a made-up profile with this fault. Written by `make docs` from
the code.

A finding's gain is an upper bound per step, computed from measured times, and never more than the step; its
evidence says how (`gain_is`). Severity is `problem` from 20 % of the step, `advice` from 2 %, else `info`; a
single step, or a fault on the device while something else limits the step, is at most `advice`.
"""


def page() -> str:
    """The whole page."""
    lines = [HEADER]
    for name in names("rules"):
        module = load("rules", name)
        finding = module.rule(examples.profiles()[f"fires {name}"])
        first = (module.__doc__ or "").strip().partition("\n\n")[0]
        lines += [f"## `{finding.kind}`\n", " ".join(first.split()) + "\n", f"> {finding.sentence}\n"]
        lines.append(
            f"**Change:** `{finding.change}`" if "(" in finding.change else f"**Change:** {finding.change}"
        )
        lines[-1] += f" (optimization `{finding.optimization}`)\n" if finding.optimization else "\n"
        lines.append(f"**Lies when:** {section(module, 'Lies when:')}\n")
        lines.append(f"**Source:** {section(module, 'Source:')}\n")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(_pages.run("rules", page, of="rules"))
