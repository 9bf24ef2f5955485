"""Which dimension of given inputs is the batch, and how that is known. If nothing tells, nothing is cut.

    layers that say so    recurrent layers, attention and transformers have the batch in dimension 1 unless
                          they are `batch_first`; one call with the inputs as they are shows what reaches them
    first dimension       else, if every tensor (and list of items) has the same one

Lies when: all inputs share a first dimension that is no batch: points of one cloud, steps of one series."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from laptime.backends._shared import no_batch, torch
from laptime.backends.torch import tensors

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Batching:
    """The batch of some inputs."""

    size: int | None  # items in them; None if nothing tells
    # the dimension that is the batch, by number of the leaf; leaves that are not here have none
    places: dict[int, int] = field(default_factory=dict)
    why: str = ""  # how that is known, or why it is not
    fixed: str = ""  # why they cannot be made larger or smaller, where they cannot
    looked: bool = False  # a call was made to find out
    is_first: bool = False  # nothing but a first dimension that all inputs share speaks for it


def find(call: partial[Any], modules: list[torch.nn.Module], inputs: Any) -> Batching:
    """The batch of inputs. call: one call with them; made at most once, and only if layers inside the model
    have to be asked."""
    # Shapes of the leaves that have one, by number; a list of items has its length.
    shapes: dict[int, Shape] = {}
    for number, leaf in enumerate(tensors.leaves(inputs, whole=tensors.is_item_list)):
        if tensors.is_item_list(leaf):
            shapes[number] = (len(leaf),)
        elif (tensors.is_tensor(leaf) or tensors.is_array(leaf)) and leaf.ndim:
            shapes[number] = tuple(leaf.shape)
    if not shapes:
        return Batching(1, fixed="no tensor in the given inputs has a batch")
    if 0 in (shape[0] for shape in shapes.values()):
        return Batching(1, fixed="the given inputs are empty")
    if alone := _one_item(modules, shapes):
        return alone
    # Layers that know which dimension of what they are given is the batch, with their names.
    nn = torch.nn
    kinds = (
        *(nn.RNNBase, nn.MultiheadAttention, nn.Transformer),
        *(nn.TransformerEncoderLayer, nn.TransformerDecoderLayer),
    )
    layers: dict[torch.nn.Module, str] = {
        layer: name
        for module in modules
        for name, layer in module.named_modules()
        if isinstance(layer, kinds)
    }
    is_shared = len({shape[0] for shape in shapes.values()}) == 1
    if layers and not (is_shared and all(_is_batch_first(layer) for layer in layers)):
        if call.func in layers:  # what reaches it is known
            return _from_layers(_inspect(call.func, "", call.args, call.keywords), shapes, layers)
        return replace(_from_layers(_observe(call, layers), shapes, layers), looked=True)
    if is_shared:
        size = next(iter(shapes.values()))[0]
        which = "the input" if len(shapes) == 1 else "every input"
        return Batching(size, dict.fromkeys(shapes, 0), f"the first dimension of {which}", is_first=True)
    return Batching(None, why=f"the inputs share no first dimension: {_words(shapes)}")


def resize(inputs: Any, batching: Batching, batch: int) -> Any:
    """Inputs with another batch size: items repeated from the front, or cut; values and dtypes stay.
    Raises TargetError: nothing says which dimension is the batch, or there is none."""
    if batch == (batching.size or 1):
        return inputs
    if batching.size is None or batching.fixed:
        raise no_batch(batch, batching.fixed or batching.why)
    number, size = -1, batching.size

    def change(leaf: Any) -> Any:
        nonlocal number
        number += 1
        dim = batching.places.get(number)
        if dim is None:
            return leaf
        order = [index % size for index in range(batch)]
        if tensors.is_tensor(leaf):
            picked = leaf.detach().index_select(dim, torch.tensor(order, device=leaf.device))
            if leaf.ndim == 4 and not leaf.is_contiguous():
                last = torch.channels_last
                if leaf.is_contiguous(memory_format=last):
                    return picked.contiguous(memory_format=last)
            return picked
        return leaf.take(order, axis=dim) if tensors.is_array(leaf) else [leaf[index] for index in order]

    return tensors.map_leaves(change, inputs, whole=tensors.is_item_list)


def _one_item(modules: list[torch.nn.Module], shapes: dict[int, Shape]) -> Batching | None:
    """A single input that the model's first layer takes without a batch dimension."""
    nn = torch.nn
    if len(modules) != 1 or len(shapes) != 1:
        return None
    layer, (shape,) = modules[0], shapes.values()
    while isinstance(layer, nn.Sequential) and len(layer):
        layer = layer[0]
    dims = {nn.Conv1d: 2, nn.Conv2d: 3, nn.Conv3d: 4, nn.Linear: 1, nn.RNNBase: 2, nn.RNNCellBase: 1}
    alone = next((n for kind, n in dims.items() if isinstance(layer, kind)), None)
    if alone != len(shape):
        return None
    told = f"{type(layer).__name__} takes {_words(shapes)} as one item, without a batch dimension"
    return Batching(1, why=told, fixed=told)


