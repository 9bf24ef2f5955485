"""`timm:NAME`: every model of timm, with random weights and inputs of the size in its configuration."""

from typing import Any

from laptime.targets import Program, Recipe, _shared, unknown_name

FORM = "timm:NAME"


def matches(text: str) -> bool:
    return text.startswith("timm:")


def resolve(text: str) -> Recipe:
    """The recipe of a timm model. Whether the name exists is seen when it is built."""
    return _shared.resolve_name("timm", text, _build)


def names() -> list[str]:
    import timm

    return [f"timm:{name}" for name in timm.list_models()]


def _build(name: str) -> Program:
    import timm
    import torch

    if not timm.is_model(name):
        raise unknown_name("timm", name, timm.list_models())
    model: Any = timm.create_model(name, pretrained=False)
    config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None) or {}
    item = tuple(config.get("input_size", (3, 224, 224)))

    def make(batch: int) -> Any:
        return torch.randn(batch, *item)

    facts = {"family": "classification", "size": list(item), "weights": "random, untrained"}
    return Program(call=model, make=make, origin="known", untrained=True, facts=facts)
