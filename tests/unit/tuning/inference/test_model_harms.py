"""Harm to models of 37 kinds is refused, sound changes pass: a selection of `benchmarks/model_harms.py`."""

from __future__ import annotations

import importlib
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from laptime.tuning.inference import arm_process

pytestmark = pytest.mark.torch
sys.path.append(str(Path(__file__).resolve().parents[4] / "benchmarks"))
model_harms: Any = importlib.import_module("model_harms")

HARMS = [
    ("classifier", "GELU by tanh", "outputs"),
    ("classifier", "rows for columns", "outputs"),
    ("classifier", "int32 or float64", "types"),
    ("text", "mask ignored", "held_out_inputs"),
    ("text", "tokens above 150 unknown", "held_out_inputs"),
    ("text", "padding has a meaning", "held_out_inputs"),
    ("decoder", "the future seen", "outputs"),
    ("decoder", "filled up to the first length", "held_out_inputs"),
    ("detector", "scores of other boxes", "outputs"),
    ("detector", "keys renamed", "names"),
    ("tagger", "lengths ignored", "held_out_inputs"),
    ("tagger", "a tensor for a tuple's", "names"),
    ("recommender", "counts no larger than 50", "held_out_inputs"),
    ("recommender", "gaps in memory ignored", "layout"),
    ("audio", "quiet sounds lost", "outputs"),
    ("siamese", "sides swapped", "outputs"),
    ("segmenter", "corners aligned", "outputs"),
    ("segmenter", "39 of 100 labels wrong, in int8", "outputs"),
    ("rows", "scores of the next place", "outputs"),
    ("translator", "padding of the source seen", "held_out_inputs"),
    ("search", "near always", "outputs"),
    ("forecaster", "scales no larger than 6", "held_out_inputs"),
    ("graph", "edges all there", "held_out_inputs"),
    ("enhancer", "one brighter", "outputs"),
    ("denoiser", "steps above 500 as 500", "held_out_inputs"),
    ("masker", "mask of bools ignored", "held_out_inputs"),
    ("writer", "a mask of lengths: padding in front lost", "held_out_inputs"),
    ("player", "all moves allowed", "held_out_inputs"),
    ("player", "the best of all moves", "held_out_inputs"),
    ("weather", "changes 5 % too small", "outputs"),
    ("calendar", "weekdays above 1 unknown", "held_out_inputs"),
    ("guided", "scales no larger than 7.5", "held_out_inputs"),
    ("guided", "noise no larger than 2", "held_out_inputs"),
    ("speaker", "another eps in quiet sounds", "held_out_inputs"),
    ("speaker", "faint sounds lost", "held_out_inputs"),
    ("ranker", "ranks behind the 280th in reverse", "outputs"),
    ("attender", "causal, whatever the mask", "held_out_inputs"),
    ("single", "the first item's mask for all", "other_batch_size"),
    ("single", "what any item masks masked for all", "other_batch_size"),
    ("bare", "rows above 60 unknown", "held_out_inputs"),
    ("onehot", "the last row unknown", "held_out_inputs"),
    ("clicks", "places above 200 of the first table unknown", "held_out_inputs"),
    ("clicks", "places above 50 of the second table unknown", "held_out_inputs"),
    ("spectra", "complex numbers no larger than in the first call", "held_out_inputs"),
    ("spectra", "faint lines lost", "held_out_inputs"),
    ("recorder", "not a number of silence", "finite"),
    ("tabular", "nobody above 60", "held_out_inputs"),
]
"""By kind and harm, the check that names it."""


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arm_process, "CALLS", 8)


def _broken(gate: Any) -> list[str]:
    return [each.name for each in gate.checks if str(each.outcome) == "broken"]


@pytest.mark.parametrize(("kind", "harm", "check"), HARMS)
def test_harm_to_a_model_of_its_kind_is_refused_by_name(kind: str, harm: str, check: str) -> None:
    gate = model_harms.gate(kind, model_harms.HARMS[harm], threads=0)
    assert (gate.word, _broken(gate)[:1]) == ("failed", [check]), gate


SOUND = [
    *product(
        ("text", "tagger", "detector"), ("in double precision", "item by item", "a graph of torch.export")
    ),
    *product(("weather", "speaker", "calendar"), ("in double precision", "other last bits")),
    *product(("writer", "player"), ("a graph of torch.export", "batches filled up")),
    *product(
        ("chooser", "sorter"), ("places where values tie, in bfloat16", "places where values tie, in int8")
    ),
    *(
        ("attender", "attention by torch"),
        ("ranker", "a stable sort"),
        ("tabular", "scales folded into weights"),
    ),
]


@pytest.mark.parametrize(("kind", "name"), SOUND)
def test_sound_changes_of_a_model_pass(kind: str, name: str) -> None:
    gate = model_harms.gate(kind, model_harms.SOUND[name], threads=0)
    assert gate.word == "passed", gate


def test_a_mask_without_effect_is_undecided_in_few_bits_and_rounding_passes() -> None:
    """Its error was within the limits of int8, and nothing asked for a metric."""
    ignored = model_harms.gate("text", model_harms.HARMS["mask ignored, in int8"])
    assert (ignored.word, ignored.reason.partition(":")[0]) == ("undecided", "held out inputs")
    assert "--metric" in ignored.reason
    assert model_harms.gate("text", model_harms.SOUND["weights in int8"]).word == "passed"


def test_what_passes_without_being_out_of_reach_fails_the_benchmark(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert model_harms.shown({"zeros": {"text": "failed: outputs"}})
    assert not model_harms.shown({"zeros": {"text": "passed"}})
    assert model_harms.shown({"NaN in, zeros out": {"audio": "passed"}})
    assert not model_harms.shown({"in double precision": {"text": "failed: outputs"}})
    assert "NaN in" in capsys.readouterr().out
