"""Every table as a cell a line: raw values in base units beside the words, and no formulas."""

import csv
from io import StringIO

from fixtures import profiles, runs, tunings
from laptime.reports.formats import csv as report


def lines(run):
    return list(csv.DictReader(StringIO(report.render(run))))


def cell(run, section, column, row="1"):
    (line,) = [
        line
        for line in lines(run)
        if (line["section"], line["column"], line["row"]) == (section, column, row)
    ]
    return line


def test_the_verdict_is_the_first_line():
    first = lines(runs.noisy())[0]
    assert (first["section"], first["name"]) == ("verdict", "noisy")


def test_a_number_has_its_raw_value_its_words_and_its_interval():
    latency = cell(runs.trusted(), "cases", "latency (isolated)")
    assert latency["text"] == "26.29 ms"
    assert abs(float(latency["value"]) - 0.02629) < 1e-5
    assert cell(runs.trusted(), "cases", "latency (isolated), 95 % interval")["text"] == "[26.24, 26.34] ms"


def test_nanoseconds_of_a_profile_are_seconds():
    (total,) = [
        line
        for line in lines(profiles.example())
        if (line["section"], line["table"], line["column"], line["row"])
        == ("by-kernel", "by name", "total", "1")
    ]
    assert (float(total["value"]), total["text"]) == (0.262, "262 ms")


def test_reasons_of_a_ladder_are_a_column():
    why = cell(tunings.full(), "ladder", "why")
    assert (why["name"], "gate passed" in why["text"]) == ("autocast_bf16", True)


def test_a_name_is_no_formula():
    cases = [
        runs.case(runs.timings(0.02), target="=HYPERLINK(0)"),
        runs.case(runs.timings(0.02, seed=2), target="@x"),
        runs.case(runs.timings(0.02, seed=3), target="-x"),
    ]
    texts = {line["text"] for line in lines(runs.run(*cases)) if line["column"] == "target"}
    assert texts == {"'=HYPERLINK(0)", "'@x", "'-x"}
