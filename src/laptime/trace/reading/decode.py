"""Typed decoding of events: only the fields that are needed, straight from bytes to structs.

The fast way takes a whole chunk or nothing, numbers written as texts and nulls included, for some writers
have them in every file; `loosely` takes any event that can be read at all.

What kind of range a category names is here, too, for all formats and all accelerators."""

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from functools import cache
from typing import Any, Generic, TypeVar, Union

import msgspec
from msgspec import Raw, Struct, defstruct, field

from laptime.trace.columns import DeviceKind, HostKind

Number = TypeVar("Number", int | float, Decimal)
_NOTHING: Any = None  # a Raw cannot be in a union; its default can be anything


class Args(Struct, gc=False):
    """Arguments of a range on any thread or stream. `External id` is left out: newer traces fill it with
    other numbers. Numbers may be written as texts (ROCm's `"bytes": "616"`), and any may be null."""

    correlation: int | None = -1
    device: int | None = -1
    stream: int | None = -1
    blocks_per_sm: float | None = field(name="blocks per SM", default=math.nan)
    occupancy: float | None = field(name="est. achieved occupancy %", default=math.nan)
    registers: int | None = field(name="registers per thread", default=-1)
    shared_memory: int | None = field(name="shared memory", default=-1)
    bytes: int | None = -1
    size: int | None = -1
    graph: int | None = field(name="graph node id", default=-1)
    grid: Raw = _NOTHING
    block: Raw = _NOTHING
    dims: Raw = field(name="Input Dims", default=_NOTHING)
    older_dims: Raw = field(name="Input dims", default=_NOTHING)
    types: Raw = field(name="Input type", default=_NOTHING)
    stack: Raw = field(name="Call stack", default=_NOTHING)
    hierarchy: Raw = field(name="Module Hierarchy", default=_NOTHING)
    module_id: int | None = field(name="Python module id", default=-1)
    sequence: int | None = field(name="Sequence number", default=-1)
    forward_thread: int | None = field(name="Fwd thread id", default=-1)
    collective: str | int | None = field(name="Collective name", default="")
    elements_in: int | None = field(name="In msg nelems", default=-1)
    elements_out: int | None = field(name="Out msg nelems", default=-1)
    dtype: str | int | None = ""
    group: str | int | None = field(name="Process Group Name", default="")
    group_size: int | None = field(name="Group size", default=-1)
    collective_sequence: int | None = field(name="Seq", default=-1)


class MemoryArgs(Struct, gc=False):
    """Arguments of an allocation or a free."""

    bytes: int | None = field(name="Bytes", default=0)
    address: int | None = field(name="Addr", default=-1)
    allocated: int | None = field(name="Total Allocated", default=-1)
    reserved: int | None = field(name="Total Reserved", default=-1)
    device_type: int | None = field(name="Device Type", default=-1)
    device: int | None = field(name="Device Id", default=-1)


class MetaArgs(Struct, gc=False):
    """The name of a process or thread."""

    name: str | int = ""


_NO_ARGS, _NO_MEMORY, _NO_NAME = Args(), MemoryArgs(), MetaArgs()


class Complete(Struct, Generic[Number], tag_field="ph", tag="X", gc=False):
    """A range. `ts` and `dur` are microseconds, as integers, floats, or exact decimals."""

    cat: str = ""
    name: str = ""
    ts: Number = 0  # type: ignore[assignment]
    dur: Number = -1  # type: ignore[assignment]
    pid: int | str | None = 0
    tid: int | str | None = 0
    args: Args = field(default_factory=lambda: _NO_ARGS)


class Instant(Struct, Generic[Number], tag_field="ph", tag="i", gc=False):
    """A moment: `[memory]`, and the begin and end of the recording."""

    name: str = ""
    ts: Number = 0  # type: ignore[assignment]
    pid: int | str | None = 0
    tid: int | str | None = 0
    args: MemoryArgs = field(default_factory=lambda: _NO_MEMORY)


class Arrow(Struct, Generic[Number], gc=False):
    """One side of an arrow."""

    cat: str = ""
    id: int | str | None = -1
    ts: Number = 0  # type: ignore[assignment]
    pid: int | str | None = 0
    tid: int | str | None = 0


