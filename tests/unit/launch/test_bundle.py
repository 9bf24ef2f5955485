"""Code for other machines: what of a folder is sent, what is refused, and that it arrives as it was."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from msgspec import structs

from laptime.kit.errors import UsageError
from laptime.launch.fleet import NODE, Machine, bundle
from laptime.launch.fleet.node import Lost, run_on
from laptime.records.plan import BenchRequest
from laptime.tuning.script.request import TuneRequest
from laptime.verbs.scale.request import ScaleRequest
from laptime.verbs.trace import TraceRequest

MODEL = "import sub.part\ndef build():\n    return lambda: sum(range(sub.part.N))\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without git, in which the user stands."""
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "tree"
    write(folder / "model.py", MODEL)
    write(folder / "sub/part.py", "N = 99\n")
    monkeypatch.chdir(folder)
    return folder


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def asked(*targets: str) -> BenchRequest:
    return BenchRequest(
        targets=[*targets], backends=["null"], regimes=["isolated"], budget=0.3, processes=1, timing_only=True
    )


def packed(*targets: str) -> bundle.Bundle:
    made = bundle.pack([asked(*targets)])
    assert made is not None
    return made


def names(made: bundle.Bundle) -> list[str]:
    bundle.unpack(made.ticket, made.packed)
    place = bundle.place_of(made.ticket)
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if not path.is_dir())


# What is sent


def test_a_folder_without_git_goes_but_for_hidden_files_and_environments(tree: Path) -> None:
    for name in (".env", ".hidden/a.py", "__pycache__/model.pyc", "venv/pyvenv.cfg", "venv/lib/x.py"):
        write(tree / name, "secret")
    assert names(packed("model.py:build")) == ["model.py", "sub/part.py"]


def test_git_says_what_goes_dirty_or_not(tree: Path) -> None:
    write(tree / ".gitignore", "*.log\n")
    write(tree / "gone.py", "")
    git(tree, "init")
    git(tree, "add", ".")
    git(tree, "commit", "-m", "one")
    (tree / "gone.py").unlink()
    write(tree / "new.py", "")
    write(tree / "big.log", "")
    made = packed("model.py:build")
    assert names(made) == [".gitignore", "model.py", "new.py", "sub/part.py"]
    assert made.git["dirty"] is True
    assert made.git["sent"] == made.ticket.sha256
    assert len(made.git["commit"]) == 40


def test_the_hash_is_that_of_the_content(tree: Path) -> None:
    first = packed("model.py:build").ticket.sha256
    os.utime(tree / "model.py", (1, 1))
    assert packed("model.py:build").ticket.sha256 == first
    write(tree / "sub/part.py", "N = 100\n")
    assert packed("model.py:build").ticket.sha256 != first


def test_the_code_of_a_submodule_goes_along_and_a_missing_one_is_named(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other / "lib.py", "")
    git(tmp_path, "init", str(other))
    git(other, "add", ".")
    git(other, "commit", "-m", "one")
    git(tree, "init")
    git(tree, "submodule", "add", str(other), "there")
    git(tree, "submodule", "add", str(other), "away")
    git(tree, "submodule", "deinit", "-f", "away")
    made = packed("model.py:build")
    assert "there/lib.py" in names(made)
    assert made.git["left_out"] == ["away (a submodule that is not checked out)"]


def test_links_stay_in_the_tree_or_are_left_out_by_name(tree: Path, tmp_path: Path) -> None:
    write(tmp_path / "secret", "x")
    (tree / "out").symlink_to(tmp_path / "secret")
    (tree / "broken").symlink_to("nowhere")
    (tree / "again.py").symlink_to(tree / "model.py")
    (tree / "folder").symlink_to(tree / "sub")
    made = packed("model.py:build")
    assert made.git["left_out"] == ["broken (a link to elsewhere)", "out (a link to elsewhere)"]
    assert "left out: broken" in made.sentence
    assert names(made) == ["again.py", "model.py", "sub/part.py"]
    place = bundle.place_of(made.ticket)
    assert (place / "again.py").read_text() == MODEL
    assert (place / "folder/part.py").read_text() == "N = 99\n"


def test_what_is_named_goes_even_if_git_ignores_it(tree: Path) -> None:
    write(tree / ".gitignore", "*.json\n")
    write(tree / "trace.json", "{}")
    git(tree, "init")
    made = bundle.pack([TraceRequest(paths=[tree / "trace.json"])])
    assert made is not None
    assert names(made) == ["trace.json"], "a trace needs no code"
    assert made.relative(TraceRequest(paths=[tree / "trace.json"])) == TraceRequest(
        paths=[Path("trace.json")]
    )


def test_what_names_no_file_sends_nothing(tree: Path) -> None:
    assert (
        bundle.pack([asked("null:noop", "torchvision:resnet18", "laptime.suites.models.bert:base")]) is None
    )


