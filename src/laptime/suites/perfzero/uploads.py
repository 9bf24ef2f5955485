"""Where results go after they are on disk: a folder anywhere, and functions of the user's.

Nothing that fails here takes a result away or stops the benchmarks that follow; it is told at the end.
"""

from __future__ import annotations

from pathlib import Path

from laptime.kit.errors import LaptimeError, UsageError
from laptime.suites.perfzero import process, remote
from laptime.suites.perfzero.summary import NAME, Conditions

TIMEOUT = 600.0


def send(folder: Path, conditions: Conditions) -> list[LaptimeError]:
    """Hand a folder and the summary in it to all that the flags name; what went wrong.

    The functions are called in a process of their own, which may import what it likes.
    """
    flags = conditions.flags
    functions = [name.strip() for name in (flags.result_upload_methods or "").split(",") if name.strip()]
    faults = _call(functions, folder, conditions) if functions else []
    if flags.output_gcs_url:
        try:
            remote.copy_folder(folder, flags.output_gcs_url)
        except LaptimeError as error:
            faults.append(error)
    return faults


def _call(functions: list[str], folder: Path, conditions: Conditions) -> list[LaptimeError]:
    flags, summary = conditions.flags, folder / NAME
    request = {
        "do": "upload",
        "functions": functions,
        "summary": str(summary.resolve()),
        "python_path": conditions.python_path,
    }
    ended = process.run(
        request, folder, python=flags.python, timeout=TIMEOUT, echo=flags.debug, log="upload.log"
    )
    done = {event["function"] for event in ended.events if event["event"] == "uploaded"}
    reasons = {
        event["function"]: event["message"] for event in ended.events if event["event"] == "upload_failed"
    }
    why = f"no answer after {TIMEOUT:g} s" if ended.hung else f"its process ended with {ended.status}"
    return [
        UsageError(
            f"{name} could not upload {summary}",
            why=reasons.get(name, why),
            next=f"nothing is lost: the summary is there; {folder / 'upload.log'} has the details",
        )
        for name in functions
        if name not in done
    ]
