"""Every number that a report prints with an interval lies in it and has a unit, for every kind of run.

A token's price once stood beside the interval of a request: `6 USD per 1 M tokens [554, 572]`.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures import costs, pages, profiles, runs, tunings
from laptime.kit import registry
from laptime.records.cost import Cost
from laptime.records.run import Run
from laptime.reports import document as doc
from laptime.reports.documents import cost as costs_shown
from laptime.reports.documents import document
from laptime.reports.formats import markdown, text
from laptime.reports.page.render import render as render_document
from laptime.verbs.cost.request import CostRequest
from laptime.verbs.cost.run import cost as cost_of

RUNS: dict[str, Callable[[], Run]] = {
    **runs.scenarios(),
    **tunings.samples(),
    "checked": runs.checked,
    "suite": runs.suite,
    "profile": profiles.example,
    "profile-cpu": profiles.cpu_only,
    "load": lambda: costs.run(costs.level(20.0, 0.5), costs.level(40.0, 0.6), verb="load"),
    "load-tokens": lambda: costs.run(costs.level(20.0, 0.5, tokens=32), verb="load"),
    "load-users": lambda: costs.run(costs.one_user(), verb="load"),
    "load-unstable": lambda: costs.run(costs.level(80.0, 0.02, served=40.0), verb="load"),
}
COSTS: dict[str, Callable[[], Cost]] = {
    "batches": pages.batches,
    "cores": pages.cores,
    "tuned": pages.tuned,
    "tokens": lambda: priced(costs.level(20.0, 0.5, tokens=100)),
    "tokens-of-one-user": lambda: priced(costs.one_user()),
}
NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
INTERVAL = re.compile(rf"(?<!\[)(?<!\], )\[({NUMBER}|-?inf), ({NUMBER}|-?inf)\]\s*([^\s,;:()|<>\]]*)")
BESIDE = ("speedup", "ratio", "usd", "usd_per_million", "value", "step", "rate", "latency")
"""Keys of JSON that `ci95` may belong to, the first that is there."""
UNITLESS = re.compile(r"[a-zA-Z%/±]")


def priced(*cases: Any, **options: Any) -> Cost:
    run = costs.run(*cases, verb="load" if cases[0].requests else "bench")
    return cost_of([run], CostRequest(usd_per_hour=4.0, **options))


def number(shown: str) -> float:
    return float(shown.replace(",", ""))


def last_digit(shown: str) -> float:
    """What one step of the last digit that is shown is worth; a rounded number may be half of it off."""
    digits = shown.lstrip("-").replace(",", "")
    whole, _, decimals = digits.partition(".")
    return 10.0 ** -len(decimals) if decimals else 10.0 ** (len(whole) - len(whole.rstrip("0")))


def lies_within(value: str, low: str, high: str) -> bool:
    slack = max(
        map(last_digit, (value, low if "inf" not in low else "1", high if "inf" not in high else "1"))
    )
    return number(low) - slack <= number(value) <= number(high) + slack


def strays(shown: str) -> list[str]:
    """Intervals in a text that do not hold the number before them."""
    found = []
    for line in shown.splitlines():
        for match in INTERVAL.finditer(line):
            before = re.sub(r"(?i)per 1 M\b|\b95 %|\bp\d\d\b", "", line[: match.start()])
            numbers = re.findall(rf"(?<![\w.,]){NUMBER}", before)
            if numbers and not lies_within(numbers[-1], match[1], match[2]):
                found.append(line.strip())
    return found


def stray_pairs(value: Any, where: str = "") -> Iterator[str]:
    """Intervals of a JSON document that do not hold the number that they belong to."""
    if isinstance(value, dict):
        if isinstance(value.get("ci95"), list):
            # Of cores the interval is that of the rate; elsewhere a cost comes before its rate.
            order = reversed(BESIDE) if "threads" in value and "efficiency" in value else BESIDE
            key = next((key for key in order if isinstance(value.get(key), int | float)), None)
            low, high = (float("inf") if end is None else float(end) for end in value["ci95"])
            if key is None or not min(low, high) <= float(value[key]) <= max(low, high):
                yield f"{where}: {key} {value.get(key or '')} {value['ci95']}"
            if (
                key == "value"
                and not value.get("unit", value.get("metric"))
                and not where.endswith("speedup")
            ):
                yield f"{where}: no unit"
        for name, item in value.items():
            yield from stray_pairs(item, f"{where}.{name}")
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from stray_pairs(item, f"{where}[{at}]")


def parts(value: Any) -> Iterator[Any]:
    """All structs of a document."""
    if isinstance(value, msgspec.Struct):
        yield value
        for name in value.__struct_fields__:
            yield from parts(getattr(value, name))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from parts(each)


def without_units(made: doc.Document) -> Iterator[str]:
    """Cells and cards with an interval of which neither they nor their heads say the unit."""
    for part in parts(made):
        if isinstance(part, doc.Table):
            for row in part.rows:
                for column, cell in zip(part.columns, row.cells, strict=False):
                    if isinstance(cell, doc.Cell) and cell.interval:
                        words = f"{cell.text}{cell.interval.replace('inf', '')}"
                        if not UNITLESS.search(words) and not re.search(
                            r"USD|speedup|/s|ratio", column.title
                        ):
                            yield f"{column.title}: {cell.text} {cell.interval}"
        if (
            isinstance(part, doc.Card)
            and part.interval
            and not UNITLESS.search(f"{part.figure}{part.interval}{part.title}")
        ):
            yield f"{part.title}: {part.figure} {part.interval}"


def plain(page_text: str) -> str:
    """A page without tags, a row a line."""
    body = re.sub(r"(?s)<(script|style).*?</\1>", "", page_text)
    body = re.sub(r"</(tr|p|div|li|td|text|title|h\d)>", "\n", body.replace("</td>", " "))
    return html.unescape(re.sub(r"<[^>]*>", " ", body))


def off(made: doc.Document) -> Iterator[str]:
    """Cells and cards whose number lies outside of their interval, whatever format shows them."""
    for part in parts(made):
        interval = part.interval if isinstance(part, doc.Cell | doc.Card) else ""
        shown = part.text if isinstance(part, doc.Cell) else part.figure if isinstance(part, doc.Card) else ""
        if interval and re.search(r"\d", shown):
            yield from strays(f"{shown} {interval}")


FORMATS = ("html", "json", "markdown", "text")


def check_run(made: Run, formats: tuple[str, ...] = FORMATS) -> None:
    for name in formats:
        shown = registry.load("reports", name).render(made)
        if name == "json":
            assert not list(stray_pairs(json.loads(shown)))
        else:
            assert not strays(plain(shown) if name == "html" else shown.replace("\\", "")), name
    assert not list(off(document(made)))
    assert not list(without_units(document(made)))


@pytest.mark.parametrize("name", RUNS)
def test_every_number_of_a_stored_run_lies_in_its_interval(name: str) -> None:
    check_run(RUNS[name]())


@pytest.mark.parametrize("name", COSTS)
def test_every_number_of_a_cost_lies_in_its_interval(
    name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path))
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path))
    made = COSTS[name]()
    shown = costs_shown.document(made)
    assert not list(stray_pairs(costs_shown.data(made)))
    assert not list(without_units(shown))
    assert not list(off(shown))
    for told in (
        text.render_document(shown),
        markdown.render_document(shown),
        plain(render_document(shown)),
    ):
        assert not strays(told.replace("\\", ""))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.floats(1e-4, 10.0), min_size=1, max_size=60),
    st.integers(1, 64),
    st.sampled_from(["isolated", "saturated", "paced"]),
)
def test_whatever_was_sampled(seconds: list[float], batch: int, regime: str) -> None:
    case = runs.case(runs.timings(0.01), axes={"batch": batch, "device": "cpu"})
    series = msgspec.structs.replace(
        case.series[0], samples=seconds, at=[], calls=[], label=[], round=[], process=[]
    )
    series = msgspec.structs.replace(series, regime=regime)
    check_run(runs.run(msgspec.structs.replace(case, series=[series])), ("json", "text"))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.floats(0.5, 100.0), st.floats(0.005, 2.0), st.integers(1, 300), st.floats(0.5, 1e3))
def test_whatever_was_answered(rate: float, seconds: float, tokens: int, served: float) -> None:
    level = costs.level(rate, seconds, tokens=tokens, n=200, served=served)
    check_run(costs.run(level, verb="load"), ("json", "text"))
    made = priced(level)
    assert not list(stray_pairs(costs_shown.data(made)))
    assert not strays(text.render_document(costs_shown.document(made)))


def test_the_checks_see_what_was_wrong() -> None:
    assert strays("6 USD       per 1 M tokens [554, 572], at 1 user")
    assert not strays("5.62 USD per 1 M tokens [5.54, 5.72]")
    assert list(stray_pairs({"speed": {"rate": 197.5, "ci95": [1.9, 2.1]}}))
    assert list(stray_pairs({"usd_per_million": 5.6, "ci95": [554, 572]}))
    column, cell = doc.Column(title="time"), doc.Cell(text="26.3", interval="[25.9, 26.8]")
    bare = doc.Table(id="x", columns=[column], rows=[doc.Row(cells=[cell])])
    headline = doc.Headline(word="x", tone="neutral", sentence="")
    section = doc.Section(id="x", title="x", blocks=[bare])
    made = doc.Document(verb="x", title="x", verdict=headline, sections=[section], data=dict)
    assert list(without_units(made))
    assert not list(off(made))
