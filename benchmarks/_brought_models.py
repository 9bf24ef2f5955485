"""Models of kinds that people bring, small, with random weights, each as `file.py:FUNCTION` gives it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Lambda(nn.Module):
    """A function with parts that have weights."""

    def __init__(self, forward: Any, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.call = forward

    def forward(self, *given: Any, **named: Any) -> Any:
        return self.call(self, *given, **named)


def _body(width: int = 16) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, width, 3, 2, 1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, 2, 1),
        nn.ReLU(),
    )


def classifier() -> Any:
    return nn.Sequential(_body(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)), torch.randn(
        2, 3, 64, 64
    )


def detector_of_torchvision() -> Any:
    import torchvision

    model = torchvision.models.detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
    return model.eval(), ([torch.rand(3, 96, 96)],)


def detector_with_queries() -> Any:
    def forward(self: Any, images: Tensor) -> dict[str, Tensor]:
        found = self.body(images).flatten(2).transpose(1, 2)
        queries = self.decoder(self.queries.weight.expand(len(images), -1, -1), found)
        return {"logits": self.classes(queries), "boxes": self.boxes(queries).sigmoid()}

    layer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)
    parts = {"body": _body(), "decoder": nn.TransformerDecoder(layer, 1), "queries": nn.Embedding(20, 16)}
    return Lambda(forward, **parts, classes=nn.Linear(16, 12), boxes=nn.Linear(16, 4)).eval(), torch.randn(
        2, 3, 64, 64
    )


def boxes_above_a_score() -> Any:
    def forward(self: Any, boxes: Tensor) -> Tensor:
        scores = self.head(boxes).squeeze(-1).sigmoid()
        return boxes[scores > 0.5]

    return Lambda(forward, head=nn.Linear(4, 1)).eval(), torch.rand(40, 4)


def segmenter() -> Any:
    def forward(self: Any, images: Tensor) -> dict[str, Tensor]:
        found = functional.interpolate(self.head(self.body(images)), images.shape[-2:], mode="bilinear")
        return {"out": found, "classes": found.argmax(1)}

    return Lambda(forward, body=_body(), head=nn.Conv2d(16, 5, 1)).eval(), torch.randn(2, 3, 64, 64)


def speech_recogniser() -> Any:
    def forward(self: Any, features: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(features, lengths, batch_first=True, enforce_sorted=False)
        out, _ = nn.utils.rnn.pad_packed_sequence(
            self.rnn(packed)[0], batch_first=True, total_length=features.shape[1]
        )
        return self.head(out).log_softmax(-1)

    return Lambda(forward, rnn=nn.LSTM(20, 24, batch_first=True), head=nn.Linear(24, 30)).eval(), (
        torch.randn(2, 50, 20),
        torch.tensor([50, 37]),
    )


def speech_encoder() -> Any:
    def forward(self: Any, mel: Tensor) -> Tensor:
        x = functional.gelu(self.two(functional.gelu(self.one(mel)))).transpose(1, 2)
        return self.body(x + self.places.weight[: x.shape[1]])

    parts = {
        "one": nn.Conv1d(40, 32, 3, padding=1),
        "two": nn.Conv1d(32, 32, 3, 2, 1),
        "places": nn.Embedding(100, 32),
    }
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return Lambda(
        forward, **parts, body=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    ).eval(), torch.randn(2, 40, 100)


def translator() -> Any:
    def forward(self: Any, source: Tensor, target: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.head(self.body(self.table(source), self.table(target), tgt_mask=causal))

    body = nn.Transformer(32, 4, 1, 1, 64, batch_first=True)
    return Lambda(forward, table=nn.Embedding(200, 32), body=body, head=nn.Linear(32, 200)).eval(), (
        torch.randint(0, 200, (2, 14)),
        torch.randint(0, 200, (2, 9)),
    )


def recommender() -> Any:
    def forward(self: Any, places: Tensor, offsets: Tensor, dense: Tensor) -> Tensor:
        return self.head(torch.cat([self.bag(places, offsets), dense], 1)).sigmoid().squeeze(-1)

    given = torch.randint(0, 500, (12,)), torch.tensor([0, 5, 7]), torch.randn(3, 6)
    return Lambda(forward, bag=nn.EmbeddingBag(500, 16, mode="sum"), head=nn.Linear(22, 1)).eval(), given


def tagger() -> Any:
    def forward(self: Any, words: Tensor) -> Tensor:
        return self.head(self.rnn(self.table(words))[0]).argmax(-1)

    return Lambda(
        forward,
        table=nn.Embedding(300, 16),
        rnn=nn.GRU(16, 16, batch_first=True, bidirectional=True),
        head=nn.Linear(32, 9),
    ).eval(), torch.randint(0, 300, (2, 20))


def sound_classifier() -> Any:
    def forward(self: Any, sound: Tensor) -> Tensor:
        spectrum = torch.stft(sound, 64, 32, window=torch.hann_window(64), return_complex=True).abs()
        return self.head((spectrum + 1e-5).log().mean(-1))

    return Lambda(forward, head=nn.Linear(33, 8)).eval(), torch.randn(2, 2048)


def siamese() -> Any:
    def forward(self: Any, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        sides = [functional.normalize(self.body(each).mean((2, 3)), dim=1) for each in (one, other)]
        return (sides[0] * sides[1]).sum(1), sides[0], sides[1]

    return Lambda(forward, body=_body()).eval(), (torch.randn(2, 3, 48, 48), torch.randn(2, 3, 48, 48))


def keywords_and_a_dict() -> Any:
    def forward(self: Any, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        x = self.body(self.table(input_ids), src_key_padding_mask=attention_mask == 0)
        return {"last_hidden_state": x, "pooled": x[:, 0].tanh()}

    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    given = {
        "input_ids": torch.randint(0, 100, (2, 16)),
        "attention_mask": torch.ones(2, 16, dtype=torch.int64),
    }
    return Lambda(
        forward, table=nn.Embedding(100, 32), body=nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    ).eval(), given


def branches_on_values() -> Any:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.one(x) if x.mean() > 0 else self.other(x)

    return Lambda(forward, one=nn.Linear(8, 4), other=nn.Linear(8, 4)).eval(), torch.randn(2, 8)


def loop_until_done() -> Any:
    def forward(self: Any, x: Tensor) -> Tensor:
        while float(x.norm()) > 1:
            x = self.step(x) * 0.5
        return x

    return Lambda(forward, step=nn.Linear(8, 8)).eval(), torch.randn(2, 8)


def mixture_of_experts() -> Any:
    def forward(self: Any, x: Tensor) -> Tensor:
        weights = self.gate(x).softmax(-1)
        best = weights.argmax(-1)
        out = torch.zeros_like(x)
        for at, expert in enumerate(self.experts):
            rows = best == at
            out[rows] = expert(x[rows]) * weights[rows, at : at + 1]
        return out

    return Lambda(
        forward, gate=nn.Linear(16, 4), experts=nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
    ).eval(), torch.randn(8, 16)


def graph_network() -> Any:
    def forward(self: Any, nodes: Tensor, edges: Tensor) -> Tensor:
        sums = torch.zeros_like(nodes).index_add(0, edges[1], self.message(nodes[edges[0]]))
        return self.head(nodes + sums)

    return Lambda(forward, message=nn.Linear(8, 8), head=nn.Linear(8, 3)).eval(), (
        torch.randn(10, 8),
        torch.randint(0, 10, (2, 30)),
    )


def diffusion_step() -> Any:
    def forward(self: Any, noisy: Tensor, time: Tensor) -> Tensor:
        place = torch.cat(
            [
                (time[:, None] / 100 ** (torch.arange(8) / 8)).sin(),
                (time[:, None] / 100 ** (torch.arange(8) / 8)).cos(),
            ],
            1,
        )
        return self.two(functional.silu(self.norm(self.one(noisy) + self.time(place)[:, :, None, None])))

    parts = {
        "one": nn.Conv2d(4, 16, 3, padding=1),
        "norm": nn.GroupNorm(4, 16),
        "two": nn.Conv2d(16, 4, 3, padding=1),
    }
    return Lambda(forward, **parts, time=nn.Linear(16, 16)).eval(), (
        torch.randn(2, 4, 16, 16),
        torch.tensor([3, 700]),
    )


def quantised() -> Any:
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10)).eval()
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8), torch.randn(4, 32)


def scripted() -> Any:
    return torch.jit.script(
        nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    ), torch.randn(4, 16)


def language_model_with_cache() -> Any:
    def forward(self: Any, tokens: Tensor) -> tuple[Tensor, tuple[tuple[Tensor, Tensor], ...]]:
        x = self.table(tokens)
        keys, values = self.keys(x), self.values(x)
        mixed = functional.scaled_dot_product_attention(x, keys, values, is_causal=True)
        return self.head(mixed), ((keys, values),)

    parts = {"table": nn.Embedding(100, 16), "keys": nn.Linear(16, 16), "values": nn.Linear(16, 16)}
    return Lambda(forward, **parts, head=nn.Linear(16, 100)).eval(), torch.randint(0, 100, (2, 12))


def tokens_written_one_by_one() -> Any:
    def forward(self: Any, tokens: Tensor) -> Tensor:
        for _ in range(5):
            after = self.head(self.rnn(self.table(tokens))[0][:, -1]).argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, after], 1)
        return tokens

    return Lambda(
        forward, table=nn.Embedding(50, 16), rnn=nn.GRU(16, 16, batch_first=True), head=nn.Linear(16, 50)
    ).eval(), torch.randint(0, 50, (2, 6))


def random_outputs() -> Any:
    return Lambda(
        lambda self, x: self.body(x) + torch.randn(len(x), 4), body=nn.Linear(8, 4)
    ).eval(), torch.randn(2, 8)


def complex_outputs() -> Any:
    return Lambda(lambda self, x: torch.fft.rfft(self.body(x)), body=nn.Linear(16, 16)).eval(), torch.randn(
        2, 16
    )


def in_bfloat16() -> Any:
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).bfloat16().eval(), torch.randn(
        4, 16
    ).bfloat16()


MODELS = {
    "image classifier": "classifier",
    "detector of torchvision (a list of images, a list of dicts)": "detector_of_torchvision",
    "detector with queries (dict of logits and boxes)": "detector_with_queries",
    "boxes above a score (as many as there are)": "boxes_above_a_score",
    "segmenter (dict of scores and classes)": "segmenter",
    "speech recogniser, LSTM with packed lengths": "speech_recogniser",
    "speech encoder, convolutions and attention": "speech_encoder",
    "translator, source and target": "translator",
    "recommender, bags of places with offsets": "recommender",
    "tagger (labels only)": "tagger",
    "sound classifier with an STFT": "sound_classifier",
    "siamese, two images": "siamese",
    "text encoder, keywords in and a dict out": "keywords_and_a_dict",
    "flow that depends on values": "branches_on_values",
    "loop until a value is small": "loop_until_done",
    "mixture of experts, rows by mask": "mixture_of_experts",
    "graph network, scattered sums": "graph_network",
    "diffusion step, image and time": "diffusion_step",
    "quantised by torch (dynamic int8)": "quantised",
    "TorchScript": "scripted",
    "language model with a cache (nested tuples)": "language_model_with_cache",
    "tokens written one by one": "tokens_written_one_by_one",
    "outputs with random numbers": "random_outputs",
    "complex outputs": "complex_outputs",
    "weights in bfloat16": "in_bfloat16",
}
"""In words, with its function."""
