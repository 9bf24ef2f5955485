"""Training steps with one planted cause each, drawn at random: device, depth, lengths, and how much of a step
the cause takes.

Written when the rules were done; no threshold was set with these in view. `benchmarks/first_findings.py` asks
about all of them, and `tests/advice/test_drawn.py` about some.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from advice.made import parts
from fixtures.kineto import A100, B200, H100, V100, Recording

HALF = "c10::Half"


class Drawn(NamedTuple):
    """How a recording was drawn: `us` of device work a step, `cost` of the planted cause in us."""

    r: Recording
    of: random.Random
    kind: str
    blocks: int
    us: float
    cost: float

    def model(self) -> None:
        """Forward and backward."""
        parts.forward(self.r, self.blocks, self.us / 3, self.kind)
        parts.backward(self.r, self.blocks, self.us * 2 / 3, self.kind)


def _fused(d: Drawn) -> None:
    parts.adamw(d.r, d.of.uniform(200, 900), kernel=parts.FUSED_ADAM, kernels=3)


def _usual(d: Drawn) -> None:
    d.model()
    _fused(d)


def _fed(d: Drawn) -> None:
    parts.loader(d.r, d.of.uniform(30, 120))
    parts.upload(d.r)


def _nothing(d: Drawn) -> None:
    _fed(d)
    _usual(d)


def _starved(workers: bool) -> Callable[[Drawn], None]:
    def step(d: Drawn) -> None:
        parts.loader(d.r, d.cost, workers=workers)
        parts.upload(d.r)
        _usual(d)
        d.r.sync()

    return step


def _own_loader(d: Drawn) -> None:
    with d.r.annotation(d.of.choice(["load_batch", "get_batch", "data_loading"])):
        d.r.work(d.cost)
    parts.upload(d.r)
    _usual(d)
    d.r.sync()


def _pageable(d: Drawn) -> None:
    parts.upload(d.r, int(d.cost * 6e3), pageable=True)
    _usual(d)


def _pinned(d: Drawn) -> None:
    parts.loader(d.r, 50)
    parts.upload(d.r, int(d.cost * 22e3))
    _usual(d)


def _item(d: Drawn) -> None:
    _fed(d)
    d.model()
    with d.r.op("aten::item", 2), d.r.op("aten::_local_scalar_dense", 2):
        d.r.copy("DtoH", 4, pageable=True)
        d.r.sync("cudaStreamSynchronize")
    d.r.work(d.cost)
    _fused(d)


def _own_work(d: Drawn) -> None:
    _fed(d)
    with d.r.function(f"{d.of.choice(['train', 'loop'])}.py(31): {d.of.choice(['log', 'match', 'score'])}"):
        d.r.work(d.cost)
    _usual(d)
    d.r.sync()


def _small(d: Drawn) -> None:
    _fed(d)
    for _ in range(int(d.cost / 22)):
        parts.pointwise(d.r, "aten::mul", parts.MUL, d.of.uniform(1.5, 3), host=d.of.uniform(8, 14))
    parts.backward(d.r, d.blocks, d.us / 10, d.kind)
    _fused(d)


def _walking(name: str) -> Callable[[Drawn], None]:
    def step(d: Drawn) -> None:
        _fed(d)
        d.model()
        parts.single_tensor(d.r, name, int(d.cost / 45))

    return step


def _collects(d: Drawn) -> None:
    _fed(d)
    parts.forward(d.r, d.blocks, d.us / 3, d.kind)
    with d.r.function("train.py(70): tidy"), d.r.function("<built-in function collect>"):
        d.r.work(d.us / 3 + d.cost)
    parts.backward(d.r, d.blocks, d.us * 2 / 3, d.kind)
    _fused(d)
    d.r.sync()


def _compiles(d: Drawn) -> None:
    _fed(d)
    with (
        d.r.annotation(f"Torch-Compiled Region: 0/{d.of.randint(1, 9)}"),
        d.r.annotation("_compile.compile_inner (dynamo_timed)"),
    ):
        d.r.work(d.cost)
    _usual(d)
    d.r.sync()


def _zeroes(d: Drawn) -> None:
    _fed(d)
    with d.r.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
        for _ in range(int(d.cost / 14)):
            with d.r.op("aten::zero_", 3), d.r.op("aten::fill_", 4):
                d.r.launch(parts.ZERO, 1.8)
    _usual(d)


def _talks(d: Drawn) -> None:
    _fed(d)
    d.model()
    d.r.collective("allreduce", 50_000_000, d.cost, joins=7)
    _fused(d)


def _attends(d: Drawn) -> None:
    _fed(d)
    length, heads = d.of.choice([1024, 2048]), d.of.choice([64, 128])
    q, scores = [heads, length, 64], [heads, length, length]
    each = (d.us + d.cost) / d.blocks / 3
    for _ in range(d.blocks):
        parts.linear(d.r, d.us / d.blocks / 3, d.kind)
        with d.r.op("aten::bmm", 5, **{"Input Dims": [q, [heads, 64, length]], "Input type": [HALF] * 2}):
            d.r.launch(parts.GEMM["fp16"], each * 0.6)
        with (
            d.r.op("aten::softmax", 3),
            d.r.op(
                "aten::_softmax",
                4,
                **{"Input Dims": [scores, [], []], "Input type": [HALF, "Scalar", "Scalar"]},
            ),
        ):
            d.r.launch("void softmax_warp_forward<c10::Half, c10::Half, float, 11>", each)
        with d.r.op("aten::bmm", 5, **{"Input Dims": [scores, q], "Input type": [HALF] * 2}):
            d.r.launch(parts.GEMM["fp16"], each * 0.6)
    with d.r.backward():
        for _ in range(2 * d.blocks):
            with d.r.op("AddmmBackward0", 4, **{"Fwd thread id": 1}):
                parts.linear(d.r, d.us / d.blocks / 3, d.kind)
    _fused(d)


def _asks_the_driver(d: Drawn) -> None:
    _fed(d)
    parts.forward(d.r, d.blocks, d.us / 3, d.kind)
    with d.r.op("aten::empty", 4):
        d.r.sync("cudaDeviceSynchronize")
        for _ in range(5):
            d.r.call("cudaFree", d.cost / 10, correlation=d.of.randint(10**6, 10**8))
            d.r.call("cudaMalloc", d.cost / 10, correlation=d.of.randint(10**6, 10**8))
    parts.backward(d.r, d.blocks, d.us * 2 / 3, d.kind)
    _fused(d)


def _takes_apart(d: Drawn) -> None:
    _fed(d)
    with d.r.function("model.py(88): unroll"):
        for _ in range(int(d.cost / 9)):
            with d.r.op("aten::select", 7, 2):
                pass
    _usual(d)
    d.r.sync()


def _clones(d: Drawn) -> None:
    _fed(d)
    for _ in range(200):
        with d.r.op("aten::clone", 3), d.r.op("aten::copy_", 3):
            d.r.copy("DtoD", int(d.cost / 200 * 700e3), gbs=700)
    _usual(d)


def _memory_bound(d: Drawn) -> None:
    _fed(d)
    for _ in range(120):
        parts.pointwise(d.r, "aten::mul", parts.MUL, (d.us + d.cost) / 120)
    _usual(d)


class Cause(NamedTuple):
    """A planted cause: the step, findings that may come first, those that are true besides."""

    step: Callable[[Drawn], None]
    first: tuple[str, ...]
    true: tuple[str, ...] = ()


CAUSES: dict[str, Cause] = {
    "nothing": Cause(_nothing, (), ("elementwise",)),
    "loader with workers": Cause(_starved(workers=True), ("num-workers",), ("synchronisation",)),
    "loader without workers": Cause(_starved(workers=False), ("num-workers",), ("synchronisation",)),
    "loader of one's own": Cause(_own_loader, ("hidden-input",), ("synchronisation", "host-work")),
    "pageable batches": Cause(_pageable, ("pageable-copies",)),
    "large pinned batches": Cause(_pinned, ("exposed-copies",)),
    "item in every step": Cause(_item, ("synchronisation",), ("host-work",)),
    "work of the host": Cause(_own_work, ("host-work",), ("synchronisation",)),
    "small operators": Cause(_small, ("host-bound",), ("elementwise",)),
    "AdamW by tensor": Cause(_walking("AdamW"), ("unfused-optimizer",), ("host-bound",)),
    "NAdam by tensor": Cause(_walking("NAdam"), ("unfused-optimizer",), ("host-bound",)),
    "garbage collection": Cause(_collects, ("garbage-collection",), ("synchronisation",)),
    "compiling anew": Cause(_compiles, ("recompiles",), ("synchronisation",)),
    "zeroed gradients": Cause(_zeroes, ("gradient-zeroing",), ("host-bound",)),
    "exposed all-reduce": Cause(_talks, ("communication",)),
    "attention by hand": Cause(_attends, ("attention",), ("elementwise",)),
    "memory from the driver": Cause(_asks_the_driver, ("allocator",), ("synchronisation",)),
    "indexing in a loop": Cause(
        _takes_apart, ("loop-indexing",), ("host-work", "synchronisation", "host-bound")
    ),
    "clones": Cause(_clones, ("device-copies",)),
    "elementwise kernels": Cause(_memory_bound, ("elementwise",)),
}
EVERYWHERE = ("elementwise", "uneven-steps")
"""True of any of these steps, if small: operators that a compiler would fuse, lengths that were drawn."""


def draw(cause: str, seed: int) -> Recording:
    """A recording with this cause; the same for the same seed."""
    of = random.Random(f"{cause} {seed}")
    device, kind = of.choice([(A100, "fp16"), (H100, "bf16"), (B200, "bf16"), (V100, "fp16")])
    about: dict[str, Any] = {"with_stack": 1} if of.random() < 0.5 else {}
    r = Recording(device, seed=seed, **about)
    us = of.uniform(15_000, 90_000)
    share = of.uniform(0.25, 0.6)
    drawn = Drawn(r, of, kind, of.randint(6, 24), us, us * share / (1 - share))
    first = of.randint(2, 400)
    for number in range(of.randint(3, 6)):
        with r.step(first + number):
            CAUSES[cause].step(drawn)
    r.sync()
    return r
