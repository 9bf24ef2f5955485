"""How a session of `tune` is put into words. Terminal, Markdown and page agree."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from laptime.analysis import tuned
from laptime.kit.text import count
from laptime.kit.units import decimals, show
from laptime.records.run import Run
from laptime.records.tuning import Applied, Measured, Rung, Speedup, Tuning
from laptime.reports import _words as words
from laptime.reports._profile.words import PARTS as TRACED

NUMERICS = {
    "exact": "bit-identical results",
    "reassociated": "same maths, other rounding",
    "random": "same distribution, other random numbers",
    "precision": "lower precision",
    "algorithm": "another optimisation problem",
}
PARTS = {
    "data": "waiting for data",
    "transfer": "copy to the device",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "other": "other",
}
SPENT = {
    "diagnose": "diagnosing",
    "race": "racing",
    "gate": "gates",
    "measure": "measuring afresh",
    "patch": "patch",
    "compile": "compiling",
    "profile": "profiling both",
}

_HELD = {
    "faster": "still holds",
    "smaller": "still holds",
    "unclear": "undecided",
    "gate undecided": "undecided",
    "not measured": "undecided",
    "interrupted": "interrupted",
    "failed": "failed",
}

_LONGEST_OPTION = 24
_EFFECT = re.compile(r"^\d[\d.]*x \[[^\]]*\] (?=in \d)")
"""A reason that begins with the numbers of its own row."""
_SUGGESTED = "suggested, not applied"

Interval = tuple[float, float] | None


class Verdict(NamedTuple):
    """What comes first. `tone`: trusted, noisy, invalid, unknown; picks the colour."""

    word: str
    sentence: str
    tone: str


def verdict(run: Run) -> Verdict:
    """The session in one line; of `verify` first whether the earlier result holds."""
    own = _verdict(run)
    if run.verb != "verify":
        return own
    lead = _HELD.get(tuned.outcome(run), "no longer holds")
    return Verdict(lead, f"{own.word}: {own.sentence}", own.tone)


def _verdict(run: Run) -> Verdict:
    tuning = run.tuning
    assert tuning is not None
    found = tuned.outcome(run)
    gain = _gain(tuning)
    if found == "faster":
        return Verdict(gain, _rates(tuning) + _unsure(tuning), "noisy" if _unsure(tuning) else "trusted")
    if found == "smaller":
        return Verdict(gain, _sizes(tuning), "trusted")
    if found in ("gate failed", "gate undecided"):
        return Verdict(found, _ungated(tuning), "invalid" if found == "gate failed" else "noisy")
    if found == "patch fails":
        return Verdict(found, f"{_broken(tuning)}; with hooks it was {gain}", "invalid")
    if found in ("same", "slower", "unclear"):
        kept = f"{count(len(tuning.recipe), 'change')} kept; {_rates(tuning)}"
        return Verdict(gain, kept, "invalid" if found == "slower" else "noisy")
    return _without_gain(run, tuning, found)


def _without_gain(run: Run, tuning: Tuning, found: str) -> Verdict:
    """Sessions that have no gain to name."""
    number = len(tuned.tried(tuning))
    if found == "dry run":
        most = len([r for r in tuning.ladder if r.name != tuned.CONTROL])
        told = f"{count(most, 'change')} would be tried, in at most {show(tuning.budget, 's')}"
        return Verdict(found, told, "unknown")
    if found == "failed":
        return Verdict(found, "the script did not run to the end of the session", "invalid")
    if found == "interrupted":
        kept = f", {len(tuning.recipe)} of them kept" if tuning.recipe else ""
        told = f"{count(number, 'change')} tried{kept}; the whole was not measured afresh"
        return Verdict(found, told, "noisy")
    if found == "not measured" and not tuning.recipe:
        what = "could be decided" if number else "was tried"
        return Verdict(
            found, f"the budget of {show(tuning.budget, 's')} ended before a change {what}", "noisy"
        )
    if found == "not measured":
        told = f"{count(len(tuning.recipe), 'change')} kept, but the whole was not measured afresh"
        return Verdict(found, told, "noisy")
    better = "made it smaller" if tuning.goal == "memory" else "made it faster"
    told = f"{count(number, 'change')} tried, none {better}" if number else "no change could be tried"
    if (shown := tuned.detectable(run)) is not None:
        told += f"; {words.percent(shown)} of a step is the least that could be shown"
    return Verdict("nothing gained", told, "unknown")


def _gain(tuning: Tuning) -> str:
    """`2.31x [2.24, 2.38] faster`; of memory `0.58x the memory`."""
    if tuning.goal == "memory":
        before, after = tuned.peaks(tuning)
        return f"{ratio(after / before)} the memory" if before and after is not None else "-"
    if tuning.speedup is None:
        return "-"
    word = {"same": "the same speed"}.get(tuning.speedup.word, tuning.speedup.word)
    return f"{effect(tuning.speedup.value, tuning.speedup.ci95)} {word}"


def _rates(tuning: Tuning) -> str:
    first, last = tuning.baseline, tuning.final
    if first is None or last is None:
        return "measured afresh in new processes"
    told = f"{rate(first)} -> {rate(last)} samples/s, measured afresh"
    return f"{told} in {first.processes}+{last.processes} new processes"


def _sizes(tuning: Tuning) -> str:
    before, after = tuned.peaks(tuning)
    told = f"peak {show(before, 'B')} -> {show(after, 'B')}"
    if tuning.speedup is not None:
        told += f", at {effect(tuning.speedup.value, tuning.speedup.ci95)} the speed"
    return f"{told}, measured afresh in new processes"


def _unsure(tuning: Tuning) -> str:
    """What keeps a gain from being beyond doubt; "" when nothing does."""
    race = tuned.control(tuning)
    if race is not None and race.verdict in ("faster", "slower"):
        return f"; but the control, which changes nothing, came out {race.verdict}"
    return ""


def _ungated(tuning: Tuning) -> str:
    if tuning.gate.word != "failed" and tuning.convergence.word == "fails":
        return f"it does not train as well: {words.printable(tuning.convergence.sentence)}"
    said = {"failed": "the final set does not train the same", "none": "the final set was not gated"}
    lead = said.get(tuning.gate.word, "whether the final set trains the same is not known")
    why = words.printable(tuning.gate.reason)
    return f"{lead}: {why}" if why else lead


def _broken(tuning: Tuning) -> str:
    patch = tuning.patch
    if patch.applies is False:
        return "git apply refuses the patch"
    if patch.same_losses is False:
        return "the patched script does not give the recipe's losses"
    return "the patched script is slower than the script as it is"


def title(run: Run) -> str:
    """The script, with the run's name before it where it has one."""
    what = words.printable(run.subjects[0].target) if run.subjects else words.title(run)
    return f"{words.printable(run.name)} ({what})" if run.name else what


