"""What is offered for a model, what a change does to a draft, and what is handed back."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from laptime.kit import registry
from laptime.kit.errors import LaptimeError
from laptime.tuning.inference import arm_process, changes, handed_back
from laptime.tuning.inference.changes import DEFAULT, find_candidates
from laptime.tuning.inference.draft import Draft, NoDraft, plain, restructure, structure_of, words_of
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import CandidateSet

CALL = LoopProfile(
    step=0.02,
    shares={"forward": 0.02},
    cpus=4,
    threads=4,
    facts=frozenset({"cpu", "conv", "batchnorm", "gcc", "bf16"}),
)
TUNED = [path for path in Path(handed_back.__path__[0]).glob("*.py") if path.stem != "__init__"]


def offered(
    recipe: Recipe = Recipe(),  # noqa: B008
    *,
    profile: LoopProfile = CALL,
    allow: frozenset[str] = DEFAULT,
    only: tuple[str, ...] = (),
    skip: tuple[str, ...] = (),
) -> CandidateSet:
    return find_candidates(
        profile, recipe, goal="latency", allow=allow, only=only, skip=skip, block=0.4, starts=8.0, rounds=6
    )


@pytest.fixture
def everything_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "find_spec", lambda name: importlib.util.find_spec("json"))


def names(found: CandidateSet) -> set[str]:
    return {each.change.name for each in found.usable}


@pytest.mark.usefixtures("everything_installed")
def test_every_name_is_offered_or_ruled_out_with_a_reason() -> None:
    found = offered()
    assert names(found) | set(found.ruled_out) == set(changes.names())
    assert all(found.ruled_out.values())


@pytest.mark.usefixtures("everything_installed")
def test_precision_is_tried_only_when_it_is_allowed() -> None:
    assert {"bf16", "openvino_bf16"} & names(offered()) == set()
    assert "--allow precision" in offered().ruled_out["bf16"]
    assert {"bf16", "openvino_bf16"} <= names(offered(allow=DEFAULT | {"precision"}))


@pytest.mark.usefixtures("everything_installed")
def test_what_only_pytorch_does_is_no_candidate_beside_another_runtime() -> None:
    found = offered(Recipe((Change("onnxruntime"),)))
    assert {"channels_last", "fold_batch_norm", "compiled", "inference_mode"} & names(found) == set()
    assert {"openvino", "threads"} <= names(found)


@pytest.mark.usefixtures("everything_installed")
def test_another_runtime_takes_the_place_of_what_only_pytorch_does() -> None:
    of_torch = {"inference_mode", "channels_last", "fold_batch_norm", "half_precision", "compiled"}
    for name in ("onnxruntime", "openvino", "openvino_bf16"):
        assert of_torch <= changes.load(name).conflicts


def test_a_package_that_is_missing_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "find_spec", lambda name: None)
    assert "not installed" in offered().ruled_out["openvino"]


def test_a_model_without_convolutions_is_not_laid_out_anew() -> None:
    bare = LoopProfile(step=0.02, facts=frozenset({"cpu"}))
    assert "convolutions" in offered(profile=bare).ruled_out["channels_last"]


def test_threads_are_other_numbers_than_the_present_one() -> None:
    line = next(each for each in offered().usable if each.change.name == "threads")
    assert line.change.options == {"value": 2}
    assert [change.options["value"] for change in line.space] == [1, 2]


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
@pytest.mark.parametrize(
    ("outputs", "made"),
    [
        ([], (1, 2)),
        (["", None, ""], (1, None, 2)),
        ([None, "", ""], (None, 1, 2)),
        (["a", "b"], {"a": 1, "b": 2}),
    ],
)
def test_outputs_are_given_back_in_their_structure(
    runtime: str, outputs: Any, made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ones_and_twos, fake = [np.ones(3), np.full(3, 2.0)], MagicMock()
    fake.InferenceSession().run.side_effect = lambda *_: [*ones_and_twos]
    request = fake.Core().compile_model().create_infer_request()
    request.infer().to_tuple.return_value = tuple(ones_and_twos)
    monkeypatch.setitem(sys.modules, runtime, fake)
    shutil.copyfile(TUNED[0].with_name(f"{runtime.removesuffix('runtime')}.py"), tmp_path / "tuned.py")
    settings = {"outputs": outputs, "takes": [], "properties": {}}
    (tmp_path / "recipe.json").write_text(json.dumps({"settings": settings}))
    given = arm_process.load_model(tmp_path)()
    assert arm_process.names_of(given) == outputs
    first = lambda each: each if each is None else int(each[0])  # noqa: E731
    if isinstance(given, dict):
        assert {name: first(each) for name, each in given.items()} == made
    else:
        assert tuple(map(first, given)) == made


@pytest.mark.torch
def test_a_tuple_may_hold_none_and_nothing_else_that_is_no_tensor() -> None:
    """`(logits, loss)` without targets, as language models give it, was refused."""
    torch = pytest.importorskip("torch")
    logits = torch.ones(2)
    names = structure_of((logits, None))
    assert (names, words_of(names)) == (["", None], "a tuple of a tensor, None")
    assert restructure([logits], names) == (logits, None)
    assert structure_of((logits, logits)) == []
    assert restructure([logits, logits], []) == (logits, logits)
    for nothing in ((), {}, (None,), (logits, 3), {"loss": None}):
        with pytest.raises(NoDraft, match="neither a tensor nor a flat tuple"):
            structure_of(plain(nothing))


@pytest.mark.parametrize("path", TUNED, ids=lambda path: path.stem)
def test_what_is_handed_back_is_short_and_imports_no_laptime(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    uses_laptime = any(name.startswith("laptime") for name in imported)
    assert uses_laptime == (path.stem == "as_is")


@pytest.mark.usefixtures("everything_installed")
def test_fewer_bits_that_have_won_are_followed_by_fewer_still_not_by_float32() -> None:
    found = offered(Recipe((Change("openvino_bf16"),)), allow=DEFAULT | {"precision"})
    prior = {each.change.name: each.prior for each in found.usable}
    assert max(prior["onnxruntime"], prior["openvino"]) < min(
        prior["openvino_int8"], prior["onnxruntime_int8"]
    )
    assert prior["openvino"] == pytest.approx(0.1 * changes.load("openvino").prior)
    assert {each.prior for each in offered().usable if each.change.name == "openvino"} == {0.47}


def draft(**settings: Any) -> Draft:
    return Draft(None, [], [], None, Path("none"), settings=settings)


def test_a_change_of_settings_leaves_those_of_others() -> None:
    made = draft(threads=2)
    load = changes.load
    load("threads").make(made, {"value": 3})
    load("flush_denormal").make(made, {})
    load("openvino").make(made, {})
    assert made.form == "openvino"
    assert made.settings["threads"] == 3
    assert made.settings["properties"] == {
        "INFERENCE_NUM_THREADS": 3,
        "CPU_DENORMALS_OPTIMIZATION": True,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    assert load("openvino_bf16").properties != load("openvino").properties  # no table is shared and changed


def test_tf32_keeps_the_precision_of_a_change_before_it() -> None:
    alone, after = draft(), draft(precision="int8")
    for made in (alone, after):
        changes.load("tf32").make(made, {})
    assert (alone.settings["precision"], after.settings["precision"]) == ("float16", "int8")


def test_what_other_runtimes_run_is_made_of_the_module_as_it_is_unless_they_say_otherwise() -> None:
    as_exported = {name for name in changes.names() if changes.load(name).is_as_exported}
    assert "openvino_int8" in as_exported
    assert not {"tensorrt_fp16", "channels_last", "threads"} & as_exported


GUEST = """
from laptime.tuning.inference.changes import Form, ModelChange
CHANGES = [ModelChange(name="mine", title="mine", numerics="exact", saves=0.5, form="mine")]
FORMS = {"mine": Form(write=lambda draft, folder: None, tuned="onnx")}
"""


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Installs the text of a module as one of another package."""

    def install(text: str) -> None:
        (tmp_path / "guest_runtime.py").write_text(text)
        point = EntryPoint("guest", "guest_runtime", f"laptime.{changes.ROOM}")
        monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])
        clear()

    def clear() -> None:
        sys.modules.pop("guest_runtime", None)
        registry._guests.cache_clear()
        registry.entries.cache_clear()

    monkeypatch.syspath_prepend(str(tmp_path))
    yield install
    monkeypatch.undo()
    clear()


def test_another_package_brings_a_runtime_with_its_changes(guest: Callable[[str], None]) -> None:
    guest(GUEST)
    assert "mine" in names(offered())
    assert changes.form_of("mine").tuned == "onnx"
    assert changes.load("mine").given_facts == {"mine"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("TITLE = 'mine'\nNUMERICS = 'exact'\n", "it has no CHANGES"),
        ("class Mine:\n    name = 'mine'\nCHANGES = [Mine()]\n", "it is a Mine"),
    ],
)
def test_a_package_that_is_written_as_before_is_told_what_to_write(
    guest: Callable[[str], None], text: str, why: str
) -> None:
    guest(text)
    with pytest.raises(LaptimeError) as refused:
        changes.load("mine")
    assert refused.value.why.startswith(why)
    assert "CHANGES = [" in refused.value.next
