"""Results of other tools as runs: one file a format, its name the word for it.

A format has `matches(document) -> bool`, which looks at the document's shape, and
`runs(document, path) -> list[Run]`, which may raise KeyError, TypeError or ValueError if the document is
not what its shape promised. What a tool did not keep is not made up: without samples, a median is one sample.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import structs

from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.records.case import Case
from laptime.records.run import Run

MOST_BYTES = 1 << 30


def read(path: Path, format: str = "") -> list[Run]:
    """The runs in another tool's file.
    format: name of the format; "" finds it out.
    Raises UsageError: it cannot be read, is no JSON, or no format knows it."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} is larger than 1 GiB", why="results of benchmarks are smaller")
        content = path.read_bytes()
        document = _decode(content.decode(json.detect_encoding(content)))
    except OSError as error:
        raise UsageError(f"{path} cannot be read", why=error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON", why=str(error), next="laptime import --help") from error
    formats = registry.names("imports")
    name = format or next((each for each in formats if registry.load("imports", each).matches(document)), "")
    if not name:
        raise UsageError(
            f"{path} is not a file that can be imported",
            why=f"known formats: {', '.join(formats)}",
            next="name its format: --format NAME",
        )
    try:
        runs: list[Run] = registry.load("imports", name).runs(document, path)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{path} is not what {name} writes",
            why=what or type(error).__name__,
            next="laptime import --help",
        ) from error
    if not any(run.cases or run.profile or run.tuning for run in runs):
        why = f"nothing was measured in this file of {name}"
        raise UsageError(f"{path} holds no result", why=why, next="laptime import --help")
    return runs


def unseen(run: Run, stored: Iterable[Run]) -> Run | None:
    """The run without the results that earlier imports have; None if nothing is left.

    A file of asv grows as more benchmarks are run for a commit; what it held before was not measured again.
    """
    known = {
        _content(case)
        for other in stored
        if other.verb == "import"
        and (other.started, other.environment) == (run.started, run.environment)
        and {subject.source for subject in other.subjects} == {subject.source for subject in run.subjects}
        for case in other.cases
    }
    cases = [case for case in run.cases if _content(case) not in known]
    if len(cases) == len(run.cases):
        return run
    targets, keys = {case.target for case in cases}, {case.key for case in cases}
    return (
        structs.replace(
            run,
            cases=cases,
            subjects=[subject for subject in run.subjects if subject.target in targets],
            verdicts=[verdict for verdict in run.verdicts if verdict.case in keys],
        )
        if cases
        else None
    )


def _content(case: Case) -> tuple[object, ...]:
    return (case.key, *((series.key, *series.samples) for series in case.series))


def _decode(text: str) -> Any:
    """A JSON document, or JSON Lines as a list. Other tools write NaN and infinities: strict JSON has not."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if not error.msg.startswith("Extra data"):
            raise
    return [json.loads(line) for line in text.splitlines() if line.strip()]
