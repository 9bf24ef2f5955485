"""The document for machines: keys that stay, numbers that JSON can hold, a schema made from the types."""

import json
import math

import msgspec
import pytest
from msgspec import structs

from fixtures import runs
from laptime.records.comparison import Comparison
from laptime.reports.documents.bench import data
from laptime.reports.formats import json as report


@pytest.mark.parametrize("name", sorted(runs.scenarios()))
def test_document_reads_back_as_its_own_type(name):
    text = report.render(runs.scenarios()[name]())
    read = msgspec.json.decode(text, type=data.Report)
    assert msgspec.json.encode(read, enc_hook=str) == msgspec.json.format(text.encode(), indent=-1)


def test_keys_that_scripts_rely_on_are_there():
    document = json.loads(report.render(runs.noisy()))
    assert document["schema"] == "laptime.report/1"
    assert document["verdict"] == "noisy"
    assert document["environment"]["fingerprint"] == runs.environment().fingerprint
    (case,) = document["cases"]
    median = case["metrics"]["latency/isolated/median"]
    assert set(median) == {"value", "unit", "ci95", "n", "regime", "title", "better", "note"}
    assert median["ci95"][0] <= median["value"] <= median["ci95"][1]
    warned = [reason for reason in document["reasons"] if reason["outcome"] == "warn"]
    assert warned[0]["case"] == case["key"]
    assert "other programs" in warned[0]["next"]


def test_host_name_is_left_out():
    assert runs.environment().host not in report.render(runs.trusted())


def test_infinity_and_nan_become_null():
    key = runs.trusted().cases[0].key
    open_ended = Comparison(
        baseline=key,
        candidate=key,
        metric="latency/isolated",
        speedup=math.nan,
        ci95=(0.9, math.inf),
        word="unclear",
        margin=0.01,
        pairs=3,
    )
    bad = runs.single("odd", "K", math.nan)
    made = structs.replace(
        runs.run(runs.case(bad, details={"model": {"deep": [{"x": -math.inf}]}})), comparisons=[open_ended]
    )

    def refuse(word):
        raise AssertionError(word)

    document = json.loads(report.render(made), parse_constant=refuse)
    assert document["comparisons"][0]["ci95"] == [0.9, None]
    assert document["comparisons"][0]["speedup"] is None
    assert document["cases"][0]["metrics"]["odd"]["value"] is None
    assert document["cases"][0]["details"] == {"model": {"deep": [{"x": None}]}}
