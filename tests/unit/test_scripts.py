"""The scripts and files around the code: sizes, pins, the README's output, what a bare machine needs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """make as a user starts it, also when these tests were started by make."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(["make", *arguments], cwd=cwd, capture_output=True, text=True, env=outside)


# Pins


def test_constraints_hold_names_and_versions_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert pins == sorted(pins)
    assert all(re.fullmatch(r"[a-z0-9._-]+==[\w.+!]+", line) for line in pins)
    assert not any(line.startswith("laptime==") for line in pins)


def test_every_direct_dependency_is_pinned_and_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["torch"], *extras["dev"]]
    names = {re.split(r"[<>=!~ \[]", one)[0] for one in wanted}
    pinned = {
        line.partition("==")[0]
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    }
    assert names <= pinned


def test_a_freeze_loses_addresses_editable_installs_and_ourselves() -> None:
    frozen = "numpy==2.0\n-e file:///somewhere\nlaptime==0.1.0\npip==24\nx @ https://example.org/x.whl\nclick==8.1\n"
    assert script("pin").pins(frozen) == ["click==8.1", "numpy==2.0"]


# Sizes


def test_a_long_function_and_an_empty_name_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = script("size")
    monkeypatch.setattr(size, "ROOT", tmp_path)
    path = tmp_path / "helpers.py"
    path.write_text("def long():\n" + "    x = 1\n" * 51 + "def short():\n    return 1\n", encoding="utf-8")
    found = size.faults(path)
    assert len(found) == 2
    assert "'helpers'" in found[0]
    assert "51 lines, limit 50" in found[1]


def test_docstrings_and_parameters_do_not_make_a_function_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = script("size")
    monkeypatch.setattr(size, "ROOT", tmp_path)
    path = tmp_path / "fine.py"
    words = '    """Says' + "\n    much" * 60 + '"""\n'
    path.write_text(
        "def told(\n"
        + "    *,\n"
        + "".join(f"    x{i}=0,\n" for i in range(51))
        + "):\n"
        + words
        + "    return 1\n",
        encoding="utf-8",
    )
    assert size.faults(path) == []


def test_a_long_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = script("size")
    monkeypatch.setattr(size, "ROOT", tmp_path)
    path = tmp_path / "long.py"
    path.write_text("x = 1\n" * 401, encoding="utf-8")
    assert "401 lines, limit 400" in size.faults(path)[0]


def test_rooms_are_counted_by_their_first_folder() -> None:
    size = script("size")
    texts = {"kit/units.py": "a\nb\n", "kit/text.py": "a\n", "__init__.py": "a\n"}
    assert size.sizes(texts) == {"kit": 3, "(package)": 1}


ROOM = {"rules/__init__.py": "a\nb\n", "rules/_reading.py": "c\n", "rules/allocator.py": "d\n" * 9}


def test_an_extension_counts_for_no_ceiling_and_what_they_share_does() -> None:
    size = script("size")
    assert size.counted(ROOM) == {"rules": (2, 3)}
    assert size.counted({**ROOM, "rules/new.py": "e\n" * 99}) == size.counted(ROOM)
    assert size.counted({"edges/formats/asv.py": "x\n", "edges/callbacks.py": "y\n"}) == {"edges": (1, 1)}
    assert size.counted({"backends/torch/loading.py": "x\n"}) == {"backends": (1, 1)}


@pytest.mark.parametrize("ceiling", [(1, 3), (2, 2), (1, 2)])
def test_a_room_above_its_ceiling_is_a_fault_and_raises_none(ceiling: tuple[int, int]) -> None:
    size = script("size")
    now, ceilings = size.counted(ROOM), {"rules": size.Ceiling(*ceiling)}
    (sentence,) = size.above(now, ceilings)
    assert f"rules has 2 files and 3 lines, its ceiling is {ceiling[0]} and {ceiling[1]}" in sentence
    with pytest.raises(ValueError, match="its ceiling"):
        size.lowered(now, ceilings)


def test_ceilings_fall_to_todays_figures_and_follow_rooms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = script("size")
    monkeypatch.setattr(size, "CEILINGS", tmp_path / "ceilings.toml")
    now = size.counted({**ROOM, "(new)/a.py": "x\n"})
    size.write_ceilings(size.lowered(now, {"rules": size.Ceiling(5, 50), "gone": size.Ceiling(1, 1)}))
    assert size.read_ceilings() == {"(new)": (1, 1), "rules": (2, 3)}
    assert size.above(now, size.read_ceilings()) == []
    assert "no ceiling" in size.above(now, {"rules": size.Ceiling(2, 3)})[0]


# README


def test_the_readme_takes_the_output_of_a_run() -> None:
    readme = script("readme")
    before = "Words\n<!-- output:begin -->\nold\n<!-- output:end -->\nmore\n"
    after = readme.filled(before, "\x1b[1mtrusted\x1b[0m   \nbatch 1\n\n")
    assert after == (
        "Words\n<!-- output:begin -->\n```text\ntrusted\nbatch 1\n```\n<!-- output:end -->\nmore\n"
    )
    assert readme.filled(after, "trusted\nbatch 1") == after


