"""A program made ready: the settings it can have, its dtype, inputs that it tells, running statistics.

Inputs for a model that tells their shapes and dtypes: Keras inputs, signatures, tf.functions.

Floats are standard normal, integers 0 or 1 (below the size of any vocabulary), booleans likewise."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from laptime.backends._shared import Later, np, unknown_dtype
from laptime.backends.tensorflow import modes
from laptime.kit.errors import TargetError, UsageError
from laptime.records.plan import Variant
from laptime.targets import Program
from laptime.targets.saved_model import Served

tf = Later("tensorflow")
DTYPES = ("float32", "bfloat16", "float16", "float64")


def with_inputs(program: Program, variant: Variant) -> Program:
    """The program with inputs, from the model itself if none were given, and settled if untrained."""
    call = program.call
    if program.make is None and program.inputs is None and program.origin != "given":
        # Nested shapes and dtypes that a model takes, as its arguments; None when it does not say.
        if modes.is_keras(call):
            keras_inputs = getattr(call, "inputs", None)
            alone = keras_inputs[0] if keras_inputs and len(keras_inputs) == 1 else keras_inputs
            # A mapping, if it was made with one.
            input_specs = (getattr(call, "_inputs_struct", alone),) if keras_inputs else None
        elif isinstance(call, Served):
            input_specs = call.signature.structured_input_signature[1]
        else:
            signature = getattr(call, "input_signature", None)  # of a tf.function
            input_specs = tuple(signature) if signature else None
        if input_specs is None and modes.is_keras(call):
            raise TargetError(
                f"{variant.target} came without inputs, and none can be seen",
                why=f"{type(call).__name__} gives no shapes: functional and built sequential models do",
                next="return (model, inputs) from the function",
            )
        if input_specs is not None:
            make = maker(input_specs, target=variant.target, shapes=variant.options.get("shape", {}))
            program = replace(program, make=make, inputs=make(batch_of(input_specs)), origin="known")
    if program.untrained and program.make is not None and settle(call, program.make):
        facts = {**program.facts, "running_statistics": "from one random batch of 2"}
        program = replace(program, facts=facts)
    return program


def layers(model: Any) -> Iterator[Any]:
    """All layers of a model, those inside nested models too; the model itself is none of them."""
    for layer in getattr(model, "layers", []):
        yield layer
        yield from layers(layer)


def settle(model: Any, make: Callable[[int], Any]) -> bool:
    """Fill running statistics from one batch of 2, as decision 0006 does it for PyTorch; False without any.

    With the initial ones (mean 0, variance 1) activations grow or shrink with depth, until float16 overflows
    or CPUs slow down on denormals, which trained weights never do."""
    norms = [layer for layer in layers(model) if type(layer).__name__ == "BatchNormalization"]
    if not norms:
        return False
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        args, kwargs = modes.pass_inputs(make(2), is_keras=True)
        model(*args, training=True, **kwargs)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
    return True


def sample(program: Program) -> Any:
    """Inputs of whatever batch size there are: those given, those of the model's own batch size, or of 1."""
    if program.inputs is None and program.make is not None:
        return program.make(1)
    return () if program.inputs is None else program.inputs


def inputs_of(program: Program, batch: int, *, is_for_it: bool) -> Any:
    """Inputs of a batch size; if the program was built for it, those that it brought."""
    if program.make is not None:
        return program.make(batch)
    return sample(program) if is_for_it else modes.rebatch(sample(program), batch)


@contextmanager
def policy(dtype: str) -> Iterator[None]:
    if dtype in ("float32", "auto"):
        yield
        return
    from keras import config

    was = config.dtype_policy()
    config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        config.set_dtype_policy(was)


def check(variant: Variant) -> None:
    """Refuse what no model can do, before anything is imported.
    Raises UsageError: the dtype is none of `DTYPES`, or the mode none of `modes.MODES`."""
    modes.find_mode(variant)
    if variant.dtype not in (*DTYPES, "auto"):
        raise unknown_dtype(variant.dtype, DTYPES)


