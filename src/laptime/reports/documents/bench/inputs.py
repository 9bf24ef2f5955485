"""What the calls of a run got: shapes, where they come from, and what is the batch in them."""

from __future__ import annotations

from laptime.records.case import AS_GIVEN, Case
from laptime.records.run import Run
from laptime.reports._words import label, printable

_ORIGINS = {
    "given": "as given",
    "known": "known for this model",
    "guessed": "guessed from the model's layers",
}
_MOST = 4


def inputs(run: Run) -> str:
    """A phrase for each different input, with its case where there are several; empty where none is known."""
    phrases: dict[str, str] = {}
    for case in run.cases:
        if text := _phrase(case):
            phrases.setdefault(text, label(case, run))
    if len(phrases) < 2:
        return next(iter(phrases), "")
    told = [f"{name}: {text}" for text, name in phrases.items()]
    more = [f"and {len(told) - _MOST} more"] if len(told) > _MOST else []
    return "; ".join([*told[:_MOST], *more])


def _phrase(case: Case) -> str:
    told = case.details.get("inputs", {})
    shapes, origin = str(told.get("shapes", "")), str(told.get("origin", ""))
    if not shapes or origin == "none":
        return ""
    if origin != "given":
        return ", ".join(printable(part) for part in (shapes, _ORIGINS.get(origin, origin)))
    before = str(case.details.get("model", {}).get("inputs", {}).get("shapes", shapes))
    is_other = before != shapes and told.get("resized")
    source = f"cut or repeated from {before}" if is_other else _ORIGINS[origin]
    doubt = case.details.get("outputs", {}).get("batch")
    why = printable("; ".join(str(each) for each in (told.get("batch_is", ""), doubt) if each))
    is_unknown = case.axes.get("batch") == AS_GIVEN
    lead = "the batch is not known, throughput counts calls" if is_unknown else f"batch {case.batch}"
    return f"{printable(shapes)}, {printable(source)}" + (f"; {lead}: {why}" if why else "")
