"""The call that a site means, and what names stand for in a file.

Constructors may stand behind a functools.partial: `make = partial(AdamW, lr=1e-3)`, then `make(params)`."""

import re

import libcst as cst

from laptime.tuning.loop_profile import Site
from laptime.tuning.patch.files import Tree
from laptime.tuning.patch.statements import bound
from laptime.tuning.patch.text import flat

CLASSES = {
    "loader": "DataLoader",
    "parallel": "DistributedDataParallel",
    "hf_arguments": "TrainingArguments",
    "lightning_trainer": "Trainer",
    "hf_trainer": "Trainer",
}
"""The class that is called at a site of a kind, if the site does not say so itself."""
METHODS = ("backward", "step", "zero_grad")  # kinds of sites that are calls of a method of this name
OPTIMIZER = re.compile(
    r"(?i)(adam|sgd|optim|lamb|lion|rmsprop|adagrad|adadelta|adafactor|muon|shampoo|lbfgs)"
)


def spell(node: cst.BaseExpression | None) -> str:
    """`a.b.c` of names and attributes; "" for anything else."""
    if isinstance(node, cst.Name):
        return str(node.value)
    if isinstance(node, cst.Attribute):
        owner = spell(node.value)
        return f"{owner}.{node.attr.value}" if owner else ""
    return ""


def last_name(call: cst.Call) -> str:
    """`step` of `optimizer.step()`; "" for the call of something without a name."""
    return str(call.func.attr.value) if isinstance(call.func, cst.Attribute) else spell(call.func)


def name_of_import(alias: cst.ImportAlias) -> str:
    """Return the name that an import binds: `b` of `import a as b`, `a` of `import a.b`."""
    return spell(alias.name).partition(".")[0] if alias.asname is None else spell(alias.asname.name)


def aliases(tree: Tree) -> dict[str, str]:
    """Full names by the file's own: of imports anywhere in it, and of `Loader = data.DataLoader`."""
    full_names: dict[str, str] = {}
    for node in tree.nodes:
        if isinstance(node, cst.Import):
            for alias in node.names:
                name = name_of_import(alias)
                full_names[name] = spell(alias.name) if alias.asname else full_names.get(name, name)
        elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            package = "." * len(node.relative) + spell(node.module)
            for alias in node.names:
                full_names[name_of_import(alias)] = f"{package}.{spell(alias.name)}"
    for node in tree.nodes:
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            name, full = spell(node.targets[0].target), resolve(spell(node.value), full_names)
            if name and full and "." not in name and full != name:
                full_names.setdefault(name, full)
    return full_names


def resolve(name: str, full_names: dict[str, str]) -> str:
    """The full name: `D.DataLoader` is `torch.utils.data.DataLoader`."""
    first, dot, rest = name.partition(".")
    return full_names.get(first, first) + dot + rest


def bases(tree: Tree) -> dict[str, list[str]]:
    """Last names of the classes that the file's classes derive from, by name."""
    full_names = aliases(tree)
    return {
        node.name.value: [resolve(spell(base.value), full_names).rpartition(".")[2] for base in node.bases]
        for node in tree.nodes
        if isinstance(node, cst.ClassDef)
    }


def at(tree: Tree, site: Site) -> cst.Call | None:
    """The call that a site means; None when there is none of its kind on its lines."""
    near = [call for call in tree.calls if tree.covers(call, site.line)]
    exact = [call for call in near if tree.lines(call) == (site.line, site.end_line or site.line)]
    full_names, derived, wanted = aliases(tree), bases(tree), flat(site.expression)
    for calls in (exact, near):
        fitting = [call for call in calls if _fits(tree, call, site, full_names, derived)]
        named = [call for call in fitting if site.expression and _get_callee(tree, call, site.kind) == wanted]
        if named or fitting:
            return (named or fitting)[0]
    return exact[-1] if site.kind == "forward" and exact else None


def _get_callee(tree: Tree, call: cst.Call, kind: str) -> str:
    """The object whose method is called, or what is called."""
    is_method = kind in METHODS and isinstance(call.func, cst.Attribute)
    return tree.flat(call.func.value if is_method else call.func)  # type: ignore[attr-defined]


def _fits(
    tree: Tree, call: cst.Call, site: Site, full_names: dict[str, str], derived: dict[str, list[str]]
) -> bool:
    """Whether this can be the call of a site, by what is called."""
    last = last_name(call)
    if site.kind in METHODS:
        return last == site.kind
    if site.kind == "fetch":
        return last in ("next", "__next__")
    if site.kind == "forward":
        return bool(site.expression) and flat(spell(call.func)) == flat(site.expression)
    if last == "__init__":
        return True
    name = resolve(spell(call.func), full_names)
    if site.kind in ("optimizer", "model"):
        made = partial_of(tree, call)  # of an optimizer's class
        known = resolve(spell(made.args[0].value), full_names) if made else ""
        by_partial = made and (_is_optimizer(made, known, full_names) or _is(known, site.detail, {}))
        return bool(by_partial) or _is_optimizer(call, name, full_names) or _is(name, site.detail, derived)
    default = CLASSES.get(site.kind, site.detail)
    return _is(name, site.detail or default, derived) or _is(name, default, derived)


def _is_optimizer(call: cst.Call, name: str, full_names: dict[str, str]) -> bool:
    if isinstance(call.func, cst.Call) and last_name(call.func) == "getattr" and call.func.args:
        return "optim" in resolve(spell(call.func.args[0].value), full_names)
    last = name.rpartition(".")[2]
    return name.startswith("torch.optim.") or (bool(OPTIMIZER.search(last)) and last[:1].isupper())


def _is(name: str, wanted: str, derived: dict[str, list[str]], deep: int = 8) -> bool:
    """Whether a class is the wanted one or, in the same file, derives from it."""
    last = name.rpartition(".")[2]
    if not last or not wanted:
        return False
    if last == wanted or (last.endswith(wanted) and last[:1].isupper()):
        return True
    return deep > 0 and any(_is(base, wanted, derived, deep - 1) for base in derived.get(last, ()))


# Behind a functools.partial


def partial_of(tree: Tree, call: cst.Call) -> cst.Call | None:
    """The `partial(...)` that is called here, by its only name or on the spot; None for any other call.

    None, too, if it is given further arguments by position: then those of the call have other places."""
    made: list[cst.BaseExpression | None] = [call.func]
    if not isinstance(call.func, cst.Call):
        assigns = [node for node in tree.nodes if isinstance(node, cst.Assign | cst.AnnAssign)]
        made = [assign.value for assign in assigns if tree.flat(call.func) in bound(tree, assign)]
    only = made[0] if len(made) == 1 else None
    if not isinstance(only, cst.Call) or last_name(only) != "partial":
        return None
    by_place = [arg for arg in only.args if arg.keyword is None and arg.star != "**"]
    return only if len(by_place) == 1 and not by_place[0].star else None
