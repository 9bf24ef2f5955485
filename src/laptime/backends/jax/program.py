"""A user's function as JAX sees it: a pure function of its parameters, inputs of a batch size, a device.

Inputs of a batch size, and trees of arrays: walked, moved, put in words.

Where a model runs, and what JAX raises, as laptime's errors. Only exhausted memory is OutOfMemory."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from laptime.backends._shared import Later, call_error, no_batch, no_device, no_memory, np, versions
from laptime.kit.errors import LaptimeError, TargetError, UsageError, UserCodeError
from laptime.targets import Program
from laptime.targets._code import list_needed

jax = Later("jax")
_ANNOTATIONS = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement"}
"""Custom calls that compute nothing."""


class Pure(NamedTuple):
    """A model taken apart."""

    function: Callable[..., Any]  # called with the parameters first, then with the inputs
    parameters: Any  # nested arrays; empty for a plain function
    kind: str  # flax.linen, flax.nnx, pytree, function


def pure(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, seed: int) -> Pure:
    """A callable of the user's taken apart; it is not changed. args, kwargs: inputs of one call; a linen
    module is initialised with them."""
    if _is_from(call, "flax.linen"):
        if call.scope is not None:
            unbound, variables = call.unbind()
            return Pure(unbound.apply, variables, "flax.linen")
        # Compiled: op by op, initialising a large model takes minutes.
        variables = jax.jit(call.init)(jax.random.key(seed), *args, **kwargs)
        return Pure(call.apply, variables, "flax.linen")
    if _is_from(call, "flax.nnx"):
        from flax import nnx

        copy = nnx.merge(*nnx.split(call))  # eval() changes it
        copy.eval()
        graph, state = nnx.split(copy)
        return Pure(lambda state, *a, **k: nnx.merge(graph, state)(*a, **k), state, "flax.nnx")
    if jax.tree_util.treedef_is_leaf(jax.tree_util.tree_structure(call)):
        return Pure(lambda parameters, *a, **k: call(*a, **k), [], "function")
    if _is_from(call, "equinox"):  # dropout and batch statistics as in inference
        import equinox

        call = equinox.nn.inference_mode(call)
    leaves, tree = jax.tree_util.tree_flatten(call)
    where = [index for index, leaf in enumerate(leaves) if is_array(leaf)]

    def function(parameters: list[Any], *args: Any, **kwargs: Any) -> Any:
        whole = list(leaves)
        for index, value in zip(where, parameters, strict=True):
            whole[index] = value
        return jax.tree_util.tree_unflatten(tree, whole)(*args, **kwargs)

    return Pure(function, [leaves[index] for index in where], "pytree")


def _is_from(call: Any, package: str) -> bool:
    """Whether its class comes from a package, which is not imported to find out."""
    return any(f"{cls.__module__}.".startswith(f"{package}.") for cls in type(call).__mro__)


def not_counted(lowered: Any) -> list[str]:
    """List what XLA's cost analysis leaves out of a lowered program: loops, and calls of other libraries."""
    text = str(lowered.compiler_ir().operation.get_asm(large_elements_limit=8))
    calls = {*re.findall(r"stablehlo\.custom_call @([\w.$]+)", text)} - _ANNOTATIONS
    loops = ["while (its inside is counted once)"] if "stablehlo.while" in text else []
    return loops + [f"custom_call {name}" for name in sorted(calls)]


# Inputs.


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def arrays(tree: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(tree) if is_array(leaf)]


def move(tree: Any, device: Any, dtype: str) -> Any:
    """Arrays of a tree on a device; floats in the dtype ("auto": their own), everything else as it is."""
    import jax.numpy as jnp

    def change(leaf: Any) -> Any:
        if not is_array(leaf):
            return leaf
        cast = dtype != "auto" and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jax.device_put(leaf.astype(dtype) if cast else leaf, device)

    return jax.tree.map(change, tree)


