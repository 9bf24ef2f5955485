"""`torchvision:NAME`: every model of torchvision, with random weights and the inputs it is used with.

Nothing is downloaded. The shapes come from the transforms that belong to the published weights:

    classification   (B, 3, S, S), S the crop size: 224 for EfficientNet-B0, 600 for B7, 299 for Inception
    segmentation     (B, 3, S, S), S the size that images are resized to
    detection        a list of B images (3, S, S), S the size at which the model itself resizes nothing
    video            (B, 3, 16, H, W): clips of 16 frames, as the models were trained with
    optical flow     two batches (B, 3, 520, 960), the size of torchvision's own example
"""

from collections.abc import Callable
from typing import Any

from laptime.kit.errors import TargetError
from laptime.targets import Program, Recipe, _shared, unknown_name

FORM = "torchvision:NAME"
_FRAMES = 16
_FLOW_SIZE = (520, 960)
_IMAGE_SIZE = 224


def matches(text: str) -> bool:
    return text.startswith("torchvision:")


def resolve(text: str) -> Recipe:
    """The recipe of a torchvision model. Whether the name exists is seen when it is built."""
    return _shared.resolve_name("torchvision", text, _build)


def names() -> list[str]:
    from torchvision.models import list_models

    return [f"torchvision:{name}" for name in list_models()]


def _build(name: str) -> Program:
    from torchvision.models import get_model, get_model_weights, list_models

    if name.lower() not in list_models():
        raise unknown_name("torchvision", name, list_models())
    name = name.lower()
    # What the builder needs besides: above all no download of backbone weights.
    import inspect

    from torchvision.models import get_model_builder

    parameters = inspect.signature(get_model_builder(name)).parameters
    arguments: dict[str, Any] = {}
    if "weights_backbone" in parameters:
        arguments["weights_backbone"] = None
    if "quantize" in parameters:
        arguments["quantize"] = True
    if "googlenet" in name or "inception" in name:
        # Their own initialisation takes seconds of SciPy and speed does not depend on it.
        arguments["init_weights"] = False
    if "googlenet" in name:
        arguments["aux_logits"] = False  # as in the published weights: 6.6 M parameters
    model = get_model(name, weights=None, **arguments)
    make, family, size = _inputs(model, get_model_weights(name))
    facts = {"family": family, "size": size, "weights": "random, untrained"}
    if family == "detection":
        facts["note"] = (
            "untrained: how many boxes it finds, and the work on them, is not that of trained weights"
        )
    return Program(call=model, make=make, origin="known", untrained=True, facts=facts)


def _inputs(model: Any, weights: Any) -> tuple[Callable[[int], Any], str, list[int]]:
    """A maker of inputs, the family of the model, and the size of one item."""
    import torch

    members = list(weights)
    # Those of the weights that torchvision holds to be the best.
    preset = getattr(weights, "DEFAULT", members[0]).transforms if members else None
    family = getattr(getattr(preset, "func", preset), "__name__", "ImageClassification")
    settings = getattr(preset, "keywords", {})

    def make_batch(size: tuple[int, ...]) -> Callable[[int], Any]:
        return lambda batch: torch.randn(batch, *size)

    match family:
        case "ObjectDetection":
            # The model's own transform resizes nothing then.
            transform = model.transform
            if transform.fixed_size is not None:
                width, height = transform.fixed_size
                size = int(height), int(width)
            else:
                side = int(transform.min_size[-1])
                size = side, side
            item = (3, *size)
            return lambda batch: [torch.rand(item) for _ in range(batch)], "detection", list(item)
        case "VideoClassification":
            item = (3, _FRAMES, *settings["crop_size"])
            return make_batch(item), "video", list(item)
        case "OpticalFlow":
            item = (3, *_FLOW_SIZE)

            def pair(batch: int) -> Any:
                return tuple(torch.rand(batch, *item) * 2 - 1 for _ in range(2))

            return pair, "optical flow", list(item)
        case "SemanticSegmentation":
            item = (3, settings["resize_size"], settings["resize_size"])
            return make_batch(item), "segmentation", list(item)
        case "ImageClassification":
            side = settings.get("crop_size", _IMAGE_SIZE)
            return make_batch((3, side, side)), "classification", [3, side, side]
    raise TargetError(
        f"no inputs are known for torchvision models of the kind {family}",
        why="laptime knows classification, segmentation, detection, video and optical flow",
        next="write a file with a function that returns (model, inputs)",
    )
