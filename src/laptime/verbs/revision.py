"""A target now and at an earlier revision, measured side by side.

Every target runs twice, interleaved as any comparison: its first variant in processes that see the revision's
files, its second in processes that see the working tree.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from msgspec import structs

from laptime.launch import interpreter
from laptime.launch.git_worktree import Revision, checked_out
from laptime.launch.worker import Worker, WorkerProcess
from laptime.records.plan import BenchRequest, Variant
from laptime.records.run import Run
from laptime.verbs.bench.case_worker import OpenSession, fresh_process
from laptime.verbs.regressions import of_pairs

Measure = Callable[[BenchRequest, OpenSession], Run]


def against_revision(request: BenchRequest, revision: str, measure: Measure) -> Run:
    """The run of both, whose comparisons have the revision as baseline.

    Args:
        request: what to measure; targets are looked for in the current folder and in the same one at the
            revision.
        measure: carries a request out, starting workers as it is told.

    Raises:
        UsageError: there is no such revision, or the request is impossible.
    """
    with checked_out(revision) as there:
        twice = [target for target in request.targets for _ in range(2)]
        name = request.name or f"check-{there.commit[:10]}"
        run = measure(structs.replace(request, targets=twice, name=name), _either(there))
    return structs.replace(run, comparisons=of_pairs(run))


def _either(there: Revision) -> OpenSession:
    def start(variant: Variant) -> Worker:
        if int(variant.options.get("again", 1)) % 2 == 0:
            return fresh_process(variant)
        python = variant.python or sys.executable
        environ = interpreter.environment(python)
        return WorkerProcess(
            name=f"{variant.target} at {there.commit[:10]}",
            python=interpreter.path_of(python),
            folder=there.folder,
            environ={**environ, "PYTHONPATH": there.python_path(environ["PYTHONPATH"])},
        )

    return start
