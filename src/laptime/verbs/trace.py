"""`trace`: where the time goes in profiler traces of one job, one file or one a rank.

paths ── files of each rank ── the first: every table ──────────┐
                          └── the others: a share each ── ranks ┴── verdict, findings, difference ── Run
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import structs

from laptime import rules
from laptime.kit.clock import utc_now
from laptime.kit.errors import UsageError
from laptime.kit.package import __version__
from laptime.kit.text import count
from laptime.records.check import Check
from laptime.records.environment import Device, Environment
from laptime.records.event import RunFinished, RunStarted
from laptime.records.profile import Profile
from laptime.records.run import Run, Subject
from laptime.store.folder import new_id
from laptime.store.journal import Journal
from laptime.trace import difference, profile, rank_workers, ranks, slim
from laptime.trace.reading import reader, trace_files
from laptime.trace.view import View

Say = Callable[[float, str], None]
"""Hears the share of work done and what is going on."""


def _silent(done: float, text: str) -> None:
    pass


def trace(
    paths: Sequence[Path],
    *,
    against: Sequence[Path] = (),
    name: str = "",
    save: bool = True,
    slim: Path | None = None,
    progress: Say = _silent,
) -> Run:
    """Analyse the traces of one job.

    Args:
        paths: files, or folders of them; several are the ranks of one job.
        against: those of another job, to be compared with.
        slim: where to write a small trace that Perfetto opens, with counter tracks.
        save: keep the run under .laptime/.

    Raises:
        UsageError: a path does not exist, or is no trace. NoTraces: a folder has none.
    """
    began = time.perf_counter()
    started = utc_now()
    before = analyse(against, progress=progress) if against else None
    found = analyse(paths, slim=slim, progress=progress)
    if before is not None:
        found = structs.replace(found, against=difference.difference(before, found))
    run = Run(
        id=new_id(),
        verb="trace",
        name=name,
        started=started,
        laptime=__version__,
        command=["laptime", *sys.argv[1:]],
        status="complete",
        seconds=time.perf_counter() - began,
        subjects=[Subject(target=file.name, source="trace") for file in found.files],
        environment=environment(found),
        checks=checks(found),
        findings=rules.diagnose(found),
        profile=found,
    )
    return kept(run) if save else run


def analyse(paths: Sequence[Path], *, slim: Path | None = None, progress: Say = _silent) -> Profile:
    """The profile of one job's traces, verdict included; no difference, no findings.

    Raises:
        as `trace`.
    """
    chosen = trace_files.find(paths)
    first, others, skipped = _first(chosen.paths, {*paths}, progress)
    found, seen = first
    if slim is not None:
        _write_slim(seen, slim)
    if others:
        mine = ranks.share(seen, rank=rank_workers.rank_of(found.files[0].name, found.rank))
        del seen, first
        progress(0.5, f"reading {count(len(others), 'more rank')}")
        crew = rank_workers.shares(others, mine)
        rows, collectives, stragglers = ranks.combine([mine, *crew.shares])
        skipped += crew.warnings
        found = structs.replace(
            found,
            rank=mine.rank,
            ranks=rows,
            collectives=collectives,
            stragglers=stragglers,
            files=found.files + [share.file for share in crew.shares],
        )
    warnings = [*chosen.warnings, *skipped]
    if warnings:
        head = structs.replace(found.files[0], warnings=[*found.files[0].warnings, *warnings])
        found = structs.replace(found, files=[head, *found.files[1:]])
    return structs.replace(found, verdict=rules.verdict(found))


def _first(
    paths: Sequence[Path], named: set[Path], progress: Say
) -> tuple[tuple[Profile, View], list[Path], list[str]]:
    """The first file that is a trace, fully analysed; the others; what was passed over in a folder."""
    skipped: list[str] = []
    for number, path in enumerate(paths):
        progress(0.0, f"reading {path.name}")
        try:
            seen = profile.view(reader.read(path))
        except UsageError as error:
            if path in named:
                raise
            skipped.append(f"{path.name} is left out: {error.why}")
            continue
        progress(0.4, f"analysing {path.name}")
        return (profile.profile(seen), seen), list(paths[number + 1 :]), skipped
    raise trace_files.NoTraces(
        f"none of the {count(len(paths), 'file')} is a profiler trace",
        why=skipped[0],
        next="laptime profile script.py, or laptime trace FILE",
    )


def _write_slim(seen: View, path: Path) -> None:
    try:
        slim.write(seen, path)
    except OSError as error:
        raise UsageError(
            f"{path} could not be written",
            why=error.strerror or str(error),
            next="--slim another/FILE.json.gz",
        ) from error


def environment(found: Profile) -> Environment:
    """What a trace tells of the machine it comes from: accelerators and versions. The rest is unknown."""
    devices = [
        Device(
            name=f"{found.device_type}:{each.id}",
            model=each.name,
            memory=each.memory,
            details={"capability": each.capability} if each.capability else {},
        )
        for each in found.accelerators
    ]
    versions = {key: str(value) for key, value in found.facts.items() if key.endswith("_version")}
    return Environment(
        host="",
        os="",
        python="",
        cpu="",
        vcpus=0,
        usable_cpus=0,
        memory=0,
        devices=devices,
        libraries=versions,
    )


def checks(found: Profile) -> list[Check]:
    """Can the numbers of this trace be trusted?"""
    told = [(file.name, warning) for file in found.files for warning in file.warnings]
    made = [
        Check(name="complete", outcome="warn", sentence=f"{name}: {warning}", next="record the trace again")
        for name, warning in told
    ]
    if not told:
        made.append(Check(name="complete", outcome="ok", sentence="every event of the file was read"))
    steps = found.overview.steps
    if steps < 3:
        made.append(
            Check(
                name="steps",
                outcome="warn",
                sentence=f"only {count(steps, 'step')}: a mean over so few may be chance",
                next="record more steps (schedule(active=6), or laptime profile --steps 6)",
            )
        )
    else:
        made.append(Check(name="steps", outcome="ok", sentence=f"{count(steps, 'step')} recorded"))
    return made


def kept(run: Run) -> Run:
    """The run, stored, with the id it is stored under; when that fails the run itself says so."""
    with Journal() as journal:
        journal(RunStarted(structs.replace(run, status="running")))
        journal(RunFinished(run.status, run.seconds))
    if journal.complaint is not None:
        what = Check(
            name="saved",
            outcome="note",
            sentence=f"{journal.complaint.what}: {journal.complaint.why}",
            next=journal.complaint.next,
        )
        run = structs.replace(run, checks=[*run.checks, what])
    return structs.replace(run, id=journal.run_id or run.id)
