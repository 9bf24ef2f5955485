"""List suites, or the benchmarks of one."""

from collections.abc import Sequence

import click

from laptime.apps.cli.error_boundary import one_line
from laptime.apps.cli.options import voice_options
from laptime.apps.cli.output import result, table
from laptime.kit.errors import ExitCode
from laptime.suites import Benchmark, Suite, choose
from laptime.suites.loading import SHIPPED, load

match_option = click.option(
    "--match",
    multiple=True,
    metavar="TEXT",
    help="Only benchmarks with TEXT in the name or as a tag. Repeatable.",
)


@click.command("list")
@click.argument("where", metavar="[SUITE]", required=False)
@match_option
@voice_options
def command(where: str | None, match: tuple[str, ...]) -> int:
    """List the suites that come with laptime, or the benchmarks of one.

    SUITE is a .toml or .py file, a folder of such files, or the name of a suite that comes with laptime.
    """
    if where is None:
        rows = [(name, one_line(load(name)[0].about)) for name in SHIPPED]
        result(table(("suite", "about"), rows))
        return ExitCode.OK
    return show([choose(suite, match) for suite in load(where)])


def show(suites: Sequence[Suite]) -> int:
    """A line for every benchmark; NOTHING when there is none."""
    rows = [_row(benchmark) for suite in suites for benchmark in suite.benchmark]
    if rows:
        result(table(("benchmark", "measures", "with", "budget", "tags"), rows))
    return ExitCode.OK if rows else ExitCode.NOTHING


def _row(benchmark: Benchmark) -> tuple[str, ...]:
    axes = [f"batch {_join(1 if benchmark.batch is None else benchmark.batch)}"]
    axes += [f"training ({benchmark.train})"] if benchmark.train else []
    axes += [_join(benchmark.dtype)] if benchmark.dtype != "float32" else []
    axes += [f"{_join(benchmark.threads)} threads"] if benchmark.threads else []
    axes += [f"on {_join(benchmark.backend)}"] if benchmark.backend else []
    limits = [f"{name} <= {limit}" for name, limit in benchmark.max.items()]
    limits += [f"{name} >= {limit}" for name, limit in benchmark.min.items()]
    limits += [f"regression <= {benchmark.regression}"] if benchmark.regression is not None else []
    lists = (", ".join(benchmark.measured), ", ".join(axes), ", ".join(limits), " ".join(benchmark.tags))
    return tuple(map(one_line, (benchmark.name, *lists)))


def _join(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
