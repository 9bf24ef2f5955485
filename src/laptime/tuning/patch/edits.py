"""The editor that `edit` of an optimization is given: see `editor.Editor` for what each method promises."""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch import batches, calls, forward, imports, models, statements
from laptime.tuning.patch.files import File
from laptime.tuning.patch.places import Located, Place, noun
from laptime.tuning.patch.text import Mark
from laptime.tuning.patch.tree import flat

COMMENT = "# laptime: "
STATEMENT = re.compile(r"(if|with|for|while|pass|del|try|return)\b")
OUT_OF_HAND = re.compile(r"(accelerator|fabric|engine|booster|trainer|self|model)$", re.IGNORECASE)
"""Objects whose `backward(loss)` does more than a backward pass."""


class Edits:
    """Edits of one change. `finish` puts definitions and the comment in; `Sources.apply` calls it."""

    def __init__(self, located: Located) -> None:
        self.comment = ""
        self._located = located
        self._edited: list[tuple[File, Mark]] = []
        self._before = {path: file.text for path, file in located.files.items()}
        self._definitions: list[tuple[str, tuple[str, ...]]] = []

    def has_site(self, kind: str) -> bool:
        """Whether this was seen in the user's own files."""
        return any(place.site.kind == kind for place in self._located.places)

    def places(self, kind: str) -> list[Place]:
        """Where a kind was seen.

        Raises:
            CannotEdit: nowhere, or a part of it cannot be edited.
        """
        for site, why in self._located.left_out.items():
            if site.kind == kind:
                raise CannotEdit(why)
        found = [place for place in self._located.places if place.site.kind == kind]
        if not found:
            raise CannotEdit(f"{noun(kind)} was not seen in your files")
        return found

    def set_arguments(self, kind: str, **arguments: str) -> None:
        """Keyword arguments of the call at every site of a kind."""
        for place in self.places(kind):
            changed, missing = False, {}
            mark = self._line(place)
            for name, text in arguments.items():
                arg = self._argument(place, name)
                if arg is None:
                    missing[name] = text
                elif calls.value(place.file, place.file.tree, arg, text):
                    changed = True
            if missing:
                changed = calls.add(place.file, place.file.tree, place.call(), missing) or changed
            if changed:
                self._note(place.file, mark, " ".join(arguments.values()))

    def remove_argument(self, kind: str, name: str) -> None:
        """The call goes without it, where it has it."""
        for place in self.places(kind):
            arg = self._argument(place, name)
            if arg is None:
                self._refuse_spread(place, name)
            elif arg.keyword is None:
                raise CannotEdit(f"{name} is given by position at {place.where}")
            else:
                mark = self._line(place)
                calls.remove(place.file, place.file.tree, place.call(), arg)
                self._note(place.file, mark, "")

    def argument(self, kind: str, name: str) -> str | None:
        """Source of an argument of the first call of a kind, None where it is not given."""
        place = self.places(kind)[0]
        arg = self._argument(place, name)
        if arg is None:
            self._refuse_spread(place, name)
            return None
        return place.file.tree.source(arg.value)

    def wrap_argument(self, kind: str, name: str, template: str) -> None:
        """An argument, replaced by an expression around it."""
        for place in self.places(kind):
            arg = self._argument(place, name)
            if arg is None:
                raise CannotEdit(f"{noun(kind)} at {place.where} is given no {name}")
            start, end = place.file.tree.outer(arg.value)
            present = place.file.text[start:end]
            if not statements.matches(template, present):
                mark = self._line(place)
                place.file.replace(start, end, statements.fill(template, present=present))
                self._note(place.file, mark, template)

    def at_start(self, statement: str, *imports_: str) -> None:
        """A statement of the whole process, behind the imports of the main file."""
        if re.match(r"(import|from)\b", statement):
            self._definitions.append(("", (*imports_, statement)))
            return
        if self._located.main is None:
            raise CannotEdit("the script is a module: its main file is not known")
        file = self._located.file(self._located.main)
        if set(statements.sources(statement)) <= _top(file):
            return
        self._imports(file, statement, imports_)
        self._edited.append((file, self._at_top(file, statement)))

    def define(self, code: str, *imports_: str) -> None:
        """A function or class at the top level of every file whose edits use it."""
        self._definitions.append((code.strip("\n"), imports_))

    def after_model(self, statement: str) -> None:
        """A statement a trained model, once a run, behind the statement that makes the optimizer."""
        for file, mark in models.after_model(self._located, statement):
            self._edited.append((file, mark))
            self._import_torch(file, statement)

    def after_optimizer(self, statement: str) -> None:
        """Behind the statement that makes the optimizer; behind the last one, where it names none."""
        found = self.places("optimizer")
        for place in found if "{optimizer}" in statement else found[-1:]:
            mark = models.after_optimizer(place, statement)
            self._note(place.file, mark, statement)

    def around_forward(self, header: str) -> None:
        """`with ...:` around what is between the first call of a trained model and the backward pass."""
        for place in self.places("backward"):
            for file, mark in forward.around(self._located, place, header):
                self._note(file, mark, header)

    def replace_backward(self, template: str) -> None:
        """`{loss}.backward()` replaced."""
        for place in self.places("backward"):
            self._replace_backward(place, template)

    def replace_step(self, template: str) -> None:
        """`{optimizer}.step()` replaced, may be several statements."""
        for place in self.places("step"):
            call, tree = place.call(), place.file.tree
            if statements.matches(template.split("\n")[0], tree.source(call)):
                continue
            if not isinstance(call.func, cst.Attribute) or not isinstance(tree.parent(call), cst.Expr):
                raise CannotEdit(f"the result of `{tree.source(call)}` at {place.where} is used")
            if call.args:
                raise CannotEdit(f"`{tree.source(call)}` at {place.where} is given arguments: a closure")
            start = tree.outer(call)[0]
            mark = statements.replace(place.file, call, template, optimizer=tree.source(call.func.value))
            found = re.search(r"\bstep\s*\(", place.file.text[start:])
            if found:
                place.mark.offset = start + found.end() - 1
            self._note(place.file, mark, template)

    def on_batch(self, statement: str) -> None:
        """First statement of the body of the training loop."""
        for place in self.places("fetch"):
            self._note(place.file, batches.first(self._located, place, statement), statement)

    def non_blocking(self) -> None:
        """Copies of batch tensors to the device in the training loop do not wait."""
        for file, mark in batches.non_blocking(self._located, self.places("fetch")):
            self._edited.append((file, mark))

    def replace_text(self, kind: str, template: str, index: int = 0) -> None:
        """The expression or statement at a site of a kind, replaced; {} is the present one."""
        place = self._nth(kind, index)
        node, file = place.node(), place.file
        tree = file.tree
        around = [tree.text[tree.start(each) : tree.end(each)] for each in (node, *tree.ancestors(node))]
        if any(statements.matches(template, each) for each in around):
            return
        small = tree.small(node)
        if "\n" in template or small is node or STATEMENT.match(template):
            if small is None:
                raise CannotEdit(f"what is at {place.where} is part of a header and no statement of its own")
            present = file.text[tree.start(small) : tree.end(small)]
            self._note(file, statements.replace(file, small, template, present=present), template)
            return
        start, end = tree.outer(node)
        mark = self._line(place)
        file.replace(start, end, statements.fill(template, present=file.text[start:end]))
        self._note(file, mark, template)

    def _nth(self, kind: str, index: int) -> Place:
        """Where the site of this number is."""
        wanted = [site for site in self._located.sites if site.kind == kind][index : index + 1]
        if not wanted:
            raise CannotEdit(f"{noun(kind)} was not seen in your files")
        if wanted[0] in self._located.left_out:
            raise CannotEdit(self._located.left_out[wanted[0]])
        found = [place for place in self._located.places if place.site.kind == kind]
        return next(place for place in found if wanted[0] in (place.site, *place.others))

    def finish(self) -> None:
        """Put definitions where they are used, and the comment above the first edit of each file."""
        for code, imports_ in self._definitions:
            self._define(code, imports_)
        self._definitions = []
        if self.comment:
            for file in {id(each): each for each, _ in self._edited}.values():
                marks = [mark for each, mark in self._edited if each is file and mark.offset >= 0]
                first = min(marks, key=lambda mark: mark.offset)
                if file.text != self._text_before(file):
                    indent = file.indentation(first.offset)
                    file.insert_above(first, indent + COMMENT + self.comment.replace("\n", " "))
        self._edited = []

    def _argument(self, place: Place, name: str) -> cst.Arg | None:
        tree, call = place.file.tree, place.call()
        parameters = calls.order(tree, call, place.site.kind, place.site.detail)
        return calls.find(tree, call, name, parameters, f"{noun(place.site.kind)} at {place.where}")

    def _refuse_spread(self, place: Place, name: str) -> None:
        mapping = calls.spread(place.call())
        # A mapping that holds it would say its name somewhere.
        if mapping is not None and name in imports.words(place.file.original):
            source = place.file.tree.source(mapping.value)
            raise CannotEdit(
                f"{noun(place.site.kind)} at {place.where} is given **{source}: {name} may be in it"
            )

    def _line(self, place: Place) -> Mark:
        """A mark on the first line of the statement at a place."""
        tree = place.file.tree
        start = tree.first_line(tree.statement(place.node()))
        return place.file.mark(place.file.line_start(start))

    def _note(self, file: File, mark: Mark | None, code: str) -> None:
        if mark is not None:
            self._edited.append((file, mark))
            self._import_torch(file, code)

    def _replace_backward(self, place: Place, template: str) -> None:
        first, _, more = template.partition("\n")
        call, file = place.call(), place.file
        tree = file.tree
        around = [each.func for each in (call, *tree.ancestors(call)) if isinstance(each, cst.Call)]
        if not any(statements.matches(first.removesuffix("()"), tree.source(each)) for each in around):
            if not isinstance(call.func, cst.Attribute):
                raise CannotEdit(f"`{tree.source(call)}` at {place.where} is no method of the loss")
            owner = tree.source(call.func.value)
            if any(arg.keyword is None for arg in call.args):
                if OUT_OF_HAND.search(owner):
                    raise CannotEdit(f"the backward pass at {place.where} is done by `{owner}`")
                raise CannotEdit(f"`{tree.source(call)}` at {place.where} is given more than the loss")
            head, _, tail = first.partition("{loss}")
            if call.args:
                given = file.text[tree.paren(call) + 1 : tree.close(call)]
                tail = re.sub(r"\(\)$", lambda found: f"({given})", tail)
            start, end = tree.outer(call.func.value)
            mark = self._line(place)
            file.replace(end, tree.end(call), tail)
            place.mark.offset = end + tail.rfind("backward(") + len("backward(") - 1
            file.insert(start, head)
            self._note(file, mark, template)
        if more:
            self._behind_backward(place, more)

    def _behind_backward(self, place: Place, code: str) -> None:
        """What belongs between the last backward pass and the step of its optimizer."""
        tree, call = place.file.tree, place.call()
        scope = tree.function(call)

        def behind(kind: str) -> list[Place]:
            found = [each for each in self.places(kind) if each.file is place.file]
            found = [each for each in found if each.mark.offset > place.mark.offset]
            return sorted(
                (each for each in found if tree.function(each.node()) is scope),
                key=lambda each: each.mark.offset,
            )

        steps, others = behind("step"), behind("backward")
        if not steps:
            raise CannotEdit(f"no step of an optimizer follows the backward pass at {place.where}")
        if others and others[0].mark.offset < steps[0].mark.offset:
            return
        func = steps[0].call().func
        if not isinstance(tree.parent(call), cst.Expr) or not isinstance(func, cst.Attribute):
            raise CannotEdit(f"the backward pass at {place.where} is no statement of its own")
        name = steps[0].site.expression or tree.source(func.value)
        mark = statements.after(place.file, call, statements.fill(code, optimizer=name))
        self._note(place.file, mark, code)

    def _at_top(self, file: File, code: str, *, is_import: bool = False, apart: bool = False) -> Mark:
        """Code behind the imports that a file begins with; `apart`: with two empty lines around."""
        end = imports.head(file.tree)
        bom = file.tree.begin
        at = _after_comments(file, bom) if end < 0 else file.next_line(end)
        if is_import:
            return file.insert_lines(at, code, behind=False)
        wanted = 2 if apart else int(file.behind(at) == at)
        at = file.behind(at)
        above = "\n" * max(0, wanted - _empty(file.text[:at].replace("\r\n", "\n"), -1)) if at > bom else ""
        below = "\n" * max(0, wanted - _empty(file.text[at:].replace("\r\n", "\n"), 1)) if apart else ""
        mark = file.insert_lines(at, above + code + below)
        return file.mark(mark.offset + len(above) * len(file.newline))

    def _imports(self, file: File, code: str, wanted: Iterable[str]) -> None:
        for statement in wanted:
            head = imports.head(file.tree)
            if not imports.names_of_import(statement) <= imports.top_names(file.tree, max(head, 0)):
                self._at_top(file, statement, is_import=True)
        self._import_torch(file, code)

    def _import_torch(self, file: File, code: str) -> None:
        """The name torch must be bound where inserted code uses it."""
        if re.search(r"(?<![\w.])torch\b", code) and "torch" not in imports.top_names(
            file.tree, len(file.text)
        ):
            self._at_top(file, "import torch", is_import=True)

    def _define(self, code: str, wanted: tuple[str, ...]) -> None:
        """A definition in every file whose edits use it; imports alone are put there, too."""
        names = imports.defined(code) if code else set().union(*map(imports.names_of_import, wanted))
        touched = [file for file in self._located.files.values() if file.text != self._text_before(file)]
        using = [file for file in touched if names & imports.words(_new(self._text_before(file), file.text))]
        for file in using or touched:
            if code and set(statements.sources(code)) <= _top(file):
                continue
            if code and names & imports.words(self._text_before(file)):
                taken = ", ".join(sorted(names & imports.words(self._text_before(file))))
                raise CannotEdit(f"{file.shown} has something else of the name {taken}")
            self._imports(file, code, wanted)
            if code:
                self._edited.append(
                    (
                        file,
                        self._at_top(
                            file, code, apart=code[:4] in ("def ", "clas", "asyn") or code[0] == "@"
                        ),
                    )
                )

    def _text_before(self, file: File) -> str:
        """What a file held before this change."""
        return self._before.get(file.path, file.original)


def _new(before: str, after: str) -> str:
    """Lines that were not there before."""
    old = set(before.split("\n"))
    return "\n".join(line for line in after.split("\n") if line not in old)


def _top(file: File) -> set[str]:
    """The statements of the top level, each in one line."""
    tree = file.tree
    body = statements.small_or_compound(tree.module.body)
    return {flat(tree.text[tree.first_line(each) : tree.end(each)]) for each in body}


def _empty(text: str, step: int) -> int:
    """How many empty lines a text begins with (step 1), or ends with."""
    found = 0
    rows = text.split("\n") if step > 0 else text.split("\n")[-2::-1]
    for row in rows:
        if row.strip():
            break
        found += 1
    return found


def _after_comments(file: File, start: int) -> int:
    """Behind `#!`, the encoding and other comments at the top of a file."""
    at = start
    while file.text[at : at + 1] == "#":
        at = file.next_line(at)
    return at
