"""Where results go after they are on disk: a folder anywhere, and functions of the user's.

Nothing that fails here takes a result away or stops the benchmarks that follow; it is told at the end.
"""

from __future__ import annotations

from pathlib import Path

from laptime.edges.perfzero import process, remote
from laptime.edges.perfzero.summary import NAME, Conditions
from laptime.kit.errors import LaptimeError, UsageError
from laptime.process.program import ending

TIMEOUT = 600.0


def send(folder: Path, conditions: Conditions) -> list[LaptimeError]:
    """Hand a folder and the summary in it to all that the flags name; what went wrong.

    Each function is called in a process of its own, which may import what it likes, and may crash.
    """
    flags = conditions.flags
    functions = [name.strip() for name in (flags.result_upload_methods or "").split(",") if name.strip()]
    called = [_call(name, folder, conditions) for name in functions]
    faults = [fault for fault in called if fault is not None]
    if flags.output_gcs_url:
        try:
            remote.copy_folder(folder, flags.output_gcs_url)
        except LaptimeError as error:
            faults.append(error)
    return faults


def _call(function: str, folder: Path, conditions: Conditions) -> LaptimeError | None:
    flags, summary = conditions.flags, folder / NAME
    request = {
        "do": "upload",
        "function": function,
        "summary": str(summary.resolve()),
        "python_path": conditions.python_path,
    }
    log = f"upload-{function[-100:]}.log"
    ended = process.run(request, folder, python=flags.python, timeout=TIMEOUT, echo=flags.debug, log=log)
    if ended.event("uploaded") is not None:
        return None
    why = f"no answer after {TIMEOUT:g} s" if ended.hung else f"its process {ending(ended.status or 0)}"
    return UsageError(
        f"{function} could not upload {summary}",
        why=str((ended.event("upload_failed") or {}).get("message", why)),
        next=f"nothing is lost: the summary is there; {folder / log} has the details",
    )
