"""How fast do other JSON readers read the events of a trace? Run by an interpreter that has the reader.

    python -m venv readers && readers/bin/pip install duckdb pyarrow orjson pysimdjson
    python benchmarks/_grow.py SAMPLE.json.gz big.json 515
    readers/bin/python benchmarks/_readers.py duckdb big.json --threads 2

Each reads the list of events, one a line, and keeps what its way of reading keeps: DuckDB and pyarrow columns
of the fields that laptime's tables need most, orjson dictionaries of 8 MB at a time, pysimdjson five fields
of each event. Seconds of wall and CPU time leave out the import and the splitting into lines.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WHOLE = (
    "correlation", "stream", "device", "Sequence number", "Fwd thread id", "bytes", "Python module id",
    "registers per thread", "shared memory",
)  # fmt: skip
"""Arguments that are whole numbers."""


def duckdb(lines: Path, threads: int) -> Callable[[], int]:
    """Arrow columns; shapes and types stay texts."""
    import duckdb

    fields = [f'"{name}" BIGINT' for name in WHOLE] + ['"Call stack" VARCHAR', '"blocks per SM" DOUBLE']
    fields += [f'"{name}" JSON' for name in ("Input Dims", "Input type", "grid", "block")]
    texts = ", ".join(f"{name}: 'VARCHAR'" for name in ("ph", "cat", "name", "pid", "tid"))
    columns = f"{{{texts}, ts: 'DOUBLE', dur: 'DOUBLE', args: 'STRUCT({', '.join(fields)})'}}"
    query = f"select * from read_json('{lines}', format='newline_delimited', columns={columns})"
    connection = duckdb.connect()
    connection.execute(f"set threads={threads}")
    return lambda: int(connection.sql(query).to_arrow_table().num_rows)


def pyarrow(lines: Path, threads: int) -> Callable[[], int]:
    """Columns; those of nested lists of any depth cannot be declared, and are left out."""
    import pyarrow as arrow
    from pyarrow import json

    arrow.set_cpu_count(threads)
    args = [(name, arrow.int64()) for name in WHOLE]
    args += [("Call stack", arrow.string()), ("blocks per SM", arrow.float64())]
    fields = [(name, arrow.string()) for name in ("ph", "cat", "name")]
    fields += [("ts", arrow.float64()), ("dur", arrow.float64()), ("args", arrow.struct(args))]
    how = json.ParseOptions(explicit_schema=arrow.schema(fields), unexpected_field_behavior="ignore")
    blocks = json.ReadOptions(use_threads=threads > 1, block_size=8 << 20)
    return lambda: int(json.read_json(str(lines), read_options=blocks, parse_options=how).num_rows)


def orjson(lines: Path, threads: int) -> Callable[[], int]:
    """Dictionaries, kept by nobody."""
    import orjson

    def read() -> int:
        number = 0
        with lines.open("rb") as file:
            while some := file.readlines(8 << 20):
                number += len(orjson.loads(b"[" + b",".join(some) + b"]"))
        return number

    return read


def simdjson(lines: Path, threads: int) -> Callable[[], int]:
    """Five fields of each event."""
    import simdjson

    def read() -> int:
        number, parser = 0, simdjson.Parser()
        with lines.open("rb") as file:
            for line in file:
                event: Any = parser.parse(line)
                [event.get(name) for name in ("ph", "cat", "name", "ts", "dur")]
                del event  # the parser refuses a second document while the first one lives
                number += 1
        return number

    return read


READERS = {"duckdb": duckdb, "pyarrow": pyarrow, "orjson": orjson, "simdjson": simdjson}


def main() -> None:
    """Print what one reader takes for one file."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("reader", choices=READERS)
    asked.add_argument("file", type=Path, help="a trace as benchmarks/_grow.py writes it, one event a line")
    asked.add_argument("--threads", type=int, default=1)
    given = asked.parse_args()
    text = given.file.read_bytes()
    begin = text.index(b"[", text.index(b'"traceEvents"')) + 1
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "events.jsonl")
        lines.write_bytes(text[begin : text.rindex(b"]")].replace(b"},\n", b"}\n").strip() + b"\n")
        del text
        read = READERS[given.reader](lines, given.threads)
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        number = read()
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{given.reader}: {number} events, {wall:.2f} s wall, {cpu:.2f} s of CPU time")


if __name__ == "__main__":
    main()
