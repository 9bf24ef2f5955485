"""A file at two places: an artefact that several folders share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def link(file: Path, place: Path) -> None:
    """The file at another place, too: no second copy where the disk allows it."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)
