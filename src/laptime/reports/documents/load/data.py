"""A load test as the JSON document with stable keys, whose schema is published.

Format history:
    laptime.load/1   first version

Rules: keys are added, never renamed or retyped. NaN and infinity are written as null."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from laptime.analysis.load import Tokens
from laptime.analysis.stat import Stat
from laptime.records.case import Axis, Failure, Status
from laptime.records.check import Trust
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.reports import json_parts
from laptime.reports.documents.load import curve
from laptime.reports.documents.load.levels import LevelRow

SCHEMA: Literal["laptime.load/1"] = "laptime.load/1"
Interval = tuple[float | None, float | None]


class Number(Struct, frozen=True, kw_only=True):
    """A number in its SI unit with its 95 % interval; `value` is null where `note` says why."""

    value: float | None
    unit: str
    ci95: Interval | None
    n: int
    note: str


class OneLevel(Struct, frozen=True, kw_only=True):
    """One level. `latency` counts from when requests were due; `turn` of it is waiting for --concurrency.

    `window_p95` is that of the very requests that came, also if a queue grew. `steady` is the number of
    the first request that counts, `late` is the lateness that 99 of 100 keep."""

    key: str
    axes: dict[str, Axis]
    status: Status
    verdict: Trust
    unstable: bool
    facts: dict[str, Any]
    answered: Number | None
    latency: dict[str, Number]
    steady: int
    late: float | None
    turn: float | None
    tokens: dict[str, Any] | None
    growth: float
    window_p95: float | None
    reasons: list[json_parts.Reason]
    failure: Failure | None


Report = json_parts.struct(
    "Report",
    "A load test.",
    {
        "schema": Literal["laptime.load/1"],
        **json_parts.OF_RUN,
        "verdict": Trust,
        "target": str,
        "environment": json_parts.Environment,
        "plan": dict[str, Setting],
        "levels": list[OneLevel],
        "knee": curve.Knee | None,
    },
)


def report(run: Run, rows: Sequence[LevelRow]) -> Any:
    """The document as plain data."""
    made = json_parts.fill(
        Report,
        run,
        schema=SCHEMA,
        verdict=run.trust,
        target=run.subjects[0].target if run.subjects else "",
        environment=json_parts.machine(run),
        levels=[_level(row) for row in rows],
        knee=curve.knee_of(run, rows),
    )
    return msgspec.json.decode(msgspec.json.encode(made, enc_hook=str))


def _level(each: LevelRow) -> OneLevel:
    case, stats = each.case, each.stats
    return json_parts.fill(
        OneLevel,
        case,
        verdict=case.trust,
        unstable=each.grows,
        facts=json_parts.plain(each.facts),
        answered=_number(stats.answered) if stats else None,
        latency={name: _number(stat) for name, stat in stats.latency.items()} if stats else {},
        steady=stats.steady if stats else 0,
        late=stats.late if stats else None,
        turn=stats.turn if stats else None,
        tokens=_tokens(stats.tokens) if stats and stats.tokens else None,
        growth=stats.balance.growth if stats else 0.0,
        window_p95=stats.window if stats else None,
        reasons=[json_parts.reason(check, case) for check in case.checks if check.outcome != "ok"],
    )


def _tokens(tokens: Tokens) -> dict[str, Any]:
    by_name = {name: value for name, value in tokens._asdict().items() if isinstance(value, dict)}
    told = {name: {q: _number(stat) for q, stat in stats.items()} for name, stats in by_name.items()}
    return {**tokens._asdict(), **told, "by_turn": [_number(stat) for stat in tokens.by_turn]}


def _number(stat: Stat) -> Number:
    return json_parts.fill(Number, stat)
