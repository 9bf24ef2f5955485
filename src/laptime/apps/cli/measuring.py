"""A measurement from the command line: watched, kept, shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from laptime.apps.cli import output
from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.output import Output
from laptime.apps.cli.progress import progress
from laptime.kit.errors import ExitCode, LaptimeError
from laptime.records.event import Listener
from laptime.records.plan import BenchRequest
from laptime.records.run import Run
from laptime.store.recording import recorded

if TYPE_CHECKING:
    from laptime.verbs.bench.case_worker import OpenSession


def carry_out(
    request: BenchRequest, outputs: Sequence[Output], *, format: str, voice: Voice
) -> tuple[Run, ExitCode]:
    """Measure, show, write and keep; the run and the exit code it comes to.

    Raises:
        UsageError: the request is impossible; nothing was measured.
    """
    run, complaint = measured(request, voice=voice)
    delivered = deliver(run, outputs, format=format, voice=voice)
    if complaint:
        delivered = voice.complain(complaint)
    code = exit_code(run)
    return run, code if code == ExitCode.INTERRUPTED else delivered or code


def measured(
    request: BenchRequest, *, voice: Voice, start: OpenSession | None = None
) -> tuple[Run, LaptimeError | None]:
    """The run, and what is to be said when it could not be kept where it belongs.

    Args:
        start: how a variant's worker is started; None in the usual way.

    Raises:
        UsageError: the request is impossible.
    """
    from laptime.verbs.bench import bench  # not for those who only deliver: `laptime trace`, `show`

    def work(emit: Listener) -> Run:
        return bench(request, emit, open_session=start) if start else bench(request, emit)

    with progress(quiet=voice.quiet) as show:
        return recorded(work, show, save=request.save)


def deliver(run: Run, outputs: Sequence[Output], *, format: str, voice: Voice) -> ExitCode:
    """Show the run and write its reports; USAGE when one of that failed, else OK."""
    failed: list[LaptimeError] = []
    try:
        output.show(run, format=format)
    except LaptimeError as error:
        failed.append(error)
    failed += output.write(run, outputs, voice=voice)
    for failure in failed:
        voice.complain(failure)
    return ExitCode.USAGE if failed else ExitCode.OK


def exit_code(run: Run) -> ExitCode:
    """What the run says to a script: interrupted, code that failed, numbers that mean nothing, or fine."""
    if run.status == "interrupted":
        return ExitCode.INTERRUPTED
    kinds = {case.failure.kind for case in run.cases if case.status == "failed" and case.failure}
    if "bug" in kinds:
        return ExitCode.BUG
    if kinds - {"target", "unavailable", "usage"}:
        return ExitCode.USER_CODE
    if kinds:
        return ExitCode.USAGE
    return ExitCode.UNDECIDED if run.trust == "invalid" else ExitCode.OK
