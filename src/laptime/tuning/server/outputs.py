"""The answers of a server: the same as before? how fast? does it keep its promise?

The same prompts are asked one after another, temperature 0, and then all at once: an answer must not depend
on others. It has parts: the text of a language model, its tokens; of JSON (or a line each) every value by its
place; of other text every word; else the whole body. The server as it is is asked after two starts: parts
that came out the same are held against the tuned one, the others (an id, a time, a text that is drawn) are
named and left out. A block of load gives one number for the race; all its requests count for the promise."""

import asyncio
import gzip
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from itertools import chain
from os.path import commonprefix
from statistics import fmean
from typing import Any

from msgspec import structs

from laptime.analysis.load import level_stats
from laptime.analysis.promises import level_judged, promises
from laptime.kit.clock import SystemClock
from laptime.kit.text import count
from laptime.loadgen.connection import Reply
from laptime.loadgen.endpoint import HttpClient, client_of, spoken
from laptime.loadgen.messages import Endpoint
from laptime.records.case import Case
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Judgement
from laptime.records.requests import GAP, LATENCY, TPOT, TTFT
from laptime.records.tuning import GATED, Gate, GateCheck
from laptime.tuning.gates.invariants import report
from laptime.tuning.search.evaluator import TrialFailed

PROMPTS = 8  # so many different ones are asked, of those that the load sends; so many at once
ROUNDS, MOST_AT_ONCE = 3, 64  # how often so many are asked as are under way, and how many at most
MANY = 300  # answers at once, while there is time: with 998 of 1,000 one of 50 that is wrong is among them
_BETWEEN = re.compile(r"[\s,;|=<>()\[\]{}\"']+")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
LENGTHS = ("prompt tokens", "output tokens", "status", "length", "values", "error", "prompt answered")
"""Parts that are compared where texts may differ."""
_MOST_NAMED = 4
Output = dict[str, Any]  # parts of one answer


def outputs(endpoint: Endpoint, at_once: int = PROMPTS, seconds: float = 0.0) -> list[Output]:
    """Ask a server the first different prompts of its load, alone and so many at once, again for so many
    seconds. An answer has its `prompt`; of texts that were made at once it is below zero.
    Raises TrialFailed: it does not answer one."""
    most = min(max(PROMPTS, at_once), MOST_AT_ONCE)
    return asyncio.run(_ask(structs.replace(endpoint, turns=1), most, SystemClock.now() + seconds))


async def _ask(endpoint: Endpoint, most: int, until: float) -> list[Output]:
    client, rounds = client_of(endpoint, SystemClock.now), 0
    number = min(PROMPTS, max(1, len(endpoint.bodies)))
    try:
        alone = [await _one(client, endpoint, at) for at in range(number)]
        if failed := next((each["error"] for each in alone if "error" in each), None):
            raise TrialFailed("crashed", f"a prompt had no answer: {failed}")
        while rounds < ROUNDS or (rounds * most < MANY and SystemClock.now() < until):
            rounds += 1
            at_once = [_one(client, endpoint, at % number) for at in range(most)]
            for index, answer in enumerate(await asyncio.gather(*at_once)):
                if endpoint.stream and "error" not in answer:
                    # A language model answered the prompt whose own answer begins alike for longest: rounding
                    # makes the ends of texts differ that are made in one batch.
                    texts, own = [each["text"] for each in alone[:number]], index % number
                    alike = [len(commonprefix([text, answer["text"]])) for text in texts]  # noqa: RUF071 (characters)
                    best = own if alike[own] == max(alike) else alike.index(max(alike))
                    answer = {"prompt": -1 - own, "prompt answered": best}
                alone.append(answer)
        return alone
    finally:
        client.close()


async def _one(client: HttpClient, endpoint: Endpoint, at: int) -> Output:
    now = SystemClock.now()
    answer, reply = await client.exchange(client.requests[at], at, now, now)
    if answer.error or reply is None:
        return {"prompt": at, "error": f"{answer.error} {answer.detail}".strip()}
    if not endpoint.stream:
        return {"prompt": at, **_parts(reply)}
    counts = zip(("prompt tokens", "output tokens"), answer.usage or (), strict=False)
    return {"prompt": at, "text": spoken(reply, aloud=False), **dict(counts)}


def _parts(reply: Reply) -> Output:
    body = reply.body
    if reply.headers.get("content-encoding", "").lower() == "gzip":
        with suppress(OSError, EOFError, zlib.error):  # a damaged one is held against the other as it is
            body = gzip.decompress(body)
    lines = b"[" + b",".join(line for line in body.splitlines() if line.strip()) + b"]"
    for document in (body, lines):
        with suppress(ValueError):
            values = _flat(json.loads(document), "")  # it reads NaN, which servers in Python write
            return {"status": reply.status, "values": len(values), **dict(values)}
    with suppress(UnicodeDecodeError):
        words = [word for word in _BETWEEN.split(body.decode()) if word]
        if len(words) > 1:
            named = {f"word {index}": word for index, word in enumerate(words, 1)}
            return {"status": reply.status, "values": len(words), **named}
    return {"status": reply.status, "length": len(body), "body": body}


def _flat(value: Any, place: str) -> list[tuple[str, Any]]:
    """Values of a JSON document by their places: `choices[0].text`."""
    if isinstance(value, dict):
        return [pair for key, each in value.items() for pair in _flat(each, f"{place}.{key}".lstrip("."))]
    if isinstance(value, list):
        return [pair for index, each in enumerate(value) for pair in _flat(each, f"{place}[{index}]")]
    return [(place or "body", value)]


