"""torch.compile of every trained model, for the files that differ in its mode only."""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.situation import Situation


def compile_models(loop: Any, **arguments: Any) -> None:
    """`Module.compile` of every trained model: in place, so whoever holds the model runs the compiled one.

    Where the compiled code is kept from trial to trial is said by who starts them (TORCHINDUCTOR_CACHE_DIR).
    """

    def convert(model: Any) -> Any:
        before = model._compiled_call_impl
        model.compile(**arguments)

        def back() -> None:
            model._compiled_call_impl = before

        return back

    loop.model(convert)


def edit_compile(script: Any, mode: str = "", dynamic: bool = False) -> None:
    """TrainingArguments(torch_compile=True), else one line behind the optimizer."""
    told = {"torch_compile": "True", **({"torch_compile_mode": repr(mode)} if mode else {})}
    if dynamic or not by_trainer(script, hf=told):
        given = [*([f"mode={mode!r}"] if mode else []), *(["dynamic=True"] if dynamic else [])]
        script.after_model("{model}.compile(" + ", ".join(given) + ")")


def cannot_compile(situation: Situation) -> str:
    """Why no mode can be tried; "" when one can."""
    if "compiled" in situation.facts:
        return "the script compiles its model already"
    if "gcc" not in situation.facts:
        return "torch.compile needs a C++ compiler, and there is none"
    return ""
