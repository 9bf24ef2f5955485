"""The edits that `edit` of an optimization may ask for, and how they are done.

Sites that a diagnosing trial has found (`loop_profile.Site`) say where things are, so that a change lands at
the very call that was made.

Every method raises `optimization.CannotEdit`, with the reason, if the source does not allow it: the call
is inside a library, is made by `*args`, the object has no name there, the file cannot be written. Expressions
and statements are Python source. Names in braces are filled in from the site: {model}, {optimizer}, {loader},
{batch}, {device}, {loss}. Asking twice for the same is asking once."""

import re

import libcst as cst

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch import arguments, batches, forward, models, statements, top_level
from laptime.tuning.patch import sites as log_statements
from laptime.tuning.patch.calls import partial_of
from laptime.tuning.patch.files import File
from laptime.tuning.patch.sites import LocatedSites, Place, noun
from laptime.tuning.patch.text import Mark

COMMENT = "# laptime: "
STATEMENT = re.compile(r"(if|with|for|while|pass|del|try|return)\b")
OUT_OF_HAND = re.compile(r"(accelerator|fabric|engine|booster|trainer|self|model)$", re.IGNORECASE)
"""Objects whose `backward(loss)` does more than a backward pass."""


class Editor:
    """The user's source during one change. `Sources.apply` makes it, and calls `finish` at the end. comment:
    put above the first edited statement of each file; "" for none."""

    def __init__(self, located: LocatedSites, comment: str = "") -> None:
        self.comment = comment
        self._located = located
        self._edited: list[tuple[File, Mark]] = []
        self._before = {path: file.text for path, file in located.files.items()}
        self._definitions: list[tuple[str, tuple[str, ...]]] = []

    def has_site(self, kind: str) -> bool:
        """Whether this was seen in the user's own files."""
        return bool(self._located.places_of(kind))

    def set_arguments(self, kind: str, **values: str) -> None:
        """Keyword arguments of the call at every site of a kind (loader: the training loaders only;
        optimizer, parallel, zero_grad, hf_arguments, lightning_trainer), added or replaced: `lr="2"`.
        One that is given by position is replaced in its place."""
        for place in self._places(kind):
            changed, missing = False, {}
            mark = self._line(place)
            for name, value in values.items():
                arg = self._argument(place, name)
                if arg is None:
                    missing[name] = value
                elif arguments.set_value(place.file, place.file.tree, arg.value, value):
                    changed = True
            if missing:
                changed = arguments.add(place.file, place.file.tree, place.call(), missing) or changed
            if changed:
                self._note(place.file, mark, " ".join(values.values()))

    def remove_argument(self, kind: str, name: str) -> None:
        """The call goes without it, if it has it."""
        for place in self._places(kind):
            arg = self._argument(place, name)
            if arg is None:
                self._refuse_spread(place, name)
            elif arg.keyword is None:
                raise CannotEdit(f"{name} is given by position at {place.where}")
            else:
                mark = self._line(place)
                arguments.remove(place.file, place.file.tree, place.call(), arg)
                self._note(place.file, mark)

    def argument(self, kind: str, name: str) -> str | None:
        """Source of an argument of the call, None if it is not given."""
        place = self._places(kind)[0]
        arg = self._argument(place, name)
        if arg is None:
            self._refuse_spread(place, name)
            return None
        return place.file.tree.source(arg.value)

    def wrap_argument(self, kind: str, name: str, template: str) -> None:
        """An argument, replaced by an expression around it: `template` holds {} for the present one."""
        for place in self._places(kind):
            arg = self._argument(place, name)
            if arg is None:
                raise CannotEdit(f"{noun(kind)} at {place.where} is given no {name}")
            self._wrap(place, arg.value, template)

    def at_start(self, statement: str, *imports: str) -> None:
        """A statement of the whole process, behind the imports that the script's main file begins with;
        `imports` are statements that must have been made before: `import torch`."""
        if re.match(r"(import|from)\b", statement):
            self._definitions.append(("", (*imports, statement)))
            return
        if self._located.main is None:
            raise CannotEdit("the script is a module: its main file is not known")
        file = self._located.file(self._located.main)
        if not top_level.has(file, statement):
            top_level.refuse_taken(file, top_level.bound_by(statement))
            top_level.put_imports(file, imports, statement)
            self._note(file, top_level.put(file, statement))

    def define(self, code: str, *imports: str) -> None:
        """A function, class or variable at the top level of every file whose edits use it."""
        self._definitions.append((code.strip("\n"), imports))

    def after_model(self, statement: str) -> None:
        """A statement for each trained model ({model}), once a run: behind the statement that makes its
        optimizer."""
        for file, mark in models.after_model(self._located, statement):
            self._note(file, mark, statement)

    def after_optimizer(self, statement: str) -> None:
        """Behind the statement that makes the optimizer ({optimizer}); behind the last one, where it names
        none."""
        places = self._places("optimizer")
        for place in places if "{optimizer}" in statement else places[-1:]:
            self._note(place.file, models.after_optimizer(place, statement), statement)

    def around_forward(self, header: str) -> None:
        """`with ...:` (or another header) around the statements from the first that calls a trained model up
        to the one before the backward call. One statement with both is split: `loss = ...` inside,
        `.backward()` behind."""
        for place in self._places("backward"):
            for file, mark in forward.around(self._located, place, header):
                self._note(file, mark, header)

    def replace_backward(self, template: str) -> None:
        """`{loss}.backward()` replaced: `scaler.scale({loss}).backward()`. Further lines of the template are
        put behind the last backward pass before the optimizer's step."""
        first, _, more = template.partition("\n")
        for place in self._places("backward"):
            call, tree = place.call(), place.file.tree
            around = [outer.func for outer in (call, *tree.ancestors(call)) if isinstance(outer, cst.Call)]
            if not any(statements.matches(first.removesuffix("()"), tree.source(outer)) for outer in around):
                self._replace_backward(place, call, first)
            if more:
                self._behind_backward(place, more)

    def replace_step(self, template: str) -> None:
        """`{optimizer}.step()` replaced, may be several statements."""
        for place in self._places("step"):
            call, tree = place.call(), place.file.tree
            if statements.matches(template.split("\n")[0], tree.source(call)):
                continue
            if not isinstance(call.func, cst.Attribute) or not isinstance(tree.parent(call), cst.Expr):
                raise CannotEdit(f"the result of `{tree.source(call)}` at {place.where} is used")
            if call.args:
                raise CannotEdit(f"`{tree.source(call)}` at {place.where} is given arguments: a closure")
            start = tree.outer(call)[0]
            mark = statements.replace(place.file, call, template, optimizer=tree.source(call.func.value))
            step = re.search(r"\bstep\s*\(", place.file.text[start:])
            if step:
                place.mark.offset = start + step.end() - 1
            self._note(place.file, mark, template)

    def on_batch(self, statement: str) -> None:
        """First statement of the body of the training loop; {batch} is the loop's target (a name or a tuple
        of names)."""
        for place in self._places("fetch"):
            self._note(place.file, batches.first(self._located, place, statement), statement)

    def non_blocking(self) -> None:
        """`.to(device)` and `.cuda()` of batch tensors in the training loop get `non_blocking=True`."""
        for file, mark in batches.non_blocking(self._places("fetch")):
            self._note(file, mark)

    def replace_text(self, kind: str, template: str, index: int = 0) -> None:
        """The expression or statement at a site of a kind (sync ...), replaced; {} is the present one."""
        place = self._nth(kind, index)
        node, file = place.node(), place.file
        tree = file.tree
        # The module itself is left out: libcst has it end behind the text where no newline does.
        around = [outer for outer in (node, *tree.ancestors(node)) if not isinstance(outer, cst.Module)]
        if any(statements.matches(template, tree.bare(outer)) for outer in around):
            return
        small = tree.small(node)
        if "\n" in template or small is node or STATEMENT.match(template):
            if small is None:
                raise CannotEdit(f"what is at {place.where} is part of a header and no statement of its own")
            self._note(file, statements.replace(file, small, template, present=tree.bare(small)), template)
        else:
            self._wrap(place, node, template)

    def log_under(self, kind: str, condition: str, index: int = 0) -> None:
        """The statement at a site, and those that show what it assigns, under `if condition:`.
        Raises CannotEdit: what it reads goes elsewhere than into a print or a logger."""
        place = self._nth(kind, index)
        file, node = place.file, place.node()
        if log_statements.is_under(file.tree, node, condition):
            return
        marks = [file.mark(file.tree.start(each)) for each in log_statements.deferrable(file.tree, node)]
        for mark in marks:
            tree = file.tree
            small = next(
                node
                for node in tree.nodes
                if isinstance(node, cst.BaseSmallStatement) and tree.start(node) == mark.offset
            )
            if not log_statements.is_under(tree, small, condition):
                template = f"if {condition}:\n    {{}}"
                self._note(file, statements.replace(file, small, template, present=tree.bare(small)))

    def finish(self) -> None:
        """Put definitions where they are used, and the comment above the first edit of each file."""
        for code, imports in self._definitions:
            self._define(code, imports)
        self._definitions = []
        if self.comment:
            for file in {id(file): file for file, _ in self._edited}.values():
                marks = [mark for other, mark in self._edited if other is file and mark.offset >= 0]
                first = min(marks, key=lambda mark: mark.offset)
                if file.text != self._text_before(file):
                    indent = file.indentation(first.offset)
                    file.insert_above(first, indent + COMMENT + self.comment.replace("\n", " "))
        self._edited = []

    def _wrap(self, place: Place, node: cst.CSTNode, template: str) -> None:
        """An expression around another one, unless it stands there already."""
        tree = place.file.tree
        if not statements.matches(template, tree.source(node)):
            mark, (start, end) = self._line(place), tree.outer(node)
            place.file.replace(start, end, statements.fill(template, present=tree.source(node)))
            self._note(place.file, mark, template)

    def _places(self, kind: str) -> list[Place]:
        """Return where a kind was seen. Raises CannotEdit: nowhere, or a part of it cannot be edited."""
        places = self._located.places_of(kind)
        reasons = [why for site, why in self._located.left_out.items() if site.kind == kind]
        if reasons or not places:
            raise CannotEdit(reasons[0] if reasons else f"{noun(kind)} was not seen in your files")
        return places

    def _nth(self, kind: str, index: int) -> Place:
        wanted = [site for site in self._located.sites if site.kind == kind][index : index + 1]
        if not wanted:
            raise CannotEdit(f"{noun(kind)} was not seen in your files")
        if wanted[0] in self._located.left_out:
            raise CannotEdit(self._located.left_out[wanted[0]])
        places = self._located.places_of(kind)
        return next(place for place in places if wanted[0] in (place.site, *place.others))

    def _argument(self, place: Place, name: str) -> cst.Arg | None:
        tree, call = place.file.tree, place.call()
        parameters = arguments.order(tree, call, place.site.kind, place.site.detail)
        return arguments.find(tree, call, name, parameters, f"{noun(place.site.kind)} at {place.where}")

    def _refuse_spread(self, place: Place, name: str) -> None:
        made = partial_of(place.file.tree, place.call())
        given = made.args if made is not None else ()
        if any(arg.star == "**" or (arg.keyword and arg.keyword.value == name) for arg in given):
            raise CannotEdit(
                f"{noun(place.site.kind)} at {place.where} may get {name} from a functools.partial"
            )
        mapping = arguments.spread(place.call())
        # A mapping that holds it would say its name somewhere.
        if mapping is not None and name in top_level.words(place.file.original):
            source = place.file.tree.source(mapping.value)
            raise CannotEdit(
                f"{noun(place.site.kind)} at {place.where} is given **{source}: {name} may be in it"
            )

    def _line(self, place: Place) -> Mark:
        """A mark on the first line of the statement at a place."""
        tree = place.file.tree
        start = tree.first_line(tree.statement(place.node()))
        return place.file.mark(place.file.line_start(start))

    def _note(self, file: File, mark: Mark | None, code: str = "") -> None:
        """Remember an edit; the name torch must be bound where inserted code uses it."""
        if mark is not None:
            self._edited.append((file, mark))
            top_level.put_imports(file, (), code)

    def _replace_backward(self, place: Place, call: cst.Call, template: str) -> None:
        file, tree = place.file, place.file.tree
        if not isinstance(call.func, cst.Attribute):
            raise CannotEdit(f"`{tree.source(call)}` at {place.where} is not a method of the loss")
        owner = tree.source(call.func.value)
        if any(arg.keyword is None for arg in call.args):
            if OUT_OF_HAND.search(owner):
                raise CannotEdit(f"the backward pass at {place.where} is done by `{owner}`")
            raise CannotEdit(f"`{tree.source(call)}` at {place.where} is given more than the loss")
        head, _, tail = template.partition("{loss}")
        if call.args:
            keywords = file.text[tree.paren(call) + 1 : tree.close(call)]
            tail = re.sub(r"\(\)$", lambda _: f"({keywords})", tail)
        start, end = tree.outer(call.func.value)
        mark = self._line(place)
        file.replace(end, tree.end(call), tail)
        place.mark.offset = end + tail.rfind("backward(") + len("backward(") - 1
        file.insert(start, head)
        self._note(file, mark, template)

    def _behind_backward(self, place: Place, code: str) -> None:
        """Insert code between the last backward pass and the step of its optimizer."""
        tree, call = place.file.tree, place.call()
        scope = tree.function(call)

        def behind(kind: str) -> list[Place]:
            same = self._located.places_of(kind, file=place.file)
            later = [other for other in same if other.mark.offset > place.mark.offset]
            later = [other for other in later if tree.function(other.node()) is scope]
            return sorted(later, key=lambda other: other.mark.offset)

        self._places("step")
        steps, others = behind("step"), behind("backward")
        if not steps:
            raise CannotEdit(f"no step of an optimizer follows the backward pass at {place.where}")
        if others and others[0].mark.offset < steps[0].mark.offset:
            return
        func = steps[0].call().func
        if not isinstance(tree.parent(call), cst.Expr) or not isinstance(func, cst.Attribute):
            raise CannotEdit(f"the backward pass at {place.where} is not a statement of its own")
        name = steps[0].site.expression or tree.source(func.value)
        mark = statements.after(place.file, call, statements.fill(code, optimizer=name))
        self._note(place.file, mark, code)

    def _define(self, code: str, imports: tuple[str, ...]) -> None:
        """A definition in every file whose edits use it; imports alone are put there, too."""
        names = top_level.bound_by(code or "\n".join(imports))
        before = self._text_before

        def new(file: File) -> str:
            old = set(before(file).split("\n"))
            return "\n".join(line for line in file.text.split("\n") if line not in old)

        touched = [file for file in self._located.files.values() if file.text != before(file)]
        using = [file for file in touched if names & top_level.words(new(file))]
        for file in using or touched:
            if code and top_level.has(file, code):
                continue
            if code and (taken := names & top_level.words(before(file))):
                raise CannotEdit(f"{file.shown} has another object named {', '.join(sorted(taken))}")
            top_level.put_imports(file, imports, code)
            if code:
                apart = code.startswith(("def ", "class ", "async ", "@"))
                self._edited.append((file, top_level.put(file, code, apart=apart)))

    def _text_before(self, file: File) -> str:
        return self._before.get(file.path, file.original)
