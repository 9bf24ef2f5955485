"""Machines that are not at hand: what they cannot beat, and what they are predicted to do, each marked."""

from collections import Counter

from laptime.kit.text import count
from laptime.kit.units import percent, show, usd, usd_interval
from laptime.records.cost import Cost, Elsewhere
from laptime.reports import document as doc
from laptime.reports.documents.cost import words
from laptime.reports.fields import Field, tabulate

_BRIEF = 12  # rows on a terminal
_MOST = 150  # rows on the page; `--json` has all


def section(cost: Cost) -> doc.Section:
    """Sentences, then the machines that could be cheaper, then those that cannot."""
    worth = [row for row in cost.elsewhere if row.word in ("estimate", "open")]
    rest = [row for row in cost.elsewhere if row.word not in ("estimate", "open")]
    open_ = _table("open", "Machines that could cost less", worth, cost, brief=_BRIEF)
    cannot = [_table("ruled-out", "", rest, cost, brief=0)]
    folded = doc.Folded(f"{count(len(rest), 'machine')} that cannot", cannot, detail="page")
    facts = doc.Facts(_facts(cost) if cost.elsewhere else [])
    return doc.Section(
        "elsewhere",
        "Other machines",
        [facts, open_, folded],
        note="Nothing here was measured. A bound is a proof: the machine does no better. A prediction is an "
        "estimate with an interval, made between machines that were measured.",
    )


def _facts(cost: Cost) -> list[tuple[str, str]]:
    words_of: Counter[str] = Counter(row.word for row in cost.elsewhere)
    best = words.best(cost)
    price = f"{words.price(best.cost).text} USD per 1 M {words.units(cost)}"
    measured = f"{price} measured on {best.machine}"
    words_of["old"] = sum(row.is_old for row in cost.elsewhere)
    topics = (
        ("ruled out", "ruled out", f": even their best case costs more than {measured}"),
        ("open", "open", f" could cost less: their bound is below {measured}"),
        ("estimate", "predicted", ", between those that were measured"),
        ("does not fit", "memory", " too small for it"),
        ("unknown", "unknown", " whose peak is not known"),
        ("old", "old", " with a price that is too old: these come last"),
    )
    rows = [(topic, count(words_of[key], "machine") + text) for key, topic, text in topics if words_of[key]]
    if cost.work is not None:
        flops = " + ".join(f"{show(number, 'FLOP')} in {dtype}" for dtype, number in cost.work.flops.items())
        rows.append(("bound", f"a call needs at least {flops}: {cost.work.source}"))
    if cost.prediction is not None:
        rows.append(("prediction", _quality(cost)))
    return rows


def _quality(cost: Cost) -> str:
    quality = cost.prediction
    assert quality is not None
    if quality.why_not:
        return f"none: {quality.why_not}"
    wrong = f"off by {percent((quality.error or 1) - 1)}, at most {percent((quality.worst or 1) - 1)}"
    return f"from {', '.join(quality.machines)}; each left out and predicted from the others: {wrong}"


def _table(name: str, title: str, rows: list[Elsewhere], cost: Cost, *, brief: int) -> doc.Table:
    fields = [
        Field("machine", "machine.name", "code"),
        Field("kind", _kind),
        Field(f"USD per 1 M {words.units(cost)}", _price, "number"),
        Field("throughput", _rate, "number", priority=1),
        Field("a call", _call, "number", priority=2),
        Field("limit", lambda row: row.limit or "-", priority=3),
        Field("USD/h", words.show_field("machine.usd_per_hour"), "number"),
        Field("price seen", _show_seen, priority=1),
        Field("what is in it", lambda row: words.machine(row.machine) or "-", detail="page"),
        Field("why", lambda row: row.reason or "-", detail="page"),
        Field("source", lambda row: row.machine.source or "-", detail="page"),
    ]
    first = {id(row) for row in rows[:brief]}
    detail = lambda row: {"detail": "brief" if id(row) in first else "page"}  # noqa: E731
    return tabulate(name, fields, rows, row=detail, title=title, total=len(rows), most=_MOST)


def _show_seen(row: Elsewhere) -> doc.Cell:
    return doc.Cell((row.machine.seen or "-") + " (old)" * row.is_old, tone="unclear" * row.is_old)


def _kind(row: Elsewhere) -> doc.Cell:
    kind = row.word if row.usd_per_million is None else "bound" if row.kind == "bounded" else "prediction"
    return doc.Cell(kind, tone="" if row.kind == "bounded" else "unclear")


def _price(row: Elsewhere) -> doc.Cell:
    text = "-" if row.usd_per_million is None else _least(row) + usd(row.usd_per_million, row.ci95)
    return doc.Cell(text, row.usd_per_million, interval=usd_interval(row.ci95))


def _rate(row: Elsewhere) -> doc.Cell:
    most = "at most " if row.kind == "bounded" else ""
    return doc.Cell(f"{most}{show(row.rate, '1/s')}" if row.rate else "-", row.rate)


def _call(row: Elsewhere) -> doc.Cell:
    return doc.Cell(_least(row) + show(row.latency, "s") if row.latency else "-", row.latency)


def _least(row: Elsewhere) -> str:
    return "at least " if row.kind == "bounded" else ""
