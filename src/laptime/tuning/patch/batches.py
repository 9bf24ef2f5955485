"""The use of batches in a training loop."""

import re
import textwrap
from itertools import chain, repeat

import libcst as cst

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch import arguments, statements
from laptime.tuning.patch.calls import last_name, spell
from laptime.tuning.patch.files import File, Tree
from laptime.tuning.patch.sites import LocatedSites, Place
from laptime.tuning.patch.text import Mark, flat

SAME_BATCH = frozenset({
    *("float", "double", "half", "bfloat16", "long", "int", "contiguous", "squeeze", "unsqueeze", "view"),
    *("reshape", "to", "cuda", "items", "values"),
})  # fmt: skip
"""Methods whose result is the batch still, or a part of it."""
NO_DEVICE = re.compile(
    r"^(torch\.(float|double|half|bfloat|int|long|uint|bool|short|complex)\w*|['\"]cpu['\"]|dtype)"
)
DEEP = 3  # calls that are followed from the loop to where a batch is copied


def first(sources: LocatedSites, place: Place, statement: str) -> Mark | None:
    """A statement at the start of a training loop's body, or behind `batch = next(iterator)`."""
    file, tree, node = place.file, place.file.tree, place.node()
    if isinstance(node, cst.For):
        batch = _element(tree, node.target, node.iter, place)
        if not isinstance(node.body, cst.IndentedBlock):
            raise CannotEdit(f"the loop at {place.where} has its body in the same line")
        code = _fill(sources, place, statement, batch)
        if statements.is_present(tree, node.body.body, code):
            return None
        indent = file.indentation(tree.first_line(node.body.body[0]))
        at = file.next_line(tree.outer(node.iter)[1])
        return file.insert_lines(at, textwrap.indent(code, indent))
    small = tree.small(node)
    if not isinstance(small, cst.Assign) or small.value is not node:
        raise CannotEdit(f"the batch has no name at {place.where}")
    code = _fill(sources, place, statement, _target(tree, small.targets[0].target))
    return statements.behind_binding(file, place.call(), code)


def _fill(sources: LocatedSites, place: Place, statement: str, batch: str) -> str:
    if "{device}" in statement:
        if not sources.called_model:
            raise CannotEdit(f"the device has no name at {place.where}")
        statement = statements.fill(statement, device=f"next({sources.called_model}.parameters()).device")
    bare = batch[1:-1] if batch.startswith("(") and not batch.endswith(",)") else batch
    statement = re.sub(r"^\{batch\} =", lambda _: f"{bare} =", statement)
    return statements.fill(statement, batch=batch, loader=place.site.expression)


def _target(tree: Tree, target: cst.BaseExpression) -> str:
    source = tree.source(target)
    return f"({source})" if isinstance(target, cst.Tuple) and not target.lpar else source


def _element(tree: Tree, target: cst.BaseExpression, iterated: cst.BaseExpression, place: Place) -> str:
    """The part of a loop's target that is the batch: `(x, y)` of `for i, (x, y) in enumerate(loader)`."""
    if not isinstance(iterated, cst.Call):
        return _target(tree, target)
    name = last_name(iterated)
    iterables = [arg.value for arg in iterated.args if arg.keyword is None and not arg.star]
    if name == "zip":
        loader = place.site.expression
        wanted = [index for index, iterable in enumerate(iterables) if _mentions(tree, iterable, loader)]
        if len(wanted) != 1 or not isinstance(target, cst.Tuple) or len(target.elements) != len(iterables):
            raise CannotEdit(f"which part of the loop at {place.where} is the batch is not clear")
        return _element(tree, target.elements[wanted[0]].value, iterables[wanted[0]], place)
    if name == "enumerate" and iterables:
        if not isinstance(target, cst.Tuple) or len(target.elements) != 2:
            raise CannotEdit(f"the batch has no name in the loop at {place.where}")
        return _element(tree, target.elements[1].value, iterables[0], place)
    inner = [iterable for iterable in iterables if isinstance(iterable, cst.Call)]
    if inner and last_name(inner[0]) in ("enumerate", "zip"):
        return _element(tree, target, inner[0], place)
    return _target(tree, target)


