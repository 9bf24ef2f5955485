"""Does a rule keep its contract? Asked about many profiles, it answers each with a sound finding or none."""

import re
from types import ModuleType

import msgspec
from msgspec import structs

from laptime.records.check import Finding
from laptime.records.overview import Breakdown, Overview
from laptime.records.profile import Profile
from laptime.rules._evidence import row_names
from laptime.rules._reading import turn
from laptime.testing import conformance as examples
from laptime.testing.conformance import documented, need, plain, takes


def check_rule(name: str) -> None:
    """A diagnosis: pure, on records only; a bounded gain, rows that exist, and a change when it wants one."""
    module = documented("rules", name)
    for word in ("Lies when:", "Source:"):
        need(section(module, word), f"rules/{name}: its docstring has no line `{word} ...`")
    takes(module.rule, "profile")
    for story, profile in stories().items():
        before = msgspec.json.encode(profile)
        answer = module.rule(profile)
        need(msgspec.json.encode(profile) == before, f"rules/{name} changed the profile ({story})")
        need(answer == module.rule(profile), f"rules/{name} gives two answers to one question ({story})")
        if answer is not None:
            _check_answer(name, answer, profile, story)


def section(module: ModuleType, word: str) -> str:
    """The text behind `Lies when:` or `Source:` in a module's docstring, on one line; "" without."""
    match = re.search(rf"^{word}\s+(.+?)(?=^\w[\w ]*:\s|\n\s*\n|\Z)", module.__doc__ or "", re.M | re.S)
    return " ".join(match[1].split()) if match else ""


def stories() -> dict[str, Profile]:
    """Profiles that a rule must stand: quiet ones, one for each of our rules, full ones, empty ones."""
    profiles = examples.profiles()
    for story, run in examples.runs(["profile"]).items():
        assert run.profile is not None
        profiles[story] = run.profile
        profiles[f"{story}, one step"] = structs.replace(
            run.profile, overview=structs.replace(run.profile.overview, steps=1), steps=run.profile.steps[:1]
        )
    profiles["nothing"] = Profile(
        files=[], overview=Overview(steps=0, step_ns=0, step_median_ns=0, breakdown=Breakdown())
    )
    return profiles


def _check_answer(name: str, answer: object, profile: Profile, story: str) -> None:
    need(
        isinstance(answer, Finding),
        f"rules/{name} answered {answer!r}: a Finding or None is wanted ({story})",
    )
    assert isinstance(answer, Finding)
    kind = f"trace/{name.replace('_', '-')}"
    need(answer.kind in ("", kind), f"rules/{name}: its finding is called {answer.kind!r}, not {kind!r}")
    need(answer.severity in ("info", "advice", "problem"), f"rules/{name}: no severity {answer.severity!r}")
    need(answer.sentence.strip(), f"rules/{name}: a finding without a sentence ({story})")
    need(
        answer.severity == "info" or answer.change or answer.next,
        f"rules/{name}: {answer.severity} without what to change ({story})",
    )
    need(
        answer.severity != "problem" or profile.overview.steps >= 2,
        f"rules/{name} calls something a problem that one step shows ({story})",
    )
    plain(answer.evidence, f"rules/{name}: evidence")
    if answer.gain is not None:
        whole = turn(profile)
        need(
            0.0 <= answer.gain <= whole,
            f"rules/{name} promises {answer.gain:.3g} s of a step of {whole:.3g} s ({story})",
        )
        need(answer.evidence.get("gain_is"), f"rules/{name} does not say how it computes its gain ({story})")
    for row in answer.rows:
        need(row in row_names(profile), f"rules/{name} names the row {row!r}, which is not there ({story})")
