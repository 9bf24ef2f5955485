"""The forward part of a step in the source: from the first call of a trained model to the backward pass."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch.edit import statements
from laptime.tuning.patch.find.call_graph import (
    Scope,
    calls_in,
    is_without_gradients,
    leads,
    reaching,
    scope_of,
)
from laptime.tuning.patch.find.files import File
from laptime.tuning.patch.find.sites import LocatedSites, Place
from laptime.tuning.patch.find.syntax_tree import Tree
from laptime.tuning.patch.text import Mark, flat

NAMES = ("loss", "step_loss", "batch_loss", "total_loss")


@dataclass
class Region:
    """What a header goes around.

    Attributes:
        first, last: statements of one block. call: where both are the one that holds forward and backward.
    """

    first: cst.CSTNode
    last: cst.CSTNode
    call: cst.Call | None = None


def around(sources: LocatedSites, place: Place, header: str) -> list[tuple[File, Mark | None]]:
    """Put the header around the forward part that ends at a backward call; gives where."""
    reasons: list[str] = []
    for file, scope, end in _scopes(sources, place):
        region, why = _region(sources, file, scope, end)
        if region is None:
            reasons.append(why)
            continue
        tree = file.tree
        text = _header(sources, header)
        if _has(tree, region.first, text):
            return []
        if region.call is not None:
            return [(file, _split(file, region.call, text))]
        return [(file, statements.wrap(file, region.first, region.last, text))]
    if "" in reasons:
        return []
    raise CannotEdit(reasons[0] if reasons else f"no call of the model was found before {place.where}")


def _header(sources: LocatedSites, header: str) -> str:
    """The header with the kind of device; where it is not known, the model is asked."""
    if sources.device:
        return statements.fill(header, device=sources.device)
    if "{device" in header and not sources.called_model:
        raise CannotEdit("the device has no name in your files")
    return header.replace("{device!r}", f"next({sources.called_model}.parameters()).device.type")


def _scopes(sources: LocatedSites, place: Place) -> list[tuple[File, Scope, list[cst.Call]]]:
    """Functions in which the backward pass is seen, with the calls that lead to it: its own one first."""
    tree = place.file.tree
    node = place.node()
    call = next((each for each in tree.inside(node) if isinstance(each, cst.Call)), None)
    if call is None:
        raise CannotEdit(f"there is no backward call at {place.where}")
    scope = scope_of(tree, call)
    found: list[tuple[File, Scope, list[cst.Call]]] = [(place.file, scope, [call])]
    names = reaching(sources.files.values(), [place])
    taken = {each.mark.offset for each in sources.places if each.site.kind in ("step", "zero_grad")}
    for other in [each for kind in ("forward", "fetch") for each in sources.places if each.site.kind == kind]:
        outer = scope_of(other.file.tree, other.node())
        if any(outer is each for _, each, _ in found):
            continue
        tree = other.file.tree
        leading = [each for each in calls_in(tree, outer) if leads(tree, each, names, taken)]
        if leading:
            found.append((other.file, outer, leading[:1]))
    return found


def _region(
    sources: LocatedSites, file: File, scope: Scope, ends: list[cst.Call]
) -> tuple[Region | None, str]:
    """The region before a call in a scope; or why there is none, "" where an earlier one has covered it."""
    tree, end = file.tree, ends[0]
    where = f"{file.shown}:{tree.lines(end)[0]}"
    backwards = _backwards(sources, file, scope)
    earlier = [each for each in backwards if tree.end(each) < tree.start(end)]
    forwards = _forwards(sources, file, scope)
    loops = tree.loops(end)
    for loop in [*loops, None]:
        inside = [each for each in forwards if loop is None or loop in tree.loops(each)]
        since = max(
            (tree.end(each) for each in earlier if loop is None or loop in tree.loops(each)), default=-1
        )
        own = [each for each in inside if since < tree.start(each) and tree.start(each) < tree.end(end)]
        if own:
            return _common(tree, own[0], end, where)
        if inside and any(tree.start(each) < since for each in inside):
            return None, ""
    return None, f"no call of the model was found before the backward pass at {where}"


def _backwards(sources: LocatedSites, file: File, scope: Scope) -> list[cst.Call]:
    marks = {
        each.mark.offset for each in sources.places if each.site.kind == "backward" and each.file is file
    }
    return [call for call in calls_in(file.tree, scope) if file.tree.paren(call) in marks]


def _forwards(sources: LocatedSites, file: File, scope: Scope) -> list[cst.Call]:
    """Calls of trained models in a scope, and of functions that call one."""
    tree = file.tree
    places = [each for each in sources.places if each.site.kind == "forward"]
    marks = {each.mark.offset for each in places if each.file is file}
    expressions = {
        flat(each.site.expression)
        for each in places
        if each.file is file and each.site.expression and scope_of(tree, each.node()) is scope
    }
    away = [each for each in places if scope_of(each.file.tree, each.node()) is not scope]
    names = reaching(sources.files.values(), away)
    kinds = ("step", "zero_grad", "backward", "loader", "optimizer")
    taken = {each.mark.offset for each in sources.places if each.site.kind in kinds and each.file is file}
    found = []
    for call in calls_in(tree, scope):
        direct = tree.paren(call) in marks or tree.flat(call.func) in expressions
        if (direct or leads(tree, call, names, taken)) and not is_without_gradients(tree, call):
            found.append(call)
    return sorted(found, key=tree.start)


def _common(tree: Tree, first: cst.Call, end: cst.Call, where: str) -> tuple[Region | None, str]:
    """The statements from one call to the one before another, in the innermost block that holds both."""
    outer = {id(tree.parent(each)): each for each in _chain(tree, end)}
    start = next((each for each in _chain(tree, first) if id(tree.parent(each)) in outer), None)
    if start is None:
        return None, f"the model's call and the backward pass at {where} share no block"
    last = outer[id(tree.parent(start))]
    if start is last:
        line = tree.statement(end)
        if tree.is_alone(end) and isinstance(tree.parent(end), cst.Expr):
            return Region(line, line, end), ""
        return None, f"the model's call and the backward pass share the statement at {where}"
    block = tree.block(start)
    begin = next(at for at, each in enumerate(block) if each is start)
    until = next(at for at, each in enumerate(block) if each is last)
    while until - 1 > begin and re.fullmatch(r"[\w.]+\.zero_grad\(.*\)", tree.bare(block[until - 1])):
        until -= 1
    return Region(block[begin], block[until - 1]), ""


def _chain(tree: Tree, node: cst.CSTNode) -> list[cst.CSTNode]:
    """The statements that a node is in, within its function, inside out."""
    chain: list[cst.CSTNode] = [tree.statement(node)]
    while True:
        block = tree.parent(chain[-1])
        if not isinstance(block, cst.IndentedBlock):
            return chain
        if isinstance(tree.parent(block), cst.FunctionDef | cst.ClassDef):
            return chain
        chain.append(tree.statement(block))


def _has(tree: Tree, node: cst.CSTNode, header: str) -> bool:
    """Whether the very header is around a statement already."""
    for each in (node, *tree.ancestors(node)):
        if isinstance(each, cst.FunctionDef | cst.Lambda):
            return False
        if isinstance(each, cst.With):
            start = tree.start(each)
            if flat(tree.text[start : tree.start(each.body)]).startswith(flat(header)):
                return True
    return False


def _split(file: File, call: cst.Call, header: str) -> Mark:
    """`criterion(model(x), y).backward()`: the loss gets a name under the header and goes backward behind."""
    tree = file.tree
    given: cst.BaseExpression | None = call.func.value if isinstance(call.func, cst.Attribute) else None
    if given is not None and not any(isinstance(each, cst.Call) for each in tree.inside(given)):
        positional = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
        given = positional[0] if positional else None
    if given is None:
        raise CannotEdit(f"the loss has no place of its own in `{tree.source(call)}`")
    taken = tree.names(scope_of(tree, call))
    name = next(each for each in (*NAMES, *(f"loss_{n}" for n in range(2, 1000))) if each not in taken)
    indent, unit = file.indentation(tree.start(tree.statement(call))), tree.module.default_indent
    lead = f"{indent}{header}{file.newline}{indent}{unit}{name} = "
    return statements.move_out(file, given, name, lead, file.newline)
