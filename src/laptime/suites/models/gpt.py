"""A small GPT: pre-norm decoder of 6 layers, width 384, around torch's own layers.

`laptime bench laptime.suites.models.gpt:small`. Shaped as GPT-2 (Radford et al. 2019: learnt positions,
pre-norm, GELU, the head shares the token table), sized for a laptop: 30,044,544 parameters, 256 tokens an
item. One call is one forward pass over all tokens; nothing is generated."""

from typing import Any

VOCABULARY = 50_257
WIDTH, HEADS, LAYERS = 384, 6, 6
TOKENS = 256  # tokens of one item, and the longest that there can be


def small() -> tuple[Any, Any]:
    """The model, which gives logits (B, 256, 50257), and tokens (1, 256)."""
    import torch
    from torch import nn

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(VOCABULARY, WIDTH)
            self.places = nn.Embedding(TOKENS, WIDTH)
            layer = nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, activation="gelu", batch_first=True, norm_first=True
            )
            self.layers = nn.TransformerEncoder(
                layer, LAYERS, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False
            )
            self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
            nn.init.normal_(self.words.weight, std=0.02)
            nn.init.normal_(self.places.weight, std=0.02)
            self.head.weight = self.words.weight

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            length = tokens.shape[1]
            place = torch.arange(length, device=tokens.device)
            seen = self.words(tokens) + self.places(place)
            mask = nn.Transformer.generate_square_subsequent_mask(
                length, device=tokens.device, dtype=seen.dtype
            )
            logits: torch.Tensor = self.head(self.layers(seen, mask=mask, is_causal=True))
            return logits

    return Gpt(), torch.randint(VOCABULARY, (1, TOKENS))
