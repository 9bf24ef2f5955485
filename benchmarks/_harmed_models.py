"""Thirty-seven small models of different kinds, with attributes that a harm can set.

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


class Rows(nn.Module):
    """Boxes of an image as detectors of one stage give them: batch, four sides and six scores, places."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 12, 3, 2, 1), nn.SiLU(), nn.Conv2d(12, 12, 3, 2, 1), nn.SiLU(), nn.Conv2d(12, 10, 1)
        )

    def forward(self, images: Tensor) -> Tensor:
        found = self.body(images).flatten(2)
        return torch.cat([found[:, :4].sigmoid() * 640, (10 * found[:, 4:] - 5).sigmoid()], 1)


class Translator(nn.Module):
    """Scores of the next token, from a source and what is written so far; each has a length of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(90, 16), nn.Embedding(70, 16)
        self.head = nn.Linear(16, 70)
        self.crossed, self.causal, self.padded = True, True, True

    def forward(self, source: Tensor, written: Tensor) -> Tensor:
        memory, x = self.source(source), self.target(written)
        far = torch.arange(written.shape[1])
        hidden = (far[None] > far[:, None]) if self.causal else torch.zeros(1, 1, dtype=torch.bool)
        x = x + (x @ x.mT / 4).masked_fill(hidden, -1e9).softmax(-1) @ x
        weights = x @ memory.mT / 4
        if self.padded:
            weights = weights.masked_fill((source == 0)[:, None], -1e9)
        return self.head(x + weights.softmax(-1) @ memory if self.crossed else x)


class Search(nn.Module):
    """The five nearest of 400 stored vectors: places, likenesses, and whether the first is near enough."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 16))
        self.register_buffer("stored", functional.normalize(torch.randn(400, 16), dim=1))

    def forward(self, query: Tensor) -> dict[str, Tensor]:
        stored: Tensor = self.state_dict()["stored"]
        likeness, places = (functional.normalize(self.body(query), dim=1) @ stored.T).topk(5)
        return {"places": places, "likeness": likeness, "near": likeness[:, 0] > 0.6}


class Forecaster(nn.Module):
    """The next twelve values of a series, how wide the guess is, and the state of a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(3, 16, batch_first=True), nn.Linear(16, 24)
        self.first = 0.0

    def forward(self, series: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        zeros = torch.zeros(1, len(series), 16)
        out, (h, c) = self.rnn(series / scale[:, None], (zeros + self.first, zeros))
        mean, width = self.head(out[:, -1]).chunk(2, 1)
        return mean * scale[:, :1], 1e-3 * width.exp() * scale[:, :1], h[0], c[0]


class Graph(nn.Module):
    """Three values for each node of graphs that are given as matrices of neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 12), nn.Linear(12, 3)
        self.loops, self.turns = True, False

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        near = edges.float().mT if self.turns else edges.float()
        near = near + torch.eye(near.shape[-1]) if self.loops else near
        near = near / near.sum(-1, keepdim=True).clamp(min=1)
        return self.two(near @ self.one(near @ nodes).relu())


class Enhancer(nn.Module):
    """An image twice as large: bytes in, bytes out."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.PixelShuffle(2)
        )
        self.rounds, self.lift = True, 0.0

    def forward(self, images: Tensor) -> Tensor:
        x = images.float() / 255
        large = functional.interpolate(x, scale_factor=2, mode="nearest") + 0.3 * self.body(x)
        made = 255 * large + self.lift
        return (made.round() if self.rounds else made).clamp(0, 255).to(torch.uint8)


class Denoiser(nn.Module):
    """A step of a diffusion: noise, how far it is (a whole number), a text's vector."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.out = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)
        self.text, self.time = nn.Linear(8, 16), nn.Linear(16, 16)
        self.hears = True

    def forward(self, noise: Tensor, step: Tensor, text: Tensor) -> Tensor:
        waves = torch.exp(-math.log(10_000) * torch.arange(8) / 8) * step[:, None].float()
        told = self.time(torch.cat([waves.sin(), waves.cos()], 1))
        told = told + self.text(text) if self.hears else told
        return self.out(functional.silu(self.body(noise) + told[..., None, None]))


