"""Prometheus: a text file for the textfile collector of the node exporter, or a push gateway (`http://...`).

Names follow Prometheus: `laptime_latency_isolated_median_seconds{target="...", batch="8"}`. The file is
replaced as a whole, so a scrape never reads half of it. Lies when: nobody measures any more; the file keeps
its last numbers, and only `node_textfile_mtime_seconds` says how old they are."""

import re
from collections.abc import Iterator
from typing import Any

from laptime.edges.exports import Export, Record, file_at, is_address

PLACE = "laptime.prom"
_UNITS = {
    "s": "seconds",
    "B": "bytes",
    "J": "joules",
    "W": "watts",
    "Hz": "hertz",
    "1": "",
    "1/s": "per_second",
}


def open(place: str, title: str) -> Export:
    """The file, or the gateway; a folder gets `laptime.prom`."""
    from prometheus_client import CollectorRegistry

    return _Prometheus(place, CollectorRegistry())


class _Prometheus:
    def __init__(self, place: str, registry: Any) -> None:
        self._place = place if is_address(place) else str(file_at(place, PLACE))
        self._registry = registry
        self._records: dict[str, Record] = {}
        registry.register(self)

    def write(self, record: Record) -> None:
        """The record's numbers take the place of its earlier ones."""
        from prometheus_client import push_to_gateway, write_to_textfile

        self._records[record.name] = record
        if is_address(self._place):
            push_to_gateway(self._place, job="laptime", registry=self._registry)
        else:
            write_to_textfile(self._place, self._registry)

    def close(self) -> str:
        """Say where they are."""
        return self._place

    def collect(self) -> Iterator[Any]:
        """One family a name; labels that a record does not have are empty."""
        from prometheus_client.core import GaugeMetricFamily

        records = self._records.values()
        # A label of ids would begin a new series with every run.
        keys = list(dict.fromkeys(key for record in records for key in record.labels if key != "run"))
        families: dict[str, Any] = {}
        for record in records:
            for point in record.points:
                name = metric_name(point.tag, point.unit)
                family = families.setdefault(
                    name, GaugeMetricFamily(name, point.title or point.tag, labels=[*map(_word, keys)])
                )
                family.add_metric([record.labels.get(key, "") for key in keys], point.value)
        yield from families.values()


def metric_name(tag: str, unit: str) -> str:
    """`latency/isolated/median` in `s` is `laptime_latency_isolated_median_seconds`."""
    return _word(
        "_".join(filter(None, ["laptime", tag, _UNITS.get(unit, unit.replace("/s", "_per_second"))]))
    )


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text, flags=re.ASCII).lower()
