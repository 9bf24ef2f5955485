"""Failures as records that go through a pipe and into a file."""

import traceback

from laptime.kit import errors
from laptime.records.case import Failure


def failure_of(error: BaseException) -> Failure:
    """The record of an error; errors of user code keep their traceback."""
    root = error.__cause__ or error
    trace = "".join(traceback.format_exception(root))
    if isinstance(error, errors.LaptimeError):
        kind = next((kind for cls, kind in _KINDS.items() if isinstance(error, cls)), "bug")
        return Failure(kind=kind, what=error.what, why=error.why, next=error.next, traceback=trace)
    if isinstance(error, MemoryError):
        return Failure(kind="out_of_memory", what="the machine has no memory left for this", traceback=trace)
    what = f"the model raised {type(error).__name__}"
    return Failure(kind="user_code", what=what, why=str(error), traceback=trace)


_KINDS: dict[type[errors.LaptimeError], str] = {  # the most special first
    errors.OutOfMemory: "out_of_memory",
    errors.Died: "died",
    errors.UserCodeError: "user_code",
    errors.TargetError: "target",
    errors.Unavailable: "unavailable",
    errors.UsageError: "usage",
}
