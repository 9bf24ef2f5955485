"""The document of two stored runs beside each other: the words, then what each of the two was."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from laptime.kit.text import count
from laptime.records.comparison import Comparison
from laptime.records.run import Run
from laptime.reports import _words
from laptime.reports import document as doc
from laptime.reports.documents.bench import comparisons as drawn

_OUTCOMES: dict[str, doc.Outcome] = {"slower": "failure", "unclear": "error"}


def document(baseline: Run, candidate: Run, comparisons: Sequence[Comparison]) -> doc.Document:
    """Every case that both runs have; `baseline` is what the other is held against."""
    cases = [" against ".join(dict.fromkeys([each.candidate, each.baseline])) for each in comparisons]
    pairs = zip(comparisons, map(_words.printable, cases), strict=True)
    described = [(each, text, drawn.sentence_of(each)) for each, text in pairs]
    sides = doc.Facts([("baseline", _title(baseline)), ("candidate", _title(candidate))])
    rows = [(each.word, f"{cases}: {each.metric}: {sentence}") for each, cases, sentence in described]
    return doc.Document(
        verb="compare",
        title=f"{_words.title(candidate)} against {_words.title(baseline)}",
        verdict=_headline(described),
        conditions=_words.machine(candidate),
        brief=[sides, *([doc.Facts(rows)] if len(rows) > 1 else [])],
        sections=[
            doc.Section("sides", "The two runs", [sides], headed=False),
            doc.Section("words", "In words", [doc.Facts(rows, detail="text")], headed=False),
            drawn.strips(described),
        ],
        cases=[_test_case(*each) for each in described],
        data=lambda: data(baseline, candidate, comparisons),
        about="Two runs of different times share neither the machine's minutes nor its neighbours: what lies "
        "between runs is in the intervals.",
    )


def data(baseline: Run, candidate: Run, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """The comparison for machines."""
    sides = {
        side: {"run": r.id, "verdict": r.trust, "started": r.started, "name": r.name, "status": r.status}
        for side, r in (("baseline", baseline), ("candidate", candidate))
    }
    return {"schema": "laptime.compare/1", **sides, "comparisons": comparisons}


def _title(run: Run) -> str:
    trust = run.trust if run.status == "complete" else f"{run.trust}, {run.status}"
    return "  ".join(part for part in (run.id, run.started, run.name, trust) if part)


def _headline(described: Sequence[drawn.Described]) -> doc.Headline:
    if not described:
        return doc.Headline("unclear", "noisy", "the runs share no timed metric")
    made, words = drawn.sum_up(described, []), [each.word for each, _, _ in described]
    if len(described) == 1:
        return made
    numbers = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    return replace(made, sentence=f"{numbers} of {count(len(words), 'comparison')}")


def _test_case(each: Comparison, cases: str, sentence: str) -> doc.TestCase:
    """Slower is a failure; unclear is an error, because a pipeline must not pass on it."""
    kind = each.word if each.word in _OUTCOMES else ""
    outcome = _OUTCOMES.get(each.word, "passed")
    return doc.TestCase(cases, each.metric, outcome, kind, f"{each.word}: {sentence}")
