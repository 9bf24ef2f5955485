"""What a measurement says while it runs, and how a Run grows out of it.

The terminal bar, the journal on disk and the tests all read this one stream; `RunBuilder` is the only
place that turns it into a `Run`.
"""

from __future__ import annotations

from msgspec import Struct, structs

from laptime.records.case import Case
from laptime.records.comparison import Comparison
from laptime.records.environment import Environment
from laptime.records.finding import Finding
from laptime.records.plan import Setting
from laptime.records.run import Run, Subject
from laptime.records.series import Series
from laptime.records.verdict import Verdict


class RunStarted(Struct, frozen=True, tag="run_started"):
    """First event: the run with nothing measured yet."""

    run: Run


class CaseAdded(Struct, frozen=True, tag="case_added"):
    """A case is about to be measured."""

    case: Case


class Measured(Struct, frozen=True, tag="measured"):
    """New samples of one case."""

    key: str
    series: Series


class CaseChanged(Struct, frozen=True, tag="case_changed"):
    """The whole case anew: labels revised, checks made, failed, finished."""

    case: Case


class EnvironmentChanged(Struct, frozen=True, tag="environment_changed"):
    """The worker has told more about the machine (framework versions, devices, knobs)."""

    environment: Environment
    subjects: list[Subject] = []


class PlanChanged(Struct, frozen=True, tag="plan_changed"):
    """A search has settled what the plan had left open."""

    plan: dict[str, Setting]


class Progress(Struct, frozen=True, tag="progress"):
    """Where we are; shown, not stored.

    Attributes:
        done: share of the work, 0 to 1.
        remaining: seconds still expected, at most.
        text: what is going on.
    """

    done: float
    remaining: float
    text: str


class Found(Struct, frozen=True, tag="found"):
    """A finding of the run."""

    finding: Finding


class Compared(Struct, frozen=True, tag="compared"):
    """A comparison of two cases."""

    comparison: Comparison


class Judged(Struct, frozen=True, tag="judged"):
    """Whether budgets and baselines were kept."""

    verdicts: list[Verdict]


class RunFinished(Struct, frozen=True, tag="run_finished"):
    """Last event."""

    status: str
    seconds: float


Event = (
    RunStarted
    | CaseAdded
    | Measured
    | CaseChanged
    | EnvironmentChanged
    | PlanChanged
    | Progress
    | Found
    | Compared
    | Judged
    | RunFinished
)


class RunBuilder:
    """Folds events into a Run; what was measured before a crash is a Run, too."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._cases: dict[str, Case] = {}

    def __call__(self, event: Event) -> None:
        """Take one event."""
        match event:
            case RunStarted(run):
                self._run = run
                self._cases = {case.key: case for case in run.cases}
            case CaseAdded(case) | CaseChanged(case):
                self._cases[case.key] = case
            case Measured(key, series):
                self._cases[key] = self._cases[key].with_series(series)
            case EnvironmentChanged(environment, subjects):
                changes = {
                    "environment": environment,
                    **({"subjects": subjects} if subjects else {}),
                }
                self._run = structs.replace(self._started, **changes)
            case PlanChanged(plan):
                self._run = structs.replace(self._started, plan=plan)
            case Found(finding):
                self._run = structs.replace(self._started, findings=[*self._started.findings, finding])
            case Compared(comparison):
                compared = [*self._started.comparisons, comparison]
                self._run = structs.replace(self._started, comparisons=compared)
            case Judged(verdicts):
                self._run = structs.replace(self._started, verdicts=verdicts)
            case RunFinished(status, seconds):
                self._run = structs.replace(self._started, status=status, seconds=seconds)
            case Progress():
                pass

    @property
    def _started(self) -> Run:
        if self._run is None:
            raise ValueError("no RunStarted event came first")
        return self._run

    def case(self, key: str) -> Case:
        """The case as it stands now."""
        return self._cases[key]

    def run(self) -> Run:
        """The run as it stands now."""
        return structs.replace(self._started, cases=list(self._cases.values()))
