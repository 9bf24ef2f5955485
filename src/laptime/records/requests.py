"""The requests of a level of load: one table, a row a request, from the sender to the report.

A row is an `Answer`: what became of the request with a number, also of one that failed. `Requests` are rows
as columns, which is how a run keeps them. Whatever needs two columns (a promise on each request's own time,
tokens by turn) reads rows; nothing joins columns by a time."""

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

from msgspec import Struct, structs

from laptime.records.series import Metric, Series, read_metrics

LATENCY, LATE, TURN, FIRST, FAILED, TTFT, TPOT, GAP = read_metrics("""
latency s lower latency
    Time of one call with one batch, in the regime named beside it.
    Lies when: Compared across regimes, batch sizes, dtypes or machines.
load/late s lower sent late
    From when a request was due until the sender turned to it: the generator's own fault.
load/turn s lower waiting for a turn
    From when a request was due until it was sent, since so many others were under way. Part of its
    latency.
load/first_byte s lower first byte
    From when a request was due until the first byte of the answer's body came.
load/failed s lower failed requests
    From when a request was due until it failed.
load/ttft s lower time to first token
    from when a request was due, or was sent if the tool does not give that, to its first token
load/tpot s lower time per output token
    (last token - first token) / (tokens after the first chunk) of a request
load/inter_chunk s lower between chunks
    From one chunk of an answer to the next: the inter-token latency if each chunk is a token.
    Lies when: A server sends several tokens in a chunk; the level says whether it did.
""")
TOKENS_IN, TOKENS_OUT, TURN_NUMBER = read_metrics("""
load/tokens_in 1 none prompt tokens
    Prompt tokens that the server counted.
load/tokens_out 1 none output tokens
    Output tokens that the server counted.
load/turn_number 1 none turn
    The request's turn, from 1 on, for each TTFT.
""")


class Answer(Struct, frozen=True, array_like=True):
    """The record of one request. Times are seconds on one clock, which the holder of the row names."""

    # of the request in its level; no two have the same. Turns of a conversation follow each other.
    number: int
    due: float  # when it was to be sent; of users: when the one before was answered
    woken: float  # when the sender turned to it
    sent: float  # when it was written: before, it waited for its turn
    # when the first byte of the answer's body (a language model: the first token) came; 0: none did
    first: float
    end: float  # when the last came, or when it failed
    error: str = ""  # its kind, "" if none; `detail` in words, which no table keeps
    detail: str = ""
    status: int = 0  # of HTTP; 0: none came
    size: int = 0  # bytes of the answer's body
    chunks: list[float] = []  # when each chunk with a token came, from `sent` on
    usage: list[int] = []  # by the server: tokens in, out, cached, of a first chunk of several; []: no count
    turn: int = 0  # of its conversation, from 0 on
    sender: int = 0  # number of the process that sent it
    wait: float = 0.0  # seconds that the server asked to wait before another one, which no table keeps

    @property
    def is_whole(self) -> bool:
        """Whether it was answered."""
        return not self.error

    @property
    def is_streamed(self) -> bool:
        """Whether it was answered token by token."""
        return bool(self.chunks) and not self.error

    @property
    def tpot(self) -> float | None:
        """Seconds from one output token to the next; None if fewer than two were counted, or all came at
        once. Where the first chunk's tokens are not known, it held as many as the others did on average."""
        made, chunks = self.usage[1] if self.usage and not self.error else 0, len(self.chunks)
        average = made / chunks if 1 < chunks < made else 1.0
        after = made - (self.usage[3] if len(self.usage) > 3 else average)
        return (self.end - self.first) / after if chunks != 1 and after > 0 else None


_TIMES = ("due", "woken", "sent", "first", "end")
_NS = 9  # digits of a stored time: the clock has no finer ones
_SPARSE = dict[str, Any](error="", status=0, size=0, chunks=[], usage=[], turn=0, sender=0)
"""Columns that are left out where every row has this value."""
_FIGURES: dict[str, tuple[Metric, Callable[[Answer], Sequence[float]]]] = {
    each.tag: (each, read)
    for each, read in (
        (LATENCY, lambda row: [row.end - row.due] * row.is_whole),
        (LATE, lambda row: [row.woken - row.due] * row.is_whole),
        (TURN, lambda row: [row.sent - row.woken] * row.is_whole),
        (FIRST, lambda row: [row.first - row.due] * (row.is_whole and row.first > 0)),
        (TTFT, lambda row: [row.first - row.due] * row.is_streamed),
        (TURN_NUMBER, lambda row: [row.turn + 1] * row.is_streamed),
        (TPOT, lambda row: [] if row.tpot is None else [row.tpot]),
        (GAP, lambda row: [after - at for at, after in pairwise(row.chunks)] * row.is_whole),
        (TOKENS_IN, lambda row: row.usage[:1] * row.is_whole),
        (TOKENS_OUT, lambda row: row.usage[1:2] * row.is_whole),
        (FAILED, lambda row: [row.end - row.due] * (not row.is_whole)),
    )
}
"""What one row tells of a metric."""
TAGS = frozenset(_FIGURES)