def test_the_readme_leaves_out_what_was_not_tried_and_the_suggested_diff() -> None:
    told = (
        "  control   same\n  suggested defer_logging: see the diff\n  not tried compile: budget: no\n"
        "            time was left\n            huge_pages: no\n  ruled out tf32 (no CUDA device)\n\n"
        "Suggested, not applied\n  --- a/x.py\n\n  +++ b/x.py\n\nPatch\n  patch     none\n"
    )
    assert script("readme").shortened(told) == (
        "  control   same\n  suggested defer_logging: see the diff\n  ...\n\n"
        "Suggested, not applied\n  ...\n\nPatch\n  patch     none\n"
    )


def test_an_empty_output_does_not_empty_the_readme() -> None:
    with pytest.raises(ValueError, match="nothing came"):
        script("readme").filled("<!-- output:begin -->\n<!-- output:end -->", "\n")


def test_the_readme_has_a_place_for_the_output() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "trusted" in script("readme").filled(text, "trusted")


# The device script


def test_a_machine_that_lacks_a_library_is_told_so() -> None:
    device = script("device")
    device.NEEDED = {"sys": "sys", "a_library_that_is_not_there": "that-library"}
    assert device.missing() == ["that-library"]


def test_without_wheels_the_error_says_where_to_get_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    device = script("device")
    device.WHEELS = tmp_path / "none"
    assert device.install(["that-library"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "why", "next"]
    assert "make device-wheels" in lines[2]


def test_all_that_laptime_needs_is_what_a_bare_machine_is_given() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=]", one)[0] for one in project["dependencies"]}
    assert names <= set(script("device").NEEDED.values())


def test_long_benchmarks_of_accelerators_are_run_when_they_are_named() -> None:
    device = script("device")
    tests, benchmarks = device.chosen("")
    assert "test_tune_cuda" in {file.stem for file in tests}
    assert "latency" in {file.stem for file in benchmarks}
    assert "tune_ladder" not in {file.stem for file in benchmarks}
    assert [[file.stem for file in files] for files in device.chosen("tune_ladder")] == [[], ["tune_ladder"]]


def test_a_name_that_no_device_test_has_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert script("device").run("no_such_thing") == 2
    assert "no_such_thing" in capsys.readouterr().err


# Makefile


@pytest.mark.parametrize(
    "target", ["demo", "demo-bench", "test", "test-all", "check", "bench", "test-device", "clean"]
)
def test_make_knows_every_promised_target(target: str) -> None:
    assert make("-n", target).returncode == 0


def test_the_demo_is_the_command_of_the_readme() -> None:
    command = "laptime tune --budget 9m --patch demo.laptime.patch -o demo.html examples/resnet18.py"
    assert command in make("-n", "demo").stdout
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")


FAKE_LAPTIME = """#!/bin/sh
echo ladder; touch demo.html demo.laptime.patch; exit {status}
"""


@pytest.mark.parametrize(
    ("status", "expected", "said"),
    [
        (0, 0, "ladder"),
        (3, 0, "could not decide"),
        (5, 0, "No change made it faster"),
        (1, 2, "ladder"),
        (4, 2, "ladder"),
        (70, 2, "ladder"),
    ],
)
def test_the_demo_takes_undecided_and_nothing_gained_for_answers(
    tmp_path: Path, status: int, expected: int, said: str
) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    fake = tmp_path / "laptime"
    fake.write_text(FAKE_LAPTIME.format(status=status), encoding="utf-8")
    fake.chmod(0o755)
    stamp = tmp_path / "installed"
    stamp.touch()
    done = make("demo", f"BIN={tmp_path}", f"STAMP={stamp}", cwd=tmp_path)
    assert done.returncode == expected, done.stderr
    assert said in done.stdout
    ended = done.stdout.splitlines()[-2:]
    assert [line.split(":")[0] for line in ended] == ["Patch", "HTML report"] or expected