def where(run: Run) -> list[str]:
    """The machine and how the session went: one phrase each."""
    tuning = run.tuning
    assert tuning is not None
    asked = [f"goal {tuning.goal}"] if tuning.goal != "throughput" else []
    # Seconds stand in the session's own line, processes in the verdict's.
    machine = [each for each in words.where(run) if not each.startswith("took ") and "process" not in each]
    return [*machine, *asked, tuning.mode, _trials(tuning)]


def _trials(tuning: Tuning) -> str:
    return "1 trial process" if tuning.trials == 1 else f"{tuning.trials:,} trial processes"


def effect(value: float | None, ci95: Interval) -> str:
    """`2.31x [2.24, 2.38]`, digits no finer than the interval."""
    if value is None:
        return "-"
    if ci95 is None or not all(map(math.isfinite, ci95)):
        return ratio(value)
    digits = min(3, max(1, decimals(value, (ci95[1] - ci95[0]) / 2)))
    return f"{value:.{digits}f}x [{ci95[0]:.{digits}f}, {ci95[1]:.{digits}f}]"


def ratio(value: float | None) -> str:
    """`0.58x`; `-` where nothing is known."""
    return "-" if value is None else f"{value:.2f}x"


def rate(own: Measured) -> str:
    """Samples per second with the digits that its step's interval supports."""
    if own.ci95 is None or not all(0 < end < math.inf for end in (*own.ci95, own.step)):
        return per_second(own.throughput)
    low, high = (own.throughput * own.step / end for end in reversed(own.ci95))
    return per_second(own.throughput, (low, high))


