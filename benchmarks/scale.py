"""What do many machines and many runs cost? 100,000 stored runs, 1,000 benchmarks, 1,000 machines?

Asked for (issue "Many machines"), each as a whole fresh process with its start-up:
- 100,000 runs: `list` 0.7 s, `show NAME` 1 s, a misspelt name 1.5 s, 100 MB each; `list --all` that makes the
  index 40 s and 200 MB; `history --last 10000` of 10,000 runs, first time, 8 s.
- `suite run --dry-run` of 1,000 benchmarks 1.5 s.
- The queue of 1,000 machines and 100,000 cases 20 s; twice of either at most twice that. A case is a
  sleep, so long that 10,000 end in a second, and one machine of a hundred is lost with its first.
- 12 equal benchmarks that sleep: three machines are at least 2.5 times as fast as one.
- `list --limit 200` of 100,000 runs in a PostgreSQL server of its own 300 ms.

The stores are made first, which takes minutes; with --folder they are kept, and used again.
`benchmarks/trace.py --ranks 64 256` and `--ranks 64 --megabytes 20` measure traces of many ranks.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import structs

from _harness import Figures, option, run, table
from _stored import Spent, fill, spent
from fixtures import runs
from laptime.launch.fleet import Machine
from laptime.launch.fleet.node import Lost
from laptime.launch.fleet.queue import RunOn, carry_out
from laptime.records.run import Run
from laptime.store.encoding import encode

PARTS = ("stores", "history", "dry-run", "queue", "nodes", "postgres")
HERE = Path(__file__)
RATE = 10_000  # simulated cases that end in a second, on however many machines: 100,000 take 10 s at least
Row = tuple[str, Spent, float, float]
"""What was done, what it took, and the seconds and bytes that were asked for."""


def nightly(number: int) -> Iterator[Run]:
    """So many runs with the same samples and a name each, a thousand a day."""
    made = runs.run(runs.case(runs.timings(0.0263, n=40, warm_up=3), *runs.facts()))
    for at in range(number):
        date = f"2026{at // 28000 % 12 + 1:02d}{at // 1000 % 28 + 1:02d}"
        yield structs.replace(made, id=f"{date}-{at % 1000:06d}-{at:06d}-a", name=f"nightly-{at}")


def changing(number: int) -> Iterator[Run]:
    """So many runs of one program, each with samples of its own."""
    for at, each in enumerate(nightly(number)):
        case = runs.case(runs.timings(0.02, n=40, spread=0.06, seed=at), *runs.facts())
        yield structs.replace(each, cases=[case], name="")


def store(where: Path, number: int, made: Callable[[int], Iterator[Run]]) -> Path:
    """A folder with these runs and no index; made if it is not there."""
    if not where.is_dir():
        fill(where, made(number))
    (where / "index.sqlite").unlink(missing_ok=True)
    return where


def stores(asked: Namespace, base: Path) -> Iterator[Row]:
    """Commands on many stored runs."""
    home, many = store(base / f"runs-{asked.runs}", asked.runs, nightly), f"{asked.runs:,} runs"
    yield f"{many}: `list --all` that makes the index", spent(home, "list", "--all"), 40, 200e6
    for words, seconds, code in (
        (("list",), 0.7, 0),
        (("show", "nightly-0"), 1.0, 0),
        (("show", f"nightly-{asked.runs - 1}"), 1.0, 0),
        (("show", "nigtly-5"), 1.5, 2),
    ):
        for _ in range(asked.rounds):
            yield f"{many}: `{' '.join(words)}`", spent(home, *words, code=code), seconds, 100e6
    yield f"{many}: `list --all`", spent(home, "list", "--all"), 40, 200e6


def histories(asked: Namespace, base: Path) -> Iterator[Row]:
    """A history for the first time."""
    number = asked.runs // 10
    home, last = store(base / f"history-{number}", number, changing), ("history", "--last", str(number))
    yield f"`{' '.join(last)}`, first time", spent(home, *last), 8, 0
    for _ in range(asked.rounds):
        yield f"`{' '.join(last)}`, again", spent(home, *last), 0, 0


def suite(base: Path, number: int, *lines: str) -> Path:
    """A suite of so many benchmarks that differ in their names."""
    each = (
        f'[[benchmark]]\nname = "b{at}"\n' + "".join(f"{line}\n" for line in lines) for at in range(number)
    )
    path = base / f"suite{number}.toml"
    path.write_text("\n".join(each))
    return path


def dry_run(asked: Namespace, base: Path) -> Iterator[Row]:
    """A long suite that is only looked at."""
    path = suite(base, 1000, 'target = "torchvision:resnet18"', "batch = [1, 8]", 'regression = "10%"')
    for _ in range(asked.rounds):
        words = ("suite", "run", str(path), "--dry-run")
        yield "dry run of 1,000 benchmarks", spent(base / "nothing", *words), 1.5, 0


def queue(asked: Namespace, base: Path) -> Iterator[Row]:
    """The head of a fleet whose machines sleep; in processes of their own."""
    first = 0.0
    for machines, cases in ((1000, 100_000), (2000, 100_000), (1000, 200_000)):
        program = [sys.executable, str(HERE), "--simulate", str(machines), str(cases)]
        took = min((spent(base, program=program) for _ in range(asked.rounds)), key=lambda each: each.seconds)
        first = first or took.seconds
        most = 20 if took.seconds == first else 2 * first
        yield f"queue of {machines:,} machines, {cases:,} cases", took, most, 0


def simulated(machines: int, cases: int) -> int:
    """Every case once, on machines of which one of a hundred is lost; 1 if that is not so."""
    named = [Machine(f"node{at}", ()) for at in range(machines)]
    lost = {f"node{at}" for at in range(0, machines, 100)}
    ended: dict[int, int] = {}

    def do(case: int, run: RunOn) -> int:
        if run.args[0].name in lost:
            raise Lost("it is switched off")
        time.sleep(machines / RATE)
        return case

    def done(number: int, result: int | str) -> None:
        assert result == number, result
        ended[number] = ended.get(number, 0) + 1

    carry_out(range(cases), named, do, done=done)
    return int(ended != dict.fromkeys(range(cases), 1))


def nodes(asked: Namespace, base: Path) -> Iterator[Row]:
    """Equal cases that sleep, on one machine and on three."""
    path = suite(base, 12, 'target = "null:sleep=20ms"', 'backend = "null"', 'budget = "5s"')
    words = ("suite", "run", str(path), "--no-save", "-q")
    alone = spent(base / "nothing", *words, "--on", "local:1", code=None)
    yield "12 sleeping cases on one machine", alone, 0, 0
    three = spent(base / "nothing", *words, "--on", "local:3", code=None)
    yield "12 sleeping cases on three machines", three, alone.seconds / 2.5, 0


def postgres(asked: Namespace, base: Path) -> Iterator[Row]:
    """The newest runs of a store in a database, whose server is started for it."""
    import psycopg

    from e2e.test_postgres import Server

    place = Path(tempfile.mkdtemp(prefix="laptime-postgres-"))
    server = Server(place)
    try:
        server.start()
        into = "copy laptime_runs (name, file) from stdin"
        with psycopg.connect(server.url()) as connection, connection.cursor().copy(into) as rows:
            for each in nightly(asked.runs):
                data = encode(each)
                rows.write_row((f"{each.id}.{hashlib.sha256(data).hexdigest()}.json", data))
        os.environ["LAPTIME_CACHE"] = str(place / "cache")
        for when in ("first time", *["again"] * asked.rounds):
            what = f"PostgreSQL: `list --limit 200` of {asked.runs:,} runs, {when}"
            words = ("list", "--limit", "200", "--store", server.url())
            yield what, spent(place / "nothing", *words), 0.3, 0
    finally:
        server.stop()
        shutil.rmtree(place)


def main(asked: Namespace, data: Figures) -> int:
    """Print the table; 1 when something took more than was asked for."""
    if asked.simulate:
        return simulated(*asked.simulate)
    parts = dict(zip(PARTS, (stores, histories, dry_run, queue, nodes, postgres), strict=True))
    data["rows"], missed, lines = [], [], []
    with tempfile.TemporaryDirectory(prefix="laptime-scale-") as made:
        base = asked.folder or Path(made)
        base.mkdir(parents=True, exist_ok=True)
        for name in asked.parts.split(","):
            rows: dict[str, list[Row]] = {}
            for row in parts[name](asked, base):
                rows.setdefault(row[0], []).append(row)
                print(*row, file=sys.stderr)
            for what, each in rows.items():
                fastest = min((row[1] for row in each), key=lambda took: took.seconds)
                slowest, most, largest = max(row[1].seconds for row in each), each[0][2], each[0][3]
                data["rows"].append({"what": what, "took": [row[1]._asdict() for row in each]})
                data.keep()
                wall = f"{fastest.seconds:.2f}" + (f" ... {slowest:.2f}" if len(each) > 1 else "") + " s"
                wanted = [f"{most:.3g} s"] * bool(most) + [f"{largest / 1e6:.0f} MB"] * bool(largest)
                is_late = (most and fastest.seconds > most) or (largest and fastest.memory > largest)
                missed += [what] * bool(is_late)
                memory = f"{fastest.memory / 1e6:.0f} MB"
                lines.append((what, wall, f"{fastest.cpu:.2f} s", memory, ", ".join(wanted)))
    table(("what", "wall", "CPU", "memory", "asked for"), lines)
    print("\nmissed:", "; ".join(missed) or "nothing")
    return int(bool(missed))


if __name__ == "__main__":
    run(
        main,
        "Many machines and many runs",
        option("--parts", default=",".join(PARTS), help="which, with commas"),
        option("--runs", type=int, default=100_000, help="stored runs; a history is of a tenth"),
        option("--rounds", type=int, default=3, help="of what takes seconds"),
        option("--folder", type=Path, help="where the stores are kept"),
        option("--simulate", type=int, nargs=2, metavar="N", help="machines and cases of one queue alone"),
    )