def example(program: Program, target: str) -> Any:
    """Inputs as they were given, of whatever batch size; those of batch 1 if they are made.
    Raises TargetError: there are none, and the model needs some."""
    if program.make is not None:
        return program.make(1)
    if program.inputs is not None:
        return program.inputs
    if list_needed(program.call):
        what, why = f"{target} came without inputs", "nothing in a JAX model says what shapes it takes"
        raise TargetError(what, why=why, next="return (model, inputs) from the function")
    return ()


def rebatch(given: Any, batch: int) -> Any:
    """Inputs with another batch size: items repeated from the front, or cut.

    The batch is the first dimension that all arrays passed directly as arguments share: parameters in nested
    containers are no items. Without such arrays that of all arrays counts.
    Raises UsageError: they share none, so nothing tells which part is the batch."""
    old = batch_of(given)
    if old == batch or (old is None and batch == 1):
        return given
    if not old:
        raise no_batch(batch, batch_is(given), error=UsageError)
    ours = {id(leaf) for leaf in items_of(given) if leaf.shape[0] == old}
    order = np.arange(batch) % old
    return jax.tree.map(lambda leaf: leaf[order] if id(leaf) in ours else leaf, given)


def items_of(given: Any) -> list[Any]:
    """The arrays that hold items: arguments themselves, else whatever is nested in them."""
    parts = given.values() if isinstance(given, dict) else given if isinstance(given, tuple) else [given]
    direct = [part for part in parts if is_array(part) and part.ndim]
    return direct or [leaf for leaf in arrays(given) if leaf.ndim]


def batch_of(given: Any) -> int | None:
    lengths = {int(leaf.shape[0]) for leaf in items_of(given)}
    return lengths.pop() if len(lengths) == 1 else None


def batch_is(given: Any) -> str:
    items = items_of(given)
    if not items:
        return "no array in the given inputs has a batch"
    if batch_of(given) is None:
        return f"the inputs share no first dimension: {words(items)}"
    return "the first dimension of every array passed as an argument"


def words(tree: Any) -> str:
    """Arrays in words: `float32 (8, 1000), int32 (8)`; the type's name where there is none."""
    texts = [f"{leaf.dtype} ({', '.join(map(str, leaf.shape))})" for leaf in arrays(tree)]
    return ", ".join(texts[:8]) + (f" and {len(texts) - 8} more" if len(texts) > 8 else "") or "no array"


# Where a model runs.


_EXHAUSTED = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory", "std::bad_alloc")


def available() -> dict[str, str]:
    """Versions of jax and of what it runs models with; {} without jax."""
    return versions({name: (name,) for name in ("jax", "jaxlib", "flax", "equinox")}, needs="jax")


def resolve(name: str) -> Any:
    """The device of a name; "auto" is jax's own choice. `cuda` means `cuda:0`.
    Raises Unavailable: it is not there; those that are there are named."""
    there = {name_of(device): device for device in (*jax.devices(), *jax.devices("cpu")[:1])}
    if name == "auto":
        return next(iter(there.values()))
    full = name if ":" in name or name == "cpu" else f"{name}:0"
    if full not in there:
        raise no_device(name, f"jax {jax.__version__}", [*there])
    return there[full]


def name_of(device: Any) -> str:
    if device.platform == "cpu":
        return "cpu"
    is_rocm = "rocm" in str(getattr(device.client, "platform_version", "")).lower()
    kind = {"gpu": "rocm" if is_rocm else "cuda"}.get(device.platform, device.platform)
    return f"{kind}:{device.id}"


def explain(error: BaseException, doing: str) -> LaptimeError:
    """OutOfMemory for exhausted memory, laptime's own errors as they are, UserCodeError for the rest."""
    behind = error.__cause__ if isinstance(error, UserCodeError) and error.__cause__ else error
    text = str(behind).strip().partition("\n")[0]
    if isinstance(behind, MemoryError) or any(word in text for word in _EXHAUSTED):
        return no_memory(doing, text or type(behind).__name__)
    if isinstance(error, LaptimeError):
        return error
    return call_error(
        doing, error, text, "check the model and its inputs: jax.jit(model)(inputs) has to work"
    )
