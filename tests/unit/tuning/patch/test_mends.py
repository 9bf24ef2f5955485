"""The very call that has crashed under a change is mended, and nothing else."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch.mends import find_mend
from laptime.tuning.patch.sources import Sources, hunks_of

NUMPY = "TypeError: Got unsupported ScalarType BFloat16"
VIEW = "RuntimeError: view size is not compatible with input tensor's size and stride; use .reshape(...)"


class Broken:
    """A tensor whose `numpy` and `view` raise."""

    def __init__(self, error: str = "") -> None:
        self.error = error

    def numpy(self) -> Broken:
        if self.error:
            raise RuntimeError(self.error)
        return self

    view = detach = cpu = lambda self, *sizes: self.numpy()


def mended(tmp_path: Path, source: str, error: str, **values: Broken) -> str:
    """A script after the mend of what it raises."""
    path = tmp_path / "train.py"
    path.write_text(source)
    try:
        exec(compile(source, str(path), "exec"), dict(values))
    except RuntimeError as raised:
        frames = traceback.format_tb(raised.__traceback__)
        text = "".join(frame for frame in frames if __file__ not in frame)  # as torch's are no Python
    wanted = find_mend(error, text)
    assert wanted is not None
    sources = Sources((), str(path))
    sources.mend(wanted, "bf16_autocast")
    (file,) = sources.files.values()
    assert all(hunk.names == ("bf16_autocast",) for hunk in hunks_of(file))
    return file.text


def test_a_value_that_goes_to_numpy_is_cast(tmp_path: Path) -> None:
    found = mended(tmp_path, "if True:\n    out = x.numpy()\n", NUMPY, x=Broken(NUMPY))
    assert found == "if True:\n    out = x.float().numpy()\n"


def test_of_two_calls_in_a_line_the_one_that_crashed_is_mended(tmp_path: Path) -> None:
    found = mended(tmp_path, "pair = y.numpy(), x.numpy()\n", NUMPY, x=Broken(NUMPY), y=Broken())
    assert found == "pair = y.numpy(), x.float().numpy()\n"


def test_a_view_becomes_a_reshape(tmp_path: Path) -> None:
    found = mended(tmp_path, "out = x.view(8, -1)  # flat\n", VIEW, x=Broken(VIEW))
    assert found == "out = x.reshape(8, -1)  # flat\n"


def test_a_call_inside_a_function_is_mended_where_it_stands(tmp_path: Path) -> None:
    source = "def show(t):\n    return t.numpy()\n\nshow(x)\n"
    assert "t.float().numpy()" in mended(tmp_path, source, NUMPY, x=Broken(NUMPY))


def test_other_errors_and_lines_of_libraries_are_left_alone(tmp_path: Path) -> None:
    own = '  File "/home/me/train.py", line 1, in <module>\n    x.numpy()\n'
    assert find_mend("ValueError: no", own) is None
    assert find_mend(NUMPY, '  File "/venv/site-packages/lib.py", line 1, in f\n    x.numpy()\n') is None


def test_what_is_not_known_stays(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("pair = y.numpy(), x.numpy()\n")
    wanted = find_mend(NUMPY, f'  File "{path}", line 1, in <module>\n    pair = y.numpy(), x.numpy()\n')
    sources = Sources((), str(path))
    assert wanted is not None
    with pytest.raises(CannotEdit, match="not known"):
        sources.mend(wanted, "bf16_autocast")
    assert sources.diff() == ""


def test_a_mended_line_is_not_mended_twice(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("out = x.float().numpy()\n")
    wanted = find_mend(NUMPY, f'  File "{path}", line 1, in <module>\n    out = x.float().numpy()\n')
    assert wanted is not None
    with pytest.raises(CannotEdit, match="already"):
        Sources((), str(path)).mend(wanted, "bf16_autocast")
