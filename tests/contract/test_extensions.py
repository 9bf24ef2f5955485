"""Every registered name of every room keeps its contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laptime import testing
from laptime.kit import registry
from laptime.kit.errors import Unavailable

EVERY = [(room, name) for room in registry.ROOMS for name in registry.names(room)]

# Something small for each backend to run; a backend that is not named here runs a planted program.
SMALL = {
    "torch": "torchvision:squeezenet1_1",
    "tensorflow": "keras:MobileNetV3Small",
    "jax": f"{Path(__file__).with_name('jax_small.py')}:build",
    "onnxruntime": str(Path(__file__).with_name("small.onnx")),  # made by testing.onnx_files.save
    "openvino": str(Path(__file__).with_name("small.onnx")),
}
NEED_TORCH = ("timm", "torch", "torchvision")


def each(room: str) -> list[Any]:
    """The names of a room, marked where a framework is needed."""
    found = registry.names(room)
    return [pytest.param(name, marks=pytest.mark.torch) if name in NEED_TORCH else name for name in found]


@pytest.mark.parametrize("room", registry.ROOMS)
def test_every_room_has_extensions(room: str) -> None:
    assert registry.names(room)


@pytest.mark.parametrize("room", registry.ROOMS)
def test_nothing_is_broken(room: str) -> None:
    assert registry.broken(room) == {}


@pytest.mark.parametrize(("room", "name"), EVERY)
def test_every_extension_says_what_it_is_for(room: str, name: str) -> None:
    testing.documented(room, name)


@pytest.mark.parametrize("name", each("backends"))
def test_backends_keep_their_contract(name: str) -> None:
    try:
        testing.check_backend(name, target=SMALL.get(name, "null:noop"))
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", each("targets"))
def test_targets_keep_their_contract(name: str) -> None:
    testing.check_target(name)


@pytest.mark.parametrize("name", each("probes"))
def test_probes_keep_their_contract(name: str) -> None:
    testing.check_probe(name)


@pytest.mark.parametrize("name", each("checks"))
def test_checks_keep_their_contract(name: str) -> None:
    testing.check_check(name)


@pytest.mark.parametrize("name", each("rules"))
def test_rules_keep_their_contract(name: str) -> None:
    testing.check_rule(name)


@pytest.mark.parametrize("name", each("reports"))
def test_reports_keep_their_contract(name: str) -> None:
    testing.check_report(name)


@pytest.mark.parametrize("name", each("commands"))
def test_commands_keep_their_contract(name: str) -> None:
    testing.check_command(name)


@pytest.mark.parametrize("name", registry.names("exports"))
def test_exports_keep_their_contract(name: str, tmp_path: Path) -> None:
    try:
        testing.check_export(name, tmp_path)
    except Unavailable as error:
        pytest.skip(str(error))
