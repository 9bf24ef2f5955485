"""Writes docs/optimizations.md from the catalogue of `tune`; `--check` only tells whether it is fresh."""

from __future__ import annotations

import sys

import _pages

from laptime.kit import registry
from laptime.testing.rules import section
from laptime.tuning.optimization import Optimization, load

HEADER = """# Optimizations

Every change that `laptime tune` can try: what it does, how much it may change the results, what must hold,
and when it misleads. Written by `make docs` from the code; [tune.md](tune.md) says what the classes mean.
"""
LIVE, FROM_THE_START = "flipped between two steps of one process", "from the start of a process on"
SECTIONS = ("Lies when", "Risk", "Source")


def page() -> str:
    """The whole page: a table of all, then a section each."""
    known = {name: load(name) for name in registry.names("optimizations")}
    lines = [HEADER, "| name | what it does | class |", "| --- | --- | --- |"]
    lines += [f"| [`{name}`](#{name}) | {own.title} | {own.numerics} |" for name, own in known.items()]
    for name, own in known.items():
        lines += ["", *_section(name, own)]
    return "\n".join(lines)


def _section(name: str, own: Optimization) -> list[str]:
    module = registry.load("optimizations", name)
    first = (module.__doc__ or "").strip().partition("\n\n")[0]
    made = [f"## `{name}`\n", " ".join(first.split()) + "\n"]
    facts = [f"Class `{own.numerics}`", LIVE if own.live else FROM_THE_START]
    if own.needs:
        facts.append("needs " + ", ".join(_fact(fact) for fact in sorted(own.needs)))
    if own.given_facts:
        facts.append("gives " + ", ".join(_fact(fact) for fact in sorted(own.given_facts)))
    if own.conflicts:
        facts.append("not with " + ", ".join(_fact(fact) for fact in sorted(own.conflicts)))
    if own.suggests:
        facts.append("only suggested, never applied on its own")
    made.append("; ".join(facts) + ".\n")
    for word in SECTIONS:
        if text := section(module, f"{word}:"):
            made.append(f"**{word}:** {text}\n")
    return made


def _fact(name: str) -> str:
    return f"no `{name[1:]}`" if name.startswith("!") else f"`{name}`"


if __name__ == "__main__":
    sys.exit(_pages.run("optimizations", page, of="optimizations"))
