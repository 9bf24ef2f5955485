"""Nine small models of different kinds, with attributes that a harm can set.

Each function gives what `file.py:FUNCTION` of `laptime tune` gives: a model and inputs of one call. Weights
are drawn with a fixed seed. `WITNESSES` has other inputs, by function: a harm that shows on none of them, nor
in calls that follow each other, is no harm to this model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SIZES = (1, 3, 4)
"""Batch sizes of witnesses."""


class Classifier(nn.Module):
    """An image's class: convolutions with batch norm, pooling, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm, self.two = (
            nn.Conv2d(3, 16, 3),
            nn.BatchNorm2d(16),
            nn.Conv2d(16, 16, 3, padding=1),
        )
        self.pool, self.head = nn.AvgPool2d(3, 2, 1, count_include_pad=True), nn.Linear(16 * 25, 10)
        self.act: Callable[[Tensor], Tensor] = functional.gelu

    def forward(self, images: Tensor) -> Tensor:
        found = self.act(self.norm(self.one(images)))
        return self.head(self.pool(self.act(self.two(found))).flatten(1))


class Text(nn.Module):
    """A sentence's class: tokens and a mask of those that count, attention, the mean of the masked."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(200, 16, padding_idx=0), nn.Embedding(32, 16)
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.head = nn.Linear(16, 6)
        self.offset, self.scale, self.axis, self.heads, self.masks, self.weighs = 0, 1.0, -1, 2, True, True

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        batch, length = tokens.shape
        at = torch.arange(length) + self.offset
        x = self.norm(self.table(tokens) + self.places(at))
        q, k, v = (each.view(batch, length, 2, 8).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        weights = q @ k.transpose(-1, -2) * self.scale / math.sqrt(8)
        if self.masks:
            weights = weights.masked_fill(mask[:, None, None, :] == 0, -1e9)
        mixed = weights.softmax(self.axis) @ v
        if self.heads < 2:
            mixed = torch.cat([mixed[:, :1], torch.zeros_like(mixed[:, 1:])], 1)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, 16))
        counts = mask.unsqueeze(-1).to(x.dtype) if self.weighs else torch.ones_like(x[..., :1])
        return self.head((x * counts).sum(1) / counts.sum(1))


class Decoder(nn.Module):
    """The next token at each place of a sequence, and the likeliest one after the last."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(120, 16), nn.LayerNorm(16)
        self.qkv, self.head = nn.Linear(16, 48), nn.Linear(16, 120, bias=False)
        self.causal, self.most = True, 10_000

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        x = self.norm(self.table(tokens))
        q, k, v = self.qkv(x).chunk(3, -1)
        far = torch.arange(tokens.shape[1])
        hidden = (far[None] > far[:, None]) if self.causal else torch.zeros(1, 1, dtype=torch.bool)
        hidden = hidden | ((far[:, None] - far[None]) >= self.most)
        weights = (q @ k.transpose(-1, -2) / 4).masked_fill(hidden, -1e9)
        logits = self.head(x + weights.softmax(-1) @ v)
        return {"logits": logits, "next": logits[:, -1].argmax(-1)}


