"""Which calls lead to a model's forward or to a backward pass, as far as names tell."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from laptime.tuning.patch.find.calls import last_name
from laptime.tuning.patch.find.files import File
from laptime.tuning.patch.find.sites import Place
from laptime.tuning.patch.find.syntax_tree import Tree

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
    called_by: dict[str, set[str]] = {}
    for file in files:
        if file.why:
            continue
        tree = file.tree
        for node in tree.nodes:
            if isinstance(node, cst.FunctionDef):
                called = {last_name(call) for call in tree.calls if tree.function(call) is node}
                called_by.setdefault(node.name.value, set()).update(called)
    while more := {name for name, called in called_by.items() if called & names} - names:
        names |= more
    return names


def leads(tree: Tree, call: cst.Call, names: set[str], others: set[int]) -> bool:
    """Whether a call is of a function of these names. `others` are places of other calls."""
    name = last_name(call)
    if name not in names or tree.paren(call) in others:
        return False
    if isinstance(call.func, cst.Attribute) and name in ("step", "backward", "zero_grad"):
        return isinstance(call.func.value, cst.Name) and call.func.value.value == "self"
    return True


def is_without_gradients(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether gradients are switched off around a node."""
    for outer in tree.ancestors(node):
        if isinstance(outer, cst.FunctionDef | cst.Lambda):
            return False
        if isinstance(outer, cst.With):
            header = " ".join(tree.flat(item.item) for item in outer.items)
            if "no_grad" in header or "inference_mode" in header:
                return True
    return False


def _plain(function: str) -> str:
    """`step` of `Trainer.step` and of `main.<locals>.step`; "" at the top level."""
    name = function.rpartition(".")[2]
    return "" if name.startswith("<") else name