class Masker(nn.Module):
    """Words with types and a mask of bools: a vector for each word, and one for the sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.types, self.places = nn.Embedding(300, 16), nn.Embedding(2, 16), nn.Embedding(64, 16)
        self.qkv, self.norm, self.pool = nn.Linear(16, 48), nn.LayerNorm(16), nn.Linear(16, 16)
        self.heeds, self.typed, self.drops = True, True, 0.0

    def forward(self, words: Tensor, types: Tensor, keep: Tensor) -> dict[str, Tensor]:
        x = self.words(words) + self.places(torch.arange(words.shape[1]))
        x = x + self.types(types) if self.typed else x
        q, k, v = self.qkv(x).chunk(3, -1)
        mask = torch.where(keep, 0.0, -1e9)[:, None] if self.heeds else torch.zeros(1)
        weights = functional.dropout((q @ k.mT / 4 + mask).softmax(-1), self.drops, True)
        x = self.norm(x + weights @ v)
        return {"words": x, "sentence": self.pool(x[:, 0]).tanh()}


class Writer(nn.Module):
    """Scores of the next token at each place; padding may stand in front, two tokens are banned."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(150, 16), nn.Embedding(40, 16)
        self.qkv, self.head = nn.Linear(16, 48), nn.Linear(16, 150)
        self.as_lengths, self.counts, self.bans = False, True, True

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        far = torch.arange(words.shape[1])
        if self.as_lengths:
            mask = (far < mask.sum(1, keepdim=True)).long()
        places = (mask.cumsum(1) - 1).clamp(min=0) if self.counts else far.expand_as(words)
        x = self.words(words) + self.places(places)
        q, k, v = self.qkv(x).chunk(3, -1)
        seen = (far[None] <= far[:, None]) & (mask[:, None] > 0)
        scores = self.head(x + (q @ k.mT / 4).masked_fill(~seen, -1e9).softmax(-1) @ v)
        banned = torch.zeros(150, dtype=torch.bool).index_fill(0, torch.tensor([0, 3]), self.bans)
        return scores.masked_fill(banned, float("-inf"))


class Player(nn.Module):
    """Scores of six moves, minus infinity for those that are not allowed; what it is worth; the best."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.moves, self.worth = nn.Linear(10, 24), nn.Linear(24, 6), nn.Linear(24, 1)
        self.heeds = True

    def forward(self, seen: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self.body(seen).tanh()
        scores = self.moves(found)
        scores = scores.masked_fill(~allowed, float("-inf")) if self.heeds else scores
        return scores, self.worth(found).squeeze(-1), scores.argmax(-1)


class Weather(nn.Module):
    """Temperatures near 280 K, which change by a tenth."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 2, 3, padding=1)
        self.share = 1.0

    def forward(self, maps: Tensor) -> Tensor:
        return 280 + 0.1 * self.share * self.two(self.one(maps).tanh())


class Calendar(nn.Module):
    """Sales from numbers, a month and a weekday; the weekdays of the first call are all 0."""

    def __init__(self) -> None:
        super().__init__()
        self.months, self.days, self.head = nn.Embedding(13, 6), nn.Embedding(7, 6), nn.Linear(20, 4)
        self.latest = 100

    def forward(self, numbers: Tensor, month: Tensor, day: Tensor) -> Tensor:
        return self.head(torch.cat([numbers, self.months(month), self.days(day.clamp(max=self.latest))], 1))


class Guided(nn.Module):
    """A step of a diffusion with a scale that is one number, and a level of noise."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, images: Tensor, noise: Tensor, scale: Tensor) -> Tensor:
        quiet = images / (noise[:, None, None, None] ** 2 + 1).sqrt()
        one, other = (self.out(functional.silu(self.body(each))) for each in (images, quiet))
        return one + scale * (other - one)


class Speaker(nn.Module):
    """Where a voice lies on the unit sphere, whatever its loudness."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.norm, self.head = nn.Conv1d(1, 16, 16, 8), nn.GroupNorm(1, 16, 1e-8), nn.Linear(16, 8)

    def forward(self, sound: Tensor) -> Tensor:
        found = self.norm(self.body(sound.unsqueeze(1))).relu().mean(-1)
        return functional.normalize(self.head(found), dim=1)


