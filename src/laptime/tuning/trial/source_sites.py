"""Where in the user's own files the loop does things: `loop_profile.Site`s, with the name of the object.

A site is the innermost frame on the stack whose file is the user's: not of the standard
library, not installed, not ours. So a loop inside a library has its site at the user's call of that library.
"""

import site as site_module
import sys
import sysconfig
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from os.path import abspath, realpath, sep
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from laptime.tuning.loop_profile import Site
from laptime.tuning.trial.loop import ConstructorCall

KINDS = {
    "DataLoader": "loader",
    "DistributedDataParallel": "parallel",
    "TrainingArguments": "hf_arguments",
    "Seq2SeqTrainingArguments": "hf_arguments",
}
"""Kinds of sites by the class that is called; every other call is of an optimizer or of a trainer."""
WRAPPERS = ("_orig_mod", "module", "_forward_module")
"""Attributes in which compiled, parallel and Lightning's modules keep the module that they wrap."""
_LAPTIME = str(Path(__file__).parents[2])  # lent to another Python, it is a link


@lru_cache(maxsize=1)
def _foreign() -> tuple[str, ...]:
    """Folders whose files are not the user's. No whole prefix: a project may lie in /usr/src."""
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")}
    folders |= {*site_module.getsitepackages(), site_module.getusersitepackages(), _LAPTIME}
    return tuple(path.rstrip(sep) + sep for folder in folders for path in {folder, realpath(folder)})


@lru_cache(maxsize=4096)
def is_users(file: str) -> bool:
    """Whether a code object's file is one of the user's own."""
    if not file or file.startswith("<") or "site-packages" in file or "dist-packages" in file:
        return False
    return not abspath(file).startswith(_foreign())  # noqa: PTH100, links stay what they are


def users_frame(frame: FrameType | None = None) -> FrameType | None:
    """The innermost of the user's frames, from this one or the caller's outwards; None when there is none."""
    frame = sys._getframe(1) if frame is None else frame
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def library(frame: FrameType | None = None) -> str:
    """The package between torch and the user's code that runs the loop: "transformers"; "" when none does."""
    frame = sys._getframe(1) if frame is None else frame
    skipped = ("laptime", "torch", "contextlib", "functools", "tqdm")
    while frame is not None and not is_users(frame.f_code.co_filename):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in skipped and "packages" in frame.f_code.co_filename:
            return package
        frame = frame.f_back
    return ""


def place(
    kind: str, *objects: Any, index: int = 0, detail: str = "", frame: FrameType | None = None
) -> Site | None:
    """This moment in the user's source, with the name of the first object that has one there.

    None outside the user's source."""
    frame = users_frame(sys._getframe(1) if frame is None else frame)
    if frame is None:
        return None
    line, end_line = _lines(frame.f_code, frame.f_lasti, frame.f_lineno)
    names = (name_of(each, frame) for each in objects)
    return Site(
        kind=kind,
        file=abspath(frame.f_code.co_filename),  # noqa: PTH100
        line=line,
        end_line=end_line,
        function=frame.f_code.co_qualname,
        expression=next((name for name in names if name), ""),
        index=index,
        detail=detail,
    )


@lru_cache(maxsize=4096)
def _lines(code: Any, instruction: int, fallback: int) -> tuple[int, int]:
    """First and last line of the expression that runs."""
    position = next(islice(code.co_positions(), max(instruction, 0) // 2, None), None)
    if position is None or position[0] is None:
        return fallback, fallback
    return position[0], position[1] or position[0]


def name_of(subject: Any, frame: FrameType) -> str:
    """The name of this very object in a frame: `model`, `self.net`; "" when it has none there."""
    named = (name for name, value in _visible(frame) if value is subject and subject is not None)
    return next(named, "")


def _visible(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """Every name of a frame: locals, globals, then their attributes one level down."""
    scopes = [dict(frame.f_locals), {} if frame.f_globals is frame.f_locals else frame.f_globals.copy()]
    visible = [(name, value) for scope in scopes for name, value in scope.items()]
    owners = [(name, value) for name, value in visible if name.isidentifier() and name[:2] != "__"]
    yield from owners
    for name, value in owners:
        if not isinstance(value, (ModuleType, type)):
            yield from ((f"{name}.{attribute}", inner) for attribute, inner in _attributes(value))


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield an object's attributes by name, without calling its properties; a module's modules, too."""
    try:
        attributes = dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError, ValueError):
        return
    modules = attributes.get("_modules")
    for name, inner in (*attributes.items(), *(modules.items() if isinstance(modules, dict) else ())):
        if isinstance(name, str) and name.isidentifier():
            yield name, inner


def kind_of(call: ConstructorCall) -> str:
    """The kind of site that a constructor call makes."""
    if call.kind == "Trainer":
        package = str(getattr(call.cls, "__module__", ""))
        return "lightning_trainer" if "lightning" in package else "hf_trainer"
    return KINDS.get(call.kind, "optimizer")


def of_call(call: ConstructorCall) -> None:
    """Fill in `call.site`, and for an optimizer `call.names`; from inside the constructor."""
    frame = users_frame(sys._getframe(1))
    if frame is None:
        return
    kind = kind_of(call)
    call.site = place(kind, index=call.index, detail=call.kind, frame=frame)
    if kind == "optimizer":
        import torch

        first: dict[int, tuple[str, Any]] = {}
        for name, value in _visible(frame):
            if isinstance(value, torch.nn.Module):
                first.setdefault(id(value), (name, weakref.ref(value)))
        call.names = dict(first.values())


def of_models(calls: list[ConstructorCall], models: list[Any]) -> list[Site]:
    """A site of kind `model` for each trained model: the line of the first optimizer if it has a name.

    A model that was wrapped after the optimizer was made is known by what is inside the wrapper."""
    sites = []
    for index, model in enumerate(models):
        for call in calls:
            names = {id(module): name for name, each in call.names.items() if (module := each()) is not None}
            name = next((names[id(each)] for each in walk_wrapped(model) if id(each) in names), "")
            if name and call.site is not None:
                detail = type(model).__name__
                sites.append(replace(call.site, kind="model", expression=name, index=index, detail=detail))
                break
    return sites


def walk_wrapped(model: Any) -> Iterator[Any]:
    """The model, and what is inside it while it is a wrapper around another."""
    while model is not None:
        yield model
        inner = vars(model).get("_modules") or {}
        model = next((inner[name] for name in WRAPPERS if name in inner), None) if len(inner) == 1 else None


class SiteCounts:
    """Sites by kind and place, each kept once and counted."""

    def __init__(self) -> None:
        self._sites: dict[tuple[Any, ...], Site] = {}
        self._counts: Counter[tuple[Any, ...]] = Counter()

    def note(self, kind: str, *objects: Any, index: int = 0, detail: str = "") -> None:
        """Count this moment; objects are those whose name is wanted, best first."""
        frame = users_frame(sys._getframe(1))
        if frame is None:
            return
        key = (kind, frame.f_code, frame.f_lasti, index, detail)
        self._counts[key] += 1
        if key not in self._sites:
            site = place(kind, *objects, index=index, detail=detail, frame=frame)
            if site is not None:
                self._sites[key] = site

    def restart(self) -> None:
        """Forget everything: the first real step begins."""
        self._sites.clear()
        self._counts.clear()

    def sites(self, steps: float = 1.0) -> list[Site]:
        """The sites that were noted in so many steps, with their count per step."""
        return [replace(site, count=self._counts[key] / max(steps, 1.0)) for key, site in self._sites.items()]
