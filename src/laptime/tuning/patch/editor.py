"""What `edit` of an optimization may ask for. `patch.source` implements it; it knows where things are from
the sites that a diagnosing trial has found (`loop_profile.Site`), so that a change lands at the very call
that was made.

Every method raises `optimization.CannotEdit`, with the reason, where the source does not allow it: the call
is inside a library, is
made by `*args`, the object has no name there, the file cannot be written. Expressions and statements are
Python source.
Names in braces are filled in from the site: {model}, {optimizer}, {loader}, {batch}, {device}, {loss}.
Asking twice for the same is asking once: edits are idempotent. A comment that a change wants is put above
its first edit.
"""

from __future__ import annotations

from typing import Protocol


class Editor(Protocol):
    """The user's source during one change."""

    comment: str
    """Put above the first edited statement of this change; "" for none. Set by who calls `edit`."""

    def has_site(self, kind: str) -> bool:
        """Whether this was seen in the user's own files."""

    def set_arguments(self, kind: str, **arguments: str) -> None:
        """Keyword arguments of the call at every site of a kind (loader: the training loaders only;
        optimizer,
        parallel, zero_grad, hf_arguments, lightning_trainer), added or replaced: `num_workers="2"`. A
        positional one is replaced in place."""

    def remove_argument(self, kind: str, name: str) -> None:
        """The call goes without it, where it has it."""

    def argument(self, kind: str, name: str) -> str | None:
        """Source of an argument of the call, None where it is not given."""

    def wrap_argument(self, kind: str, name: str, template: str) -> None:
        """An argument, replaced by an expression around it: `template` holds {} for the present one."""

    def at_start(self, statement: str, *imports: str) -> None:
        """A statement of the whole process, after the imports of the script's main file (behind a
        docstring, `from __future__`
        and all top-level imports); `imports` are statements that must have been made before: `import
        torch`."""

    def define(self, code: str, *imports: str) -> None:
        """A function or class at the top level of the file that is edited, before its first use."""

    def after_model(self, statement: str) -> None:
        """A statement once the trained models exist, once a run: behind the statement that makes the
        optimizer.
        {model} is filled in; one statement a trained model."""

    def after_optimizer(self, statement: str) -> None:
        """Behind the statement that makes the optimizer; {optimizer} is filled in where it has a name. Once,
        behind the last optimizer, where it is not in the statement."""

    def around_forward(self, header: str) -> None:
        """`with ...:` (or other header) around the statements of the loop body from the first that calls a
        trained model up to
        the one before the backward call; where both are in one statement, it is split: `loss = ...` inside,
        `.backward()` behind."""

    def replace_backward(self, template: str) -> None:
        """`{loss}.backward()` replaced: `scaler.scale({loss}).backward()`."""

    def replace_step(self, template: str) -> None:
        """`{optimizer}.step()` replaced, may be several statements."""

    def on_batch(self, statement: str) -> None:
        """First statement of the body of the training loop; {batch} is the loop's target (a name or a tuple
        of names)."""

    def non_blocking(self) -> None:
        """`.to(device)` and `.cuda()` of batch tensors in the training loop get `non_blocking=True`."""

    def replace_text(self, kind: str, template: str, index: int = 0) -> None:
        """The expression or statement at a site of a kind (sync ...), replaced; {} is the present one."""