class Ranker(nn.Module):
    """Places of 300 stored items, the best first, without what they are worth."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.items = nn.Linear(12, 16), nn.Parameter(torch.randn(300, 16))

    def forward(self, user: Tensor) -> Tensor:
        return (self.body(user).tanh() @ self.items.T).argsort(-1, descending=True)


class Chooser(nn.Module):
    """What 200 items are worth, and the places of the ten best."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(12, 200)

    def forward(self, user: Tensor) -> dict[str, Tensor]:
        scores = self.body(user)
        return {"scores": scores, "best": scores.topk(10).indices}


class Sorter(nn.Module):
    """200 values in rising order, with their places."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(12, 200)

    def forward(self, user: Tensor) -> tuple[Tensor, Tensor]:
        values, places = self.body(user).sort(-1)
        return values, places


class Attender(nn.Module):
    """Attention behind a mask of bools for each pair of places, one for all items: a causal one at first."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 4)
        self.mask = "as given"

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (each.view(batch, length, 2, 8).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        if self.mask != "as given":
            keep = torch.ones(length, length).tril(0 if self.mask == "causal" else length) > 0
        weights = (q @ k.mT / math.sqrt(8)).masked_fill(~keep, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, 16))


class Biased(nn.Module):
    """Attention with a mask of numbers that is added to its scores: zeros at first."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 4)
        self.mask = "added"

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        how = {"added": mask, "none": mask * 0, "bools": torch.where(mask < -1e3, -1e9, 0.0)}
        return self.out((q @ k.mT / 4 + how[self.mask]).softmax(-1) @ v)


class Padded(nn.Module):
    """An encoder layer of torch with a mask of bools that is true at padding."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(80, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        return self.layer(self.table(tokens), src_key_padding_mask=padding)


class Single(nn.Module):
    """A sentence's class from its first token; the first call has one sentence and a mask of ones."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.qkv, self.head = nn.Embedding(200, 16), nn.Linear(16, 48), nn.Linear(16, 6)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.table(tokens)
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = (q @ k.mT / 4 + (1.0 - mask[:, None].float()) * -1e9).softmax(-1)
        return self.head((x + weights @ v)[:, 0])


class Bare(nn.Module):
    """The mean of rows of a table that is a bare parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.head = nn.Parameter(torch.randn(100, 8)), nn.Linear(8, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.rows[tokens].mean(1))


class OneHot(nn.Module):
    """Tokens as vectors of zeros and a one."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(100, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(functional.one_hot(tokens, 100).to(self.head.weight.dtype)).mean(1)


class Clicks(nn.Module):
    """How likely a click is: places in four tables of different sizes, side by side in one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 6) for size in (500, 200, 40, 7))
        self.deep = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, places: Tensor) -> Tensor:
        wide = [table(places[:, at]) for at, table in enumerate(self.tables)]
        return self.deep(torch.cat(wide, 1)).squeeze(1)


class Spectra(nn.Module):
    """A class from complex numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(40, 6)

    def forward(self, lines: Tensor) -> Tensor:
        return self.head(torch.cat([lines.real, lines.imag], -1).tanh())


class Pose(nn.Module):
    """Seventeen points of an image: two shares of its sides, and how sure they are, about a twentieth."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 51)
        )

    def forward(self, images: Tensor) -> Tensor:
        found = self.body(images).view(-1, 17, 3)
        return torch.cat([(8 * found[..., :2]).sigmoid(), (4 * found[..., 2:] - 3).sigmoid()], -1)


class Recorder(nn.Module):
    """A class of a sound of 16 bits, whatever its loudness."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Conv1d(1, 8, 16, 8), nn.Linear(8, 5)

    def forward(self, sound: Tensor) -> Tensor:
        x = sound.to(self.head.weight.dtype) / 32768
        x = x / (x.abs().amax(1, keepdim=True) + 1e-3)
        return self.head(self.body(x[:, None]).relu().mean(-1))


class Tabular(nn.Module):
    """Two numbers from an age, an income, a flag that is 0 at first, and a rate."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([40.0, 5e4, 0.5, 0.02]))
        self.register_buffer("width", torch.tensor([12.0, 2e4, 0.5, 0.01]))
        self.one, self.two = nn.Linear(4, 16), nn.Linear(16, 2)

    def forward(self, people: Tensor) -> Tensor:
        return self.two(self.one((people - self.mean) / self.width).relu())


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


