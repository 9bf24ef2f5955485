"""Definitions that need the script's device: behind the statement that binds it, where that can be seen."""

from __future__ import annotations

import libcst as cst

from laptime.tuning.patch.edit import statements
from laptime.tuning.patch.edit.forward import device_named, scope_of
from laptime.tuning.patch.find.files import File
from laptime.tuning.patch.find.sites import LocatedSites
from laptime.tuning.patch.text import Mark


def has(file: File, code: str) -> bool:
    """Whether the definition stands in a file, for whatever device."""
    tree = file.tree
    small = (node for node in tree.nodes if isinstance(node, cst.BaseSmallStatement))
    return any(statements.matches(code, tree.bare(node)) for node in small)


def put(sources: LocatedSites, file: File, code: str) -> Mark | None:
    """The definition behind the binding of the device that steps copy to; None where it has no name there.

    The binding is in the function that goes backward and steps, or at the top level. A parameter is none:
    what is defined beside it would be made anew with every call.
    """
    tree = file.tree
    places = sources.places_of("backward", "step", file=file)
    scopes = {id(scope_of(tree, place.node())): scope_of(tree, place.node()) for place in places}
    for place in places:
        named = device_named(tree, scope_of(tree, place.node()), before=place.node())
        seen = [*(scopes.values() if len(scopes) == 1 else ()), tree.module]
        binding = _binding(file, named.partition(".")[0], seen) if named else None
        if binding is not None:
            text = code.replace("{device!r}", f"torch.device({named}).type")
            return statements.after(file, statements.settled(tree, binding), text)
    return None


def _binding(file: File, name: str, scopes: list[cst.CSTNode]) -> cst.CSTNode | None:
    """The first assignment of a name, not in a loop, in the first of these scopes that has one."""
    tree = file.tree
    assigned = [
        node
        for node in tree.nodes
        if isinstance(node, cst.Assign | cst.AnnAssign) and name in statements.bound(tree, node)
    ]
    for scope in scopes:
        inside = [each for each in assigned if scope_of(tree, each) is scope and not tree.loops(each)]
        if inside:
            return min(inside, key=tree.start)
    return None
