"""torch.compile: chains of small operators become one kernel each, and Python is left out of the step.

Source: Ansel et al., PyTorch 2, ASPLOS 2024; torch.nn.Module.compile.
Lies when: the run is short. Compiling takes seconds to minutes, and pays back only after as many steps as
it costs."""

from typing import Any

from laptime.tuning.catalogue import _bounds
from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import Optimization, Options


def apply(loop: Any, options: Options) -> None:
    """`Module.compile` of every trained model: in place, so whoever holds the model runs the compiled one.

    Who starts the trials says where compiled code is kept between them (TORCHINDUCTOR_CACHE_DIR)."""

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


OPTIMIZATION = Optimization(
    title="torch.compile",
    numerics="reassociated",
    saves=lambda loop_profile, options: (
        _bounds.bound_compile(loop_profile) * loop_profile.share("forward", "backward", "other")
    ),
    needs=frozenset({"gcc", "!compiled"}),
    gives=frozenset({"compiled"}),
    prior=0.3,
    compiles=True,
    # Sizes dynamic from the start if they are known to vary: else it compiles twice to find that out.
    propose=lambda loop_profile: [{"dynamic": True}] if "varying_shapes" in loop_profile.facts else [{}],
    switch=r"(use_)?(torch_?)?compile(_model)?",
    apply=apply,
    edit=edit,
)
