"""A verb carried out from the command line: watched, kept, shown on stdout, written into files.

Files are checked before anything is measured: a typing mistake must not cost a minute of measuring."""

from __future__ import annotations

import codecs
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from laptime.apps.cli.error_boundary import Voice, discard_stdout
from laptime.apps.cli.progress import Describe, progress
from laptime.kit import registry
from laptime.kit.errors import ExitCode, LaptimeError, UsageError, UserCodeError
from laptime.records.event import Listener
from laptime.records.run import Run
from laptime.reports.formats import format_of
from laptime.store import writable
from laptime.store.folder import write_whole
from laptime.store.live_run import Recorded, record_run

if TYPE_CHECKING:
    from laptime.launch.fleet import Machine
    from laptime.reports.document import Document


_SHORTEST = 6  # columns that a shortened word keeps


@dataclass(frozen=True)
class Output:
    """A report to write: which, and where."""

    format: str
    path: Path


def plan_reports(paths: Sequence[str]) -> list[Output]:
    """The reports that `-o` asks for. `-` is stdout, which gets the result anyway.
    Raises UsageError: no report has this suffix, or the file could not be written."""
    if number := next((path for path in paths if path.isdigit()), ""):
        raise UsageError(
            f"--output {number} names a file without a suffix",
            why="the suffix picks the format; the length of an answer is another option",
            next=f"--output-tokens {number}, or --output report.html",
        )
    return [Output(format_of(Path(path)), writable.file(Path(path))) for path in paths if path != "-"]


def show(subject: Run | Document, *, format: str) -> None:
    """One report on stdout."""
    options: dict[str, Any] = {}
    if format == "text":
        is_known = sys.stdout.isatty() or os.environ.get("COLUMNS")
        width = shutil.get_terminal_size().columns if is_known else 100
        options = {"color": wants_color(), "width": width, "unicode": _takes_unicode(), "brief": _is_brief()}
    result(_render(subject, format, **options))


def _is_brief() -> bool:
    """Whether the answer is enough: unless `--details` stands on the line."""
    context = click.get_current_context(silent=True)
    voice = context and context.find_object(Voice)
    return not (voice and voice.details)


def _takes_unicode() -> bool:
    """Whether stdout can show more than ASCII: by its encoding, and unless its terminal is dumb."""
    if sys.stdout.isatty() and os.environ.get("TERM") == "dumb":
        return False
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return codecs.lookup(encoding).name != "ascii"  # the C locale calls it ANSI_X3.4-1968


def _render(subject: Run | Document, format: str, **options: Any) -> str:
    report = registry.load("reports", format)
    if isinstance(subject, Run):
        return cast(str, report.render(subject, **options))
    render: Callable[..., str] | None = getattr(report, "render_document", None)
    if render is None:
        what, why = f"the {format} report shows a single run", f"this is the result of laptime {subject.verb}"
        raise UsageError(what, why=why, next="-o report.html")
    return render(subject, **options)


def result(text: str) -> None:
    """Put a result on stdout. Raises UsageError: stdout takes no more (a full disk behind it)."""
    try:
        click.echo(text.rstrip("\n"), color=True)  # colours were decided on when it was made
    except BrokenPipeError:
        discard_stdout()  # the reader has all it wanted; the exit code is still the command's own
    except OSError as error:
        discard_stdout()
        why, next = error.strerror or str(error), "the run is stored: laptime show last"
        raise UsageError("the result could not be written to standard output", why=why, next=next) from error


def write(subject: Run | Document, outputs: Sequence[Output], *, voice: Voice) -> list[LaptimeError]:
    """Write the reports; the errors of those that failed. One that fails does not stop the others."""
    failed: list[LaptimeError] = []
    for output in outputs:
        try:
            options = {"carry": True} if output.format == "json" and isinstance(subject, Run) else {}
            write_whole(output.path, _render(subject, output.format, **options).encode())
        except OSError as error:
            what, why = f"{output.path} could not be written", error.strerror or str(error)
            again = f"laptime show {subject.id}" if isinstance(subject, Run) else ""
            failed.append(UsageError(what, why=why, next=again and f"{again} -o another/{output.path.name}"))
        except LaptimeError as error:
            failed.append(error)
        else:
            voice.say(f"wrote {output.path}")
    return failed


