"""The other ranks of a job: processes, one per CPU, read each file and reduce it to its share.

A worker is `python -m laptime.trace.rank_workers FILE`; it answers with one RankShare as MessagePack, or with
what is wrong on stderr and exit code 2.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from laptime.kit.errors import LaptimeError
from laptime.trace import profile as tables
from laptime.trace import ranks
from laptime.trace.ranks import RankShare
from laptime.trace.reading import reader, trace_files

SMALL = 24 << 20
"""Bytes of all files together up to which starting processes costs more than it saves."""


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
        with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
            answers = list(pool.map(_elsewhere, paths))
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
    """Read one file and reduce it to its share.

    Raises:
        UsageError: it cannot be read.
    """
    view = tables.view(reader.read(path, processes=processes))
    return ranks.share(view, rank=rank_of(path.name, view.trace.rank))


def rank_of(name: str, in_file: int | None) -> int:
    """The rank stated in the file, else in its name, else 0."""
    return in_file if in_file is not None else trace_files.rank_in(name) or 0


def _here(path: Path) -> RankShare | str:
    try:
        return share_of(path)
    except LaptimeError as error:
        return f"{path.name} is left out: {error.why}"


def _elsewhere(path: Path) -> RankShare | str:
    done = subprocess.run([sys.executable, "-m", __name__, str(path)], capture_output=True, check=False)
    if done.returncode != 0:
        why = done.stderr.decode(errors="replace").strip().splitlines()
        return f"{path.name} is left out: {why[-1] if why else f'exit code {done.returncode}'}"
    return msgspec.msgpack.decode(done.stdout, type=RankShare)


def _main(path: str) -> int:
    answer = _here(Path(path))
    if isinstance(answer, str):
        sys.stderr.write(answer.partition(": ")[2])
        return 2
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