def test_an_old_python_is_refused_in_three_lines(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    done = make("PYTHON=false", "install", cwd=tmp_path)
    assert done.returncode != 0
    assert [line.split(":")[0] for line in done.stderr.splitlines()[:3]] == ["error", "why", "next"]
    assert not (tmp_path / ".venv").exists()


def test_no_address_of_a_registry_is_written_down() -> None:
    for path in (
        ROOT / "Dockerfile",
        ROOT / "Makefile",
        ROOT / "constraints.txt",
        ROOT / "pyproject.toml",
        *ROOT.glob("scripts/*.py"),
    ):
        assert not re.search(r"https?://|index-url", path.read_text(encoding="utf-8")), path


FAKE_MAKE = """#!/bin/sh
case $1 in
check) echo checked; exit {check} ;;
test) echo '== short test summary info =='; echo '{closing}'; echo 'make: *** Error 1' >&2; exit {test} ;;
esac
"""


@pytest.mark.parametrize(
    ("check", "test", "closing", "status"),
    [
        (0, 0, "====== 7 passed, 2 skipped in 1.25s ======", 0),
        (0, 2, "====== 1 failed, 6 passed in 61.25s (0:01:01) ======", 1),
        (2, 0, "====== 7 passed in 1.25s ======", 1),
    ],
)
def test_ci_runs_both_steps_and_ends_with_the_closing_line_of_pytest(
    tmp_path: Path, check: int, test: int, closing: str, status: int
) -> None:
    fake = tmp_path / "make"
    fake.write_text(FAKE_MAKE.format(check=check, test=test, closing=closing), encoding="utf-8")
    fake.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [ROOT / ".ci" / "run"], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert done.returncode == status
    assert "checked" in done.stdout
    assert done.stdout.splitlines()[-1] == closing


def test_scripts_need_nothing_but_the_standard_library() -> None:
    own = {path.stem for path in ROOT.glob("scripts/_*.py")}  # beside each other
    for path in ROOT.glob("scripts/*.py"):
        words = re.findall(r"^(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(words) <= {*sys.stdlib_module_names, *own, "laptime", "click"}, path


def test_links_fit_the_site() -> None:
    fitted = script("mkdocs_hooks").fitted
    assert fitted("[b](docs/bench.md#how-long) [a](ARCHITECTURE.md)", "index.md") == (
        "[b](bench.md#how-long) [a](ARCHITECTURE.md)"
    )
    assert fitted("[r](../README.md) [the list](../src/laptime/data/cpus.csv)", "docs/cost.md") == (
        "[r](index.md) the list (`src/laptime/data/cpus.csv`)"
    )
    assert fitted("[t](../tune_search.md)", "docs/decisions/0001-rooms.md") == "[t](../tune_search.md)"
    assert fitted("![p](docs/pictures/trace.png) [all](docs/decisions)", "index.md") == (
        "![p](pictures/trace.png) [all](decisions.md)"
    )
    with pytest.raises(FileNotFoundError, match=r"docs/gone\.md"):
        fitted("[x](docs/gone.md)", "index.md")


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert pages | {"index.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"} == named


def test_pictures_are_small() -> None:
    pictures = list((ROOT / "docs/pictures").iterdir())
    assert pictures
    assert all(picture.stat().st_size < 200_000 for picture in pictures)


def test_presets_have_the_values_of_their_page() -> None:
    from laptime.verbs.bench.planning import PRESETS

    page = (ROOT / "docs/presets.md").read_text()
    for name, preset in PRESETS.items():
        width, seconds = f"{preset.precision:.0%}".replace("%", " %"), f"{preset.seconds:g} s"
        assert f"| `{name}` | {width} | {seconds} | {preset.processes} | {preset.compared} |" in page


@pytest.fixture
def documented(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return script("documented_commands")


def ended(code: int, out: str = "", err: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, out, err)


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        (ended(0, "fine"), ""),
        (ended(3, "undecided"), ""),
        (ended(0), "printed nothing"),
        (ended(2, "", "error: no such option\nwhy:\nnext:"), "exit code 2"),
        (ended(2, "", "error: x is not installed\nwhy: y\nnext: z"), "skipped: error: x is not installed"),
        (ended(1, "no", "Traceback (most recent call last)"), "exit code 1"),
    ],
)
def test_documented_commands_are_judged(
    documented: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, result: Any, fault: str
) -> None:
    (tmp_path / "stored").mkdir()
    monkeypatch.setattr(documented, "laptime", lambda line, folder: result)
    said = documented.fault("laptime history", tmp_path)
    assert said.startswith(fault)
    assert bool(said) == bool(fault)
    assert documented.fault("laptime show -o a.html", tmp_path) != "", "a.html was not written"


def test_what_is_left_out_is_on_a_page(documented: ModuleType) -> None:
    lines = [line.partition("#")[0].strip() for _, line in documented.commands()]
    idle = [pattern for pattern in documented.LEFT_OUT if not any(re.search(pattern, line) for line in lines)]
    assert idle == []


# Words


def test_a_phrase_above_its_limit_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = script("words")
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "LIMITS", tmp_path / "words.toml")
    (tmp_path / "src").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("It tells nothing. `it tells`\n", encoding="utf-8")
    code = tmp_path / "src/a.py"
    code.write_text('"""What it tells of."""\nHELP = f"the run {1} is no profile"\n', encoding="utf-8")
    assert words.main("--set") == 0
    limits = tomllib.loads((tmp_path / "words.toml").read_text(encoding="utf-8"))["phrases"]
    assert {name: most for name, most in limits.items() if most != [0, 0]} == {
        "told": [0, 1],
        "is no": [1, 0],
        "What ...": [1, 0],
    }
    code.write_text('HELP = "the run is no profile, that is no trace"\n', encoding="utf-8")
    assert words.main("--set") == 1, "limits are never raised"
    assert "is no: 2 in texts, limit 1" in capsys.readouterr().out


def test_the_published_schemas_are_those_of_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    schemas = script("schemas")
    assert schemas.main("--check") == 0, capsys.readouterr().out
    assert schemas.schema("cost")["$defs"]["Line"]["required"]
