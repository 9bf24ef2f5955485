"""One file, one extension; guests come through entry points; nothing broken is passed over in silence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from importlib.resources import files
from pathlib import Path

import pytest

from laptime.kit import registry
from laptime.kit.errors import LaptimeError, UsageError

Guests = Callable[..., None]


@pytest.fixture
def guests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Guests]:
    """Installs entry points into the room of checks: name -> (value, source of its module)."""

    def install(**modules: tuple[str, str]) -> None:
        points = []
        for name, (value, source) in modules.items():
            module = value.partition(":")[0]
            tmp_path.joinpath(f"{module}.py").write_text(source, encoding="utf-8")
            points.append(EntryPoint(name.replace("_dash_", "-"), value, "laptime.checks"))
        monkeypatch.setattr(
            registry, "entry_points", lambda group: points if group == "laptime.checks" else []
        )
        registry._guests.cache_clear()

    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield install
    registry._guests.cache_clear()
    for name in set(sys.modules) - before:
        if name.startswith("guest_"):
            del sys.modules[name]


def test_every_room_of_the_registry_is_a_package() -> None:
    for room in registry.ROOMS:
        assert isinstance(registry.names(room), tuple)


def test_a_room_in_two_places_has_every_name_once() -> None:
    assert {"text", "asv"} <= set(registry.names("reports"))
    assert registry.load("reports", "text").__name__ == "laptime.reports.formats.text"
    assert registry.load("reports", "asv").__name__ == "laptime.edges.formats.asv"
    for packages in registry.ROOMS.values():
        stems = [Path(file.name).stem for package in packages.split() for file in files(package).iterdir()]
        public = [stem for stem in stems if not stem.startswith("_")]
        assert len(public) == len(set(public)), packages


def test_names_are_sorted_and_leave_private_files_out() -> None:
    for room in registry.ROOMS:
        names = registry.names(room)
        assert list(names) == sorted(set(names))
        assert not any(name.startswith("_") for name in names)


def test_an_unknown_name_is_an_error_that_suggests_the_nearest(guests: Guests) -> None:
    guests(thermal=("guest_thermal", ""))
    with pytest.raises(UsageError, match="'thermall'") as caught:
        registry.load("checks", "thermall")
    assert "'thermal'?" in caught.value.next
    assert "thermal" in caught.value.why


def test_a_guest_is_listed_and_loaded_like_our_own(guests: Guests) -> None:
    guests(thermal=("guest_thermal", "WHO = 'guest'"))
    assert "thermal" in registry.names("checks")
    assert registry.load("checks", "thermal").WHO == "guest"
    assert registry.broken("checks").get("thermal") is None


def test_dashes_and_underscores_are_the_same_in_names(guests: Guests) -> None:
    guests(very_dash_hot=("guest_hot", ""))
    assert "very_hot" in registry.names("checks")
    assert registry.load("checks", "very-hot") is registry.load("checks", "very_hot")


def test_a_guest_that_cannot_be_imported_is_shown_and_raises(guests: Guests) -> None:
    guests(thermal=("guest_thermal", "import a_library_that_is_not_there"), fine=("guest_fine", ""))
    faults = registry.broken("checks")
    assert "a_library_that_is_not_there" in faults["thermal"]
    assert "fine" not in faults
    with pytest.raises(LaptimeError, match="'thermal'") as caught:
        registry.load("checks", "thermal")
    assert not isinstance(caught.value, UsageError)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_guest_that_raises_anything_is_shown(guests: Guests) -> None:
    guests(thermal=("guest_thermal", "1 / 0"))
    assert "ZeroDivisionError" in registry.broken("checks")["thermal"]


def test_a_guest_that_is_no_module_is_broken(guests: Guests) -> None:
    guests(thermal=("guest_thermal:check", "def check(): ..."))
    assert "not a module" in registry.broken("checks")["thermal"]


def test_listing_names_imports_no_extension(guests: Guests) -> None:
    guests(thermal=("guest_thermal", "1 / 0"))
    registry.names("checks")
    assert "guest_thermal" not in sys.modules
