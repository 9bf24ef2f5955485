"""The result of a tuning session in one line, and the next command."""

import math

from laptime.analysis import tuned
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.quantity import BROKEN, KEPT
from laptime.records.run import Run
from laptime.records.tuning import Rung, Tuning
from laptime.reports import _words
from laptime.reports.commands import again
from laptime.reports.document import Headline, Tone
from laptime.reports.documents.tuning import words

_VERIFIED = {
    "faster": "still holds",
    "smaller": "still holds",
    "unclear": "undecided",
    "gate undecided": "undecided",
    "not measured": "undecided",
    "interrupted": "interrupted",
    "failed": "failed",
}
_GAINED = ("faster", "smaller")
_OPEN = ("unclear", "not measured", "interrupted", "limit undecided")  # outcomes that more time would decide
MORE_OPEN, MORE_UNTRIED = 2, 4
"""Budgets of the next session if something was left open, and where not even one change could be tried."""


def headline(run: Run) -> Headline:
    """The outcome with its numbers; for `verify` first whether the earlier result still holds."""
    tuning = run.tuning
    assert tuning is not None
    outcome = tuned.outcome(run)
    word, sentence, tone = _with_gain(tuning, outcome) or _without_gain(run, tuning, outcome)
    if run.verb == "verify":
        word, sentence = _VERIFIED.get(outcome, "no longer holds"), f"{word}: {sentence}"
    return Headline(word, tone, _words.printable(sentence), next=next_steps(run))


def _with_gain(tuning: Tuning, outcome: tuned.Outcome) -> tuple[str, str, Tone] | None:
    """Word, sentence and tone of a session that measured the whole again; None for others."""
    gain = _gain(tuning)
    match outcome:
        case "faster":
            doubt = _doubt(tuning)
            return gain, _rates(tuning) + doubt, "noisy" if doubt else "trusted"
        case "smaller":
            return gain, _sizes(tuning), "trusted"
        case "gate failed" | "gate undecided":
            return outcome, _say_ungated(tuning), "invalid" if outcome == "gate failed" else "noisy"
        case "patch fails":
            return outcome, f"{_broken(tuning)}; measured again: {gain}", "invalid"
        case "limit broken" | "limit undecided":
            return outcome, _limits(tuning, gain), "invalid" if outcome == "limit broken" else "noisy"
        case "same" | "slower" | "unclear" if tuning.recipe:
            changes = f"{count(len(tuned.list_kept(tuning)), 'change')} kept"
            return gain, f"{changes}; {_rates(tuning)}", "invalid" if outcome == "slower" else "noisy"
    return None


def _without_gain(run: Run, tuning: Tuning, outcome: tuned.Outcome) -> tuple[str, str, Tone]:
    number, recipe = len(tuned.list_tried(tuning)), count(len(tuned.list_kept(tuning)), "change")
    match outcome:
        case "dry run":
            named = [rung for rung in tuning.ladder if rung.name != tuned.CONTROL]
            shown = sum(rung.verdict == "suggested" for rung in named)
            tries, more = (
                count(len(named) - shown, "change"),
                f"; {shown} more would be suggested" if shown else "",
            )
            return outcome, f"{tries} would be tried, in at most {show(tuning.budget, 's')}{more}", "unknown"
        case "failed":
            return outcome, f"the {words.kind(tuning).name} did not run to the end of the session", "invalid"
        case "interrupted":
            recipe = f", {len(tuned.list_kept(tuning))} of them kept" if tuning.recipe else ""
            has = f", and the {place} has them" if (place := _place(tuning)) else ""
            text = f"{count(number, 'change')} tried{recipe}{has}; the whole was not measured again"
            return outcome, text, "noisy"
        case "not measured" if tuning.recipe:
            return outcome, f"{recipe} kept, but {_say_why(tuning)}", "noisy"
        case "not measured" if tuning.shortfall:
            return outcome, tuning.shortfall.sentence, "noisy"
        case "not measured":
            if tuning.why_ended and number:
                return outcome, f"no change could be decided: {tuning.why_ended}", "noisy"
            what = "could be decided" if number else "was tried"
            return outcome, f"the budget of {show(tuning.budget, 's')} ended before a change {what}", "noisy"
    better = "made it smaller" if tuning.goal == "memory" else "made it faster"
    broken = [rung for rung in tuned.list_tried(tuning) if rung.verdict == "failed"]
    text = f"{count(number, 'change')} tried, none {better}" if number else "no change could be tried"
    if broken and len(broken) == number:
        return "nothing gained", f"{number} tried, none ran; {broken[0].label}: {broken[0].reason}", "unknown"
    if outcome == "unclear":
        races = tuned.open_races(tuning)
        still = ", ".join(f"{rung.label} {words.effect(rung.speedup, rung.ci95)}" for rung in races)
        return "unclear", f"{count(number, 'change')} tried, none kept; still open: {still}", "noisy"
    if won := tuned.unkept(tuning):
        text = f"{count(number, 'change')} tried, none kept; {_say_refused(won[0])}"
    if (smallest := tuned.detectable(run)) is not None:
        unit = words.kind(tuning).unit
        text += f"; {_words.percent(smallest)} of a {unit} is the smallest gain that could be shown"
    return "nothing gained", text, "unknown"


