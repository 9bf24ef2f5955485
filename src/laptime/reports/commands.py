"""Commands to type next: whole lines that run, with what they are for behind `#`."""

import itertools
import re
import shlex
from collections.abc import Iterator, Sequence

from laptime.kit import registry, units
from laptime.records.run import IN_MEMORY, Run
from laptime.reports._words import printable

_OPEN = re.compile(r"\blaptime bench \.\.\.")  # where a check leaves room for the command that was typed


def whole(advice: str, run: Run | None = None) -> str:
    """Advice as a line that runs: options go into the command as it was typed, and replace its own. advice:
    `--budget 30s   because`, `laptime doctor   (why)`; what is no command stays what it is. run: what was
    measured with the command; without it, options stay as they are."""
    line, _, reason = advice.partition("   ")
    if run is None and not line.startswith("laptime "):
        return advice
    if run is not None and line.startswith("--"):
        line = again(run, *shlex.split(line))
    elif run is not None and _OPEN.search(line):
        line = _OPEN.sub(lambda _: again(run), line)
    elif not line.startswith("laptime "):
        return advice
    reason = reason.strip().removeprefix("# ").removeprefix("(").removesuffix(")")
    return f"{line}   # {reason}" if reason else line


def again(run: Run, *options: str, verb: str = "", without: Sequence[str] = ()) -> str:
    """The command as it was typed, with these options before all others, which replace its own.

    Options of laptime itself may stand before the verb: `laptime -q tune train.py`. What was no command line,
    a call of the Python API, is the verb with its targets; an object of that process is called again.

    without: options without a value that are left out."""
    verb = verb or run.verb
    typed = _find_words(run, verb)
    rest = _others(typed[1:], (*options, *without), options)
    targets = [subject.target for subject in run.subjects]
    if not typed and any(subject.source == IN_MEMORY for subject in run.subjects):
        return _call(verb, targets[0], options)
    # What a suite measured is measured alone: it has options of its own.
    first = typed[0] if typed else "bench" if verb == "suite" else verb
    return printable(shlex.join(["laptime", *first.split(), *options, *(rest or targets or ["TARGET"])]))


def tuning(optimization: str, run: Run) -> str:
    """A session of `tune` that tries one optimization on the program that was profiled.

    "" if the program is a model, and models have no such change."""
    only = ["--only", optimization]
    subject = run.subjects[0] if run.subjects else None
    if subject is not None and subject.source == IN_MEMORY:
        problem = "laptime.Problem(model=model, step=step, loader=loader)"
        return f"laptime.tune({problem}, only=[{optimization!r}])"
    if run.verb != "profile" or subject is None:  # a trace names no script
        return f"tune the script that made it: {shlex.join(['laptime', 'tune', *only])}"
    if ":" in subject.target and optimization not in registry.entries("model_changes"):
        return ""
    program = subject.target.split(" ") if subject.target.startswith("-m ") else [subject.target]
    at = run.command.index(program[-1]) + 1 if program[-1] in run.command else len(run.command)
    return printable(shlex.join(["laptime", "tune", *only, *program, *run.command[at:]]))


def _call(verb: str, target: str, options: Sequence[str]) -> str:
    """`laptime.bench(model, budget=30)`: what is in memory has no name for a command line."""
    if verb == "profile":
        return f"laptime.profile({', '.join(_settings(options))})"
    read = {"--budget": units.seconds, "--precision": units.share}
    typed = [(name, value) for name, value in itertools.pairwise(options) if name in read]
    given = [f"{name.removeprefix('--')}={read[name](value):g}" for name, value in typed]
    return f"laptime.{verb}({', '.join([printable(target), '...', *given])})"


def _settings(options: Sequence[str]) -> Iterator[str]:
    """Options as arguments: `--no-stack --wait 1` is `stack=False`, `wait=1`."""
    for name, value in itertools.pairwise([*options, "--"]):
        field = name.removeprefix("--").replace("-", "_")
        if name.startswith("--no-"):
            yield f"{field.removeprefix('no_')}=False"
        elif name.startswith("--"):
            yield f"{field}={value if value.isdecimal() else repr(value)}"


def with_options(command: Sequence[str], options: Sequence[str], rest: Sequence[str]) -> str:
    """A command with these options before the words that stood behind it, which they replace."""
    return printable(shlex.join(["laptime", *command, *options, *_others(rest, options, options)]))


def _others(words: Sequence[str], without: Sequence[str], options: Sequence[str]) -> list[str]:
    without = [name for name in without if name.startswith("-")]  # a value may be another option's, too
    valued = {name for name, value in itertools.pairwise(options) if not value.startswith("--")}
    kept = [(before, word) for before, word in itertools.pairwise(["", *words]) if before not in valued]
    return [word for _, word in kept if word.partition("=")[0] not in without]


def _find_words(run: Run, verb: str) -> list[str]:
    """The words of the command from its verb on; [] if none was typed that measures this again."""
    words = run.command
    found = next((word for word in (verb, "compare", "check") if word in words), "")
    if words[:1] != ["laptime"] or not found or (found != verb and verb != "bench"):
        return []
    at = words.index(found)
    if found != "suite":
        return words[at:]
    return [] if "perfzero" not in words else ["suite perfzero", *words[words.index("perfzero") + 1 :]]
