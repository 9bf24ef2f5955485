"""Import results of other tools as runs."""  # noqa: N999 (the word on the command line)

from pathlib import Path

import click
from msgspec import structs

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice, one_line, pass_voice
from laptime.apps.cli.options import voice_options
from laptime.edges import imports
from laptime.kit.errors import ExitCode, LaptimeError
from laptime.kit.text import count
from laptime.store import files, folder


@click.command("import")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--format",
    "format_",
    metavar="NAME",
    default="",
    help="Format of results: pytest_benchmark, hyperfine, google_benchmark ... [default: by content]",
)
@click.option("--name", metavar="TEXT", default="", help="Name of these runs: laptime show TEXT.")
@voice_options
@pass_voice
def command(voice: Voice, /, paths: tuple[str, ...], format_: str, name: str) -> int:
    """Import results of other tools (pytest-benchmark, asv, hyperfine, google/benchmark, PerfZero, guidellm,
    AIPerf, vLLM), or runs of another laptime, as runs.

    They can then be listed, shown, compared and used in histories like any run. Their verdict is noisy,
    because these files do not say what disturbed the measurement. Importing a file again changes nothing;
    if a file has grown, only its new results are imported.

    \b
    laptime import .benchmarks/*/*.json
    laptime import bench.json guidellm.json artifacts/profile_export.jsonl
    laptime import .asv/results/*/*-*.json && laptime history --by commit
    """
    code: ExitCode = ExitCode.OK
    stored = {folder.id_of(file): file for file in files.list_files()}
    for path in paths:
        try:
            for run in imports.read(Path(path), format_):
                # Imports of one file share the time that it tells, with which ids begin.
                time = run.id.rpartition("-")[0]
                earlier = [files.read(file) for known, file in stored.items() if known.startswith(f"{time}-")]
                more = None if run.id in stored else imports.unseen(run, earlier)
                if more is None:
                    voice.say(f"{one_line(path)}: run {run.id} is already stored")
                    continue
                stored[run.id] = files.save(structs.replace(more, name=name) if name else more)
                known_cases = len(run.cases) - len(more.cases)
                told = f" ({known_cases} more are already stored)" if known_cases else ""
                output.result(f"{run.id}  {count(len(more.cases), 'case')}{told}  {one_line(path)}")
        except LaptimeError as error:
            code = voice.complain(error)
    return code
