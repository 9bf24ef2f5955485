"""The house rules that a linter does not know: light imports, small files, names that say something."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import laptime

SOURCE = Path(laptime.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = sorted(
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in FILES
)
CATALOGUE = SOURCE / "tuning" / "catalogue"
# Code that optimizations also put into users' scripts, word for word: it imports torch as those do.
INTO_SCRIPTS = {
    f"laptime.tuning.catalogue._inserted.{name}"
    for path in CATALOGUE.glob("*.py")
    for name in re.findall(r'_inserted\.define\(script, "(\w+)"\)', path.read_text(encoding="utf-8"))
}
FRAMEWORKS = ("torch", "torchvision", "timm", "tensorflow", "onnxruntime", "openvino", "jax", "ray", "zeus")

# Imports each module in a process of its own: a fork of one that has loaded the libraries but nothing of
# ours, so that it takes seconds and not minutes. Warnings are errors. Tells what failed, and which
# frameworks came along.
ALONE = """
import importlib, os, sys, traceback, warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import asyncio, click, jinja2, msgspec, numpy, psutil, rich.progress, rich.table, statistics, subprocess
failed = False
for name in sys.argv[2:]:
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            importlib.import_module(name)
            loaded = [word for word in sys.argv[1].split(",") if word in sys.modules]
            if loaded:
                print(name, "imports", *loaded)
        except BaseException:
            print(name, traceback.format_exc())
            loaded = ["?"]
        sys.stdout.flush()
        os._exit(bool(loaded))
    failed |= os.waitpid(pid, 0)[1] != 0
sys.exit(failed)
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, which sees this source tree first."""
    path = os.pathsep.join([str(SOURCE.parent), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
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
    for name in laptime.__all__:
        assert name in dir(laptime)
        assert getattr(laptime, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'benchmark'"):
        _ = laptime.benchmark


def test_every_module_imports_alone_without_a_framework_and_without_a_warning() -> None:
    own = [name for name in MODULES if name != "laptime.__main__" and name not in INTO_SCRIPTS]
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    with ThreadPoolExecutor(workers) as pool:  # nearly a thousand forks: each CPU takes its share
        shares = [own[at::workers] for at in range(workers)]
        run = partial(python, "-W", "error", "-c", ALONE, ",".join(FRAMEWORKS))
        for done in pool.map(lambda names: run(*names), shares):
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_no_file_is_too_long_or_named_after_nothing(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    assert path.stem not in {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_every_module_with_code_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not tree.body or ast.get_docstring(tree), f"{path.name} has no docstring"


def test_no_shell_no_pickle_and_no_unguarded_loading() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                # One file reads pickles of plain containers, and refuses every name in them.
                plain = {"pickle"} if path.name == "plain_pickle.py" else set()
                assert not ({"pickle", "shelve", "marshal"} - plain) & set(found), path
            if isinstance(node, ast.Call):
                named = {word.arg: word.value for word in node.keywords}
                shell = named.get("shell")
                assert not (isinstance(shell, ast.Constant) and shell.value), path
                called = ast.unparse(node.func)
                assert called not in ("os.system", "os.popen", "eval", "exec"), path
                assert called != "torch.load" or "weights_only" in named, path


def test_nothing_but_apps_and_callbacks_prints() -> None:
    """Callbacks stand in a user's loop: they show what it asked for."""
    for path in FILES:
        if path.relative_to(SOURCE).parts[0] in ("apps", "callbacks") or path.name == "__main__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
                raise AssertionError(f"{path.relative_to(SOURCE)}:{node.lineno} prints")


def test_no_file_imports_the_public_api() -> None:
    """It imports the rooms: asking it for a name would be a circle that import-linter does not see."""
    for path in FILES:
        if path.parent == SOURCE:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert "laptime" not in [alias.name for alias in node.names], path
            if isinstance(node, ast.ImportFrom) and node.module == "laptime":
                assert {f"laptime.{alias.name}" for alias in node.names} <= {*MODULES}, path
