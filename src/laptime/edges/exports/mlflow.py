"""MLflow: a run for each case, its axes as parameters, in a local store or on a server (`http://...`).

The experiment is called `laptime`; the tag `laptime.units` holds the units. MLflow's own environment
variables name no place: `--to "$MLFLOW_TRACKING_URI"` does. Lies when: runs of several machines stand in
one chart. The parameter `run` leads back to the machine; MLflow does not show it."""

import json
import os
from typing import Any

from laptime.edges.exports import Export, Record, file_at, is_address

PLACE = "mlflow.db"


def open(place: str, title: str) -> Export:
    """The experiment `laptime` of a tracking store: an SQLite file, a server, or any other tracking URI."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow.tracking import MlflowClient

    store = place if ":" in place else f"sqlite:///{file_at(place, PLACE)}"
    client = MlflowClient(tracking_uri=store)
    known = client.get_experiment_by_name("laptime")
    return _Runs(client, known.experiment_id if known else client.create_experiment("laptime"), store, title)


class _Runs:
    def __init__(self, client: Any, experiment: str, place: str, title: str) -> None:
        self._client, self._experiment, self._place, self._title = client, experiment, place, title
        self._runs: dict[str, str] = {}

    def write(self, record: Record) -> None:
        """One metric a number, at the record's step."""
        if record.name not in self._runs:
            units = json.dumps({point.tag: point.unit for point in record.points})
            run = self._client.create_run(
                self._experiment, run_name=f"{self._title} {record.name}", tags={"laptime.units": units}
            )
            for key, value in record.labels.items():
                self._client.log_param(run.info.run_id, key, value)
            self._runs[record.name] = str(run.info.run_id)
        run = self._runs[record.name]
        for point in record.points:
            self._client.log_metric(run, point.tag, point.value, step=record.step)

    def close(self) -> str:
        """Say how to look at them."""
        for run in self._runs.values():
            self._client.set_terminated(run)
        return self._place if is_address(self._place) else f"mlflow ui --backend-store-uri {self._place}"
