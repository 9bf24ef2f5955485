"""Run files of every version so far: what an older run lacks is made (`current`)."""

import codecs
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from laptime.kit.clock import moment
from laptime.kit.errors import UsageError
from laptime.records import requests
from laptime.records.case import Case
from laptime.records.load import Level
from laptime.records.requests import Answer, Requests
from laptime.records.run import SCHEMA, Run
from laptime.records.series import SHORTEST
from laptime.store.encoding import DAMAGE, decode

_NAME, _, _version = SCHEMA.rpartition("/")
CURRENT = int(_version)


class Head(msgspec.Struct):
    """The fields of a run that say whether it can be read; of a report that carries its run, the run."""

    schema: str = ""
    name: str = ""
    run: msgspec.Raw = msgspec.Raw(b"")


class Opening(msgspec.Struct):
    """The same of a journal's first line."""

    run: Head


def read_run(data: bytes, path: Path) -> Run:
    """The run in a file's bytes.
    Raises UsageError: the file is damaged, is no run, or comes from a newer laptime."""
    try:
        data = data.removeprefix(codecs.BOM_UTF8)
        head = decode(data, Head)
        if not head.schema.startswith(_NAME) and bytes(head.run):
            data = bytes(head.run)
            head = decode(data, Head)
        version = version_of(head, path)
        return current(decode(data, Run), version)
    except DAMAGE as error:
        raise refuse_file(path, error) from error


def current(run: Run, version: int) -> Run:
    """A run that was read from a file of this version, as the current one has it.
    Raises ValueError: it tells no time, or the latencies of a case are none."""
    moment(run.started)
    for case in run.cases:
        if case.requests is not None and not case.requests.is_whole:
            raise ValueError(f"a request of {case.key} has no time")
        for series in case.series:
            if series.metric.tag == "latency" and series.samples and not _are_times(series.samples):
                raise ValueError(f"a latency of {case.key} lies outside of 1 ps to a million years")
    return run if version >= CURRENT else with_rows(run)


def _are_times(samples: list[float]) -> bool:
    """Whether none is negative, one is above 1 ps, and all are below a million years; NaN is neither."""
    return min(samples) >= 0 and max(samples) > SHORTEST and sum(samples) < 3e13


def version_of(head: Head, path: Path) -> int:
    """The version that a file says it has.
    Raises UsageError: it is no run, or its version is newer than this program."""
    match = re.fullmatch(re.escape(_NAME) + r"/([1-9]\d*)(?:\.\d+)?", head.schema, re.ASCII)
    if match is None:
        why = f"its schema is {head.schema!r}, not {SCHEMA!r}" if head.schema else "it names no schema"
        next_ = (
            "laptime show ID -o FILE.json   writes a report that carries its run"
            if head.schema.startswith("laptime.")
            else "laptime list"
        )
        raise UsageError(f"{path} is not a laptime run", why=why, next=next_)
    version = int(match[1])
    if version > CURRENT:
        raise UsageError(
            f"{path} was written by a newer laptime",
            why=f"its schema is {head.schema}, this laptime reads up to {SCHEMA}",
            next="git pull   in the checkout that laptime was installed from",
        )
    return version


def refuse_file(path: Path, error: Exception | str) -> UsageError:
    why = str(error) or type(error).__name__
    return UsageError(f"{path} is damaged", why=why, next="laptime list   (the other runs are whole)")


# Load before version 2: series that were joined by the times at which requests were due, made rows once.
# Answered requests stand in the same order in all series that have one sample for each; the others are laid
# beside them by their due time, and within equal times by their position. What was not written stays unknown.

_CLOSE = 3e-6  # seconds by which the gaps of an answer may miss its length: each was rounded to 1e-6


def with_rows(run: Run) -> Run:
    """The run of an older version as this one writes it: its levels of load have tables of requests."""
    return structs.replace(run, schema=SCHEMA, cases=[_with_rows(case) for case in run.cases])


def _with_rows(case: Case) -> Case:
    facts = case.details.load
    if facts is None or case.requests is not None:
        return case
    rows = sorted([*_read_answered(case, facts), *_read_failed(case, facts)], key=lambda row: row.due)
    numbered = [structs.replace(row, number=number) for number, row in enumerate(rows)]
    others = [series for series in case.series if series.metric.tag not in requests.TAGS]
    return structs.replace(case, series=others, requests=Requests.of(numbered, facts.regime))


def _read_answered(case: Case, facts: Level) -> Iterator[Answer]:
    def samples(tag: str) -> list[float]:
        series = case.find(tag, facts.regime)
        return series.samples if series else []

    latency = case.find(requests.LATENCY.tag, facts.regime)
    if latency is None or len(latency.at) != len(latency.samples):
        return
    count = len(latency.samples)

    def whole(tag: str, nothing: float) -> list[float]:
        """A sample for each answered request; series that lack some tell of none."""
        found = samples(tag)
        return found if len(found) == count else [nothing] * count

    ends = [due + took for due, took in zip(latency.at, latency.samples, strict=True)]
    late, turn, turns = (
        whole(requests.LATE.tag, 0.0),
        whole(requests.TURN.tag, 0.0),
        whole(requests.TURN_NUMBER.tag, 1.0),
    )
    ttft = samples(requests.TTFT.tag)
    streamed = len(ttft) == count
    first = ttft if streamed else whole(requests.FIRST.tag, math.nan)
    usage = _usage(case, facts, latency.at)
    sent = [due + waited + in_turn for due, waited, in_turn in zip(latency.at, late, turn, strict=True)]
    begun = [due + after for due, after in zip(latency.at, first, strict=True)]
    chunks = _chunks(begun, ends, samples(requests.GAP.tag)) if streamed else [[]] * count
    for index, due in enumerate(latency.at):
        yield Answer(
            number=0,
            due=due,
            woken=due + late[index],
            sent=sent[index],
            first=0.0 if math.isnan(begun[index]) else begun[index],
            end=ends[index],
            chunks=[round(time - sent[index], 6) for time in chunks[index]],
            usage=usage[index],
            turn=round(turns[index]) - 1,
        )


def _read_failed(case: Case, facts: Level) -> Iterator[Answer]:
    kind = facts.errors[0].kind if len(facts.errors) == 1 else "failed"
    failed = case.find(requests.FAILED.tag, facts.regime)
    for due, took in zip(failed.at, failed.samples, strict=False) if failed else ():
        yield Answer(0, due, math.nan, math.nan, 0.0, due + took, kind)


def _usage(case: Case, facts: Level, due: Sequence[float]) -> list[list[int]]:
    """Tokens of each answer; [] of one whose tokens were not counted."""
    prompt, output, tpot = (
        case.find(metric.tag, facts.regime)
        for metric in (requests.TOKENS_IN, requests.TOKENS_OUT, requests.TPOT)
    )
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
