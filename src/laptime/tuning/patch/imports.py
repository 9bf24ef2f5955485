"""What names stand for in a file, and where statements of the whole process belong."""

from __future__ import annotations

import re

import libcst as cst

from laptime.tuning.patch.tree import Tree


def dotted(node: cst.BaseExpression | None) -> str:
    """`a.b.c` of names and attributes; "" for anything else."""
    if isinstance(node, cst.Name):
        return str(node.value)
    if isinstance(node, cst.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr.value}" if owner else ""
    return ""


def aliases(tree: Tree) -> dict[str, str]:
    """Full names by the file's own: of imports anywhere in it, and of `Loader = data.DataLoader`."""
    found: dict[str, str] = {}
    for node in tree.nodes:
        if isinstance(node, cst.Import):
            for each in node.names:
                full = dotted(each.name)
                if each.asname is not None:
                    found[dotted(each.asname.name)] = full
                else:
                    found.setdefault(full.partition(".")[0], full.partition(".")[0])
        elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            package = "." * len(node.relative) + dotted(node.module)
            for each in node.names:
                name = dotted(each.asname.name) if each.asname is not None else dotted(each.name)
                found[name] = f"{package}.{dotted(each.name)}"
    for node in tree.nodes:
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            name, full = dotted(node.targets[0].target), resolved(dotted(node.value), found)
            if name and full and "." not in name and full != name:
                found.setdefault(name, full)
    return found


def resolved(name: str, known: dict[str, str]) -> str:
    """The full name: `D.DataLoader` is `torch.utils.data.DataLoader`."""
    first, dot, rest = name.partition(".")
    return known.get(first, first) + dot + rest


def bases(tree: Tree) -> dict[str, list[str]]:
    """Last names of the classes that the file's classes derive from, by name."""
    known = aliases(tree)
    return {
        node.name.value: [resolved(dotted(each.value), known).rpartition(".")[2] for each in node.bases]
        for node in tree.nodes
        if isinstance(node, cst.ClassDef)
    }


def head(tree: Tree) -> int:
    """Offset of the line behind the imports that the file begins with.

    Imports further down, behind the first function, class or loop, belong to what stands there.
    """
    last: cst.CSTNode | None = None
    for number, statement in enumerate(tree.module.body):
        if _is_import(statement) or (number == 0 and _is_docstring(statement)):
            last = statement
        elif not isinstance(statement, cst.SimpleStatementLine):
            break
    if last is not None:
        return tree.end(last)
    return -1


def top_names(tree: Tree, before: int) -> set[str]:
    """Names that the top level has bound by imports before an offset."""
    found: set[str] = set()
    for statement in tree.module.body:
        if tree.start(statement) >= before or not _is_import(statement):
            continue
        for node in tree.inside(statement):
            if isinstance(node, cst.ImportAlias):
                name = dotted(node.asname.name) if node.asname is not None else dotted(node.name)
                found.add(name if node.asname is not None else name.partition(".")[0])
    return found


def names_of_import(statement: str) -> set[str]:
    """Names that an import statement binds."""
    found = set()
    for node in Tree(statement + "\n", "an import").nodes:
        if isinstance(node, cst.ImportAlias):
            name = dotted(node.asname.name) if node.asname is not None else dotted(node.name)
            found.add(name if node.asname is not None else name.partition(".")[0])
    return found


def words(code: str) -> set[str]:
    """Whatever looks like a name in a piece of code."""
    return set(re.findall(r"[^\W\d]\w*", code))


def defined(code: str) -> set[str]:
    """Names that a piece of code binds at its top level."""
    tree = Tree(code + "\n", "code")
    found = set()
    for statement in tree.module.body:
        if isinstance(statement, cst.FunctionDef | cst.ClassDef):
            found.add(statement.name.value)
        elif isinstance(statement, cst.SimpleStatementLine):
            for each in statement.body:
                targets = [target.target for target in each.targets] if isinstance(each, cst.Assign) else []
                targets += [each.target] if isinstance(each, cst.AnnAssign) else []
                found |= {target.value for target in targets if isinstance(target, cst.Name)}
    return found


def _is_import(statement: cst.CSTNode) -> bool:
    """An import, or `try: import ...`, or `if ...: import ...` with nothing but imports in it."""
    if isinstance(statement, cst.SimpleStatementLine):
        return all(isinstance(each, cst.Import | cst.ImportFrom) for each in statement.body)
    if isinstance(statement, cst.Try):
        return all(_is_import(each) for each in statement.body.body)
    if isinstance(statement, cst.If) and statement.orelse is None:
        return all(_is_import(each) for each in statement.body.body)
    return False


def _is_docstring(statement: cst.CSTNode) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(statement.body[0], cst.Expr):
        return False
    return isinstance(statement.body[0].value, cst.SimpleString | cst.ConcatenatedString)
