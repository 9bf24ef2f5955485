"""The call at a site, and its arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from laptime.tuning.loop_profile import Site
from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch.imports import aliases, bases, dotted, resolved
from laptime.tuning.patch.signatures import ORDER
from laptime.tuning.patch.text import NEWLINE, Text
from laptime.tuning.patch.tree import Tree, flat

CLASSES = {
    "loader": "DataLoader",
    "parallel": "DistributedDataParallel",
    "hf_arguments": "TrainingArguments",
    "lightning_trainer": "Trainer",
    "hf_trainer": "Trainer",
}
"""The class that is called at a site of a kind, where the site does not say so itself."""
METHODS = {"backward": "backward", "step": "step", "zero_grad": "zero_grad"}
LONG = 100
"""Characters of a line that is left in one piece."""
OPTIMIZER = re.compile(
    r"(?i)(adam|sgd|optim|lamb|lion|rmsprop|adagrad|adadelta|adafactor|muon|shampoo|lbfgs)"
)


def at(tree: Tree, site: Site) -> cst.Call | None:
    """The call that a site means; None when there is none of its kind on its lines."""
    near = [call for call in tree.calls if _covers(tree, call, site)]
    exact = [call for call in near if tree.lines(call) == (site.line, site.end_line or site.line)]
    known, derived = aliases(tree), bases(tree)
    for calls in (exact, near):
        fitting = [call for call in calls if fits(call, site, known, derived)]
        named = [
            call
            for call in fitting
            if site.expression and owner(tree, call, site.kind) == flat(site.expression)
        ]
        if named or fitting:
            return (named or fitting)[0]
    if site.kind == "forward" and exact:
        return exact[-1]
    return None


def _covers(tree: Tree, call: cst.Call, site: Site) -> bool:
    first, last = tree.lines(call)
    return first <= site.line <= last


def owner(tree: Tree, call: cst.Call, kind: str) -> str:
    """What a site's expression is compared with: the object whose method is called, else what is called."""
    if kind in METHODS and isinstance(call.func, cst.Attribute):
        return tree.name_of(call.func.value)
    return tree.name_of(call.func)


def fits(call: cst.Call, site: Site, known: dict[str, str], derived: dict[str, list[str]]) -> bool:
    """Whether this can be the call of a site, by what is called."""
    if site.kind in METHODS:
        return last_name(call) == METHODS[site.kind]
    if site.kind == "fetch":
        return last_name(call) in ("next", "__next__")
    if site.kind == "forward":
        return bool(site.expression) and flat(dotted(call.func)) == flat(site.expression)
    if last_name(call) == "__init__":
        return True
    name = resolved(dotted(call.func), known)
    wanted = site.detail or CLASSES.get(site.kind, "")
    if site.kind in ("optimizer", "model"):
        return _is_optimizer(call, name, known) or (bool(wanted) and _is(name, wanted, derived))
    return (bool(wanted) and _is(name, wanted, derived)) or _is(name, CLASSES.get(site.kind, wanted), derived)


def _is_optimizer(call: cst.Call, name: str, known: dict[str, str]) -> bool:
    if isinstance(call.func, cst.Call) and last_name(call.func) == "getattr" and call.func.args:
        return "optim" in resolved(dotted(call.func.args[0].value), known)
    return name.startswith("torch.optim.") or (
        bool(OPTIMIZER.search(name.rpartition(".")[2])) and name[:1] != "" and _is_class(name)
    )


def _is_class(name: str) -> bool:
    return name.rpartition(".")[2][:1].isupper()


def _is(name: str, wanted: str, derived: dict[str, list[str]], deep: int = 8) -> bool:
    """Whether a class is the wanted one or, in the same file, derives from it."""
    last = name.rpartition(".")[2]
    if not last or not wanted:
        return False
    if last == wanted or (last.endswith(wanted) and last[:1].isupper()):
        return True
    return deep > 0 and any(_is(base, wanted, derived, deep - 1) for base in derived.get(last, ()))


def last_name(call: cst.Call) -> str:
    """`step` of `optimizer.step()`; "" for the call of something without a name."""
    if isinstance(call.func, cst.Attribute):
        return str(call.func.attr.value)
    return dotted(call.func)


def order(tree: Tree, call: cst.Call, kind: str, detail: str) -> tuple[str, ...]:
    """Parameters of what is called, in order."""
    names = [resolved(dotted(call.func), aliases(tree)).rpartition(".")[2], detail, CLASSES.get(kind, "")]
    return next((ORDER[name] for name in names if name in ORDER), ())


def find(tree: Tree, call: cst.Call, name: str, parameters: Iterable[str], what: str) -> cst.Arg | None:
    """The argument of a parameter; None where it is not given by name or place.

    Raises:
        CannotEdit: it may be in `*args`.
    """
    place = {each: number for number, each in enumerate(parameters)}.get(name)
    for number, arg in enumerate(call.args):
        if arg.keyword is not None and arg.keyword.value == name:
            return arg
        if arg.star == "*":
            if place is not None and place >= number and not _has_keyword(call, name):
                raise CannotEdit(
                    f"{what} is called with {tree.source(arg.value)} spread out: {name} may be in it"
                )
        elif arg.keyword is None and not arg.star and number == place:
            return arg
    return None


