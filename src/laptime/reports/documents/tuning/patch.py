"""What a tuning session hands back: the patch, the recipe, and what is only suggested."""

from __future__ import annotations

from laptime.kit.text import count
from laptime.records.tuning import Tuning
from laptime.reports.document import Code, Facts, Folded, Section
from laptime.reports.documents.tuning import words

_SUGGESTED_LINES = 25


def section(tuning: Tuning) -> Section:
    """The patch, what is not in it, and what its trial run gave."""
    return Section(
        id="patch",
        title="The patch",
        blocks=[Facts(rows=facts(tuning)), Code(language="diff", text=tuning.patch.text, detail="folded")],
    )


def suggested(tuning: Tuning) -> Section:
    """The diff of what is never applied on its own; it grows from rung to rung."""
    diffs = [rung.suggestion for rung in tuning.ladder if "@@" in rung.suggestion]
    text = tuning.patch.suggestions or (diffs[-1] if diffs else "")
    return Section(
        id="suggested",
        title="Suggested, not applied",
        note="Never applied on its own, and not in the patch: only you can tell whether it is right.",
        folded=True,
        blocks=[Folded(title="The diff", blocks=[Code(language="diff", text=text, brief=_SUGGESTED_LINES)])],
    )


def facts(tuning: Tuning) -> list[tuple[str, str]]:
    """Where the patch and the recipe are, what they contain, and what became of them when tried out."""
    patch = tuning.patch
    rows: list[tuple[str, str]] = []
    if patch.path:
        hunks = ", ".join(patch.hunks)
        rows.append(("patch", f"{patch.path}: {count(len(patch.hunks), 'change')}: {hunks}"))
    rows += [("left out", f"{name}: {why}") for name, why in patch.left_out.items()]
    if results := _trial_run(tuning):
        has_run = patch.speedup is not None or patch.same_losses is not None
        rows.append(("verified" if patch.applies and has_run else "tried out", "; ".join(results)))
    if tuning.recipe:
        changes = ", ".join(map(words.change, tuning.recipe))
        place = f"{tuning.recipe_path}: " if tuning.recipe_path else ""
        rows.append(("recipe", place + changes))
    return rows


def _trial_run(tuning: Tuning) -> list[str]:
    patch, results = tuning.patch, []
    if patch.applies is not None:
        results.append("git apply --check " + ("accepts it" if patch.applies else "refuses it"))
    if patch.speedup is not None:
        whole = tuning.speedup
        # The gain is that of the patched script where every change is in the patch.
        is_gain = whole is not None and bool(whole.ratios) and whole.ratios == patch.speedup.ratios
        speed = f"the patched script, without hooks, is {words.speedup(patch.speedup)}"
        results.append("the gain above is that of the patched script, without hooks" if is_gain else speed)
    if patch.same_losses is not None:
        losses = "the recipe's losses" if patch.same_losses else "other losses than the recipe"
        results.append(f"it gives {losses}")
    if patch.sentence and (patch.speedup is None or not patch.path):
        results.append(patch.sentence)
    return results or (["not tried out"] if patch.path else [])
