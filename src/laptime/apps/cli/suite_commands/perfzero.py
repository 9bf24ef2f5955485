"""Run PerfZero's benchmark classes as they are, and write its JSON."""

from typing import Any

import click
from msgspec import structs

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice, one_line
from laptime.apps.cli.options import Decorated, name_option, pick_typed, report_options, timeout_option
from laptime.kit.errors import ExitCode, LaptimeError
from laptime.kit.text import count
from laptime.records.event import Listener
from laptime.records.run import Run

_PERFZERO: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("benchmark_methods", "NAME,...",
     "pkg.mod.Class.method, pkg.mod.Class:method or pkg.mod.Class.filter:REGEX. Repeatable.",
     {"multiple": True}),
    ("benchmark_num_trials", "N", "Times to run the whole list. [default: 1]", {"type": int}),
    ("benchmark_class_type", "",
     "Classes that take only the constructor arguments given here. [default: by signature]",
     {"type": click.Choice(["tf_benchmark"])}),
    ("perfzero_constructor_args", "JSON", "Keyword arguments of the constructors.", {}),
    ("git_repos", "URL;BRANCH;HASH,...", "Clones to make. Repeatable.", {"multiple": True}),
    ("use_cached_site_packages", "", "Use existing clones as they are.", {"is_flag": True}),
    ("python_path", "FOLDER,...", "Import folders, in site-packages of the workspace.", {}),
    ("workspace", "FOLDER", "Folder for clones and results. [default: workspace]", {}),
    ("execution_id", "NAME", "Folder of the results. [default: the time, UTC]", {}),
    ("root_data_dir", "FOLDER", "Data of the benchmarks. [default: /data]", {}),
    ("data_downloads", "URL;PATH[;SHA256],...",
     "Files to download into the data folder: http, https, file, or any fsspec URL.", {}),
    ("gcs_downloads", "URL;PATH,...", "PerfZero's old name of --data_downloads.", {}),
    ("gcloud_key_file_url", "FILE", "A key file on this machine. [default: none]", {}),
    ("output_gcs_url", "URL", "Copy every folder of results here: any fsspec URL.", {}),
    ("scratch_gcs_url", "URL", "output_dir of the classes; the id is appended.", {}),
    ("result_upload_methods", "pkg.mod.func,...", "Called with every summary.", {}),
    ("profiler_enabled_time", "BEGIN:END,...", "Seconds into a method to run TensorFlow's profiler.", {}),
    ("tpu_parameters", "JSON", "Name of a running TPU.", {}),
    ("ml_framework_build_label", "TEXT", "Copied to the summary.", {}),
    ("execution_label", "TEXT", "Copied to the summary.", {}),
    ("platform_name", "TEXT", "Copied to the summary.", {}),
    ("system_name", "TEXT", "Copied to the summary.", {}),
    ("debug", "", "Show what the benchmarks print.", {"is_flag": True}),
)  # fmt: skip
"""Name, placeholder, help and kind of each of PerfZero's flags."""


def perfzero_options(command: Decorated) -> Decorated:
    """PerfZero's flags, and hidden ones for those that are ignored or refused with a sentence."""
    from laptime.edges.perfzero.flags import IGNORED, REFUSED

    hidden: dict[str, Any] = {"hidden": True, "expose_value": False, "multiple": True, "callback": _not_here}
    for name in (*IGNORED, *REFUSED):
        command = click.option(f"--{name}", help="Not supported.", **hidden)(command)
    for name, metavar, text, kind in reversed(_PERFZERO):
        command = click.option(f"--{name}", name, metavar=metavar or None, help=text, **kind)(command)
    return command


def _not_here(context: click.Context, option: click.Parameter, value: tuple[str, ...]) -> None:
    """Say that a flag is without effect, or refuse it; an empty value asks for nothing."""
    from laptime.edges.perfzero.flags import IGNORED, refuse

    if not any(value):
        return
    name = option.name or ""
    if name not in IGNORED:
        raise refuse(name)
    (context.find_object(Voice) or Voice()).say(f"--{name} is ignored: {IGNORED[name]}")


