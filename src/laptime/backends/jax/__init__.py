"""JAX: functions, Flax and Equinox modules of the user's, compiled by jax.jit, on any device JAX sees.

    laptime bench model.py:build --backend jax

Nothing here imports jax before `open`, `open_object` or `imports` is called.

    program     what a user's function returned, as a pure function of its parameters; its inputs; devices,
                and what jax raises as laptime's errors
    model       a loaded target and its workloads"""

import os
from typing import TYPE_CHECKING, Any

from laptime.backends._shared import import_framework, not_a_model, refuse_kind, seed_all, unknown_dtype
from laptime.backends.jax.program import available, explain, resolve
from laptime.kit.errors import UsageError
from laptime.kit.extras import install
from laptime.records.plan import Variant
from laptime.targets import Program, parse

if TYPE_CHECKING:
    from laptime.backends.jax.model import JaxModel

__all__ = ["TARGETS", "available", "imports", "open", "open_object"]
TARGETS = ("file", "module")  # kinds of targets that it can run
DTYPES = ("float32", "bfloat16", "float16")


def imports(variant: Variant) -> None:
    import_framework("jax", next=install("jax"))


def open(variant: Variant) -> "JaxModel":
    """The target of a variant, its parameters on the device in the dtype asked for. Compiles nothing yet.
    Raises Unavailable: jax or the device is not there. TargetError, UserCodeError, OutOfMemory: see
    `targets`."""
    imports(variant)
    _check(variant)
    from laptime.backends.jax.model import JaxModel

    recipe = parse(variant.target)
    refuse_kind(recipe, TARGETS, "jax", instead="a function of your own: model.py:build --backend jax")
    if variant.threads is not None:
        os.environ["NPROC"] = str(variant.threads)  # XLA reads it when it makes the CPU's thread pool
    device = resolve(variant.device)
    try:
        import numpy  # noqa: F401 - a user's function may draw from it; jax's own generators are explicit

        seed_all(variant.seed)
        rebuild = recipe.build if recipe.per_batch() else None
        facts = {"source": recipe.source, "sha256": recipe.sha256}
        return JaxModel(variant, recipe.build(1), device=device, facts=facts, rebuild=rebuild)
    except Exception as error:
        raise explain(error, f"{variant.target} could not be loaded") from error


def open_object(subject: Any, inputs: Any, variant: Variant) -> "JaxModel":
    """A callable of this process; `inputs` may be a function of the batch size. It is not changed.
    Raises UsageError: it is not callable, or threads are asked for: XLA's are made once a process."""
    imports(variant)
    _check(variant)
    from laptime.backends.jax.model import JaxModel

    if not callable(subject):
        raise not_a_model(subject, "a Flax or Equinox module")
    if variant.threads is not None:
        what = "the threads of a running process cannot be changed"
        raise UsageError(what, why="XLA makes its thread pool only once", next="start Python with NPROC=1")
    make = inputs if callable(inputs) else None
    program = Program(call=subject, inputs=None if make else inputs, make=make, origin="given")
    try:
        device = resolve(variant.device)
        return JaxModel(variant, program, device=device, facts={"source": "in memory"}, rebuild=None)
    except Exception as error:
        raise explain(error, f"{variant.target} could not be made ready") from error


def _check(variant: Variant) -> None:
    if variant.dtype not in (*DTYPES, "auto"):
        raise unknown_dtype(variant.dtype, DTYPES)
    if variant.compile not in ("", "default"):
        why = "jax.jit compiles every model here, one way"
        raise UsageError(f"jax has no compile mode {variant.compile!r}", why=why, next="leave --compile out")
    if variant.channels_last:
        why = "XLA chooses the layout; the model itself says which dimension is the channel"
        raise UsageError("jax takes no --channels-last", why=why, next="leave --channels-last out")
