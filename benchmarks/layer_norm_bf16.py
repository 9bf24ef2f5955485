"""How far are gradients of LayerNorm's weight and bias off under autocast to bfloat16 on this CPU, by rows?

Beside the error of rounded inputs and output gradients alone, which is what bfloat16 itself costs. What is
above it comes from adding up rows in bfloat16: small numbers that are added to a large one are lost. It is
why the gates refuse `bf16_autocast` where a LayerNorm sees thousands of rows (ConvNeXt), and are right.
"""

from __future__ import annotations

from argparse import Namespace

import torch
from torch import Tensor
from torch.nn import functional

from _harness import Figures, option, run, table

CHANNELS = 40


def gradients(inputs: Tensor, above: Tensor, *, autocast: bool) -> tuple[Tensor, Tensor]:
    """Of weight and bias, (CHANNELS,); inputs and gradients of the output are (rows, CHANNELS)."""
    weight, bias = torch.ones(CHANNELS, requires_grad=True), torch.zeros(CHANNELS, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        made = functional.layer_norm(inputs.clone().requires_grad_(), (CHANNELS,), weight, bias)
    made.backward(above.to(made.dtype))
    assert weight.grad is not None
    assert bias.grad is not None
    return weight.grad, bias.grad


def errors(rows: int) -> dict[str, float]:
    """Relative to the gradients in float32."""
    torch.manual_seed(0)
    inputs = torch.randn(rows, CHANNELS)
    above = 0.02 * torch.randn(rows, CHANNELS) + 0.005 * torch.randn(1, CHANNELS)
    exact = gradients(inputs, above, autocast=False)
    short = inputs.bfloat16(), above.bfloat16()
    sides = {
        "rounded": gradients(short[0].float(), short[1].float(), autocast=False),
        "autocast": gradients(*short, autocast=True),
    }
    return {
        f"{side}, {name}": float((each - true).norm() / true.norm())
        for side, made in sides.items()
        for name, each, true in zip(("weight", "bias"), made, exact, strict=True)
    }


def main(asked: Namespace, data: Figures) -> int:
    """Print the table."""
    torch.set_num_threads(1)
    data |= {"rows": {rows: errors(rows) for rows in asked.rows}}
    names = list(next(iter(data["rows"].values())))
    table(
        ("rows", *names),
        [(str(rows), *(f"{each[name]:.2%}" for name in names)) for rows, each in data["rows"].items()],
    )
    return 0


if __name__ == "__main__":
    run(
        main, "LayerNorm under autocast", option("rows", nargs="*", type=int, default=[128, 512, 2048, 16384])
    )
