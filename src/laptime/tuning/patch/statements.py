"""Statements put behind, before and around others, in the indentation and newlines of the file."""

import itertools
import re
import textwrap
from collections.abc import Iterable

import libcst as cst

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch.files import File, Tree
from laptime.tuning.patch.text import NEWLINE, Mark, first_line, flat


def fill(template: str, **values: str) -> str:
    """Names in braces replaced, with `!r` by a string literal; other braces stay. `{}` is `present`."""

    def value(name: re.Match[str]) -> str:
        text = values.get(name.group(1) or "present")
        if text is None:
            return name.group()
        return f'"{text}"' if name.group(2) else text

    return re.sub(r"\{(\w*)(!r)?\}", value, template)


def matches(template: str, source: str) -> bool:
    """Whether a source is what a template gives for some value of its names."""
    parts = re.split(r"\{\w*(?:!r)?\}", template)
    pattern = ".+".join(re.escape("".join(part.split())) for part in parts)
    return re.fullmatch(pattern, "".join(source.split()), re.DOTALL) is not None


def sources(code: str) -> list[str]:
    """The statements of a piece of code, each in one line, to compare them with."""
    tree = Tree(code + "\n", "code")
    return in_lines(tree, tree.module.body)


def in_lines(tree: Tree, block: Iterable[cst.CSTNode]) -> list[str]:
    """The statements of a block, each in one line; those that share a line each by itself."""
    statements: list[cst.CSTNode] = []
    for statement in block:
        statements += list(statement.body) if isinstance(statement, cst.SimpleStatementLine) else [statement]
    return [flat(tree.text[tree.first_line(statement) : tree.end(statement)]) for statement in statements]


def is_present(tree: Tree, block: Iterable[cst.CSTNode], code: str) -> bool:
    """Whether the statements of some code stand in a block already, one behind the other."""
    present, wanted = in_lines(tree, block), sources(code)
    return any(present[at : at + len(wanted)] == wanted for at in range(len(present)))


def after(file: File, node: cst.CSTNode, code: str) -> Mark | None:
    """Code behind the statement of a node; None if it stands there already."""
    tree = file.tree
    small, statement = tree.small(node), tree.statement(node)
    line = None if small is None else tree.parent(small)
    # The statements behind a colon, or of the block.
    block = line.body if isinstance(line, cst.SimpleStatementSuite) else tree.block(statement)
    if is_present(tree, block, code):
        return None
    has_more = isinstance(line, cst.SimpleStatementLine) and line.body[-1] is not small
    if small is not None and (has_more or isinstance(line, cst.SimpleStatementSuite)):
        mark = file.mark(file.line_start(tree.first_line(statement)))
        file.insert(tree.end(small), "; " + one_line(code, file.shown))
        return mark
    indent = file.indentation(tree.first_line(statement))
    return file.insert_lines(file.next_line(tree.end(statement)), textwrap.indent(code, indent))


def on_lines_of_their_own(file: File, node: cst.CSTNode) -> None:
    """Statements that share the line of a node, each on a line."""
    tree = file.tree
    line = tree.statement(node)
    if isinstance(line, cst.SimpleStatementLine):
        indent = file.indentation(tree.start(line))
        for first, second in reversed(list(itertools.pairwise(line.body))):
            file.replace(tree.end(first), tree.start(second), file.newline + indent)


def behind_binding(file: File, call: cst.Call, code: str) -> Mark | None:
    """Code behind what binds the result of a call, on whatever branch; above the `return` of it."""
    tree = file.tree
    statement, anchor = tree.statement(call), find_settled(tree, call)
    if isinstance(tree.small(call), cst.Return) and anchor is statement:
        return before(file, anchor, code)
    return after(file, call if anchor is statement else anchor, code)


def move_out(file: File, expression: cst.BaseExpression, name: str, lead: str, trail: str) -> Mark:
    """A name in place of an expression, which moves above its statement, between `lead` and `trail`."""
    tree = file.tree
    start, end = tree.outer(expression)
    line = file.line_start(tree.start(tree.statement(expression)))
    file.insert(start, name)
    file.move(start + len(name), end + len(name), line)
    file.insert(line, lead)
    file.insert(line + len(lead) + (end - start), trail)
    return file.mark(line)


