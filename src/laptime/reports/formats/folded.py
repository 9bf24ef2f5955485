"""The calls of a profile as collapsed stacks, for flamegraph.pl, inferno and others.

A line a stack: `host;THREAD;CALL;CALL NANOSECONDS`, and `device;THREAD;CALL;KERNEL NANOSECONDS` for what was
launched there: own times over all steps. Times of host and device run beside each other: take one of the two.
"""

from laptime.records.run import Run
from laptime.reports._words import plain
from laptime.reports.formats import refusal

NAME = "folded"
SUFFIXES: tuple[str, ...] = (".folded",)


def render(run: Run) -> str:
    """Lines of stacks. Raises UsageError: the run has no calls."""
    if run.profile is None or run.profile.calls is None:
        raise refusal(run, NAME, "the calls of a profile")
    tree, stacks = run.profile.calls, list[str]()
    for above, name in zip(tree.parent, tree.name_index, strict=True):
        text = plain(tree.names[name]).replace(";", ":")
        stacks.append(f"{stacks[above]};{text}" if above >= 0 else text)
    lines = []
    for side, own in {"host": tree.host_ns, "device": tree.device_ns}.items():
        lines += [f"{side};{stack} {ns}" for stack, ns in zip(stacks, own, strict=True) if ns]
    return "\n".join([*lines, ""])
