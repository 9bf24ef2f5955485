"""What `tune` leaves for `verify` and `apply`."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from laptime.kit.errors import UsageError
from laptime.records.tuning import Applied, Speedup
from laptime.tuning.recipe_file import RecipeFile, encode, read, sha256_of
from laptime.tuning.script.in_process import changes_of

KEPT = RecipeFile(
    program="train.py",
    arguments=["--epochs", "3"],
    recipe=[Applied(name="channels_last"), Applied(name="num_workers", options={"num_workers": 2})],
    speedup=Speedup(value=1.5, ci95=(1.4, 1.6), word="faster", pairs=3),
)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "train.laptime.json"
    path.write_bytes(encode(KEPT))
    assert read(path) == KEPT
    assert changes_of(path).names == ("channels_last", "num_workers")
    assert changes_of(str(path)).changes[1].options == {"num_workers": 2}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "not a recipe"),
        ('{"schema": "laptime.run/1"}', "laptime.run/1"),
        ('{"recipe": 3}', "not a recipe"),
    ],
)
def test_other_files_are_refused_in_three_lines(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=word):
        read(path)


def test_a_missing_file_says_how_one_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        read(tmp_path / "nothing.json")
    assert "laptime tune" in error.value.next


def test_changes_may_be_plain_and_must_be_changes() -> None:
    assert changes_of([{"name": "channels_last"}]).names == ("channels_last",)
    with pytest.raises(UsageError, match="not a recipe"):
        changes_of([{"title": "x"}])


def test_a_script_that_has_the_patch_is_not_compared_with_itself(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("faster = True\n")
    file = structs.replace(KEPT, patched={str(script): sha256_of(script)})
    with pytest.raises(UsageError) as error:
        file.refuse_applied()
    assert str(script) in error.value.what
    assert "git apply -R" in error.value.next
    script.write_text("faster = False\n")
    file.refuse_applied()
    script.unlink()
    file.refuse_applied()
