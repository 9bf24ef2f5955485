"""Twelve models that no code of laptime was fitted to, with random weights: `tune_model.py --models twelve`.

Each function gives the model in eval mode and the inputs of one item. A session with a metric is given
`samples`, other inputs of the same kind, and `score`, how far outputs point where the model's own do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SAMPLES = 8  # calls that a metric is asked about


def images(size: int) -> Tensor:
    """One image."""
    return torch.randn(1, 3, size, size)


def convnext() -> Any:
    return _timm("convnext_nano"), images(224)


def mobilevit() -> Any:
    return _timm("mobilevit_xs"), images(256)


def maxvit() -> Any:
    return _timm("maxvit_pico_rw_256"), images(256)


def _timm(name: str) -> nn.Module:
    import timm

    torch.manual_seed(0)
    made: nn.Module = timm.create_model(name, pretrained=False).eval()
    return made


def deeplabv3() -> Any:
    """Scores of pixels, in a dict."""
    from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large

    torch.manual_seed(0)
    return deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None).eval(), images(256)


class Boxes(nn.Module):
    """Scores and offsets of a detector for all its anchors: what it computes before boxes are chosen."""

    def __init__(self, detector: Any) -> None:
        super().__init__()
        self.backbone, self.head = detector.backbone, detector.head

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        made: dict[str, Tensor] = self.head(list(self.backbone(images).values()))
        return made


def ssdlite() -> Any:
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    torch.manual_seed(0)
    detector = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
    return Boxes(detector).eval(), images(320)


class Attention(nn.Module):
    """Several heads; keys and values of `other` if there is one."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, other: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        seen = x if other is None else other
        parts = (self.query(x), self.key(seen), self.value(seen))
        query, key, value = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in parts)
        made = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.out(made.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention to itself, to another sequence if it is crossed, and a perceptron; norms come first."""

    def __init__(self, width: int, heads: int, *, crossed: bool = False) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = Attention(width, heads), Attention(width, heads) if crossed else None
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, other: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
        x = x + self.own(self.norms[0](x), bias=bias)
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), other)
        return x + self.perceptron(self.norms[2](x))


def _causal(length: int) -> Tensor:
    return torch.full((length, length), float("-inf")).triu(1)


class Whisper(nn.Module):
    """Ten seconds of sound, and the tokens so far: the scores of the next ones."""

    def __init__(self, width: int = 384, heads: int = 6, tokens: int = 8000) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(80, width, 3, 1, 1), nn.Conv1d(width, width, 3, 2, 1)
        self.places = nn.Parameter(torch.randn(500, width) / 50)
        self.encoder = nn.ModuleList(Layer(width, heads) for _ in range(4))
        self.table, self.steps = nn.Embedding(tokens, width), nn.Embedding(64, width)
        self.decoder = nn.ModuleList(Layer(width, heads, crossed=True) for _ in range(4))

    def forward(self, sound: Tensor, tokens: Tensor) -> Tensor:
        heard = functional.gelu(self.second(functional.gelu(self.first(sound)))).transpose(1, 2) + self.places
        for layer in self.encoder:
            heard = layer(heard)
        x = self.table(tokens) + self.steps.weight[: tokens.shape[1]]
        for layer in self.decoder:
            x = layer(x, heard, _causal(tokens.shape[1]))
        return x @ self.table.weight.T


def whisper() -> Any:
    torch.manual_seed(0)
    return Whisper().eval(), (torch.randn(1, 80, 1000), torch.randint(0, 8000, (1, 16)))


class T5(nn.Module):
    """A translator whose heads know how far tokens are apart."""

    def __init__(self, width: int = 256, heads: int = 4, tokens: int = 8000, layers: int = 4) -> None:
        super().__init__()
        self.table = nn.Embedding(tokens, width)
        self.far, self.before = nn.Embedding(32, heads), nn.Embedding(32, heads)
        self.encoder = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(width, heads, crossed=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def _bias(self, length: int, table: nn.Embedding) -> Tensor:
        at = torch.arange(length)
        apart = (at[None] - at[:, None]).clamp(-16, 15) + 16
        return table(apart).permute(2, 0, 1)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, bias = self.table(source), self._bias(source.shape[1], self.far)
        for layer in self.encoder:
            x = layer(x, bias=bias)
        y, bias = self.table(target), self._bias(target.shape[1], self.before) + _causal(target.shape[1])
        for layer in self.decoder:
            y = layer(y, x, bias)
        return self.norm(y) @ self.table.weight.T


def t5() -> Any:
    torch.manual_seed(0)
    return T5().eval(), (torch.randint(0, 8000, (1, 64)), torch.randint(0, 8000, (1, 16)))


class Detr(nn.Module):
    """A detector with queries: classes and boxes."""

    def __init__(self, width: int = 256, heads: int = 8, queries: int = 50) -> None:
        super().__init__()
        from torchvision.models import resnet18

        self.body = nn.Sequential(*list(resnet18(weights=None).children())[:-2])
        self.narrow, self.places = nn.Conv2d(512, width, 1), nn.Parameter(torch.randn(100, width) / 50)
        self.encoder = nn.ModuleList(Layer(width, heads) for _ in range(2))
        self.decoder = nn.ModuleList(Layer(width, heads, crossed=True) for _ in range(2))
        self.queries = nn.Parameter(torch.randn(queries, width))
        self.classes, self.boxes = nn.Linear(width, 92), nn.Linear(width, 4)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        seen = self.narrow(self.body(images)).flatten(2).transpose(1, 2) + self.places
        for layer in self.encoder:
            seen = layer(seen)
        found = self.queries.expand(len(images), -1, -1)
        for layer in self.decoder:
            found = layer(found, seen)
        return {"logits": self.classes(found), "boxes": self.boxes(found).sigmoid()}


def detr() -> Any:
    torch.manual_seed(0)
    return Detr().eval(), images(320)


class Tagger(nn.Module):
    """Tags of words by a recurrent network that reads both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10_000, 128)
        self.layers = nn.LSTM(128, 256, num_layers=2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(512, 20)

    def forward(self, words: Tensor) -> Tensor:
        made: Tensor = self.tags(self.layers(self.table(words))[0])
        return made


def lstm() -> Any:
    torch.manual_seed(0)
    return Tagger().eval(), torch.randint(0, 10_000, (1, 64))


class Recommender(nn.Module):
    """Counts and categories, each category with a table of its own, in pairs: the chance of a click."""

    def __init__(self, tables: int = 12, width: int = 32) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20_000, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, width), nn.ReLU())
        pairs = tables * (tables + 1) // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 256), nn.ReLU(), nn.Linear(256, 1))
        self.rows, self.columns = torch.tril_indices(tables + 1, tables + 1, -1).tolist()

    def forward(self, counts: Tensor, categories: Tensor) -> Tensor:
        first = self.bottom(counts)
        wide = torch.stack([first, *(table(categories[:, at]) for at, table in enumerate(self.tables))], 1)
        pairs = (wide @ wide.transpose(1, 2))[:, self.rows, self.columns]
        made: Tensor = self.top(torch.cat([first, pairs], 1)).sigmoid()
        return made