def _alike(a: Any, b: Any) -> bool:
    """Whether two values are the same; numbers, also in a text, as far as float32 tells when it is summed in
    another order. Whole ones have to be equal."""
    if bool in (type(a), type(b)) or None in (a, b):
        return a is b
    if a == b or (one := str(a)) == (other := str(b)):
        return True
    if isinstance(a, bytes) or isinstance(b, bytes) or _NUMBER.sub("", one) != _NUMBER.sub("", other):
        return False
    for x, y in zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True):
        is_whole = not any(sign in x + y for sign in ".eE")
        if x != y and (is_whole or not math.isclose(float(x), float(y), rel_tol=1e-5, abs_tol=1e-6)):
            return False
    return True


def gate(reference: Sequence[Sequence[Output]], tuned: Sequence[Output], *, differs: bool) -> Gate:
    """Whether the tuned server answers as the server as it is.
    reference: all that the server as it is answered, once for each start; at least two. differs: texts may
    differ, as long as they are as long."""
    stable, varies = _compare(reference, differs=differs)
    starts = f"the server as it is, asked after {len(reference)} starts,"
    said = f"differs in {_name(varies)}: left out of the comparison" if varies else "gave the same answers"
    if any(stable.values()):
        checks = [report("repeatable", KEPT, f"{starts} {said}"), _same(stable, tuned)]
    else:
        checks = [report("repeatable", UNDECIDED, f"{starts} answers differently in every part")]
    return Gate(
        word=GATED[Judgement.of_all(check.outcome for check in checks)],
        numerics="precision" if differs else "exact",
        steps=len(tuned),
        reason=next((check.sentence for check in reversed(checks) if check.outcome is not KEPT), ""),
        checks=checks,
    )


def _compare(reference: Sequence[Sequence[Output]], *, differs: bool) -> tuple[dict[int, Output], set[str]]:
    """Return, by prompt, the parts that came out the same each time; and the names of those that did not,
    for whichever prompt: a count of requests say."""
    first: dict[int, Output] = {}
    varies: set[str] = set()
    for each in (answer for answer in chain(*reference) if "error" not in answer):
        known = first.setdefault(each["prompt"], each)
        both = known.keys() & each.keys()
        varies |= (known.keys() ^ each.keys()) | {
            name for name in both if not _alike(known[name], each[name])
        }
    for at, parts in first.items():
        names = parts.keys() - varies - {"prompt"}
        first[at] = {name: parts[name] for name in (names & {*LENGTHS} if differs else names)}
    return first, varies


def _same(stable: Mapping[int, Output], tuned: Sequence[Output]) -> GateCheck:
    apart = []
    for after in tuned:
        parts = stable.get(after["prompt"], {}).items()
        apart.append({name for name, value in parts if name not in after or not _alike(value, after[name])})
    wrong = sum(map(bool, apart))
    compared = _name(set().union(*stable.values()))
    if wrong:
        text = f"{wrong} of {count(len(tuned), 'answer')} came out different in {_name(set().union(*apart))}"
        return report("answers", BROKEN, text, float(wrong), 0.0)
    return report("answers", KEPT, f"{count(len(tuned), 'answer')} came out the same: {compared}", 0.0, 0.0)


def _name(parts: set[str]) -> str:
    names = sorted(parts)
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


# Figures and promises


_SERIES = {"latency": LATENCY, "ttft": TTFT, "tpot": TPOT, "itl": GAP}
TITLES = {
    "throughput": "answers per second",
    "latency": "mean latency",
    "ttft": "mean time to first token",
    "tpot": "mean time per output token",
    "itl": "mean inter-token latency",
}


def figure(case: Case, name: str) -> float:
    """Seconds, less is better: the mean of a latency over all requests, a growing queue's too; of throughput
    the seconds that an answer (of a language model: an output token) takes of the server's time. name: one of
    `TITLES`.
    Raises TrialFailed: the block has no such figure."""
    if name == "throughput":
        return 1 / rate(case)
    samples = [
        value for sample in case.samples if sample.metric.tag == _SERIES[name].tag for value in sample.samples
    ]
    if not samples:
        raise TrialFailed("crashed", f"no answer had a {TITLES[name].removeprefix('mean ')}")
    return fmean(samples)


def rate(case: Case) -> float:
    """Answers per second, of a language model whose tokens are counted output tokens per second.
    Raises TrialFailed: there is none."""
    stats = level_stats(case)
    answered = stats.answered.value if stats else None
    if stats is None or not answered:
        raise TrialFailed("crashed", "too few answers came for a rate")
    return (stats.tokens.got if stats.tokens else None) or answered


def pool(cases: Sequence[Case]) -> Case:
    """All requests of several blocks as one level, in order of their time."""
    return reduce(lambda whole, case: whole.with_requests(case.requests) if case.requests else whole, cases)


def limits(slo: str, cases: Sequence[Case]) -> list[GateCheck]:
    """Whether blocks of load keep a promise: by the upper end of its interval, never by the point value."""
    if not slo or not cases:
        return []
    growing = sum(bool(stats and stats.balance.grows) for stats in map(level_stats, cases))
    if 2 * growing > len(cases):
        text = f"{slo}: the queue grew in {growing} of {len(cases)} blocks: above capacity"
        return [report("slo", BROKEN, text)]
    verdict = level_judged(promises(slo), level_stats(pool(cases)))
    return [report("slo", verdict.word, f"{slo} is {verdict.word}: {verdict.sentence}")]
