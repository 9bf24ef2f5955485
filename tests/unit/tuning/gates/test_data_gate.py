"""Samples of an epoch, on loaders described by hand."""

from __future__ import annotations

from typing import Any

import pytest

from laptime.tuning.gates.data import checks, kolmogorov_smirnov
from laptime.tuning.trial.messages import LoaderPair, LoaderSamples

VARIED = [[[f"{p}{w}{n}" for n in range(8)] for w in range(2)] for p in range(2)]
FIXED = [[["a"] * 8 for _ in range(2)] for _ in range(2)]


def loader(**more: Any) -> LoaderSamples:
    given: dict[str, Any] = {
        "workers": 2,
        "batch_size": 8,
        "length": 5,
        "dataset": 40,
        "ids": [str(n) for n in range(40)],
        "sizes": [8] * 5,
        "complete": True,
        "hashes": [f"h{n}" for n in range(40)],
        "values": [n / 40 for n in range(40)],
        "draws": FIXED,
    }
    return LoaderSamples(**{**given, **more})


def failed(mine: LoaderSamples, theirs: LoaderSamples, numerics: str = "random") -> set[str]:
    made = checks(LoaderPair(candidate=[mine], base=[theirs]), numerics)
    return {check.name for check in made if check.outcome == "broken"}


@pytest.mark.parametrize("numerics", ["exact", "random", "algorithm"])
def test_the_same_loader_is_the_same(numerics: str) -> None:
    made = checks(LoaderPair(candidate=[loader()], base=[loader()]), numerics)
    assert {check.outcome for check in made} == {"kept"}


def test_another_order_is_random_and_not_exact() -> None:
    turned = loader(ids=[str(n) for n in reversed(range(40))])
    assert failed(turned, loader()) == set()
    assert failed(turned, loader(), "exact") == {"order"}


def test_a_missing_sample_is_named() -> None:
    twice = loader(ids=["0", *(str(n) for n in range(39))])
    made = checks(LoaderPair(candidate=[twice], base=[loader()]), "random")
    said = next(check for check in made if check.name == "samples")
    assert said.outcome == "broken"
    assert "sample 39" in said.sentence


def test_the_last_batch_is_missed() -> None:
    ragged = loader(sizes=[8] * 5 + [3], dataset=43, length=6, ids=[str(n) for n in range(43)])
    dropped = loader(dataset=43, drop_last=True)
    assert {"last_batch", "samples", "batches"} <= failed(dropped, ragged)
    unseen = {"complete": False, "sizes": [8] * 2, "ids": ["0"] * 16}
    short, base = loader(**unseen, dataset=43, drop_last=True), loader(**unseen, dataset=43)
    assert "last_batch" in failed(short, base)


def test_streams_that_workers_share() -> None:
    shared = [[[f"{p}{n}" for n in range(8)]] * 2 for p in range(2)]
    assert failed(loader(draws=shared), loader(draws=VARIED)) == {"augmentation"}
    assert failed(loader(draws=shared), loader(draws=shared)) == set()


def test_epochs_that_repeat() -> None:
    assert failed(loader(draws=[VARIED[0]] * 2), loader(draws=VARIED)) == {"augmentation"}


def test_augmentation_that_is_lost_or_new() -> None:
    assert failed(loader(draws=FIXED), loader(draws=VARIED)) == {"augmentation"}
    assert failed(loader(draws=VARIED), loader(draws=FIXED)) == {"augmentation"}


def test_seeding_by_sample_is_no_loss() -> None:
    by_epoch = [[[f"{p}"] * 8 for _ in range(2)] for p in range(2)]
    assert failed(loader(draws=by_epoch), loader(draws=VARIED)) == set()


def test_a_stream_that_every_worker_reads_whole() -> None:
    base = loader(iterable=True, ids=[], draws=[])
    twice = loader(iterable=True, ids=[], draws=[], sizes=[8] * 10, hashes=[f"h{n}" for n in range(40)] * 2)
    assert {"duplicates", "batches", "samples"} <= failed(twice, base)


def test_content_is_exact() -> None:
    other = loader(hashes=["x", *(f"h{n}" for n in range(1, 40))])
    assert failed(other, loader(), "exact") == {"content"}
    assert failed(other, loader(), "reassociated") == set()


def test_content_that_the_baseline_does_not_repeat_is_not_asked() -> None:
    other = loader(hashes=[f"x{n}" for n in range(40)])
    again = LoaderPair(candidate=[other], base=[loader()])
    made = checks(LoaderPair(candidate=[other], base=[loader()]), "exact", again)
    assert "content" not in {check.name for check in made}


def test_moved_values() -> None:
    others = [f"x{n}" for n in range(40)]
    moved = loader(values=[n / 40 + 0.2 for n in range(40)], hashes=others)
    assert failed(moved, loader()) == {"distribution"}
    assert distribution(loader(values=[0.5], hashes=others), loader()) == "undecided"


def distribution(mine: LoaderSamples, theirs: LoaderSamples) -> str:
    made = checks(LoaderPair(candidate=[mine], base=[theirs]), "random")
    return next(check.outcome for check in made if check.name == "distribution")


def test_few_samples_are_enough_where_all_their_bits_are_the_same() -> None:
    few: dict[str, Any] = {
        "ids": [str(n) for n in range(16)],
        "sizes": [8] * 2,
        "length": 2,
        "dataset": 16,
        "hashes": [f"h{n}" for n in range(16)],
        "values": [n / 16 for n in range(16)],
    }
    turned = {name: list(reversed(few[name])) for name in ("ids", "hashes", "values")}
    assert distribution(loader(**{**few, **turned}), loader(**few)) == "kept"
    other = ["x", *few["hashes"][1:]]
    assert distribution(loader(**{**few, "hashes": other}), loader(**few)) == "undecided"
    assert distribution(loader(**{**few, "hashes": []}), loader(**{**few, "hashes": []})) == "undecided"


def test_no_loader_is_unknown() -> None:
    assert [check.outcome for check in checks(LoaderPair(), "random")] == ["undecided"]


def test_kolmogorov_smirnov() -> None:
    assert kolmogorov_smirnov([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 0
    assert kolmogorov_smirnov([1.0, 2.0], [3.0, 4.0]) == 1
    assert kolmogorov_smirnov([1.0, 2.0, 3.0, 4.0], [2.5, 3.0, 4.0, 5.0]) == pytest.approx(0.5)
