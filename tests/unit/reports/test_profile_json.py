"""The profile for machines: every key always there, whole nanoseconds, a schema made from the types."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from fixtures import profiles
from laptime.records.check import Finding
from laptime.records.overview import Breakdown, Overview
from laptime.records.profile import Profile
from laptime.reports import json_parts
from laptime.reports.documents.profile import schema as profile
from laptime.reports.formats import json as report
from laptime.reports.json_parts import plain

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "schemas" / "profile.schema.json").read_text(encoding="utf-8"))
STORIES = {"example": profiles.example, "cpu_only": profiles.cpu_only}
WANTED = ("steps", "overview", "operators", "kernels", "modules", "memory", "ranks", "findings")


def bare():
    """A profile of which next to nothing is known."""
    empty = Profile(files=[], overview=Overview(steps=0, step_ns=0, step_median_ns=0, breakdown=Breakdown()))
    return structs.replace(profiles.cpu_only(), profile=empty, findings=[], subjects=[])


@pytest.mark.parametrize("make", [*STORIES.values(), bare])
def test_document_reads_back_as_its_own_type(make):
    run = make()
    read = msgspec.json.decode(report.render(run), type=profile.Document)
    assert plain(read) == plain(profile.report(run))


@pytest.mark.parametrize("make", [*STORIES.values(), bare])
def test_every_key_of_the_schema_is_there_even_where_nothing_is_known(make):
    schema = SCHEMA

    def check(value, kind):
        kind = schema["$defs"][kind["$ref"].rpartition("/")[2]] if "$ref" in kind else kind
        if isinstance(value, dict) and "properties" in kind:
            assert sorted(value) == sorted(kind["required"])
            for name, item in value.items():
                check(item, kind["properties"][name])
        if isinstance(value, list) and isinstance(kind.get("items"), dict):
            for item in value:
                check(item, kind["items"])

    document = json.loads(report.render(make()))
    assert set(WANTED) <= set(document)
    check(document, {"$ref": schema["$ref"]})


def test_the_whole_profile_but_its_drawing_is_in_the_document():
    fields = set(Profile.__struct_fields__) - {"timeline", "calls"}
    assert fields <= set(profile.Document.__struct_fields__)


def test_durations_are_whole_nanoseconds():
    def check(value, name=""):
        if isinstance(value, dict):
            for key, item in value.items():
                check(item, key)
        elif isinstance(value, list):
            for item in value:
                check(item, name)
        elif name.endswith("_ns") and value is not None:
            assert isinstance(value, int), name

    document = json.loads(report.render(profiles.example()))
    check({name: item for name, item in document.items() if name != "findings"})
    check([{"gain_ns": finding["gain_ns"]} for finding in document["findings"]])


def test_gain_is_told_in_nanoseconds_a_step():
    run = structs.replace(profiles.cpu_only(), findings=[Finding(kind="x", sentence="y", gain=0.0123)])
    (finding,) = json.loads(report.render(run))["findings"]
    assert finding["gain_ns"] == 12_300_000
    assert finding["stack"] == []


def test_a_trace_says_nothing_of_the_machine_that_only_read_it():
    read = structs.replace(profiles.example(), verb="trace")
    assert json.loads(report.render(read))["environment"] is None
    assert json.loads(report.render(profiles.example()))["environment"]["cpu"]
    assert profiles.example().environment.host not in report.render(profiles.example())


def test_long_curves_stay_on_one_line():
    lines = report.render(profiles.example()).splitlines()
    (curve,) = [line for line in lines if '"busy_curve": [0' in line][:1]
    assert len(json.loads(re.sub(r'^\s*"busy_curve": |,$', "", curve))) == 120


def test_infinity_and_nan_become_null():
    seen = structs.replace(profiles.cpu_only().profile.overview, threads_busy=float("nan"))
    run = structs.replace(
        profiles.cpu_only(), profile=structs.replace(profiles.cpu_only().profile, overview=seen)
    )
    assert json.loads(report.render(run))["overview"]["threads_busy"] is None


def test_every_key_is_in_the_documentation():
    page = (ROOT / "docs" / "trace.md").read_text()
    documented = set(re.findall(r"`([a-z_0-9]+)`", page))
    keys = {name for kind in SCHEMA["$defs"].values() for name in kind.get("properties", {})}
    shared = set(json_parts.Environment.__struct_fields__) | {"origin", "value", "details", "driver", "model"}
    assert not keys - documented - shared
