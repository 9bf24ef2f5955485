"""Targets that the user names: one file a kind, found by its name, so that adding a kind touches no list.

A target file has:

    FORM: str                       how it is written, `torchvision:NAME`
    def matches(text) -> bool       whether a text has this form; looks at nothing but the text
    def resolve(text) -> Recipe     what can be checked without importing a framework; raises TargetError
    def names() -> list[str]        targets of this kind that are known; may import, may be empty

`parse` runs in the parent process and again in the worker; only the worker calls `Recipe.build`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from laptime.kit import registry
from laptime.kit.errors import TargetError
from laptime.kit.text import closest

Origin = Literal["given", "known", "guessed", "none"]


@dataclass(frozen=True, kw_only=True)
class Program:
    """The result of building a target.

    A tuple of inputs is positional arguments, a mapping is keyword arguments, anything else is one argument.
    """

    call: Callable[..., Any]  # the model: any callable
    # inputs of one call as the user gave them, of whatever batch size; None when there are none
    inputs: Any = None
    # makes the inputs of one call for a batch size; None when only `inputs` or nothing is known
    make: Callable[[int], Any] | None = None
    origin: Origin = "none"  # given by the user, known for this model, guessed from its first layer, none
    # weights are as initialised, so running statistics of normalisations mean nothing yet
    untrained: bool = False
    facts: dict[str, Any] = field(default_factory=dict)  # anything worth recording about the model


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A target that exists as far as can be seen without importing a framework."""

    target: str  # as the user wrote it
    kind: str  # name of the target file
    # loads it; takes a batch size (see `per_batch`). Raises TargetError or UserCodeError.
    build: Callable[[int], Program]
    # told after the code was imported: whether `build` has to be called for each batch size
    per_batch: Callable[[], bool] = lambda: False
    backend: str = "torch"  # name of the backend that runs it
    source: str = ""  # package and version, or the file as the user named it
    sha256: str = ""  # hash of the source file, "" for a model of a package
    # what to import first, so that import time and load time can be told apart
    packages: tuple[str, ...] = ()
    file: str = ""  # path of a model file or folder that the backend reads itself; `build` is not called then
    folder: Path | None = None  # where the code of a file or a module lies


def parse(text: str) -> Recipe:
    """The recipe of a target, checked as far as possible without importing a framework.
    Raises TargetError: it is written like no kind, or does not exist. Unavailable: its library is not
    installed."""
    if loader := LOADERS.get(Path(text).suffix.lower(), "").format(f'"{text}"'):
        raise TargetError(
            f"{text} is not loaded by laptime",
            why="a file of PyTorch can run code while it is read, and has no inputs to call it with",
            next=f"load.py: def build(): return {loader}, INPUTS   then name load.py:build",
        )
    for kind in registry.names("targets"):
        module = registry.load("targets", kind)
        if module.matches(text):
            return module.resolve(text)  # type: ignore[no-any-return]
    if error := misspelt_prefix(text):
        raise error
    if not text.strip():
        raise TargetError("the target is empty", why=f"targets are written {', '.join(forms())}")
    raise TargetError(
        f"{text!r} is not a known kind of target",
        why=f"targets are written {', '.join(forms())}",
        next=f"laptime bench torchvision:{text}" if text.isidentifier() else "laptime bench --help",
    )


def arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How inputs are passed: a tuple by position, a mapping by keyword, anything else as the one argument."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    is_tuple = isinstance(inputs, tuple) and not hasattr(inputs, "_fields")
    return (inputs, {}) if is_tuple else ((inputs,), {})


def forms() -> list[str]:
    """Say how targets are written, one form a kind."""
    return [registry.load("targets", kind).FORM for kind in registry.names("targets")]


def list_known(kind: str) -> list[str]:
    """Targets of a kind that are known here; imports its framework, so ask for it in a process of its own."""
    return registry.load("targets", kind).names()  # type: ignore[no-any-return]


def misspelt_prefix(text: str) -> TargetError | None:
    """The error for `torchvison:resnet18`, or None when nothing near is known."""
    prefix, colon, rest = text.partition(":")
    near = closest(prefix, registry.names("targets")) if colon else None
    if near is None or near == prefix:
        return None
    return TargetError(
        f"no kind of target is called {prefix!r}",
        why=f"targets are written {', '.join(forms())}",
        next=f"did you mean {near}:{rest}?",
    )


def unknown_name(kind: str, name: str, known: list[str]) -> TargetError:
    """The error for a model name that a package does not know, with the nearest that it does."""
    near = closest(name, known)
    return TargetError(
        f"{kind} has no model called {name!r}",
        why=f"it knows {len(known):,} models",
        next=f"did you mean {kind}:{near}?" if near else f"for example: laptime bench {kind}:resnet18",
    )


LOADERS = dict.fromkeys((".pth", ".ckpt", ".bin", ".safetensors", ".tar", ".pkl", ".pickle"), "MODEL")
LOADERS |= dict.fromkeys((".pt", ".ts", ".ptl", ".jit", ".torchscript"), "torch.jit.load({}).eval()")
LOADERS |= {".pt2": "torch.export.load({}).module()"}
"""By suffix of a file of PyTorch, how the user's own code loads it: a MODEL loads its weights itself."""
