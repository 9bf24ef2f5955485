"""What the caching allocator recorded of one device, as allocations and frees with totals.

A snapshot has the blocks that exist when it is taken (`segments`), and the last actions before it
(`device_traces`).
What is allocated when the record begins is what is allocated at its end, less what the record allocated
and did not free.
Blocks that exist at the end and whose allocation the record does not have were there from its beginning.
Source: the types that `torch.cuda.memory._snapshot` documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeGuard

_FREES = ("free_completed", "free")
_GROWS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


class Change(NamedTuple):
    """An allocation (bytes > 0) or a free, with the totals after it; `at` is ns, `frames` innermost first."""

    at: int
    bytes: int
    address: int
    allocated: int
    reserved: int
    frames: tuple[tuple[str, int, str], ...]


class Action(NamedTuple):
    """An entry of the record whose fields are of the right types."""

    name: str
    at: int
    size: int
    address: int
    frames: tuple[tuple[str, int, str], ...]


def changes(record: Any, segments: list[Any]) -> list[Change]:
    """All allocations and frees of a device in time order; those from before the record first."""
    actions = [action for entry in _lists(record) if (action := _action(entry)) is not None]
    blocks = [block for segment in segments for block in _lists(segment.get("blocks"))]
    existing = {
        block["address"]: (block["size"], _frames(block.get("frames")))
        for block in blocks
        if isinstance(block, dict) and str(block.get("state", "")).startswith("active")
        and _is_size(block.get("size")) and isinstance(block.get("address"), int)
    }  # fmt: skip
    reserved = sum(s["total_size"] for s in segments if _is_size(s.get("total_size")))
    reserved -= sum(_GROWS.get(action.name, 0) * action.size for action in actions)
    own = _unfreed(actions)
    older = {address: block for address, block in existing.items() if address not in own}
    begin = actions[0].at if actions else 0
    allocated, made = _before(actions, existing) - sum(size for size, _ in older.values()), list[Change]()
    for address, (size, frames) in older.items():
        allocated += size
        made.append(Change(begin, size, address, allocated, max(reserved, 0), frames))
    for action in actions:
        reserved += _GROWS.get(action.name, 0) * action.size
        sign = 1 if action.name == "alloc" else -1 if action.name in _FREES else 0
        if sign:
            allocated += sign * action.size
            row = (action.at, sign * action.size, action.address, allocated, max(reserved, 0))
            made.append(Change(*row, action.frames))
    return made


def out_of_memory(record: Any) -> list[int]:
    """Bytes of each request that failed."""
    actions = (_action(entry) for entry in _lists(record))
    return [action.size for action in actions if action is not None and action.name == "oom"]


def _before(actions: list[Action], existing: dict[int, tuple[int, Any]]) -> int:
    """Bytes that were allocated when the record began."""
    gained = sum(action.size for action in actions if action.name == "alloc")
    lost = sum(action.size for action in actions if action.name in _FREES)
    return sum(size for size, _ in existing.values()) - gained + lost


def _unfreed(actions: list[Action]) -> set[int]:
    """Addresses that the record allocated and did not free."""
    alive = set[int]()
    for action in actions:
        if action.name == "alloc":
            alive.add(action.address)
        elif action.name in _FREES:
            alive.discard(action.address)
    return alive


def _action(entry: Any) -> Action | None:
    if not isinstance(entry, dict):
        return None
    name, size, at = entry.get("action"), entry.get("size"), entry.get("time_us", 0)
    address = entry.get("addr", entry.get("address", 0))
    if not isinstance(name, str) or not _is_size(size) or not isinstance(address, int):
        return None
    return Action(name, at * 1000 if _is_size(at) else 0, size, address, _frames(entry.get("frames")))


def _frames(frames: Any) -> tuple[tuple[str, int, str], ...]:
    """File, line and function of each frame that has them."""
    return tuple(_frame(frame) for frame in _lists(frames) if isinstance(frame, dict))


def _frame(frame: dict[Any, Any]) -> tuple[str, int, str]:
    line = frame.get("line")
    file, name = frame.get("filename"), frame.get("name")
    return str(file or ""), line if isinstance(line, int) else 0, str(name or "")


def _lists(value: Any) -> Iterator[Any]:
    return iter(value if isinstance(value, list | tuple) else ())


def _is_size(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
