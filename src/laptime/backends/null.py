"""No framework at all: the program is called and nothing else happens.

For `null:` targets, for plain Python functions, and to see what laptime itself adds to a measurement."""

import platform
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from laptime.backends._shared import (
    BoundWorkload,
    FreshInputs,
    ProgramModel,
    no_batch,
    nothing,
    refuse_options,
)
from laptime.kit.errors import LaptimeError, OutOfMemory, Unavailable, UsageError, UserCodeError
from laptime.measure.first_call import copy_inputs, finite, has_changed
from laptime.records.environment import Device
from laptime.records.plan import Variant
from laptime.records.series import Metric, Series
from laptime.targets import Program, arguments, parse

TARGETS = ("null", "file", "module")  # kinds of targets that it can run
_CPU = Device(name="cpu", model="CPU")


def available() -> dict[str, str]:
    """Always there; it needs nothing."""
    return {"python": platform.python_version()}


def open(variant: Variant) -> "NullModel":
    """Load a target without any framework.
    Raises TargetError, UserCodeError, OutOfMemory: see `laptime.targets`. Unavailable, UsageError: the
    variant asks for a device, dtype or compiler that only frameworks have."""
    _check(variant)
    recipe = parse(variant.target)
    try:
        per_batch = recipe.per_batch()
        first = recipe.build(1)
    except Exception as error:
        cause = error.__cause__ if isinstance(error, UserCodeError) else error
        if isinstance(error, LaptimeError) and not isinstance(cause, MemoryError):
            raise
        raise explain(cause or error, f"{variant.target} could not be loaded") from error
    return NullModel(variant, first, rebuild=recipe.build if per_batch else None)


def open_object(subject: Callable[..., Any], inputs: Any, variant: Variant) -> "NullModel":
    """A callable of this process; `inputs` may be a function of the batch size."""
    _check(variant)
    made = {"make": inputs} if callable(inputs) else {"inputs": () if inputs is None else inputs}
    return NullModel(variant, Program(call=subject, origin="given", **made), rebuild=None)


def explain(error: BaseException, what: str) -> LaptimeError:
    """OutOfMemory for exhausted memory, UserCodeError for anything else."""
    if isinstance(error, MemoryError):
        return OutOfMemory(
            what, why="Python could not get the memory (MemoryError)", next="a smaller --batch"
        )
    return UserCodeError(what, why=f"{type(error).__name__}: {error}")


def _check(variant: Variant) -> None:
    if variant.device not in ("cpu", "auto"):
        why = "the null backend knows only the cpu"
        raise Unavailable(f"there is no device {variant.device!r}", why=why, next="--device cpu")
    options = {
        f"--dtype {variant.dtype}": variant.dtype not in ("float32", "auto"),
        "--compile": variant.compile,
        "--channels-last": variant.channels_last,
        "--threads": variant.threads is not None,
    }
    refuse_options(options, "the null backend", why="it has no framework that would do it")


class NullModel(ProgramModel[BoundWorkload]):
    """A program and its inputs, with no framework around them."""

    _kept: Any = None
    _changed = False
    _whole: Callable[[Any], Any] = staticmethod(lambda output: output)

    def _bind(self, batch: int) -> BoundWorkload:
        program, inputs = self._of(batch)
        args, kwargs = arguments(inputs)
        call = partial(program.call, *args, **kwargs) if args or kwargs else program.call
        return BoundWorkload(call=call, sync=nothing, batch=batch)

    def _of(self, batch: int) -> tuple[Program, Any]:
        """The program of a batch size, and its inputs."""
        program = self._rebuild(batch) if self._rebuild and batch != 1 else self._program
        if program.make is not None:
            return program, program.make(batch)
        if self._rebuild or batch == 1 or program.inputs in ((), None):
            return program, () if program.inputs is None else program.inputs
        raise no_batch(
            batch, "without a framework it is unknown which part of the inputs is the batch", error=UsageError
        )

    def watch(self, batch: int) -> None:
        call = self.workload(batch).call
        given = (call.args, call.keywords) if isinstance(call, partial) else ()
        self._kept = copy_inputs(given)

    def settle(self, batch: int, outcome: Any, whole: Callable[[Any], Any] | None) -> bool:
        work, (kept, self._kept) = self.workload(batch), (self._kept, None)
        call, whole = work.call, whole or self._whole
        if not (kept and isinstance(call, partial) and has_changed(kept, (call.args, call.keywords))):
            work.call = (lambda: whole(call())) if whole is not self._whole else call
            return whole is not self._whole
        function, fresh = call.func, FreshInputs(lambda: copy_inputs(kept))

        def wholly(*args: Any, **kwargs: Any) -> Any:
            return whole(function(*args, **kwargs))

        work.call, work.apart, self._changed = fresh.anew(wholly), (fresh.lay, fresh.alone(wholly)), True
        return True

    def own_batch(self) -> int | None:
        """1: nothing tells the batch of the inputs."""
        return 1

    def inputs_of(self, batch: int) -> dict[str, Any]:
        return {"changed": True} if self._changed else {}

    def facts(self) -> dict[str, Any]:
        program = self._program
        return {"target": self._variant.target, "inputs": {"origin": program.origin}, **program.facts}

    def devices(self) -> list[Device]:
        return [_CPU]

    def libraries(self) -> dict[str, str]:
        return {}

    def knobs(self) -> dict[str, Any]:
        """The one thing in Python that changes its speed from outside."""
        return {"python.optimize": sys.flags.optimize}

    def count(self, batch: int) -> tuple[list[Series], dict[str, Any]]:
        per_item = self._program.facts.get("flops_per_item")
        if per_item is None:
            return [], {"reason": "without a framework nothing is counted"}
        metric = Metric(tag="flops", unit="FLOP", title="FLOPs in one call")
        return [Series(metric=metric, samples=[per_item * batch], probe="null")], {"planted": per_item}

    def check_outputs(self, batch: int) -> dict[str, Any]:
        output = self.output(batch)
        return {"finite": finite(output), "shape": type(output).__name__}

    def explain(self, error: BaseException, batch: int) -> LaptimeError:
        return explain(error, f"{self._variant.target} failed at batch {batch}")
