"""`trace`: where the time goes in profiler traces of one job, one file or one a rank.

paths ── files of each rank ── the first: every table ──────────┐
                          └── the others: a share each ── ranks ┴── verdict, findings, difference ── Run"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from laptime import rules
from laptime.analysis import roofline
from laptime.kit.errors import UsageError
from laptime.kit.text import count
from laptime.probes.cpu import cpu
from laptime.probes.peaks import core_ceiling, cpu_peak, device_peak
from laptime.records.check import Check
from laptime.records.environment import Device, Environment
from laptime.records.event import Listener, ProfileMade, Progress, ignore
from laptime.records.overview import Ceilings
from laptime.records.profile import Profile
from laptime.records.run import Run, Subject
from laptime.store.live_run import LiveRun
from laptime.trace import difference, ranks
from laptime.trace import profile as tables
from laptime.trace import slim as slim_trace
from laptime.trace.reading import reader, torch_trace, trace_files
from laptime.trace.view import View


class TraceRequest(Struct, frozen=True, kw_only=True):
    """Parameters of `trace`."""

    paths: list[Path]
    against: list[Path] = []
    name: str = ""
    slim: Path | None = None
    rank: int | None = None


def carry_out(request: TraceRequest, emit: Listener) -> Run:
    """`trace` for a request."""
    return trace(emit=emit, **structs.asdict(request))


def trace(
    paths: Sequence[Path],
    emit: Listener = ignore,
    *,
    against: Sequence[Path] = (),
    name: str = "",
    slim: Path | None = None,
    rank: int | None = None,
) -> Run:
    """Analyse the traces of one job.

    Args:
        paths: files, or folders of them; several are the ranks of one job.
        emit: hears every event.
        against: those of another job, to be compared with.
        slim: where to write a small trace that Perfetto opens, with counter tracks.
        rank: whose tables to show; that of the first file unless given.

    Raises:
        UsageError: a path does not exist, or is no trace; no file is of that rank. NoTraces: in a folder."""
    live = LiveRun("trace", emit)
    before = analyse(against, live) if against else None
    profile = beside_ceilings(analyse(paths, live, slim=slim, rank=rank))
    if before is not None:
        profile = structs.replace(profile, against=difference.difference(before, profile))
    live.start(
        name=name,
        subjects=[Subject(target=file.name, source="trace") for file in profile.files],
        environment=environment(profile),
        checks=checks(profile),
        findings=rules.diagnose(profile),
    )
    live(ProfileMade(profile))
    return live.finish()


def analyse(
    paths: Sequence[Path], emit: Listener = ignore, *, slim: Path | None = None, rank: int | None = None
) -> Profile:
    """The profile of one job's traces, verdict included; no difference, no findings. Raises as `trace`."""
    chosen = trace_files.find(paths)
    logs = [path for path in chosen.paths if path.suffix in torch_trace.SUFFIXES]
    if 0 < len(logs) < len(chosen.paths):  # of the same program: they say what was compiled in it
        profile = analyse([path for path in paths if path not in logs], emit, slim=slim, rank=rank)
        compilations = [row for path in logs for row in torch_trace.read(path).compilations]
        return structs.replace(profile, compilations=compilations)
    of_job, of_others = _one_job(chosen.paths, {*paths})
    profile, view, others, warnings = _first(_beginning_with(of_job, rank), {*paths}, emit)
    if slim is not None:
        try:
            slim_trace.write(view, slim)
        except OSError as error:
            why, advice = error.strerror or str(error), "--slim another/FILE.json.gz"
            raise UsageError(f"{slim} could not be written", why=why, next=advice) from error
    if others:
        own = ranks.share(view, rank=ranks.rank_of(profile.files[0].name, profile.rank))
        del view
        emit(Progress(0.5, 0.0, f"reading {count(len(others), 'more rank')}"))
        shares = ranks.shares(others, own)
        rows, collectives, stragglers = ranks.combine([own, *shares.shares])
        warnings += shares.warnings
        profile = structs.replace(
            profile,
            rank=own.rank,
            ranks=rows,
            collectives=collectives,
            stragglers=stragglers,
            files=profile.files + [share.file for share in shares.shares],
        )
    if warnings := [*chosen.warnings, *warnings]:
        head = structs.replace(profile.files[0], warnings=[*profile.files[0].warnings, *warnings])
        profile = structs.replace(profile, files=[head, *profile.files[1:]])
    names = [path.name for path in of_others]
    return structs.replace(profile, verdict=rules.verdict(profile), other_jobs=names)


def _one_job(paths: list[Path], named: set[Path]) -> tuple[list[Path], list[Path]]:
    """The files of one job, and those of others; files that were named are those of one."""
    if len(paths) < 2 or named.issuperset(paths):
        return paths, []
    found = trace_files.apart(paths)
    first, *rest = found.jobs or [[]]
    return [path for path in paths if path in {*first, *found.others}], [path for job in rest for path in job]


