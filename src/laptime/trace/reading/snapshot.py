"""Memory snapshots of PyTorch's allocator as columns: `torch.cuda.memory._dump_snapshot("snapshot.pickle")`.

A pickle can name any class or function and call it. This reader knows no name at all: a file that wants one
is refused before anything is called. Dicts, lists, tuples, sets, texts and numbers need none.

A snapshot has the blocks that exist when it is taken (`segments`), and the last actions before it
(`device_traces`). What is allocated when the record begins is what is allocated at its end, less what the
record allocated and did not free. Blocks that exist at the end and whose allocation the record does not have
were there from its beginning. Source: the types that `torch.cuda.memory._snapshot` documents."""

import pickle
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeGuard

import numpy as np

from laptime.kit.errors import UsageError
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.tables import OLDER
from laptime.trace.columns import Trace
from laptime.trace.reading import assemble
from laptime.trace.reading.assemble import Rows


class Foreign(Exception):
    """The pickle names a class or function."""


class _Plain(pickle.Unpickler):
    """Refuses every name and every reference to something outside of the file."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Raises Foreign: no name is looked up."""
        raise Foreign(f"it names {module}.{name}, and a snapshot is made of plain containers")

    def persistent_load(self, reference: Any) -> NoReturn:
        """Raises Foreign: nothing outside of the file is loaded."""
        raise Foreign("it refers to something outside of the file, and a snapshot does not")


def load(path: Path) -> Any:
    """Load the file.
    Raises OSError: it cannot be opened. Foreign: it holds more than plain containers. ValueError: it is
    damaged."""
    with path.open("rb") as file:
        try:
            return _Plain(file).load()
        except (Foreign, OSError):
            raise
        except Exception as error:  # bytes that are no pickle end in nearly any exception
            raise ValueError(f"{type(error).__name__}: {error}") from error


_FREES = ("free_completed", "free")
_GROWS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


class Change(NamedTuple):
    """An allocation (bytes > 0) or a free, with the totals after it; `at` is ns, `frames` innermost first.
    `older`: it was there when the record began."""

    at: int
    bytes: int
    address: int
    allocated: int
    reserved: int
    frames: tuple[tuple[str, int, str], ...]
    older: bool = False


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
    # Addresses that the record allocated and did not free.
    own = set[int]()
    for action in actions:
        if action.name == "alloc":
            own.add(action.address)
        elif action.name in _FREES:
            own.discard(action.address)
    older = {address: block for address, block in existing.items() if address not in own}
    begin = actions[0].at if actions else 0
    gained = sum(action.size for action in actions if action.name == "alloc")
    lost = sum(action.size for action in actions if action.name in _FREES)
    at_first = sum(size for size, _ in existing.values()) - gained + lost  # when the record began
    allocated, made = at_first - sum(size for size, _ in older.values()), list[Change]()
    for address, (size, frames) in older.items():
        allocated += size
        made.append(Change(begin, size, address, allocated, max(reserved, 0), frames, True))
    for action in actions:
        reserved += _GROWS.get(action.name, 0) * action.size
        sign = 1 if action.name == "alloc" else -1 if action.name in _FREES else 0
        if sign:
            allocated += sign * action.size
            row = (action.at, sign * action.size, action.address, allocated, max(reserved, 0))
            made.append(Change(*row, action.frames))
    return made


def out_of_memory(record: Any) -> list[Action]:
    """Each request that failed."""
    actions = (_action(entry) for entry in _lists(record))
    return [action for action in actions if action is not None and action.name == "oom"]


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


SUFFIXES = (".pickle", ".pkl")
FORMAT = "snapshot"
_CUDA = 1
_NEXT = "torch.cuda.memory._record_memory_history(), steps, torch.cuda.memory._dump_snapshot(FILE)"
_LIBRARY = re.compile(r"(site|dist)-packages/|/lib/python3|(^|/)torch/|^<|\.(c|cc|cpp|cu|h)$|^(\?\?)?$")
_ALLOCATES = re.compile(
    r"^torch::(unwind|CapturedTraceback)|CachingAllocator|^c10::(cuda|StorageImpl|Allocator|alloc)|^at::detail::empty"
    r"|^at::(native::)?empty|^(cuda)?[mM]alloc|^$"
)
"""Functions that unwind the stack or allocate: the first frame behind them is who wanted the memory."""
Frames = tuple[tuple[str, int, str], ...]


