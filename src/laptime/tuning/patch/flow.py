"""Which calls lead to a model's forward or to a backward pass, as far as names tell."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from laptime.tuning.patch.calls import last_name
from laptime.tuning.patch.files import File
from laptime.tuning.patch.places import Place
from laptime.tuning.patch.tree import Tree, flat

Scope = cst.FunctionDef | cst.Lambda | cst.Module


def scope_of(tree: Tree, node: cst.CSTNode) -> Scope:
    """The function around a node, or the module."""
    return tree.function(node) or tree.module


def calls_in(tree: Tree, scope: Scope) -> list[cst.Call]:
    """Calls of a scope itself, not of the functions in it, in the order of the source."""
    return [call for call in tree.calls if scope_of(tree, call) is scope]


def reaching(files: Iterable[File], places: Iterable[Place]) -> set[str]:
    """Names of the functions in which the places are, and of all that call one of these."""
    names = {_plain(place.site.function) for place in places} - {""}
    edges: dict[str, set[str]] = {}
    for file in files:
        if file.why:
            continue
        tree = file.tree
        for node in tree.nodes:
            if isinstance(node, cst.FunctionDef):
                called = {last_name(call) for call in tree.calls if tree.function(call) is node}
                edges.setdefault(node.name.value, set()).update(called)
    grown = True
    while grown:
        more = {name for name, called in edges.items() if called & names} - names
        grown = bool(more)
        names |= more
    return names


def leads(tree: Tree, call: cst.Call, names: set[str], taken: set[int]) -> bool:
    """Whether a call is of a function of these names. `taken` are places of calls that are something else."""
    name = last_name(call)
    if name not in names or tree.paren(call) in taken:
        return False
    return not (
        isinstance(call.func, cst.Attribute)
        and name in ("step", "backward", "zero_grad")
        and not _is_self(call)
    )


def _is_self(call: cst.Call) -> bool:
    return (
        isinstance(call.func, cst.Attribute)
        and isinstance(call.func.value, cst.Name)
        and call.func.value.value == "self"
    )


def is_off(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether gradients are switched off around a node."""
    for each in tree.ancestors(node):
        if isinstance(each, cst.FunctionDef | cst.Lambda):
            return False
        if isinstance(each, cst.With):
            header = " ".join(flat(tree.source(item.item)) for item in each.items)
            if "no_grad" in header or "inference_mode" in header:
                return True
    return False


def _plain(function: str) -> str:
    """`step` of `Trainer.step` and of `main.<locals>.step`; "" at the top level."""
    name = function.rpartition(".")[2]
    return "" if name.startswith("<") else name
