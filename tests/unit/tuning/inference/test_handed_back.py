"""What a program meets in a folder: sizes, threads, the README; what `laptime verify` says of versions."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from fixtures.array_folders import AS_IS, evaluator
from laptime.measure.recorded_calls import RecordedCall, RecordedCalls
from laptime.tuning.inference import arm_process, folder_file, handed_back, subject

TEMPLATES = Path(handed_back.__path__[0])
TAKES = [[None, 3, 24], [None]]
"""Sizes of two inputs, whose batch may be any."""


class Busy:
    """An OpenVINO request: called by two threads at once, it says so as OpenVINO does."""

    made = 0

    def __init__(self) -> None:
        Busy.made += 1
        self._is_busy = False

    def infer(self, given: Any, **_: Any) -> Any:
        if self._is_busy:
            raise RuntimeError("Infer Request is busy")
        self._is_busy = True
        time.sleep(0.002)
        self._is_busy = False
        return MagicMock(to_tuple=lambda: (given[0] + 1,))


def loaded(form: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The callable of a folder of this form, whose runtime adds one."""
    fake, Busy.made = MagicMock(), 0
    fake.InferenceSession().get_inputs.return_value = [MagicMock(), MagicMock()]
    fake.InferenceSession().run.side_effect = lambda _, given: [next(iter(given.values())) + 1]
    graph = MagicMock(inputs=["one", "other"])
    fake.Core().read_model.return_value = graph
    fake.Core().compile_model().create_infer_request.side_effect = Busy
    monkeypatch.setitem(sys.modules, {"onnx": "onnxruntime"}.get(form, form), fake)
    shutil.copyfile(TEMPLATES / f"{form}.py", folder / "tuned.py")
    settings = {"outputs": None, "takes": TAKES, "properties": {}}
    (folder / "recipe.json").write_text(json.dumps({"settings": settings}))
    return arm_process.load_model(folder)


FORMS = pytest.mark.parametrize("form", ["onnx", "openvino"])


@FORMS
@pytest.mark.parametrize(
    ("one", "other"), [((2, 3, 23), (2,)), ((0, 3, 24), (0,)), ((2, 24), (2,)), ((2, 3, 24), (2, 1))]
)
def test_other_sizes_and_empty_batches_are_refused_with_both_sizes(
    form: str, one: tuple[int, ...], other: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder of 24 tokens failed on 23 inside the runtime, and an empty batch ended the process."""
    model = loaded(form, tmp_path, monkeypatch)
    with pytest.raises(ValueError, match=r"does not fit \[None.*None is any size but 0"):
        model(np.zeros(one, np.float32), np.zeros(other))
    for batch in (1, 5):
        made = model(np.zeros((batch, 3, 24), np.float32), np.zeros(batch))
        assert made.shape == (batch, 3, 24)


@FORMS
def test_four_threads_may_call_a_folder(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, wrong = loaded(form, tmp_path, monkeypatch), list[str]()

    def call(number: int) -> None:
        for batch in (1, 2, 1, 2):
            given = np.full((batch, 3, 24), float(number))
            try:
                if not np.array_equal(model(given, np.zeros(batch)), given + 1):
                    wrong.append("other numbers")
            except RuntimeError as error:
                wrong.append(str(error))

    several = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for each in several:
        each.start()
    for each in several:
        each.join()
    assert not wrong
    assert Busy.made == (8 if form == "openvino" else 0)  # by thread and shape, not by call


def test_the_readme_says_sizes_types_threads_and_packages() -> None:
    calls = RecordedCalls([RecordedCall(2, [np.zeros((2, 24), np.int64)], [np.zeros(2, np.float32)])])
    settings = {"takes": [[None, 24]], "outputs": ["", None], "threads": 2}
    file = folder_file.FolderFile(target="model.py:build", settings=settings, needs=["onnxruntime==1.30"])
    text = folder_file.readme(file, calls, ["float32"])
    assert (
        "takes: int64[any, 24]; any thread may call it\n- any: any size but 0, the same for all inputs if"
        in text
    )
    assert "gives: a tuple of a tensor, None; float32; anything but tensors is left out" in text
    assert "2 threads in a call" in text
    assert "runs with: onnxruntime==1.30" in text
    assert "one call at a time" in folder_file.say_inputs(settings, calls, "cuda:0")


@pytest.mark.parametrize(
    ("change", "word"), [(0, "the confirmed outputs, bit for bit"), (1, "other outputs")]
)
def test_verify_says_which_package_has_changed_since(change: int, word: str, tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "fast"
    home.mkdir()
    model = evaluator(home, {AS_IS: "2 * x"})
    shutil.copytree(home / AS_IS, folder)
    shutil.copyfile(model.calls, folder / "calls.npz")
    outputs = {f"{at}_0": call.outputs[0] + change for at, call in enumerate(model.recorded.calls)}
    np.savez(folder / "outputs.npz", **outputs)  # type: ignore[arg-type]
    file = folder_file.FolderFile(needs=["numpy==0.1", f"pytest=={pytest.__version__}"])
    found = subject._since_then(model, folder, file)
    assert word in found.sentence
    assert f"numpy==0.1 then, numpy=={np.__version__} now" in found.sentence
    assert "pytest" not in found.sentence
