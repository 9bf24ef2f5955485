"""A sample's random numbers follow from its index and its visit: augmentation no longer depends on workers.

torch seeds each worker, so the number of workers decides which random numbers a sample meets. With this
change any number of workers gives bitwise the same batches, and more workers become an `exact` change.

Source: pytorch issue 15170 and torchtune issue 168 (reproducibility when workers change); PyTorch notes,
"Reproducibility".
Lies when: an epoch is left before its end: workers have read ahead by then, and those samples count one
visit more."""

from typing import Any

from laptime.tuning.catalogue import _inserted
from laptime.tuning.optimization import Optimization, Options


def apply(loop: Any, options: Options) -> None:
    """Around every map-style dataset."""

    def wrap(dataset: Any) -> Any:
        from laptime.tuning.catalogue._inserted.seeded_by_sample import SeededBySample

        return dataset if isinstance(dataset, SeededBySample) else SeededBySample(dataset)

    loop.dataset(wrap)


def edit(script: Any, options: Options) -> None:
    _inserted.define(script, "seeded_by_sample")
    script.wrap_argument("loader", "dataset", "SeededBySample({})")


OPTIMIZATION = Optimization(
    title="random numbers by sample, whatever the workers",
    numerics="random",
    # It saves no time itself; it makes more workers exact.
    saves={},
    needs=frozenset({"loader", "map_dataset", "random_transforms"}),
    why_not=lambda loop_profile: (
        "" if loop_profile.dataset_length else "the length of the dataset is not known"
    ),
    apply=apply,
    edit=edit,
)
