"""How a TensorFlow model is run (`--option mode=...`): the call made of it, nested inputs and outputs.

    (not given)   a Keras model runs as a tf.function, as in its own fit, evaluate and predict; a SavedModel
                  and a tf.function run as they are; any other function runs eager, as it was written
    function      tf.function, traced once for every batch size
    xla           tf.function(jit_compile=True); `--compile` means this, too
    eager         operator by operator, as model(x) does outside a tf.function
    predict       model.predict(x): Keras's own loop, from NumPy arrays to NumPy arrays, as Keras sets it up

The difference between `predict` and `function` is what Keras adds around the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from laptime.backends._shared import Later, no_batch, np
from laptime.kit.errors import UsageError, unknown
from laptime.records.plan import Variant
from laptime.targets import arguments
from laptime.targets.saved_model import Served

tf = Later("tensorflow")


def leaves(value: Any) -> list[Any]:
    """Everything in a structure that has a shape and a dtype: tensors, variables, arrays."""
    return [leaf for leaf in tf.nest.flatten(value) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]


def dtype(tensor: Any) -> str:
    return str(getattr(tensor.dtype, "name", tensor.dtype))


def pass_inputs(inputs: Any, *, is_keras: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How inputs are passed. A Keras model takes a mapping as its one argument, anything else by keyword."""
    return ((inputs,), {}) if is_keras and isinstance(inputs, Mapping) else arguments(inputs)


def batch_of(inputs: Any) -> int | None:
    """The batch size: the first dimension that all tensors share; None if there is none."""
    lengths = {int(leaf.shape[0]) for leaf in leaves(inputs) if len(leaf.shape)}
    return lengths.pop() if len(lengths) == 1 else None


def has_batch(inputs: Any) -> bool:
    return any(len(leaf.shape) for leaf in leaves(inputs))


def batch_is(inputs: Any) -> str:
    if not has_batch(inputs):
        return "no tensor in the given inputs has a batch"
    if batch_of(inputs) is None:
        return f"the inputs share no first dimension: {words(inputs)}"
    return "the first dimension of every input"


def rebatch(inputs: Any, batch: int) -> Any:
    """Inputs with another batch size: items repeated from the front, or cut.
    Raises TargetError: nothing in them says which part is the batch, or the batch given is empty."""
    given = batch_of(inputs)
    if given == batch or (given is None and batch == 1):
        return inputs
    if not given:
        raise no_batch(batch, "the given inputs are empty" if given == 0 else batch_is(inputs))
    order = np.arange(batch) % given

    def change(leaf: Any) -> Any:
        is_batched = hasattr(leaf, "shape") and len(leaf.shape) and leaf.shape[0] == given
        if not is_batched:
            return leaf
        return leaf[order] if isinstance(leaf, np.ndarray) else tf.gather(leaf, order)

    return tf.nest.map_structure(change, inputs)


def tensors(inputs: Any) -> Any:

    def change(leaf: Any) -> Any:
        return tf.convert_to_tensor(leaf) if isinstance(leaf, np.ndarray) else leaf

    return tf.nest.map_structure(change, inputs)


def numpify(inputs: Any) -> Any:
    """Inputs for `predict`: arrays of NumPy; positional arguments as a list, one alone as itself."""
    plain = tf.nest.map_structure(lambda leaf: leaf.numpy() if hasattr(leaf, "numpy") else leaf, inputs)
    if isinstance(plain, tuple):
        return plain[0] if len(plain) == 1 else list(plain)
    return plain


def arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    """The tensors of a structure as NumPy arrays, short floats as float32; mappings by sorted key."""
    outputs = [np.asarray(leaf) for leaf in leaves(value)]
    # NumPy knows bfloat16 only as a guest.
    return [a.astype(np.float32) if a.dtype.name in ("bfloat16", "float16") else a for a in outputs]


def finite(value: Any) -> bool | None:
    """Whether all floating-point tensors of a structure hold finite numbers only; None without any."""
    floats = [leaf for leaf in leaves(value) if tf.as_dtype(leaf.dtype).is_floating]
    if not floats:
        return None
    return all(bool(tf.reduce_all(tf.math.is_finite(leaf))) for leaf in floats)


def size(value: Any) -> int:
    sizes = ((tf.TensorShape(leaf.shape), tf.as_dtype(leaf.dtype)) for leaf in leaves(value))
    return sum((shape.num_elements() or 0) * kind.size for shape, kind in sizes)


