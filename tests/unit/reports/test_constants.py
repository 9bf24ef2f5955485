"""A stored run is reported with the constants of its own day."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from fixtures import runs, tunings
from laptime.analysis import tuned
from laptime.analysis.stat import Stat
from laptime.analysis.summary import throughput_regime
from laptime.kit.registry import load
from laptime.records.plan import TODAY, Constants
from laptime.records.quantity import Quantity
from laptime.records.run import Run
from laptime.records.series import Label
from laptime.store import files


def crowded() -> Run:
    """All but four samples of each latency are disturbed, and three times as long."""
    (case, *_) = runs.trusted().cases
    series = []
    for one in case.series:
        if one.metric.tag == "latency":
            hit = [index >= 4 for index in range(len(one.samples))]
            samples = [3 * value if bad else value for value, bad in zip(one.samples, hit, strict=True)]
            one = structs.replace(one, samples=samples, label=[Label.STOLEN * bad for bad in hit])
        series.append(one)
    return structs.replace(runs.trusted(), cases=[structs.replace(case, series=series)])


def document(run: Run, folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(files.save(run, folder).read_text())
    return content


def test_a_run_keeps_its_constants_in_its_file(tmp_path: Path) -> None:
    assert document(runs.trusted(), tmp_path)["constants"] == msgspec.to_builtins(TODAY)


def test_a_run_of_an_older_version_has_those_of_today(tmp_path: Path) -> None:
    content = document(runs.trusted(), tmp_path)
    del content["constants"]
    path = tmp_path / "older.json"
    path.write_text(json.dumps(content))
    assert files.read(path).constants == TODAY


@pytest.mark.parametrize("name", ["text", "markdown", "json", "html", "perfzero"])
def test_a_report_uses_the_constants_of_the_run(name: str, tmp_path: Path) -> None:
    render = load("reports", name).render
    run = structs.replace(crowded(), constants=Constants(few_samples=5))
    read = files.read(files.save(run, tmp_path))
    assert render(read) == render(structs.replace(run, id=read.id))
    assert render(read) != render(structs.replace(read, constants=TODAY))


def test_how_sound_a_throughput_has_to_be_is_of_its_day() -> None:
    def rate(regime: str, width: float) -> Stat:
        return Stat(
            tag=f"throughput/{regime}",
            title="",
            unit="1/s",
            quantity=Quantity(1.0, 1 - width, 1 + width, unit="1/s"),
            regime=regime,
        )

    rates = [{"saturated": rate("saturated", 0.04), "isolated": rate("isolated", 0.01)}]
    assert throughput_regime(rates, on_cpu=True) == "saturated"
    strict = Constants(sound_throughput=0.02)
    assert throughput_regime(rates, on_cpu=True, constants=strict) == "isolated"


def test_the_smallest_gain_of_a_session_is_told_as_on_its_day() -> None:
    run = tunings.full()
    assert run.tuning is not None
    control = tuned.control(run.tuning)
    assert control is not None
    off = structs.replace(control, verdict="faster", rounds=6, ci95=(1.02, 1.09))
    ladder = [off if rung is control else rung for rung in run.tuning.ladder]
    run = structs.replace(run, tuning=structs.replace(run.tuning, ladder=ladder))
    assert tuned.detectable(run) == pytest.approx(0.09)
    narrow = structs.replace(run, constants=Constants(widest_margin=0.05))
    assert tuned.detectable(narrow) == pytest.approx(0.05)
    patient = structs.replace(run, constants=Constants(control_rounds=7))
    assert tuned.detectable(patient) < 0.05
