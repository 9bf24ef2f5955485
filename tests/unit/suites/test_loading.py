from __future__ import annotations

from pathlib import Path

import pytest

from laptime.kit.errors import UsageError, UserCodeError
from laptime.suites.loading import load

ONE = '[[benchmark]]\nname = "a"\ntarget = "null:noop"\n'


def written(folder: Path, text: str, name: str = "mine.toml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_suite_without_a_name_is_called_like_its_file(tmp_path: Path) -> None:
    (suite,) = load(written(tmp_path, ONE))
    assert suite.name == "mine"
    assert [each.name for each in suite.benchmark] == ["a"]


def test_defaults_hold_for_all_that_do_not_say_otherwise(tmp_path: Path) -> None:
    text = '[defaults]\nbatch = [1, 8]\ntags = ["x"]\n' + ONE + ONE.replace('"a"', '"b"') + "batch = 2\n"
    (suite,) = load(written(tmp_path, text))
    assert [each.batch for each in suite.benchmark] == [[1, 8], 2]
    assert all(each.tags == ["x"] for each in suite.benchmark)


@pytest.mark.parametrize(
    ("text", "what", "near"),
    [
        (ONE.replace("benchmark", "benchmarks"), "unknown key 'benchmarks'", "did you mean 'benchmark'?"),
        (ONE + "btach = 1\n", "benchmark 'a' has an unknown key 'btach'", "did you mean 'batch'?"),
        ("[defaults]\ndtpye = 1\n" + ONE, "[defaults] has an unknown key 'dtpye'", "did you mean 'dtype'?"),
        (ONE + 'batch = "many"\n', "benchmark 'a' is not valid", "`batch`"),
        (ONE + ONE, "two benchmarks called 'a'", 'name = "a again"'),
        (ONE + 'targets = ["b:c"]\n', "both target and targets", "compared with each other"),
        ('[[benchmark]]\nname = "a"\n', "has no target", "target ="),
        ('[[benchmark]]\ntarget = "b:c"\n', "is not valid", "missing required field `name`"),
        (ONE.replace('"a"', '"a/b"'), "'a/b' is not a name", "letters"),
        ("name = 'x'\n", "has no benchmark", "[[benchmark]]"),
        ("name = \n", "is not TOML", "line 1"),
    ],
)
def test_what_a_suite_cannot_say_is_told_with_what_it_can(
    tmp_path: Path, text: str, what: str, near: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load(written(tmp_path, text))
    assert what in caught.value.what
    assert near in f"{caught.value.why} {caught.value.next}"


def test_a_name_that_means_nothing_gets_the_nearest_suite(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load("standrad")
    assert "standard?" in caught.value.next
    written(tmp_path, ONE)
    with pytest.raises(UsageError) as caught:
        load(str(tmp_path / "mien.toml"))
    assert f"{tmp_path / 'mine.toml'}?" in caught.value.next


def test_a_python_file_builds_suites(tmp_path: Path) -> None:
    text = """
from laptime.suites import Benchmark, Suite

def build():
    return len

each = [Benchmark(name=f"b{n}", target="two.py:build", batch=n) for n in (1, 8)]
sizes = Suite(name="sizes", benchmark=each)
"""
    (suite,) = load(written(tmp_path, text, "two.py"))
    assert [each.batch for each in suite.benchmark] == [1, 8]
    assert suite.benchmark[0].target == f"{tmp_path}/two.py:build"


@pytest.mark.parametrize(
    ("text", "error", "what"),
    [
        ("x = 1", UsageError, "does not define a suite"),
        ("1 / 0", UserCodeError, "raised while it was imported"),
        (
            "from laptime.suites import Benchmark, Suite\n"
            "s = Suite(benchmark=[Benchmark(name='a', target='b:c', batch='x')])",
            UsageError,
            "is not valid",
        ),
    ],
)
def test_what_is_wrong_with_a_python_file_is_told(
    tmp_path: Path, text: str, error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        load(written(tmp_path, text, f"broken_{abs(hash(text))}.py"))


def test_a_folder_holds_the_suites_of_its_files_and_runs_no_other_python(tmp_path: Path) -> None:
    written(tmp_path, ONE)
    written(tmp_path, "raise SystemExit", "model.py")
    written(tmp_path, "[tool.x]\ny = 1\n", "pyproject.toml")
    (tmp_path / "deep").mkdir()
    written(tmp_path / "deep", ONE, "other.toml")
    assert [suite.name for suite in load(str(tmp_path))] == ["other", "mine"]
    written(tmp_path / "deep", "name = 'mine'\n" + ONE, "other.toml")
    with pytest.raises(UsageError, match="'mine'"):
        load(str(tmp_path))


def test_an_empty_folder_is_no_suite(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no suite"):
        load(str(tmp_path))


def test_the_standard_suite_measures_the_models_of_the_articles() -> None:
    (suite,) = load("standard")
    names = {each.name for each in suite.benchmark}
    models = {"resnet18", "resnet50", "mobilenet_v3_large", "vit_b_16", "bert_base", "gpt_small"}
    models |= {f"efficientnet_b{size}" for size in range(8)}
    assert names == models | {f"{name}-train" for name in models}
    assert all(bool(each.train) == each.name.endswith("-train") for each in suite.benchmark)
