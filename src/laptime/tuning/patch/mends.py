"""A line of the script that a change makes crash, mended as one would by hand, in trials and in the patch.

Two kinds are known, and neither changes what the script as it is computes: a value of bfloat16 that goes to
numpy is cast where it leaves torch, and a `view` of a tensor that is laid out in another way becomes a
`reshape`. Only the very call that has crashed is mended."""

import re
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch.calls import last_name
from laptime.tuning.patch.files import File, is_foreign

METHODS = {"Got unsupported ScalarType BFloat16": "numpy", "view size is not compatible": "view"}
"""The method whose call has crashed, by what the error says."""
TYPE = r"dtype|torch\."
FRAME = re.compile(
    r'  File "(?P<file>.+)", line (?P<line>\d+), in .*\n    (?P<text>.*)\n(?:    (?P<marks>[ ~^]+)\n)?'
)


@dataclass(frozen=True)
class Mend:
    """A call that is to be mended."""

    # file, line: where it stands
    file: str
    line: int
    method: str  # numpy or view
    # first, end: the part of the line, without its indentation, that was running; the whole if that is not
    # known
    first: int = 0
    end: int = 0


def find_mend(error: str, traceback: str) -> Mend | None:
    """The mend of a crash at the innermost of the user's lines in its traceback; None: not known."""
    method = next((method for sign, method in METHODS.items() if sign in error), "")
    frames = [frame for frame in FRAME.finditer(traceback) if not is_foreign(Path(frame["file"]))]
    if not method or not frames:
        return None
    frame = frames[-1]
    marks, text = frame["marks"] or "", frame["text"]
    end = len(marks.rstrip()) or len(text)
    return Mend(frame["file"], int(frame["line"]), method, len(marks) - len(marks.lstrip()), end)


def mend(file: File, wanted: Mend) -> None:
    """Mend a call in its file. Raises CannotEdit: which one is not known, or it is mended already."""
    tree = file.tree
    rows = file.text.split("\n")
    above, row = rows[: wanted.line - 1], rows[wanted.line - 1]
    start = sum(len(each) + 1 for each in above) + len(row) - len(row.lstrip())
    calls = [
        call for call in tree.calls if tree.covers(call, wanted.line) and last_name(call) == wanted.method
    ]
    calls = [call for call in calls if isinstance(call.func, cst.Attribute)]
    if wanted.method == "view":  # by sizes, not to another type
        calls = [call for call in calls if not re.search(TYPE, " ".join(map(tree.flat, call.args[:1])))]
    first, end = start + wanted.first, start + wanted.end
    running = [call for call in calls if first <= tree.start(call) and tree.end(call) <= end]
    if len(running) != 1 and len(calls) != 1:
        raise CannotEdit(f"which `.{wanted.method}` of {file.shown}:{wanted.line} has crashed is not known")
    func = (running if len(running) == 1 else calls)[0].func
    assert isinstance(func, cst.Attribute)
    if wanted.method == "view":
        file.replace(tree.start(func.attr), tree.end(func.attr), "reshape")
        return
    if isinstance(func.value, cst.Call) and last_name(func.value) == "float":
        raise CannotEdit(f"{file.shown}:{wanted.line} is cast already")
    file.insert(tree.outer(func.value)[1], ".float()")
