"""Interpreters that other packages live in: `--python openvino=.venv-ov`.

The folder of a change that needs such a package is written and run there, all others by laptime's own
interpreter. PyTorch's export is laptime's own in any case, so an environment of ONNX Runtime or OpenVINO
needs no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import chain

from laptime.kit.errors import Unavailable, UsageError, unknown
from laptime.launch import fresh_call
from laptime.launch.interpreter import path_of
from laptime.tuning.inference.changes import load, missing

NAMED = ("onnxruntime", "openvino", "nncf", "torchao", "tensorrt")
"""Packages whose interpreter can be named."""
EXPORTING = ("onnx", "onnxscript")
"""Packages that PyTorch's export takes."""
PROBE = 60.0
"""Seconds that an interpreter may take to say what is installed there."""


@dataclass(frozen=True)
class Interpreters:
    """Which interpreter writes and runs what.

    Attributes:
        named: an interpreter, or the folder of its environment, by package; see `NAMED`.
    """

    named: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_text(cls, text: str) -> Interpreters:
        """`openvino=.venv-ov,torchao=.venv-t`.

        Raises:
            UsageError: it has another form, names another package, or there is no such interpreter.
            Unavailable: the package is not installed there, or laptime cannot run there.
        """
        named: dict[str, str] = {}
        for part in filter(None, text.split(",")):
            package, assigned, python = part.partition("=")
            if not assigned:
                raise UsageError(
                    f"--python {part}: a model has no interpreter, its runtimes have",
                    why="NAME=PATH says where one of them is installed",
                    next=f"--python openvino={part}",
                )
            if package not in NAMED:
                example = "--python openvino=.venv-ov"
                raise unknown("package", package, NAMED, option="--python", example=example)
            named[package] = path_of(python)
            if package not in _installed(named[package]):
                raise Unavailable(
                    f"{package} is not installed in {python}",
                    why="--python says that it is",
                    next=f"{named[package]} -m pip install {package}",
                )
        return cls(named)

    def of(self, changes: Iterable[str]) -> str:
        """The interpreter of a folder with these changes; "": laptime's own."""
        if not self.named:
            return ""
        packages = chain.from_iterable(load(name).packages for name in changes)
        return next((self.named[each] for each in packages if each in self.named), "")

    def text(self, changes: Iterable[str]) -> str:
        """What `of_text` reads, as far as these changes need it, with absolute paths."""
        if not self.named:
            return ""
        packages = set(chain.from_iterable(load(name).packages for name in changes))
        return ",".join(f"{each}={self.named[each]}" for each in self.named if each in packages)

    def missing(self, change: str) -> list[str]:
        """Packages that a change needs and that are not where it needs them."""
        python, packages = self.of([change]), load(change).packages
        if not python:
            return missing(packages)
        of_export = [each for each in packages if each in EXPORTING]
        there = _installed(python)
        return [*missing(of_export), *(each for each in packages if each not in (*of_export, *there))]

    def has_torch(self, python: str) -> bool:
        """Whether PyTorch is installed there; "": laptime's own."""
        return not python or "torch" in _installed(python)


@cache
def _installed(python: str) -> frozenset[str]:
    """Which of the packages that changes need, and torch, are installed there."""
    return frozenset(fresh_call.call(f"{__name__}:installed", {}, timeout=PROBE, python=python))


def installed() -> list[str]:
    """Which of the packages that are asked for are installed here."""
    return [name for name in (*NAMED, "torch") if find_spec(name) is not None]
