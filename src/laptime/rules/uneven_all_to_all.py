"""Ranks wait for one another in all_to_all: the work between two of them is dealt out unevenly.

Lies when: clocks of several machines were brought together by collectives that are skewed themselves.
Source: TraceLens's latency and skew of collectives; half of the time in all_to_all, four fifths of all
waiting
and 5 % of the step are our own thresholds."""

from collections import Counter

from laptime.kit.units import percent
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import DATA_WAIT, per_step, share, times
from laptime.rules._verdict import straggler

HALF, MOST = 0.5, 0.8
KINDS = ("all_to_all", "send_recv")


def rule(profile: Profile) -> Finding | None:
    """Say how much of it is waiting, and for whom. Several ranks only."""
    rows = [row for row in profile.collectives if row.name in KINDS]
    waiting, spent = sum(row.waiting_ns for row in rows), sum(row.duration_ns for row in rows)
    ranks = len(profile.ranks)
    if ranks < 2 or not rows or waiting < HALF * spent:
        return None
    if waiting < MOST * sum(row.waiting_ns for row in profile.collectives):
        return None  # straggler speaks of it
    late_rank = straggler(profile)
    if late_rank is not None and late_rank.why and "computes" not in late_rank.why:
        return None  # it comes late for another reason than what was sent to it
    gain = per_step(profile, waiting / ranks)
    if share(profile, gain) < DATA_WAIT:
        return None
    late = Counter[int]()
    for row in rows:
        late[row.last] += row.waiting_ns
    rank, caused = late.most_common(1)[0]
    return finding(
        profile,
        f"{percent(waiting / spent)} of the time in all_to_all is waiting, {percent(caused / waiting)} of it"
        f" for rank {rank}: {times(profile, gain)} on the mean rank",
        gain_is="waiting in all_to_all, the mean over the ranks that were read",
        loud="advice" if profile.overview.steps < 2 else None,
        evidence={"waiting_share": waiting / spent, "rank": rank, "caused_share": caused / waiting},
        rows=[f"ranks/{rank}"],
        change="even out what is sent: a capacity for each expert, an auxiliary balancing loss, or tables"
        " sharded by load",
        next=f"trace the file of rank {rank} --against that of another rank",
        reaches={"communication": gain},
    )
