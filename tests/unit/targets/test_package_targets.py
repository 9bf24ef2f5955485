"""Models by name: inputs fit every family, and nothing is downloaded."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytestmark = pytest.mark.torch

from laptime import targets  # noqa: E402
from laptime.kit.errors import TargetError  # noqa: E402


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("something was about to be downloaded")

    monkeypatch.setattr("torch.hub.load_state_dict_from_url", refuse)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", refuse)


def shapes(inputs: Any) -> Any:
    if isinstance(inputs, list | tuple):
        return type(inputs)(tuple(each.shape) for each in inputs)
    return tuple(inputs.shape)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("efficientnet_b0", (2, 3, 224, 224)),
        ("inception_v3", (2, 3, 299, 299)),
        ("alexnet", (2, 3, 224, 224)),
        ("lraspp_mobilenet_v3_large", (2, 3, 520, 520)),
        ("ssdlite320_mobilenet_v3_large", [(3, 320, 320)] * 2),
        ("fasterrcnn_mobilenet_v3_large_fpn", [(3, 800, 800)] * 2),
        ("r3d_18", (2, 3, 16, 112, 112)),
        ("raft_small", ((2, 3, 520, 960),) * 2),
    ],
)
def test_inputs_are_those_of_the_family(name: str, expected: Any) -> None:
    program = targets.parse(f"torchvision:{name}").build(1)
    assert program.make is not None
    assert program.untrained
    assert shapes(program.make(2)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["efficientnet_b7", "vit_h_14"])
def test_large_models_have_their_own_crop(name: str) -> None:
    make = targets.parse(f"torchvision:{name}").build(1).make
    assert make is not None
    assert make(1).shape[-1] == {"efficientnet_b7": 600, "vit_h_14": 518}[name]


def test_every_torchvision_model_has_known_inputs() -> None:
    from torchvision.models import get_model_weights, list_models

    from laptime.targets import torchvision as kind

    detector = SimpleNamespace(transform=SimpleNamespace(fixed_size=None, min_size=(800,)))
    families = Counter(kind._inputs(detector, get_model_weights(name))[1] for name in list_models())
    assert families.total() == len(list_models())
    assert min(families[name] for name in ("detection", "video", "segmentation", "optical flow")) >= 2


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(TargetError) as caught:
        targets.parse("torchvision:resnet81").build(1)
    assert "torchvision:resnet18?" in caught.value.next
    with pytest.raises(TargetError) as caught:
        targets.parse("timm:resnt18").build(1)
    assert "timm:resnet18?" in caught.value.next


def test_timm_takes_the_size_from_its_configuration() -> None:
    program = targets.parse("timm:test_resnet").build(1)
    assert program.make is not None
    assert program.make(2).shape == (2, 3, 160, 160)
    assert program.call(program.make(2)).shape[0] == 2


def test_source_has_the_version() -> None:
    import torchvision

    version = torchvision.__version__.partition("+")[0]
    assert targets.parse("torchvision:resnet18").source.startswith(f"torchvision {version}")


def test_names_can_be_parsed() -> None:
    from laptime.targets import timm, torchvision

    for kind in (timm, torchvision):
        known = kind.names()
        assert len(known) > 100
        assert all(kind.matches(target) for target in known)
