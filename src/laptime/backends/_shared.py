"""Code that backends share: frameworks as packages, a workload per batch size, refusals in the same words."""

import hashlib
import os
import random
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from laptime.kit import errors
from laptime.kit.errors import LaptimeError, TargetError, Unavailable, UsageError, unknown
from laptime.kit.text import closest
from laptime.probes.machine import find_version
from laptime.records.plan import Variant
from laptime.targets import Program, Recipe
from laptime.targets._code import line_of


def first(wheels: Iterable[str]) -> dict[str, str]:
    """The first of these packages that is installed, with its version; {} without any."""
    found = ((wheel, find_version(wheel)) for wheel in wheels)
    return next(({wheel: version} for wheel, version in found if version), {})


def versions(wheels: Mapping[str, Iterable[str]], *, needs: str) -> dict[str, str]:
    """Versions of what is installed, by name; {} without the one that the others need. wheels: for every name
    the packages that can bring it, the usual one first."""
    installed = {name: number for name, packages in wheels.items() for number in first(packages).values()}
    return installed if needs in installed else {}


class Later:
    """A module that is imported when something of it is first used: to import ours loads no framework."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(sys.modules.get(self._name) or import_module(self._name), attribute)


if TYPE_CHECKING:
    import numpy
    import torch as torch  # handed on: backends of PyTorch take it from here

    np = numpy
else:
    np, torch = Later("numpy"), Later("torch")


def import_framework(package: str, *, next: str) -> None:
    """Import it, so that import time and load time can be told apart.
    Raises Unavailable: it is not installed or does not import; `next` says how to install it."""
    try:
        import_module(package)
    except ImportError as error:
        raise Unavailable(f"{package} cannot be imported", why=str(error), next=next) from error


def environment(beginnings: tuple[str, ...]) -> dict[str, str]:
    """Knobs: variables of the environment that begin so, but for those that name folders."""
    return {
        f"env.{name}": os.environ[name]
        for name in sorted(os.environ)
        if name.startswith(beginnings) and not name.endswith(("_DIR", "_PATH", "_HOME"))
    }


# Loaded models.


@dataclass(kw_only=True, slots=True)
class BoundWorkload:
    """A `measure.protocol.Workload`. apart: see `Settles`."""

    call: Callable[[], Any]
    sync: Callable[[], None]
    batch: int = 0
    synchronous: bool = True
    apart: tuple[Callable[[], None], Callable[[], Any]] | None = None


Workload = TypeVar("Workload")


class ByBatch(ABC, Generic[Workload]):
    """Workloads by batch size: inputs are bound at the first use, and kept."""

    def __init__(self) -> None:
        self._workloads: dict[int, Workload] = {}

    @abstractmethod
    def _bind(self, batch: int) -> Workload:
        """The model with inputs of this batch size."""

    def _unbound(self, error: Exception, batch: int) -> Exception:
        """Return the error for inputs of this batch size that cannot be bound; the same error by default."""
        return error

    def workload(self, batch: int) -> Workload:
        """The model with inputs of this batch size, on its device. Calls nothing yet.
        Raises UsageError: such inputs cannot be made. UserCodeError, OutOfMemory: making them failed."""
        if batch < 1:
            raise UsageError(
                f"batch {batch} is not possible", why="a call has at least one item", next="--batch 1"
            )
        if batch not in self._workloads:
            try:
                self._workloads[batch] = self._bind(batch)
            except Exception as error:
                refusal = self._unbound(error, batch)
                if refusal is error:
                    raise
                raise refusal from error
        return self._workloads[batch]

    def output(self, batch: int) -> Any:
        """Return the output of one more call, once it is done."""
        work: Any = self.workload(batch)
        output = work.call()
        work.sync()
        return output

    def close(self) -> None:
        self._workloads.clear()


class FreshInputs:
    """Inputs of a workload whose calls change them: each call gets a copy of what they were. copied: copies
    them, as positional and keyword arguments."""

    def __init__(self, copied: Callable[[], tuple[Sequence[Any], Mapping[str, Any]]]) -> None:
        self._copied = copied

    def lay(self) -> None:
        """Make the copy that the next call gets."""
        self._args, self._kwargs = self._copied()

    def alone(self, call: Callable[..., Any]) -> Callable[[], Any]:
        """The call with the copy that was laid last."""
        return lambda: call(*self._args, **self._kwargs)

    def anew(self, call: Callable[..., Any]) -> Callable[[], Any]:
        """The call with a copy of its own."""

        def call_anew() -> Any:
            self.lay()
            return call(*self._args, **self._kwargs)

        return call_anew


class ProgramModel(ByBatch[Workload]):
    """A program, built for batch 1, on one device: what JAX, TensorFlow and no framework share. rebuild:
    builds it for another batch size; None if inputs are re-batched.
    Raises TargetError: the program is a module of PyTorch, which none of these frameworks runs."""

    def __init__(
        self,
        variant: Variant,
        program: Program,
        *,
        device: Any = "cpu",
        facts: dict[str, Any] | None = None,
        rebuild: Callable[[int], Program] | None,
    ) -> None:
        super().__init__()
        # Told by its class, because PyTorch need not be installed here.
        classes = {(base.__module__, base.__name__) for base in type(program.call).__mro__}
        if ("torch.nn.modules.module", "Module") in classes:
            raise TargetError(
                f"{variant.target} is a PyTorch module ({type(program.call).__name__})",
                why="this backend runs models of its own framework",
                next="--backend torch   runs modules of PyTorch, as onnxruntime and openvino do",
            )
        self._variant = variant
        self._program = program
        self._device = device
        self._facts = facts or {}
        self._rebuild = rebuild

    def _describe(
        self, how: dict[str, str], weights: Sequence[Any], inputs: dict[str, Any]
    ) -> dict[str, Any]:
        """Facts: `how` it runs, arrays or variables that it holds, the inputs of a call."""
        shapes = "\n".join(f"{tuple(weight.shape)} {weight.dtype}" for weight in weights)
        return {
            "target": self._variant.target,
            **self._facts,
            **self._program.facts,
            "model": type(self._program.call).__name__,
            **how,
            "dtypes": dict(Counter(str(getattr(weight.dtype, "name", weight.dtype)) for weight in weights)),
            "weights_sha256": hashlib.sha256(shapes.encode()).hexdigest() if weights else "",
            "inputs": {"origin": self._program.origin, **inputs},
        }


def nothing() -> None:
    """Waits for a device that is done when the call returns."""


def refuse_kind(recipe: Recipe, kinds: Sequence[str], backend: str, *, instead: str) -> None:
    """Refuse models of other frameworks.
    Raises TargetError: the recipe's kind is none of those that the backend runs."""
    if recipe.kind not in kinds:
        why, next = f"it is a model of {recipe.backend}", f"--backend {recipe.backend}   or {instead}"
        raise TargetError(f"{backend} cannot run {recipe.target}", why=why, next=next)