def before(file: File, statement: cst.CSTNode, code: str) -> Mark | None:
    """Code on lines of its own above a statement; None if it stands in the block already."""
    tree = file.tree
    if is_present(tree, tree.block(statement), code):
        return None
    start = tree.first_line(statement)
    indent = file.indentation(start)
    at = file.line_start(start)
    file.insert(at, textwrap.indent(code, indent).replace("\n", file.newline) + file.newline)
    return file.mark(at)


def one_line(code: str, where: str) -> str:
    """Simple statements in one line. Raises CannotEdit: there is a compound one."""
    body = Tree(code + "\n", "code").module.body
    if not all(isinstance(statement, cst.SimpleStatementLine) for statement in body):
        raise CannotEdit(f"there is no room in {where} for several lines behind one of two statements")
    return "; ".join(line.strip() for line in code.split("\n") if line.strip())


def replace(file: File, node: cst.CSTNode, template: str, **values: str) -> Mark:
    """Other code, filled in, in place of a node's simple statement; gives the mark of its line."""
    tree = file.tree
    small = tree.small(node)
    if small is None:
        part = first_line(tree.source(tree.statement(node)))
        raise CannotEdit(f"a part of `{part}` cannot be replaced by itself")
    mark = file.mark(file.line_start(tree.first_line(tree.statement(node))))
    start, end = tree.start(small), tree.end(small)
    if tree.is_alone(small):
        # What is filled in keeps its lines as they are: there may be strings in them.
        code = textwrap.indent(template, file.indentation(start)).lstrip().replace("\n", file.newline)
    else:
        code = one_line(template.replace("{}", "present"), file.shown).replace("present", "{}")
    file.replace(start, end, fill(code, **values))
    return mark


def wrap(file: File, first: cst.CSTNode, last: cst.CSTNode, header: str) -> Mark:
    """`header` above statements of one block, and these one step further in. Strings stay what they are."""
    tree = file.tree
    start = file.line_start(tree.first_line(first))
    indent, unit = file.indents(tree.first_line(first))
    end = tree.end(last)
    strings = tree.strings()
    starts = [start, *(newline.end() for newline in NEWLINE.finditer(file.text, start, end))]
    for at in reversed(starts):
        is_empty = not file.text[at : file.next_line(at)].strip()
        if not is_empty and not any(low < at <= high for low, high in strings):
            file.insert(at, unit)
    file.insert(start, f"{indent}{header}{file.newline}")
    return file.mark(start)


def bound(tree: Tree, node: cst.CSTNode) -> set[str]:
    """Return the names, attributes and elements that a node's simple statement binds, as they are written."""
    small = tree.small(node)
    targets = [small.target] if isinstance(small, cst.AnnAssign) else list[cst.BaseExpression]()
    targets += [part.target for part in small.targets] if isinstance(small, cst.Assign) else []
    names: set[str] = set()
    while targets:
        target = targets.pop()
        if isinstance(target, cst.Tuple | cst.List):
            targets += [part.value for part in target.elements]
        else:
            names.add(tree.flat(target))
    return names


def find_settled(tree: Tree, node: cst.CSTNode) -> cst.CSTNode:
    """The statement behind which what a node's statement binds is bound however the script has branched.

    `if` and `try` are left where another branch binds the same."""
    names, statement, small = bound(tree, node), tree.statement(node), tree.small(node)
    line = None if small is None else tree.parent(small)
    block = line if isinstance(line, cst.SimpleStatementSuite) else tree.parent(statement)
    while isinstance(block, cst.IndentedBlock | cst.SimpleStatementSuite):
        owner = tree.statement(block)
        is_branch = isinstance(owner, cst.If | cst.Try | cst.TryStar | cst.Match)
        if not is_branch or not _binds_elsewhere(tree, owner, block, names):
            break
        statement, block = owner, tree.parent(owner)
    return statement


def _binds_elsewhere(tree: Tree, owner: cst.CSTNode, block: cst.CSTNode, names: set[str]) -> bool:
    in_block = set(map(id, tree.inside(block)))
    elsewhere = [node for node in tree.inside(owner) if id(node) not in in_block]
    assigns = [node for node in elsewhere if isinstance(node, cst.Assign | cst.AnnAssign)]
    return any(bound(tree, assign) & names for assign in assigns)
