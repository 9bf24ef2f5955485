"""The ranks of one job: each file is reduced to a share by a process, and the shares are combined.

share(view) in the process that read the file -> RankShare -> combine([...]) where all come together

A worker, one for each CPU, is `python -m laptime.trace.ranks`; it is asked for one file after the other and
answers with a RankShare as MessagePack, or with a sentence on what is wrong."""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from laptime.kit.errors import LaptimeError
from laptime.kit.units import show
from laptime.process.channel import to_parent
from laptime.process.peer import Gone, Peer, Silent
from laptime.records.overview import CollectiveRow, RankRow, Straggler
from laptime.records.profile import TraceFile
from laptime.trace import collectives
from laptime.trace import profile as tables
from laptime.trace.collectives import Collective, Meeting
from laptime.trace.profile import file_of
from laptime.trace.reading import reader, trace_files
from laptime.trace.tables import overview
from laptime.trace.view import View

ABOVE_EVEN = 1.5
"""A straggler causes so many times the waiting that each rank would if all were late equally often."""
EXPLAINS = 0.5
"""What a rank takes longer than the others is named as the reason when it is this share of its delay."""


class RankShare(Struct, frozen=True, kw_only=True):
    """The data of one rank that combining the ranks needs."""

    row: RankRow  # what the rank knows without the others
    file: TraceFile
    origin_ns: int  # first event of the file, on the clock of the machine
    starts_ns: list[int]  # of the steps on the host, on that clock
    collectives: list[Collective]  # by start

    @property
    def rank(self) -> int:
        """Its number in the job."""
        return self.row.rank


def share(view: View, *, rank: int | None = None) -> RankShare:
    """The share of one rank; `rank` comes from the file's name and is used if the file states none."""
    trace = view.trace
    clock = trace.base + trace.origin
    rows = overview.step_rows(view)
    used = overview.use(view)
    mean = overview.mean([step.breakdown for step in rows])
    rank_number = trace.rank if rank is None else rank
    row = RankRow(
        rank=rank_number if rank_number is not None else 0,
        file=trace.name,
        steps=len(rows),
        step_ns=mean.total_ns,
        breakdown=mean,
        devices=used,
        compute_ns=sum(each.compute_ns for each in used),
        communication_ns=sum(each.communication_ns for each in used),
        exposed_communication_ns=sum(each.exposed_communication_ns for each in used)
        if used
        else overview.host_exposure(view),
        idle_ns=sum(each.idle_ns for each in used),
        data_wait_ns=sum(step.data_wait_ns for step in rows),
    )
    starts = [clock + step.host_start_ns for step in rows]
    return RankShare(
        row=row, file=file_of(trace), origin_ns=clock, starts_ns=starts, collectives=collectives.of_rank(view)
    )


def combine(shares: Sequence[RankShare]) -> tuple[list[RankRow], list[CollectiveRow], list[Straggler]]:
    """All ranks, their collectives in time order, and the stragglers that others wait for.

    The ranks of one machine share its clock. If collectives show that they do not, times are moved until
    collectives end together, and `clock_offset_ns` says by how much; who came last is an estimate then."""
    shares = sorted(shares, key=lambda each: each.rank)
    met = collectives.meet([share.collectives for share in shares])
    offset = collectives.offsets(met, len(shares))
    zero = min((each.origin_ns + moved for each, moved in zip(shares, offset, strict=True)), default=0)
    numbers = [share.rank for share in shares]
    rows = [collectives.row(one, numbers, offset, zero) for one in met]
    return (
        [_rank(index, share.row, met, rows, offset[index]) for index, share in enumerate(shares)],
        sorted(rows, key=lambda row: row.start_ns),
        _stragglers(shares, met, rows, offset),
    )


def _rank(index: int, rank: RankRow, met: list[Meeting], rows: list[CollectiveRow], offset: int) -> RankRow:
    """The row with what only all ranks together tell."""
    mine = [(one[index], row) for one, row in zip(met, rows, strict=True) if index in one]
    transfer = sum(row.latency_ns for _, row in mine)
    return structs.replace(
        rank,
        waiting_ns=sum(one.dur_ns for one, _ in mine) - transfer if mine else None,
        transfer_ns=transfer if mine else None,
        last_arrivals=sum(row.last == rank.rank for _, row in mine) if mine else None,
        clock_offset_ns=offset,
    )


def _stragglers(
    shares: list[RankShare], met: list[Meeting], rows: list[CollectiveRow], offset: list[int]
) -> list[Straggler]:
    """Ranks that cause clearly more than an even share of all waiting, the worst first."""
    waiting = sum(row.waiting_ns for row in rows)
    stragglers = []
    for index, rank_share in enumerate(shares):
        mine = [(one[index], row) for one, row in zip(met, rows, strict=True) if index in one]
        late = [(own, row) for own, row in mine if row.last == rank_share.rank]
        # The last arriver hardly waits itself; what it does is no fault of its own.
        caused = sum(row.waiting_ns - (own.dur_ns - row.latency_ns) for own, row in late)
        if waiting and caused > waiting * ABOVE_EVEN / len(shares):
            stragglers.append(
                Straggler(
                    rank=rank_share.rank,
                    caused_ns=caused,
                    share=caused / waiting,
                    last_arrivals=len(late),
                    collectives=len(mine),
                    why=_why(index, shares, offset, caused),
                )
            )
    return sorted(stragglers, key=lambda each: -each.caused_ns)