def _say_why(tuning: Tuning) -> str:
    """Say why the gain has no interval, and what the pairs showed that are too few for one."""
    sentence = tuning.shortfall.sentence if tuning.shortfall else "the whole was not measured again"
    if not (tuning.baseline and tuning.final):
        return sentence
    seen = words.ratio(tuning.baseline.step / tuning.final.step)
    pairs = count(tuning.final.processes, "pair")
    return f"{sentence}; {pairs} of processes showed {seen}, too few for an interval"


def _gain(tuning: Tuning) -> str:
    """`2.31x [2.24, 2.38] faster`; for memory `0.58x the memory`."""
    if tuning.goal == "memory":
        before, after = tuned.peaks(tuning)
        return f"{words.ratio(after / before)} the memory" if before and after is not None else "-"
    gain = tuning.speedup
    if tuning.goal == "cost" and gain is not None:
        return f"{words.effect(gain.value, gain.ci95)} as many items per CPU second"
    return words.speedup(gain) if gain else "-"


def _place(tuning: Tuning) -> str:
    """Name the place of the changes that were kept; "" if nothing was handed back."""
    if tuning.server is not None or (tuning.patch.command and not tuning.patch.path):
        return "command line" if tuning.recipe else ""
    return "patch" if tuning.patch.path else "folder" if tuning.model and tuning.model.folder else ""


def _rates(tuning: Tuning) -> str:
    first, last = tuning.baseline, tuning.final
    if first is None or last is None:
        return "measured again in new processes"
    rates = f"{words.rate(first)} -> {words.rate(last)} {words.items(tuning)}/s"
    if tuning.goal == "latency":
        rates = f"{show(first.step, 's')} -> {show(last.step, 's')} {words.name_timed(tuning)}"
    again = words.kind(tuning).again.format(f"{first.processes}+{last.processes}")
    return f"{rates}, measured again {again}"


def _limits(tuning: Tuning, gain: str) -> str:
    """Which limit the final set does not keep for sure, and that nothing that was measured comes nearer."""
    model = tuning.model
    first = next(check for check in tuning.limits if check.outcome is not KEPT)
    lead = "the final flags" if tuning.recipe else "the server as it is"
    if model is not None:
        lead = model.chosen.label if model.chosen is not None else "the final set"
        if len(model.points) > 1 and any(check.outcome is BROKEN for check in model.limits):
            lead += f", the nearest of {count(len(model.points), 'set')} that were measured"
    return f"{lead}: {first.sentence}" + (f"; it is {gain}" if tuning.recipe and tuning.speedup else "")


def _sizes(tuning: Tuning) -> str:
    before, after = tuned.peaks(tuning)
    speed = ""
    if tuning.speedup is not None:
        speed = f", at {words.effect(tuning.speedup.value, tuning.speedup.ci95)} the speed"
    return f"peak {show(before, 'B')} -> {show(after, 'B')}{speed}, measured again in new processes"


def _doubt(tuning: Tuning) -> str:
    """Return the doubt about a gain; "" if there is none."""
    race = tuned.control(tuning)
    if race is not None and race.verdict in ("faster", "slower"):
        return f"; but the control, which changes nothing, came out {race.verdict}"
    return ""


