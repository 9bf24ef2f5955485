"""PyTorch: eager or compiled, on the CPU or any accelerator that PyTorch knows.

Nothing here imports torch before `open`, `open_object` or `imports` is called.

    tensors     nested inputs and outputs: walk, move, describe
    batching    which dimension of given inputs is the batch, and how that is known
    place       devices, how to wait for them, versions and knobs; what torch raises, as laptime's errors
    setup       a program made ready as the variant asks, and the way back; guessed inputs
    loading     a target, or an object of this process, as a model; prefill and decode of a language model
    model       a loaded target; workload: its inputs of one batch size, the mode of its calls
    training    the same in training mode: a call is a full step
    count       parameters, MACs and FLOPs with receipt; which operators are no work; least work
    formulas    FLOPs of operators that torch's counter leaves out
    cuda        event times, device memory, copies
    peaks       measured GEMM and copy rates of a device; what torch sees of the machine"""

from typing import TYPE_CHECKING, Any

from laptime.backends._shared import import_framework, versions
from laptime.kit.extras import install
from laptime.records.plan import Variant

if TYPE_CHECKING:
    from laptime.backends.torch.model import TorchModel

TARGETS = ("torchvision", "timm", "file", "module", "null")  # kinds of targets that it can run
OPTIONS = {
    "phase": "prefill or decode of a language model; --llm measures both",
    "prompt": "tokens of its prompt, 128 unless given",
    "output": "tokens that it answers with, 32 unless given",
    "grad": "inference, no_grad or grad; as a plain call needs it unless given",
    "mode": "eval or train of the modules; as they are given unless set",
}
TRAINS = True  # variants with an optimizer are measured as training steps


def available() -> dict[str, str]:
    """Versions of torch, torchvision and timm, of those that are installed; {} without torch."""
    return versions({name: (name,) for name in ("torch", "torchvision", "timm")}, needs="torch")


def imports(variant: Variant) -> None:
    """Import torch and the package of the target, so that import time and load time can be told apart.
    Raises Unavailable: one of them is not installed or does not import. TargetError: see `targets.parse`."""
    from laptime.targets import parse

    for package in ("torch", *parse(variant.target).packages):
        import_framework(package, next=install("torch"))


def open(variant: Variant) -> "TorchModel":
    """The target of a variant, on its device, in its dtype, in eval mode, compiled if asked for.
    Raises Unavailable: torch, a package or the device is not there. TargetError, UserCodeError: see
    `laptime.targets`. OutOfMemory: it does not fit."""
    imports(variant)
    from laptime.backends.torch.loading import load

    return load(variant)


def open_object(subject: Any, inputs: Any, variant: Variant) -> "TorchModel":
    """A model of this process. `inputs` as in `laptime.targets.Program`, or a function of the batch size.

    The user's own object is never moved or cast: where device, dtype or memory format differ, a copy is.
    `device="auto"` and `dtype="auto"` take what it has. `close` gives back training flags and thread count.
    Raises UsageError: it cannot be copied, or no inputs are given and none can be guessed."""
    from laptime.backends.torch.loading import adopt

    return adopt(subject, inputs, variant)
