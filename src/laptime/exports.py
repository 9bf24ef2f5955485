"""Numbers of a run for a tool that keeps them: `laptime.exports.send(run, "mlflow")`."""

from laptime.edges.exports import Export, Point, Record, file_at, is_address, opened, send

__all__ = ["Export", "Point", "Record", "file_at", "is_address", "opened", "send"]