def _say_refused(rung: Rung) -> str:
    gain = f"{rung.label} was {words.effect(rung.speedup, rung.ci95)} as fast"
    verb = "could not be decided by" if rung.gate.word == "undecided" else "failed"
    return f"{gain}, but {verb} its gate: {rung.gate.reason}"


def _say_ungated(tuning: Tuning) -> str:
    undecided = [rung for rung in tuned.unkept(tuning) if rung.gate.word == "undecided"]
    if undecided and not tuning.recipe:
        return _say_refused(undecided[0])
    if tuning.gate.word != "failed" and tuning.convergence.word == "fails":
        return f"it does not train as well: {tuning.convergence.sentence}"
    leads = {"failed": "the final set failed the gate", "none": "the final set was not gated"}
    lead = leads.get(tuning.gate.word, "the gate of the final set is undecided")
    return f"{lead}: {tuning.gate.reason}" if tuning.gate.reason else lead


def _broken(tuning: Tuning) -> str:
    if tuning.patch.contradictions:
        return f"the patch does not do what was raced: {'; '.join(tuning.patch.contradictions)}"
    if tuning.patch.applies is False:
        return "git apply refuses the patch"
    if tuning.patch.same_losses is False:
        return "the patched script does not give the recipe's losses"
    return "the patched script is slower than the script as it is"


def next_steps(run: Run) -> list[str]:
    """Commands to type next: go on, put to use what was found, check it again."""
    tuning = run.tuning
    assert tuning is not None
    outcome, is_tune = tuned.outcome(run), run.verb == "tune"
    if outcome == "dry run":
        return [_again(run)]
    found = _list_next(run, tuning) if tuning.recipe or tuning.server is None else []
    if not _is_open(tuning, outcome):
        return found if outcome in _GAINED else []
    is_cut = outcome == "interrupted"
    lacked = next((check.next for check in run.checks if check.name == "generator"), "")
    if lacked and not is_cut:  # more time would not help
        return [f"{_again(run)}   # {lacked}"]
    if not is_tune or not (is_cut or math.isfinite(tuning.budget)):
        return []
    more = [] if is_cut else ["--budget", _enough(tuning, outcome)]
    folder = tuning.model.folder if tuning.model is not None else ""
    other = ["--export", f"{folder}-2"] if folder else []  # a folder is never overwritten
    return [_again(run, "--resume", *more, *other), *(found[:1] if is_cut and _place(tuning) else [])]


def _is_open(tuning: Tuning, outcome: tuned.Outcome) -> bool:
    """Whether more time would decide what was left open."""
    kind, is_ungated = words.kind(tuning).name, bool(tuning.recipe) and tuning.gate.word == "none"
    of_kind = {
        "script": ("gate undecided",) * is_ungated,
        "server": ("nothing",) * (tuning.ended == "budget"),
    }
    return outcome in (*_OPEN, *of_kind.get(kind, ()))


def _enough(tuning: Tuning, outcome: tuned.Outcome) -> str:
    """The budget to try next: what the session has found to be enough, or a multiple of its own."""
    if tuning.shortfall is not None:
        return f"{tuning.shortfall.budget:.0f}s"
    more = MORE_UNTRIED if outcome == "not measured" else MORE_OPEN
    return f"{max(more * tuning.budget, 60.0):.0f}s"


def _list_next(run: Run, tuning: Tuning) -> list[str]:
    """List the commands that use the final set and that check it again: of a session, not of such a check."""
    apply = [f"git apply {_words.printable(tuning.patch.path)}"] if tuning.patch.path else []
    apply += [_words.printable(tuning.patch.command)] if tuning.patch.command else []
    verify = [f"laptime verify {_words.printable(tuning.recipe_path)}"] if tuning.recipe_path else []
    if tuning.server is not None:
        apply, verify = [_words.printable(tuning.server.command)], [f"laptime verify {run.id}"]
    if tuning.model is not None:
        verify = verify or [_again(run, "--export", "FOLDER")]
    price = ["laptime cost last --usd-per-hour 1"] if tuning.model and tuning.goal == "cost" else []
    return [*apply, *(verify + price if run.verb == "tune" else [])]


def _again(run: Run, *options: str) -> str:
    """The command as it was typed, without --dry-run and with these options before all others."""
    return again(run, *options, verb="tune", without=("--dry-run",))
