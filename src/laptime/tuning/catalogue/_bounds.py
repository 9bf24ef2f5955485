"""Upper bounds that several optimizations share: seconds of a step, or a share of forward and backward."""

import math

from laptime.tuning.loop_profile import LoopProfile

PAGE_FAULT = 3e-6
"""Seconds of a page fault, clearing of the page included: 2.8 us of CPU time on a KVM guest (Cascade Lake,
Linux 6.18, ResNet-18 at batch 32, 245,000 faults a step)."""
BYTES = 0.25
"""Of operators that are neither products nor convolutions: half of the bytes, if bytes are half of their
time. A chain of tiny ones saves nothing at all."""


def within(loop_profile: LoopProfile, seconds: float) -> float:
    """Seconds that are neither negative nor more than the step."""
    return min(max(0.0, seconds), loop_profile.step)


def no_products(loop_profile: LoopProfile) -> str:
    """Say why there are no products to speed up; "" if there are some."""
    has_some = {"linear", "attention", "conv"} & loop_profile.facts
    return "" if has_some else "the trained models have neither matrix products nor convolutions"


def page_faults(loop_profile: LoopProfile) -> float:
    """Seconds of a step that go to page faults at most; no limit if they were not counted."""
    faults = loop_profile.details.get("page_faults")
    return math.inf if faults is None else PAGE_FAULT * faults


def bound_compile(loop_profile: LoopProfile) -> float:
    """Share of forward and backward that compiling saves at most.

    Half, if nothing more is known: up to 2x of a whole step was seen on the CPU and on GPUs (PyTorch 2
    paper, geometric mean of training 1.4x). On the CPU the diagnosis has timed the operators: those that a
    library computes stay as they are; a chain of others becomes one pass over its data, which leaves a tenth
    of it. And a tenth of everything for what Python and autograd need between them."""
    fusable = loop_profile.detail("operators", "fusable", None)
    return 0.5 if fusable is None else 0.1 + 0.8 * fusable


def narrower(loop_profile: LoopProfile, products: float, others: float = BYTES) -> float:
    """Share of forward and backward that narrower numbers save at most. products: saved of products and
    convolutions; others: of everything else. On the CPU the diagnosis has timed the operators by these two
    kinds; if it has not, all counts as products."""
    rest = loop_profile.detail("operators", "fusable", None) or 0.0
    return float(products * (1 - rest) + others * rest)