def test_an_absolute_name_is_found_on_the_node(tree: Path) -> None:
    target = f"{tree}/model.py:build"
    made = packed(target, "sub/../model.py:build")
    assert made.relative(asked(target)) == asked("model.py:build")
    assert made.relative(asked("sub/../model.py:build")) == asked("sub/../model.py:build")


# What is refused


def test_code_above_the_limit_names_what_is_large(tree: Path) -> None:
    with (tree / "weights.bin").open("wb") as file:
        file.truncate(bundle.LIMIT + 1)
    with pytest.raises(UsageError, match="3 files") as error:
        packed("model.py:build")
    assert "weights.bin (64.0 MiB)" in error.value.why
    assert ".gitignore" in error.value.next


def test_a_path_that_only_this_machine_has_is_named(tree: Path, tmp_path: Path) -> None:
    write(tmp_path / "far.py", MODEL)
    with pytest.raises(UsageError, match=r"far\.py lies on this machine alone"):
        packed("model.py:build", f"{tmp_path}/far.py:build")
    with pytest.raises(UsageError, match="there is no file"):
        bundle.pack([TraceRequest(paths=[Path("nowhere.json")])])


@pytest.mark.parametrize("name", ["../out.py", "/tmp/out.py"])
def test_an_archive_that_leaves_its_folder_is_refused(tree: Path, tmp_path: Path, name: str) -> None:
    import gzip
    import hashlib

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    ticket = bundle.Ticket(hashlib.sha256(data.getvalue()).hexdigest(), ".", "/", "")
    if name.startswith("/"):  # tarfile makes such a name one of the folder
        bundle.unpack(ticket, gzip.compress(data.getvalue()))
        assert (bundle.place_of(ticket) / "tmp/out.py").exists()
    else:
        with pytest.raises(tarfile.TarError):
            bundle.unpack(ticket, gzip.compress(data.getvalue()))
    assert not (bundle.place_of(ticket).parent / "out.py").exists()


def test_code_that_came_damaged_is_refused(tree: Path) -> None:
    made = packed("model.py:build")
    with pytest.raises(UsageError, match="damaged"):
        bundle.unpack(structs.replace(made.ticket, sha256="0" * 64), made.packed)


# A node


def node(tmp_path: Path, made: bundle.Bundle, **environ: str) -> Machine:
    """A node that stands elsewhere and has a cache of its own."""
    (tmp_path / "there").mkdir(exist_ok=True)
    variables = {"LAPTIME_CACHE": str(tmp_path / "node"), **environ}
    words = ["env", "-C", str(tmp_path / "there"), *(f"{name}={value}" for name, value in variables.items())]
    return Machine("there", (*words, sys.executable, *NODE), code=made)


def test_code_is_unpacked_once_and_runs_as_it_does_here(tree: Path, tmp_path: Path) -> None:
    made = packed("model.py:build")
    machine = node(tmp_path, made)
    run = run_on(machine, "bench", asked("model.py:build"))
    assert [case.status for case in run.cases] == ["ok"], run.cases[0].failure
    assert run.environment.git == made.git
    (place,) = (tmp_path / "node/code").iterdir()
    inode = place.stat().st_ino
    run_on(machine, "bench", asked("model.py:build"))
    assert [each.stat().st_ino for each in (tmp_path / "node/code").iterdir()] == [inode]


def test_a_node_whose_disk_takes_no_code_is_lost(tree: Path, tmp_path: Path) -> None:
    write(tmp_path / "file", "")
    machine = node(tmp_path, packed("model.py:build"), LAPTIME_CACHE=str(tmp_path / "file/cache"))
    with pytest.raises(Lost, match="Not a directory"):
        run_on(machine, "bench", asked("model.py:build"))


@pytest.mark.parametrize(("program", "module"), [("train.py", False), ("sub.part", True)])
def test_a_script_or_a_module_takes_its_folder_along(program: str, module: bool, tree: Path) -> None:
    write(tree / "train.py", "import sub.part\n")
    made = bundle.pack([ScaleRequest(program=program, module=module)])
    assert made is not None
    assert names(made) == ["model.py", "sub/part.py", "train.py"]
    (tree / "sub/train.py").write_text("")
    absolute = ScaleRequest(program=str(tree / "sub/train.py"), arguments=["--data", "here"])
    made = bundle.pack([absolute])
    assert made is not None
    moved = made.relative(absolute)
    assert isinstance(moved, ScaleRequest)
    assert (moved.program, moved.arguments) == ("sub/train.py", ["--data", "here"])
    asked = TuneRequest(program=str(tree / "sub/train.py"))
    assert made.relative(asked) == TuneRequest(program="sub/train.py"), "a request may be a dataclass, too"


def test_a_script_that_only_this_machine_has_is_named(tree: Path, tmp_path: Path) -> None:
    write(tmp_path / "far.py", "")
    git(tree, "init", "-q")
    with pytest.raises(UsageError, match=r"far\.py lies on this machine alone"):
        bundle.pack([ScaleRequest(program=str(tmp_path / "far.py")), asked("model.py:build")])
