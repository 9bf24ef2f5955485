"""The user's own code: seen without running it, imported, called, and its errors told with file and line."""

import ast
import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from laptime.kit.errors import LaptimeError, TargetError, UserCodeError
from laptime.kit.text import closest
from laptime.targets import Program, Recipe

_RETURN = "return a model (any callable), or (model, inputs)"


@dataclass(frozen=True)
class Names:
    """Names that a source file binds at its top level."""

    functions: tuple[str, ...]  # those of functions and classes, in order
    others: frozenset[str]  # those of imports and assignments
    complete: bool  # False when `from x import *` or a module `__getattr__` may bind more

    def __contains__(self, name: str) -> bool:
        return name in self.functions or name in self.others


def names_in(path: Path) -> Names:
    """Read the names that a Python file binds from its syntax tree: nothing of it runs.
    Raises UserCodeError: it is not valid Python."""
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise UserCodeError(
            f"{path.name} is not valid Python",
            why=f"{error.__class__.__name__}: {getattr(error, 'msg', error)}"
            + (f" ({path.name}:{line})" if line else ""),
            next=f"python -m py_compile {path.name}",
        ) from error
    functions: list[str] = []
    others: set[str] = set()
    complete = True
    for node in _top_level(tree.body):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                functions.append(node.name)
            case ast.Import() | ast.ImportFrom():
                bound = [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
                complete = complete and "*" not in bound
                others.update(bound)
            case ast.Assign() | ast.AnnAssign() | ast.For() | ast.With():
                nodes = ast.walk(node)
                others.update(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return Names(tuple(functions), frozenset(others), complete and "__getattr__" not in functions)


def _top_level(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """Statements that run on import, those inside if, try, with and loops too."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from _top_level(getattr(node, field, []))
        for handler in getattr(node, "handlers", []):
            yield from _top_level(handler.body)


def check_name(path: Path, dotted: str, *, target: str) -> None:
    """Make sure that a file has what a target names.
    Raises TargetError: it has no such function; the nearest is named. UserCodeError: it is not valid Python.
    """
    names = names_in(path)
    first = dotted.partition(".")[0]
    if first in names or not names.complete:
        return
    near = closest(first, names.functions)
    public = [name for name in names.functions if not name.startswith("_")]
    place = target.rpartition(":")[0]
    raise TargetError(
        f"{place} has no function called {first!r}",
        why=f"it defines {', '.join(public[:8])}{' ...' if len(public) > 8 else ''}"
        if public
        else "it defines no function",
        next=f"did you mean {place}:{near}?" if near else f"add a function to it and {_RETURN}",
    )


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def import_file(path: Path) -> ModuleType:
    """A file imported as a module, its folder first on `sys.path` (as for a script), not as `__main__`.
    Raises UserCodeError: its top level raised."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # A name that is taken (a user's torch.py, two files of one name) must not replace what is loaded.
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_{sha256(path)[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path.name} cannot be imported", why="its name does not end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise user_error(error, f"{path.name} raised while it was imported", folder=path.parent) from error
    return module


def find(module: ModuleType, dotted: str, *, target: str) -> Any:
    """The object that a dotted name means in a module. Raises TargetError: there is none."""
    attribute: Any = module
    for part in dotted.split("."):
        try:
            attribute = getattr(attribute, part)
        except AttributeError as error:
            near = closest(part, [name for name in dir(attribute) if not name.startswith("_")])
            next = f"did you mean {near!r}?" if near else f"add a function to it and {_RETURN}"
            raise TargetError(f"{target} does not exist", why=str(error), next=next) from error
    return attribute


def is_model(value: Any) -> bool:
    """Whether a named object is a model itself, not a function that makes one."""
    return not isinstance(value, type) and callable(value) and hasattr(value, "forward")


def parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a callable by name; {} if it does not give them."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def list_needed(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters that a call must give."""
    return [
        p.name
        for p in parameters(function).values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def takes_batch(function: Any) -> bool:
    """Whether a function can be told the batch size by the keyword `batch`."""
    if is_model(function) or not callable(function):
        return False
    parameter = parameters(function).get("batch")
    return parameter is not None and parameter.kind is not parameter.POSITIONAL_ONLY


def recipe(
    text: str, load: Callable[[], Any], *, kind: str, folder: Path, source: str, sha256: str
) -> Recipe:
    """The recipe of a function that `load` imports, once, when it is needed first."""
    function = cache(load)
    return Recipe(
        target=text,
        kind=kind,
        build=lambda batch: build(function(), batch, target=text, folder=folder),
        per_batch=lambda: takes_batch(function()),
        source=source,
        sha256=sha256,
        folder=folder,
    )


def build(function: Any, batch: int, *, target: str, folder: Path) -> Program:
    """Call the user's function (with `batch` if it takes that) and make a Program of what it returns.
    Raises UserCodeError: it raised. TargetError: it needs arguments, or returned what cannot be measured."""
    if is_model(function):
        return Program(call=function)
    if not callable(function):
        next = f"name a function in which you {_RETURN}"
        raise TargetError(f"{target} is not a function", why=f"it is {_kind(function)}", next=next)
    missing = [name for name in list_needed(function) if name != "batch"]
    if missing:
        raise TargetError(
            f"{target} cannot be called",
            why=f"it needs the argument{'s' if len(missing) > 1 else ''} {', '.join(missing)}",
            next="give them defaults, or add a function without arguments (batch is allowed) that calls it",
        )
    keywords = {"batch": batch} if takes_batch(function) else {}
    try:
        result = function(**keywords)
    except (Exception, SystemExit) as error:
        raise user_error(error, f"{target} raised", folder=folder) from error
    if isinstance(result, tuple) and len(result) == 2 and callable(result[0]):
        call, inputs = result
        return Program(call=call, inputs=inputs, origin="none" if inputs is None else "given")
    if callable(result):
        return Program(call=result)
    what = f"{target} returned {_kind(result)}, which cannot be measured"
    raise TargetError(what, why=f"a target function has to {_RETURN}", next="return model, inputs")


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(type(part).__name__ for part in value) or 'nothing'}"
    return f"an object of type {type(value).__name__}"


def user_error(error: BaseException, what: str, *, folder: Path | None = None) -> UserCodeError:
    """The error for an exception of the user's code, with the line of theirs that raised it."""
    if isinstance(error, UserCodeError):
        return error
    text = str(error).strip().partition("\n")[0] if not isinstance(error, LaptimeError) else error.what
    place = line_of(error, folder)
    return UserCodeError(
        what,
        why=f"{type(error).__name__}{f': {text}' if text else ''}{f' ({place})' if place else ''}",
        next="run it on its own first; --json keeps the whole traceback",
    )


def line_of(error: BaseException, folder: Path | None = None) -> str:
    """`file.py:12 in build`: the innermost line of the user's that an exception passed through.

    Theirs is what lies in `folder`, else what lies neither in laptime nor in an installed package."""
    frames = traceback.extract_tb(error.__traceback__)
    package = str(Path(__file__).resolve().parents[1])

    def is_users(filename: str) -> bool:
        if folder is not None and Path(filename).is_relative_to(folder):
            return "site-packages" not in Path(filename).relative_to(folder).parts
        return not (
            filename.startswith((package, sys.base_prefix, "<")) or "site-packages" in Path(filename).parts
        )

    for frame in reversed(frames):
        if is_users(frame.filename):
            return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"
    return ""
