"""Training problems of many kinds that gates are asked about, with steps of some ten milliseconds.

`problem(name, seed)` is a function without arguments that trains: fresh weights and data of that seed, or,
of those whose name ends in `@200`, the state after 200 steps.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

CLASSES = 10
STEPS = 8
"""Of a problem: more than a capture takes."""
LATER = 200
Loss = Callable[[Any, list[Any]], Any]
"""The loss of a batch under a model."""


@dataclass(frozen=True)
class Problem:
    """What is trained: how to make model, data and optimizer, and the loss of a batch.

    Attributes:
        changes: sound changes that few problems know, asked of this one as well.
    """

    model: Callable[[], nn.Module]
    data: Callable[[int], Dataset[Any]]
    loss: Loss
    optimizer: Callable[[Any], torch.optim.Optimizer]
    batch: int = 16
    clip: float = 0.0
    schedule: bool = False
    changes: tuple[str, ...] = ()


def changes(name: str) -> tuple[str, ...]:
    """Sound changes that few problems know, of the problem of this name."""
    return PROBLEMS[name.partition("@")[0]].changes


def problem(name: str, seed: int) -> Callable[[], None]:
    """The training of this name as a function; the same weights and batches each time."""
    kind, _, later = name.partition("@")
    spec = PROBLEMS[kind]
    torch.manual_seed(seed)
    start = spec.model()
    torch.manual_seed(1000 + seed)
    rows = spec.data(spec.batch * 4)
    state = _train(spec, rows, start, LATER) if later else None

    def main() -> None:
        torch.manual_seed(2000 + seed)
        _train(spec, rows, copy.deepcopy(start), STEPS, copy.deepcopy(state))

    return main


def _train(
    spec: Problem, rows: Dataset[Any], model: nn.Module, steps: int, state: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Some steps, from a state of the optimizer where there is one; the state at their end."""
    optimizer = spec.optimizer(model.parameters())
    if state is not None:
        optimizer.load_state_dict(state)
    loader = DataLoader(rows, batch_size=spec.batch, shuffle=True)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99) if spec.schedule else None
    done = 0
    while done < steps:
        for batch in loader:
            optimizer.zero_grad()
            spec.loss(model, batch).backward()
            if spec.clip:
                nn.utils.clip_grad_norm_(model.parameters(), spec.clip)
            optimizer.step()
            if schedule is not None:
                schedule.step()
            done += 1
            if done == steps:
                break
    return optimizer.state_dict()


# Data


def images(size: int) -> Callable[[int], Dataset[Any]]:
    """Images with a class that their colours tell, and labels."""

    def made(count: int) -> Dataset[Any]:
        labels = torch.arange(count) % CLASSES
        shift = torch.linspace(-1, 1, CLASSES)[labels].view(-1, 1, 1, 1)
        return TensorDataset(torch.randn(count, 3, size, size) + shift, labels)

    return made


class Photos(Dataset[Any]):
    """Pictures of bytes, read, turned into numbers and normalised a sample at a time."""

    MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)

    def __init__(self, size: int, count: int) -> None:
        from torchvision import transforms

        normalize = transforms.Normalize(self.MEAN, self.STD)
        self.transform = transforms.Compose([transforms.ToTensor(), normalize])
        self.labels = torch.arange(count) % CLASSES
        shift = (20 * self.labels).view(-1, 1, 1, 1)
        noise = torch.randint(0, 76, (count, size, size, 3))
        self.pictures = (noise + shift).to(torch.uint8).numpy()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Any:
        from PIL import Image

        return self.transform(Image.fromarray(self.pictures[index])), self.labels[index]


def tokens(vocabulary: int, length: int) -> Callable[[int], Dataset[Any]]:
    """Rows of words."""
    return lambda count: TensorDataset(torch.randint(0, vocabulary, (count, length)))


def numbers(features: int) -> Callable[[int], Dataset[Any]]:
    """Columns of very different size, and a target that depends on them."""

    def made(count: int) -> Dataset[Any]:
        columns = torch.randn(count, features) * torch.logspace(-1, 1, features)
        target = columns.sum(1, keepdim=True).tanh() + 0.1 * torch.randn(count, 1)
        return TensorDataset(columns, target)

    return made


# Losses


def classified(model: Any, batch: list[Any]) -> Any:
    return functional.cross_entropy(model(batch[0]), batch[1])


def next_word(model: Any, batch: list[Any]) -> Any:
    scores = model(batch[0][:, :-1])
    return functional.cross_entropy(scores.flatten(0, 1), batch[0][:, 1:].flatten())


def first_word(model: Any, batch: list[Any]) -> Any:
    return functional.cross_entropy(model(batch[0]), batch[0][:, 0] % CLASSES)


def of_logits(loss: Loss) -> Loss:
    """The loss of a model of transformers, which gives its scores in a record."""
    return lambda model, batch: loss(lambda words: model(input_ids=words).logits, batch)


