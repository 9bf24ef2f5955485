"""torch.compile of every trained model, for the files that differ in its mode only."""

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import Options


def apply(loop: Any, options: Options) -> None:
    """`Module.compile` of every trained model: in place, so whoever holds the model runs the compiled one.

    Who starts the trials says where compiled code is kept between them (TORCHINDUCTOR_CACHE_DIR).
    """

    def convert(model: Any) -> Any:
        before = model._compiled_call_impl
        model.compile(**options)
        return lambda: setattr(model, "_compiled_call_impl", before)

    loop.model(convert)


def edit(script: Any, options: Options) -> None:
    """TrainingArguments(torch_compile=True), else one line behind the optimizer."""
    mode, dynamic = options.get("mode", ""), options.get("dynamic", False)
    hf = {"torch_compile": "True", **({"torch_compile_mode": repr(mode)} if mode else {})}
    if dynamic or not by_trainer(script, hf=hf):
        arguments = [*([f"mode={mode!r}"] if mode else []), *(["dynamic=True"] if dynamic else [])]
        script.after_model("{model}.compile(" + ", ".join(arguments) + ")")
