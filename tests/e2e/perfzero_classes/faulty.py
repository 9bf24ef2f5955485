"""A class whose methods fail in 20 ways, but for `sound`; and one that computes for half a second."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from laptime.compat.perfzero import Benchmark


class Faulty(Benchmark):
    def __init__(self, output_dir: str) -> None:
        self.output_dir = Path(output_dir)

    def report(self, value: float = 10.0, **more: object) -> None:
        rate = {"name": "exp_per_second", "value": value, "min_value": 5}
        self.report_benchmark(iters=5, wall_time=0.001, metrics=[rate], **more)

    def child_in_its_own_session(self) -> None:
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        (self.output_dir / "child").write_text(str(child.pid))

    def benchmark_sound(self) -> None:
        self.report()

    def benchmark_segfault(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def benchmark_abort_after_report(self) -> None:
        self.report()
        os.abort()

    def benchmark_exit(self) -> None:
        sys.exit(0)

    def benchmark_vanish(self) -> None:
        os._exit(0)

    def benchmark_raise(self) -> None:
        raise ValueError("as told")

    def benchmark_hang_with_child(self) -> None:
        self.child_in_its_own_session()
        time.sleep(600)

    def benchmark_hang_deaf(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(600)

    def benchmark_silent(self) -> None:
        pass

    def benchmark_cut_report(self) -> None:
        self.report()
        (path,) = self.output_dir.glob("proto_*")
        path.write_bytes(path.read_bytes()[:-3])

    def benchmark_empty_report(self) -> None:
        (self.output_dir / "proto_Faulty.benchmark_empty_report").touch()

    def benchmark_twice(self) -> None:
        self.report()
        self.report()

    def benchmark_nan(self) -> None:
        self.report(float("nan"))

    def benchmark_infinite(self) -> None:
        self.report_benchmark(wall_time=float("inf"))

    def benchmark_negative_time(self) -> None:
        self.report_benchmark(wall_time=-3.0)

    def benchmark_bound(self) -> None:
        self.report(4.0)

    def benchmark_one_name(self) -> None:
        losses = [{"name": "loss", "value": 0.5}, {"name": "loss", "value": 100.0}]
        self.report_benchmark(wall_time=0.001, metrics=losses)

    def benchmark_metric_wall_time(self) -> None:
        self.report_benchmark(wall_time=0.001, metrics=[{"name": "wall_time", "value": 7.0}])

    def benchmark_no_wall_time(self) -> None:
        self.report_benchmark(metrics=[{"name": "exp_per_second", "value": 10.0}])

    def benchmark_leaves_child(self) -> None:
        self.child_in_its_own_session()
        self.report()

    def benchmark_hostile_name(self) -> None:
        metrics = [{"name": "\x1b[31m<script>alert(1)</script>", "value": 1.0}]
        self.report_benchmark(wall_time=0.001, metrics=metrics)


class Busy(Benchmark):
    def benchmark_half_a_second(self) -> None:
        begin, end = time.perf_counter(), time.process_time() + 0.5
        while time.process_time() < end:
            pass
        self.report_benchmark(wall_time=time.perf_counter() - begin)


def aborting_upload(summary: dict[str, object]) -> None:
    os.abort()


def upload(summary: dict[str, object]) -> None:
    with Path("uploaded").open("a") as file:
        file.write(f"{summary['execution_id']}\n")