@click.command("perfzero", context_settings={"token_normalize_func": lambda word: word.replace("-", "_")})
@perfzero_options
@click.option("--python", metavar="PATH", help="Interpreter of the benchmarks. [default: laptime's own]")
@timeout_option("Time limit of a method. [default: 1h]")
@click.option("--list", "only_list", is_flag=True, help="List the methods without running them.")
@name_option("Name of this run: laptime show TEXT.")
@click.option("--no_save", "save", is_flag=True, flag_value=False, default=True, help="Do not store the run.")
@report_options
def command(*, delivery: output.Delivery, only_list: bool, save: bool, **settings: Any) -> int:
    """Run PerfZero's benchmark classes as they are, and write its JSON.

    Each method runs in its own process. If one crashes, hangs or reports nothing, the others still run.
    Results go to WORKSPACE/output/ID/perfzero_summary.json. docs/perfzero.md lists every flag.

    \b
    laptime suite perfzero --benchmark_methods=bench.Tiny.benchmark_add --python_path=.
    laptime suite perfzero --benchmark_methods=bench.Tiny.filter:benchmark_ --benchmark_num_trials=5
    """
    from laptime.edges.perfzero.flags import Flags
    from laptime.edges.perfzero.prepare import prepare, there
    from laptime.edges.perfzero.run import exit_code, perfzero

    given = pick_typed(settings).items()
    flags = structs.replace(Flags(), **{k: [*v] if isinstance(v, tuple) else v for k, v in given})
    if only_list:
        output.result("\n".join(there(prepare(flags, say=delivery.voice.say))))
        return ExitCode.OK
    faults: list[LaptimeError] = []

    def work(flags: Flags, emit: Listener) -> Run:
        run, problems = perfzero(flags, emit, say=delivery.voice.say)
        faults.extend(problems)
        return run

    run, complaint = delivery.watch(work, flags, save=save)
    faults += [complaint] if complaint else []
    if delivery.as_json:
        output.show(run, format="json")
    else:
        output.result(_text(run, save=save))
    written = delivery.write(run, *faults)
    return exit_code(run) or written


def _text(run: Run, *, save: bool) -> str:
    """A line for every method: what it came to, its numbers, and where the summary lies."""
    rows, states = [], []
    for case in run.cases:
        summary = case.details.perfzero
        if not summary:
            rows.append([one_line(case.key), "not run", "", "", "", "", ""])
            continue
        ours = summary["laptime"]
        states.append(ours["verdict"]["word"])
        metrics = {name: metric for name, metric in ours["metrics"].items() if name != "wall_time"}
        statistics = {metric["statistic"] for metric in ours["metrics"].values()}
        cells = [
            case.key,
            states[-1].replace("_", " "),
            case.trust if case.status == "ok" else "-",
            _number(ours["metrics"].get("wall_time")),
            ", ".join(f"{name} {_number(metric)}" for name, metric in metrics.items()),
            ", ".join(sorted(statistics)),
            summary["execution_id"],
        ]
        rows.append([*map(one_line, cells)])
    head = f"perfzero: {states.count('passed')} of {count(len(rows), 'method')} passed"
    titles = ["method", "result", "verdict", "wall_time", "metrics", "numbers are", "folder"]
    table = output.table(titles, rows, right=["wall_time"])
    where = f"results: {run.plan['workspace'].value}/output/   run: {run.id if save else 'not stored'}"
    return "\n\n".join(part for part in (head, table, "\n".join(_notes(run)), where) if part)


def _notes(run: Run) -> list[str]:
    """List failures, results that were not kept, and doubts about the numbers; equal sentences once."""
    of: dict[str, list[str]] = {}
    for case in run.cases:
        summary = case.details.perfzero
        bad = [check.sentence for check in case.checks if check.outcome in ("fail", "warn")]
        if case.status == "failed" and summary:
            bad = [summary["laptime"]["verdict"]["sentence"]]
        for sentence in bad:
            of.setdefault(sentence, []).append(case.key)
    for verdict in run.verdicts:
        if verdict.word != "kept":
            of.setdefault(f"{verdict.word}: {verdict.sentence}", []).append(verdict.case)
    who = {said: cases[0] if len(cases) == 1 else count(len(cases), "method") for said, cases in of.items()}
    return [one_line(f"{whose}: {sentence}") for sentence, whose in who.items()]


def _number(metric: dict[str, Any] | None) -> str:
    """The mean over trials, with its interval if there is one; in the benchmark's own unit."""
    if metric is None:
        return "-"
    value, ci95 = metric["value"], metric["ci95"]
    return f"{value:.5g}" if ci95 is None else f"{value:.5g} [{ci95[0]:.4g}, {ci95[1]:.4g}]"
