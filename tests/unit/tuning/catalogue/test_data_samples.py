"""Changes of what is read: samples kept, rows fetched at once, bytes for images, padding cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from laptime.testing.optimizations import FakeLoop
from laptime.tuning.catalogue import _inserted, batched_fetch, cache_dataset, trim_padding, uint8_transfer
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import load

pytestmark = pytest.mark.torch

SLOW = LoopProfile(
    step=0.1,
    shares={"data": 0.08, "transfer": 0.0, "forward": 0.01, "backward": 0.01, "optimizer": 0.0, "other": 0.0},
    batch=16,
    memory=8 << 30,
    shm=1 << 30,
    loader={"num_workers": 0, "batch_size": 16},
    loader_seconds=0.08,
    dataset_length=512,
    sample_bytes=16 << 10,
    facts=frozenset({"cpu", "loader", "map_dataset"}),
    details={"cache_dataset": {"keeps": True, "draws": False, "why": ""}},
)


class Scans:
    """The same sample each time; counts how often it was read."""

    def __init__(self, sample: Callable[[int], Any]) -> None:
        self.sample = sample
        self.reads = 0
        self.classes = ["a", "b"]

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < 8:
            raise IndexError(index)
        self.reads += 1
        return self.sample(index)


def image(index: int) -> Any:
    import torch

    return torch.full((2, 3), float(index)), index, index / 3, {"flag": index > 3}


def batches(dataset: Any, **arguments: Any) -> list[Any]:
    import torch
    from torch.utils.data import DataLoader

    torch.manual_seed(3)
    loader = DataLoader(**{"dataset": dataset, "batch_size": 4, "shuffle": True, **arguments})
    return [batch for _ in range(2) for batch in loader]


def same(one: Any, two: Any) -> bool:
    import torch

    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(same(a, b) for a, b in zip(one, two, strict=True))
    return bool(one.dtype == two.dtype and torch.equal(one, two))


def wrapped(
    module: Any, dataset: Any, options: dict[str, Any] | None = None, **arguments: Any
) -> dict[str, Any]:
    """Arguments of a DataLoader after a change."""
    from torch.utils.data import DataLoader

    loop = FakeLoop()
    module.apply(loop, options or {})
    return loop.make("loader", DataLoader, dataset=dataset, **arguments).arguments


# Samples that are kept.


def test_a_cache_gives_the_same_batches_and_reads_each_sample_once() -> None:
    dataset = Scans(image)
    cached = wrapped(cache_dataset, dataset)["dataset"]
    assert same(batches(Scans(image)), batches(cached))
    assert dataset.reads == 8 + 1  # one to see what a sample looks like
    assert cached.classes == ["a", "b"]


@pytest.mark.slow
def test_workers_share_the_cache_from_epoch_to_epoch() -> None:
    cached = wrapped(cache_dataset, Scans(image))["dataset"]
    assert same(batches(Scans(image)), batches(cached, num_workers=2))
    assert bool(cached.is_stored.all())


def test_what_a_script_writes_into_a_sample_stays_out_of_the_cache() -> None:
    cached = wrapped(cache_dataset, Scans(image))["dataset"]
    for _ in range(2):
        sample = cached[5]
        assert sample[0].tolist() == [[5.0] * 3] * 2
        sample[0].zero_()


def test_types_of_samples_survive() -> None:
    import numpy as np
    import torch

    def odd(index: int) -> Any:
        return [
            torch.tensor(index),
            np.arange(3, dtype=np.int16) + index,
            np.float32(index / 7),
            index > 3,
            0.1,
        ]

    cached = wrapped(cache_dataset, Scans(odd))["dataset"]
    cached[2]
    first, second = odd(2), cached[2]
    assert [type(each) for each in first] == [type(each) for each in second]
    assert second[1].dtype == np.int16
    assert (second[1] == first[1]).all()
    assert (first[2:], int(first[0])) == (second[2:], int(second[0]))


def test_samples_of_another_shape_are_read_again() -> None:
    import torch

    dataset = Scans(lambda index: torch.ones(3 if index else 2))
    cached = wrapped(cache_dataset, dataset)["dataset"]
    assert [len(cached[index]) for index in (0, 1, 0, 1)] == [2, 3, 2, 3]
    assert dataset.reads == 1 + 1 + 2


def test_texts_are_left_as_they_are() -> None:
    dataset = Scans(lambda index: f"caption {index}")
    assert wrapped(cache_dataset, dataset)["dataset"] is dataset


def test_a_trial_races_the_state_of_later_epochs() -> None:
    from torch.utils.data import DataLoader

    loop, trained, evaluated = FakeLoop(), Scans(image), Scans(image)
    cache_dataset.apply(loop, {})
    loader = DataLoader(**loop.make("loader", DataLoader, dataset=trained, batch_size=2).arguments)
    other = loop.make("loader", DataLoader, dataset=evaluated, batch_size=2).arguments["dataset"]
    loop.convert(next(iter(loader)))
    assert trained.reads == 1 + 8
    list(loader)
    assert trained.reads == 1 + 8
    assert (evaluated.reads, bool(other.is_stored.any())) == (1, False)


def test_the_cache_of_a_patched_script_is_filled_before_its_steps_are_timed() -> None:
    from torch.utils.data import DataLoader

    patched: dict[str, Any] = {}
    code, imports = _inserted.source("cached_dataset")
    exec("\n".join([*imports, code]), patched)
    loop, trained = FakeLoop(), Scans(image)
    cache_dataset.apply(loop, {"patched": True})
    cached = patched["CachedDataset"](trained)
    other = Scans(image)  # that the patch leaves alone: its gain would not be the patch's
    assert loop.make("loader", DataLoader, dataset=other, batch_size=2).arguments["dataset"] is other
    for _ in range(2):  # each epoch makes a loader of its own
        given = loop.make("loader", DataLoader, dataset=cached, batch_size=2).arguments
        assert given["dataset"] is cached
        loop.convert(next(iter(DataLoader(**given))))
        assert trained.reads == 1 + 8


def looked(module: Any, dataset: Any, **arguments: Any) -> Any:
    from torch.utils.data import DataLoader

    return module.OPTIMIZATION.look(SimpleNamespace(loaders=[DataLoader(dataset, **arguments)]))


def test_what_can_be_kept_is_found_by_reading() -> None:
    import torch

    assert looked(cache_dataset, Scans(image)) == {"keeps": True, "draws": False, "why": ""}
    drawn = looked(cache_dataset, Scans(lambda index: (torch.rand(1), image(index))[1]))
    assert (drawn["keeps"], drawn["draws"]) == (True, True)
    flipped = looked(cache_dataset, Scans(lambda index: torch.rand(1) + index))
    assert not flipped["keeps"]
    assert "two results" in flipped["why"]
    assert not looked(cache_dataset, Scans(str))["keeps"]
    assert "one by" in looked(cache_dataset, Scans(lambda index: {"ids": list(range(64))}))["why"]
    assert "shapes" in looked(cache_dataset, Scans(lambda index: torch.ones(index + 1)))["why"]


def test_looking_draws_no_random_numbers_of_the_script() -> None:
    import torch

    torch.manual_seed(1)
    looked(cache_dataset, Scans(lambda index: torch.rand(1) + index))
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1))


def test_a_cache_that_does_not_fit_or_cannot_be_filled_is_not_offered() -> None:
    assert load("cache_dataset").offer(SLOW) == [{}]
    in_memory = {**SLOW.details, "batched_fetch": True}
    assert "already" in cache_dataset.why_not(replace(SLOW, details=in_memory))
    assert "takes" in cache_dataset.why_not(replace(SLOW, loader_seconds=8.0))
    assert "MiB" in cache_dataset.why_not(replace(SLOW, sample_bytes=16 << 20))
    assert "shared memory" in cache_dataset.why_not(replace(SLOW, shm=1 << 20))
    assert load("cache_dataset").offer(replace(SLOW, details={})) == []
    assert cache_dataset.numerics(SLOW, {}) == "exact"
    drawn = {"cache_dataset": {"keeps": True, "draws": True, "why": ""}}
    assert cache_dataset.numerics(replace(SLOW, details=drawn), {}) == "random"


# Rows at once.


def test_rows_fetched_at_once_are_the_same_batches() -> None:
    import torch
    from torch.utils.data import Subset, TensorDataset

    rows = TensorDataset(torch.arange(40.0).view(10, 4), torch.arange(10))
    for dataset in (rows, Subset(rows, [7, 3, 5, 1, 0]), Subset(Subset(rows, [7, 3, 5, 1, 0]), [4, 2, 0])):
        each: list[dict[str, Any]] = [{}, {"drop_last": True}, {"shuffle": False}]
        for arguments in each:
            made = wrapped(batched_fetch, dataset, batch_size=2, **arguments)
            assert made["dataset"] is not dataset
            assert same(batches(dataset, batch_size=2, **arguments), batches(**made))


def test_only_plain_tensor_datasets_are_fetched_at_once() -> None:
    import torch
    from torch.utils.data import TensorDataset

    class Own(TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            return self.tensors[0][index] * 2

    rows = TensorDataset(torch.arange(4))
    assert not looked(batched_fetch, Own(torch.arange(4)))
    assert looked(batched_fetch, rows)
    others: list[dict[str, Any]] = [
        {"dataset": Own(torch.arange(4))},
        {"dataset": rows, "collate_fn": len},
        {"dataset": rows, "batch_size": None},
    ]
    for arguments in others:
        assert wrapped(batched_fetch, **arguments) == arguments


# Bytes for images.


class Photos:
    """PIL images and a transform."""

    def __init__(self, transform: Any, mode: str = "RGB") -> None:
        self.transform = transform
        self.mode = mode

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        import numpy as np
        from PIL import Image

        pixels = np.random.default_rng(index).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        return self.transform(Image.fromarray(pixels).convert(self.mode)), index


def pipelines() -> dict[str, Any]:
    import torch
    from torchvision import transforms
    from torchvision.transforms import v2

    first = [transforms.Resize(4), transforms.ToTensor()]
    normal = transforms.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.4])
    return {
        "v1": transforms.Compose([*first, normal]),
        "v1, numbers only": transforms.Compose(first),
        "v2": v2.Compose(
            [
                v2.ToImage(),
                v2.Resize(4),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize([0.5] * 3, [0.2] * 3),
            ]
        ),
    }


@pytest.mark.parametrize("which", ["v1", "v1, numbers only", "v2"])
def test_images_as_bytes_give_the_model_the_same_numbers(which: str) -> None:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Subset

    transform = pipelines()[which]
    photos: Any = Photos(transform)
    for dataset in (photos, Subset(photos, [3, 1, 2])):
        stages = list(transform.transforms)
        options = uint8_transfer.propose(
            replace(SLOW, details={"uint8_transfer": looked(uint8_transfer, dataset)})
        )
        model = nn.Flatten()
        seen: list[Any] = []
        loop = FakeLoop(models=[model])
        uint8_transfer.apply(loop, options[0])
        model.register_forward_pre_hook(lambda _, inputs, seen=seen: seen.append(inputs[0]))
        images, _ = next(
            iter(DataLoader(loop.make("loader", DataLoader, dataset=dataset).arguments["dataset"], 3))
        )
        wanted, _ = next(iter(DataLoader(dataset, 3)))
        assert images.dtype == torch.uint8
        assert not torch.equal(model(images), images.flatten(1))
        torch.testing.assert_close(seen[0], torch.as_tensor(wanted), rtol=1e-6, atol=1e-6)
        assert transform.transforms == stages
        loop.undo()
        assert model(images).dtype == torch.uint8


def test_other_transforms_are_left_alone() -> None:
    from torchvision import transforms

    make = pipelines()["v1"].transforms
    erased = transforms.Compose([*make, transforms.RandomErasing()])
    for dataset in (
        Photos(erased),
        Photos(lambda picture: picture),
        Photos(pipelines()["v1, numbers only"], "I;16"),
    ):
        assert looked(uint8_transfer, dataset)["why"]
        options = {"mean": [0.0] * 3, "std": [1.0] * 3}
        assert wrapped(uint8_transfer, dataset, options)["dataset"] is dataset


# Padding.


def padded() -> Any:
    import torch

    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, 1000, (4, 64), generator=generator)
    for row, length in enumerate((5, 19, 11, 2)):
        tokens[row, length:] = 0
    return tokens


def test_every_tensor_of_a_sequence_is_cut_to_the_longest() -> None:
    import torch

    tokens = padded()
    batch = {
        "ids": tokens,
        "mask": (tokens != 0).long(),
        "extra": torch.zeros(4, 64, 3),
        "labels": torch.arange(4),
    }
    loop = FakeLoop(live=True)
    trim_padding.apply(loop, {"pad": 0})
    made = loop.convert(dict(batch))
    assert {name: tuple(each.shape) for name, each in made.items()} == {
        "ids": (4, 24),
        "mask": (4, 24),
        "extra": (4, 24, 3),
        "labels": (4,),
    }
    assert torch.equal(made["ids"], tokens[:, :24])
    pair = loop.convert((tokens, torch.arange(4)))
    assert isinstance(pair, tuple)
    assert pair[0].shape == (4, 24)
    loop.undo()
    assert loop.convert(tokens).shape == (4, 64)


def test_a_last_token_that_all_sequences_share_is_no_padding() -> None:
    import torch

    full = torch.randint(5, 1000, (4, 61), generator=torch.Generator().manual_seed(0))
    full[:, -3:] = 2  # the end of the sentence, not padding
    loop = FakeLoop()
    trim_padding.apply(loop, {"pad": 0})
    assert loop.convert(full).shape == (4, 61)
    assert loop.convert(torch.ones(4, 61)).shape == (4, 61)
    assert loop.convert({"names": ["a"]}) == {"names": ["a"]}


def test_the_padding_is_found_in_a_batch() -> None:
    import torch
    from torch.utils.data import TensorDataset

    found = looked(trim_padding, TensorDataset(padded(), torch.arange(4)), batch_size=4)
    assert found == {"pad": 0, "saves": 1 - 24 / 64}
    assert looked(trim_padding, TensorDataset(torch.randint(0, 9, (4, 64)) + 1), batch_size=4) == {}
    loop_profile = replace(SLOW, padding=0.8, details={"trim_padding": found})
    assert trim_padding.propose(loop_profile) == [{"pad": 0}]
    assert trim_padding.propose(replace(loop_profile, padding=None)) == []
    plain = trim_padding.bound(loop_profile, {"pad": 0})
    squared = trim_padding.bound(replace(loop_profile, facts=frozenset({"attention"})), {"pad": 0})
    assert plain == pytest.approx(0.8 * 0.02)
    assert squared == pytest.approx(0.96 * 0.02)