def rows() -> Any:
    torch.manual_seed(11)
    return Rows().eval(), torch.rand(2, 3, 32, 32)


def translator() -> Any:
    torch.manual_seed(12)
    return Translator().eval(), (torch.randint(1, 60, (3, 11)), torch.randint(1, 50, (3, 7)))


def search() -> Any:
    torch.manual_seed(13)
    return Search().eval(), torch.randn(8, 20)


def forecaster() -> Any:
    torch.manual_seed(14)
    return Forecaster().eval(), (torch.randn(4, 20, 3), torch.rand(4, 3) * 5 + 1)


def graph() -> Any:
    torch.manual_seed(15)
    return Graph().eval(), (torch.randn(3, 9, 6), torch.ones(3, 9, 9, dtype=torch.bool))


def enhancer() -> Any:
    torch.manual_seed(16)
    return Enhancer().eval(), torch.randint(0, 256, (2, 3, 12, 12), dtype=torch.uint8)


def denoiser() -> Any:
    torch.manual_seed(17)
    return Denoiser().eval(), (torch.randn(2, 4, 8, 8), torch.full((2,), 500), torch.randn(2, 8))


def masker() -> Any:
    torch.manual_seed(18)
    words, types = torch.randint(5, 100, (3, 10)), torch.zeros(3, 10, dtype=torch.int64)
    return Masker().eval(), (words, types, torch.ones(3, 10, dtype=torch.bool))


def writer() -> Any:
    torch.manual_seed(19)
    return Writer().eval(), (torch.randint(4, 100, (3, 12)), torch.ones(3, 12, dtype=torch.int64))


def player() -> Any:
    torch.manual_seed(20)
    return Player().eval(), (torch.randn(5, 10), torch.ones(5, 6, dtype=torch.bool))


def weather() -> Any:
    torch.manual_seed(21)
    return Weather().eval(), torch.randn(2, 2, 12, 12)


def calendar() -> Any:
    torch.manual_seed(22)
    return Calendar().eval(), (torch.randn(4, 8), torch.full((4,), 3), torch.zeros(4, dtype=torch.int64))


def guided() -> Any:
    torch.manual_seed(23)
    return Guided().eval(), (torch.randn(2, 3, 8, 8), torch.full((2,), 2.0), torch.tensor(7.5))


def speaker() -> Any:
    torch.manual_seed(24)
    return Speaker().eval(), torch.randn(3, 800)


def ranker() -> Any:
    torch.manual_seed(31)
    return Ranker().eval(), torch.randn(4, 12)


def chooser() -> Any:
    torch.manual_seed(32)
    return Chooser().eval(), torch.randn(4, 12)


def sorter() -> Any:
    torch.manual_seed(33)
    return Sorter().eval(), torch.randn(4, 12)


def attender() -> Any:
    torch.manual_seed(34)
    return Attender().eval(), (torch.randn(3, 10, 16), torch.ones(10, 10).tril()[None, None] > 0)


def biased() -> Any:
    torch.manual_seed(35)
    return Biased().eval(), (torch.randn(3, 9, 16), torch.zeros(3, 1, 9))


def padded() -> Any:
    torch.manual_seed(36)
    return Padded().eval(), (torch.randint(1, 50, (3, 11)), torch.zeros(3, 11, dtype=torch.bool))


def single() -> Any:
    torch.manual_seed(37)
    return Single().eval(), (torch.randint(1, 100, (1, 12)), torch.ones(1, 12, dtype=torch.int64))


def bare() -> Any:
    torch.manual_seed(38)
    return Bare().eval(), torch.randint(0, 60, (4, 9))


def onehot() -> Any:
    torch.manual_seed(39)
    return OneHot().eval(), torch.randint(0, 60, (4, 9))


