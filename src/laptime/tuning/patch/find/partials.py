"""Constructors behind a functools.partial: `make = partial(AdamW, lr=1e-3)`, then `make(params)`."""

from __future__ import annotations

import libcst as cst

from laptime.tuning.patch.find.syntax_tree import Tree


def partial_of(tree: Tree, call: cst.Call) -> cst.Call | None:
    """The `partial(...)` that is called here, by its only name or on the spot; None for any other call.

    None, too, where it is given further arguments by position: then those of the call have other places.
    """
    if isinstance(call.func, cst.Call):
        return call.func if _binds_keywords_alone(call.func) else None
    name = tree.flat(call.func)
    bound = [
        node.value
        for node in tree.nodes
        if isinstance(node, cst.Assign | cst.AnnAssign) and name in _targets(tree, node)
    ]
    if len(bound) != 1 or not isinstance(bound[0], cst.Call):
        return None
    return bound[0] if _binds_keywords_alone(bound[0]) else None


def has_keyword(made: cst.Call, name: str) -> bool:
    """Whether a partial gives this argument, or may give it in a mapping."""
    return any(arg.star == "**" or (arg.keyword and arg.keyword.value == name) for arg in made.args)


def _targets(tree: Tree, node: cst.Assign | cst.AnnAssign) -> list[str]:
    targets = [each.target for each in node.targets] if isinstance(node, cst.Assign) else [node.target]
    return [tree.flat(target) for target in targets]


def _binds_keywords_alone(call: cst.Call) -> bool:
    func = call.func
    last = func.attr.value if isinstance(func, cst.Attribute) else getattr(func, "value", "")
    by_place = [arg for arg in call.args if arg.keyword is None and arg.star != "**"]
    return last == "partial" and len(by_place) == 1 and not by_place[0].star