class Delivery:
    """How the result of a line is shown and written, as its options say (`options.report_options`)."""

    def __init__(
        self, voice: Voice, paths: Sequence[str], on: str = "", only: str = "", *, as_json: bool
    ) -> None:
        self.voice, self.as_json, self.on, self._only = voice, as_json, on, only
        self.format = "json" if as_json else "text"
        self.outputs = plan_reports(paths)  # the reports to write

    def watch(
        self,
        verb: Callable[[Any, Listener], Run],
        request: Any,
        *,
        save: bool,
        describe: Describe | None = None,
        travels: str = "",
    ) -> Recorded:
        """The run of a verb, and what is to be said if it could not be kept where it belongs. Raises
        UsageError: the request is impossible; nothing was measured. describe: the lines that stay of an
        event; None: each case. travels: the name of the verb on one of the machines of `--on`."""
        found = self.machines(request) if travels else []
        with progress(quiet=self.voice.quiet, describe=describe) as show:
            if not found:
                return record_run(lambda emit: verb(request, emit), show, save=save)
            from laptime.launch.fleet.queue import carry_out_one

            return carry_out_one(
                found, lambda run: record_run(lambda emit: run(travels, request, emit), show, save=save)
            )

    def machines(self, *requests: Any) -> list[Machine]:
        """The machines of `--on`, with the user's files that requests name; none without it.
        Raises UsageError: there is none, or files cannot be sent; nothing was started."""
        if not self.on and not self._only:
            return []
        from laptime.launch.fleet import machines

        return machines(self.on, self._only, requests, self.voice.say)

    def deliver(self, subject: Run | Document) -> ExitCode:
        """Show it and write its reports; USAGE when one of that failed, else OK."""
        try:
            show(subject, format=self.format)
        except LaptimeError as error:
            return self.write(subject, error)
        return self.write(subject)

    def write(self, subject: Run | Document, *failed: LaptimeError) -> ExitCode:
        """Write its reports, and say what failed, now and before; USAGE when anything did, else OK."""
        failures = [*failed, *write(subject, self.outputs, voice=self.voice)]
        for failure in failures:
            self.voice.complain(failure)
        return ExitCode.USAGE if failures else ExitCode.OK

    def finish(self, ended: Recorded, code: ExitCode | None = None) -> ExitCode:
        """Show the run, write its reports and say what went wrong; what the command returns. code: what the
        run says to a script; None: see `exit_code`."""
        run, complaint = ended
        delivered = self.deliver(run)
        if complaint is not None:
            delivered = self.voice.complain(complaint)
        code = exit_code(run) if code is None else code
        return code if code == ExitCode.INTERRUPTED else delivered or code

    def say_failures(self, run: Run) -> None:
        """Failures of a run of one program, whose report is not about them, in three lines each, once."""
        for failure in filter(None, dict.fromkeys(case.failure for case in run.cases)):
            self.voice.complain(UserCodeError(failure.what, why=failure.why, next=failure.next))


def exit_code(run: Run) -> ExitCode:
    """The exit code of a run: interrupted, code that failed, numbers that mean nothing, or fine."""
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


def session_code(run: Run) -> ExitCode:
    """The exit code of a session of `tune`, as in `analysis.tuned`; a program that failed goes first."""
    from laptime.analysis import tuned  # numpy, which `laptime --help` can do without

    if run.status == "failed" or run.tuning is None:
        return exit_code(run) or ExitCode.USER_CODE
    return tuned.exit_code(run)


def json_text(document: Any) -> str:
    """One JSON document, indented."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def wants_color() -> bool:
    """Whether stdout takes colours: NO_COLOR and FORCE_COLOR first, then whether it is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> str:
    """Aligned columns; those named in `right` are numbers. Lines are never broken: grep reads them, too. Long
    words lose their middle to fit a terminal, except in the first column, in numbers and in `whole`."""
    from rich.cells import cell_len, set_cell_size

    from laptime.reports.text_layout import GAP

    cells = [titles, *_fit(titles, rows, (titles[0], *right, *whole))]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    lines = [
        GAP.join(
            text.rjust(width) if title in right else set_cell_size(text, width)
            for title, text, width in zip(titles, row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([f"\x1b[1m{lines[0]}\x1b[0m" if wants_color() else lines[0], *lines[1:]])


def _fit(
    titles: Sequence[str], rows: Sequence[Sequence[str]], whole: Sequence[str]
) -> Sequence[Sequence[str]]:
    """The rows on a terminal's width, by shortening the widest words."""
    from laptime.reports.text_layout import GAP, shorten

    if not rows or not (sys.stdout.isatty() or os.environ.get("COLUMNS")):
        return rows
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    movable = [index for index, title in enumerate(titles) if title not in whole]
    over = sum(widths) + len(GAP) * (len(widths) - 1) - shutil.get_terminal_size().columns
    while over > 0 and movable:
        widest = max(movable, key=lambda at: widths[at])
        if widths[widest] <= _SHORTEST:
            break
        widths[widest] -= 1
        over -= 1
    most = [width if index in movable else sys.maxsize for index, width in enumerate(widths)]
    return [[*map(shorten, row, most)] for row in rows]
