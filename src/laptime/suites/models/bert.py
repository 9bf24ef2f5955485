"""BERT-base, as its configuration says (Devlin et al. 2018, arXiv:1810.04805), around torch's own encoder.

`laptime bench laptime.suites.models.bert:base`. 109,483,778 parameters, as the published model with a
head for two classes has; weights are random, tokens too.

Lies when: held against a library's BERT: in inference torch runs this encoder as one fused operator a layer.
"""

from typing import Any

VOCABULARY = 30_522
WIDTH, HEADS, LAYERS, INNER = 768, 12, 12, 3072
LONGEST = 512
TOKENS = 128  # tokens of one item


def base() -> tuple[Any, Any]:
    """The model, which gives logits (B, 2), and tokens (1, 128)."""
    import torch
    from torch import nn

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(VOCABULARY, WIDTH)
            self.places = nn.Embedding(LONGEST, WIDTH)
            self.kinds = nn.Embedding(2, WIDTH)
            self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
            self.dropout = nn.Dropout(0.1)
            layer = nn.TransformerEncoderLayer(
                WIDTH, HEADS, INNER, activation="gelu", layer_norm_eps=1e-12, batch_first=True
            )
            self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
            self.pooler = nn.Linear(WIDTH, WIDTH)
            self.head = nn.Linear(WIDTH, 2)
            for table in (self.words, self.places, self.kinds):
                nn.init.normal_(table.weight, std=0.02)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            place = torch.arange(tokens.shape[1], device=tokens.device)
            seen = self.words(tokens) + self.places(place) + self.kinds(torch.zeros_like(tokens))
            hidden = self.layers(self.dropout(self.norm(seen)))
            logits: torch.Tensor = self.head(torch.tanh(self.pooler(hidden[:, 0])))
            return logits

    return Bert(), torch.randint(VOCABULARY, (1, TOKENS))
