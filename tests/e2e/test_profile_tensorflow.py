"""`laptime profile` of TensorFlow programs as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.slow

MODEL = """
import numpy as np
import tensorflow as tf

x, y = np.ones((4096, 16), "float32"), np.ones((4096, 1), "float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16).repeat()
model = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(1)])
"""
FIT = """
model.compile("sgd", "mse")
model.fit(data, steps_per_epoch=100_000, verbose=0)
"""
LOOP = """
optimizer = tf.keras.optimizers.SGD()

@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss

for x, y in data:
    step(x, y)
"""


def told(tmp_path: Path, script: str) -> dict[str, Any]:
    path = tmp_path / "train.py"
    path.write_text(MODEL + script)
    command = [sys.executable, "-m", "laptime", "profile", "--json", "--steps", "4", str(path)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("script", [FIT, LOOP], ids=["fit", "loop"])
def test_a_script_is_timed_recorded_and_stopped(tmp_path: Path, script: str) -> None:
    found = told(tmp_path, script)
    assert [step["number"] for step in found["steps"]] == [0, 1, 2, 3]
    assert found["reconciled"]["untraced_steps"] >= 5
    assert set(found["reconciled"]["parts_ns"]) == {"compute", "other"}
    assert found["files"][0]["format"] == "xplane"
    assert any("MatMul" in row["name"] for row in found["operators"])
    assert found["overview"]["breakdown"]["dataloader_ns"] > 0
    assert "tensorflow" in found["environment"]["libraries"]


def test_the_hooks_give_back_the_very_method_that_was_there() -> None:
    import tensorflow as tf

    from laptime.instrument.messages import Settings
    from laptime.instrument.step_observer import StepObserver
    from laptime.instrument.tensorflow import Hooks

    owner = type(tf.function(lambda: None))
    before = owner.__call__
    hooks = Hooks(StepObserver(Settings(folder=".")))
    hooks.install()
    assert owner.__call__ is not before
    hooks.undo()
    hooks.undo()
    assert owner.__call__ is before
