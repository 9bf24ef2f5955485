"""What the rules say of every trace here, beside what an expert said of it (`expert.toml`)."""

from __future__ import annotations

import importlib
import re
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from fixtures import traces
from laptime import rules
from laptime.records.check import Finding
from laptime.records.environment import Environment
from laptime.records.profile import Profile
from laptime.verbs.trace import analyse

HERE = Path(__file__).parent
NOTES = ("not-recorded", "incomplete", "host-only", "crowded-cpu")
"""Findings that say how far the others can be trusted, and name no change to the program."""


@dataclass(frozen=True, kw_only=True)
class Expert:
    """An entry of `expert.toml`: see its head."""

    name: str
    verdict: list[str]
    causes: list[str]
    why: str
    also: list[str] = field(default_factory=list)
    first: list[str] | None = None
    says: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    gain_ms: tuple[float, float] | None = None
    trace: str = ""
    file: str = ""
    profile: str = ""

    @property
    def kind(self) -> str:
        """Where it comes from, in words."""
        return (
            "a trace of others"
            if self.file
            else "a script, profiled here"
            if self.profile
            else "made by hand"
        )


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What laptime says of a trace, and how far the expert agrees.

    Attributes:
        wrong: findings that the expert would not sign; missed: causes that no finding names.
        words: patterns that should have been said, or should not.
    """

    expert: Expert
    profile: Profile
    verdict: str
    findings: list[Finding]
    wrong: list[str]
    missed: list[str]
    words: list[str]

    @property
    def verdict_right(self) -> bool:
        """Whether the word is one of the expert's."""
        return self.verdict in self.expert.verdict

    @property
    def advice(self) -> list[str]:
        """Kinds of findings that name a change, in order."""
        return [name for name in map(kind, self.findings) if name not in NOTES]

    @property
    def first_right(self) -> bool:
        """Whether what comes first is what the expert would begin with."""
        wanted = self.expert.causes + self.expert.also if self.expert.first is None else self.expert.first
        return not self.missed_first and (not self.advice or self.advice[0] in (wanted or self.expert.also))

    @property
    def missed_first(self) -> bool:
        """Nothing is said where something is wrong."""
        return bool(self.expert.causes) and not self.advice


def kind(finding: Finding) -> str:
    """Its name without the room."""
    return finding.kind.removeprefix("trace/")


def experts() -> list[Expert]:
    """All entries, in the order of the file."""
    entries = tomllib.loads((HERE / "expert.toml").read_text())
    return [Expert(name=name, **entry) for name, entry in entries.items()]


def at_hand(expert: Expert) -> bool:
    """Whether its trace is here: larger ones of others are not in the repository."""
    try:
        return not expert.file or bool(traces.path(expert.file))
    except pytest.skip.Exception:
        return False


def diagnosed(expert: Expert) -> tuple[Profile, list[Finding]]:
    """The profile of a trace, and what all rules say of it. Skips the test where the file is not at hand."""
    if expert.profile:
        profile, machine = recorded(HERE / "profiles" / expert.profile)
        return profile, rules.diagnose(profile, machine)
    if expert.file:
        profile = analyse([traces.path(expert.file)])
        return profile, rules.diagnose(profile)
    made = getattr(importlib.import_module(f"advice.made.{expert.trace}"), expert.name)()
    with tempfile.TemporaryDirectory() as folder:
        ranks = made if isinstance(made, list) else [made]
        for number, recording in enumerate(ranks):
            recording.write(Path(folder) / f"rank{number}.pt.trace.json.gz")
        profile = analyse([Path(folder)])
    return profile, rules.diagnose(profile)


def recorded(path: Path) -> tuple[Profile, Environment]:
    """A profile of one of our scripts as it was stored, verdict made anew."""
    import gzip

    stored = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=dict[str, msgspec.Raw])
    profile = msgspec.json.decode(stored["profile"], type=Profile)
    machine = msgspec.json.decode(stored["environment"], type=Environment)
    return msgspec.structs.replace(profile, verdict=rules.verdict(profile)), machine


def answer(expert: Expert) -> Answer:
    """What is said of one trace, and the expert's opinion of it."""
    profile, findings = diagnosed(expert)
    assert profile.verdict is not None
    said = [kind(finding) for finding in findings if kind(finding) not in NOTES]
    signed = expert.causes + expert.also
    first = [finding for finding in findings if kind(finding) not in NOTES][:1]
    opening = "\n".join([profile.verdict.sentence, *(text for one in first for text in texts(one))])
    all_of_it = "\n".join([profile.verdict.sentence, *(text for one in findings for text in texts(one))])
    words = [f"does not say {pattern}" for pattern in expert.says if not re.search(pattern, opening)]
    words += [f"says {pattern}" for pattern in expert.silent if re.search(pattern, all_of_it)]
    if (
        expert.gain_ms
        and not expert.gain_ms[0] <= (gain := sum(one.gain or 0 for one in first) * 1e3) <= expert.gain_ms[1]
    ):
        words.append(f"promises {gain:.3g} ms")
    return Answer(
        expert=expert,
        profile=profile,
        verdict=profile.verdict.bound,
        findings=findings,
        wrong=[name for name in said if name not in signed],
        missed=[cause for cause in expert.causes if cause not in said],
        words=words,
    )


def texts(finding: Finding) -> Iterator[str]:
    """What a reader sees of a finding."""
    yield from (finding.sentence, finding.change, finding.next, *finding.stack[:1])


@dataclass(frozen=True, kw_only=True)
class Score:
    """Shares over many traces; `words` are sentences that the expert wants otherwise."""

    traces: int
    advice: int
    signed: int
    causes: int
    named: int
    first: int
    verdicts: int
    words: int


def score(answers: Iterable[Answer]) -> Score:
    """Counts of these answers. A finding whose words are wrong is one that is not signed."""
    all_of_them = list(answers)
    advice = sum(len(each.advice) for each in all_of_them)
    wrong = sum(max(len(each.wrong), bool(each.words)) for each in all_of_them)
    return Score(
        traces=len(all_of_them),
        advice=advice,
        signed=max(0, advice - wrong),
        causes=sum(len(each.expert.causes) for each in all_of_them),
        named=sum(len(each.expert.causes) - len(each.missed) for each in all_of_them),
        first=sum(each.first_right for each in all_of_them),
        verdicts=sum(each.verdict_right for each in all_of_them),
        words=sum(bool(each.words) for each in all_of_them),
    )
