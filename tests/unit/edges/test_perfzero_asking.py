"""What PerfZero's flags may say: methods, constructor arguments, windows, cloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime.edges.perfzero import flags
from laptime.edges.perfzero import flags as methods
from laptime.edges.perfzero.flags import Filter, Flags, Method, check_flags
from laptime.kit.errors import UsageError


def test_methods_may_be_lists_with_dots_or_a_colon() -> None:
    assert methods.parse(["a.b.C.one, a.b.C:two", "a.b.C.one"]) == [
        Method("a.b.C.one", "a.b.C", "one"),
        Method("a.b.C:two", "a.b.C", "two"),
    ]


def test_a_filter_is_an_expression_behind_the_class() -> None:
    assert methods.parse(["a.b.C.filter:bench_(x|y)$"]) == [
        Filter("a.b.C.filter:bench_(x|y)$", "a.b.C", "bench_(x|y)$")
    ]


@pytest.mark.parametrize(
    "word", ["C", "one", "a..C.one", "a.C.one two", "a/b.C.one", "a.C.", ".C.x", "C.filter:x", "a.C.filter:("]
)
def test_what_names_no_method_is_refused(word: str) -> None:
    with pytest.raises(UsageError):
        methods.parse([word])


def test_what_a_filter_and_a_name_both_mean_runs_once() -> None:
    wanted = methods.parse(["m.C.two", "m.C.filter:t"])
    found = methods.expand(wanted, lambda each: ["two", "three"])
    assert [each.name for each in found] == ["m.C.two", "m.C.three"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"perfzero_constructor_args": "{batch: 1}"},
        {"perfzero_constructor_args": "[1]"},
        {"benchmark_num_trials": 0},
        {"profiler_enabled_time": "5:3"},
        {"profiler_enabled_time": "1:2,1:3"},
        {"profiler_enabled_time": "now"},
        {"gcloud_key_file_url": "gs://tf-performance/auth_tokens/key.json"},
        {"tpu_parameters": '{"name": "x", "size": "v3-8"}'},
        {"execution_id": "../elsewhere"},
        {"execution_id": ".."},
        {"execution_id": ""},
        {"python": "/nowhere/python"},
    ],
)
def test_a_flag_that_cannot_be_carried_out_is_refused_in_three_lines(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError) as caught:
        check_flags(Flags(**wrong))  # type: ignore[arg-type]
    assert caught.value.why
    assert caught.value.next


def test_windows_of_the_profiler_may_be_open_at_the_end() -> None:
    assert flags.windows(Flags(profiler_enabled_time="3:5,10:")) == [(3.0, 5.0), (10.0, flags.FOREVER)]


def test_a_tpu_that_runs_already_is_handed_on() -> None:
    assert flags.tpu(Flags(tpu_parameters='{"name": "mine", "using_prestarted_tpu": "true"}')) == "mine"


def test_flags_are_listed_as_perfzero_lists_them(tmp_path: Path) -> None:
    given = Flags(benchmark_methods=["a.C.x"], execution_id="run", python_path="bench").as_given()
    assert given == {
        "use_cached_site_packages": False,
        "benchmark_num_trials": 1,
        "benchmark_methods": ["a.C.x"],
        "python_path": "bench",
        "workspace": "workspace",
        "root_data_dir": "/data",
        "gcloud_key_file_url": "",
        "debug": False,
        "execution_id": "run",
        "perfzero_constructor_args": "",
    }