def no_memory(doing: str, why: str, which: str = "") -> LaptimeError:
    """The error for memory that a call did not get. which: host or device, if that is known."""
    advice = "a smaller --batch, or --batch auto to find the largest that fits"
    memory = f"{which} memory" if which else "memory"
    return errors.OutOfMemory(f"{doing}: {memory} is exhausted", why=why, next=advice)


def call_error(doing: str, error: BaseException, line: str, next: str = "", inputs: str = "") -> LaptimeError:
    """The error for whatever else a framework raised, with its place in the user's code. line: what it says.
    inputs: in words, told when the model refuses them."""
    why = f"{type(error).__name__}: {line}".rstrip(": ")
    if place := line_of(error):
        why += f" ({place})"
    if inputs:
        why += f"; the inputs were {inputs}"
    other = "check the model and its inputs: return (model, inputs) that fit"
    return errors.UserCodeError(doing, why=why, next=next or other)


def no_batch(batch: int, why: str, next: str = "", error: type[LaptimeError] = TargetError) -> LaptimeError:
    """The error for a batch size that nothing tells how to make."""
    other = "give the function a `batch` argument, or pass inputs as a function of the batch size"
    return error(f"inputs of batch {batch} cannot be made", why=why, next=next or other)


def seed_all(seed: int) -> None:
    """Seed the generators of Python and NumPy, from which a user's function may draw weights or inputs."""
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)


def no_device(name: str, framework: str, there: Sequence[str]) -> Unavailable:
    """The error for a device that a framework of some version does not see."""
    return Unavailable(
        f"there is no device {name!r}",
        why=f"{framework} sees {', '.join(there)}",
        next=f"--device {closest(name, [*there, 'auto']) or there[0]}",
    )


def unknown_dtype(dtype: str, known: Sequence[str]) -> UsageError:
    """The error for a dtype that a backend does not have."""
    return unknown("dtype", dtype, known, option="--dtype", example="--dtype float32")


def not_a_model(subject: object, models: str) -> UsageError:
    """The error for an object that cannot be called; `models` says what a model of this framework is."""
    return UsageError(
        f"an object of type {type(subject).__name__} cannot be measured",
        why=f"a model is {models} or any other callable",
        next="pass the model itself, or a function that calls it",
    )


def refuse_options(asked: Mapping[str, object], backend: str, *, why: str, next: str = "") -> None:
    """Options that this backend does not have, by how they are written.
    Raises UsageError: one is asked for."""
    if refused := [word for word, is_asked in asked.items() if is_asked]:
        raise UsageError(f"{backend} cannot do {' '.join(refused)}", why=why, next=next)


def refuse_torch_options(variant: Variant, backend: str, *, why: str) -> None:
    """Options that only PyTorch has; `why` is what this backend has instead. Raises as `refuse_options`."""
    options = {
        "--compile": variant.compile,
        "--channels-last": variant.channels_last,
        "--train": variant.train,
    }
    refuse_options(options, backend, why=why, next="--backend torch, or leave it out")
