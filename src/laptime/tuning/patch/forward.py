"""The forward part of a step in the source: from the first call of a trained model to the backward pass."""

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

import libcst as cst

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch import statements
from laptime.tuning.patch.calls import last_name
from laptime.tuning.patch.files import File, Tree
from laptime.tuning.patch.sites import LocatedSites, Place
from laptime.tuning.patch.text import Mark, flat

Scope = cst.FunctionDef | cst.Lambda | cst.Module
PRECISION = re.compile(r"autocast|amp|ctx|context|precision", re.IGNORECASE)
"""What scripts call a context that decides the precision."""
NAMES = ("loss", "step_loss", "batch_loss", "total_loss")


class Region(NamedTuple):
    """The code that a header goes around: `first` to `last` of one block. call: both are the statement that
    holds forward and backward."""

    first: cst.CSTNode
    last: cst.CSTNode
    call: cst.Call | None = None


def around(sources: LocatedSites, place: Place, header: str) -> list[tuple[File, Mark | None]]:
    """Put the header around the forward part that ends at a backward call; gives where."""
    statements.on_lines_of_their_own(place.file, place.node())
    reasons: list[str] = []
    is_covered = False
    for file, scope, call in _scopes(sources, place):
        try:
            region = _region(sources, file, scope, call)
        except CannotEdit as reason:
            reasons.append(str(reason))
            continue
        if region is None:
            is_covered = True
            continue
        text = _header(sources, header, device_named(file.tree, scope, before=region.first))
        region = _inside_contexts(sources, file, scope, region)
        tree = file.tree
        headers = [tree.text[tree.start(each) : tree.start(each.body)] for each in _withs(tree, region.first)]
        if any(flat(header).startswith(flat(text)) for header in headers):
            return []
        if region.call is not None:
            return [(file, _split(file, region.call, text))]
        return [(file, statements.wrap(file, region.first, region.last, text))]
    if is_covered:
        return []
    raise CannotEdit(reasons[0])


def _inside_contexts(sources: LocatedSites, file: File, scope: Scope, region: Region) -> Region:
    """The body of the script's own autocast in a region, which would have the last word; else the region."""
    tree = file.tree
    start, end = tree.start(region.first), tree.end(region.last)
    for outer in (outer for call in _forwards(sources, file, scope) for outer in tree.ancestors(call)):
        if isinstance(outer, cst.With) and isinstance(outer.body, cst.IndentedBlock):
            is_inside = start <= tree.start(outer) and tree.end(outer) <= end
            if is_inside and any(PRECISION.search(tree.flat(item.item)) for item in outer.items):
                return Region(outer.body.body[0], outer.body.body[-1])
    return region


def _header(sources: LocatedSites, header: str, named: str) -> str:
    """The header with the kind of device: by the script's own name for it, so that the patch is right on
    another machine, too; else the one that was seen; if none was, the model is asked."""
    if named:
        return header.replace("{device!r}", f"torch.device({named}).type")
    if sources.device:
        return statements.fill(header, device=sources.device)
    if "{device" in header and not sources.called_model:
        raise CannotEdit("the device has no name in your files")
    return header.replace("{device!r}", f"next({sources.called_model}.parameters()).device.type")


def device_named(tree: Tree, scope: Scope, *, before: cst.CSTNode) -> str:
    """Return a function's name for the device that it copies to: `device`, `args.device`; "" without one."""
    calls = (call for call in _calls_in(tree, scope) if tree.start(call) < tree.end(before))
    args = (arg for call in calls if last_name(call) == "to" for arg in call.args)
    values = (arg.value for arg in args if arg.keyword is None or arg.keyword.value == "device")
    names = (tree.flat(value) for value in values if isinstance(value, cst.Name | cst.Attribute))
    return next((name for name in names if "device" in name.rpartition(".")[2]), "")


