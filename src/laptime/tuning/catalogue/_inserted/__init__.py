"""Code that a change runs in a trial and, word for word, puts into the user's script.

The files here begin with `import torch` behind their docstring: only `apply` imports them, inside a process
that has torch. `edit` reads them as text."""

import ast
from importlib.resources import files
from typing import Any


def define(script: Any, name: str) -> None:
    """Put the code of a file of this folder into the user's source, with the imports that it makes."""
    code, imports = source(name)
    script.define(code, *imports)


def source(name: str) -> tuple[str, list[str]]:
    """The text of a file of this folder without docstring and imports, and these imports one by one."""
    text = files(__package__).joinpath(f"{name}.py").read_text(encoding="utf-8")
    lines = text.splitlines()
    imports = []
    begin = 0
    for statement in ast.parse(text).body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            imports.append(ast.unparse(statement))
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            break
        begin = statement.end_lineno or begin
    return "\n".join(lines[begin:]).strip() + "\n", imports
