"""Sites that a diagnosing trial has found, as marks in the source: they stay valid while lines move.

Statements that do nothing but show values are found from them: a step can go without these. What such a
statement assigns must go nowhere but into others of its own block: a sum that runs on, a condition, a return
would be another one without it."""

from dataclasses import dataclass, field
from pathlib import Path

import libcst as cst

from laptime.tuning.loop_profile import Site
from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch import calls
from laptime.tuning.patch.calls import last_name, spell
from laptime.tuning.patch.files import File, Tree, is_foreign, read, root_of
from laptime.tuning.patch.text import Mark, first_line

NODES: dict[str, tuple[type[cst.CSTNode], ...]] = {
    "call": (cst.Call,),
    "loop": (cst.For,),
    "statement": (cst.BaseSmallStatement, cst.BaseCompoundStatement),
}
"""What a mark can stand on."""


@dataclass(eq=False)
class Place:
    """A site in a file that can be edited: `mark` is on what `what` says."""

    site: Site
    file: File
    what: str  # call (its opening parenthesis), loop (its first character), statement (the same)
    mark: Mark
    others: list[Site] = field(default_factory=list)

    @property
    def where(self) -> str:
        """`train.py:12`, the line as it was before any edit."""
        return f"{self.file.shown}:{self.site.line}"

    def node(self) -> cst.CSTNode:
        """Return the node that stands there now. Raises CannotEdit: an earlier change has replaced it."""
        tree = self.file.tree
        for node in (node for node in tree.nodes if isinstance(node, NODES[self.what])):
            if (tree.paren(node) if isinstance(node, cst.Call) else tree.start(node)) == self.mark.offset:
                return node
        raise CannotEdit(f"what stood at {self.where} was replaced by an earlier change")

    def call(self) -> cst.Call:
        """The call that stands there now."""
        node = self.node()
        if not isinstance(node, cst.Call):
            raise CannotEdit(f"there is no call at {self.where}")
        return node


class LocatedSites:
    """Sites and the files that they lie in.

    Attributes:
        main: the script; None if it is a module found by its name.
        root: folder that the diff's paths are relative to: of the git repository, else the current one where
            the script lies in it, else the script's.
        sites: as they were given. places: those in the user's files, one a place of the source.
        device: kind of the device that the model is on: cpu, cuda; "" if it was not said.
        left_out: by site, why what happens there cannot be edited.
    """

    def __init__(self, sites: tuple[Site, ...], main: str, device: str = "") -> None:
        first = next((site.file for site in sites if not is_foreign(Path(site.file))), "none.py")
        # Neither git nor patch writes through a link: a file has one path, and that is its own.
        self.main = Path(main).resolve() if main else None
        self.root = root_of(self.main or Path(first).resolve())
        self.device = device.partition(":")[0]
        self.files: dict[Path, File] = {}
        self.places: list[Place] = []
        self.left_out: dict[Site, str] = {}
        self.sites = sites
        if self.main is not None:
            self.file(self.main)
        for site in sites:
            self._place(site)

    def places_of(self, *kinds: str, file: File | None = None) -> list[Place]:
        """Places of these kinds, in one file or in all."""
        places = [place for place in self.places if place.site.kind in kinds]
        return [place for place in places if file is None or place.file is file]

    @property
    def called_model(self) -> str:
        """Return the name of the first model where its forward is called; "" if it has no name there."""
        named = (site.expression for site in self.sites if site.kind == "forward" and site.expression)
        return next(named, "")

    def file(self, path: Path) -> File:
        """A file, read once."""
        path = path.resolve()
        if path not in self.files:
            self.files[path] = read(path, self.root)
        return self.files[path]

    def _place(self, site: Site) -> None:
        """Turn a site into a mark; or say why there is none."""
        file = self.file(Path(site.file))
        try:
            what, offset = _anchor(file, site)
        except CannotEdit as reason:
            self.left_out[site] = str(reason)
            return
        for place in self.places:
            same = place.site.kind == site.kind and place.file is file and place.mark.offset == offset
            if same and (place.site.expression == site.expression or site.kind != "model"):
                place.others.append(site)
                return
        self.places.append(Place(site, file, what, file.mark(offset)))


def _anchor(file: File, site: Site) -> tuple[str, int]:
    if file.why:
        raise CannotEdit(_library(file, site))
    tree = file.tree
    if site.kind == "fetch" and (loop := _loop(tree, site)) is not None:
        return "loop", tree.start(loop)
    call = calls.at(tree, site)
    if call is not None:
        return "call", tree.paren(call)
    if site.kind in ("sync", "backward", "forward"):
        for node in tree.nodes:
            if isinstance(node, cst.SimpleStatementLine) and tree.covers(node, site.line):
                return "statement", tree.start(node.body[0])
    raise CannotEdit(_nothing(tree, site, file.shown))