def _scopes(sources: LocatedSites, place: Place) -> list[tuple[File, Scope, cst.Call]]:
    """Functions in which the backward pass is seen, with the call that _leads to it: its own one first."""
    tree = place.file.tree
    call = next((inner for inner in tree.inside(place.node()) if isinstance(inner, cst.Call)), None)
    if call is None:
        raise CannotEdit(f"there is no backward call at {place.where}")
    scopes: list[tuple[File, Scope, cst.Call]] = [(place.file, scope_of(tree, call), call)]
    names = _reaching(sources.files.values(), [place])
    others = {step.mark.offset for step in sources.places_of("step", "zero_grad")}
    for outer in [*sources.places_of("forward"), *sources.places_of("fetch")]:
        tree = outer.file.tree
        scope = scope_of(tree, outer.node())
        leading = [call for call in _calls_in(tree, scope) if _leads(tree, call, names, others)]
        if leading and not any(scope is known for _, known, _ in scopes):
            scopes.append((outer.file, scope, leading[0]))
    return scopes


def _region(sources: LocatedSites, file: File, scope: Scope, end: cst.Call) -> Region | None:
    """The region before a call in a scope; None if the one of an earlier backward pass has covered it.
    Raises CannotEdit: there is none, with the reason."""
    tree = file.tree
    where = f"{file.shown}:{tree.lines(end)[0]}"
    backwards = {place.mark.offset for place in sources.places_of("backward", file=file)}
    calls = [call for call in _calls_in(tree, scope) if tree.paren(call) in backwards]
    earlier = [call for call in calls if tree.end(call) < tree.start(end)]
    forwards = _forwards(sources, file, scope)
    for loop in [*tree.loops(end), None]:
        inside = [call for call in forwards if loop is None or loop in tree.loops(call)]
        ends = [tree.end(call) for call in earlier if loop is None or loop in tree.loops(call)]
        since = max(ends, default=-1)
        first = next((call for call in inside if since < tree.start(call) < tree.end(end)), None)
        if first is not None:
            return _common(tree, first, end, where)
        if any(tree.start(call) < since for call in inside):
            return None
    raise CannotEdit(f"no call of the model was found before the backward pass at {where}")


def _forwards(sources: LocatedSites, file: File, scope: Scope) -> list[cst.Call]:
    """Calls of trained models in a scope, and of functions that call one."""
    tree = file.tree
    places = sources.places_of("forward")
    here = [place for place in places if place.file is file]
    marks = {place.mark.offset for place in here}
    in_scope = [place for place in here if scope_of(tree, place.node()) is scope]
    expressions = {flat(place.site.expression) for place in in_scope if place.site.expression.strip()}
    away = [place for place in places if scope_of(place.file.tree, place.node()) is not scope]
    names = _reaching(sources.files.values(), away)
    kinds = ("step", "zero_grad", "backward", "loader", "optimizer")
    others = {place.mark.offset for place in sources.places_of(*kinds, file=file)}

    def runs_forward(call: cst.Call) -> bool:
        direct = tree.paren(call) in marks or tree.flat(call.func) in expressions
        headers = [tree.flat(item.item) for outer in _withs(tree, call) for item in outer.items]
        is_frozen = any("no_grad" in header or "inference_mode" in header for header in headers)
        return (direct or _leads(tree, call, names, others)) and not is_frozen

    return sorted(filter(runs_forward, _calls_in(tree, scope)), key=tree.start)


def _common(tree: Tree, first: cst.Call, end: cst.Call, where: str) -> Region:
    """The statements from one call to the one before another, in the innermost block that holds both."""
    outer = {id(tree.parent(statement)): statement for statement in _chain(tree, end)}
    start = next((each for each in _chain(tree, first) if id(tree.parent(each)) in outer), None)
    if start is None:
        raise CannotEdit(f"the model's call and the backward pass at {where} share no block")
    last = outer[id(tree.parent(start))]
    if start is last:
        if tree.is_alone(end) and isinstance(tree.parent(end), cst.Expr):
            return Region(tree.statement(end), tree.statement(end), end)
        raise CannotEdit(f"the model's call and the backward pass share the statement at {where}")
    block = tree.block(start)
    begin, until = (next(index for index, one in enumerate(block) if one is each) for each in (start, last))
    while until - 1 > begin and re.fullmatch(r"[\w.]+\.zero_grad\(.*\)", tree.bare(block[until - 1])):
        until -= 1
    return Region(block[begin], block[until - 1])


