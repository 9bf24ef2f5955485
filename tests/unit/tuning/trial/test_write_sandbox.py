"""A script under the scratch sees its own writes; the user's files stay as they were."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import os, sys
from laptime.tuning.trial import write_sandbox
undo = write_sandbox.install(sys.argv[1])
"""
TAIL = """
print("\\n".join(undo()))
"""


def run(user: Path, scratch: Path, body: str) -> list[str]:
    """Names of the files that the body has written, running in the user's folder."""
    script = user / "script.py"
    script.write_text(HEAD + body + TAIL)
    done = subprocess.run(
        [sys.executable, "script.py", str(scratch)], cwd=user, capture_output=True, text=True, check=False
    )
    script.unlink()
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def tree(folder: Path) -> dict[str, str]:
    """Every file of a folder with its text."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A folder of the user's, in the temporary one as it happens."""
    folder = tmp_path / "user"
    (folder / "runs").mkdir(parents=True)
    (folder / "old.txt").write_text("old")
    (folder / "log.txt").write_text("one\n")
    (folder / "runs" / "a.txt").write_text("a")
    return folder


def test_a_file_that_stands_in_for_another_is_read(user: Path, tmp_path: Path) -> None:
    before = tree(user)
    (tmp_path / "other.txt").write_text("other")
    planned = """
import os
from laptime.tuning import wire_format
from laptime.tuning.trial.messages import VARIABLE, TrialPlan
sources = {os.path.abspath("old.txt"): os.path.abspath("../other.txt"), "x.py": "y.py"}
os.environ[VARIABLE] = wire_format.encode(TrialPlan(folder="../trial", sources=sources))
"""
    script = user / "script.py"
    text = "assert open('old.txt').read() == 'other'\nassert os.path.exists('log.txt')\n"
    script.write_text(planned + HEAD + text)
    command = [sys.executable, "script.py", str(tmp_path / "scratch")]
    done = subprocess.run(command, cwd=user, capture_output=True, text=True, check=False)
    script.unlink()
    assert done.returncode == 0, done.stderr
    assert tree(user) == before


def test_what_is_written_is_read_again_and_the_users_file_stays(user: Path, tmp_path: Path) -> None:
    before = tree(user)
    written = run(
        user,
        tmp_path / "scratch",
        """
from pathlib import Path
assert open("old.txt").read() == "old"
open("old.txt", "w").write("new")
assert open("old.txt").read() == "new"
assert Path("old.txt").read_text() == "new" and os.path.getsize("old.txt") == 3
with open("log.txt", "a") as file:
    file.write("two\\n")
assert Path("log.txt").read_text() == "one\\ntwo\\n"
descriptor = os.open("fresh.bin", os.O_WRONLY | os.O_CREAT)
os.write(descriptor, b"x")
os.close(descriptor)
assert os.path.exists("fresh.bin") and "fresh.bin" in os.listdir(".")
""",
    )
    assert written == ["old.txt", "log.txt", "fresh.bin"]
    assert tree(user) == before


