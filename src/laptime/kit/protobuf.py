"""The wire format of protocol buffers: bytes to fields. Knows no messages.

Source: protobuf.dev/programming-guides/encoding."""

import struct
from collections.abc import Iterator
from mmap import mmap

NUMBER = -1  # in place of an end: the field is a number, not a stretch of bytes
_LONGEST = 10  # bytes of a varint of 64 bits


class Damaged(Exception):
    """The bytes are no message."""


def fields(data: bytes | mmap, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Every field between two places: its number, and the value and NUMBER, or begin and end of its bytes.

    Fixed 64- and 32-bit values come as the unsigned number that they spell; `double` reads it.

    Raises Damaged: a field does not end before `end`, or has a type that does not exist."""
    while at < end:
        key, at = varint(data, at, end)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at, end)
            yield key >> 3, value, NUMBER
        elif kind == 2:
            size, at = varint(data, at, end)
            begin, at = at, at + size
            if at > end:
                raise Damaged(f"a field of {size} bytes at byte {begin} goes beyond its end")
            yield key >> 3, begin, at
        elif kind in (1, 5):
            begin, at = at, at + (8 if kind == 1 else 4)
            if at > end:
                raise Damaged(f"a number at byte {begin} goes beyond its end")
            yield key >> 3, int.from_bytes(data[begin:at], "little"), NUMBER
        else:
            raise Damaged(f"the field at byte {at} has type {kind}, which does not exist")


def varint(data: bytes | mmap, at: int, end: int) -> tuple[int, int]:
    """The unsigned number that begins here, and where it ends. Raises Damaged: it does not end in time."""
    if at < end and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for place, byte in enumerate(data[at : min(end, at + _LONGEST)]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + place + 1
    raise Damaged(f"the number at byte {at} does not end")


def read_signed(value: int) -> int:
    """The int64 that this unsigned number spells."""
    return value - (1 << 64) if value >> 63 else value


def double(value: int) -> float:
    """The double that these 64 bits spell."""
    number: float = struct.unpack("<d", struct.pack("<Q", value))[0]
    return number