def _chain(tree: Tree, node: cst.CSTNode) -> list[cst.CSTNode]:
    """The statements that a node is in, within its function, inside out."""
    chain: list[cst.CSTNode] = [tree.statement(node)]
    while isinstance(block := tree.parent(chain[-1]), cst.IndentedBlock):
        if isinstance(tree.parent(block), cst.FunctionDef | cst.ClassDef):
            break
        chain.append(tree.statement(block))
    return chain


def _withs(tree: Tree, node: cst.CSTNode) -> Iterator[cst.With]:
    """The `with` statements around a node within its function, itself among them."""
    function = (cst.FunctionDef, cst.Lambda)
    within = takewhile(lambda outer: not isinstance(outer, function), (node, *tree.ancestors(node)))
    return (outer for outer in within if isinstance(outer, cst.With))


def _split(file: File, call: cst.Call, header: str) -> Mark:
    """`criterion(model(x), y).backward()`: the loss gets a name under the header and goes backward behind."""
    tree = file.tree
    loss: cst.BaseExpression | None = call.func.value if isinstance(call.func, cst.Attribute) else None
    if loss is not None and not any(isinstance(each, cst.Call) for each in tree.inside(loss)):
        positional = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
        loss = positional[0] if positional else None
    if loss is None:
        raise CannotEdit(f"the loss has no place of its own in `{tree.source(call)}`")
    taken = tree.names(scope_of(tree, call))
    name = next(each for each in (*NAMES, *(f"loss_{n}" for n in range(2, 1000))) if each not in taken)
    indent, unit = file.indents(tree.start(tree.statement(call)))
    lead = f"{indent}{header}{file.newline}{indent}{unit}{name} = "
    return statements.move_out(file, loss, name, lead, file.newline)


# Which calls lead to a model's forward or to a backward pass, as far as names tell.


def scope_of(tree: Tree, node: cst.CSTNode) -> Scope:
    """The function around a node, or the module."""
    return tree.function(node) or tree.module


def _calls_in(tree: Tree, scope: Scope) -> list[cst.Call]:
    """Calls of a scope itself, not of the functions in it, in the order of the source."""
    return [call for call in tree.calls if scope_of(tree, call) is scope]


def _reaching(files: Iterable[File], places: Iterable[Place]) -> set[str]:
    """Names of the functions in which the places are, and of all that call one of these."""
    names = {_plain(place.site.function) for place in places} - {""}
    called_by: dict[str, set[str]] = {}
    for tree in (file.tree for file in files if not file.why):
        for node in (node for node in tree.nodes if isinstance(node, cst.FunctionDef)):
            called = {last_name(call) for call in tree.calls if tree.function(call) is node}
            called_by.setdefault(node.name.value, set()).update(called)
    while more := {name for name, called in called_by.items() if called & names} - names:
        names |= more
    return names


def _leads(tree: Tree, call: cst.Call, names: set[str], others: set[int]) -> bool:
    """Whether a call is of a function of these names. `others` are places of other calls."""
    name = last_name(call)
    if name not in names or tree.paren(call) in others:
        return False
    if isinstance(call.func, cst.Attribute) and name in ("step", "backward", "zero_grad"):
        return isinstance(call.func.value, cst.Name) and call.func.value.value == "self"
    return True


def _plain(function: str) -> str:
    """`step` of `Trainer.step` and of `main.<locals>.step`; "" at the top level."""
    name = function.rpartition(".")[2]
    return "" if name.startswith("<") else name
