"""A dataset whose random numbers depend on the sample and its visit alone; also put into users' scripts."""

import importlib.util
import random
import sys
from typing import Any

import torch


class SeededBySample(torch.utils.data.Dataset[Any]):
    """Draws the same random numbers for a sample's n-th visit, however many workers there are."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.seed = torch.initial_seed()
        if importlib.util.find_spec("numpy"):  # also if only the dataset imports it, at its first sample
            importlib.import_module("numpy.random")
        visits: Any = torch.zeros(len(dataset), dtype=torch.int64)
        self.visits = visits.share_memory_()

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, index: Any) -> Any:
        numpy = sys.modules.get("numpy.random")
        states = random.getstate(), torch.get_rng_state(), numpy.get_state() if numpy else None
        place = int(index)
        visit = int(self.visits[place])
        self.visits[place] += 1
        seed = hash((self.seed, visit, place)) % 2**32
        random.seed(seed)
        torch.default_generator.manual_seed(seed)
        if numpy:
            numpy.seed(seed)
        try:
            return self.dataset[index]
        finally:
            random.setstate(states[0])
            torch.set_rng_state(states[1])
            if numpy:
                numpy.set_state(states[2])
