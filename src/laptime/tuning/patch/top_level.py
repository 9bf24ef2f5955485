"""Imports, definitions and statements of the whole process, at the top level of a file."""

import ast
import re
from collections.abc import Iterable

import libcst as cst

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch import statements
from laptime.tuning.patch.calls import name_of_import, spell
from laptime.tuning.patch.files import BOM, File, Tree
from laptime.tuning.patch.text import Mark


def put(file: File, code: str, *, apart: bool = False) -> Mark:
    """Code behind the imports that the file begins with; `apart`: with two empty lines around."""
    at = _behind_imports(file)
    wanted = 2 if apart else int(file.behind(at) == at)
    at = file.behind(at)
    is_first = at == file.tree.begin
    above = "" if is_first else "\n" * max(0, wanted - _empty_lines(file.text[:at].split("\n")[-2::-1]))
    below = "\n" * max(0, wanted - _empty_lines(file.text[at:].split("\n"))) if apart else ""
    mark = file.insert_lines(at, above + code + below)
    return file.mark(mark.offset + len(above) * len(file.newline))


def put_imports(file: File, wanted: Iterable[str], code: str) -> None:
    """Import statements that the file does not begin with yet; and torch, where code uses the name.
    Raises CannotEdit: one of the names is another thing somewhere in the file."""
    for statement in wanted:
        refuse_taken(file, bound_by(statement), imports=True)
        if not bound_by(statement) <= _top_imports(file.tree, max(_head(file.tree), 0)):
            file.insert_lines(_behind_imports(file), statement, behind=False)
    uses_torch = re.search(r"(?<![\w.])torch\b", code)
    if uses_torch:
        refuse_taken(file, {"torch"}, imports=True)
    if uses_torch and "torch" not in _top_imports(file.tree, len(file.text)):
        file.insert_lines(_behind_imports(file), "import torch", behind=False)


def has(file: File, code: str) -> bool:
    """Whether the statements of some code stand at the top level already."""
    return set(statements.sources(code)) <= set(statements.in_lines(file.tree, file.tree.module.body))


def refuse_taken(file: File, names: set[str], *, imports: bool = False) -> None:
    """Raise CannotEdit if a file binds one of these names, in whatever scope. imports: an import of this
    very name binds what is wanted."""
    tree = ast.parse(file.text.removeprefix(BOM))
    # `torch = None` if torch cannot be imported: then nothing runs.
    handlers = [each for attempt in tree.body if isinstance(attempt, ast.Try) for each in attempt.handlers]
    fallbacks = {id(node) for handler in handlers for node in ast.walk(handler)}
    bound = {_bound(node, imports=imports) for node in ast.walk(tree) if id(node) not in fallbacks}
    if taken := names & bound:
        raise CannotEdit(f"{file.shown} has another object named {', '.join(sorted(taken))}")


def _bound(node: ast.AST, *, imports: bool) -> str:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.alias(name=name, asname=own):
            is_same = own in (None, name.rpartition(".")[2])
            return "" if imports and is_same else own or name.partition(".")[0]
    return ""


def words(code: str) -> set[str]:
    """Whatever looks like a name in a piece of code."""
    return set(re.findall(r"[^\W\d]\w*", code))


def bound_by(code: str) -> set[str]:
    """Names that a piece of code binds at its top level: functions, classes, variables, imports."""
    tree = Tree(code + "\n", "code")
    names = _find_imports(tree.nodes)
    for statement in tree.module.body:
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            names.add(statement.name.value)
        elif isinstance(statement, cst.SimpleStatementLine):
            names |= {name for small in statement.body for name in statements.bound(tree, small)}
    return names


def _behind_imports(file: File) -> int:
    """Offset of the line behind the imports that the file begins with, else behind its first comments."""
    end, at = _head(file.tree), file.tree.begin
    while file.text[at : at + 1] == "#":
        at = file.next_line(at)
    return file.next_line(end) if end >= 0 else at


def _head(tree: Tree) -> int:
    """Offset of the end of the imports that the file begins with; -1 without any.

    Imports further down, behind the first function, class or loop, belong to what stands there."""
    last: cst.CSTNode | None = None
    for number, statement in enumerate(tree.module.body):
        if _is_import(statement) or (number == 0 and _is_docstring(statement)):
            last = statement
        elif not isinstance(statement, cst.SimpleStatementLine):
            break
    return -1 if last is None else tree.end(last)


def _top_imports(tree: Tree, before: int) -> set[str]:
    """Names that imports of the top level have bound before an offset, for those who run the file."""
    above = [statement for statement in tree.module.body if tree.start(statement) < before]
    # `if TYPE_CHECKING:` never holds in a script that runs.
    tests = {id(each): spell(each.test).rpartition(".")[2] for each in above if isinstance(each, cst.If)}
    imports = [each for each in above if _is_import(each) and tests.get(id(each)) != "TYPE_CHECKING"]
    return _find_imports(node for statement in imports for node in tree.inside(statement))


def _find_imports(nodes: Iterable[cst.CSTNode]) -> set[str]:
    return {name_of_import(node) for node in nodes if isinstance(node, cst.ImportAlias)}


def _is_import(statement: cst.CSTNode) -> bool:
    """An import, or `try: import ...`, or `if ...: import ...` with nothing but imports in it."""
    if isinstance(statement, cst.SimpleStatementLine):
        return all(isinstance(inner, cst.Import | cst.ImportFrom) for inner in statement.body)
    if isinstance(statement, cst.Try) or (isinstance(statement, cst.If) and statement.orelse is None):
        return all(_is_import(inner) for inner in statement.body.body)
    return False


def _is_docstring(statement: cst.CSTNode) -> bool:
    first = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement
    return isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString | cst.ConcatenatedString)


def _empty_lines(lines: list[str]) -> int:
    """Return how many of these lines are empty before the first that is not."""
    return next((number for number, line in enumerate(lines) if line.strip()), len(lines))