class Begins(Arrow[Number], Generic[Number], tag_field="ph", tag="s", gc=False):
    """The begin of an arrow."""


class Ends(Arrow[Number], Generic[Number], tag_field="ph", tag="f", gc=False):
    """The end of an arrow."""


class Meta(Struct, tag_field="ph", tag="M", gc=False):
    """A name of a process or thread."""

    name: str = ""
    pid: int | str | None = 0
    tid: int | str | None = 0
    args: MetaArgs = field(default_factory=lambda: _NO_NAME)


# All other phases of the format (counters, objects, asynchronous ranges ...): known, and of no use here.
_OTHERS = tuple(
    defstruct(f"Phase{ord(phase)}", [], tag_field="ph", tag=phase, gc=False)
    for phase in "BECbenItTpFNDOPRcvV(),"
)
_KINDS = {"X": Complete, "i": Instant, "s": Begins, "f": Ends, "M": Meta}
Event = Any
Events = list[Any]  # of the classes above


def _decoder(number: Any) -> msgspec.json.Decoder[Any]:
    kinds = [Complete[number], Instant[number], Begins[number], Ends[number], Meta, *_OTHERS]
    return msgspec.json.Decoder(list[Union[tuple(kinds)]], strict=False)  # type: ignore[misc]  # noqa: UP007


