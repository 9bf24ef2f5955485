"""ToTensor and Normalize moved behind the copy: images travel as bytes and become numbers on the device.

A quarter of the bytes goes through workers, collation, pinned memory and the bus; the conversion is one pass
over a batch where there were many over samples. The model gets its images by a forward pre-hook, in training
and evaluation.

Source: timm, `PrefetchLoader`; NVIDIA's DALI and "data_prefetcher" of apex's ImageNet example.
Lies when: the script itself works on the images between loader and model (mixup, its own scaling): it would
work on bytes. The gate sees it."""

from collections.abc import Callable
from typing import Any

from laptime.tuning.catalogue import _bounds, _inserted
from laptime.tuning.optimization import LoopProfile, Optimization, Options

MAKES = {"ToTensor", "ToDtype"}
"""Steps of torchvision that make numbers from 0 to 1 of bytes (ToDtype: with scale=True)."""
CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4, "CMYK": 4}  # modes of PIL with 8 bits a channel


def look(hooks: Any) -> dict[str, Any]:
    """Return the normalisation of bytes, see `_normalisation`; {"why": ...} if there is nothing to move."""
    if not hooks.loaders:
        return {"why": "there is no loader"}
    return _normalisation(hooks.loaders[0].dataset)


def propose(loop_profile: LoopProfile) -> list[Options]:
    mean, std = (loop_profile.detail("uint8_transfer", name, None) for name in ("mean", "std"))
    return [{"mean": mean, "std": std}] if mean else []


def why_not(loop_profile: LoopProfile) -> str:
    why = loop_profile.detail("uint8_transfer", "why", "no images of torchvision transforms were seen")
    return "" if propose(loop_profile) else str(why)


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Three quarters of the copies, and of the wait what the two transforms and the smaller batch can
    save."""
    return _bounds.within(loop_profile, 0.75 * loop_profile.share("transfer") + _bound_wait(loop_profile))


def _bound_wait(loop_profile: LoopProfile) -> float:
    """Seconds of the wait that these stages take, if they were timed; else all of it."""
    stages = loop_profile.details.get("fetch_by_stage") or []
    seconds = sum(float(stage.get("seconds", 0.0)) for stage in stages[-2:]) * loop_profile.batch
    # Collating floats costs as much again as making them.
    return min(loop_profile.share("data"), 2 * seconds) if stages else loop_profile.share("data")


def apply(loop: Any, options: Options) -> None:
    """Datasets whose transform ends so give bytes; every trained model turns bytes into numbers first."""
    wanted = {"mean": list(options["mean"]), "std": list(options["std"])}

    def wrap(dataset: Any) -> Any:
        from laptime.tuning.catalogue._inserted.uint8_images import with_bytes

        return with_bytes(dataset) if _normalisation(dataset) == wanted else dataset

    from laptime.tuning.catalogue._inserted.normalize_bytes import NormalizeBytes

    loop.dataset(wrap)
    loop.input(NormalizeBytes(**wanted).normalize)


def edit(script: Any, options: Options) -> None:
    _inserted.define(script, "uint8_images")
    _inserted.define(script, "normalize_bytes")
    script.wrap_argument("loader", "dataset", "with_bytes({})")
    mean, std = list(options["mean"]), list(options["std"])
    script.after_model(f"{{model}}.register_forward_pre_hook(NormalizeBytes({mean}, {std}))")


# The end of a dataset's transform: the steps that make numbers of uint8 images.


def _normalisation(dataset: Any) -> dict[str, Any]:
    """{"mean": [...], "std": [...]} that bytes are normalised by, one number a channel; or {"why": ...}.

    Reads one sample, and puts random states back."""
    while type(dataset).__name__ == "Subset":
        dataset = dataset.dataset
    values = getattr(dataset, "__dict__", {}).values()
    composes = [value for value in values if type(value).__name__ == "Compose"]
    if not composes:
        return {"why": "its transform is not a Compose of torchvision's"}
    if len(composes) > 1:
        return {"why": "it has several transforms"}
    stages = list(composes[0].transforms)
    last = stages[-1] if stages and _kind(stages[-1]) == "Normalize" else None
    rest = stages[:-1] if last is not None else stages
    maker = rest[-1] if rest else None
    if _kind(maker) not in MAKES or (_kind(maker) == "ToDtype" and not getattr(maker, "scale", False)):
        return {"why": "its transform does not end with torchvision's ToTensor, or ToDtype, and Normalize"}
    channels = _channels(dataset, composes[0], len(rest) - 1)
    if isinstance(channels, str):
        return {"why": channels}
    mean, std = ([float(each) for each in getattr(last, name, ())] for name in ("mean", "std"))
    mean, std = mean or [0.0] * channels, std or [1.0] * channels
    return {"mean": mean, "std": std} if len(mean) == len(std) else {"why": "its Normalize cannot be read"}


def _kind(stage: Any) -> str:
    """The class of a step of torchvision's, "" for others."""
    return type(stage).__name__ if type(stage).__module__.startswith("torchvision.transforms") else ""


class _ChannelRecorder:
    """A step that tells what it was given."""

    def __init__(self, stage: Callable[[Any], Any]) -> None:
        self.stage = stage
        self.channels = 0

    def __call__(self, image: Any) -> Any:
        if isinstance(getattr(image, "mode", None), str):
            self.channels = CHANNELS.get(image.mode, 0)
        elif str(getattr(image, "dtype", "")) == "torch.uint8" and image.dim() == 3:
            self.channels = int(image.shape[0])
        return self.stage(image)


def _channels(dataset: Any, compose: Any, place: int) -> int | str:
    """Channels of the 8-bit image that this step is given, or why there is none."""
    from laptime.tuning.trial.diagnosis.loader_probe import randomness_kept

    stages = compose.transforms
    recorder = _ChannelRecorder(stages[place])
    compose.transforms = [*stages[:place], recorder, *stages[place + 1 :]]
    try:
        with randomness_kept():
            dataset[0]
    except Exception as error:  # anything can come out of a user's dataset
        return f"a sample could not be read: {type(error).__name__}: {error}"
    finally:
        compose.transforms = stages
    return recorder.channels or "its images do not have 8 bits a channel"


OPTIMIZATION = Optimization(
    title="images as bytes, normalised on the device",
    numerics="reassociated",
    saves=bound,
    needs=frozenset({"loader", "map_dataset", "!in_library"}),
    conflicts=frozenset({"cache_dataset"}),
    propose=propose,
    why_not=why_not,
    look=look,
    example={"mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]},
    apply=apply,
    edit=edit,
)
