"""Say where the time of a step goes in profiler traces, and what to change."""

from pathlib import Path

import click

from laptime.apps.cli.options import ask_for, on_option, report_options
from laptime.apps.cli.output import Delivery
from laptime.kit.errors import ExitCode, UsageError
from laptime.records.plan import BenchRequest
from laptime.store import writable

_PATH = click.Path(path_type=Path)
_SUFFIXES = (".json", ".json.gz")


@click.command("trace")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR...", type=_PATH)
@click.option(
    "--against",
    multiple=True,
    metavar="FILE|DIR",
    type=_PATH,
    help="Traces of an earlier job, to compare with. Repeatable.",
)
@click.option(
    "--slim",
    metavar="FILE.json.gz",
    type=_PATH,
    help="Write a small trace that Perfetto opens, with counters for utilisation and queue length.",
)
@click.option(
    "--rank", type=click.IntRange(min=0), metavar="N", help="Show the tables of rank N instead of the first."
)
@ask_for(BenchRequest, "name", "save")
@on_option
@report_options
def command(
    *,
    delivery: Delivery,
    paths: tuple[Path, ...],
    against: tuple[Path, ...],
    slim: Path | None,
    rank: int | None,
    name: str,
    save: bool,
) -> int:
    """Say where the time of a step goes in profiler traces, and what to change.

    Reads traces of torch.profiler (.json, .json.gz) from any version and device, and .xplane.pb files of
    TensorFlow; packed by gzip, zip, xz or zstd, too. Exports of Nsight Systems (.sqlite) and rocprof (.db),
    memory snapshots (.pickle) and logs of torch.compile (.log) give the same page. Several files are the
    ranks of one job, as are files of a folder that belong together. A truncated JSON file is read to its end.

    \b
    laptime trace trace.json.gz -o report.html
    laptime trace traces/
    laptime trace after.json.gz --against before.json.gz
    """
    # Not at the top: `laptime --help` imports no verb.
    from laptime.verbs import trace as verb

    if slim is not None:
        if delivery.on:
            raise UsageError("--slim writes here, not on another machine", next="leave --on or --slim out")
        if not slim.name.endswith(_SUFFIXES):
            what, next = f"a slim trace cannot be written to {slim}", f"--slim {slim.with_suffix('.json.gz')}"
            raise UsageError(what, why=f"its name must end in {' or '.join(_SUFFIXES)}", next=next)
        writable.file(slim, "--slim")

    request = verb.TraceRequest(paths=[*paths], against=[*against], name=name, slim=slim, rank=rank)
    ended = delivery.watch(verb.carry_out, request, save=save, travels="trace")
    if slim is not None:
        delivery.voice.say(f"wrote {slim}")
    return delivery.finish(ended, ExitCode.OK)
