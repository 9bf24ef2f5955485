"""Typed decoding of events: only the fields that are needed, straight from bytes to structs.

The fast way is strict and takes a whole chunk or nothing; `loosely` takes any event that can be read at all.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct, field

Number = TypeVar("Number", int | float, Decimal)


_NOTHING: Any = None  # a Raw cannot be in a union; its default can be anything


class Args(Struct, gc=False):
    """What an event says of itself, every kind together. `External id` is left out: it lies."""

    correlation: int = -1
    device: int = -1
    stream: int = -1
    blocks_per_sm: float | None = field(name="blocks per SM", default=math.nan)
    occupancy: float | None = field(name="est. achieved occupancy %", default=math.nan)
    registers: int = field(name="registers per thread", default=-1)
    shared_memory: int = field(name="shared memory", default=-1)
    bytes: int = -1
    size: int = -1
    kind: str = ""
    graph: int = field(name="graph node id", default=-1)
    grid: Raw = _NOTHING
    block: Raw = _NOTHING
    dims: Raw = field(name="Input Dims", default=_NOTHING)
    dims_b: Raw = field(name="Input dims", default=_NOTHING)
    types: Raw = field(name="Input type", default=_NOTHING)
    stack: Raw = field(name="Call stack", default=_NOTHING)
    hierarchy: Raw = field(name="Module Hierarchy", default=_NOTHING)
    module_id: int | None = field(name="Python module id", default=-1)
    sequence: int = field(name="Sequence number", default=-1)
    forward_thread: int = field(name="Fwd thread id", default=-1)
    memory_bytes: int = field(name="Bytes", default=0)
    address: int = field(name="Addr", default=-1)
    allocated: int = field(name="Total Allocated", default=-1)
    reserved: int = field(name="Total Reserved", default=-1)
    device_type: int = field(name="Device Type", default=-1)
    device_id: int = field(name="Device Id", default=-1)
    collective: str = field(name="Collective name", default="")
    elements_in: int = field(name="In msg nelems", default=-1)
    elements_out: int = field(name="Out msg nelems", default=-1)
    dtype: str = ""
    group: str | int = field(name="Process Group Name", default="")
    group_size: int = field(name="Group size", default=-1)
    collective_sequence: int = field(name="Seq", default=-1)
    name: str | int = ""


_NO_ARGS = Args()


class Event(Struct, Generic[Number], gc=False):
    """One event. `ts` and `dur` are microseconds, as integers, floats, or exact decimals."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: Number = 0  # type: ignore[assignment]
    dur: Number = -1  # type: ignore[assignment]
    pid: int | str | None = 0
    tid: int | str | None = 0
    id: int | str | None = -1
    args: Args = field(default_factory=lambda: _NO_ARGS)


Events = list[Event[Any]]
_quick = msgspec.json.Decoder(list[Event[int | float]])
_exact = msgspec.json.Decoder(list[Event[Decimal]])


class Refused(ValueError):
    """The text is not JSON, not UTF-8, or a field has an unusual type."""


def strictly(chunk: bytes, *, exact: bool = False) -> Events:
    """The events of `{...}, {...}`.

    Raises:
        Refused: not all of the chunk can be taken.
    """
    try:
        return (_exact if exact else _quick).decode(b"[" + chunk + b"]")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused from error


def loosely(chunk: bytes, *, exact: bool = False) -> tuple[Events, int]:
    """The events of a chunk that the strict way refuses, and how many of them had to be left out."""
    mended = mend(chunk)
    try:
        return strictly(mended, exact=exact), 0
    except Refused:
        pass
    events: Events = []
    lost = 0
    for text in _pieces(mended):
        try:
            value = json.loads(text, strict=False)
        except ValueError:
            lost += 1
            continue
        event = _coerced(value, exact=exact)
        if event is None:
            lost += 1
        else:
            events.append(event)
    return events, lost


_BARE = re.compile(rb"(?<=[:,\[])(\s*)-?(?:N/A|NaN|nan|Infinity|inf|undefined)(?=\s*[,}\]])")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_CORNER = re.compile(rb"\}\s*,\s*(?=\{)")


def mend(chunk: bytes) -> bytes:
    """The chunk made valid: N/A, NaN, control characters and other encodings are what some writers leave."""
    chunk = _BARE.sub(rb"\1null", chunk)
    chunk = _CONTROL.sub(b" ", chunk)
    try:
        chunk.decode()
    except UnicodeDecodeError:
        chunk = chunk.decode(errors="replace").encode()
    return chunk


def _pieces(chunk: bytes) -> Iterator[bytes]:
    """Texts of single events; one that holds the corner `}, {` inside is put together again."""
    begin = 0
    corners = [*(match.start() + 1 for match in _CORNER.finditer(chunk)), len(chunk)]
    for at in corners:
        text = chunk[begin:at].strip().strip(b",")
        if _balanced(text) or at - begin > 1 << 20 or at == len(chunk):
            yield text
            begin = at


def _balanced(text: bytes) -> bool:
    bare = _STRING.sub(b"", text)
    return bare.count(b"{") <= bare.count(b"}")


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def _coerced(value: Any, *, exact: bool) -> Event[Any] | None:
    """An event from plain data, field by field; a field of the wrong type is as good as missing."""
    if not isinstance(value, dict) or not isinstance(value.get("ph"), str):
        return None
    number: type[Decimal] | type[float] = Decimal if exact else float
    event: Event[Any] = Event(
        ph=value["ph"],
        cat=_text(value.get("cat")),
        name=_text(value.get("name")),
        pid=_key(value.get("pid")),
        tid=_key(value.get("tid")),
        id=_key(value.get("id", -1)),
    )
    for name in ("ts", "dur"):
        try:
            time = number(str(value[name]))
        except (KeyError, ValueError, ArithmeticError):
            continue
        if abs(float(time)) < 1e18:  # not so NaN
            setattr(event, name, time)
    if "ts" not in value:
        return None
    args = value.get("args")
    if isinstance(args, dict):
        event.args = _args(args)
    return event


def _args(found: dict[str, Any]) -> Args:
    args = Args()
    for own, written in _WRITTEN.items():
        if written not in found:
            continue
        value = found[written]
        if _TYPES[own] is Raw:
            setattr(args, own, Raw(json.dumps(value).encode()))
            continue
        for candidate in (value, value if isinstance(value, bool) else _number(value)):
            try:
                setattr(args, own, msgspec.convert(candidate, _TYPES[own]))
            except msgspec.ValidationError:
                continue
            break
    return args


def _number(value: Any) -> Any:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _key(value: Any) -> int | str:
    return value if isinstance(value, int | str) else str(value)


_WRITTEN = dict(zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True))
_TYPES = {each.name: each.type for each in msgspec.structs.fields(Args)}