def check_dtype(program: Program, variant: Variant) -> None:
    """A dtype is part of a TensorFlow model: nothing is cast, so what was asked for must be what it has.
    Raises UsageError: the model computes in others."""
    wanted, call = variant.dtype, program.call
    if wanted == "auto":
        return
    if modes.is_keras(call):
        held = Counter(layer.compute_dtype for layer in layers(call) if layer.weights)
    else:
        held = Counter(modes.dtype(leaf) for leaf in modes.leaves(sample(program)))
    floats = {dtype: number for dtype, number in held.items() if "float" in dtype}
    if floats and wanted not in floats:
        has = max(floats, key=lambda dtype: floats[dtype])
        raise UsageError(
            f"{variant.target} does not run in {wanted}",
            why=f"it computes in {has}: a TensorFlow model gets its dtype when it is made",
            next=f"--dtype {has}" if has in DTYPES else "make it in this dtype in a function of file.py",
        )


# Inputs that a model tells.


def maker(specs: Any, *, target: str, shapes: dict[str, list[int]]) -> Callable[[int], Any]:
    """A maker of inputs for a batch size. Only the first dimension may stay open: it is the batch. specs:
    nested structure of things with `shape` and `dtype`. shapes: sizes without the batch, by name of the
    input.
    Raises TargetError: another dimension is open, or the dtype is none that numbers can be drawn for."""
    for spec in tf.nest.flatten(specs):
        sizes = _sizes(spec, shapes, target)
        if None in sizes[1:]:
            raise _open(target, spec, f"{_name(spec)} is {_words(spec, sizes)}")
        kind = tf.as_dtype(spec.dtype)
        if not (kind.is_floating or kind.is_integer or kind.is_bool):
            raise TargetError(
                f"no inputs of {target} can be made",
                why=f"{_name(spec)} is of dtype {kind.name}",
                next="write file.py with a function that returns (model, inputs)",
            )

    def make(batch: int) -> Any:
        return tf.nest.map_structure(
            lambda spec: _draw(spec, _sizes(spec, shapes, target), batch, target), specs
        )

    return make


def batch_of(specs: Any) -> int:
    for spec in tf.nest.flatten(specs):
        if getattr(spec.shape, "rank", True) and len(spec.shape) and spec.shape[0] is not None:
            return int(spec.shape[0])
    return 1


def _draw(spec: Any, sizes: list[int | None], batch: int, target: str) -> Any:
    if sizes and sizes[0] not in (None, batch):
        why = f"{_name(spec)} is {_words(spec, sizes)}: its batch is fixed"
        raise UsageError(f"{target} cannot take batch {batch}", why=why, next=f"--batch {sizes[0]}")
    shape = [batch, *(size or 1 for size in sizes[1:])] if sizes else []  # none of them is open: see `maker`
    kind = tf.as_dtype(spec.dtype)
    generator = np.random.default_rng(0)
    if kind.is_floating:
        return tf.cast(tf.constant(generator.standard_normal(shape, np.float32)), kind)
    return tf.cast(tf.constant(generator.integers(0, 2, shape)), kind)


def _sizes(spec: Any, shapes: dict[str, list[int]], target: str) -> list[int | None]:
    try:
        dims: list[int | None] = list(spec.shape)
    except ValueError:  # a TensorShape of unknown rank
        dims = []
        if _name(spec) not in shapes:
            raise _open(target, spec, f"even the number of dimensions of {_name(spec)} is open") from None
    given = shapes.get(_name(spec))
    return [dims[0] if dims else None, *given] if given else dims


def _open(target: str, spec: Any, why: str) -> TargetError:
    return TargetError(
        f"the sizes of the inputs of {target} are open",
        why=why,
        next=f"--shape {_name(spec)}=224x224x3   without the batch",
    )


def _name(spec: Any) -> str:
    return str(getattr(spec, "name", None) or "input")


def _words(spec: Any, sizes: list[int | None]) -> str:
    shape = ", ".join("?" if length is None else str(length) for length in sizes)
    return f"{getattr(spec.dtype, 'name', spec.dtype)} ({shape})"