class Requests(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows of a level as columns, in the order in which they ended.

    regime: of their latencies: paced: each is due by a schedule; closed: each user sends when the last
    request was answered. number ... sender: as in `Answer`, with times in seconds since the run started. An
    empty column where there are rows: all have what a row has that says nothing."""

    regime: str = "paced"
    number: list[int] = []
    due: list[float] = []
    woken: list[float] = []
    sent: list[float] = []
    first: list[float] = []
    end: list[float] = []
    error: list[str] = []
    status: list[int] = []
    size: list[int] = []
    chunks: list[list[float]] = []
    usage: list[list[int]] = []
    turn: list[int] = []
    sender: list[int] = []

    @classmethod
    def of(cls, answers: Sequence[Answer], regime: str, began: float = 0.0) -> "Requests":
        """A table of rows whose times are on a clock on which the run started at `began`."""
        columns: dict[str, list[Any]] = {"number": [answer.number for answer in answers]}
        for name in _TIMES:
            times = [getattr(answer, name) for answer in answers]
            columns[name] = [round(at - began, _NS) if at or name != "first" else 0.0 for at in times]
        for name, nothing in _SPARSE.items():
            column = [getattr(answer, name) for answer in answers]
            columns[name] = column if any(value != nothing for value in column) else []
        return cls(regime=regime, **columns)

    def __len__(self) -> int:
        return len(self.number)

    @property
    def is_whole(self) -> bool:
        """Whether columns have a value for every row, usage none or all, and times are below a million years.
        Of requests that failed in older runs nobody knows when they were sent."""
        times = chain(self.due, self.first, self.end, *self.chunks)
        is_even = all(len(self.column(name)) == len(self) for name in ("number", *_TIMES, *_SPARSE))
        return is_even and all(abs(at) < 3e13 for at in times) and 1 not in map(len, self.usage)

    def column(self, name: str) -> list[Any]:
        """A column with a value for every row."""
        values: list[Any] = getattr(self, name)
        return values if values or name not in _SPARSE else [_SPARSE[name]] * len(self)

    def rows(self) -> list[Answer]:
        """All rows, in the order of the table; times are seconds since the run started."""
        kept = [name for name in Answer.__struct_fields__ if name != "wait"]
        columns = [[""] * len(self) if name == "detail" else self.column(name) for name in kept]
        return [Answer(*row) for row in zip(*columns, strict=True)]

    def extend(self, more: "Requests") -> "Requests":
        """This table with another's rows behind its own.
        Raises ValueError: the other's requests came in another way."""
        if more.regime != self.regime:
            raise ValueError(f"requests of a {more.regime} level are not part of a {self.regime} one")
        columns: dict[str, list[Any]] = {}
        for name in ("number", *_TIMES):
            columns[name] = getattr(self, name) + getattr(more, name)
        for name in _SPARSE:
            is_told = getattr(self, name) or getattr(more, name)
            columns[name] = self.column(name) + more.column(name) if is_told else []
        return structs.replace(self, **columns)

    def find(self, tag: str) -> Series | None:
        """One figure of every row that has it, in the order of the table, as samples; None if none has."""
        if tag not in _FIGURES or (tag == TURN_NUMBER.tag and not self.turn):
            return None
        metric, figures = _FIGURES[tag]
        told = [(row.due, value) for row in self.rows() for value in figures(row)]
        if not told:
            return None
        samples, at = [round(value, _NS) for _, value in told], [due for due, _ in told]
        made = Series(metric=metric, regime=self.regime, samples=samples, at=at)
        return structs.replace(made, probe="client", clock="perf_counter")

    @property
    def series(self) -> list[Series]:
        """All figures that there are."""
        return [series for tag in _FIGURES if (series := self.find(tag)) is not None]
