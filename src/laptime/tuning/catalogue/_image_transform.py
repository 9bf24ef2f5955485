"""The end of a dataset's transform: the steps that make numbers of uint8 images."""

from collections.abc import Callable
from typing import Any

MAKES = {"ToTensor", "ToDtype"}
"""Steps of torchvision that make numbers from 0 to 1 of bytes (ToDtype: with scale=True)."""
CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4, "CMYK": 4}
"""Modes of PIL with 8 bits a channel."""


def normalisation(dataset: Any) -> dict[str, Any]:
    """{"mean": [...], "std": [...]} that bytes are normalised by, one number a channel; or {"why": ...}.

    Reads one sample, and puts random states back.
    """
    while type(dataset).__name__ == "Subset":
        dataset = dataset.dataset
    values = getattr(dataset, "__dict__", {}).values()
    composes = [value for value in values if type(value).__name__ == "Compose"]
    if not composes:
        return {"why": "its transform is no Compose of torchvision's"}
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
