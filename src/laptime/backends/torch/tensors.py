"""Nested inputs and outputs: walk them, move them, put them in words.

A structure is made of tensors, lists, tuples, named tuples, mappings and dataclasses, nested at will;
anything else in it is left alone."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from laptime.backends._shared import np, torch
from laptime.kit.errors import UsageError
from laptime.measure import first_call


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _never(value: Any) -> bool:
    return False


def leaves(value: Any, *, whole: Callable[[Any], bool] = _never) -> Iterator[Any]:
    """Everything in a structure that is not itself a structure (or counts as `whole`), in order."""
    parts: Iterable[Any] | None = None
    if whole(value):
        pass
    elif _is_dataclass(value):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, list | tuple):
        parts = value
    if parts is None:
        yield value
        return
    for part in parts:
        yield from leaves(part, whole=whole)


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(value) if is_tensor(leaf)]


def map_leaves(change: Callable[[Any], Any], value: Any, *, whole: Callable[[Any], bool] = _never) -> Any:
    """A structure of the same types with every leaf changed; the given one is not touched."""

    def inner(part: Any) -> Any:
        return map_leaves(change, part, whole=whole)

    if whole(value):
        return change(value)
    if _is_dataclass(value):
        changed = copy.copy(value)
        for field in dataclasses.fields(value):
            # Frozen dataclasses, too, and fields that __init__ does not take.
            object.__setattr__(changed, field.name, inner(getattr(value, field.name)))
        return changed
    if isinstance(value, Mapping):
        parts = {key: inner(part) for key, part in value.items()}
        if type(value) is dict or not hasattr(value, "__setitem__"):
            return parts
        changed = copy.copy(value)
        for key, part in parts.items():
            changed[key] = part
        return changed
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(inner(part) for part in value))
    if isinstance(value, list | tuple):
        return type(value)(inner(part) for part in value)
    return change(value)


def batch_of(inputs: Any) -> int | None:
    """The batch size of inputs: the leading dimension that most of their tensors (and item lists) share.

    Of two equally frequent ones it is the one that comes first. None when nothing has any."""
    leading = [_length(leaf) for leaf in leaves(inputs, whole=is_item_list)]
    lengths = Counter(length for length in leading if length is not None)
    return lengths.most_common(1)[0][0] if lengths else None


def _length(leaf: Any) -> int | None:
    if is_item_list(leaf):
        return len(leaf)
    return int(leaf.shape[0]) if (is_tensor(leaf) or is_array(leaf)) and leaf.ndim else None


def is_item_list(value: Any) -> bool:
    """Whether it is a list with one entry an item (detection): images (C, H, W), dicts, texts.

    A list of tensors of any other shape holds several batched tensors."""
    if not isinstance(value, list) or not value:
        return False
    return all(
        (part.ndim == 3 and part.shape[0] in (1, 3, 4))
        if is_tensor(part)
        else isinstance(part, str | Mapping)
        for part in value
    )


def move(
    inputs: Any, device: torch.device, *, dtype: torch.dtype | None = None, channels_last: bool = False
) -> Any:
    """Inputs on a device; floats in `dtype` (None keeps theirs), integers never cast; 4-d floats NHWC."""

    def change(leaf: Any) -> Any:
        if not is_tensor(leaf):
            return leaf
        cast = dtype if dtype is not None and leaf.is_floating_point() else leaf.dtype
        placed = leaf.to(device=device, dtype=cast)
        if channels_last and placed.ndim == 4 and placed.is_floating_point():
            placed = placed.contiguous(memory_format=torch.channels_last)
        return placed

    return map_leaves(change, inputs)


def copy_inputs(inputs: Any, *, into: Any = None) -> Any:
    """Inputs that nothing else holds: callables and objects that cannot be copied are shared. into: inputs
    that were copied from; their tensors take the values, if they still have the shape."""
    old: Iterator[Any] = iter([] if into is None else list(leaves(into)))

    def change(leaf: Any) -> Any:
        place = next(old, None)
        if not is_tensor(leaf):  # a cache of keys and values, a state
            return leaf if callable(leaf) else first_call.copy_inputs(leaf)
        if place is not None and words(place) == words(leaf) and not place.requires_grad:
            return place.detach().copy_(leaf)
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)

    with torch.inference_mode(False), torch.no_grad():
        return map_leaves(change, inputs)


def has_length(value: Any, length: int) -> bool:
    """Whether any tensor or list of a structure is of this length, or there is none that has one."""
    lengths = {_length(leaf) for leaf in leaves(value, whole=is_item_list)} - {None}
    return not lengths or length in lengths


def arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    """All tensors of a structure as arrays of the host; bfloat16, which NumPy does not have, as float32."""
    on_host = [tensor.detach().cpu() for tensor in tensors(value)]
    return [(t.float() if t.dtype == torch.bfloat16 else t).numpy() for t in on_host]


def put_arrays(value: Any, given: Sequence[np.ndarray[Any, Any]]) -> Any:
    """A structure with these arrays in place of its tensors, each in its tensor's dtype, layout and place.
    Raises UsageError: there are more or fewer tensors."""
    wanted, rest = len(tensors(value)), iter(given)
    if wanted != len(given):
        raise UsageError(
            f"the model takes {wanted} tensors, {len(given)} were given", why="each needs an array"
        )

    def change(leaf: Any) -> Any:
        if not is_tensor(leaf):
            return leaf
        tensor = torch.from_numpy(next(rest)).to(device=leaf.device, dtype=leaf.dtype)
        is_last = leaf.ndim == 4 and leaf.is_contiguous(memory_format=torch.channels_last)
        return tensor.contiguous(memory_format=torch.channels_last) if is_last else tensor

    return map_leaves(change, value)


def size(value: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors(value))


def words(value: Any) -> str:
    """A structure in words: `float32 (8, 1000)`, `{out: float32 (8, 21, 520, 520)}`, `[2 x int64 (5)]`."""
    if is_tensor(value) or is_array(value):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype} ({', '.join(str(length) for length in value.shape)})"
    if _is_dataclass(value):
        parts = ", ".join(f"{f.name}: {words(getattr(value, f.name))}" for f in dataclasses.fields(value))
        return f"{type(value).__name__}({parts})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {words(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        opening, closing = ("[", "]") if isinstance(value, list) else ("(", ")")
        runs = [(part, len(list(same))) for part, same in groupby(map(words, value))]
        told = (part if times == 1 else f"{times} x {part}" for part, times in runs)
        return opening + ", ".join(told) + closing
    return type(value).__name__
