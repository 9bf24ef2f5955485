"""Our own runs as PerfZero summaries: the same keys, numbers where its readers expect numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.edges.formats import perfzero
from laptime.probes import host_memory
from laptime.records.details import HostMemory, Memory
from laptime.records.environment import Device
from laptime.records.run import Run
from laptime.records.series import Metric, Series
from laptime.reports.formats import html

KEYS = {
    "execution_id",
    "execution_timestamp",
    "benchmark_result",
    "benchmark_info",
    "setup_info",
    "ml_framework_info",
    "system_info",
    "process_info",
}


def documents(run: Run) -> list[dict[str, Any]]:
    found = json.loads(perfzero.render(run))
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("story", sorted(runs.scenarios()))
def test_every_run_has_perfzeros_keys_and_one_of_ours(story: str) -> None:
    for document in documents(runs.scenarios()[story]()):
        assert set(document) == KEYS | {"laptime"}
        result = document["benchmark_result"]
        assert {type(result[name]) for name in ("wall_time",)} == {float}
        assert all(type(each["value"]) is float for each in result["metrics"])
        assert all(isinstance(value, int | float) for value in document["process_info"].values())


def test_one_case_is_an_object_and_several_are_a_list() -> None:
    one = runs.trusted()
    assert isinstance(json.loads(perfzero.render(structs.replace(one, cases=one.cases[:1]))), dict)
    more = structs.replace(one, cases=[one.cases[0], structs.replace(one.cases[0], key="other")])
    assert isinstance(json.loads(perfzero.render(more)), list)


def test_wall_time_is_the_median_latency_in_seconds() -> None:
    (document, *_) = documents(runs.trusted())
    metrics = {each["name"]: each["value"] for each in document["benchmark_result"]["metrics"]}
    assert document["benchmark_result"]["wall_time"] == metrics["latency/isolated/median"]
    assert metrics["exp_per_second"] > 0
    assert document["laptime"]["metrics"]["latency/isolated/median"]["ci95"]


def test_accelerators_and_sockets_are_told_where_they_are_known() -> None:
    run = runs.trusted()
    gpus = [Device(name=f"cuda:{n}", model="NVIDIA H200", driver="570.1") for n in range(2)]
    machine = structs.replace(run.environment, sockets=2, devices=[*run.environment.devices, *gpus])
    system = documents(structs.replace(run, environment=machine))[0]["system_info"]
    assert system["accelerator_model"] == "NVIDIA H200"
    assert system["accelerator_count"] == 2
    assert system["accelerator_driver_version"] == "570.1"
    assert system["cpu_socket_count"] == 2
    assert documents(run)[0]["system_info"]["cpu_socket_count"] == -1


def test_cpu_time_of_calls_is_a_share_of_one_cpu_over_time() -> None:
    run = runs.trusted()
    times = run.cases[0].find("latency", "isolated")
    assert times is not None
    metric = Metric(tag="disturbance/cpu", unit="s", title="cpu")
    used = structs.replace(times, metric=metric, samples=[1.5 * each for each in times.samples])
    case = structs.replace(run.cases[0], series=[*run.cases[0].series, used])
    document = documents(structs.replace(run, cases=[case]))[0]
    assert document["process_info"]["max_cpu_percent"] == pytest.approx(150.0)
    curve = document["laptime"]["process"]["cpu_percent"]
    assert 0 < len(curve) <= perfzero.POINTS
    assert curve[0]["time"] < curve[-1]["time"]


def test_peaks_are_whole_bytes() -> None:
    case = runs.trusted().cases[0]
    peak = Series(metric=Metric(tag="memory/host/peak", unit="B", title="peak"), samples=[2.0**30])
    others = [each for each in case.series if each.metric.tag != "memory/host/peak"]
    details = structs.replace(case.details, memory=Memory(host=HostMemory(virtual=2**31)))
    case = structs.replace(case, series=[*others, peak], details=details)
    found = documents(structs.replace(runs.trusted(), cases=[case]))[0]["process_info"]
    assert (found["max_rss"], found["max_vms"]) == (2**30, 2**31)
    assert type(found["max_rss"]) is int


def test_the_page_draws_processes_over_time() -> None:
    run = runs.trusted()
    looks = Series(metric=host_memory.OVER_TIME, samples=[2.0**30, 1.5 * 2**30, 2.0**31], at=[-1.0, 0.5, 2.0])
    case = structs.replace(run.cases[0], series=[*run.cases[0].series, looks])
    page = html.render(structs.replace(run, cases=[case]))
    assert "Process over" in page
    assert "memory over" in page
    assert "GiB" in page
    assert "Process over" not in html.render(run)
