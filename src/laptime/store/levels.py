"""The data of every stored run that a history needs: its numbers, and the conditions they were made under."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from laptime.analysis.summary import summarize
from laptime.records.case import Case
from laptime.records.check import Trust
from laptime.records.run import Run
from laptime.records.series import HEADLINE_ORDER
from laptime.store import files, index


class Level(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One statistic of a case, as in `Stat`."""

    tag: str
    title: str
    unit: str
    value: float
    better: str = "none"
    ci95: tuple[float, float] | None = None
    at_least: bool = False


class CaseLevels(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The statistics of a case that are above zero; none of an invalid one. headline: tag of the number that
    it is known by, also if that has no value."""

    key: str
    target: str
    headline: str = ""
    trust: Trust = "trusted"
    levels: list[Level] = []


class RunLevels(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    path: str  # of its file, relative to the store
    status: str = "complete"  # as of the run
    name: str = ""
    started: str = ""
    commit: str = ""
    dirty: bool = False
    libraries: dict[str, str] = {}  # versions
    machine: str = ""  # its name; "" if nothing names it (`Environment.machine`)
    conditions: str = ""  # the fingerprint
    across_versions: str = ""  # that with libraries and Python left out
    cases: list[CaseLevels] = []


def read(root: Path | None = None) -> Iterator[RunLevels]:
    """Yield the levels of all runs that can be read and have ended, newest first."""
    return (run for run in index.rows(_LEVELS, root) if run.cases and run.status != "running")


def of_run(run: Run, path: str) -> RunLevels:
    """The numbers of a run; a profile has none."""
    environment, git = run.environment, run.environment.git or {}
    return RunLevels(
        id=run.id,
        path=path,
        status=run.status,
        name=run.name,
        started=run.started,
        commit=str(git.get("commit") or ""),
        dirty=bool(git.get("dirty")),
        libraries=dict(environment.libraries),
        machine=environment.machine,
        conditions=environment.fingerprint,
        across_versions=structs.replace(environment, libraries={}, python="").fingerprint,
        cases=[] if run.profile is not None else [_of_case(case) for case in run.cases],
    )


def _of_case(case: Case) -> CaseLevels:
    stats = summarize(case) if case.status == "ok" and case.trust != "invalid" else {}
    tags = [f"latency/{regime}/median" for regime in HEADLINE_ORDER]
    tag = next((tag for tag in [*tags, *stats] if tag in stats), "")  # imported numbers may be anything
    levels = [
        msgspec.convert(stat, Level, from_attributes=True)
        for stat in stats.values()
        if stat.value is not None and stat.value > 0
    ]
    return CaseLevels(key=case.key, target=case.target, headline=tag, trust=case.trust, levels=levels)


_LEVELS = index.Kept(
    table="levels",
    decode=msgspec.json.Decoder(RunLevels).decode,
    read=lambda path, relative: of_run(files.read(path), relative),
    unreadable=lambda path, error: None,
    final=lambda run: run.status != "running",
)
