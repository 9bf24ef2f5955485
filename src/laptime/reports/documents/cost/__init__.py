"""The document of costs: the answer, a line a speed, the bill, the bounds of other machines."""

import shlex
from functools import partial
from typing import Any

import msgspec

from laptime.kit.text import count
from laptime.kit.units import usd, usd_interval
from laptime.records.cost import Cost, Line
from laptime.reports import document as doc
from laptime.reports.documents.cost import elsewhere, lines, words
from laptime.reports.fields import Field, tabulate


def document(cost: Cost) -> doc.Document:
    """Everything that a report says about a cost."""
    return doc.Document(
        verb="cost",
        title=words.title(cost),
        verdict=_headline(cost),
        conditions=words.conditions(cost),
        warnings=[*cost.warnings, *_list_refused(cost)],
        cards=words.cards(cost),
        brief=[
            *lines.brief(cost),
            words.bill(cost).blocks[0],
            *lines.savings(cost).blocks,
            *elsewhere.section(cost).blocks,
        ],
        sections=[
            lines.section(cost),
            words.bill(cost),
            lines.savings(cost),
            lines.chart(cost),
            lines.cores(cost),
            elsewhere.section(cost),
            _prices(cost),
        ],
        data=partial(data, cost),
        embedded=not cost.elsewhere,  # a thousand machines are half a megabyte
        about="Prices are list prices of the days beside them, without taxes, storage and traffic. "
        "The same numbers for machines: laptime cost --json.",
    )


def data(cost: Cost) -> dict[str, Any]:
    """The cost for machines; an interval that is open to one side has a null end."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(cost))
    return document


def _headline(cost: Cost) -> doc.Headline:
    """Answer the last question first: the saving, else the cheapest line."""
    best = words.best(cost)
    if len(cost.savings) == 1:
        saving = cost.savings[0]
        word = {"cheaper": f"{saving.ratio:.2f}x cheaper", "dearer": f"{1 / saving.ratio:.2f}x dearer"}
        sentence = f"{usd(saving.usd_before)} -> {usd(saving.usd_after)} USD per 1 M {words.units(cost)}"
        around = f" (ratio {saving.ratio:.2f} {usd_interval(saving.ci95)})".replace(" )", ")")
        tone: doc.Tone = {"cheaper": "trusted", "dearer": "invalid"}.get(saving.word, "noisy")  # type: ignore[assignment]
        return doc.Headline(word.get(saving.word, "unclear"), tone, sentence + around, next=_next(cost, best))
    price = words.price(best.cost)
    text = f"per 1 M {words.units(cost)} {price.interval}".rstrip()
    of = f", {best.speed.label}" if len(cost.lines) > 1 else ""
    noisy = f"; the measurement is {best.speed.verdict}" if best.speed.verdict != "trusted" else ""
    machine = f"on {best.machine} at {usd(best.usd_per_hour)} USD/h"
    return doc.Headline(
        f"{price.text} USD",
        "noisy" if best.speed.verdict == "noisy" else "trusted",
        f"{text}, {words.at(best.speed)}{of}, {machine}{noisy}",
        next=_next(cost, best),
    )


def _next(cost: Cost, best: Line) -> list[str]:
    again = f"laptime cost {best.speed.run}{_options(cost, best)}"
    if not cost.slo and best.speed.at == "saturation":
        return [f"{again} --slo latency=100ms@p99"]
    is_bounded = best.speed.unit not in ("request", "token") and best.speed.at != "training"
    return [f"{again} --where"] if is_bounded and not cost.elsewhere else []


def _options(cost: Cost, best: Line) -> str:
    """The options that gave the machine, its price and the promise; the run tells the others."""
    priced = next(each for each in cost.machines if each.machine.name == best.machine)
    machine, words = priced.machine, []
    if machine.provider and priced.known_by in ("machine", "flag"):
        # A flexible shape costs the same in all of its regions.
        at = f"@{machine.region}" if machine.region and " " not in machine.region else ""
        words += ["--machine", machine.name + at]
    words += ["--prices", cost.prices] * bool(cost.prices) + ["--slo", cost.slo] * bool(cost.slo)
    typed = ["--usd-per-hour", f"{machine.usd_per_hour:.12g}"]
    words += {"listed": [], "typed": typed}.get(priced.price, [f"--{priced.price}"])
    return f" {shlex.join(words)}" if words else ""


def _list_refused(cost: Cost) -> list[str]:
    if not cost.refused:
        return []
    first = cost.refused[0]
    more = f", and {count(len(cost.refused) - 1, 'more row')}" if len(cost.refused) > 1 else ""
    return [f"{first.file}, line {first.line} ({first.name or 'no row'}) was left out: {first.reason}{more}"]


def _prices(cost: Cost) -> doc.Section:
    """Every price with who said so and when; rows that were refused."""
    fields = [
        Field("machine", "machine.name", "code"),
        Field("region", lambda each: each.machine.region or "-"),
        Field("USD/h", words.show_field("machine.usd_per_hour"), "number"),
        Field("age", lambda each: each.age or "typed"),
        Field("source", lambda each: each.machine.source or "-"),
        Field("known by", "known_by"),
    ]
    faults = [
        Field("file", "file", "code"),
        Field("line", "line", "count"),
        Field("machine", lambda each: each.name or "-", "code"),
        Field("why", "reason"),
    ]
    refused = tabulate("refused", faults, cost.refused, title="Rows that were left out", most=50)
    prices = tabulate("price", fields, cost.machines)
    return doc.Section("prices", "Prices", [prices, refused], detail="folded")
