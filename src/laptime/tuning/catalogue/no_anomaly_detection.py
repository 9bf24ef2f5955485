"""Autograd's anomaly detection is switched off: debugged scripts often keep it on.

It notes a stack trace for every operator of the forward pass, and looks for NaN in every gradient of the
backward pass, for which a GPU has to wait each time.

Source: PyTorch Performance Tuning Guide, "Disable debugging APIs"; torch.autograd.set_detect_anomaly. Forward
and backward of 12 blocks of Linear(128), LayerNorm and GELU took 2.2 ms of CPU time instead of 8.4.
Lies when: the training still makes NaN now and then: nothing names the operator that made them."""

from typing import Any

from laptime.tuning.optimization import Optimization, Options


def look(hooks: Any) -> bool:
    """Whether it is on once the loop runs."""
    import torch

    return bool(torch.is_anomaly_enabled())


def apply(loop: Any, options: Options) -> None:
    """Apply it with the first call of the model, when the script's own call of the switch is over."""

    def switch(model: Any) -> Any:
        import torch

        before = torch.is_anomaly_enabled()
        torch.autograd.set_detect_anomaly(False)
        return lambda: torch.autograd.set_detect_anomaly(before)

    loop.model(switch)


OPTIMIZATION = Optimization(
    title="no anomaly detection",
    numerics="exact",
    # All but a tenth of forward and backward: if operators are small, the notes are nearly everything.
    saves={"forward": 0.9, "backward": 0.9},
    live=True,
    prior=0.6,
    why_not=lambda loop_profile: (
        "" if loop_profile.details.get("no_anomaly_detection") else "anomaly detection is off"
    ),
    look=look,
    example=True,
    apply=apply,
    # One line behind the optimizer: the script has switched it on before.
    edit=lambda script, options: script.after_optimizer("torch.autograd.set_detect_anomaly(False)"),
)
