"""Weights & Biases: a run for each case, written offline; `wandb sync` sends it, when it is typed.

The configuration holds axes and units. Lies when: runs of several machines stand in one chart. The
configuration's `run` leads back to the machine; the chart does not show it."""

from pathlib import Path
from typing import Any

from laptime.edges.exports import Export, Record
from laptime.kit.errors import UsageError

PLACE = "."


def open(place: str, title: str) -> Export:
    """A folder, in which W&B makes `wandb/offline-run-...`.
    Raises UsageError: the place is an address; nothing is sent from here."""
    if "://" in place:
        raise UsageError(
            f"wandb runs are written to a folder, not to {place}",
            why="they are offline until you send them",
            next="name a folder with --to, then type the line `wandb sync` that is printed",
        )
    import wandb

    return _Offline(wandb, Path(place), title)


class _Offline:
    def __init__(self, library: Any, place: Path, title: str) -> None:
        self._wandb, self._place, self._title = library, place, title
        self._runs: dict[str, Any] = {}

    def write(self, record: Record) -> None:
        """One row a record."""
        if record.name not in self._runs:
            self._place.mkdir(parents=True, exist_ok=True)
            settings = self._wandb.Settings(
                silent=True, console="off", x_disable_stats=True, x_disable_meta=True
            )
            self._runs[record.name] = self._wandb.init(
                project="laptime",
                name=f"{self._title} {record.name}",
                group=self._title,
                mode="offline",
                dir=str(self._place),
                config={**record.labels, "units": {point.tag: point.unit for point in record.points}},
                reinit="create_new",
                settings=settings,
            )
        self._runs[record.name].log({point.tag: point.value for point in record.points}, step=record.step)

    def close(self) -> str:
        """The sender."""
        folders = []
        for run in self._runs.values():
            folders.append(str(Path(run.dir).parent))
            run.finish()
        return f"wandb sync {' '.join(folders)}"