def regressed(model: Any, batch: list[Any]) -> Any:
    return functional.mse_loss(model(batch[0]).float(), batch[1])


def alike(model: Any, batch: list[Any]) -> Any:
    """Siamese: pairs of one class are near."""
    pictures, labels = batch
    far = functional.pairwise_distance(model(pictures).float(), model(pictures.flip(0)).float())
    same = (labels == labels.flip(0)).float()
    return (same * far.square() + (1 - same) * (2 - far).clamp(min=0).square()).mean()


def boxes(model: Any, batch: list[Any]) -> Any:
    """Detection-like: a class, and a box that is regressed, together."""
    found = model(batch[0]).float()
    place = torch.stack([batch[1] / CLASSES] * 4, 1)
    return functional.cross_entropy(found[:, 4:], batch[1]) + functional.smooth_l1_loss(found[:, :4], place)


def reconstructed(model: Any, batch: list[Any]) -> Any:
    flat = batch[0].flatten(1).sigmoid()
    again, mean, log_variance = model(flat)
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
    return functional.binary_cross_entropy_with_logits(again.float(), flat) * flat.shape[1] + divergence


def played(model: Any, batch: list[Any]) -> Any:
    """GAN: one loss of both players, as of a gradient that is turned between them."""
    real, fake = model(batch[0])
    ones, zeros = torch.ones_like(real), torch.zeros_like(fake)
    judged = functional.binary_cross_entropy_with_logits
    return judged(real.float(), ones.float()) + judged(fake.float(), zeros.float())


# Models


class Words(nn.Module):
    """Embedding, a body, and scores: of every word, or of the row."""

    def __init__(self, vocabulary: int, width: int, body: nn.Module, outputs: int, *, whole: bool) -> None:
        super().__init__()
        self.embedding, self.body = nn.Embedding(vocabulary, width), body
        self.head, self.whole = nn.Linear(width, outputs), whole

    def forward(self, words: Any) -> Any:
        hidden = self.body(self.embedding(words))
        hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        return self.head(hidden.mean(1) if self.whole else hidden)


class Causal(nn.Module):
    """Transformer blocks that look back only."""

    def __init__(self, width: int, layers: int, *, causal: bool = True) -> None:
        super().__init__()
        block = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks, self.causal = nn.TransformerEncoder(block, layers, enable_nested_tensor=False), causal

    def forward(self, hidden: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(hidden.shape[1]) if self.causal else None
        return self.blocks(hidden, mask=mask, is_causal=self.causal)


class Autoencoder(nn.Module):
    """Variational."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, features))

    def forward(self, flat: Any) -> Any:
        mean, log_variance = self.encoder(flat).float().chunk(2, 1)
        drawn = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(drawn), mean, log_variance


class Players(nn.Module):
    """Generator and discriminator of 16 x 16 images."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(16, 32, 4, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 3, 4, 4),
            nn.Tanh(),
        )
        self.critic = nn.Sequential(
            nn.Conv2d(3, 32, 4, 4), nn.LeakyReLU(0.2), nn.Conv2d(32, 1, 4), nn.Flatten()
        )

    def forward(self, real: Any) -> Any:
        fake = self.generator(torch.randn(len(real), 16, 1, 1))
        return self.critic(real), self.critic(fake)


def small_cnn(*, norm: bool) -> nn.Module:
    def block(inner: int, outer: int) -> list[nn.Module]:
        return [
            nn.Conv2d(inner, outer, 3, 2, 1),
            nn.BatchNorm2d(outer) if norm else nn.Identity(),
            nn.ReLU(),
        ]

    layers = [*block(3, 16), *block(16, 32), *block(32, 64)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


def seen(library: str, name: str, **more: Any) -> Callable[[], nn.Module]:
    """A model of torchvision or timm for CLASSES classes."""

    def made() -> nn.Module:
        if library == "timm":
            import timm

            return timm.create_model(name, num_classes=CLASSES, **more)
        import torchvision

        return torchvision.models.get_model(name, num_classes=CLASSES, **more)

    return made


def attending(model: str, config: str, **sizes: Any) -> Callable[[], nn.Module]:
    """A model of transformers with attention that is written out."""

    def made() -> nn.Module:
        import transformers

        settings = getattr(transformers, config)(attn_implementation="eager", **sizes)
        return getattr(transformers, model)(settings)

    return made


def mlp(features: int, outputs: int) -> Callable[[], nn.Module]:
    def layer(inner: int) -> list[nn.Module]:
        return [nn.Linear(inner, 64), nn.GELU(), nn.LayerNorm(64)]

    return lambda: nn.Sequential(*layer(features), *layer(64), nn.Linear(64, outputs))


def vit() -> nn.Module:
    from torchvision.models import VisionTransformer

    return VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=CLASSES)