def _why(index: int, shares: list[RankShare], offset: list[int], caused: int) -> str:
    """Say why a rank is late: the part that takes longer than the other ranks' median, if it explains much of
    the delay."""
    rank_share = shares[index]
    others = [share for share in shares if share.rank != rank_share.rank]
    steps = rank_share.row.steps
    delay = caused / max(len(others), 1) / max(steps, 1)

    def more(read: Callable[[RankRow], float]) -> float:
        mine, *rest = (read(each.row) for each in (rank_share, *others))
        return mine - median(rest)

    reasons = {
        "per step it waits {} longer for data": more(lambda row: row.data_wait_ns / max(row.steps, 1)),
        "per step it computes {} longer on its device": more(lambda row: row.compute_ns / max(row.steps, 1)),
    }
    if not rank_share.row.devices:
        reasons["per step its operators take {} longer"] = more(lambda row: row.breakdown.cpu_ns)
        reasons["per step it does {} more outside of operators"] = more(lambda row: row.breakdown.other_ns)
    if all(each.row.steps == steps for each in others):
        starts = [[at + moved for at in each.starts_ns] for each, moved in zip(shares, offset, strict=True)]
        lags = [
            starts[index][step] - median(start[step] for at, start in enumerate(starts) if at != index)
            for step in range(steps)
        ]
        reasons["it begins its steps {} later"] = median(lags)
    text, longest = max(reasons.items(), key=lambda reason: reason[1])
    if longest < EXPLAINS * delay:
        return ""
    return f"{text.format(show(longest / 1e9, 's'))} than the median of the others"


SMALL = 4 << 20  # bytes of all files together up to which starting processes costs more than it saves
LONGEST = 3600.0  # seconds that a file may take


class OtherRanks(NamedTuple):
    """Shares in the order of the files, and a sentence on each file that gave none."""

    shares: list[RankShare]
    warnings: list[str]


def shares(paths: Sequence[Path], mine: RankShare) -> OtherRanks:
    """The shares of the other ranks. A rank that a file does not state, or that two files state, gets the
    next free number."""
    if sum(path.stat().st_size for path in paths) <= SMALL:
        answers = [_here(path) for path in paths]
    else:
        answers = _elsewhere(paths)
    warnings = [answer for answer in answers if isinstance(answer, str)]
    shares_read: list[RankShare] = []
    ranks_taken = {mine.rank}
    for answer in answers:
        if isinstance(answer, str):
            continue
        if answer.rank in ranks_taken:
            free = next(rank for rank in range(len(paths) + 2) if rank not in ranks_taken)
            if answer.file.rank is not None:
                warnings.append(
                    f"{answer.file.name} says rank {answer.rank} like another file; shown as {free}"
                )
            answer = structs.replace(answer, row=structs.replace(answer.row, rank=free))
        ranks_taken.add(answer.rank)
        shares_read.append(answer)
    return OtherRanks(shares_read, warnings)


def share_of(path: Path, *, processes: int = 1) -> RankShare:
    """Read one file and reduce it to its share. Raises UsageError: it cannot be read."""
    view = tables.view(reader.read(path, processes=processes))
    return share(view, rank=rank_of(path.name, view.trace.rank))


def rank_of(name: str, in_file: int | None) -> int:
    """The rank stated in the file, else in its name, else 0."""
    return in_file if in_file is not None else trace_files.rank_in(name) or 0


def _here(path: Path) -> RankShare | str:
    try:
        return share_of(path)
    except LaptimeError as error:
        return f"{path.name} is left out: {error.why}"


def _elsewhere(paths: Sequence[Path]) -> list[RankShare | str]:
    """The same by a process for each CPU, the largest files first; one that dies costs its file alone."""
    answers = dict[Path, RankShare | str]()
    todo = iter(sorted(paths, key=lambda path: -path.stat().st_size))
    taking = threading.Lock()

    def following() -> Path | None:
        with taking:
            return next(todo, None)

    def work() -> None:
        path = following()
        while path is not None:
            with Peer.start([sys.executable, "-m", __name__]) as peer:
                try:
                    while path is not None:
                        answer = peer.ask(str(path).encode("utf-8", "surrogateescape"), timeout=LONGEST)
                        answers[path] = msgspec.msgpack.decode(answer, type=RankShare | str)
                        path = following()
                except (Gone, Silent) as error:
                    assert path is not None
                    answers[path] = f"{path.name} is left out: {str(error) or 'it takes too long'}"
                    path = following()

    with ThreadPoolExecutor(max_workers=min(len(os.sched_getaffinity(0)), len(paths))) as pool:
        for done in [pool.submit(work) for _ in range(pool._max_workers)]:
            done.result()
    return [answers[path] for path in paths]


def _main() -> None:
    channel = to_parent()
    for name in channel:
        answer = _here(Path(name.decode("utf-8", "surrogateescape")))
        channel.send(msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    _main()
