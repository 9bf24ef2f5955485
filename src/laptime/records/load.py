"""Levels of load: what was asked for, what became of it. A level is a case; its facts are `details.load`."""

from typing import Literal

from msgspec import Struct

from laptime.records.requests import Requests
from laptime.records.series import read_metrics

OPEN, CLOSED = "paced", "closed"
"""Regimes of a level: requests as they are due; users who wait for an answer before they send again."""
AT_ONCE = "at once"  # arrivals of a level whose requests are all due when it begins
AT_SLO = "throughput/at_slo"
"""Tag of a series of highest rates at which a promise was held; the case's detail `slo` has it in words."""
ANSWERED, AT_SLO_RATE = read_metrics("""
load/answered 1/s higher answered
    Whole answers per second, from when the first request that counts was due.
throughput/at_slo 1/s higher highest rate that keeps the promise
    Requests per second at which a level of its own proved the promise.
""")


class Errors(Struct, frozen=True, kw_only=True):
    """Failed requests of one kind, with what one of them said."""

    kind: str
    count: int
    example: str = ""


class ServerCounts(Struct, frozen=True, kw_only=True):
    """Requests of one level as one side counts them."""

    requests: int  # answered
    # prompt, output: tokens
    prompt: int
    output: int
    first_tokens: int  # requests that had one
    ttft: float | None  # seconds from arrival, or sending, to it, on average


class Alone(Struct, frozen=True, kw_only=True):
    """The generator's test on loopback, where no server is in its way."""

    rate: float  # requests per second that it was tested at
    late: float  # seconds behind schedule, 99 of 100 less
    cpu: float  # of the busiest sender, share of its time
    capacity: float  # requests per second that all senders together could send, each with a CPU of its own
    quota: float | None = None  # CPUs that it may use by a limit of its group; None: without a limit
    bound: bool = False  # it may use some CPUs of this machine only (taskset)


class Level(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of one level."""

    # open: requests come as they are due; closed: users wait for their answers
    kind: Literal["open", "closed"]
    rate: float | None = None  # requests per second that were asked for, on average; None of users
    arrivals: str = ""  # law of the gaps, "trace" or "at once"
    scenario: str = ""  # of MLPerf, if the user named one
    concurrency: int | None = None  # users; of an open level the most that may be under way, None: any number
    scheduled: int = 0  # requests that were due
    answered: int = 0  # whole answers
    failed: int = 0  # others
    begin: float = 0.0  # first request due, in seconds since the run started
    window: float = 0.0  # seconds in which requests came
    senders: int = 1  # processes
    cpu: float = 0.0  # of the busiest, share of its time
    stalls: list[list[float]] = []  # [begin, seconds] since the run started
    errors: list[Errors] = []
    sizes: tuple[int, int] | None = None  # bytes of answers, the least and the most
    # tokens of a prompt and of an answer that were asked for; None if no tokens are
    asked: tuple[int, int] | None = None
    chunks: int = 0  # with tokens in them, of all answers
    uncounted: int = 0  # answers whose tokens the server did not count
    turns: int = 1  # requests of a conversation
    cached: int = 0  # prompt tokens that the server had already
    slo: str = ""  # promises
    kept: str = ""  # kept, broken or undecided, and what says so (`said`)
    said: str = ""
    # requests per second that kept the promises themselves, and its interval
    goodput: tuple[float, float, float] | None = None
    usd_per_hour: float | None = None  # of the machine that serves
    # what the server's own `/metrics` counted meanwhile; None if it does not say
    server: ServerCounts | None = None
    alone: Alone | None = None  # what the generator did before, without the server; None of a program
    ended: str = ""  # why a level of no fixed length ended: precise, unstable or limit

    @property
    def regime(self) -> str:
        """The regime of its latencies."""
        return OPEN if self.kind == "open" else CLOSED

    @property
    def users(self) -> int:
        """Those who wait for their answers; 0 of an open level."""
        return (self.concurrency or 0) * (self.kind == "closed")


def count_here(requests: Requests | None, level: Level) -> ServerCounts:
    """Count the answered requests of a level as seen here; `ttft` counts from sending."""
    whole = [row for row in requests.rows() if row.is_whole] if requests else []
    first = [row.first - row.sent for row in whole if row.is_streamed]
    return ServerCounts(
        requests=level.answered,
        prompt=sum(row.usage[0] for row in whole if row.usage),
        output=sum(row.usage[1] for row in whole if row.usage),
        first_tokens=len(first),
        ttft=sum(first) / len(first) if first else None,
    )