def spread(call: cst.Call) -> cst.Arg | None:
    """The last `**mapping` of a call."""
    return next((arg for arg in reversed(call.args) if arg.star == "**"), None)


def value(file: Text, tree: Tree, arg: cst.Arg, new: str) -> bool:
    """Another value for an argument; whether that changes anything."""
    start, end = tree.outer(arg.value)
    if flat(file.text[start:end]) == flat(new):
        return False
    file.replace(start, end, new)
    return True


def add(file: Text, tree: Tree, call: cst.Call, new: dict[str, str]) -> bool:
    """Further keyword arguments, formatted as the others are."""
    if not new:
        return False
    mapping = spread(call)
    if mapping is not None:
        changed = _add_to_mapping(file, tree, mapping, new)
        _broken(file, tree, call, len(file.text) - len(tree.text))
        return changed
    texts = [f"{name}={text}" for name, text in new.items()]
    if not call.args:
        file.insert(tree.close(call), ", ".join(texts))
        return True
    last = call.args[-1]
    start, end = tree.outer(last.value)
    if isinstance(last.value, cst.GeneratorExp) and not last.value.lpar:
        # A generator without parentheses must be the only argument.
        file.insert(end, "".join([")", *(f", {text}" for text in texts)]))
        file.insert(start, "(")
        return True
    begins = tree.start(last) if last.keyword is not None or last.star else start
    line = file.text[file.line_start(begins) : begins]
    between = file.text[end : tree.close(call)]
    if line.strip() or not NEWLINE.search(between):
        more = "".join(f", {text}" for text in texts)
        file.insert(end, more)
        _broken(file, tree, call, len(more))
        return True
    # One argument a line: the new ones get lines of their own, behind a comment of the last one.
    behind = file.next_line(end)
    rows = "".join(f"{line}{text},{file.newline}" for text in texts)
    file.insert(behind, rows)
    if not isinstance(last.comma, cst.Comma):
        file.insert(end, ",")
    return True


def _broken(file: Text, tree: Tree, call: cst.Call, more: int) -> None:
    """A call that has become too long for its line, with its arguments on a line of their own.

    One inside another expression stays as it is: broken in its middle that would be harder to read.
    """
    if not isinstance(tree.parent(call), cst.Assign | cst.AnnAssign | cst.Expr | cst.Return):
        return
    start, close = tree.paren(call), tree.close(call) + more
    line = file.line_start(start)
    if file.next_line(start) - line <= LONG or NEWLINE.search(file.text, start, close):
        return
    indent = file.indentation(line)
    file.insert(close, f"{file.newline}{indent}")
    file.insert(start + 1, f"{file.newline}{indent}{tree.module.default_indent}")


def _add_to_mapping(file: Text, tree: Tree, mapping: cst.Arg, new: dict[str, str]) -> bool:
    """`**kwargs` may hold the same names, and giving one twice is an error: `**{**kwargs, "name": value}`."""
    items = ", ".join(f'"{name}": {text}' for name, text in new.items())
    if not isinstance(mapping.value, cst.Dict):
        start, end = tree.outer(mapping.value)
        file.replace(start, end, f"{{**{file.text[start:end]}, {items}}}")
        return True
    missing, changed = dict(new), False
    for element in reversed(mapping.value.elements):
        key = element.key if isinstance(element, cst.DictElement) else None
        name = str(key.evaluated_value) if isinstance(key, cst.SimpleString) else ""
        if name in missing:
            start, end = tree.outer(element.value)
            wanted = missing.pop(name)
            if flat(file.text[start:end]) != flat(wanted):
                file.replace(start, end, wanted)
                changed = True
    if missing:
        end = tree.end(mapping.value) - 1 + len(file.text) - len(tree.text)
        items = ", ".join(f'"{name}": {text}' for name, text in missing.items())
        empty = not mapping.value.elements or isinstance(mapping.value.elements[-1].comma, cst.Comma)
        file.insert(end, items if empty else f", {items}")
    return changed or bool(missing)


def remove(file: Text, tree: Tree, call: cst.Call, arg: cst.Arg) -> None:
    """A call without one of its keyword arguments."""
    number = list(call.args).index(arg)
    start, end = tree.start(arg), tree.outer(arg.value)[1]
    line, following = file.line_start(start), file.next_line(end)
    if not file.text[line:start].strip() and re.fullmatch(r"\s*,?\s*(#.*)?\s*", file.text[end:following]):
        file.replace(line, following, "")
    elif number + 1 < len(call.args):
        behind = call.args[number + 1]
        file.replace(
            start, tree.start(behind) if behind.keyword or behind.star else tree.outer(behind.value)[0], ""
        )
    elif number > 0:
        file.replace(tree.outer(call.args[number - 1].value)[1], end, "")
    else:
        file.replace(start, tree.close(call), "")


def _has_keyword(call: cst.Call, name: str) -> bool:
    return any(arg.keyword is not None and arg.keyword.value == name for arg in call.args)
