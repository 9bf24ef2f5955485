"""Levels of load: what was asked for, what became of it. A level is a case; its facts are `details.load`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from laptime.records.requests import Requests
from laptime.records.series import Metric

OPEN, CLOSED = "paced", "closed"
"""Regimes of a level: requests as they are due; users who wait for an answer before they send again."""
AT_ONCE = "at once"  # arrivals of a level whose requests are all due when it begins
AT_SLO = "throughput/at_slo"
"""Tag of a series of highest rates at which a promise was held; the case's detail `slo` has it in words."""
ANSWERED = Metric(
    tag="load/answered",
    unit="1/s",
    title="answered",
    better="higher",
    meaning="Whole answers per second, from when the first request that counts was due.",
)
AT_SLO_RATE = Metric(
    tag=AT_SLO,
    unit="1/s",
    title="highest rate that keeps the promise",
    better="higher",
    meaning="Requests per second at which a level of its own proved the promise.",
)


class Errors(Struct, frozen=True, kw_only=True):
    """Failed requests of one kind, with what one of them said."""

    kind: str
    count: int
    example: str = ""


class ServerCounts(Struct, frozen=True, kw_only=True):
    """Requests of one level as one side counts them.

    Attributes:
        requests: answered. prompt, output: tokens.
        first_tokens: requests that had one. ttft: seconds from arrival, or sending, to it, on average.
    """

    requests: int
    prompt: int
    output: int
    first_tokens: int
    ttft: float | None


class Alone(Struct, frozen=True, kw_only=True):
    """What the generator does on loopback, where no server is in its way.

    Attributes:
        rate: requests per second that it was tested at.
        late: seconds behind schedule, 99 of 100 less. cpu: of the busiest sender, share of its time.
        capacity: requests per second that all senders together could send, each with a CPU of its own.
        quota: CPUs that it may use by a limit of its group; None: without a limit.
        bound: it may use some CPUs of this machine only (taskset).
    """

    rate: float
    late: float
    cpu: float
    capacity: float
    quota: float | None = None
    bound: bool = False


class Level(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of one level.

    Attributes:
        kind: open: requests come as they are due; closed: users wait for their answers.
        rate: requests per second that were asked for, on average; None of users.
        arrivals: law of the gaps, "trace" or "at once". scenario: of MLPerf, where the user named one.
        concurrency: users; of an open level the most that may be under way, None: any number.
        scheduled: requests that were due. answered: whole answers. failed: others.
        begin: first request due, in seconds since the run started. window: seconds in which requests came.
        senders: processes. cpu: of the busiest, share of its time. stalls: [begin, seconds] since the run
            started.
        sizes: bytes of answers, the least and the most.
        asked: tokens of a prompt and of an answer that were asked for; None where no tokens are.
        chunks: with tokens in them, of all answers. uncounted: answers whose tokens the server did not count.
        turns: requests of a conversation.
        cached: prompt tokens that the server had already.
        slo: promises; kept: kept, broken or undecided, and what says so (`said`).
        goodput: requests per second that kept the promises themselves, and its interval.
        usd_per_hour: of the machine that serves.
        alone: what the generator did before, without the server; None of a program.
        ended: why a level of no fixed length ended: precise, unstable or limit.
        server: what the server's own `/metrics` counted meanwhile; None where it does not tell.
    """

    kind: Literal["open", "closed"]
    rate: float | None = None
    arrivals: str = ""
    scenario: str = ""
    concurrency: int | None = None
    scheduled: int = 0
    answered: int = 0
    failed: int = 0
    begin: float = 0.0
    window: float = 0.0
    senders: int = 1
    cpu: float = 0.0
    stalls: list[list[float]] = []
    errors: list[Errors] = []
    sizes: tuple[int, int] | None = None
    asked: tuple[int, int] | None = None
    chunks: int = 0
    uncounted: int = 0
    turns: int = 1
    cached: int = 0
    slo: str = ""
    kept: str = ""
    said: str = ""
    goodput: tuple[float, float, float] | None = None
    usd_per_hour: float | None = None
    server: ServerCounts | None = None
    alone: Alone | None = None
    ended: str = ""

    @property
    def regime(self) -> str:
        """Of its latencies."""
        return OPEN if self.kind == "open" else CLOSED


def seen_here(requests: Requests | None, level: Level) -> ServerCounts:
    """What was counted here of the answered requests of a level; `ttft` counts from sending."""
    whole = [row for row in requests.rows() if row.is_whole] if requests else []
    first = [row.first - row.sent for row in whole if row.is_streamed]
    return ServerCounts(
        requests=level.answered,
        prompt=sum(row.usage[0] for row in whole if row.usage),
        output=sum(row.usage[1] for row in whole if row.usage),
        first_tokens=len(first),
        ttft=sum(first) / len(first) if first else None,
    )
