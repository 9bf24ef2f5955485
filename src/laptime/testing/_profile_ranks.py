"""The four ranks of the made-up profile, and how it differs from an older one."""

from __future__ import annotations

import random

from msgspec import structs

from laptime.records.difference import ChangedRow, Difference
from laptime.records.overview import Breakdown, Step
from laptime.records.ranks import CollectiveRow, RankRow

MS = 1_000_000


def ranks(mean: Breakdown) -> list[RankRow]:
    """The last waits longer for its loader, the others for it."""
    found: list[RankRow] = []
    for rank in range(4):
        late = 17 * MS if rank == 3 else 0
        steps = 6 if rank < 3 else 4
        waiting = 2 * MS if rank == 3 else 24 * MS
        own = structs.replace(
            mean,
            dataloader_ns=mean.dataloader_ns + late,
            communication_ns=mean.communication_ns + waiting // 6 - late // 6,
            other_ns=max(0, mean.other_ns - late // 6),
        )
        found.append(
            RankRow(
                rank=rank,
                file=f"rank{rank}.pt.trace.json.gz",
                steps=steps,
                step_ns=own.total_ns,
                breakdown=own,
                compute_ns=steps * mean.kernel_ns,
                communication_ns=steps * own.communication_ns,
                exposed_communication_ns=steps * own.communication_ns // 2,
                idle_ns=steps * own.dataloader_ns,
                data_wait_ns=steps * own.dataloader_ns,
                waiting_ns=waiting,
                transfer_ns=21 * MS,
                last_arrivals=25 if rank == 3 else (1, 2, 2)[rank],
                clock_offset_ns=(0, -41_200, 12_008, 99_741)[rank],
            )
        )
    return found


def collectives(steps: list[Step]) -> list[CollectiveRow]:
    """Five reductions of gradients in each step."""
    dice = random.Random(11)  # noqa: S311 (not for secrets)
    found = []
    for index in range(30):
        step = steps[index // 5]
        latency = dice.randint(1_900, 2_600) * 1_000
        skew = dice.randint(100, 5_200) * 1_000
        size = (25 * 2**20, 25 * 2**20, 25 * 2**20, 21 * 2**20, 4_096)[index % 5]
        found.append(
            CollectiveRow(
                name="all_reduce",
                group="default_pg",
                ranks=[0, 1, 2, 3],
                group_size=4,
                start_ns=step.start_ns + (90 + 17 * (index % 5)) * MS,
                latency_ns=latency,
                skew_ns=skew,
                first=index % 3,
                last=3 if index % 6 else index % 3 + (1 if index % 3 < 2 else -1),
                waiting_ns=3 * skew - skew // 4,
                duration_ns=4 * latency + 3 * skew - skew // 4,
                bytes=size,
                dtype="Float",
                algorithm_bandwidth=size / latency * 1e9,
                bus_bandwidth=1.5 * size / latency * 1e9,
            )
        )
    return found


def against() -> Difference:
    """Better than on Monday."""
    return Difference(
        before="monday.pt.trace.json.gz",
        before_step_ns=208 * MS,
        after_step_ns=183 * MS,
        speedup=208 / 183,
        sentence="the step is 25 ms (12 %) shorter; less waiting for the DataLoader explains 104 % of it",
        breakdown=[
            ChangedRow(
                name="dataloader", change="faster", before_ns=78 * MS, after_ns=52 * MS, explains=1.04
            ),
            ChangedRow(name="kernel", change="same", before_ns=94_200_000, after_ns=94 * MS, explains=0.008),
            ChangedRow(name="cpu", change="slower", before_ns=13 * MS, after_ns=14_500_000, explains=-0.06),
        ],
        operators=[
            ChangedRow(
                name="aten::item",
                change="added",
                before_ns=0,
                after_ns=900_000,
                after_calls=1,
                explains=-0.036,
            ),
            ChangedRow(
                name="aten::nonzero",
                change="gone",
                before_ns=1_400_000,
                after_ns=0,
                before_calls=2,
                explains=0.056,
            ),
        ],
        kernels=[
            ChangedRow(
                name="ampere_sgemm_128x64_nn",
                change="slower",
                before_ns=9 * MS,
                after_ns=9_400_000,
                before_calls=37,
                after_calls=37,
                explains=-0.016,
            )
        ],
        idle=[ChangedRow(name="data", change="faster", before_ns=77 * MS, after_ns=51 * MS, explains=1.04)],
        warnings=["the other profile has 8 ranks, this one has 4"],
    )
