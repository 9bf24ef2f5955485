"""OpenTelemetry: gauges as JSON lines in a file, or by OTLP to a collector (`http://host:4318/v1/metrics`).

Names have dots for slashes, `laptime.latency.isolated.median`; units are those of UCUM. Lies when: a
collector adds numbers of several runs up; a gauge is a state, not a sum."""

from typing import Any, TextIO

from laptime.edges.exports import Export, Record, file_at, is_address

PLACE = "laptime.otel.jsonl"
_UCUM = {"B": "By", "ratio": "1", "FLOP": "{FLOP}", "MAC": "{MAC}", "FLOP/s": "{FLOP}/s", "B/s": "By/s"}


def open(place: str, title: str) -> Export:
    """A file that grows, or a collector."""
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter

    if is_address(place):
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        return Gauges(OTLPMetricExporter(endpoint=place), place)
    path = file_at(place, PLACE)
    file = path.open("a", encoding="utf-8")
    exporter = ConsoleMetricExporter(out=file, formatter=lambda data: data.to_json(indent=None) + "\n")
    return Gauges(exporter, str(path), file)


class Gauges:
    """Numbers as gauges of a provider of its own; the program's provider is left alone."""

    def __init__(self, exporter: Any, place: str, file: TextIO | None = None) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.resources import Resource

        self._reader = InMemoryMetricReader()  # a periodic one swallows what goes wrong
        self._provider = MeterProvider(
            [self._reader], Resource({"service.name": "laptime"}), shutdown_on_exit=False
        )
        self._meter = self._provider.get_meter("laptime")
        self._exporter, self._place, self._file = exporter, place, file
        self._gauges: dict[str, Any] = {}

    def write(self, record: Record) -> None:
        """Sent at once. Raises OSError: the collector or the file did not take them."""
        for point in record.points:
            name = f"laptime.{point.tag.replace('/', '.')}"
            unit = _UCUM.get(point.unit, point.unit)
            if name not in self._gauges:
                self._gauges[name] = self._meter.create_gauge(name, unit, point.title)
            self._gauges[name].set(point.value, dict(record.labels))
        if (result := self._exporter.export(self._reader.get_metrics_data())).name != "SUCCESS":
            raise OSError(f"the exporter said {result.name}")

    def close(self) -> str:
        """Say where they are."""
        self._provider.shutdown()
        self._exporter.shutdown()
        if self._file is not None:
            self._file.close()
        return self._place
