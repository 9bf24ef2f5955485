"""torch.compile of every trained model, for the files that differ in its mode only."""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.loop_profile import LoopProfile


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


def gain(loop_profile: LoopProfile) -> float:
    """Share of forward and backward that compiling saves at most.

    Half, where nothing more is known: up to 2x of a whole step was seen on the CPU and on GPUs (PyTorch 2
    paper, geometric mean of training 1.4x). On the CPU the diagnosis has timed the operators: those that a
    library computes stay as they are; a chain of others becomes one pass over its data, which leaves a tenth
    of it. And a tenth of everything for what Python and autograd need between them.
    """
    fusable = loop_profile.details.get("operators", {}).get("fusable")
    return 0.5 if fusable is None else 0.1 + 0.8 * fusable


def cannot_compile(loop_profile: LoopProfile) -> str:
    """Why no mode can be tried; "" when one can."""
    if "compiled" in loop_profile.facts:
        return "the script compiles its model already"
    if "gcc" not in loop_profile.facts:
        return "torch.compile needs a C++ compiler, and there is none"
    return ""