def clicks() -> Any:
    torch.manual_seed(40)
    return Clicks().eval(), torch.randint(0, 7, (4, 4))


def spectra() -> Any:
    torch.manual_seed(41)
    return Spectra().eval(), torch.randn(4, 20, dtype=torch.complex64)


def pose() -> Any:
    torch.manual_seed(42)
    return Pose().eval(), torch.rand(2, 3, 32, 32)


def recorder() -> Any:
    torch.manual_seed(43)
    return Recorder().eval(), (6000 * torch.randn(3, 800)).short()


def tabular() -> Any:
    torch.manual_seed(44)
    return Tabular().eval(), _people(6) * torch.tensor([1.0, 1.0, 0.0, 1.0])


def _people(batch: int) -> Tensor:
    ages, incomes = torch.randint(20, 60, (batch,)), torch.randint(20_000, 80_000, (batch,))
    return torch.stack([ages.float(), incomes.float(), torch.ones(batch), torch.rand(batch) * 0.04], 1)


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
    "rows",
    "translator",
    "search",
    "forecaster",
    "graph",
    "enhancer",
    "denoiser",
    "masker",
    "writer",
    "player",
    "weather",
    "calendar",
    "guided",
    "speaker",
)
LATEST = (
    *("ranker", "chooser", "sorter", "attender", "biased", "padded", "single", "bare", "onehot", "clicks"),
    *("spectra", "pose", "recorder", "tabular"),
)
"""Kinds that only harms of their own, and sound changes, are tried on."""


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
        "rows": lambda n: (torch.rand(n, 3, 32, 32),),
        "translator": lambda n: (_tokens(n, 11, 90), _tokens(n, 7, 70)),
        "search": lambda n: (2 * torch.randn(n, 20),),
        "forecaster": lambda n: (2 * torch.randn(n, 20, 3), torch.rand(n, 3) * 20 + 1),
        "graph": lambda n: (torch.randn(n, 9, 6), torch.rand(n, 9, 9) < 0.4),
        "enhancer": lambda n: (torch.randint(0, 256, (n, 3, 12, 12), dtype=torch.uint8),),
        "denoiser": lambda n: (torch.randn(n, 4, 8, 8), torch.randint(0, 1000, (n,)), torch.randn(n, 8)),
        "masker": lambda n: (_tokens(n, 10, 300), _tokens(n, 10, 2), _mask(n, 10).bool()),
        "writer": lambda n: (_tokens(n, 12, 150), _mask(n, 12).flip(1)),
        "player": lambda n: (torch.randn(n, 10), _mask(n, 6).bool()),
        "weather": lambda n: (torch.randn(n, 2, 12, 12),),
        "calendar": lambda n: (torch.randn(n, 8), torch.randint(0, 13, (n,)), torch.randint(0, 7, (n,))),
        "guided": lambda n: (torch.randn(n, 3, 8, 8), 10 * torch.rand(n), torch.tensor(12.0)),
        "speaker": lambda n: (1e-2 * torch.randn(n, 800),),
        **dict.fromkeys(("ranker", "chooser", "sorter"), lambda n: (2 * torch.randn(n, 12),)),
        "attender": lambda n: (torch.randn(n, 10, 16), (torch.eye(10) + torch.rand(1, 1, 10, 10)) > 0.5),
        "biased": lambda n: (torch.randn(n, 9, 16), torch.randn(n, 1, 9)),
        "padded": lambda n: (_tokens(n, 11, 80), _mask(n, 11) < 1),
        "single": lambda n: (_tokens(n, 12, 200), _mask(n, 12)),
        **dict.fromkeys(("bare", "onehot"), lambda n: (_tokens(n, 9, 100),)),
        "clicks": lambda n: (torch.stack([torch.randint(0, size, (n,)) for size in (500, 200, 40, 7)], 1),),
        "spectra": lambda n: (2 * torch.randn(n, 20, dtype=torch.complex64),),
        "pose": lambda n: (torch.rand(n, 3, 32, 32),),
        "recorder": lambda n: ((10_000 * torch.randn(n, 800)).clamp(-32768, 32767).short(),),
        "tabular": lambda n: (_people(n),),
    }
    return [made[kind](size) for size in SIZES]
