"""`history`: a metric over stored runs, commits and versions, and where its level changed."""

import fnmatch
import itertools
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import structs

from laptime.analysis.change_points import FEWEST, LEVEL, ChangePoint, changes
from laptime.kit.errors import UsageError
from laptime.kit.text import closest, count
from laptime.records.comparison import History, Point, Step
from laptime.records.environment import distinctions
from laptime.records.run import Run
from laptime.store import files, folder, levels
from laptime.store.levels import CaseLevels, Level, RunLevels

By = Literal["run", "commit", "version", "machine"]


class _Conditions(NamedTuple):
    """The conditions that all runs of a history share."""

    fingerprint: str = ""
    machine: str = ""


def history(
    pattern: str = "*",
    *,
    metric: str = "",
    by: By = "run",
    last: int = 200,
    force: bool = False,
    root: Path | None = None,
) -> list[History]:
    """The histories of all cases that match, those with most runs first.

    Args:
        pattern: of case keys, targets or names of runs, as file names are matched.
        metric: tag of a statistic; "" is each case's headline.
        by: what is compared; under `version`, runs may differ in their libraries, under `machine` in that.
        last: so many of the newest matching runs.
        force: put runs of different conditions together.

    Raises:
        UsageError: no stored run matches, or none has this metric."""
    histories: dict[tuple[str, _Conditions], History] = {}
    newest: dict[tuple[str, _Conditions], RunLevels] = {}
    metrics: dict[str, None] = {}
    for run in reversed(_matching(pattern, last, root)):
        fingerprint = run.across_versions if by == "version" else run.conditions
        conditions = _Conditions(fingerprint, "" if by == "machine" else run.machine)
        conditions = _Conditions() if force else conditions
        for case in run.cases:
            if not _matches(pattern, case, run):
                continue
            if metric:
                metrics.update(dict.fromkeys(level.tag for level in case.levels))
            level = next((level for level in case.levels if level.tag == (metric or case.headline)), None)
            key = (case.key, conditions)
            if level is not None and key not in histories:
                histories[key] = History(
                    case=case.key,
                    metric=level.tag,
                    title=level.title,
                    unit=level.unit,
                    better=level.better,
                    conditions=conditions.fingerprint,
                    machine=conditions.machine,
                    points=[],
                )
            if key in histories:
                histories[key] = _with(histories[key], run, case, level)
                newest[key] = run
    if not histories:
        raise _nothing(pattern, metric, list(metrics))
    told = _with_differences(histories, newest, root or folder.home())
    return _with_steps(sorted(told, key=lambda history: -len(history.points)))


def recent(last: int = 60, root: Path | None = None) -> list[Run]:
    """Stored runs with numbers, newest first; unreadable files are passed over: `laptime list` shows them."""
    base, runs = root or folder.home(), list[Run]()
    for stored in _matching("*", last, root):
        with suppress(UsageError):  # removed meanwhile
            runs.append(files.read(base / stored.path))
    return runs


def _matching(pattern: str, last: int, root: Path | None) -> list[RunLevels]:
    matching = (run for run in levels.read(root) if any(_matches(pattern, case, run) for case in run.cases))
    return list(itertools.islice(matching, last))


def _matches(pattern: str, case: CaseLevels, run: RunLevels) -> bool:
    texts = (case.key, case.target, run.name)
    return pattern == "*" or any(
        text and (text == pattern or fnmatch.fnmatchcase(text, pattern)) for text in texts
    )


def _with(history: History, run: RunLevels, case: CaseLevels, level: Level | None) -> History:
    if level is None or (level.tag, level.unit) != (history.metric, history.unit):
        return structs.replace(history, left_out=history.left_out + 1)
    point = Point(
        run=run.id,
        name=run.name,
        started=run.started,
        commit=run.commit,
        dirty=run.dirty,
        versions=run.libraries,
        machine=run.machine,
        value=level.value,
        ci95=level.ci95,
        trust=case.trust,
        at_least=level.at_least,
    )
    history.points.append(point)
    return history


def _with_differences(
    histories: dict[tuple[str, _Conditions], History],
    newest: dict[tuple[str, _Conditions], RunLevels],
    base: Path,
) -> list[History]:
    """Histories of one case say what sets the newest run of each apart from that of the others."""
    groups: dict[str, list[tuple[str, _Conditions]]] = {}
    for key in histories:
        groups.setdefault(key[0], []).append(key)
    told = dict(histories)
    for keys in groups.values():
        if len(keys) < 2:
            continue
        with suppress(UsageError):  # a file that was removed meanwhile
            environments = [files.read(base / newest[key].path).environment for key in keys]
            for key, differs in zip(keys, distinctions(environments), strict=True):
                told[key] = structs.replace(histories[key], differs=differs)
    return list(told.values())


def _with_steps(histories: list[History]) -> list[History]:
    changes_of = changes([[point.value for point in history.points] for history in histories])
    few = f"a change of level needs at least {FEWEST} runs"
    return [
        structs.replace(
            history,
            steps=[_step(history, change) for change in steps],
            note="" if (n := len(history.points)) >= FEWEST else f"{count(n, 'run')}: {few}",
        )
        for history, steps in zip(histories, changes_of, strict=True)
    ]


def _step(history: History, change: ChangePoint) -> Step:
    ratio, (low, high) = change.ratio, change.ci95 or (change.ratio, change.ratio)
    word: Literal["better", "worse", "changed"] = "changed"
    if history.better in ("lower", "higher"):
        word = "worse" if (ratio > 1) == (history.better == "lower") else "better"
    before, after = history.points[change.at - 1], history.points[change.at]
    where = f"from run {after.run} on"
    if after.commit and before.commit and after.commit != before.commit:
        where += f", between commits {before.commit[:10]} and {after.commit[:10]}"
    newer = [
        f"{name} {before.versions[name]} to {version}"
        for name, version in after.versions.items()
        if name in before.versions and before.versions[name] != version
    ]
    around = f" [{low:.3f}, {high:.3f}]" if change.ci95 else ""
    return Step(
        at=change.at,
        ratio=ratio,
        ci95=change.ci95,
        word=word,
        p=change.p,
        sentence=f"{ratio:.3f} of the level before{around} {where}"
        + (f"; {', '.join(newer[:4])}" if newer else ""),
    )


def _nothing(pattern: str, metric: str, metrics: list[str]) -> UsageError:
    if metrics:
        near = closest(metric, metrics)
        return UsageError(
            f"no run has a metric called {metric!r}",
            why=f"they have {', '.join(metrics[:6])} ...",
            next=f"did you mean --metric {near}?" if near else "laptime show --json   lists all of a run",
        )
    return UsageError(
        f"no stored run matches {pattern!r}",
        why=f"looked for in {folder.home()}: case keys, targets and names; invalid numbers are left out",
        next="laptime list",
    )


__all__ = ["LEVEL", "By", "history"]