def words(value: Any) -> str:
    """A structure in words: `float32 (8, 1000)`, `{logits: float32 (8, 10)}`."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{tf.as_dtype(value.dtype).name} ({', '.join(str(length) for length in value.shape)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {words(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        opening, closing = ("[", "]") if isinstance(value, list) else ("(", ")")
        return opening + ", ".join(words(part) for part in value) + closing
    return type(value).__name__


Mode = Literal["function", "xla", "eager", "predict"]
MODES: tuple[Mode, ...] = ("function", "xla", "eager", "predict")


def is_keras(call: Any) -> bool:
    return isinstance(call, tf.keras.layers.Layer)


def _is_graph(call: Any) -> bool:
    return isinstance(call, Served | tf.types.experimental.Callable)


def find_mode(variant: Variant) -> Mode | None:
    """The mode that a variant asks for; None when it asks for none.
    Raises UsageError: there is no such mode."""
    name = variant.options.get("mode") or ("xla" if variant.compile else "")
    if not name:
        return None
    if variant.compile and (name != "xla" or variant.compile not in ("default", "xla")):
        raise UsageError(
            f"--compile {variant.compile} and --option mode={name} do not go together",
            why="--compile alone means mode=xla here, and XLA has no modes of its own",
            next=f"--option mode={name}",
        )
    known_mode = next((mode for mode in MODES if mode == name), None)
    if known_mode is None:
        example, what = "--option mode=function", f"tensorflow has no mode {name!r}"
        raise unknown("mode", name, MODES, option="--option mode=", example=example, what=what)
    return known_mode


def mode_of(call: Any, variant: Variant) -> Mode:
    """The mode that is asked for, or this kind of model's own.
    Raises UsageError: there is no such mode, or this model cannot run in it."""
    mode = find_mode(variant)
    if mode is None:
        return "function" if is_keras(call) or _is_graph(call) else "eager"
    if mode == "predict" and not hasattr(call, "predict"):
        why = f"this is {type(call).__name__}"
        raise UsageError("only Keras models have predict", why=why, next="--option mode=function")
    if mode == "eager" and _is_graph(call) and not hasattr(call, "python_function"):
        why = "it was saved as a graph: there is no Python code behind it"
        raise UsageError("this model cannot run eager", why=why, next="--option mode=function,xla")
    return mode


@dataclass
class Bound:
    """A model bound to inputs of one batch size."""

    run: Callable[[], Any]  # calls it once
    function: Any  # the tf.function in it; None if there is none of ours to ask
    # args, kwargs: what it is called with
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    # Python and graph building of the first call; None before it, or without a trace
    trace_seconds: float | None = None
    first_run_seconds: float | None = None  # the rest of the first call
    _compiled: float | None = None

    def trace(self) -> Any:
        """The traced graph of these inputs; the first time takes a while, and is timed."""
        if not hasattr(self.function, "get_concrete_function"):
            return self.function
        started = time.perf_counter()
        concrete = self.function.get_concrete_function(*self.args, **self.kwargs)
        if self.trace_seconds is None:
            self.trace_seconds = time.perf_counter() - started
        return concrete

    def first(self) -> Any:
        self.trace()
        started = time.perf_counter()
        output = self.run()
        self.first_run_seconds = time.perf_counter() - started
        return output

    def compile_seconds(self, mode: Mode) -> float | None:
        """Tracing, and with XLA compiling: the first run after tracing minus one more, made here.

        None before the first call, and where nothing was traced. XLA's compiler works in the calling thread,
        so what a device still does when a run returns does not matter."""
        if mode != "xla" or self.trace_seconds is None or self.first_run_seconds is None:
            return self.trace_seconds
        if self._compiled is None:
            started = time.perf_counter()
            self.run()
            self._compiled = max(0.0, self.first_run_seconds - (time.perf_counter() - started))
        return self.trace_seconds + self._compiled


def bound(call: Any, inputs: Any, mode: Mode, batch: int) -> Bound:
    """A model with inputs of one batch size, in one mode. Traces and calls nothing yet."""
    if mode == "predict":
        array = numpify(inputs)
        return Bound(lambda: call.predict(array, batch_size=batch, verbose=0), None, (array,), {})
    args, kwargs = pass_inputs(tensors(inputs), is_keras=is_keras(call))
    python = _python(call)
    if mode == "eager":
        return Bound(_bind(getattr(python, "python_function", python), args, kwargs), None, args, kwargs)
    if mode == "xla":
        function = tf.function(lambda *args, **kwargs: python(*args, **kwargs), jit_compile=True)
    elif isinstance(call, Served):
        function = call.signature
    else:
        function = call if _is_graph(call) else tf.function(python)
    return Bound(_bind(function, args, kwargs), function, args, kwargs)


def graph_of(call: Any, one: Bound) -> Any:
    """A bound model as a graph that knows every shape: traced aside, tf.functions in it put in place.

    Those with Python control flow of their own cannot be put in place, nor can graphs that were saved."""
    python = _python(call)

    def trace_aside() -> Any:
        return tf.function(lambda *a, **k: python(*a, **k)).get_concrete_function(*one.args, **one.kwargs)

    were_eager = tf.config.functions_run_eagerly()
    try:
        tf.config.run_functions_eagerly(True)
        return trace_aside()
    except Exception:
        tf.config.run_functions_eagerly(were_eager)
        return trace_aside()
    finally:
        tf.config.run_functions_eagerly(were_eager)


def _python(call: Any) -> Callable[..., Any]:
    if not is_keras(call):
        target: Callable[..., Any] = call
        return target

    def infer(*args: Any, **kwargs: Any) -> Any:
        return call(*args, training=False, **kwargs)

    return infer


def _bind(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
    if not kwargs and len(args) == 1:
        (only,) = args
        return lambda: function(only)
    return lambda: function(*args, **kwargs)
