"""A small GPT with random weights and a cache: what a language model has to have for `laptime bench --llm`.

    laptime bench --llm examples/llm/tiny_gpt.py:build --prompt 128 --output-tokens 32

It is called as models of transformers are, and needs nothing but PyTorch.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

Cache = tuple[tuple[torch.Tensor, torch.Tensor], ...]


class Output(NamedTuple):
    """Logits (batch, tokens, vocabulary); a key and a value (batch, heads, tokens, width) a layer."""

    logits: torch.Tensor
    past_key_values: Cache


class Block(nn.Module):
    """Attention to what came before, then a feed-forward layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None) -> tuple:
        """(batch, tokens, width) and the layer's cache in, the same out; the cache stays as it is."""
        batch, tokens, width = x.shape
        q, k, v = (
            part.view(batch, tokens, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        seen = scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(gelu(self.up(self.norm2(x)))), (k, v)


class TinyGPT(nn.Module):
    """A decoder of `layers` blocks."""

    def __init__(self, *, vocabulary: int, width: int, heads: int, layers: int, context: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(
        self, input_ids: torch.Tensor, past_key_values: Cache | None = None, use_cache: bool = True
    ) -> Output:
        """Token ids (batch, tokens) that follow those of the cache; several only an empty one."""
        begin = 0 if past_key_values is None else past_key_values[0][0].shape[2]
        places = torch.arange(begin, begin + input_ids.shape[1], device=input_ids.device)
        x = self.tokens(input_ids) + self.positions(places)
        cache = []
        for index, block in enumerate(self.blocks):
            x, entry = block(x, None if past_key_values is None else past_key_values[index])
            cache.append(entry)
        return Output(self.head(self.norm(x)), tuple(cache))


def build() -> nn.Module:
    """14 million weights: half of GPT-2's width and depth, and a small vocabulary."""
    return TinyGPT(vocabulary=4096, width=384, heads=6, layers=6, context=1024)
