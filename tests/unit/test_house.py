"""The house rules that a linter does not know: light imports, small files, names that say something."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import laptime

SOURCE = Path(laptime.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
PATHS = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FILES
}
MODULES = sorted(PATHS)
CATALOGUE = SOURCE / "tuning" / "catalogue"
# Code that optimizations also put into users' scripts, word for word: it imports torch as those do.
INTO_SCRIPTS = {
    f"laptime.tuning.catalogue._inserted.{name}"
    for path in CATALOGUE.glob("*.py")
    for name in re.findall(r'_inserted\.define\(script, "(\w+)"\)', path.read_text(encoding="utf-8"))
}
FRAMEWORKS = ("torch", "torchvision", "timm", "tensorflow", "onnxruntime", "openvino", "jax", "ray", "zeus")

# Imports each module in a process of its own, where nothing of ours is loaded but one of the modules that it
# imports itself: it is forked from the process that imported that one, so that a thousand of them take
# seconds and not minutes. Warnings are errors. Tells what is wrong with each, or which frameworks came along;
# null where a module could not be tested so.
ALONE = """
import gc, importlib, json, os, sys, traceback, warnings
gc.disable()  # a collection would copy the pages that a fork shares
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import asyncio, click, jinja2, msgspec, numpy.typing, psutil, rich.progress, rich.table, statistics
    import csv, email.message, gzip, importlib.metadata, importlib.resources, secrets, subprocess, zipfile
children, frameworks = json.load(sys.stdin)

def fault(name):
    if name in sys.modules:  # what it imports imports it in turn
        return None
    try:
        importlib.import_module(name)
    except BaseException:
        return traceback.format_exc()
    return " ".join(word for word in frameworks if word in sys.modules)

def grow(name):
    for child in children.get(name, []):
        if os.fork() == 0:
            print(json.dumps([child, fault(child)]), flush=True)
            grow(child)
            os._exit(0)
        os.wait()

grow("")
"""


def python(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, which sees this source tree first."""
    path = os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    environ = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environ, input=stdin
    )


def loaded_by(statement: str) -> set[str]:
    """Top-level packages in memory after a statement in a fresh interpreter."""
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_laptime_loads_no_framework_and_no_library() -> None:
    found = loaded_by("import laptime")
    assert not found & {*FRAMEWORKS, "numpy", "msgspec", "rich", "click", "jinja2", "psutil"}


def test_the_public_names_are_those_that_are_promised() -> None:
    public: Any = laptime
    for name in public.__all__:
        assert name in dir(laptime)
        assert getattr(laptime, name).__doc__
    with pytest.raises(AttributeError, match="'benchmark'"):
        _ = public.benchmark


def imported_first(name: str) -> set[str]:
    """Our modules that a module loads in any case: packages around it, and what its own lines import."""
    parts = name.split(".")
    found = {".".join(parts[:length]) for length in range(1, len(parts))}
    for names, module in source(PATHS[name]).imports_at_top:
        for each in names:
            whole = f"{module}.{each}" if module else each
            found.add(whole if whole in PATHS else module)
    return (found & PATHS.keys()) - {name}


def loaded_with(name: str, known: dict[str, set[str]]) -> set[str]:
    """All of ours that is loaded with a module, itself too; collected in `known`."""
    if name not in known:
        known[name] = {name}
        known[name] = {name}.union(*(loaded_with(each, known) for each in imported_first(name)))
    return known[name]


def tree(names: set[str]) -> dict[str, list[str]]:
    """These modules by the one of them from whose process each is forked; "" where none will do."""
    known: dict[str, set[str]] = {}
    children: dict[str, list[str]] = {}
    for name in sorted(names):
        before = {each for each in imported_first(name) & names if name not in loaded_with(each, known)}
        nearest = max(before, key=lambda each: (len(loaded_with(each, known)), each), default="")
        children.setdefault(nearest, []).append(name)
    return children


def faults(children: dict[str, list[str]]) -> dict[str, str | None]:
    done = python("-W", "error", "-c", ALONE, stdin=json.dumps([children, FRAMEWORKS]))
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines()))


def test_every_module_imports_alone_without_a_framework_and_without_a_warning() -> None:
    own = [name for name in MODULES if name != "laptime.__main__" and name not in INTO_SCRIPTS]
    found = faults(tree({*own}))  # one tree: in two, a process would find less of what it needs
    found |= faults({"": [name for name, fault in found.items() if fault is None]})
    assert {name: fault for name, fault in found.items() if fault != ""} == {}
    assert found.keys() == {*own}


class Call(NamedTuple):
    """A call by name, and the values of its keywords; None for those that are no constants."""

    name: str
    line: int
    keywords: dict[str, object]


class Import(NamedTuple):
    """The names behind `import`, and the module behind `from`; "" without one."""

    names: list[str]
    module: str


class Source(NamedTuple):
    """What is asked of a file: parsed once for all tests, and small enough to keep for a thousand files."""

    lines: int
    is_documented: bool
    calls: list[Call]
    imports: list[Import]
    imports_at_top: list[Import]


@cache
def source(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    calls, imports, at_top = [], [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            constants: dict[str, object] = {
                each.arg or "**": each.value.value if isinstance(each.value, ast.Constant) else None
                for each in node.keywords
            }
            calls.append(Call(dotted(node.func), node.lineno, constants))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            imports.append(Import([alias.name for alias in node.names], module))
            if node in tree.body:
                at_top.append(imports[-1])
    is_documented = not tree.body or bool(ast.get_docstring(tree))
    return Source(len(text.splitlines()), is_documented, calls, imports, at_top)


def dotted(node: ast.expr) -> str:
    """`a.b.c` of names and their attributes; "" of any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def test_no_file_is_too_long_or_named_after_nothing() -> None:
    nothing = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}
    assert [path for path in FILES if source(path).lines > 400 or path.stem in nothing] == []


def test_every_module_with_code_says_what_it_is() -> None:
    assert [path for path in FILES if not source(path).is_documented] == []


def test_no_shell_no_pickle_and_no_unguarded_loading() -> None:
    for path in FILES:
        # One file reads pickles of plain containers, and refuses every name in them.
        plain = {"pickle"} if path.match("trace/reading/snapshot.py") else set()
        for names, module in source(path).imports:
            assert not ({"pickle", "shelve", "marshal"} - plain) & {*names, module}, path
        for called, _, keywords in source(path).calls:
            assert not keywords.get("shell"), path
            assert called not in ("os.system", "os.popen", "eval", "exec"), path
            assert called != "torch.load" or "weights_only" in keywords, path


def test_nothing_but_apps_and_callbacks_prints() -> None:
    """Callbacks stand in a user's loop: they show what it asked for."""
    for path in FILES:
        if path.relative_to(SOURCE).parts[0] == "apps" or path.name in ("callbacks.py", "__main__.py"):
            continue
        for called, line, _ in source(path).calls:
            assert called != "print", f"{path.relative_to(SOURCE)}:{line} prints"


def test_no_file_imports_the_public_api() -> None:
    """It imports the rooms: asking it for a name would be a circle that import-linter does not see."""
    for path in FILES:
        if path.parent == SOURCE:
            continue
        for names, module in source(path).imports:
            assert module or "laptime" not in names, path
            if module == "laptime":
                assert {f"laptime.{name}" for name in names} <= {*MODULES}, path