def _loop(tree: Tree, site: Site) -> cst.For | None:
    """The loop whose header asks for a batch on these lines."""
    loops = (node for node in tree.nodes if isinstance(node, cst.For))
    return next(
        (loop for loop in loops if tree.lines(loop)[0] <= site.line <= tree.lines(loop.iter)[1]), None
    )


NOUNS = {
    "loader": "the DataLoader",
    "optimizer": "the optimizer",
    "model": "the optimizer",
    "parallel": "the DistributedDataParallel",
    "hf_arguments": "the TrainingArguments",
    "lightning_trainer": "the Trainer",
    "fetch": "the loop over the loader",
    "step": "optimizer.step()",
    "zero_grad": "zero_grad()",
    "backward": "the backward pass",
    "forward": "the model's call",
    "sync": "the synchronising call",
}


def noun(kind: str) -> str:
    """Return the noun for a kind of site."""
    return NOUNS.get(kind, kind)


def _library(file: File, site: Site) -> str:
    """Say why a site in a library, or in a file that cannot be written, is left alone."""
    for part in ("site-packages", "dist-packages"):
        if part in file.path.parts:
            inside = "/".join(file.path.parts[file.path.parts.index(part) + 1 :])
            what = noun(site.kind)
            return f"{what} is made inside {inside}, not in your source; use the recipe: laptime.apply"
    return file.why


def _nothing(tree: Tree, site: Site, shown: str) -> str:
    """Say why there is no call of the kind at a site."""
    where = f"{shown}:{site.line}"
    lines = tree.text.splitlines()
    text = first_line(lines[site.line - 1]) if 0 < site.line <= len(lines) else ""
    names = {last_name(call) for call in tree.calls if tree.covers(call, site.line)}
    for node in tree.nodes:
        if isinstance(node, cst.Assign) and isinstance(node.value, cst.Call):
            is_partial = last_name(node.value) == "partial"
            if is_partial and tree.source(node.targets[0].target) in names:
                return f"{noun(site.kind)} at {where} is made by a functools.partial: `{text}`"
    if "parse_args_into_dataclasses" in names:
        return f"{noun(site.kind)} come from the command line at {where}: give the option there"
    return f"{noun(site.kind)} is not made by a call at {where} that could be edited, but inside of `{text}`"


# Statements of which a step can go without


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
    Raises CannotEdit: its value goes elsewhere, or it does more than that."""
    small = tree.small(node)
    if small is not None and is_log(small, tree):
        return [small]
    targets = small.targets if isinstance(small, cst.Assign) else ()
    name = spell(targets[0].target) if len(targets) == 1 and isinstance(targets[0].target, cst.Name) else ""
    if small is None or not name or not isinstance(small, cst.Assign) or not _is_pure(small.value, tree):
        raise CannotEdit(_refusal(tree, node))
    block = tree.block(tree.statement(small))
    shown: dict[int, cst.BaseSmallStatement] = {}
    for other in (node for node in tree.nodes if isinstance(node, cst.Name) and node.value == name):
        parent, user = tree.parent(other), tree.small(other)
        if isinstance(parent, cst.Attribute) and parent.attr is other:  # `x.loss`
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is other:  # `loss=`
            continue
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
    name, files = spell(call.func), [arg for arg in call.args if arg.keyword and arg.keyword.value == "file"]
    # What is in another file than those of the terminal may be read again.
    is_print = name == "print" and all(spell(arg.value) in ("sys.stderr", "sys.stdout") for arg in files)
    is_named = last_name(call) in LOGGING or name in ("wandb.log", "tqdm.write")
    is_logger = isinstance(call.func, cst.Attribute) and is_named
    return (is_print or is_logger) and all(_is_pure(arg.value, tree) for arg in call.args)


def _is_pure(value: cst.CSTNode, tree: Tree) -> bool:
    inside = list(tree.inside(value))
    calls = {last_name(node) for node in inside if isinstance(node, cst.Call)}
    return calls <= WITHOUT_EFFECT and not any(isinstance(node, _EFFECTS) for node in inside)


def is_under(tree: Tree, node: cst.CSTNode, condition: str) -> bool:
    """Whether it stands under this condition already."""
    around = (outer for outer in tree.ancestors(node) if isinstance(outer, cst.If))
    return any(tree.flat(outer.test) == condition for outer in around)


def _refusal(tree: Tree, node: cst.CSTNode) -> str:
    text = first_line(tree.source(tree.small(node) or tree.statement(node)))
    return f"what `{text}` reads goes elsewhere than into a print or a logger"
