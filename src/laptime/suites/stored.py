"""Stored runs of suites: baselines, how long a benchmark took, and what --resume need not measure again."""

from __future__ import annotations

from laptime.kit.errors import UsageError
from laptime.records.run import Run
from laptime.store import files, folder, index


class StoredSuites:
    """The complete runs of suites, by the name of suite and benchmark, newest first."""

    def __init__(self) -> None:
        self._paths: dict[str, list[str]] = {}
        for listed in index.listing()[0]:
            if listed.status == "complete" and ":" in listed.name:
                self._paths.setdefault(listed.name, []).append(listed.path)

    def runs(self, name: str) -> list[Run]:
        """The newest runs of `SUITE:BENCHMARK`, at most three: enough for every question here."""
        runs = []
        for path in self._paths.get(name, [])[:3]:
            try:
                runs.append(files.read(folder.home() / path))
            except UsageError:  # damaged, or removed just now; `laptime list` tells
                continue
        return runs

    def newest(self, name: str, *, before: str = "") -> Run | None:
        """The newest run of `SUITE:BENCHMARK` that is no part of the suite run with the id `before`."""
        return next((run for run in self.runs(name) if run.suite and run.suite.id != before), None)

    def latest(self, names: list[str]) -> dict[str, Run]:
        """The runs of the newest suite run among these names."""
        newest = {name: run for name in names if (run := self.newest(name)) is not None}
        last = max((run.suite.id for run in newest.values() if run.suite), default="")
        return {name: run for name, run in newest.items() if run.suite and run.suite.id == last}
