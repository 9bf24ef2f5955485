"""Batches are cached and given again; datasets are asked without a trace."""

from __future__ import annotations

import random
from collections import UserDict, namedtuple
from typing import Any

import pytest

from laptime.tuning.trial import batches
from laptime.tuning.trial.diagnosis import loader_probe

pytestmark = pytest.mark.torch


def test_a_kept_batch_survives_what_a_script_does_to_it() -> None:
    import torch

    kept = batches.CachedBatch({"x": torch.ones(4, 2), "labels": torch.arange(4), "names": ["a"] * 4})
    first = kept.give()
    first.pop("labels")
    first["x"].mul_(0.5)
    second = kept.give()
    assert set(second) == {"x", "labels", "names"}
    second["x"].mul_(0.5)
    third = kept.give()
    assert torch.equal(third["x"], torch.full((4, 2), 0.5))  # from the first writing on copies are given


def test_every_kind_of_batch_is_cut_and_doubled() -> None:
    import torch

    pair = namedtuple("pair", ["x", "y"])
    made: list[Any] = [
        [torch.ones(4, 2), torch.arange(4)],
        pair(torch.ones(4), torch.arange(4)),
        UserDict({"x": torch.ones(4, 3), "scale": torch.tensor(2.0)}),
        torch.ones(4, 1),
        [(torch.ones(7), torch.tensor(1)) for _ in range(4)],
        [{"x": torch.ones(7), "label": 3} for _ in range(4)],
    ]
    for batch in made:
        kept = batches.CachedBatch(batch)
        half, double = kept.half(), kept.double()
        assert half is not None
        assert double is not None
        assert [batches.size(each.give()) for each in (half, kept, double)] == [2, 4, 8]
        assert type(half.give()) is type(batch)


def test_a_batch_whose_parts_differ_is_not_cut() -> None:
    import torch

    assert batches.CachedBatch((torch.ones(4, 2), torch.ones(9, 2))).half() is None
    assert batches.CachedBatch({"x": torch.ones(4), "captions": ["a", "b", "c", "d"]}).double() is None
    assert batches.CachedBatch((torch.ones(1, 2),)).half() is None


def test_trailing_padding_is_counted_and_masks_are_none() -> None:
    import torch

    ids = torch.randint(5, 99, (4, 10))
    for row, length in enumerate((10, 5, 5, 4)):
        ids[row, length:] = 0
    mask = (ids != 0).long()
    assert batches.padding({"ids": ids, "mask": mask}) == pytest.approx((0 + 5 + 5 + 6) / 40)
    assert batches.padding({"mask": mask}) is None
    assert batches.padding([torch.rand(4, 10), torch.arange(4)]) is None
    assert batches.padding([torch.nn.functional.one_hot(torch.arange(4), 10)]) is None
    assert batches.padding([torch.randint(5, 9999, (4, 10))]) is None


def _dataset(read: Any) -> Any:
    from torch.utils.data import Dataset

    class Data(Dataset[Any]):
        def __len__(self) -> int:
            return 32

        def __getitem__(self, index: int) -> Any:
            return read(index)

    return Data()


def test_asking_a_dataset_leaves_no_trace_in_random_states() -> None:
    import numpy as np
    import torch
    from torch.utils.data import DataLoader

    data = _dataset(lambda index: (torch.rand(2) + random.random() + np.random.rand(), index))
    states: Any = random.getstate(), torch.get_rng_state(), np.random.get_state()
    found, notes = loader_probe.probe(DataLoader(data, 4, shuffle=True))
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    now: Any = np.random.get_state()
    assert np.array_equal(now[1], states[2][1])
    assert notes == []
    assert found["random"] is True
    assert found["dataset_length"] == 32
    assert found["loader_seconds"] > 0


def test_randomness_of_its_own_is_seen_and_a_fixed_dataset_is_not_random() -> None:
    import numpy as np
    import torch
    from torch.utils.data import DataLoader

    own = np.random.default_rng(0)
    flips, _ = loader_probe.probe(DataLoader(_dataset(lambda index: own.random() > 0.5), 4))
    fixed, _ = loader_probe.probe(
        DataLoader(_dataset(lambda index: {"x": torch.ones(3), "n": float("nan")}), 4)
    )
    assert flips["random"] is True
    assert fixed["sample_bytes"] == 12 + 8
    assert loader_probe.probe(DataLoader(_dataset(lambda index: torch.ones(3)), 4))[0]["random"] is False


def test_a_dataset_that_fails_is_a_note() -> None:
    from torch.utils.data import DataLoader

    def broken(index: int) -> Any:
        raise OSError("only in workers")

    found, notes = loader_probe.probe(DataLoader(_dataset(broken), 4))
    assert "loader_seconds" not in found
    assert any("in workers" in note for note in notes)


@pytest.mark.parametrize("name", ["transform", "augment"])
def test_stages_of_a_compose_are_timed_and_given_back(name: str) -> None:
    import time

    import torch
    from torch.utils.data import DataLoader
    from torchvision import transforms

    slow = transforms.Lambda(lambda x: (time.sleep(0.002), x)[1])
    compose = transforms.Compose([slow, transforms.RandomHorizontalFlip()])
    own = list(compose.transforms)
    data = _dataset(lambda index: compose(torch.ones(3, 4, 4)))
    setattr(data, name, compose)
    found, _ = loader_probe.probe(DataLoader(data, 4))
    stages = found["details"]["fetch_by_stage"]
    assert [each["name"] for each in stages] == ["Lambda", "RandomHorizontalFlip"]
    assert stages[0]["seconds"] > 0.002
    assert compose.transforms == own


def test_a_stream_is_timed_by_batches() -> None:
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            return iter(torch.arange(20.0))

    found, notes = loader_probe.probe(DataLoader(Stream(), 4))
    assert notes == []
    assert found["loader_seconds"] > 0
    assert found["dataset_length"] is None
    assert "random" not in found
