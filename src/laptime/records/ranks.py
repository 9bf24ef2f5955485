"""Several files that are the ranks of one job."""

from __future__ import annotations

from msgspec import Struct

from laptime.records.overview import Breakdown, DeviceUse


class RankRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rank on one line.

    Attributes:
        compute_ns, communication_ns, exposed_communication_ns, idle_ns: over the window of its steps.
        waiting_ns: part of its collectives spent waiting for later ranks; transfer_ns: the rest. None when
            the collectives of the ranks could not be matched.
        last_arrivals: collectives that it was the last to reach.
        clock_offset_ns: added to its times to bring the ranks onto one clock.
    """

    rank: int
    file: str
    steps: int
    step_ns: int
    breakdown: Breakdown
    devices: list[DeviceUse] = []
    compute_ns: int = 0
    communication_ns: int = 0
    exposed_communication_ns: int = 0
    idle_ns: int = 0
    data_wait_ns: int = 0
    waiting_ns: int | None = None
    transfer_ns: int | None = None
    last_arrivals: int | None = None
    clock_offset_ns: int = 0


class CollectiveRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One collective on all ranks (the n-th of its group), in time order.

    Attributes:
        name: all_reduce, all_to_all, ...; kernel: name of the kernel where only that is known.
        ranks: that took part and have a file here. group_size: as the file says.
        start_ns: of the first arriver, since the first event of the rank that began first.
        latency_ns: the shortest duration over ranks: what the transfer takes once everybody is there.
        skew_ns: last start - first start. last, first: ranks.
        waiting_ns: sum over ranks of duration - latency. duration_ns: sum over ranks of durations.
        bytes: size of the message as nccl-tests count it (the larger of what a rank gives and gets), None
            unknown. algorithm_bandwidth, bus_bandwidth: bytes/s during latency_ns, as nccl-tests define.
    """

    name: str
    group: str = ""
    ranks: list[int]
    group_size: int | None = None
    start_ns: int
    latency_ns: int
    skew_ns: int
    first: int
    last: int
    waiting_ns: int
    duration_ns: int
    bytes: int | None = None
    dtype: str = ""
    algorithm_bandwidth: float | None = None
    bus_bandwidth: float | None = None


class Straggler(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rank that others wait for.

    Attributes:
        caused_ns: waiting of all other ranks in collectives that it reached last.
        share: of all waiting.
        last_arrivals: collectives it reached last, of `collectives`.
        why: what it did meanwhile that others did not, in words; "" unknown.
    """

    rank: int
    caused_ns: int
    share: float
    last_arrivals: int
    collectives: int
    why: str = ""
