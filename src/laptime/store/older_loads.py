"""Load of older versions: series that were joined by the times at which requests were due, made rows once.

Answered requests stand in the same order in all series that have one sample for each; the others (time per
output token, tokens of answers that were counted) are laid beside them by their due time, and within equal
times by their position. What was not written down stays unknown: which kind of failure a request had where a
level has several, when a failed one was sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec import structs

from laptime.records.case import Case
from laptime.records.load import Level
from laptime.records.requests import (
    FAILED,
    FIRST,
    GAP,
    LATE,
    LATENCY,
    TOKENS_IN,
    TOKENS_OUT,
    TPOT,
    TTFT,
    TURN,
    TURN_NUMBER,
    Answer,
    Requests,
)
from laptime.records.run import SCHEMA, Run

_TAGS = {
    metric.tag
    for metric in (
        LATENCY,
        LATE,
        TURN,
        FIRST,
        TTFT,
        TURN_NUMBER,
        TPOT,
        GAP,
        TOKENS_IN,
        TOKENS_OUT,
        FAILED,
    )
}
_CLOSE = 3e-6
"""Seconds by which the gaps of an answer may miss its length: each was rounded to 1e-6."""


def with_rows(run: Run) -> Run:
    """The run of an older version as this one writes it: its levels of load have tables of requests."""
    return structs.replace(run, schema=SCHEMA, cases=[_with_rows(case) for case in run.cases])


def _with_rows(case: Case) -> Case:
    facts = case.details.load
    if facts is None or case.requests is not None:
        return case
    rows = sorted([*_answered(case, facts), *_failed(case, facts)], key=lambda row: row.due)
    numbered = [structs.replace(row, number=number) for number, row in enumerate(rows)]
    others = [series for series in case.series if series.metric.tag not in _TAGS]
    return structs.replace(case, series=others, requests=Requests.of(numbered, facts.regime))


def _answered(case: Case, facts: Level) -> Iterator[Answer]:
    def samples(tag: str) -> list[float]:
        series = case.find(tag, facts.regime)
        return series.samples if series else []

    latency = case.find(LATENCY.tag, facts.regime)
    if latency is None or len(latency.at) != len(latency.samples):
        return
    count = len(latency.samples)

    def whole(tag: str, nothing: float) -> list[float]:
        """A sample for each answered request; series that lack some tell of none."""
        found = samples(tag)
        return found if len(found) == count else [nothing] * count

    ends = [due + took for due, took in zip(latency.at, latency.samples, strict=True)]
    late, turn, turns = whole(LATE.tag, 0.0), whole(TURN.tag, 0.0), whole(TURN_NUMBER.tag, 1.0)
    ttft = samples(TTFT.tag)
    streamed = len(ttft) == count
    first = ttft if streamed else whole(FIRST.tag, math.nan)
    usage = _usage(case, facts, latency.at)
    sent = [due + waited + in_turn for due, waited, in_turn in zip(latency.at, late, turn, strict=True)]
    begun = [due + after for due, after in zip(latency.at, first, strict=True)]
    chunks = _chunks(begun, ends, samples(GAP.tag)) if streamed else [[]] * count
    for at, due in enumerate(latency.at):
        yield Answer(
            number=0,
            due=due,
            woken=due + late[at],
            sent=sent[at],
            first=0.0 if math.isnan(begun[at]) else begun[at],
            end=ends[at],
            chunks=[round(time - sent[at], 6) for time in chunks[at]],
            usage=usage[at],
            turn=round(turns[at]) - 1,
        )


def _failed(case: Case, facts: Level) -> Iterator[Answer]:
    kind = facts.errors[0].kind if len(facts.errors) == 1 else "failed"
    failed = case.find(FAILED.tag, facts.regime)
    for due, took in zip(failed.at, failed.samples, strict=False) if failed else ():
        yield Answer(0, due, math.nan, math.nan, 0.0, due + took, kind)


def _usage(case: Case, facts: Level, due: Sequence[float]) -> list[list[int]]:
    """Tokens of each answer; [] of one whose tokens were not counted."""
    prompt, output, tpot = (case.find(metric.tag, facts.regime) for metric in (TOKENS_IN, TOKENS_OUT, TPOT))
    if prompt is None or output is None:
        return [[] for _ in due]
    pairs = [[round(a), round(b), 0] for a, b in zip(prompt.samples, output.samples, strict=True)]
    if len(pairs) == len(due):
        return pairs
    counted = [pair for pair in pairs if pair[1] > 1]  # those with a time per token
    left = list(zip(tpot.at, counted, strict=False)) if tpot else []
    usage: list[list[int]] = []
    for at in due:
        usage.append(left.pop(0)[1] if left and left[0][0] == at else [])
    return usage


def _chunks(first: Sequence[float], end: Sequence[float], gaps: Sequence[float]) -> list[list[float]]:
    """When each chunk of each answer came: as many gaps as fill the time from its first to its last token."""
    left = iter(gaps)
    made = []
    for begin, last in zip(first, end, strict=True):
        times = [begin]
        while last - times[-1] > _CLOSE and (gap := next(left, None)) is not None:
            times.append(times[-1] + gap)
        made.append(times)
    if made:
        for gap in left:
            made[-1].append(made[-1][-1] + gap)
    return made
