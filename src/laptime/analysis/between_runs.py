"""How far apart runs of one program lie on this machine: learned from the runs that it has stored.

Runs that were not interleaved do not share the machine's drift, and their samples do not show how large it
was. Other runs do: whatever program was measured several times, its levels scatter by what lies between runs.
"""

import math
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import numpy as np

from laptime.analysis.summary import headline
from laptime.kit.clock import moment
from laptime.records.run import Run
from laptime.records.series import SHORTEST

FEWEST_DF = 4
"""Degrees of freedom that are enough to know the spread: five runs of one program, or three of two."""
NARROWEST = 0.002  # no machine repeats itself better than this share, whatever a few runs say


class Spread(NamedTuple):
    """Standard deviation between runs of one program, as a share, and its degrees of freedom. `words`: how
    it is known, as in "runs lie 2 % apart"."""

    deviation: float
    df: float
    words: str = "lie"


def between_runs(earlier: Iterable[Run], a: Run, b: Run) -> Spread | None:
    """The spread between runs made under the conditions of these two; None when too few runs tell.

    They must reach over as much time as lies between the two: what drifts within a day does not show in runs
    of one minute. The two themselves do not count, nor do programs of which it is unknown whether they are
    still the same."""
    alike = [
        run
        for run in earlier
        if run.id not in (a.id, b.id)
        and run.environment.fingerprint == b.environment.fingerprint
        and run.environment.machine == b.environment.machine
        and run.status == "complete"
        and run.trust != "invalid"
    ]
    groups: dict[tuple[object, ...], list[tuple[datetime, float]]] = {}
    for run in alike:
        program = tuple(sorted((subject.target, subject.sha256 or "") for subject in run.subjects))
        for case in run.cases:
            stat = headline(case, run.constants)
            if stat is not None and (stat.value or 0.0) > SHORTEST and not case.details.in_process:
                group = groups.setdefault((case.key, stat.tag, program), [])
                group.append((moment(run.started), math.log(stat.value or SHORTEST)))
    repeated = [group for group in groups.values() if len(group) > 1]
    df = sum(len(group) - 1 for group in repeated)
    times = [time for group in repeated for time, _ in group]
    gap = abs(moment(a.started) - moment(b.started))
    if df < FEWEST_DF or max(times) - min(times) < gap:
        return None
    squares = sum(float(np.var([level for _, level in group])) * len(group) for group in repeated)
    return Spread(max(NARROWEST, math.sqrt(squares / df)), df, f"of {len(repeated)} programs here lay")