def recommender() -> Any:
    torch.manual_seed(0)
    return Recommender().eval(), (torch.rand(1, 13), torch.randint(0, 20_000, (1, 12)))


def conv1d() -> Any:
    """Words of one second of sound."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for into, out, width, step in ((1, 64, 80, 4), (64, 64, 3, 1), (64, 128, 3, 1), (128, 256, 3, 1)):
        layers += [nn.Conv1d(into, out, width, step), nn.BatchNorm1d(out), nn.ReLU(), nn.MaxPool1d(4)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(256, 35)).eval(), (
        torch.randn(1, 1, 16_000)
    )


class TwoInputs(nn.Module):
    """How well a text fits an image."""

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        from torchvision.models import mobilenet_v3_small

        self.body, self.fit = mobilenet_v3_small(weights=None).features, nn.Linear(576, width)
        self.table, self.places = nn.Embedding(5000, width), nn.Parameter(torch.randn(24, width) / 20)
        self.layers = nn.ModuleList(Layer(width, 3) for _ in range(3))

    def forward(self, images: Tensor, words: Tensor) -> Tensor:
        seen, read = self.fit(self.body(images).mean((2, 3))), self.table(words) + self.places
        for layer in self.layers:
            read = layer(read)
        return functional.cosine_similarity(seen, read.mean(1), dim=-1)


def two_inputs() -> Any:
    torch.manual_seed(0)
    return TwoInputs().eval(), (images(192), torch.randint(0, 5000, (1, 24)))


def samples(name: str, batch: int) -> Iterator[tuple[Tensor, ...]]:
    """Calls of a model: other numbers of the kind of its own inputs."""
    given = globals()[name]()[1]
    dice = torch.Generator().manual_seed(1)
    for _ in range(SAMPLES):
        yield tuple(_like(each, batch, dice) for each in (given if isinstance(given, tuple) else (given,)))


def _like(given: Tensor, batch: int, dice: torch.Generator) -> Tensor:
    shape = (batch, *given.shape[1:])
    if given.is_floating_point():
        return torch.randn(shape, generator=dice) * given.std() + given.mean()
    return torch.randint(0, int(given.max()) + 1, shape, generator=dice)


def score(name: str, batch: int, outputs: list[Any]) -> list[float]:
    """By sample, the cosine between these outputs and those of the model as it is in float32."""
    model = globals()[name]()[0]
    with torch.no_grad():
        right = [_flat(model(*given)) for given in samples(name, batch)]
    both = zip(map(_flat, outputs), right, strict=False)  # of as many as a session had time for
    return [float(functional.cosine_similarity(one, other, dim=0)) for one, other in both]


def _flat(output: Any) -> Tensor:
    parts = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else [output]
    return torch.cat([each.double().flatten() / each.double().norm() for each in parts])
