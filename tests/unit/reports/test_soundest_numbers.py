"""Numbers of a case come from calls that nothing disturbed, where there are any: in table, cards and knee."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.records.case import Case
from laptime.records.check import Check, Finding
from laptime.records.run import Run
from laptime.records.series import Label, Series
from laptime.reports.document import Chart, Panels, Table
from laptime.reports.documents import document
from laptime.reports.page.svg import HALF
from laptime.verbs.bench.postprocess import findings


def timed(level: float, regime: str, *, hit: bool) -> Series:
    """Samples that tell 340 times the level where other programs hit every one of them."""
    made = runs.timings(level * (340 if hit else 1), regime=regime, spread=0.001)
    return structs.replace(made, label=[int(Label.WAITED)] * len(made.samples)) if hit else made


def measured(batch: int, level: float, *, hit: str) -> Case:
    series = [timed(level, regime, hit=regime == hit) for regime in ("isolated", "saturated")]
    return runs.case(*series, axes={"batch": batch})


def sweep() -> Run:
    """Batch 1 gives 1,000/s, batch 64 400,000/s; no regime is sound for both."""
    return runs.run(measured(1, 1e-3, hit="isolated"), measured(64, 1.6e-4, hit="saturated"))


def table_of(run: Run) -> Table:
    section = next(each for each in document(run).sections if each.id == "cases")
    return next(block for block in section.blocks if isinstance(block, Table))


def test_the_table_tells_each_throughput_in_its_soundest_regime_and_names_it() -> None:
    table = table_of(sweep())
    at = [column.title for column in table.columns].index("throughput")
    assert not table.columns[at].regime
    cells: list[Any] = [row.cells[at] for row in table.rows]
    first, last = cells
    assert first.value == pytest.approx(1000, rel=0.01)
    assert first.text.endswith(" saturated")
    assert last.value == pytest.approx(400_000, rel=0.01)
    assert last.text.endswith(" isolated")


def test_cards_and_charts_tell_the_same() -> None:
    made = document(sweep())
    card = next(each for each in made.cards if "throughput" in each.title)
    assert card.figure.startswith(("400,", "399,", "401,"))
    panels = next(each for each in made.sections if each.id == "batch").blocks[0]
    assert isinstance(panels, Panels)
    drawn = next(b for b in panels.blocks if isinstance(b, Chart) and "Throughput" in b.title)
    assert drawn.title == "Throughput"
    assert "batch 64: 40" in drawn.plot().draw(HALF) or "batch 64: 39" in drawn.plot().draw(HALF)


def test_the_knee_speaks_of_the_numbers_in_the_table() -> None:
    run = sweep()
    (knee,) = [each for each in findings(run.cases) if each.kind == "batch/knee"]
    assert knee.evidence["throughput"] == pytest.approx({"1": 1000, "64": 400_000}, rel=0.01)


def test_the_best_of_several_is_not_an_invalid_one() -> None:
    wrong = Check("agreement", "fail", "outputs differ")
    fast = structs.replace(runs.case(runs.timings(0.001), axes={"batch": 2}), checks=[wrong])
    run = runs.run(runs.case(runs.timings(0.010), axes={"batch": 1}), fast)
    card = document(run).cards[0]
    assert card.figure.startswith(("10.0", "9.9"))
    assert "lowest" not in card.title
    assert "batch 1" in card.note


def test_a_host_that_may_have_been_disturbed_is_no_finding() -> None:
    """2.5 times the device's time, of calls that waited for other programs: not host time."""
    alone = runs.timings(0.010, spread=0.001)
    alone = structs.replace(alone, label=[int(Label.WAITED)] * len(alone.samples))
    case = runs.case(alone, runs.timings(0.004, regime="device"), axes={"device": "cuda:0"})
    assert not [each for each in findings([case]) if isinstance(each, Finding)]