def read(path: Path) -> Trace:
    """A snapshot, every device of it.
    Raises UsageError: it cannot be opened, is damaged, holds more than plain containers, or has no events."""
    try:
        content = load(path)
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(f"{path} cannot be read", why=error.strerror or str(error), next=_NEXT) from error
    except (Foreign, ValueError) as error:
        raise UsageError(f"{path} is not a memory snapshot", why=str(error), next=_NEXT) from error
    records = content.get("device_traces") if isinstance(content, dict) else None
    segments = content.get("segments") if isinstance(content, dict) else None
    records, segments = (each if isinstance(each, list) else None for each in (records, segments))
    if records is None and segments is None:
        why = "it has neither device_traces nor segments"
        raise UsageError(f"{path} is not a memory snapshot", why=why, next=_NEXT)
    rows, warnings = _rows(records or [], [each for each in segments or [] if isinstance(each, dict)])
    if not rows.events:
        why = "no memory was allocated, or its history was not recorded"
        raise UsageError(f"{path} has no events", why=why, next=_NEXT)
    trace = assemble.trace([rows.part(size)], {}, name=path.name)
    return replace(trace, format=FORMAT, warnings=[*trace.warnings, *warnings])


def _rows(records: list[Any], segments: list[dict[str, Any]]) -> tuple[Rows, list[str]]:
    """Events of all devices; what there is to say about the record."""
    rows, warnings = Rows(), list[str]()
    named = (segment.get("device") for segment in segments)
    last = max([len(records), *(at + 1 for at in named if isinstance(at, int) and 0 <= at < 1024)])
    for device in range(last):
        record = records[device] if device < len(records) else []
        found = changes(record, [segment for segment in segments if segment.get("device", 0) == device])
        failed = out_of_memory(record)
        if failed:
            largest, requests = max(failed, key=lambda each: each.size), count(len(failed), "allocation")
            where = f" ({holder(largest.frames)}, {place(largest.frames)})" if largest.frames else ""
            warnings.append(
                f"cuda:{device}: {requests} failed, the largest of {show(largest.size, 'B')}{where}"
            )
        if not found:
            continue
        at, size, address, allocated, reserved = (
            np.array(column, np.uint64 if number == 2 else np.int64)
            for number, column in enumerate(list(zip(*found, strict=True))[:5])
        )
        rows.add(
            "memory",
            at=at,
            thread=rows.thread("", "allocator"),
            bytes=size,
            address=address.astype(np.int64),
            allocated=allocated,
            reserved=reserved,
            device_type=_CUDA,
            device=device,
            place=rows.texts(place(change.frames) for change in found),
            holder=rows.texts(holder(change.frames, older=change.older) for change in found),
        )
    return rows, warnings


@lru_cache(1 << 16)
def place(frames: Frames) -> str:
    """The innermost line that is the user's, `pkg/file.py(12): function`; a library's if there is none."""
    python = [frame for frame in frames if frame[0].endswith(".py")]
    own = [frame for frame in python if not _LIBRARY.search(frame[0])]
    native = [frame for frame in frames if not _ALLOCATES.search(frame[2])]
    for file, line, function in own or python:
        return f"{'/'.join(Path(file).parts[-2:])}({line}): {function}"
    return native[0][2].partition("(")[0] if native else ""


_HOLDERS = (
    ("gradients", re.compile(r"AccumulateGrad|accumulate_grad|\bzero_grad\b|reducer\.cpp|Reducer::")),
    (
        "optimizer",
        re.compile(r"torch/optim/|/optimizers?/|\b_init_group\b|apex/optimizers|bitsandbytes/optim"),
    ),
    (
        "gradients",
        re.compile(r"torch::autograd::(Engine|Node|generated)|autograd/graph\.py|_engine_run_backward"),
    ),
    (
        "weights",
        re.compile(
            r"nn/modules/module\.py\|(_apply|convert|to|cuda)$|nn/init\.py|load_state_dict|from_pretrained"
            r"|modeling_utils\.py|\|(reset_parameters|register_buffer)$|nn/parameter\.py"
        ),
    ),
    (
        "activations",
        re.compile(r"\|(_?call_impl|_wrapped_call_impl|forward|backward|_conv_forward|\w*loss)$"),
    ),
)


@lru_cache(1 << 16)
def holder(frames: Frames, *, older: bool = False) -> str:
    """Name the holder of memory by the stack that allocated it: weights, gradients, activations, optimizer,
    other. Of what was there before the record only the stack tells, if it has one."""
    texts = [f"{file}|{function}" for file, _, function in frames]
    for name, pattern in _HOLDERS:
        if any(pattern.search(text) for text in texts):
            return name
    if any(function == "__init__" and "/torch/nn/" in file for file, _, function in frames):
        return "weights"
    return OLDER if older else "other"
