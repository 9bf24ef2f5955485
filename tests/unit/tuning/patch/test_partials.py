"""Optimizers that are made by a functools.partial."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch.sources import Sources

HEAD = "import torch\nfrom functools import partial\n"
FUSED = 'script.set_arguments("optimizer", fused="True")\nscript.remove_argument("optimizer", "foreach")'
CALL = "make(params, weight_decay=0.1)"


def made_by(script: Callable[..., Sources], partial: str, call: str = CALL) -> Sources:
    text = f"{HEAD}make = {partial}\noptimizer = {call}\n"
    return script(text, ("optimizer", call, {"detail": "AdamW"}))


@pytest.mark.parametrize("given", ["lr=1e-3", "lr=1e-3, fused=False"])
def test_a_partial_is_overridden_where_it_is_called(
    script: Callable[..., Sources], edited: Callable[..., str], given: str
) -> None:
    found = edited(made_by(script, f"partial(torch.optim.AdamW, {given})"), FUSED)
    assert f"make = partial(torch.optim.AdamW, {given})\n" in found
    assert found.endswith("optimizer = make(params, weight_decay=0.1, fused=True)\n")


def test_a_partial_on_the_spot(script: Callable[..., Sources], edited: Callable[..., str]) -> None:
    call = "partial(torch.optim.AdamW, lr=1e-3)(params)"
    assert "lr=1e-3)(params, fused=True)" in edited(made_by(script, "None", call), FUSED)


@pytest.mark.parametrize(
    "partial",
    [
        "partial(torch.optim.AdamW, foreach=True)",  # fused and foreach at once is an error
        "partial(torch.optim.AdamW, **settings)",
        "partial(torch.optim.AdamW, params)",
        "partial(torch.optim.AdamW)\nmake = partial(torch.optim.SGD)",
    ],
)
def test_a_partial_that_could_be_edited_wrongly_is_left_alone(
    script: Callable[..., Sources], edited: Callable[..., str], partial: str
) -> None:
    sources = made_by(script, partial)
    with pytest.raises(CannotEdit):
        edited(sources, FUSED)
    assert sources.diff() == ""
