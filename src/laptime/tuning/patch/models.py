"""Statements for models and optimizers, once they exist."""

import re
import textwrap

import libcst as cst

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch import statements
from laptime.tuning.patch.files import File, Function, Tree
from laptime.tuning.patch.sites import LocatedSites, Place
from laptime.tuning.patch.text import Mark

REBINDS = re.compile(r"\{model\}\s*=[^=]")
REPEATABLE = re.compile(r"\{model\}\.to\(")
"""Statements that may be made again every epoch: the second time they find nothing to do."""
COMPILES = re.compile(r"\{model\}\.compile\(")
ONCE = "if {model}._compiled_call_impl is None:"  # what `Module.compile` sets


def after_model(sources: LocatedSites, statement: str) -> list[tuple[File, Mark | None]]:
    """The statement for every trained model; gives where it was put in."""
    chosen = _choose(sources)
    forwards = _forwards(sources, {place.site.index for place in chosen})
    marks = [(place.file, _before_loop(sources, place, statement)) for place in forwards]
    return [*marks, *((place.file, _behind_optimizer(place, statement)) for place in chosen)]


def _choose(sources: LocatedSites) -> list[Place]:
    """One place a model: where it is called as in the loop, else at the last optimizer."""
    by_model: dict[int, list[Place]] = {}
    for place in sources.places_of("model"):
        if place.site.expression:
            by_model.setdefault(place.site.index, []).append(place)
    called = {(site.function, site.expression) for site in sources.sites if site.kind == "forward"}
    chosen: list[Place] = []
    for _, places in sorted(by_model.items()):
        same = [place for place in places if (place.site.function, place.site.expression) in called]
        chosen.append((same or places)[-1])
    return chosen


def _forwards(sources: LocatedSites, named: set[int]) -> list[Place]:
    """A place where a model is called, for every model that has no name where its optimizer is made."""
    by_model: dict[int, Place] = {}
    for place in sources.places_of("forward"):
        if place.site.index not in named and place.site.expression:
            by_model.setdefault(place.site.index, place)
    if not by_model and not named:
        why = next((why for site, why in sources.left_out.items() if site.kind in ("model", "forward")), "")
        raise CannotEdit(why or "the trained model has no name in your files")
    return list(by_model.values())


def _behind_optimizer(place: Place, statement: str) -> Mark | None:
    tree, call = place.file.tree, place.call()
    name = place.site.expression
    code = statements.fill(statement, model=name, device=f"next({name}.parameters()).device")
    if REBINDS.match(statement):
        _check_rebinding(tree, statements.find_settled(tree, call), name, place)
    return statements.behind_binding(place.file, call, code)


def _check_rebinding(tree: Tree, anchor: cst.CSTNode, name: str, place: Place) -> None:
    """`model = ...` must be seen by who trains it: by what follows in this function."""
    function = tree.function(anchor)
    if function is None or not name.isidentifier():
        return
    _check_local(tree, function, name, place)
    uses = [node for node in tree.inside(function) if isinstance(node, cst.Name) and node.value == name]
    if not any(tree.start(node) > tree.end(anchor) for node in uses):
        raise CannotEdit(f"{name} is not used behind {place.where}: its training would keep the old one")


def _check_local(tree: Tree, function: Function | None, name: str, place: Place) -> None:
    if function is not None and not _is_local(tree, function, name):
        raise CannotEdit(f"{name} is a global name at {place.where}, it cannot be bound anew in a function")


def _is_local(tree: Tree, function: Function, name: str) -> bool:
    for node in tree.inside(function):
        bound: set[str] = set()
        if isinstance(node, cst.Param):
            bound = {node.name.value}
        elif isinstance(node, cst.Global):
            bound = {str(item.name.value) for item in node.names}
        elif isinstance(node, cst.Assign | cst.AnnAssign):
            bound = statements.bound(tree, node)
        elif isinstance(node, cst.WithItem | cst.For):
            target = node.target if isinstance(node, cst.For) else node.asname
            bound = tree.names(target) if target is not None else bound
        if name in bound:
            return True
    return False


def _before_loop(sources: LocatedSites, place: Place, statement: str) -> Mark | None:
    """Before the outermost loop around the model's call: there it has a name."""
    tree, name = place.file.tree, place.site.expression
    loops = tree.loops(place.node())
    if not loops and name.startswith("self."):
        loops = _loops_of_fetch(sources, place)
    if not loops:
        raise CannotEdit(f"{name} has no name when its optimizer is made, and {place.where} is in no loop")
    function = tree.function(loops[-1])
    once = function is None or len(loops) > 1
    code = statement
    if not once and COMPILES.match(statement):
        code = f"{ONCE}\n{textwrap.indent(statement, tree.module.default_indent)}"
    elif not once and not REPEATABLE.match(statement):
        raise CannotEdit(f"{name} has a name only at {place.where}, which may run once an epoch")
    if REBINDS.match(statement) and name.isidentifier():
        _check_local(tree, function, name, place)
    code = statements.fill(code, model=name, device=f"next({name}.parameters()).device")
    return statements.before(place.file, loops[-1], code)


def _loops_of_fetch(sources: LocatedSites, place: Place) -> list[cst.For | cst.While]:
    """The loops around the fetch, if it is in a method of the class whose method calls the model."""
    owner = place.site.function.rpartition(".")[0]
    for fetch in sources.places_of("fetch", file=place.file):
        if owner and fetch.site.function.rpartition(".")[0] == owner:
            node, tree = fetch.node(), fetch.file.tree
            return [*([node] if isinstance(node, cst.For) else []), *tree.loops(node)]
    return []


def after_optimizer(place: Place, statement: str) -> Mark | None:
    """The statement behind the one that makes the optimizer."""
    tree, call = place.file.tree, place.call()
    if "{optimizer}" in statement:
        if isinstance(tree.small(call), cst.Return):
            return _split_return(place, statement)
        name = _name_of(tree, call)
        if not name:
            raise CannotEdit(f"the optimizer has no name at {place.where}")
        statement = statements.fill(statement, optimizer=name)
    return statements.behind_binding(place.file, call, statement)


def _name_of(tree: Tree, call: cst.Call) -> str:
    """Return the name that the result of a call is bound to; "" if it is used at once."""
    small = tree.small(call)
    if isinstance(small, cst.AnnAssign) and small.value is call:
        return tree.source(small.target)
    if not isinstance(small, cst.Assign):
        return ""
    target, value = small.targets[0].target, small.value
    is_branch = isinstance(value, cst.IfExp) and call in (value.body, value.orelse)
    if value is call or is_branch:
        return "" if isinstance(target, cst.Tuple | cst.List) else tree.source(target)
    if isinstance(value, cst.Tuple) and isinstance(target, cst.Tuple):
        pairs = zip(target.elements, value.elements, strict=False)
        return next((tree.source(name.value) for name, each in pairs if each.value is call), "")
    return ""


def _split_return(place: Place, statement: str) -> Mark:
    """`return SGD(...)`: the optimizer gets a name first."""
    file, tree, call = place.file, place.file.tree, place.call()
    if not tree.is_alone(call):
        raise CannotEdit(f"the optimizer is returned in the middle of a line at {place.where}")
    taken = tree.names(tree.function(call) or tree.module)
    name = next(each for each in ("optimizer", "made_optimizer", "_optimizer") if each not in taken)
    indent = file.indentation(tree.start(tree.statement(call)))
    code = textwrap.indent(statements.fill(statement, optimizer=name), indent)
    trail = f"\n{code}\n".replace("\n", file.newline)
    return statements.move_out(file, call, name, f"{indent}{name} = ", trail)
