"""Operators that prepare samples take most of the wait for the loader, and can come out the same every time.

Lies when: the samples are drawn anew by other means than torch's generator (Python's random, numpy), or do
not fit into memory; or the program makes one epoch only. The tuner reads samples twice before it offers this.
Source: Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021; a tenth of the step
is our own threshold."""

import re

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import NOTABLE, loading, share, times

NEEDS = frozenset({"!beginning", "!server", "loader", "cpu"})
RANDOM = re.compile(
    r"aten::(rand(int|n|perm)?|bernoulli_?|normal_?|random_|multinomial|poisson|exponential_)(_like)?"
)
"""`uniform_` alone is none: transforms of a fixed width draw from a range without width."""


def rule(profile: Profile) -> Finding | None:
    """Name the operators, if nothing shows that they draw random numbers."""
    work = loading(profile)
    # Random numbers for every batch; a sampler draws once an epoch.
    often = (row for row in profile.operators if row.calls >= max(1, profile.overview.steps))
    if work is None or not work.preparing or any(RANDOM.fullmatch(row.name) for row in often):
        return None
    prepares = 1 - work.picking
    gain = work.waited * prepares
    if share(profile, gain) < NOTABLE:
        return None
    names = [row.name for row in work.preparing[:3]]
    return finding(
        profile,
        f"{', '.join(names)} ... prepare samples anew in every epoch: {times(profile, gain)} in the loader",
        gain_is="the wait for the loader, as far as its operators prepare samples: from the second epoch on",
        evidence={"operators": names, "share_of_loader": prepares},
        rows=[f"operators/{name}" for name in names],
        change="if nothing in it is random, cache what comes out the same: prepare every sample once, keep it"
        " in memory",
        optimization="cache_dataset",
        stack=work.preparing[0].stacks[0].frames,
        reaches={"data": gain},
    )
