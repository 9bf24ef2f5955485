"""Operators that prepare samples take most of the wait for the loader, and can come out the same every time.

Lies when: the samples are drawn anew by other means than torch's generator (Python's random, numpy), or do
not fit into memory; or the program makes one epoch only. The tuner reads samples twice before it offers this.
Source: Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021; a tenth of the step
is our own threshold.
"""

from __future__ import annotations

import re

from laptime.records.check import Finding
from laptime.records.profile import Profile
from laptime.records.tables import OperatorRow
from laptime.rules._evidence import finding
from laptime.rules._reading import NOTABLE, in_loader, marks, share, step, times, untraced_wait

NEEDS = frozenset({"!beginning", "!server", "loader", "cpu"})
ALONE = r"enumerate\(DataLoader\)#_SingleProcess"
"""A loader without workers: operators of workers are in no trace."""
RANDOM = re.compile(
    r"aten::(rand(int|n|perm)?|bernoulli_?|normal_?|random_|multinomial|poisson|exponential_)(_like)?"
)
"""`uniform_` alone is none: transforms of a fixed width draw from a range without width."""
HANDING = re.compile(
    r"aten::(select|slice|narrow|index|as_strided|unsqueeze|squeeze|view|reshape|expand|permute|stack|cat|alias|detach"
    r"|to|_to_copy|copy_|clone|empty\w*|item|_local_scalar_dense|resize_|lift_fresh|unbind)"
)
"""Operators that pick a sample and put a batch together: a cached sample needs them, too."""


def rule(profile: Profile) -> Finding | None:
    """Name the operators, where nothing shows that they draw random numbers."""
    part = untraced_wait(profile)
    waited = profile.overview.breakdown.dataloader_ns * 1e-9 if part is None else step(profile) * part
    rows = [(row, row.host_self_ns * in_loader(row)) for row in profile.operators]
    rows = sorted(((row, ns) for row, ns in rows if ns), key=lambda pair: -pair[1])
    preparing = [(row, ns) for row, ns in rows if not HANDING.fullmatch(row.name)]
    if not preparing or not marks(profile, ALONE) or any(_draws(profile, row) for row in profile.operators):
        return None
    prepares = sum(ns for _, ns in preparing) / sum(ns for _, ns in rows)
    gain = waited * prepares
    if share(profile, gain) < NOTABLE:
        return None
    names = [row.name for row, _ in preparing[:3]]
    return finding(
        profile,
        "recomputed-samples",
        f"{', '.join(names)} ... prepare samples anew in every epoch: {times(profile, gain)} in the loader",
        gain=gain,
        gain_is="the wait for the loader, as far as its operators prepare samples: from the second epoch on",
        evidence={"operators": names, "share_of_loader": prepares},
        rows=[f"operators/{name}" for name in names],
        change="if nothing in it is random, cache what comes out the same: prepare every sample once, keep it"
        " in memory",
        optimization="cache_dataset",
        stack=preparing[0][0].stacks[0].frames,
        reaches={"data": gain},
    )


def _draws(profile: Profile, row: OperatorRow) -> bool:
    """Whether random numbers are drawn for every batch; a sampler draws once an epoch."""
    return bool(RANDOM.fullmatch(row.name)) and row.calls >= max(1, profile.overview.steps)