def per_second(value: float | None, ci95: Interval = None) -> str:
    """A rate without its unit, which the column or the sentence has: `2,480`."""
    return show(value, "1/s", ci95).removesuffix("/s")


def label(rung: Rung) -> str:
    """The change with its short options, on one line."""
    return _short(rung.name, rung.options) if rung.options else words.printable(rung.label or rung.name)


def change(own: Applied) -> str:
    """`num_workers=2`, `compile mode=default`."""
    return _short(own.name, own.options)


def _short(name: str, options: dict[str, Any]) -> str:
    """Lists and long texts are left to --json: they are settings of an edit, not what tells changes apart."""
    shown = [(key, value) for key, value in options.items() if _is_short(value)]
    if len(shown) == 1 and shown[0][0] in (name, "value"):
        return words.printable(f"{name}={shown[0][1]}")
    return words.printable(" ".join([name, *(f"{key}={value}" for key, value in shown)]))


def _is_short(value: object) -> bool:
    return isinstance(value, bool | int | float | str) and 0 < len(str(value)) <= _LONGEST_OPTION


def kept(rung: Rung) -> str:
    """yes, no, or dropped by leave-one-out."""
    return "dropped" if rung.dropped else "yes" if rung.kept else "no"


def gate(rung: Rung) -> str:
    """The gate's word; nothing where none was asked."""
    return "" if rung.gate.word == "none" else rung.gate.word


def reason(rung: Rung) -> str:
    """Why it was kept or not, with what compiling cost and why its edit is not in the patch."""
    said = _EFFECT.sub("", rung.reason)
    if rung.verdict == "suggested":
        said = said.removeprefix(_SUGGESTED).lstrip(":; ")
    told = [words.printable(said)] if said else []
    if rung.pays_back:
        told.append(f"compiling pays back after {count(rung.pays_back, 'step')}")
    if rung.edit:
        told.append(f"not in the patch: {words.printable(rung.edit)}")
    return "; ".join(told)


def spent(run: Run) -> str:
    """`9.0 min of 10.0 min: racing 262 s, ...`: what the session cost."""
    tuning = run.tuning
    assert tuning is not None
    told = f"{show(run.seconds, 's')} of {show(tuning.budget, 's')}"
    parts = sorted(tuning.seconds_by.items(), key=lambda each: -each[1] if math.isfinite(each[1]) else 0.0)
    named = [f"{SPENT.get(name, words.printable(name))} {show(value, 's')}" for name, value in parts if value]
    ended = " (the budget ended it)" if tuning.ended == "budget" else ""
    return f"{told}{ended}" + (f": {', '.join(named)}" if named else "")


def verified(tuning: Tuning) -> list[str]:
    """What became of the patch when it was tried out."""
    patch, told = tuning.patch, []
    if patch.applies is not None:
        told.append("git apply --check " + ("says yes" if patch.applies else "refuses it"))
    if patch.speedup is not None:
        whole = tuning.speedup
        # The gain is that of the patched script where every change is in the patch.
        is_gain = whole is not None and bool(whole.ratios) and whole.ratios == patch.speedup.ratios
        own = f"the patched script, without hooks, is {_speed(patch.speedup)}"
        told.append("the gain above is that of the patched script, without hooks" if is_gain else own)
    if patch.same_losses is not None:
        same = "the recipe's losses" if patch.same_losses else "other losses than the recipe"
        told.append(f"it gives {same}")
    if patch.sentence and (patch.speedup is None or not patch.path):
        told.append(words.printable(patch.sentence))
    return told or (["not tried out"] if patch.path else [])


def _speed(own: Speedup) -> str:
    return f"{effect(own.value, own.ci95)} {own.word}"


def part(name: str) -> str:
    """A part of a step in words."""
    return PARTS.get(name) or TRACED.get(name) or words.printable(name)
