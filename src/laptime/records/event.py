"""The events that a verb emits while it works, and the Run that grows out of them.

The terminal, the journal on disk and the tests all read this one stream; `RunBuilder` is the only place that
turns it into a `Run`. Tags are what stands in stored journals: they stay when a class gets a better name."""

from collections.abc import Callable

from msgspec import Struct, structs

from laptime.records.case import Case
from laptime.records.check import Check, Finding, Verdict
from laptime.records.comparison import Comparison
from laptime.records.environment import Environment
from laptime.records.plan import Setting
from laptime.records.profile import Profile
from laptime.records.requests import Requests
from laptime.records.run import Run, Subject
from laptime.records.series import Series
from laptime.records.tuning import Applied, Diagnosis, Rung, Tuning
from laptime.records.tuning import Measured as MeasuredSpeed


class RunStarted(Struct, frozen=True, tag="run_started"):
    """First event but for `Progress`: the run with nothing measured yet."""

    run: Run


class CaseAdded(Struct, frozen=True, tag="case_added"):
    """A case is about to be measured."""

    case: Case


class Measured(Struct, frozen=True, tag="measured"):
    """New samples of one case."""

    key: str
    series: Series


class RequestsEnded(Struct, frozen=True, tag="requests_ended"):
    """Requests of one case, a level of load, were answered or failed."""

    key: str
    requests: Requests


class CaseChanged(Struct, frozen=True, tag="case_changed"):
    """The whole case anew: labels revised, checks made, failed, finished."""

    case: Case


class EnvironmentChanged(Struct, frozen=True, tag="environment_changed"):
    """More is known about the machine (framework versions, devices, knobs)."""

    environment: Environment
    subjects: list[Subject] = []


class PlanChanged(Struct, frozen=True, tag="plan_changed"):
    """A search has settled what the plan had left open."""

    plan: dict[str, Setting]


class Progress(Struct, frozen=True, tag="progress"):
    """How far the work is; shown, not stored."""

    done: float  # share of the work, 0 to 1
    remaining: float  # seconds still expected, at most; 0 if unknown
    text: str  # what is going on


class FindingAdded(Struct, frozen=True, tag="found"):
    """A finding of the run."""

    finding: Finding


class ComparisonAdded(Struct, frozen=True, tag="compared"):
    """A comparison of two cases."""

    comparison: Comparison


class VerdictsReached(Struct, frozen=True, tag="judged"):
    """Whether budgets and baselines were kept."""

    verdicts: list[Verdict]


class ChecksMade(Struct, frozen=True, tag="checks_made"):
    """Whether the run as a whole can be trusted."""

    checks: list[Check]


class ProfileMade(Struct, frozen=True, tag="profile_made"):
    """Where the time of a step goes."""

    profile: Profile


class Diagnosed(Struct, frozen=True, tag="diagnosed"):
    """A tuning session has diagnosed the script as it is, or with what was kept so far."""

    diagnosis: Diagnosis


class RungDecided(Struct, frozen=True, tag="rung_decided"):
    """A tuning session has decided on one change, or anew on a change that it decided on before."""

    rung: Rung


class GainMeasured(Struct, frozen=True, tag="gain_measured"):
    """The script as it is and with all that was kept, in fresh processes."""

    baseline: MeasuredSpeed
    final: MeasuredSpeed


class TuningChanged(Struct, frozen=True, tag="tuning_changed"):
    """Everything that a tuning session has found, anew."""

    tuning: Tuning


class RunFinished(Struct, frozen=True, tag="run_finished"):
    """Last event."""

    status: str
    seconds: float


_OfRun = RunStarted | EnvironmentChanged | PlanChanged | Progress | ChecksMade | ProfileMade | RunFinished
_OfCases = (
    CaseAdded | Measured | RequestsEnded | CaseChanged | FindingAdded | ComparisonAdded | VerdictsReached
)
_Decision = Diagnosed | RungDecided | GainMeasured
Event = _OfRun | _OfCases | _Decision | TuningChanged
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener of a verb that nobody listens to."""


class RunBuilder:
    """Folds events into a Run; what was measured before a crash is a Run, too."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._cases: dict[str, Case] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case Progress():
                pass
            case RunStarted(run):
                self._run = run
                self._cases = {case.key: case for case in run.cases}
            case CaseAdded(case) | CaseChanged(case):
                self._cases[case.key] = case
            case Measured(key, series):
                self._cases[key] = self._cases[key].with_series(series)
            case RequestsEnded(key, requests):
                self._cases[key] = self._cases[key].with_requests(requests)
            case EnvironmentChanged(environment, subjects):
                self._change(environment=environment, **({"subjects": subjects} if subjects else {}))
            case FindingAdded(finding):
                self._change(findings=[*self._started.findings, finding])
            case ComparisonAdded(comparison):
                self._change(comparisons=[*self._started.comparisons, comparison])
            case Diagnosed() | RungDecided() | GainMeasured():
                self._change(tuning=so_far(self._started.tuning or Tuning(), event))
            case _:  # its fields are those of the run
                self._change(**structs.asdict(event))

    def _change(self, **fields: object) -> None:
        self._run = structs.replace(self._started, **fields)

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


def so_far(tuning: Tuning, event: _Decision) -> Tuning:
    """Return a tuning session with what this event found; it counts as interrupted until more comes."""
    match event:
        case Diagnosed(diagnosis):
            name = "after" if tuning.before else "before"
            return structs.replace(tuning, ended="interrupted", **{name: diagnosis})
        case GainMeasured(baseline, final):
            return structs.replace(tuning, baseline=baseline, final=final)
        case RungDecided(rung):
            key = (rung.name, rung.options, rung.ratios)
            same = [
                n for n, each in enumerate(tuning.ladder) if (each.name, each.options, each.ratios) == key
            ]
            at = same[-1] if same else len(tuning.ladder)
            ladder = [*tuning.ladder[:at], rung, *tuning.ladder[at + 1 :]]
            recipe = [Applied(name=each.name, options=each.options) for each in ladder if each.kept]
            return structs.replace(tuning, ladder=ladder, recipe=recipe)