_quick, _exact = _decoder(int | float), _decoder(Decimal)
_texts = msgspec.json.Decoder(list[Raw])
_TOGETHER = 32
"""Events of an odd chunk that are decoded at once, so that an odd one slows no more than these down."""
FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises: no JSON or other types, no UTF-8, nested too deeply."""


class Undecodable(ValueError):
    """The text is not JSON, not UTF-8, or a field has an unusual type."""


def strictly(chunk: bytes, *, exact: bool = False) -> Events:
    """The events of `{...}, {...}`. Raises Refused: not all of the chunk can be taken."""
    try:
        events: Events = (_exact if exact else _quick).decode(b"[" + chunk + b"]")
    except FAULTS as error:
        raise Undecodable from error
    return events


def well_formed(chunk: bytes) -> bool:
    """Whether the text is a list of JSON values, of whatever types: then it was cut rightly."""
    try:
        _texts.decode(b"[" + chunk + b"]")
    except FAULTS:
        return False
    return True


def loosely(mended: bytes, *, exact: bool = False) -> tuple[Events, int]:
    """The events of a mended chunk that the strict way refuses, and how many of them had to be left out."""
    try:
        return strictly(mended, exact=exact), 0
    except Undecodable:
        pass
    try:
        texts = list(map(bytes, _texts.decode(b"[" + mended + b"]")))
    except FAULTS:
        texts = list(_pieces(mended))
    events: Events = []
    for begin in range(0, len(texts), _TOGETHER):
        together = texts[begin : begin + _TOGETHER]
        try:
            events += strictly(b",".join(together), exact=exact)
        except Undecodable:
            events += [event for text in together if (event := _alone(text, exact=exact)) is not None]
    return events, len(texts) - len(events)


def _alone(text: bytes, *, exact: bool) -> Event | None:
    """One event, typed or field by field; None when it cannot be read."""
    try:
        (event,) = strictly(text, exact=exact)
    except (Undecodable, ValueError):
        try:
            return _coerce(json.loads(text, strict=False), exact=exact)
        except (ValueError, RecursionError):
            return None
    return event


_BARE = [
    (word, re.compile(rb"%b(?<=[:,\[\s-]%b)(?=\s*[,}\]])" % (word, word)))
    for word in (b"N/A", b"NaN", b"nan", b"Infinity", b"inf", b"undefined")
]
"""What some writers leave in place of a number. A pattern that begins with its word is searched ten times as
fast as one that begins with what may stand before it."""
_MINUS = re.compile(rb"-null(?<=[:,\[\s]-null)(?=\s*[,}\]])")
_CONTROL = bytes(32 if byte < 32 and byte not in b"\t\n\r" else byte for byte in range(256))
"""A table for bytes.translate: control characters become spaces."""
_CORNER = re.compile(rb'\}\s*,\s*(?=\{\s*(?:"|\Z))')
"""Between two events; a file may be cut behind the brace that opens the next one."""


def mend(chunk: bytes) -> bytes:
    """The chunk as valid JSON: some writers leave N/A, NaN, control characters and other encodings."""
    for word, bare in _BARE:
        if word in chunk:
            chunk = _MINUS.sub(b"null", bare.sub(b"null", chunk))
    chunk = chunk.translate(_CONTROL)
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
        bare = _STRING.sub(b"", text)
        if bare.count(b"{") <= bare.count(b"}") or at - begin > 1 << 20 or at == len(chunk):
            yield text
            begin = at


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


def _coerce(value: Any, *, exact: bool) -> Event | None:
    """An event from plain data, field by field; a field of the wrong type counts as missing."""
    if not isinstance(value, dict) or not isinstance(value.get("ph"), str):
        return None
    kind = _KINDS.get(value["ph"], _OTHERS[0])
    event = kind()
    for name in kind.__struct_fields__:
        if name == "args":
            if isinstance(value.get(name), dict):
                event.args = _fill(type(event.args), value[name])
        elif name in ("ts", "dur"):
            with suppress(ValueError, ArithmeticError):
                time = (Decimal if exact else float)(str(value.get(name)))
                if abs(float(time)) < 1e18:  # not so NaN
                    setattr(event, name, time)
        elif name in ("cat", "name"):
            setattr(event, name, "" if value.get(name) is None else str(value[name]))
        else:
            key = value.get(name, -1)
            setattr(event, name, key if isinstance(key, int | str) else str(key))
    return event if "ts" in value or kind in (Meta, *_OTHERS) else None


def _fill(kind: type[Struct], fields: dict[str, Any]) -> Any:
    """Arguments from plain data."""
    args = kind()
    for written, name, type_ in _fields(kind):
        if written not in fields:
            continue
        value = fields[written]
        if type_ is Raw:
            setattr(args, name, Raw(json.dumps(value).encode()))
            continue
        for candidate in (value, value if isinstance(value, bool) else _number(value)):
            try:
                setattr(args, name, msgspec.convert(candidate, type_))
            except msgspec.ValidationError:
                continue
            break
    return args


@cache
def _fields(kind: type[Struct]) -> list[tuple[str, str, Any]]:
    """Fields of a struct: as they are written, as they are called here, and their types."""
    return [(field.encode_name, field.name, field.type) for field in msgspec.structs.fields(kind)]


def _number(value: Any) -> Any:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


APIS = ("mtia", "xpu")  # accelerators whose categories name them, as `mtia_runtime` does
STREAM_WAIT = "event_wait"  # what MTIA writes on a stream that waits for an event of another: no work
DEVICE, RANGE, SKIP = 10, 20, 99
"""Groups of ranges: below DEVICE a HostKind, from there to RANGE a DeviceKind; RANGE is on a stream."""
_DEVICE_WORK = {
    **dict.fromkeys(("kernel", "concurrent_kernel", "mtia_ccp_events"), DeviceKind.KERNEL),
    **dict.fromkeys(("memcpy", "gpu_memcpy"), DeviceKind.MEMCPY),
    **dict.fromkeys(("memset", "gpu_memset"), DeviceKind.MEMSET),
}
_HOST = {
    "operator": HostKind.OPERATOR, "cpu_op": HostKind.OPERATOR, "user_annotation": HostKind.ANNOTATION,
    "runtime": HostKind.RUNTIME, "python": HostKind.PYTHON, "python_function": HostKind.PYTHON,
    "overhead": HostKind.OVERHEAD,
}  # fmt: skip


def group(category: str) -> int:
    """Return the kind of range that a category names."""
    category = category.lower()
    if category in _DEVICE_WORK:
        return DEVICE + _DEVICE_WORK[category]
    if category in _HOST:
        return _HOST[category]
    if category.endswith("_runtime"):
        return HostKind.RUNTIME
    if category.endswith("_driver"):
        return HostKind.DRIVER
    if category in ("gpu_user_annotation", "mtia_user_annotation", "xpu_user_annotation"):
        return RANGE
    if category in ("trace", "cuda_sync", "cuda_profiler_range"):
        return SKIP
    return HostKind.OTHER
