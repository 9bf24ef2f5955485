"""PerfZero's side of `tf.test.Benchmark`, without TensorFlow: for benchmark classes of any framework.

    from laptime.compat.perfzero import Benchmark

    class Tiny(Benchmark):
        def benchmark_add(self):
            ...
            rate = {"name": "exp_per_second", "value": 100 / seconds, "min_value": 50}
            self.report_benchmark(iters=100, wall_time=seconds, metrics=[rate])

    laptime suite perfzero --benchmark_methods=tiny.Tiny.benchmark_add

The file it writes is the one that TensorFlow writes."""

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from laptime.edges.perfzero.report import Metric, Report, encode
from laptime.edges.perfzero.schema import REPORT_VARIABLE


class Benchmark:
    """The base class of benchmarks."""

    def report_benchmark(
        self,
        iters: int | None = None,
        cpu_time: float | None = None,
        wall_time: float | None = None,
        throughput: float | None = None,
        extras: Mapping[str, float | str] | None = None,
        name: str | None = None,
        metrics: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Report one result; outside of a harness it is printed.

        Args:
            iters: how many iterations the times speak of; None is written as -1.
            name: in place of the calling method's.
            metrics: `name`, `value`, and `min_value`, `max_value` if there are bounds.

        Raises:
            OSError: there is a report of this name already.
            TypeError, KeyError: a metric has no name, or a value that is not a number."""
        report = Report(
            name=f"{type(self).__name__}.{name or self._caller()}",
            iters=-1 if iters is None else int(iters),
            cpu_time=float(cpu_time or 0.0),
            wall_time=float(wall_time or 0.0),
            throughput=float(throughput or 0.0),
            extras={k: v if isinstance(v, str) else float(v) for k, v in (extras or {}).items()},
            metrics=[_metric(metric) for metric in metrics or ()],
        )
        prefix = os.environ.get(REPORT_VARIABLE)
        if prefix is None:
            sys.stdout.write(f"{report}\n")  # as TensorFlow does
            return
        path = Path(prefix + report.name.replace("/", "__"))
        try:
            with path.open("xb") as file:
                file.write(encode(report))
        except FileExistsError as error:
            raise OSError(f"File already exists: {path}") from error

    def _caller(self) -> str:
        """The outermost method of this object that is running."""
        names = [frame.function for frame in inspect.stack(0) if frame.frame.f_locals.get("self") is self]
        return names[-1]


def _metric(entry: Mapping[str, Any]) -> Metric:
    bounds = {name: float(entry[name]) for name in ("min_value", "max_value") if entry.get(name) is not None}
    return Metric(name=str(entry["name"]), value=float(entry["value"]), **bounds)
