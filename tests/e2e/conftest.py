"""`laptime` in this process, for what needs no process of its own to be asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fixtures.command_lines import OWN_VARIABLES, carried_out


@pytest.fixture
def here(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., CompletedProcess[str]]:
    """A command line in a folder: its start takes a second less. Models and scripts get their processes."""
    for name in OWN_VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def call(folder: Path, *words: str) -> CompletedProcess[str]:
        monkeypatch.chdir(folder)
        return carried_out(capfd, *words)

    return call
