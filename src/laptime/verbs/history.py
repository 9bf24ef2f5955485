"""`history`: a metric over stored runs, commits and versions, and where its level changed."""

from __future__ import annotations

import fnmatch
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import structs

from laptime.analysis.change_points import FEWEST, LEVEL, ChangePoint, changes
from laptime.analysis.stat import Stat
from laptime.analysis.summary import headline, summarize
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
    runs = recent(pattern, last, root)
    histories: dict[tuple[str, str], History] = {}
    metrics: dict[str, None] = {}
    for run in reversed(runs):
        conditions = "" if force else _conditions(run, by)
        for case in run.cases:
            if not _matches(pattern, case, run):
                continue
            stat = _stat(case, metric, metrics)
            key = (case.key, conditions)
            if stat is not None and key not in histories:
                histories[key] = _empty(case, stat, conditions)
            if key in histories:
                histories[key] = _with(histories[key], run, case, stat)
    if not histories:
        raise _nothing(pattern, metric, list(metrics))
    return _with_steps(sorted(histories.values(), key=lambda history: -len(history.points)))


def recent(pattern: str = "*", last: int = 60, root: Path | None = None) -> list[Run]:
    """Stored runs that match, newest first; unreadable files are passed over: `laptime list` shows them."""
    base = root or folder.home()
    runs: list[Run] = []
    for listed in index.listing(root)[0]:
        if listed.fault or listed.bound or listed.status == "running":
            continue
        # The index has targets, not keys: a pattern of keys begins as its target does.
        texts = [listed.name, *listed.targets]
        if pattern != "*" and not any(_may_match(pattern, text) for text in texts):
            continue
        with suppress(UsageError):
            runs.append(files.read(base / listed.path))
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


def _stat(case: Case, metric: str, metrics: dict[str, None]) -> Stat | None:
    """The statistic of a case, None where it is invalid; all that it has are noted in `metrics`."""
    if case.status != "ok" or case.trust == "invalid":
        return None
    if not metric:
        stat = headline(case)
        if stat is None:  # imported numbers may be anything
            stat = next(iter(summarize(case).values()), None)
    else:
        stats = summarize(case)
        metrics.update(dict.fromkeys(stats))
        stat = stats.get(metric)
    return stat if stat is not None and stat.value is not None and stat.value > 0 else None


def _empty(case: Case, stat: Stat, conditions: str) -> History:
    return History(
        case=case.key,
        metric=stat.tag,
        title=stat.title,
        unit=stat.unit,
        better=stat.better,
        conditions=conditions,
        points=[],
    )


def _with(history: History, run: Run, case: Case, stat: Stat | None) -> History:
    if stat is None or stat.value is None or stat.unit != history.unit:
        return structs.replace(history, left_out=history.left_out + 1)
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
        at_least=stat.at_least,
    )
    return structs.replace(history, points=[*history.points, point])


def _with_steps(histories: list[History]) -> list[History]:
    changes_of = changes([[point.value for point in history.points] for history in histories])
    few = f"a change of level is looked for from {FEWEST} on"
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
