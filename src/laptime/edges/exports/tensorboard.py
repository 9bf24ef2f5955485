"""TensorBoard: scalars, a folder for each case, so that cases are curves to compare.

A number's unit is its description. Lies when: a run of `laptime bench` has one step, 0, and is a dot."""

import re
from pathlib import Path
from typing import Any

from laptime.edges.exports import Export, Record

PLACE = "runs"


def open(place: str, title: str) -> Export:
    """A log folder; `tensorboard --logdir PLACE` shows it."""
    from tensorboard.summary import Writer

    return _Scalars(Path(place), title, Writer)


class _Scalars:
    def __init__(self, place: Path, title: str, writer: Any) -> None:
        self._place, self._title, self._writer = place, title, writer
        self._open: dict[str, Any] = {}

    def write(self, record: Record) -> None:
        """One scalar a number, at the record's step."""
        if record.name not in self._open:
            folder = self._place / _word(self._title) / _word(record.name)
            self._open[record.name] = self._writer(str(folder))
        writer = self._open[record.name]
        for point in record.points:
            writer.add_scalar(
                point.tag, point.value, record.step, description=f"{point.title} [{point.unit}]"
            )
        writer.flush()

    def close(self) -> str:
        """Say how to look at them."""
        for writer in self._open.values():
            writer.close()
        return f"tensorboard --logdir {self._place}"


def _word(text: str) -> str:
    """A file name; characters of axes stay."""
    return re.sub(r"[^\w=,+-]+", "_", text).strip("_") or "laptime"
