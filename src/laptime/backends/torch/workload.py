"""The call that the loop times: inputs of one batch size bound to the model, in a mode of autograd.

    inference    torch.inference_mode, unless a plain call gives other outputs
    no_grad      torch.no_grad
    grad         gradients on, as a plain call has them

A model that differentiates inside its forward (force fields, Jacobians) fails in inference mode or, worse,
answers with zeros. One plain call beside the first one shows it; it keeps no activations, unless it has to.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from laptime.backends._shared import BoundWorkload, torch
from laptime.backends.torch import tensors
from laptime.targets import arguments

MODES = ("inference", "no_grad", "grad")
LESS = "it takes no gradients in inference mode, and does less work there"
CLOSE = 0.01  # root mean square of a difference, as a share of the output's. Other kernels differ by 1e-6.


@dataclass(kw_only=True, slots=True)
class TorchWorkload(BoundWorkload):
    """`call` enters its mode itself; `changed`: the inputs, by calls."""

    inputs: Any
    eager: Callable[[], Any]
    changed: bool = False


def inside(mode: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The call in a mode, whatever mode the thread is in."""
    import torch

    inference_mode, is_on = torch.inference_mode, torch.is_inference_mode_enabled

    def inferring(*args: Any, **kwargs: Any) -> Any:
        if is_on():
            return call(*args, **kwargs)
        with inference_mode():
            return call(*args, **kwargs)

    def plain(*args: Any, **kwargs: Any) -> Any:
        with inference_mode(False), torch.set_grad_enabled(mode == "grad"):
            return call(*args, **kwargs)

    return inferring if mode == "inference" else plain


def dice() -> tuple[Any, Any]:
    """The states of random numbers now."""
    return random.getstate(), torch.get_rng_state()


@contextmanager
def thrown(again: tuple[Any, Any]) -> Iterator[None]:
    """Random numbers as they were then, and afterwards as they are."""
    for states in (again, dice()):
        random.setstate(states[0])
        torch.set_rng_state(states[1])
        if states is again:
            yield


def find_mode(call: Callable[..., Any], lay: Callable[[], Any], then: Any, outcome: Any) -> tuple[str, str]:
    """The mode that gives what a plain call gives, and why it is not inference mode; "" if it is. lay: gives
    the inputs as they were before the first call; `then`: its dice. outcome: what that call gave, or raised.
    """

    def try_mode(mode: str) -> Any:
        args, kwargs = arguments(lay())
        try:
            with thrown(then):
                return inside(mode, call)(*args, **kwargs)
        except Exception as error:
            return error

    def watch(mode: str) -> tuple[Any, bool]:
        """Return the output without kept activations, and whether it takes gradients, which then fail."""
        is_taken = False

        def unpack(packed: Any) -> Any:
            nonlocal is_taken
            is_taken = True
            raise RuntimeError("nothing was kept")

        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: None, unpack):
            return try_mode(mode), is_taken

    plain, is_differentiating = watch("grad")
    if is_differentiating or isinstance(plain, Exception):
        plain = try_mode("grad")
    has_failed = isinstance(outcome, Exception)
    if isinstance(plain, Exception):
        return "inference", ""
    # Gradients may be a small part of the output, or none: work that is left out shows in no number.
    is_less = is_differentiating and not has_failed and not watch("inference")[1]
    # Two calls may differ in one mode, too: then nothing tells.
    if not is_less and (alike(outcome, plain) or not (has_failed or alike(outcome, try_mode("inference")))):
        return "inference", ""
    why = "its output differs in inference mode"
    if has_failed or alike(outcome, plain):
        why = f"it fails in inference mode ({type(outcome).__name__})" if has_failed else LESS
    if alike(try_mode("no_grad"), plain) and not (is_less and not watch("no_grad")[1]):
        return "no_grad", why
    # Else a fast path that is taken without gradients alone: what is deployed takes it.
    return ("grad", why) if has_failed or is_differentiating else ("inference", "")


def alike(one: Any, other: Any) -> bool:
    """Whether two outputs have the same structure and, but for rounding, the same numbers."""
    if (
        isinstance(one, Exception)
        or isinstance(other, Exception)
        or tensors.words(one) != tensors.words(other)
    ):
        return False
    return all(map(_is_close, tensors.tensors(one), tensors.tensors(other)))


def _is_close(one: Any, other: Any) -> bool:
    if one.is_sparse or not one.numel():
        return True
    finite = one.isfinite()
    wide = torch.complex128 if one.is_complex() else torch.float64
    a, b = (each.detach()[finite].to(wide) for each in (one, other))
    is_near = (a - b).abs().square().sum() <= CLOSE**2 * b.abs().square().sum()
    return torch.equal(finite, other.isfinite()) and bool(is_near)


MOST, SECONDS = 9, 1.0  # pairs of calls, and the time for more than three of them


def share_of_eval(modules: Iterable[Any], call: Callable[[], Any]) -> float | None:
    """Time of a call in eval mode as a share of one in training mode, call by call in turns; None if no
    module is in training. modules: all of them, down to the last; their flags are given back."""
    parts = [module for module in modules if module.training]
    shares: list[float] = []
    began = time.perf_counter()
    while parts and len(shares) < MOST and (len(shares) < 3 or time.perf_counter() - began < SECONDS):
        seconds = []
        for training in (False, True):
            for part in parts:
                part.training = training
            started = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - started)
        shares.append(seconds[0] / seconds[1])
    return median(shares[1:]) if shares else None
