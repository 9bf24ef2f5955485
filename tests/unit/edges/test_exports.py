"""What each export writes, read back with its own library; skipped where that is not installed."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fixtures import runs
from laptime.analysis.stat import Stat
from laptime.edges import exports
from laptime.edges.exports.prometheus import metric_name
from laptime.kit import registry
from laptime.kit.errors import Unavailable, UsageError
from laptime.kit.extras import install
from laptime.records.quantity import Quantity
from laptime.testing import conformance

ROOT = Path(__file__).parents[3]
LIBRARIES = {name: name for name in registry.names("exports")} | {"prometheus": "prometheus_client"}
MEDIAN = "latency/isolated/median"


def median(case: int = 0) -> float:
    """Of the run that is exported, by the tag's own definition."""
    run = runs.batches()
    return next(point.value for point in exports.points(run.cases[case], run) if point.tag == MEDIAN)


def test_points_are_statistics_with_intervals_and_a_verdict() -> None:
    run = runs.trusted()
    numbers = {point.tag: point for point in exports.points(run.cases[0], run)}
    assert numbers["verdict/trusted"].value == 1
    assert numbers["verdict/invalid"].value == 0
    low, high = numbers[f"{MEDIAN}/ci95_low"].value, numbers[f"{MEDIAN}/ci95_high"].value
    assert low < numbers[MEDIAN].value < high
    assert {numbers[MEDIAN].unit, numbers["throughput/isolated"].unit} == {"s", "1/s"}
    assert numbers["flops"].value == 3.628e9


def test_a_lower_bound_is_not_exported_as_the_number() -> None:
    receipt = {"count": {"complete": False, "doubtful": ["aten::x"]}}
    case = runs.case(runs.single("flops", "FLOP", 5e9), details=receipt)
    tags = {point.tag for point in exports.points(case, runs.run(case))}
    assert "flops/at_least" in tags
    assert "flops" not in tags


@pytest.mark.parametrize("name", registry.names("exports"))
def test_a_missing_library_names_its_extra(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in (*sys.modules, LIBRARIES[name]):
        if module.partition(".")[0] == LIBRARIES[name]:
            monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unavailable) as caught:
        exports.send(runs.trusted(), name, str(tmp_path))
    assert caught.value.next == install(name)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert name in extras
    assert not list(tmp_path.iterdir())


def test_a_run_without_cases_is_refused() -> None:
    with pytest.raises(UsageError, match="numbers to"):
        exports.send(next(iter(conformance.runs(["profile"]).values())), "prometheus")


def test_prometheus_names_have_base_units() -> None:
    assert metric_name(MEDIAN, "s") == "laptime_latency_isolated_median_seconds"
    assert metric_name("memory/host/peak", "B") == "laptime_memory_host_peak_bytes"
    assert metric_name("throughput/isolated", "1/s") == "laptime_throughput_isolated_per_second"


def sent(name: str, folder: Path) -> str:
    pytest.importorskip(LIBRARIES[name])
    return exports.send(runs.batches(), name, str(folder))


def test_prometheus_file_is_read_by_prometheus(tmp_path: Path) -> None:
    said = sent("prometheus", tmp_path)
    parser: Any = importlib.import_module("prometheus_client.parser")
    families = {each.name: each for each in parser.text_string_to_metric_families(Path(said).read_text())}
    samples = families["laptime_latency_isolated_median_seconds"].samples
    assert [sample.value for sample in samples] == [median(case) for case in range(len(samples))]
    assert len(samples) == len(runs.batches().cases)
    assert samples[0].labels["batch"] == "1"
    assert "run" not in samples[0].labels


def test_opentelemetry_writes_a_gauge_a_number(tmp_path: Path) -> None:
    lines = Path(sent("opentelemetry", tmp_path)).read_text().splitlines()
    assert len(lines) == len(runs.batches().cases)
    metrics = json.loads(lines[0])["resource_metrics"][0]["scope_metrics"][0]["metrics"]
    found = next(metric for metric in metrics if metric["name"] == "laptime.latency.isolated.median")
    assert found["unit"] == "s"
    assert found["data"]["data_points"][0]["value"] == median()
    assert found["data"]["data_points"][0]["attributes"]["batch"] == "1"


def test_opentelemetry_says_what_a_collector_refused() -> None:
    pytest.importorskip("opentelemetry.sdk")
    memory: Any = importlib.import_module("opentelemetry.sdk.metrics.export")
    from laptime.edges.exports.opentelemetry import Gauges

    class Refusing(memory.ConsoleMetricExporter):  # type: ignore[misc]
        def export(self, *_: Any, **__: Any) -> Any:
            return memory.MetricExportResult.FAILURE

    record = exports.Record("a", {}, [exports.Point("latency", 1.0, "s")])
    with pytest.raises(OSError, match="FAILURE"):
        Gauges(Refusing(), "memory").write(record)


def test_tensorboard_scalars_hold_the_numbers(tmp_path: Path) -> None:
    assert sent("tensorboard", tmp_path) == f"tensorboard --logdir {tmp_path}"
    reader: Any = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    files = sorted(tmp_path.rglob("events.out.tfevents.*"))
    assert len(files) == len(runs.batches().cases)
    events = reader.EventAccumulator(str(next(file for file in files if "batch=1_" in str(file))))
    events.Reload()
    assert events.Tensors(MEDIAN)[0].tensor_proto.float_val[0] == pytest.approx(median(), rel=1e-6)


@pytest.mark.slow
def test_mlflow_runs_hold_the_numbers(tmp_path: Path) -> None:
    said = sent("mlflow", tmp_path)
    tracking: Any = importlib.import_module("mlflow.tracking")
    client = tracking.MlflowClient(tracking_uri=said.rpartition(" ")[2])
    experiment = client.get_experiment_by_name("laptime").experiment_id
    found = client.search_runs([experiment], "params.batch = '1'")
    assert len(found) == 1
    assert found[0].data.metrics[MEDIAN] == median()
    assert json.loads(found[0].data.tags["laptime.units"])[MEDIAN] == "s"


@pytest.mark.slow
def test_wandb_is_offline_and_says_what_sends_it(tmp_path: Path) -> None:
    said = sent("wandb", tmp_path)
    folders = said.removeprefix("wandb sync ").split()
    assert len(folders) == len(runs.batches().cases)
    assert all(list(Path(folder).glob("*.wandb")) for folder in folders)
    assert MEDIAN.encode() in next(Path(folders[0]).glob("*.wandb")).read_bytes()


def test_wandb_refuses_an_address() -> None:
    with pytest.raises(UsageError, match="a folder"):
        exports.send(runs.trusted(), "wandb", "https://wandb.example")


def test_an_end_at_infinity_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    stat = Stat(
        tag="throughput/isolated",
        title="throughput",
        unit="1/s",
        quantity=Quantity(5.0, 1.0, float("inf"), unit="1/s"),
    )
    monkeypatch.setattr(exports, "summarize", lambda case, constants: {stat.tag: stat})
    run = runs.trusted()
    tags = {point.tag for point in exports.points(run.cases[0], run)}
    assert {stat.tag, f"{stat.tag}/ci95_low"} < tags
    assert f"{stat.tag}/ci95_high" not in tags
