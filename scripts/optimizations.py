"""Writes docs/optimizations.md from the catalogue of `tune`; `--check` only tells whether it is fresh."""

from __future__ import annotations

import sys
from types import ModuleType

import _pages

from laptime.kit.registry import names
from laptime.testing.rules import section
from laptime.tuning.optimization import load

HEADER = """# Optimizations

Every change that `laptime tune` can try: what it does, how much it may change the results, what must hold,
and when it misleads. Written by `make docs` from the code; [tune.md](tune.md) says what the classes mean.
"""
TOGGLES = {
    "live": "flipped between two steps of one process",
    "process": "from the start of a process on",
}
SECTIONS = ("Lies when", "Risk", "Source")


def page() -> str:
    """The whole page: a table of all, then a section each."""
    known = {name: load(name) for name in names("optimizations")}
    lines = [HEADER, "| name | what it does | class |", "| --- | --- | --- |"]
    lines += [f"| [`{name}`](#{name}) | {own.TITLE} | {own.NUMERICS} |" for name, own in known.items()]
    for name, own in known.items():
        lines += ["", *_section(name, own)]
    return "\n".join(lines)


def _section(name: str, own: ModuleType) -> list[str]:
    first = (own.__doc__ or "").strip().partition("\n\n")[0]
    made = [f"## `{name}`\n", " ".join(first.split()) + "\n"]
    facts = [f"Class `{own.NUMERICS}`", TOGGLES[own.TOGGLE]]
    if own.NEEDS:
        facts.append("needs " + ", ".join(_fact(fact) for fact in sorted(own.NEEDS)))
    if own.GIVES:
        facts.append("gives " + ", ".join(_fact(fact) for fact in sorted(own.GIVES)))
    if own.CONFLICTS:
        facts.append("not with " + ", ".join(_fact(fact) for fact in sorted(own.CONFLICTS)))
    if own.SUGGESTS:
        facts.append("only suggested, never applied on its own")
    made.append("; ".join(facts) + ".\n")
    for word in SECTIONS:
        if text := section(own, f"{word}:"):
            made.append(f"**{word}:** {text}\n")
    return made


def _fact(name: str) -> str:
    return f"no `{name[1:]}`" if name.startswith("!") else f"`{name}`"


if __name__ == "__main__":
    sys.exit(_pages.run("optimizations", page, of="optimizations"))
