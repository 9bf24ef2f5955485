"""Some steps are much longer than the others.

Lies when: long steps are meant (validation, checkpoint, log), or lengths of samples differ.
Source: our own: half as long again as the median."""

from laptime.kit.units import show
from laptime.records.overview import Breakdown
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import WORTH, per_step, share

FACTOR = 1.5
ENOUGH = 4
_WORDS = {
    "kernel_ns": "kernels",
    "memcpy_ns": "copies",
    "memset_ns": "memsets",
    "communication_ns": "communication",
    "runtime_ns": "runtime calls",
    "dataloader_ns": "the DataLoader",
    "cpu_ns": "operators on the host",
    "other_ns": "nothing that the trace names (Python, or another program on this CPU)",
}
FRAMEWORKS = ("torch", "tensorflow")


def rule(profile: Profile) -> Finding | None:
    """Name the longest step, and which of its parts grew."""
    lengths = sorted(step.end_ns - step.start_ns for step in profile.steps)
    if len(lengths) < ENOUGH:
        return None
    median = lengths[(len(lengths) - 1) // 2]
    long = [step for step in profile.steps if step.end_ns - step.start_ns >= FACTOR * median]
    gain = per_step(profile, sum(step.end_ns - step.start_ns - median for step in long))
    if not long or median <= 0 or share(profile, gain) < WORTH:
        return None
    worst = max(long, key=lambda step: step.end_ns - step.start_ns)
    # The part of the breakdown that grew most over its median.
    names = Breakdown.__struct_fields__
    middle = (len(profile.steps) - 1) // 2
    usual = {name: sorted(getattr(s.breakdown, name) for s in profile.steps)[middle] for name in names}
    grown = max(names, key=lambda name: getattr(worst.breakdown, name) - usual[name])
    extra = getattr(worst.breakdown, grown) - usual[grown]
    warm = [step.number for step in long] == [step.number for step in profile.steps[: len(long)]]
    length = show((worst.end_ns - worst.start_ns) * 1e-9, "s")
    return finding(
        profile,
        f"{'the first ' if warm else ''}{len(long)} of {len(lengths)} steps"
        f" {'is' if len(long) == 1 else 'are'} at least {FACTOR:g} times as long as the median"
        f" ({show(median * 1e-9, 's')}); step {worst.number} takes {length},"
        f" {show(extra * 1e-9, 's')} of it more in {_WORDS[grown]}",
        gain=gain,
        gain_is="what long steps take beyond the median",
        # A few traced steps may differ by chance: `laptime profile` timed more without a trace.
        loud="advice" if profile.reconciled is None else "info",
        evidence={
            "steps": [step.number for step in long],
            "part": grown,
            "extra_ns": extra,
            "beyond_s_per_step": gain,
        },
        change="record later, when the program has warmed up: torch.profiler.schedule(wait=1, warmup=3,"
        " active=5)"
        if warm
        else "look at the long step in the timeline: checkpoint, log, garbage collection, first batch",
    )
