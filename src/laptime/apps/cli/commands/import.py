"""Import results of other tools as runs."""  # noqa: N999 (the word on the command line)

from __future__ import annotations

from pathlib import Path

import click
from msgspec import structs

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice, one_line, pass_voice
from laptime.apps.cli.options import voice_options
from laptime.kit.errors import ExitCode, LaptimeError
from laptime.kit.text import count
from laptime.store import files, folder, imports


@click.command("import")
@click.argument("paths", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--format",
    "format_",
    metavar="NAME",
    default="",
    help="pytest_benchmark, asv, perfzero, guidellm, aiperf or vllm_bench. [default: by content]",
)
@click.option("--name", metavar="TEXT", default="", help="Name of these runs: laptime show TEXT.")
@voice_options
@pass_voice
def command(voice: Voice, /, paths: tuple[str, ...], format_: str, name: str) -> int:
    """Import results of pytest-benchmark, asv, PerfZero, guidellm, AIPerf or vLLM as runs.

    They can then be listed, shown, compared and used in histories like any run. Their verdict is noisy,
    because these files do not say what disturbed the measurement. Importing a file again changes nothing.

    \b
    laptime import .benchmarks/*/*.json
    laptime import bench.json guidellm.json artifacts/profile_export.jsonl
    laptime import .asv/results/*/*-*.json && laptime history --by commit
    """
    code: ExitCode = ExitCode.OK
    stored_ids = {folder.id_of(path) for path in files.stored()}
    for path in paths:
        try:
            runs = imports.read(Path(path), format_)
            for run in runs:
                if run.id in stored_ids:
                    voice.say(f"{one_line(path)}: run {run.id} is already stored")
                    continue
                files.save(structs.replace(run, name=name) if name else run)
                stored_ids.add(run.id)
                output.result(f"{run.id}  {count(len(run.cases), 'case')}  {one_line(path)}")
        except LaptimeError as error:
            code = voice.complain(error)
    return code
