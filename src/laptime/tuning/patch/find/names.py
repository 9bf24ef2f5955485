"""What names stand for in a file."""

from __future__ import annotations

import libcst as cst

from laptime.tuning.patch.find.syntax_tree import Tree


def dotted(node: cst.BaseExpression | None) -> str:
    """`a.b.c` of names and attributes; "" for anything else."""
    if isinstance(node, cst.Name):
        return str(node.value)
    if isinstance(node, cst.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr.value}" if owner else ""
    return ""


def last_name(call: cst.Call) -> str:
    """`step` of `optimizer.step()`; "" for the call of something without a name."""
    return str(call.func.attr.value) if isinstance(call.func, cst.Attribute) else dotted(call.func)


def name_of_import(alias: cst.ImportAlias) -> str:
    """What an import binds: `b` of `import a as b`, `a` of `import a.b`."""
    return dotted(alias.name).partition(".")[0] if alias.asname is None else dotted(alias.asname.name)


def aliases(tree: Tree) -> dict[str, str]:
    """Full names by the file's own: of imports anywhere in it, and of `Loader = data.DataLoader`."""
    full_names: dict[str, str] = {}
    for node in tree.nodes:
        if isinstance(node, cst.Import):
            for alias in node.names:
                name = name_of_import(alias)
                if alias.asname is None:
                    full_names.setdefault(name, name)
                else:
                    full_names[name] = dotted(alias.name)
        elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            package = "." * len(node.relative) + dotted(node.module)
            for alias in node.names:
                full_names[name_of_import(alias)] = f"{package}.{dotted(alias.name)}"
    for node in tree.nodes:
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            name, full = dotted(node.targets[0].target), resolved(dotted(node.value), full_names)
            if name and full and "." not in name and full != name:
                full_names.setdefault(name, full)
    return full_names


def resolved(name: str, full_names: dict[str, str]) -> str:
    """The full name: `D.DataLoader` is `torch.utils.data.DataLoader`."""
    first, dot, rest = name.partition(".")
    return full_names.get(first, first) + dot + rest


def bases(tree: Tree) -> dict[str, list[str]]:
    """Last names of the classes that the file's classes derive from, by name."""
    full_names = aliases(tree)
    return {
        node.name.value: [resolved(dotted(base.value), full_names).rpartition(".")[2] for base in node.bases]
        for node in tree.nodes
        if isinstance(node, cst.ClassDef)
    }
