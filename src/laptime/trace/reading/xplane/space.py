"""XSpace: planes (a host, a GPU), their lines (threads, streams), events on these. As written, not judged.

Only the stats that somebody reads are decoded: tf.data alone writes twenty with every element."""

from typing import NamedTuple

from laptime.kit.protobuf import NUMBER, double, fields, read_signed

Fact = int | float | str
NO_FACTS: dict[str, Fact] = {}
Words = dict[int, str]
OF_EVENTS = frozenset(
    {"step_num", "tf_function_call", "correlation_id", "kernel_details", "memcpy_details", "memset_details"}
)
"""Stats of events that are read."""


class Kind(NamedTuple):
    """The shared facts of events: name, and the one to show if it differs."""

    name: str
    shown: str


class Event(NamedTuple):
    """One range: what it is (a key of `Plane.kinds`), ns since the profiler was started, stats."""

    kind: int
    start: int
    end: int
    facts: dict[str, Fact]


class Line(NamedTuple):
    """A thread or a stream."""

    name: str
    events: list[Event]


class Plane(NamedTuple):
    """A host or a device."""

    name: str
    kinds: dict[int, Kind]
    lines: list[Line]
    facts: dict[str, Fact]


def planes(data: bytes) -> list[Plane]:
    """All planes of a file. Raises Damaged: the bytes are no XSpace."""
    return [
        _plane(data, at, end) for field, at, end in fields(data, 0, len(data)) if field == 1 and end != NUMBER
    ]


def _plane(data: bytes, at: int, end: int) -> Plane:
    name = ""
    lines, stats = [], []
    kinds = dict[int, Kind]()
    words = Words()
    for field, begin, stop in fields(data, at, end):
        if stop == NUMBER:
            continue
        if field == 2:
            name = _text(data, begin, stop)
        elif field == 3:
            lines.append((begin, stop))  # read when the names are known, which come behind it
        elif field == 4:
            number, kind = _entry(data, begin, stop)
            kinds[number] = kind
        elif field == 5:
            number, kind = _entry(data, begin, stop)
            words[number] = kind.name
        elif field == 6:
            stats.append((begin, stop))
    facts = dict[str, Fact]()
    for begin, stop in stats:
        _stat(data, begin, stop, words, facts)
    return Plane(name, kinds, [_line(data, *line, words) for line in lines], facts)


def _entry(data: bytes, at: int, end: int) -> tuple[int, Kind]:
    """An entry of event_metadata (name 2, display name 4) or of stat_metadata (name 2)."""
    number, texts = 0, dict[int, str]()
    for field, value, stop in fields(data, at, end):
        if field == 1 and stop == NUMBER:
            number = read_signed(value)
        elif field == 2 and stop != NUMBER:
            texts = _texts(data, value, stop, (2, 4))
    return number, Kind(texts.get(2, ""), texts.get(4, ""))


def _texts(data: bytes, at: int, end: int, wanted: tuple[int, ...]) -> dict[int, str]:
    """Texts of these fields."""
    found = ((field, begin, stop) for field, begin, stop in fields(data, at, end) if field in wanted)
    return {field: _text(data, begin, stop) for field, begin, stop in found if stop != NUMBER}


def _line(data: bytes, at: int, end: int, words: Words) -> Line:
    texts, began, events = _texts(data, at, end, (2, 11)), 0, []
    for field, value, stop in fields(data, at, end):
        if field == 3 and stop == NUMBER:
            began = read_signed(value)
        elif field == 4 and stop != NUMBER:
            events.append((value, stop))
    name = texts.get(11) or texts.get(2, "")
    return Line(name, [_event(data, *event, began, words) for event in events])


def _event(data: bytes, at: int, end: int, began: int, words: Words) -> Event:
    kind = offset = duration = 0
    facts = NO_FACTS
    for field, value, stop in fields(data, at, end):
        if stop == NUMBER:
            if field == 1:
                kind = read_signed(value)
            elif field == 2:
                offset = read_signed(value)
            elif field == 3:
                duration = read_signed(value)
        elif field == 4:
            event_facts = facts or {}
            if _stat(data, value, stop, words, event_facts, wanted=False):
                facts = event_facts
    # Both ends are rounded the same way, so that what lies inside in ps does so in ns.
    return Event(kind, began + offset // 1000, began + (offset + duration) // 1000, facts)


def _stat(data: bytes, at: int, end: int, words: Words, into: dict[str, Fact], wanted: bool = True) -> bool:
    """Add one stat, if all are wanted or this one is; whether it was added."""
    name = ""
    value: Fact = 0
    for field, raw, stop in fields(data, at, end):
        if field == 1 and stop == NUMBER:
            name = words.get(read_signed(raw), "")
            if not wanted and name not in OF_EVENTS:
                return False
        elif field == 5 and stop != NUMBER:
            value = _text(data, raw, stop)
        elif stop == NUMBER and field == 2:
            value = double(raw)
        elif stop == NUMBER and field in (3, 4):
            value = read_signed(raw)
        elif stop == NUMBER and field == 7:
            value = words.get(read_signed(raw), "")
    into[name] = value
    return True


def _text(data: bytes, begin: int, end: int) -> str:
    return data[begin:end].decode(errors="replace")