def _is_batch_first(layer: Any) -> bool:
    told = getattr(layer, "batch_first", None)
    if told is None:  # transformer layers keep it in their attention
        told = getattr(getattr(layer, "self_attn", None), "batch_first", False)
    return bool(told)


@dataclass(frozen=True)
class _Seen:
    """A layer's input: its shape, and the dimension that the layer takes for the batch (None: no batch)."""

    layer: str
    shape: Shape
    dim: int | None
    states: tuple[Shape, ...]


def _observe(call: Callable[[], Any], layers: dict[torch.nn.Module, str]) -> list[_Seen]:
    """Return the input of each layer in one call, in order; those seen before a call failed count, too."""
    seen: list[_Seen] = []

    def look(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen.extend(_inspect(layer, layers[layer], args, kwargs))

    handles = [layer.register_forward_pre_hook(look, with_kwargs=True) for layer in layers]
    try:
        with torch.no_grad():
            call()
    except Exception:  # the measured call tells it, in its place
        return seen
    finally:
        for handle in handles:
            handle.remove()
    return seen


def _inspect(layer: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[_Seen]:
    given = tensors.tensors([*args, *kwargs.values()])
    if not given or any(hasattr(value, "batch_sizes") for value in args):
        return []  # packed sequences have lost their shape
    first, *others = (tuple(tensor.shape) for tensor in given)
    dim = None if len(first) < 3 else 0 if _is_batch_first(layer) else 1
    states = tuple(others) if isinstance(layer, torch.nn.RNNBase) else ()
    return [_Seen(f"{type(layer).__name__} {name}".rstrip(), first, dim, states)]


def _from_layers(seen: list[_Seen], shapes: dict[int, Shape], layers: dict[torch.nn.Module, str]) -> Batching:
    """The batch as the first layer tells it whose batch size is found in the inputs."""
    for each in seen:
        if each.dim is None:
            if each.shape in shapes.values():
                told = f"{each.layer} takes {each.shape} as one item, without a batch dimension"
                return Batching(1, why=told, fixed=told)
            continue
        size = each.shape[each.dim]
        places = {number: _place(shape, size, each) for number, shape in shapes.items()}
        told = f"{each.layer} takes dimension {each.dim} of what reaches it, {each.shape}, for the batch"
        if any(place == "both" for place in places.values()):
            why = f"{told}, and the inputs have {size} in two dimensions: {_words(shapes)}"
            return Batching(None, why=why)
        found = {number: place for number, place in places.items() if isinstance(place, int)}
        if found:
            dims = sorted({*found.values()})
            where = f"dimension {' and '.join(map(str, dims))} of the inputs"
            is_direct = each.shape in shapes.values()
            return Batching(
                size, found, f"{where}, " + (f"as {each.layer} has it" if is_direct else f"as {told}")
            )
    name, layer = next(iter(layers.items()))
    why = (
        f"what {type(layer).__name__} {name} takes for the batch is not found in the inputs, {_words(shapes)}"
    )
    return Batching(None, why=why)


def _place(shape: Shape, size: int, seen: _Seen) -> int | str | None:
    """The dimension of an input that is the batch; "both" where either of the first two could be."""
    if shape == seen.shape:
        return seen.dim
    if shape in seen.states:
        return 1  # states are (layers x directions, batch, hidden), whatever `batch_first` says
    dims = [dim for dim, length in enumerate(shape[:2]) if length == size]
    return "both" if len(dims) > 1 else dims[0] if dims else None


def _words(shapes: dict[int, Shape]) -> str:
    return ", ".join(f"({', '.join(map(str, shape))})" for shape in shapes.values())
