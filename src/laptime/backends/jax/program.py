"""What a user's function returned, as a pure function of its parameters: what jax.jit wants.

    flax.linen module      initialised with the inputs and the seed, or as bound
    flax.nnx module        split into graph and state, in eval mode
    Equinox module         and any other callable pytree: its arrays are parameters, the rest stays as it is
    function               without parameters of its own: what it closes over becomes a constant

Parameters are arguments of the compiled program. As constants XLA would fold them into it, which takes long
and gives another program than the one that is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from laptime.backends.jax.inputs import is_array

_ANNOTATIONS = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"}
"""Custom calls that compute nothing."""


class Pure(NamedTuple):
    """A model taken apart.

    Attributes:
        function: called with the parameters first, then with the inputs.
        parameters: nested arrays; empty for a plain function.
        kind: flax.linen, flax.nnx, pytree, function.
    """

    function: Callable[..., Any]
    parameters: Any
    kind: str


def pure(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, seed: int) -> Pure:
    """A callable of the user's taken apart; it is not changed.

    Args:
        args, kwargs: inputs of one call; a linen module is initialised with them.
    """
    import jax

    if _is_from(call, "flax.linen"):
        return _linen(call, args, kwargs, seed)
    if _is_from(call, "flax.nnx"):
        return _nnx(call)
    if jax.tree_util.treedef_is_leaf(jax.tree_util.tree_structure(call)):
        return Pure(lambda parameters, *a, **k: call(*a, **k), [], "function")
    return _pytree(_in_inference_mode(call))


def _is_from(call: Any, package: str) -> bool:
    """Whether its class comes from a package, which is not imported to find out."""
    return any(f"{cls.__module__}.".startswith(f"{package}.") for cls in type(call).__mro__)


def _linen(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seed: int) -> Pure:
    import jax

    if module.scope is not None:
        unbound, variables = module.unbind()
        return Pure(unbound.apply, variables, "flax.linen")
    # Compiled: op by op, initialising a large model takes minutes.
    variables = jax.jit(module.init)(jax.random.key(seed), *args, **kwargs)
    return Pure(module.apply, variables, "flax.linen")


def _nnx(module: Any) -> Pure:
    from flax import nnx

    copy = nnx.merge(*nnx.split(module))  # eval() changes it
    copy.eval()
    graph, state = nnx.split(copy)
    return Pure(lambda state, *a, **k: nnx.merge(graph, state)(*a, **k), state, "flax.nnx")


def _in_inference_mode(call: Any) -> Any:
    """An Equinox module with dropout and batch statistics as in inference; anything else as it is."""
    if not _is_from(call, "equinox"):
        return call
    import equinox

    return equinox.nn.inference_mode(call)


def _pytree(call: Any) -> Pure:
    import jax

    leaves, tree = jax.tree_util.tree_flatten(call)
    where = [index for index, leaf in enumerate(leaves) if is_array(leaf)]

    def function(parameters: list[Any], *args: Any, **kwargs: Any) -> Any:
        whole = list(leaves)
        for index, value in zip(where, parameters, strict=True):
            whole[index] = value
        return jax.tree_util.tree_unflatten(tree, whole)(*args, **kwargs)

    return Pure(function, [leaves[index] for index in where], "pytree")


def not_counted(lowered: Any) -> list[str]:
    """What XLA's cost analysis leaves out of a lowered program: loops, and calls of other libraries."""
    text = str(lowered.compiler_ir().operation.get_asm(large_elements_limit=8))
    calls = {*re.findall(r"stablehlo\.custom_call @([\w.$]+)", text)} - _ANNOTATIONS
    loops = ["while (its inside is counted once)"] if "stablehlo.while" in text else []
    return loops + [f"custom_call {name}" for name in sorted(calls)]
