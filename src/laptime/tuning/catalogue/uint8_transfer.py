"""ToTensor and Normalize moved behind the copy: images travel as bytes and become numbers on the device.

A quarter of the bytes goes through workers, collation, pinned memory and the bus; the conversion is one pass
over a batch where there were many over samples. The model gets its images by a forward pre-hook, in training
and evaluation.

Source: timm, `PrefetchLoader`; NVIDIA's DALI and "data_prefetcher" of apex's ImageNet example.
Lies when: the script itself works on the images between loader and model (mixup, its own scaling): it would
work on bytes. The gate sees it.
"""

from typing import Any

from laptime.tuning.catalogue import _bounds, _image_transform, _inserted
from laptime.tuning.optimization import LoopProfile, Options

TITLE = "images as bytes, normalised on the device"
NUMERICS = "reassociated"
NEEDS = frozenset({"loader", "map_dataset", "!in_library"})
CONFLICTS = frozenset({"cache_dataset"})
EXAMPLE = {"mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]}


def look(hooks: Any) -> dict[str, Any]:
    """What bytes are normalised by, see `_image_transform`; {"why": ...} where there is nothing to move."""
    if not hooks.loaders:
        return {"why": "there is no loader"}
    return _image_transform.normalisation(hooks.loaders[0].dataset)


def propose(loop_profile: LoopProfile) -> list[Options]:
    mean, std = (loop_profile.detail("uint8_transfer", name, None) for name in ("mean", "std"))
    return [{"mean": mean, "std": std}] if mean else []


def why_not(loop_profile: LoopProfile) -> str:
    why = loop_profile.detail("uint8_transfer", "why", "no images of torchvision transforms were seen")
    return "" if propose(loop_profile) else str(why)


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Three quarters of the copies, and of the wait what the two transforms and the smaller batch can
    save."""
    return _bounds.within(loop_profile, 0.75 * loop_profile.share("transfer") + _saved_wait(loop_profile))


def _saved_wait(loop_profile: LoopProfile) -> float:
    """Seconds of the wait that these stages take, where they were timed; else all of it."""
    stages = loop_profile.details.get("fetch_by_stage") or []
    seconds = sum(float(stage.get("seconds", 0.0)) for stage in stages[-2:]) * loop_profile.batch
    # Collating floats costs as much again as making them.
    return min(loop_profile.share("data"), 2 * seconds) if stages else loop_profile.share("data")


def apply(loop: Any, options: Options) -> None:
    """Datasets whose transform ends so give bytes; every trained model turns bytes into numbers first."""
    wanted = {"mean": list(options["mean"]), "std": list(options["std"])}

    def wrap(dataset: Any) -> Any:
        from laptime.tuning.catalogue._inserted.uint8_images import with_bytes

        return with_bytes(dataset) if _image_transform.normalisation(dataset) == wanted else dataset

    def convert(model: Any) -> Any:
        from laptime.tuning.catalogue._inserted.normalize_bytes import NormalizeBytes

        return model.register_forward_pre_hook(NormalizeBytes(**wanted)).remove

    loop.dataset(wrap)
    loop.model(convert)


def edit(script: Any, options: Options) -> None:
    _inserted.define(script, "uint8_images")
    _inserted.define(script, "normalize_bytes")
    script.wrap_argument("loader", "dataset", "with_bytes({})")
    mean, std = list(options["mean"]), list(options["std"])
    script.after_model(f"{{model}}.register_forward_pre_hook(NormalizeBytes({mean}, {std}))")
