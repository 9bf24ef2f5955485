"""What can be said about Keras and SavedModel targets without importing TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime.kit.errors import TargetError
from laptime.targets import parse


def test_keras_names_are_of_the_tensorflow_backend() -> None:
    recipe = parse("keras:EfficientNetB0")
    assert (recipe.kind, recipe.backend) == ("keras", "tensorflow")


def test_a_name_that_no_model_can_have_is_refused() -> None:
    with pytest.raises(TargetError, match="keras model"):
        parse("keras:Efficient Net")


def test_a_missing_keras_file_tells_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "model.keras").touch()
    with pytest.raises(TargetError) as caught:
        parse(f"{tmp_path}/modle.keras")
    assert f"{tmp_path}/model.keras?" in caught.value.next


@pytest.mark.parametrize("form", ["saved_model:{}", "{}/", "{}/saved_model.pb", "saved_model:{}#other", "{}"])
def test_a_saved_model_is_known_by_its_folder(form: str, tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"graph")
    recipe = parse(form.format(tmp_path))
    assert (recipe.kind, recipe.backend) == ("saved_model", "tensorflow")
    assert recipe.sha256


def test_a_folder_without_a_saved_model_is_explained(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="a SavedModel") as caught:
        parse(f"{tmp_path}/")
    assert "saved_model.pb" in caught.value.why
