"""The work of a call that no machine can leave out: what bounds rest on.

    products        2 m n k multiply-adds of dense matrix products and linear layers: all of them
    convolutions    as if their kernels were 1 x 1: no bilinear algorithm (Winograd, FFT) needs fewer products
    weights         bytes of the parameters that these read

Left out, so that the bound stays one: attention and batched products (masks let kernels skip parts),
recurrent layers (packed sequences), FFTs, sparse and quantized operators, everything elementwise.

Source: Winograd, Arithmetic complexity of computations (1980): F(m, r) needs m + r - 1 products.
Lies when: a compiler proves that an output is not used and drops the operators behind it.
"""

from __future__ import annotations

from laptime.records.case import Case
from laptime.records.cost import Work

PRODUCTS = ("mm", "addmm", "linear", "gemm", "fullyconnected")
"""Names, without their library's prefix, of operators whose counted FLOPs are all needed."""


def work_of(case: Case) -> Work | None:
    """What one call of a case needs at least; None where nothing was counted, or nothing of it is needed."""
    receipt = case.details.receipt
    if receipt.least is not None:
        flops = {dtype: number for dtype, number in receipt.least.flops.items() if number}
        source = "dense products in full, convolutions as 1 x 1"
        return Work(flops=flops, weights=receipt.least.weights, source=source) if flops else None
    total = sum(number for name, number in receipt.counted.items() if _plain(name) in PRODUCTS)
    if not total:
        return None
    dtype = str(case.axes.get("dtype", "float32"))
    source = "dense products alone: the run does not tell the kernels of its convolutions"
    return Work(flops={dtype: total}, source=source)


def _plain(name: str) -> str:
    return name.rpartition(".")[2].rpartition("::")[2].lower()