def test_ranks_of_one_trial_see_what_the_others_wrote(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for expected in ("False", "True"):
        answer = run(
            user,
            tmp_path / "scratch",
            """
print(os.path.exists("out/a.txt"))
os.makedirs("out", exist_ok=True)
open("out/a.txt", "w").close()
""",
        )
        assert answer[0] == expected


def test_removing_and_moving_is_seen_by_the_script_alone(user: Path, tmp_path: Path) -> None:
    before = tree(user)
    run(
        user,
        tmp_path / "scratch",
        """
import os, shutil
os.remove("old.txt")
assert not os.path.exists("old.txt") and "old.txt" not in os.listdir(".")
try:
    open("old.txt")
    raise SystemExit("it is there")
except FileNotFoundError:
    pass
os.replace("log.txt", "moved.txt")
assert open("moved.txt").read() == "one\\n" and not os.path.exists("log.txt")
shutil.rmtree("runs")
assert not os.path.isdir("runs")
os.makedirs("runs/deep/er", exist_ok=True)
open("runs/deep/er/b.txt", "w").write("b")
assert [names for _, _, names in os.walk("runs")] == [[], [], ["b.txt"]], list(os.walk("runs"))
assert not os.path.exists("runs/a.txt")
shutil.copy("moved.txt", "runs/c.txt")
shutil.move("runs/c.txt", "d.txt")
assert open("d.txt").read() == "one\\n"
os.truncate("d.txt", 1)
os.chmod("d.txt", 0o600)
assert open("d.txt").read() == "o"
""",
    )
    assert tree(user) == before


def test_a_folder_in_both_has_the_names_of_both(user: Path, tmp_path: Path) -> None:
    run(
        user,
        tmp_path / "scratch",
        """
import glob, os
from pathlib import Path
os.makedirs("runs", exist_ok=True)
try:
    os.mkdir("runs")
    raise SystemExit("made twice")
except FileExistsError:
    pass
Path("runs/b.txt").write_text("b")
assert sorted(os.listdir("runs")) == ["a.txt", "b.txt"]
assert sorted(glob.glob("runs/*.txt")) == ["runs/a.txt", "runs/b.txt"]
assert sorted(path.name for path in Path("runs").iterdir()) == ["a.txt", "b.txt"]
assert sorted(entry.name for entry in os.scandir("runs")) == ["a.txt", "b.txt"]
""",
    )


def test_temporary_files_devices_and_the_output_are_let_through(user: Path, tmp_path: Path) -> None:
    written = run(
        user,
        tmp_path / "scratch",
        """
import os, tempfile
with tempfile.NamedTemporaryFile("w", delete=False) as file:
    file.write("x")
assert os.path.exists(file.name)
os.unlink(file.name)
assert not os.path.exists(file.name)
open("/dev/null", "w").write("x")
print("out", end="")
print("err", file=sys.stderr)
""",
    )
    assert written == ["out"]


def test_a_writer_that_slips_through_is_refused(user: Path, tmp_path: Path) -> None:
    before = tree(user)
    run(
        user,
        tmp_path / "scratch",
        """
import _io, posix
for slip in (lambda: _io.FileIO("old.txt", "w"), lambda: posix.remove("old.txt")):
    try:
        slip()
        raise SystemExit("it was let through")
    except PermissionError as error:
        assert "laptime keeps the user's files safe" in str(error)
""",
    )
    assert tree(user) == before


def test_undo_gives_back_the_very_functions(user: Path, tmp_path: Path) -> None:
    run(
        user,
        tmp_path / "scratch",
        """
undo()
import builtins, io, os, shutil
assert builtins.open is io.open
assert os.remove.__module__ == "posix" and not hasattr(os.stat, "__wrapped__")
assert not hasattr(shutil.rmtree, "__wrapped__")
assert os.stat in os.supports_fd and all(not hasattr(each, "__wrapped__") for each in os.supports_fd)
open("after.txt", "w").write("through")
""",
    )
    assert (user / "after.txt").read_text() == "through"


@pytest.mark.torch
@pytest.mark.slow
def test_checkpoints_of_torch_and_numpy_are_redirected(user: Path, tmp_path: Path) -> None:
    (user / "model.pt").write_text("precious")
    before = tree(user)
    written = run(
        user,
        tmp_path / "scratch",
        """
import numpy, torch
from torch import save
save({"x": torch.ones(2)}, "model.pt")
assert torch.load("model.pt")["x"].sum() == 2
torch.save(torch.zeros(1), "runs/other.pt", _use_new_zipfile_serialization=False)
assert torch.load("runs/other.pt").item() == 0
assert torch.load("model.pt", mmap=True)["x"].sum() == 2
numpy.save("array.npy", numpy.arange(3))
assert numpy.load("array.npy").sum() == 3
""",
    )
    assert written == ["model.pt", "runs/other.pt", "array.npy"]
    assert tree(user) == before
