"""`history`: a metric over stored runs, commits and versions, and where its level changed."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from msgspec import structs

from laptime.analysis.change_points import FEWEST, LEVEL, ChangePoint, changes
from laptime.analysis.summary import Stat, headline, summarize
from laptime.kit.errors import UsageError
from laptime.kit.text import closest, count
from laptime.records.case import Case
from laptime.records.history import History, Point, Step
from laptime.records.run import Run
from laptime.store import files, folder, index

By = Literal["run", "commit", "version"]


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
        by: what is compared; under `version`, runs may differ in their libraries.
        last: so many of the newest matching runs.
        force: put runs of different conditions together.

    Raises:
        UsageError: no stored run matches, or none has this metric.
    """
    runs = _newest(pattern, last, root)
    found: dict[tuple[str, str], History] = {}
    known: dict[str, None] = {}
    for run in reversed(runs):
        conditions = "" if force else _conditions(run, by)
        for case in run.cases:
            if not _matches(pattern, case, run):
                continue
            stat = _stat(case, metric, known)
            key = (case.key, conditions)
            if stat is not None and key not in found:
                found[key] = _begun(case, stat, conditions)
            if key in found:
                found[key] = _with(found[key], run, case, stat)
    if not found:
        raise _nothing(pattern, metric, list(known))
    histories = sorted(found.values(), key=lambda each: -len(each.points))
    return _with_steps(histories)


def _newest(pattern: str, last: int, root: Path | None) -> list[Run]:
    """Matching runs, newest first; files that cannot be read are passed over: `laptime list` shows them."""
    lines, _ = index.listing(root)
    base = root or folder.home()
    runs: list[Run] = []
    for line in lines:
        if line.fault or line.bound or line.status == "running":
            continue
        # The index knows targets, not keys: a pattern of keys begins as its target does.
        texts = [line.name, *line.targets]
        if pattern != "*" and not any(_may_match(pattern, text) for text in texts):
            continue
        try:
            runs.append(files.read(base / line.path))
        except UsageError:
            continue
        if len(runs) == last:
            break
    return runs


def _may_match(pattern: str, text: str) -> bool:
    plain = next((at for at, letter in enumerate(pattern) if letter in "*?["), len(pattern))
    head = pattern[:plain]
    return head.startswith(text) or text.startswith(head)


def _matches(pattern: str, case: Case, run: Run) -> bool:
    texts = (case.key, case.target, run.name)
    return any(text and (text == pattern or fnmatch.fnmatchcase(text, pattern)) for text in texts)


def _conditions(run: Run, by: By) -> str:
    environment = run.environment
    if by == "version":
        environment = structs.replace(environment, libraries={}, python="")
    return environment.fingerprint


def _stat(case: Case, metric: str, known: dict[str, None]) -> Stat | None:
    """The statistic of a case that can be believed; None else."""
    if case.status != "ok" or case.trust == "invalid":
        return None
    if not metric:
        stat = headline(case)
        if stat is None:  # imported numbers may be anything
            stat = next(iter(summarize(case).values()), None)
    else:
        stats = summarize(case)
        known.update(dict.fromkeys(stats))
        stat = stats.get(metric)
    return stat if stat is not None and stat.value is not None and stat.value > 0 else None


def _begun(case: Case, stat: Stat, conditions: str) -> History:
    return History(
        case=case.key,
        metric=stat.tag,
        title=stat.title,
        unit=stat.unit,
        better=stat.better,
        conditions=conditions,
        points=[],
    )


def _with(known: History, run: Run, case: Case, stat: Stat | None) -> History:
    if stat is None or stat.value is None or stat.unit != known.unit:
        return structs.replace(known, left_out=known.left_out + 1)
    git = run.environment.git or {}
    point = Point(
        run=run.id,
        name=run.name,
        started=run.started,
        commit=str(git.get("commit") or ""),
        dirty=bool(git.get("dirty")),
        versions=dict(run.environment.libraries),
        value=stat.value,
        ci95=stat.ci95,
        trust=case.trust,
    )
    return structs.replace(known, points=[*known.points, point])


def _with_steps(histories: list[History]) -> list[History]:
    found = changes([[point.value for point in each.points] for each in histories])
    return [
        structs.replace(
            each,
            steps=[_step(each, change) for change in own],
            note=""
            if len(each.points) >= FEWEST
            else f"{count(len(each.points), 'run')}: a change of level is looked for from {FEWEST} on",
        )
        for each, own in zip(histories, found, strict=True)
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


def _nothing(pattern: str, metric: str, known: Iterable[str]) -> UsageError:
    if known := list(known):
        near = closest(metric, known)
        return UsageError(
            f"no run has a metric called {metric!r}",
            why=f"they have {', '.join(known[:6])} ...",
            next=f"did you mean --metric {near}?" if near else "laptime show --json   lists all of a run",
        )
    return UsageError(
        f"no stored run matches {pattern!r}",
        why=f"looked for in {folder.home()}: case keys, targets and names; invalid numbers are left out",
        next="laptime list",
    )


__all__ = ["LEVEL", "By", "history"]
