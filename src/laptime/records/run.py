"""The one noun in the middle, and the suite that it may belong to.

Format history (schema):
    laptime.run/1   first version
    laptime.run/2   a level of load has a table of its requests instead of a series for each of their times

Rules: new fields have defaults; nothing is renamed or retyped; unknown fields are ignored on reading."""

from typing import Literal

from msgspec import Struct

from laptime.records.case import Case
from laptime.records.check import Check, Finding, Trust, Verdict, trust
from laptime.records.comparison import Comparison
from laptime.records.environment import Environment
from laptime.records.plan import TODAY, Constants, Setting
from laptime.records.profile import Profile
from laptime.records.tuning import Tuning


class Membership(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One benchmark of one run of a suite."""

    id: str  # of one `laptime suite run`; all its runs share it, also those that `--resume` adds
    name: str  # of the suite
    benchmark: str  # name in the suite
    question: str = ""  # hash of what the benchmark asked for; another one is another question
    tags: list[str] = []  # as in the suite


SCHEMA = "laptime.run/2"
_ORDER: tuple[Trust, ...] = ("trusted", "noisy", "invalid")
IN_MEMORY = "object in memory"  # source of a subject that is an object of the process that measured it
IMPORTED = "imported: "  # how the source of a subject begins that somebody else's run named


class Subject(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A target that was measured.

    Attributes:
        target: as named by the user.
        source: where it came from: package and version, or file.
        sha256: hash of the source file or of the weights' shapes, "" when unknown."""

    target: str
    source: str = ""
    sha256: str = ""


class Run(Struct, frozen=True, kw_only=True):  # writes its defaults, too: `schema` is one of them
    """One command's worth of measurement."""

    schema: str = SCHEMA
    id: str  # sortable and unique: UTC time and a random tail
    verb: str = "bench"  # bench, trace, profile, ..
    name: str = ""
    started: str  # ISO 8601 in UTC
    seconds: float = 0.0  # wall time of the whole command
    laptime: str
    command: list[str] = []
    # running (in the journal), complete, interrupted, failed
    status: Literal["running", "complete", "interrupted", "failed"] = "running"
    subjects: list[Subject] = []
    environment: Environment
    plan: dict[str, Setting] = {}  # effective settings, each with its origin
    constants: Constants = TODAY  # what reports of this run compute with, as it was on its day
    cases: list[Case] = []
    checks: list[Check] = []
    findings: list[Finding] = []
    comparisons: list[Comparison] = []
    verdicts: list[Verdict] = []  # whether budgets and baselines were kept; empty if not requested
    suite: Membership | None = None  # the suite that it was measured for; None outside of one
    profile: Profile | None = None  # where the time of a step goes; only of the verbs trace and profile
    # what was tried to make a script faster, and what was kept; only of the verbs tune and verify
    tuning: Tuning | None = None

    @property
    def trust(self) -> Trust:
        """The worst of its cases and of its own checks; invalid when there is neither."""
        words = [case.trust for case in self.cases] + ([trust(self.checks)] if self.checks else [])
        return max(words, key=_ORDER.index, default="invalid")

    def case(self, key: str) -> Case:
        """The case with this key. Raises KeyError: the run has no such case."""
        return {case.key: case for case in reversed(self.cases)}[key]
