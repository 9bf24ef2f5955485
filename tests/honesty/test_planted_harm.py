"""Changes that harm the training are caught, by name; changes that do not harm it pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from laptime.records.tuning import Gate
from laptime.tuning.gates.verdict import judge

pytestmark = pytest.mark.torch
HARM = Path(__file__).parent / "harm"
SAMPLES = 44


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def script(*, augments: bool, rate: float = 1e-2) -> Callable[[], None]:
    """A small image classifier with BatchNorm, clipping, weight decay, and a ragged last batch."""

    def main() -> None:
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, Dataset

        torch.manual_seed(0)
        made = torch.Generator().manual_seed(1)
        images = torch.randn(SAMPLES, 3, 12, 12, generator=made)

        class Images(Dataset[Any]):
            def __len__(self) -> int:
                return SAMPLES

            def __getitem__(self, index: int) -> Any:
                image = images[index]
                if augments:
                    image = image.roll(int(torch.randint(0, 12, ())), dims=2) + 0.1 * torch.randn(())
                return image, index % 5

        model = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, 5),
        )
        groups = [{"params": list(part.parameters())} for part in (model[:6], model[6:])]
        optimizer = torch.optim.AdamW(groups, lr=rate, weight_decay=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
        loader = DataLoader(Images(), batch_size=8, shuffle=True)
        for _ in range(3):
            for batch, labels in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(batch), labels).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                schedule.step()

    return main


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from fixtures.numerics_captures import CapturedBaseline

    return CapturedBaseline(tmp_path_factory.mktemp("plain"), script(augments=False))


def gated(plain: Any, numerics: str, *names: str, **options: Any) -> Gate:
    """With all that is ever granted: what the baseline does to itself, what rounding and last bits do."""
    return judge(
        [numerics],
        plain.against(*names, **options),
        again=plain.twice,
        rounded=plain.rounded,
        perturbed=plain.perturbed,
    )


def failed(gate: Gate) -> list[str]:
    return [check.name for check in gate.checks if check.outcome == "broken"]


def planted(name: str) -> str:
    return str(HARM / f"{name}.py")


@pytest.mark.parametrize(
    ("name", "numerics", "check"),
    [
        ("loss_scale", "precision", "gradient_norm"),
        ("loss_scale", "reassociated", "gradient_norm"),
        ("lost_clipping", "precision", "clipping"),
        ("lost_clipping", "algorithm", "clipping"),
        ("learning_rate", "precision", "learning_rate"),
        ("weight_decay", "precision", "optimizer_settings"),
        ("micro_batches", "reassociated", "batchnorm"),
        ("micro_batches", "algorithm", "batchnorm"),
        ("silent_dtype", "precision", "dtype"),
        ("group_without_decay", "precision", "optimizer_settings"),
        ("wrong_eps", "precision", "optimizer_settings"),
        ("momentum_in_bfloat16", "precision", "dtype"),
        ("dropped_sample", "precision", "effective_batch"),
        ("scheduler_twice", "precision", "learning_rate"),
        ("stale_gradients", "precision", "clipping"),
        ("frozen_layer", "precision", "gradients"),
        ("scaled_layer", "precision", "gradient_norm"),
        ("norm_in_bfloat16", "precision", "batchnorm"),
        ("frozen_statistics", "precision", "batchnorm"),
    ],
)
def test_harm_is_caught_by_name(plain: Any, name: str, numerics: str, check: str) -> None:
    gate = gated(plain, numerics, planted(name))
    assert gate.word == "failed"
    assert check in failed(gate)
    assert gate.reason.startswith(check.replace("_", " "))


@pytest.mark.parametrize(
    ("name", "numerics"),
    [
        ("identity", "exact"),
        ("channels_last", "reassociated"),
        ("fused_optimizer", "reassociated"),
        ("foreach_optimizer", "reassociated"),
    ],
)
def test_what_does_no_harm_passes(plain: Any, name: str, numerics: str) -> None:
    gate = gated(plain, numerics, name)
    assert (gate.word, gate.reason) == ("passed", gate.reason), [
        c for c in gate.checks if c.outcome != "kept"
    ]
    assert gate.steps == 3


def test_bfloat16_is_a_precision_and_no_reassociation(plain: Any) -> None:
    assert gated(plain, "precision", "bf16_autocast").word == "passed"
    assert gated(plain, "reassociated", "bf16_autocast").word == "failed"


def test_harm_is_caught_in_company(plain: Any) -> None:
    gate = gated(plain, "precision", "channels_last", planted("learning_rate"), "bf16_autocast")
    assert "learning_rate" in failed(gate)


def test_a_change_that_was_refused_was_not_captured(plain: Any) -> None:
    gate = gated(plain, "exact", "ddp_static_graph", planted("no_such_file"))
    assert gate.word == "undecided"


# What loaders give.


def of_samples(folder: Path, main: Callable[[], None], numerics: str, *changes: Any) -> Gate:
    from fixtures.numerics_captures import samples
    from laptime.tuning.gates import data
    from laptime.tuning.gates.verdict import gate_of

    found = samples(folder, main, [dict(each) for each in changes])
    return gate_of(numerics, 1, data.checks(found.data, numerics))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "augments", "numerics", "check"),
    [
        ("shared_augmentation", True, "random", "augmentation"),
        ("frozen_augmentation", True, "random", "augmentation"),
        ("lost_normalisation", False, "random", "distribution"),
        ("dropped_batch", False, "exact", "last_batch"),
        ("dropped_batch", False, "random", "last_batch"),
    ],
)
def test_harm_to_samples_is_caught_by_name(
    tmp_path: Path, name: str, augments: bool, numerics: str, check: str
) -> None:
    gate = of_samples(tmp_path, script(augments=augments), numerics, {"name": planted(name)})
    assert gate.word == "failed"
    assert gate.reason.startswith(check.replace("_", " "))


def test_more_workers_pass(tmp_path: Path) -> None:
    more = {"name": "num_workers", "options": {"value": 2}}
    assert of_samples(tmp_path / "a", script(augments=False), "exact", more).word == "passed"
    augmented = of_samples(tmp_path / "b", script(augments=True), "random", more)
    assert augmented.word == "passed"
    assert of_samples(tmp_path / "b", script(augments=True), "exact", more).word == "failed"


class Photos:
    """Images of bytes, normalised a sample at a time."""

    def __init__(self) -> None:
        from torchvision import transforms

        normalize = transforms.Normalize([0.5] * 3, [0.25] * 3)
        self.transform = transforms.Compose([transforms.ToTensor(), normalize])

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        import numpy as np
        from PIL import Image

        pixels = np.random.default_rng(index).integers(0, 4 * index + 4, (8, 8, 3), dtype=np.uint8)
        return self.transform(Image.fromarray(pixels)), index % 2


def of_photos() -> None:
    """A training of photos."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    photos: Any = Photos()
    for _ in range(3):
        for images, labels in DataLoader(photos, batch_size=16, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()


@pytest.mark.parametrize("is_harmed", [False, True])
def test_samples_are_compared_as_the_model_gets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_harmed: bool
) -> None:
    """Images that travel as bytes are the same samples, when they are normalised as before."""
    pytest.importorskip("torchvision")
    from laptime.tuning.catalogue._inserted.normalize_bytes import NormalizeBytes

    original = NormalizeBytes.normalize
    if is_harmed:
        monkeypatch.setattr(
            NormalizeBytes,
            "normalize",
            lambda self, tensor: original(self, tensor) + 0.5 * (tensor.dim() > 1),
        )
    change = {"name": "uint8_transfer", "options": {"mean": [0.5] * 3, "std": [0.25] * 3}}
    gate = of_samples(tmp_path, of_photos, "reassociated", change)
    assert gate.word == ("failed" if is_harmed else "passed")


def test_identity_gives_the_same_samples(tmp_path: Path) -> None:
    assert of_samples(tmp_path, script(augments=True), "exact", {"name": "identity"}).word == "passed"