# Optimizers

optim = torch.optim
momentum = functools.partial(optim.SGD, lr=0.05, momentum=0.9, weight_decay=1e-4)
plain = functools.partial(optim.SGD, lr=0.1)
adamw = functools.partial(optim.AdamW, lr=1e-3, weight_decay=0.1)
adam = functools.partial(optim.Adam, lr=1e-3)
adagrad = functools.partial(optim.Adagrad, lr=0.01)

PROBLEMS = {
    "resnet18-8": Problem(seen("torchvision", "resnet18"), images(64), classified, momentum, 8),
    "resnet18-32": Problem(seen("torchvision", "resnet18"), images(32), classified, momentum, 32),
    "mobilenet-v3": Problem(seen("torchvision", "mobilenet_v3_small"), images(64), classified, momentum, 16),
    "mobilenet-v2-32": Problem(seen("torchvision", "mobilenet_v2"), images(32), classified, momentum, 16),
    "shufflenet": Problem(seen("torchvision", "shufflenet_v2_x0_5"), images(64), classified, momentum, 16),
    "squeezenet": Problem(seen("torchvision", "squeezenet1_1"), images(64), classified, adam, 8),
    "regnet-timm": Problem(seen("timm", "regnety_002"), images(64), classified, adamw, 16),
    "convnext-timm": Problem(seen("timm", "convnext_atto"), images(64), classified, adamw, 8),
    "cnn": Problem(lambda: small_cnn(norm=False), images(32), classified, plain, 64),
    "cnn-norm": Problem(lambda: small_cnn(norm=True), images(32), classified, momentum, 64, schedule=True),
    "cnn-norm-4": Problem(lambda: small_cnn(norm=True), images(32), classified, adamw, 4),
    "cnn-clip": Problem(lambda: small_cnn(norm=True), images(32), classified, adagrad, 16, clip=0.5),
    "vit": Problem(vit, images(32), classified, adamw, 16),
    "lstm": Problem(
        lambda: Words(200, 64, nn.LSTM(64, 64, batch_first=True), 200, whole=False),
        tokens(200, 33), next_word, plain, 16, clip=0.25,
    ),
    "gru-adagrad": Problem(
        lambda: Words(100, 32, nn.GRU(32, 32, batch_first=True), CLASSES, whole=True),
        tokens(100, 24), first_word, adagrad, 32,
    ),
    "gpt": Problem(
        lambda: Words(65, 64, Causal(64, 3), 65, whole=False),
        tokens(65, 65), next_word, adamw, 8, clip=1.0, schedule=True,
    ),
    "bert": Problem(
        lambda: Words(300, 64, Causal(64, 2, causal=False), CLASSES, whole=True),
        tokens(300, 48), first_word, adamw, 16,
    ),
    "gan": Problem(Players, images(16), played, adam, 32),
    "siamese": Problem(lambda: small_cnn(norm=True), images(28), alike, adam, 32),
    "regression": Problem(mlp(12, 1), numbers(12), regressed, adam, 64),
    "detection": Problem(
        lambda: nn.Sequential(small_cnn(norm=True), nn.ReLU(), nn.Linear(CLASSES, CLASSES + 4)),
        images(48), boxes, momentum, 8,
    ),
    "vae": Problem(lambda: Autoencoder(3 * 16 * 16), images(16), reconstructed, adam, 64),
    "photos": Problem(
        lambda: small_cnn(norm=True), functools.partial(Photos, 32), classified, momentum, 16,
        changes=("uint8_transfer",),
    ),
    "photos-resnet18": Problem(
        seen("torchvision", "resnet18"), functools.partial(Photos, 48), classified, adamw, 8,
        changes=("uint8_transfer",),
    ),
    "gpt2-hf": Problem(
        attending(
            "GPT2LMHeadModel", "GPT2Config", vocab_size=65, n_embd=64, n_layer=2, n_head=4, n_positions=64,
        ),
        tokens(65, 49), of_logits(next_word), adamw, 8, changes=("sdpa",),
    ),
    "bert-hf": Problem(
        attending(
            "BertForSequenceClassification", "BertConfig", vocab_size=300, hidden_size=64,
            num_hidden_layers=2, num_attention_heads=4, intermediate_size=256, num_labels=CLASSES,
        ),
        tokens(300, 48), of_logits(first_word), adamw, 16, changes=("sdpa",),
    ),
}  # fmt: skip
NEED_TRANSFORMERS = {"gpt2-hf", "bert-hf"}
EVERY = [
    *(name for name in PROBLEMS if find_spec("transformers") or name not in NEED_TRANSFORMERS),
    *(f"{name}@{LATER}" for name in ("resnet18-8", "cnn-norm", "gpt", "lstm")),
]
"""Names of the problems: of first steps, and of steps after LATER; those of libraries that are here."""
