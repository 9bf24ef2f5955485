"""The outcome of a tuning session, or of a check of an earlier one, in one word."""

import math
from typing import Literal

from msgspec import structs

from laptime.kit.errors import ExitCode
from laptime.kit.units import show
from laptime.records.quantity import BROKEN, KEPT, Judgement
from laptime.records.run import Run
from laptime.records.tuning import Applied, Diagnosis, Measured, Rung, Tuning

Outcome = Literal[
    "faster", "smaller", "same", "slower", "unclear", "nothing", "gate failed", "gate undecided",
    "patch fails", "limit broken", "limit undecided", "not measured", "interrupted", "dry run", "failed",
]  # fmt: skip
"""faster, same, slower, unclear: the whole, measured again. smaller: goal memory. nothing: none was kept.
limit broken, limit undecided: what a model has to keep is broken, or not kept for sure, by the final set
or, if none was kept, by the model as it is. not measured: the budget ended before anything was tried, or
before the whole was measured."""
MAY_GAIN, MAY_HELP = 1.05, 1.25
"""A change whose interval reaches so far may be worth having: the first if it came out no slower."""
DRY = "dry run"  # how a session ended that only diagnosed
CONTROL = "identity"  # the optimization that changes nothing; its race is the control of all others
_CODES: dict[str, ExitCode] = {
    **dict.fromkeys(("faster", "smaller", "dry run"), ExitCode.OK),
    **dict.fromkeys(("same", "nothing"), ExitCode.NOTHING),
    **dict.fromkeys(("slower", "gate failed", "patch fails", "limit broken"), ExitCode.NO),
    **dict.fromkeys(("limit undecided", "unclear", "gate undecided", "not measured"), ExitCode.UNDECIDED),
    "interrupted": ExitCode.INTERRUPTED,
    "failed": ExitCode.USER_CODE,
}


def outcome(run: Run) -> Outcome:
    """The outcome of the session; the worst that applies. A gain counts only when the gate has passed.
    Raises ValueError: the run has no tuning."""
    tuning = run.tuning
    if tuning is None:
        raise ValueError(f"the run {run.id} has no tuning")
    if run.status == "failed":
        return "failed"
    if run.status == "interrupted" or tuning.ended == "interrupted":
        return "interrupted"
    if dry(run):
        return "dry run"
    if tuning.gate.word == "failed" or tuning.convergence.word == "fails":
        return "gate failed"
    limits = Judgement.of_all(check.outcome for check in tuning.limits)
    if limits is BROKEN:
        return "limit broken"
    limited: Outcome | None = None if limits is KEPT else "limit undecided"
    if not tuning.recipe:
        return limited or _without_recipe(tuning)
    gained: Outcome
    if tuning.goal == "memory":
        before, after = peaks(tuning)
        if before is None or after is None:
            gained = "not measured"
        else:
            gained = "smaller" if after < before else "same"
    else:
        gained = "not measured" if tuning.speedup is None else tuning.speedup.word
    if gained not in ("faster", "smaller"):
        return "patch fails" if tuning.patch.contradictions else gained
    if tuning.gate.word != "passed":
        return "gate undecided"
    # One that was not tried out is not broken.
    patch = tuning.patch
    slower = patch.speedup is not None and patch.speedup.word == "slower"
    is_broken = bool(patch.path) and (patch.applies is False or patch.same_losses is False or slower)
    return "patch fails" if is_broken else limited or gained


def _without_recipe(tuning: Tuning) -> Outcome:
    """Nothing was kept: because nothing helps, or because it is not known."""
    is_tried = any(rung.verdict != "unclear" or rung.ci95 is not None for rung in list_tried(tuning))
    if tuning.ended == "budget" and not is_tried:
        return "not measured"
    if any(rung.gate.word == "undecided" for rung in unkept(tuning)):
        return "gate undecided"
    return "unclear" if open_races(tuning) else "nothing"


def unkept(tuning: Tuning) -> list[Rung]:
    """Changes that came out faster or smaller, and were not kept."""
    return [rung for rung in list_tried(tuning) if rung.verdict in ("faster", "smaller") and not rung.kept]


def open_races(tuning: Tuning) -> list[Rung]:
    """Changes whose races leave open whether they are worth having."""
    return [
        rung
        for rung in list_tried(tuning)
        if rung.verdict == "unclear" and rung.ci95
        if rung.ci95[1] >= (MAY_GAIN if (rung.speedup or 0.0) >= 1.0 else MAY_HELP)
    ]


def peaks(tuning: Tuning) -> tuple[int | None, int | None]:
    """Peak bytes of the baseline and with the final set, measured again."""
    first, last = tuning.baseline, tuning.final
    return (first.peak if first else None), (last.peak if last else None)


def dry(run: Run) -> bool:
    """Whether the session only diagnosed (--dry-run)."""
    return run.tuning is not None and run.tuning.ended == DRY


def exit_code(run: Run) -> ExitCode:
    """The exit code of the outcome."""
    return _CODES[outcome(run)]


def control(tuning: Tuning) -> Rung | None:
    """The race of the script against itself; None when it was not run."""
    return next((rung for rung in tuning.ladder if rung.name == CONTROL and rung.rounds), None)


def detectable(run: Run) -> float | None:
    """Smallest gain that could be shown, as a share of a step; None if it is not known.

    The control changes nothing. If it came out different, no gain inside its interval was claimed: the search
    widens its margin so."""
    tuning = run.tuning
    if tuning is None:
        return None
    smallest = (tuning.before.detectable if tuning.before else None) or None
    race = control(tuning)
    if race is None or race.verdict not in ("faster", "slower") or race.rounds < run.constants.control_rounds:
        return smallest
    ends = [math.expm1(abs(math.log(end))) for end in race.ci95 or () if end > 0]
    return max(smallest or 0.0, min(run.constants.widest_margin, max(ends))) if ends else smallest


def in_measured_steps(tuning: Tuning) -> Tuning:
    """The session with every time of a step on the scale of the steps that were measured again.

    A diagnosis leaves parts out: seconds of its own would be another answer to how long a step takes."""
    before, after = (tuning.before, tuning.baseline), (tuning.after, tuning.final)
    return structs.replace(tuning, before=_in_measured(*before), after=_in_measured(*after))


def _in_measured(diagnosis: Diagnosis | None, measured: Measured | None) -> Diagnosis | None:
    if diagnosis is None or measured is None:
        return diagnosis
    if not all(0 < each < math.inf for each in (diagnosis.step, measured.step)):
        return diagnosis
    factor = measured.step / diagnosis.step
    return structs.replace(
        diagnosis,
        step=measured.step,
        shares={name: factor * seconds for name, seconds in diagnosis.shares.items()},
        what_if={name: factor * seconds for name, seconds in diagnosis.what_if.items()},
        suspects=[structs.replace(suspect, saves=factor * suspect.saves) for suspect in diagnosis.suspects],
        sentence=diagnosis.sentence.replace(show(diagnosis.step, "s"), show(measured.step, "s")),
    )


def list_kept(tuning: Tuning) -> list[Applied]:
    """Changes of the final set that were raced; threads that go with the instances are part of the setup."""
    raced = {rung.name for rung in tuning.ladder}
    return [each for each in tuning.recipe if each.name in raced or not raced]


def list_tried(tuning: Tuning) -> list[Rung]:
    """Rungs that were raced or failed in the attempt, the control left out."""
    return [r for r in tuning.ladder if r.name != CONTROL and r.verdict not in ("not tried", "suggested")]