def _mentions(tree: Tree, node: cst.BaseExpression, expression: str) -> bool:
    return bool(expression) and any(
        tree.flat(inner) == flat(expression)
        for inner in tree.inside(node)
        if isinstance(inner, cst.Name | cst.Attribute)
    )


def non_blocking(places: list[Place]) -> list[tuple[File, Mark]]:
    """`non_blocking=True` for copies of batch tensors, in the loops and in functions that they call."""
    wanted: dict[tuple[int, int], File] = {}
    for place in places:
        node, tree = place.node(), place.file.tree
        if isinstance(node, cst.For):
            names, body = tree.names(node.target), node.body
        else:
            names = set(filter(str.isidentifier, statements.bound(tree, node)))
            loops = tree.loops(node)
            body = loops[0] if loops else tree.function(node) or tree.module  # type: ignore[assignment]
        for paren in _copies(tree, body, names, DEEP):
            wanted[id(place.file), paren] = place.file
    if not wanted:
        raise CannotEdit("no copy of a batch to the device was found in the training loop")
    edits = []
    for (_, paren), file in sorted(wanted.items(), key=lambda item: -item[0][1]):
        tree = file.tree
        call = next(other for other in tree.calls if tree.paren(other) == paren)
        if arguments.find(tree, call, "non_blocking", (), "") is None:
            mark = file.mark(file.line_start(tree.first_line(tree.statement(call))))
            arguments.add(file, tree, call, {"non_blocking": "True"})
            edits.append((file, mark))
    return edits


def _copies(tree: Tree, body: cst.CSTNode, names: set[str], deep: int) -> set[int]:
    """Parentheses of the copies of what these names hold; names that are bound from them are followed."""
    names = set(names)
    nodes = list(tree.inside(body))
    for _ in range(3):
        for node in nodes:
            if isinstance(node, cst.Assign) and _is_batch(node.value, names):
                names |= set(filter(str.isidentifier, statements.bound(tree, node)))
            elif isinstance(node, cst.CompFor | cst.For) and _is_batch(node.iter, names):
                names |= tree.names(node.target)
    parens = set()
    for node in nodes:
        if not isinstance(node, cst.Call):
            continue
        is_method = isinstance(node.func, cst.Attribute) and _is_batch(node.func.value, names)
        if is_method and _copies_to_device(tree, node):
            parens.add(tree.paren(node))
        elif deep > 0 and any(_is_batch(arg.value, names) for arg in node.args):
            parens |= _follow(tree, node, names, deep)
    return parens


def _follow(tree: Tree, call: cst.Call, names: set[str], deep: int) -> set[int]:
    """Copies in a function of the same file that is given a batch."""
    for node in tree.nodes:
        if isinstance(node, cst.FunctionDef) and node.name.value == last_name(call):
            parameters = [param.name.value for param in node.params.params if param.name.value != "self"]
            given = zip(call.args, chain(parameters, repeat("")), strict=False)
            named = [(each.keyword.value if each.keyword else name, each.value) for each, name in given]
            batches = {name for name, value in named if name and _is_batch(value, names)}
            return _copies(tree, node.body, batches, deep - 1)
    return set()


def _is_batch(node: cst.CSTNode, names: set[str]) -> bool:
    """Whether an expression is a part of what these names hold: no result of a model is."""
    if isinstance(node, cst.Name):
        return node.value in names
    if isinstance(node, cst.Attribute | cst.Subscript):
        return _is_batch(node.value, names)
    parts: list[cst.BaseExpression] = []
    if isinstance(node, cst.Tuple | cst.List):
        parts = [element.value for element in node.elements]
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        parts = [node.func.value] if node.func.attr.value in SAME_BATCH else []
    elif isinstance(node, cst.Call) and spell(node.func) in ("list", "tuple", "enumerate", "zip", "iter"):
        parts = [arg.value for arg in node.args]
    return any(_is_batch(part, names) for part in parts)


def _copies_to_device(tree: Tree, call: cst.Call) -> bool:
    name = last_name(call)
    if name != "to" or not call.args:
        return name == "cuda"
    arg = arguments.find(tree, call, "device", (), "") or call.args[0]
    is_device = arg.keyword is None or arg.keyword.value == "device"
    return is_device and not arg.star and NO_DEVICE.match(tree.source(arg.value)) is None
