"""Changes as arguments of a library's trainer: transformers.TrainingArguments, Lightning's Trainer."""

from typing import Any


def by_trainer(
    script: Any, hf: dict[str, str] | None = None, lightning: dict[str, str] | None = None
) -> bool:
    """Whether the script has a trainer, whose arguments are set then: nothing else has to be edited.
    script: `patch.editor.Editor`. hf: arguments of TrainingArguments by name, as Python source. lightning:
    the same of Lightning's Trainer."""
    for kind, arguments in (("hf_arguments", hf), ("lightning_trainer", lightning)):
        if arguments and script.has_site(kind):
            script.set_arguments(kind, **arguments)
            return True
    return False
