"""Compare two runs, or two targets measured side by side, in words."""

from typing import Any

import click
import msgspec

from laptime.apps.cli import options, output
from laptime.apps.cli.commands.bench import make_request, measure, run_of, same_option
from laptime.apps.cli.error_boundary import one_line
from laptime.apps.cli.options import complete_runs
from laptime.kit.errors import ExitCode, LaptimeError, UsageError
from laptime.records.comparison import Comparison
from laptime.records.plan import BenchRequest
from laptime.records.run import IMPORTED, Run
from laptime.store import files, lookup
from laptime.targets import parse
from laptime.verbs.compare import compare_runs, refuse_profiles
from laptime.verbs.history import recent

again_option = click.option(
    "--again", is_flag=True, help="Also run targets that files from elsewhere name; this runs their code."
)


@click.command("compare", cls=options.Command)
@click.argument("a", metavar="A", default="", shell_complete=complete_runs)
@click.argument("b", metavar="B", default="", shell_complete=complete_runs)
@click.option("--force", is_flag=True, help="Compare runs that were made under different conditions.")
@click.option("--stored", "only_stored", is_flag=True, help="Compare the stored runs only; measure nothing.")
@again_option
@same_option
@options.ask_for(BenchRequest)
@options.on_option
@options.report_options
def command(
    *,
    delivery: output.Delivery,
    a: str,
    b: str,
    force: bool,
    only_stored: bool,
    again: bool,
    same: str | None,
    **given: Any,
) -> int:
    """Compare two runs, or two targets measured side by side, in words.

    A is the baseline. A and B are stored runs (last, last~1, an id, a name, a file) or targets. Two targets
    are measured interleaved, which is most precise. A target compared with a run is measured as the run was.
    If two runs cannot decide, their targets are measured again, interleaved, if both are unchanged. Targets
    named by files from elsewhere are measured only with --again, which runs their code.

    --same NAME takes the place of A and B: it measures one architecture in every installed framework that
    has it, and first checks that all are the same model (parameters, FLOPs).

    The result is faster, slower, same (shown to lie within the margin) or unclear (exit code 3).

    \b
    laptime compare last~1 last
    laptime compare torchvision:resnet18 timm:resnet18 --batch 8
    laptime compare baseline model.py:build
    laptime compare --same efficientnet_b0 --python tensorflow=.venv-tf/bin/python
    """
    if same or not b:
        if same and a:
            why = f"{f'{a} {b}'.strip()} was given as well"
            next = f"laptime bench {a} --same {same}"
            raise UsageError("--same takes the place of A and B", why=why, next=next)
        if not same:
            why = f"only {a} was given" if a else "neither was given"
            raise UsageError("compare needs A and B", why=why, next="laptime compare last~1 last")
        return measure_now(make_request([], given, same), delivery)
    left, right = load_stored(a), load_stored(b)
    refuse_profiles(*(run for run in (left, right) if run is not None))
    if left is None and right is None:
        return measure_now(make_request([a, b], given), delivery)
    if left is None or right is None:
        reference, stored_run = (a, right) if left is None else (b, left)
        assert stored_run is not None
        run = run_of(as_measured(stored_run, make_request([reference], given)), delivery)
        if code := output.exit_code(run):
            output.show(run, format=delivery.format)
            return code
        left, right = left or run, right or run
    comparisons = compare_runs(left, right, force, earlier=recent())
    is_unclear = any(comparison.word == "unclear" for comparison in comparisons)
    targets = [find_unchanged(run) for run in (left, right)] if is_unclear and not only_stored else []
    foreign, say = [each for each in (a, b) if is_foreign(each) and not again], delivery.voice.say
    if all(targets) and len({*targets}) == 2 and foreign:
        names = " and ".join(map(one_line, targets))
        say(f"these files cannot decide   next: --again   measures {names}, which runs that code")
    elif all(targets) and len({*targets}) == 2:
        say("the stored runs cannot decide: measuring both again, interleaved (--stored skips that)")
        return measure_now(as_measured(left, make_request(targets, given)), delivery)
    from laptime.reports.documents import compared  # not for `laptime --help`, which reads this file

    return delivery.deliver(compared.document(left, right, comparisons)) or decide_code(comparisons)


def measure_now(request: BenchRequest, delivery: output.Delivery) -> ExitCode:
    """Measure, keep, show and write; the exit code of the run, else of its comparisons."""
    ended = measure(request, delivery)
    return delivery.finish(ended) or decide_code(ended[0].comparisons)


def decide_code(comparisons: list[Comparison]) -> ExitCode:
    """UNDECIDED when a comparison is unclear or there is none."""
    is_open = not comparisons or any(comparison.word == "unclear" for comparison in comparisons)
    return ExitCode.UNDECIDED if is_open else ExitCode.OK


def as_measured(run: Run, request: BenchRequest) -> BenchRequest:
    """The request with the axes of an earlier run, except those that were typed."""
    axes = [case.axes for case in run.cases]

    def values(name: str) -> list[Any]:
        return list(dict.fromkeys(case_axes[name] for case_axes in axes if name in case_axes))

    settings: dict[str, Any] = {
        "batch": values("batch"),
        "dtype": values("dtype"),
        "threads": values("threads"),
        "backends": values("backend") if all("backend" in case_axes for case_axes in axes) else [],
        "device": next(iter(values("device")), None),
        "channels_last": True in values("channels_last"),
        "compile": next(iter(values("compile")), None),
    }
    changes = {name: value for name, value in settings.items() if value and name not in request.origins}
    return msgspec.structs.replace(request, **changes)


def find_unchanged(run: Run) -> str:
    """The one target of a run, where what it names is what was measured; "" if it is not, or not known."""
    if len(run.subjects) != 1:
        return ""
    subject = run.subjects[0]
    try:
        recipe = parse(subject.target)
    except LaptimeError:
        return ""
    return subject.target if (recipe.source, recipe.sha256) == (subject.source, subject.sha256) else ""


def is_foreign(reference: str) -> bool:
    """Whether this is a run of somebody else's: imported, or a file that does not lie in the store."""
    path = lookup.path_of(reference)
    if path is None:
        return False
    run = files.read(path)
    is_imported = run.verb == "import" or any(subject.source.startswith(IMPORTED) for subject in run.subjects)
    return is_imported or not lookup.is_own(path)


def load_stored(reference: str) -> Run | None:
    """The stored run of this reference; None for a target. Raises UsageError: it is neither."""
    path = lookup.path_of(reference)
    if path is not None:
        return files.read(path)
    if ":" in reference or reference.endswith(".py"):
        return None
    return lookup.load(reference)  # raises, with what to type instead
