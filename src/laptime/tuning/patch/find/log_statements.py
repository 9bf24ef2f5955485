"""Statements that do nothing but show values: those of which a step can go without.

What a statement assigns must go nowhere but into such statements of its own block: a sum that runs on, a
condition, a return would be another one without it.
"""

from __future__ import annotations

import libcst as cst

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch.find.calls import dotted, last_name
from laptime.tuning.patch.find.syntax_tree import Tree
from laptime.tuning.patch.text import first_line

LOGGING = frozenset({
    "debug", "info", "warning", "error", "add_scalar", "add_scalars", "log_metric", "log_metrics",
    "set_postfix", "set_postfix_str", "set_description", "set_description_str",
})  # fmt: skip
"""Methods of loggers, writers and progress bars that keep nothing which the script reads again."""
WITHOUT_EFFECT = frozenset({
    "item", "tolist", "float", "double", "int", "long", "bool", "str", "repr", "format", "join", "round",
    "cpu", "detach", "numpy", "mean", "sum", "max", "min", "abs", "norm", "sqrt", "exp", "argmax", "argmin",
    "eq", "all", "any", "len", "range", "zip", "enumerate", "size", "dim", "numel", "keys", "values", "items",
    "time", "perf_counter", "memory_allocated", "max_memory_allocated", "get_last_lr",
})  # fmt: skip
"""Calls that change nothing, by their last name."""
_EFFECTS = cst.NamedExpr | cst.Await | cst.Yield | cst.Lambda


def deferrable(tree: Tree, node: cst.CSTNode) -> list[cst.BaseSmallStatement]:
    """The statement of a node, and those that show what it assigns.

    Raises:
        CannotEdit: its value goes elsewhere, or it does more than that.
    """
    small = tree.small(node)
    if small is not None and is_log(small, tree):
        return [small]
    name = _assigned(small)
    if small is None or not name or not isinstance(small, cst.Assign) or not _is_pure(small.value, tree):
        raise CannotEdit(_refusal(tree, node))
    block = tree.block(tree.statement(small))
    shown: dict[int, cst.BaseSmallStatement] = {}
    for other in tree.nodes:
        if not isinstance(other, cst.Name) or other.value != name or _is_no_variable(tree, other):
            continue
        user = tree.small(other)
        if user is small and other is small.targets[0].target:
            continue
        if user is None or not is_log(user, tree) or tree.statement(user) not in block:
            raise CannotEdit(_refusal(tree, node))
        if tree.start(user) < tree.start(small):
            raise CannotEdit(f"`{name}` is shown before it is read: by the next step")
        shown.setdefault(id(user), user)
    return [small, *shown.values()]


def is_log(statement: cst.BaseSmallStatement, tree: Tree) -> bool:
    """Whether a statement is a print or a logger's call, and nothing in it has another effect."""
    if not isinstance(statement, cst.Expr) or not isinstance(statement.value, cst.Call):
        return False
    call = statement.value
    is_print = dotted(call.func) == "print" and all(_is_standard(arg) for arg in call.args)
    is_logger = isinstance(call.func, cst.Attribute) and (
        last_name(call) in LOGGING or dotted(call.func) in ("wandb.log", "tqdm.write")
    )
    return (is_print or is_logger) and all(_is_pure(arg.value, tree) for arg in call.args)


def _is_standard(arg: cst.Arg) -> bool:
    """Not the file of a print, but for those of the terminal: what is in a file may be read again."""
    is_file = arg.keyword is not None and arg.keyword.value == "file"
    return not is_file or dotted(arg.value) in ("sys.stderr", "sys.stdout")


def _is_pure(value: cst.CSTNode, tree: Tree) -> bool:
    inside = list(tree.inside(value))
    calls = [node for node in inside if isinstance(node, cst.Call)]
    return not any(isinstance(node, _EFFECTS) for node in inside) and all(
        last_name(call) in WITHOUT_EFFECT for call in calls
    )


def _assigned(small: cst.BaseSmallStatement | None) -> str:
    """The one name that a statement assigns; "" for anything else, a sum that runs on among it."""
    targets = small.targets if isinstance(small, cst.Assign) else ()
    return dotted(targets[0].target) if len(targets) == 1 and isinstance(targets[0].target, cst.Name) else ""


def _is_no_variable(tree: Tree, name: cst.Name) -> bool:
    """Whether it is the name of an attribute or of a keyword: `x.loss`, `loss=`."""
    parent = tree.parent(name)
    is_attribute = isinstance(parent, cst.Attribute) and parent.attr is name
    return is_attribute or (isinstance(parent, cst.Arg) and parent.keyword is name)


def is_under(tree: Tree, node: cst.CSTNode, condition: str) -> bool:
    """Whether it stands under this condition already."""
    around = (outer for outer in tree.ancestors(node) if isinstance(outer, cst.If))
    return any(tree.flat(outer.test) == condition for outer in around)


def _refusal(tree: Tree, node: cst.CSTNode) -> str:
    text = first_line(tree.source(tree.small(node) or tree.statement(node)))
    return f"what `{text}` reads goes elsewhere than into a print or a logger"
