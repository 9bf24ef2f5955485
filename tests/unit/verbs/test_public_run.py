from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import laptime
from fixtures.runs import case, compared, run, timings
from laptime.kit.errors import Unavailable, UsageError
from laptime.records.run import Run
from laptime.store import encoding


@pytest.fixture
def one() -> laptime.Run:
    return laptime.Run.of(run(case(timings(0.01))))


def test_it_is_the_record_with_its_numbers_at_hand(one: laptime.Run) -> None:
    assert isinstance(one, Run)
    assert encoding.decode(encoding.encode(one), Run) == run(case(timings(0.01)))
    assert one.latency.value == pytest.approx(0.01, rel=0.01)
    assert one.throughput.value == pytest.approx(100, rel=0.01)


def test_printed_it_is_a_few_lines_and_never_its_samples(one: laptime.Run) -> None:
    assert repr(one).startswith("latency     10.02 [")
    assert len(repr(one).splitlines()) <= 5
    assert one.trust in repr(one)
    assert len(repr(one)) < 600
    page = one._repr_html_()
    assert page.startswith('<div class="laptime"')
    assert "<th>latency (isolated)</th>" in page
    assert "10.02 [" in page
    assert len(page) < 4000


def test_of_many_cases_it_says_the_verdict_and_where_the_rest_is() -> None:
    many = laptime.Run.of(run(*(case(timings(0.01 * at), axes={"batch": at}) for at in range(1, 9))))
    *_, last = repr(many).splitlines()
    assert len(repr(many).splitlines()) == 5
    assert last == f"{many.trust}; 9 more lines: run.report('run.txt')"


def test_comparisons_are_a_line_each() -> None:
    from laptime.verbs.public_run import Comparisons

    lines = repr(Comparisons(compared().comparisons)).splitlines()
    assert len(lines) == len(compared().comparisons)
    assert lines[0].startswith(compared().comparisons[0].sentence)


def test_a_name_from_outside_is_escaped_in_a_notebook() -> None:
    page = laptime.Run.of(run(case(timings(0.01)), name="<script>alert(1)</script>"))._repr_html_()
    assert "<script>" not in page
    hostile = case(timings(0.01), target="<img src=x onerror=alert(1)>")
    assert "<img" not in laptime.Run.of(run(hostile))._repr_html_()


def test_a_run_without_times_says_so_instead_of_none() -> None:
    empty = laptime.Run.of(run(case()))
    with pytest.raises(UsageError, match="such number"):
        _ = empty.latency
    assert "laptime" in empty._repr_html_()


def test_several_cases_have_several_latencies() -> None:
    both = laptime.Run.of(run(case(timings(0.01)), case(timings(0.02), axes={"batch": 8})))
    with pytest.raises(UsageError, match="2 cases"):
        _ = both.latency


def test_reports_are_written_by_suffix(one: laptime.Run, tmp_path: Path) -> None:
    one.report(tmp_path / "run.html")
    assert (tmp_path / "run.html").read_text().startswith("<!doctype html>")
    one.report(str(tmp_path / "run.json"))
    assert json.loads((tmp_path / "run.json").read_text()) == one.to_dict()
    with pytest.raises(UsageError, match="no report"):
        one.report(tmp_path / "run.pdf")


def test_without_pandas_the_error_says_what_to_do(one: laptime.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Unavailable, match="pandas is"):
        one.to_pandas()


def test_a_frame_has_a_row_a_statistic(one: laptime.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pandas:
        DataFrame: Any = staticmethod(list)

    monkeypatch.setitem(sys.modules, "pandas", Pandas)
    rows: Any = one.to_pandas()
    (median,) = [row for row in rows if row["tag"] == "latency/isolated/median"]
    assert median["unit"] == "s"
    assert median["low"] < median["value"] < median["high"]