def _beginning_with(paths: list[Path], rank: int | None) -> list[Path]:
    """The file of this rank first. Raises UsageError: there is none."""
    if rank is None:
        return paths
    ranks_found = {path: trace_files.rank_of(path) for path in paths}
    first = [path for path, number in ranks_found.items() if number == rank]
    if not first:
        known = sorted({number for number in ranks_found.values() if number is not None})
        raise UsageError(
            f"there is no trace of rank {rank}",
            why=f"the files are those of ranks {', '.join(map(str, known))}"
            if known
            else "no file says its rank",
            next=f"--rank {known[0]}" if known else "name the file alone",
        )
    return first[:1] + [path for path in paths if path != first[0]]


def _first(
    paths: Sequence[Path], named: set[Path], emit: Listener
) -> tuple[Profile, View, list[Path], list[str]]:
    """The first file that is a trace, fully analysed; the others; what was passed over in a folder."""
    skipped: list[str] = []
    for number, path in enumerate(paths):
        emit(Progress(0.0, 0.0, f"reading {path.name}"))
        try:
            view = tables.view(reader.read(path))
        except UsageError as error:
            if path in named:
                raise
            skipped.append(f"{path.name} is left out: {error.why}")
            continue
        emit(Progress(0.4, 0.0, f"analysing {path.name}"))
        return tables.profile(view), view, list(paths[number + 1 :]), skipped
    what = f"none of the {count(len(paths), 'file')} is a profiler trace"
    raise trace_files.NoTraces(what, why=skipped[0], next="profile the script, or name one trace file")


def environment(profile: Profile) -> Environment:
    """Return a trace's facts about its machine: accelerators and versions. The rest is unknown."""
    devices = [
        Device(
            name=f"{profile.device_type}:{accelerator.id}",
            model=accelerator.name,
            memory=accelerator.memory,
            details={"capability": accelerator.capability} if accelerator.capability else {},
        )
        for accelerator in profile.accelerators
    ]
    versions = {key: str(value) for key, value in profile.facts.items() if key.endswith("_version")}
    none = Environment(host="", os="", python="", cpu="", vcpus=0, usable_cpus=0, memory=0)
    return structs.replace(none, devices=devices, libraries=versions)


def checks(profile: Profile) -> list[Check]:
    """Can the numbers of this trace be trusted? Is it the whole job, and nothing but it?"""
    again = "see what was alive at the peak" if profile.is_snapshot else "record the trace again"
    complete = [
        Check(name="complete", outcome="warn", sentence=f"{file.name}: {text}", next=again)
        for file in profile.files
        for text in file.warnings
    ] or [Check(name="complete", outcome="ok", sentence="every event of the file was read")]
    steps = profile.overview.steps
    enough = Check(name="steps", outcome="ok", sentence=f"{count(steps, 'step')} recorded")
    few = Check(
        name="steps",
        outcome="warn",
        sentence=f"only {count(steps, 'step')}: a mean over so few may be chance",
        next="record more steps (schedule(active=6), or laptime profile --steps 6)",
    )
    counted = [] if profile.is_snapshot or profile.is_log else [few if steps < 3 else enough]
    checks, given = [*complete, *counted], len(profile.ranks)
    if given and profile.world and given < profile.world:
        sentence = (
            f"{given} of the job's {profile.world:,} ranks are given: sums over ranks are sums over these"
        )
        checks.append(Check(name="ranks", outcome="note", sentence=sentence))
    if others := profile.other_jobs:
        listed = ", ".join(others[:5]) + (" ..." if len(others) > 5 else "")
        are = "is" if len(others) == 1 else "are"
        sentence = f"{count(len(others), 'trace')} beside these {are} of other jobs: {listed}"
        checks.append(Check(name="job", outcome="note", sentence=sentence, next=f"laptime trace {others[0]}"))
    return checks


# What the device of a profile can do at most: the maker's figures of an accelerator, by its name; of this
# machine's cores if the program ran here. The CPU of a trace from elsewhere is not known.


def beside_ceilings(profile: Profile, here: Environment | None = None) -> Profile:
    """The profile with its roofline beside the ceilings. here: this machine, if the program ran on it."""
    if profile.roofline is None or profile.roofline.missing:
        return profile
    ceilings = _of_accelerator(profile) if profile.accelerators else _of_cores(here)
    return structs.replace(profile, roofline=roofline.beside(profile.roofline, ceilings))


def _of_accelerator(profile: Profile) -> Ceilings | None:
    """None if it is not in the table, or several kinds worked."""
    kinds = {(accelerator.name, accelerator.memory) for accelerator in profile.accelerators}
    name, memory = kinds.pop()
    peak = device_peak(name, memory=memory) if name and not kinds else None
    if peak is None:
        return None
    return Ceilings(device=peak.name, flops=peak.flops, bandwidth=peak.bandwidth, source=peak.note)


def _of_cores(here: Environment | None) -> Ceilings | None:
    """All usable cores, and the memory of a whole socket, which a part of its cores may not reach."""
    peak = cpu_peak(cpu(), usable=here.usable_cpus) if here is not None else None
    core = core_ceiling([peak.name]) if peak is not None else None
    if peak is None or core is None:
        return None
    return Ceilings(device=peak.name, flops=peak.flops, bandwidth=core.bandwidth, source=peak.note)
