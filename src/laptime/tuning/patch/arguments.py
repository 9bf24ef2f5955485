"""Arguments of a call: found, replaced, added, removed."""

import re
from collections.abc import Iterable

import libcst as cst

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch.calls import CLASSES, aliases, resolve, spell
from laptime.tuning.patch.files import Tree
from laptime.tuning.patch.text import NEWLINE, Text, flat

LONG = 100  # characters of a line that is left in one piece
ORDER: dict[str, tuple[str, ...]] = {
    name: tuple(parameters.split())
    for name, parameters in {
        "DataLoader": "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory "
        "drop_last timeout worker_init_fn multiprocessing_context generator",
        "Adam": "params lr betas eps weight_decay amsgrad",
        "AdamW": "params lr betas eps weight_decay amsgrad",
        "ASGD": "params lr lambd alpha t0 weight_decay foreach maximize differentiable",
        "Adadelta": "params lr rho eps weight_decay foreach",
        "Adafactor": "params lr beta2_decay eps d weight_decay",
        "Adagrad": "params lr lr_decay weight_decay initial_accumulator_value eps foreach",
        "Adamax": "params lr betas eps weight_decay foreach",
        "LBFGS": "params lr max_iter max_eval tolerance_grad tolerance_change history_size",
        "NAdam": "params lr betas eps weight_decay momentum_decay decoupled_weight_decay",
        "RAdam": "params lr betas eps weight_decay decoupled_weight_decay",
        "RMSprop": "params lr alpha eps weight_decay momentum centered capturable",
        "Rprop": "params lr etas step_sizes",
        "SGD": "params lr momentum dampening weight_decay nesterov",
        "SparseAdam": "params lr betas eps maximize",
        "zero_grad": "set_to_none",
        "TrainingArguments": "output_dir",
        "Seq2SeqTrainingArguments": "output_dir",
        "DistributedDataParallel": "module device_ids output_device dim broadcast_buffers init_sync "
        "process_group bucket_cap_mb find_unused_parameters check_reduction gradient_as_bucket_view "
        "static_graph",
    }.items()
}
"""Parameters that may be given by position, by class or method; if nothing is listed only keywords can be
set. Source: signatures of torch 2.15. A parameter that is keyword-only is not listed."""


def order(tree: Tree, call: cst.Call, kind: str, detail: str) -> tuple[str, ...]:
    """Parameters of what is called, in order."""
    names = [resolve(spell(call.func), aliases(tree)).rpartition(".")[2], detail, CLASSES.get(kind, "")]
    return next((ORDER[name] for name in names if name in ORDER), ())


def find(tree: Tree, call: cst.Call, name: str, parameters: Iterable[str], what: str) -> cst.Arg | None:
    """The argument of a parameter; None if it is not given by name or place.
    Raises CannotEdit: it may be in `*args`."""
    keywords = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == name]
    if keywords:
        return keywords[0]
    place = {parameter: number for number, parameter in enumerate(parameters)}.get(name, -1)
    for number, arg in enumerate(call.args[: place + 1]):
        if arg.star == "*":
            raise CannotEdit(
                f"{what} is called with {tree.source(arg.value)} spread out: {name} may be in it"
            )
        if number == place and arg.keyword is None and not arg.star:
            return arg
    return None


def spread(call: cst.Call) -> cst.Arg | None:
    """The last `**mapping` of a call."""
    return next((arg for arg in reversed(call.args) if arg.star == "**"), None)


def set_value(file: Text, tree: Tree, value: cst.BaseExpression, new: str) -> bool:
    """Another expression in place of a value; whether that changes anything."""
    start, end = tree.outer(value)
    if flat(file.text[start:end]) == flat(new):
        return False
    file.replace(start, end, new)
    return True


def add(file: Text, tree: Tree, call: cst.Call, new: dict[str, str]) -> bool:
    """Further keyword arguments, formatted as the others are."""
    mapping = spread(call)
    if mapping is not None:
        changed = _add_to_mapping(file, tree, mapping, new)
        _break_line(file, tree, call, len(file.text) - len(tree.text))
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
        _break_line(file, tree, call, len(more))
        return True
    # One argument a line: the new ones get lines of their own, behind a comment of the last one.
    behind = file.next_line(end)
    rows = "".join(f"{line}{text},{file.newline}" for text in texts)
    file.insert(behind, rows)
    if not isinstance(last.comma, cst.Comma):
        file.insert(end, ",")
    return True


def _break_line(file: Text, tree: Tree, call: cst.Call, more: int) -> None:
    """Put the arguments of a call that has become too long for its line on a line of their own.

    One inside another expression stays as it is: broken in its middle that would be harder to read."""
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
            changed = set_value(file, tree, element.value, missing.pop(name)) or changed
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
        until = tree.start(behind) if behind.keyword or behind.star else tree.outer(behind.value)[0]
        file.replace(start, until, "")
    elif number > 0:
        file.replace(tree.outer(call.args[number - 1].value)[1], end, "")
    else:
        file.replace(start, tree.close(call), "")