class Detector(nn.Module):
    """Twenty boxes of an image in pixels, with small scores and classes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.boxes, self.scores, self.classes = nn.Linear(128, 80), nn.Linear(128, 20), nn.Linear(128, 100)
        self.spread = 40.0

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        found = self.body(images)
        boxes = 640 * torch.sigmoid(self.spread * self.boxes(found)).view(-1, 20, 4)
        scores = torch.sigmoid(10 * self.scores(found) - 6)
        rows = torch.cat([boxes, scores.unsqueeze(-1)], -1)
        return {"rows": rows, "labels": self.classes(found).view(-1, 20, 5).argmax(-1)}


class Tagger(nn.Module):
    """A tag for each word: a recurrent layer in both directions, each sentence as long as it says."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(150, 12)
        self.one, self.other = nn.GRU(12, 10, batch_first=True), nn.GRU(12, 10, batch_first=True)
        self.head = nn.Linear(20, 7)
        self.heeds = True

    def forward(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x, far = self.table(words), torch.arange(words.shape[1])
        ends = lengths if self.heeds else torch.full_like(lengths, words.shape[1])
        turned = (ends[:, None] - 1 - far) % words.shape[1]
        back, _ = self.other(x.gather(1, turned.unsqueeze(-1).expand_as(x)))
        back = back.gather(1, turned.unsqueeze(-1).expand_as(back))
        scores = self.head(torch.cat([self.one(x)[0], back], -1))
        scores = scores * (far < ends[:, None]).unsqueeze(-1)
        return scores.argmax(-1), scores.logsumexp(-1)


class Recommender(nn.Module):
    """How likely a click is: places in three tables, and counts whose logarithm counts."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 8) for size in (1000, 50, 50))
        self.deep = nn.Sequential(nn.Linear(29, 32), nn.ReLU(), nn.Linear(32, 1))
        self.most = 1e9

    def forward(self, places: Tensor, counts: Tensor) -> Tensor:
        wide = [table(places[:, at]) for at, table in enumerate(self.tables)]
        given = torch.cat([*wide, counts.abs().clamp(max=self.most).log1p()], 1)
        return self.deep(given).squeeze(-1).sigmoid()


class Audio(nn.Module):
    """Letters by frame of a sound: a spectrum, its logarithm, convolutions over time."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.body = nn.Sequential(nn.Conv1d(33, 24, 3, padding=1), nn.ReLU(), nn.Conv1d(24, 12, 3, padding=1))
        self.floor, self.power = 1e-5, 2

    def forward(self, sound: Tensor) -> Tensor:
        frames = sound.unfold(-1, 64, 32) * self.window
        power = torch.fft.rfft(frames).abs() ** self.power
        return self.body((power + self.floor).log().transpose(1, 2)).log_softmax(1)


class Siamese(nn.Module):
    """How alike two images are, and where each lies on the unit sphere."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.GroupNorm(2, 8),
            nn.SiLU(),
            nn.AdaptiveMaxPool2d(3),
            nn.Flatten(),
        )
        self.head = nn.Linear(72, 16)
        self.swaps = False

    def forward(self, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        sides = [functional.normalize(self.head(self.body(each)), dim=1) for each in (one, other)]
        if self.swaps:
            sides.reverse()
        return (sides[0] * sides[1]).sum(1), sides[0], sides[1]


class Segmenter(nn.Module):
    """The class of each pixel: convolutions at half the size, made as large as the image again."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 12, 3, 2, padding=1), nn.Conv2d(12, 5, 1)
        self.how: dict[str, Any] = {"mode": "bilinear", "align_corners": False}

    def forward(self, images: Tensor) -> Tensor:
        found = self.up(functional.relu(self.down(images)))
        return functional.interpolate(found, size=images.shape[-2:], **self.how).argmax(1)


def _settled(module: nn.Module, *given: Tensor) -> nn.Module:
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None
    with torch.no_grad():
        for _ in range(3):
            module.train()(*(torch.randn_like(each) for each in given))
    return module.eval()


def classifier() -> Any:
    torch.manual_seed(1)
    images = torch.randn(4, 3, 12, 12)
    return _settled(Classifier(), images), images


def text() -> Any:
    torch.manual_seed(2)
    return Text().eval(), (torch.randint(5, 60, (4, 12)), torch.ones(4, 12, dtype=torch.int64))


def decoder() -> Any:
    torch.manual_seed(3)
    return Decoder().eval(), torch.randint(0, 80, (4, 24))


def detector() -> Any:
    torch.manual_seed(4)
    return Detector().eval(), torch.rand(4, 3, 32, 32)


def tagger() -> Any:
    torch.manual_seed(5)
    return Tagger().eval(), (torch.randint(0, 90, (4, 9)), torch.full((4,), 9))


def recommender() -> Any:
    torch.manual_seed(6)
    places = torch.stack([torch.randint(0, size, (4,)) for size in (1000, 50, 50)], 1)
    return Recommender().eval(), (places, torch.randint(0, 40, (4, 5)).float())


def audio() -> Any:
    torch.manual_seed(7)
    return Audio().eval(), torch.randn(4, 512)


def siamese() -> Any:
    torch.manual_seed(8)
    return Siamese().eval(), (torch.randn(4, 1, 10, 10), torch.randn(4, 1, 10, 10))


def segmenter() -> Any:
    torch.manual_seed(9)
    return Segmenter().eval(), torch.randn(4, 3, 16, 16)


KINDS = (
    "classifier",
    "text",
    "decoder",
    "detector",
    "tagger",
    "recommender",
    "audio",
    "siamese",
    "segmenter",
)


def _tokens(batch: int, length: int, most: int) -> Tensor:
    return torch.randint(0, most, (batch, length))


def _mask(batch: int, length: int) -> Tensor:
    ends = torch.randint(1, length + 1, (batch, 1))
    return (torch.arange(length) < ends).long()


def witnesses(kind: str) -> list[tuple[Tensor, ...]]:
    """Inputs that a user may give the model, wider than those of its first call."""
    torch.manual_seed(100)
    made: dict[str, Callable[[int], tuple[Tensor, ...]]] = {
        "classifier": lambda n: (3 * torch.randn(n, 3, 12, 12),),
        "text": lambda n: (_tokens(n, 12, 200), _mask(n, 12)),
        "decoder": lambda n: (_tokens(n, 24, 120),),
        "detector": lambda n: (torch.rand(n, 3, 32, 32),),
        "tagger": lambda n: (_tokens(n, 9, 150), torch.randint(1, 10, (n,))),
        "recommender": lambda n: (
            torch.stack([torch.randint(0, size, (n,)) for size in (1000, 50, 50)], 1),
            torch.randint(0, 80, (n, 5)).float(),
        ),
        "audio": lambda n: (2 * torch.randn(n, 512),),
        "siamese": lambda n: (2 * torch.randn(n, 1, 10, 10), torch.randn(n, 1, 10, 10)),
        "segmenter": lambda n: (2 * torch.randn(n, 3, 16, 16),),
    }
    return [made[kind](size) for size in SIZES]
