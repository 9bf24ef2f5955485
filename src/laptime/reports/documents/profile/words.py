"""A profile in words: names, durations, places in the code, gains, warnings."""

import re
from collections.abc import Iterable
from functools import partial

from laptime.kit.text import count
from laptime.records.check import Finding
from laptime.records.overview import CAUSES as CAUSES
from laptime.records.profile import BOUND as BOUND
from laptime.records.profile import JSON_FORMATS, Profile
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports import shown
from laptime.reports.commands import tuning, whole

# The names of the TensorBoard plugin, in its order, so that its readers find their numbers.
PARTS = {
    "kernel": "Kernel",
    "memcpy": "Memcpy",
    "memset": "Memset",
    "communication": "Communication",
    "runtime": "Runtime",
    "dataloader": "DataLoader",
    "cpu": "CPU Exec",
    "other": "Other",
}
percent = shown.share
time = partial(shown.alone, "time")  # of nanoseconds: `59.3 ms`
size = partial(shown.alone, "bytes")
_LIBRARY = re.compile(
    r"site-packages|dist-packages|<frozen|<built-in|^torch/|/torch/|nn\.Module:|<string>|runpy\.py"
)
_FRAME = re.compile(r"(.+?)\((\d+)\): (.+)", re.DOTALL)
_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|\(anonymous\)::|<unnamed>::")
_CALLED = re.compile(r"(?<=[\w>}\]])\([^()]*\)")
_LAMBDA = re.compile(r"(?:::(?:\{[^{}]*\}|operator(?: const)?|'lambda\d*'))+")
_NAMESPACE = re.compile(r"\b(?:[a-zA-Z_]\w*::)+")
_WRAPPED = re.compile(r"^(?:\w+::)*Kernel2?<(.+)>$")
_CUT = "the file ends in the middle; what came before was used"
_CONSTANT = re.compile(r"\((?:int|unsigned int|bool|long)\)")


def bound(profile: Profile) -> str:
    """The verdict's word: `input-bound`."""
    return BOUND[profile.verdict.bound] if profile.verdict else BOUND["unknown"]


def sentence(profile: Profile) -> str:
    """The verdict in words, without the word that stands before it."""
    if profile.verdict is None:
        return "the trace does not show what limits the step"
    text = words.printable(profile.verdict.sentence)
    head = f"{bound(profile)}: "
    return text[len(head) :] if text.lower().startswith(head.lower()) else text


def share(part: float, whole: float) -> str:
    """Part of a whole in percent; `-` of nothing."""
    return percent(part / whole) if whole else "-"


def title(run: Run, profile: Profile) -> str:
    """Return the title of a profile: its name, the target, else the files."""
    names = [subject.target for subject in run.subjects] or [file.name for file in profile.files]
    what = words.printable(names[0]) if names else ""
    what += f" and {len(names) - 1} more" if len(names) > 1 else ""
    if run.name and what:
        return f"{words.printable(run.name)} ({what})"
    return what or words.title(run)


def where(run: Run, profile: Profile) -> list[str]:
    """Devices, ranks, files: one phrase each."""
    several = f"{len(profile.accelerators)} x " if len(profile.accelerators) > 1 else ""
    names = ", ".join(dict.fromkeys(device.name for device in profile.accelerators if device.name))
    if profile.device_type == "cpu":
        several, names = "", run.environment.cpu if run.verb == "profile" else ""
    phrases = [words.printable(f"{several}{profile.device_type}" + (f" ({names})" if names else ""))]
    if profile.ranks:
        of_world = f" of {profile.world}" if (profile.world or 0) > len(profile.ranks) else ""
        phrases.append(f"{len(profile.ranks)} ranks{of_world}")
    elif profile.rank is not None:
        phrases.append(f"rank {profile.rank}" + (f" of {profile.world}" if profile.world else ""))
    phrases += [] if profile.is_snapshot or profile.is_log else [count(profile.overview.steps, "step")]
    events = sum(file.events for file in profile.files)
    many = f"{count(len(profile.files), 'file')}, " if len(profile.files) > 1 else ""
    length = size(sum(file.bytes for file in profile.files))
    form = " of JSON" if all(file.format in JSON_FORMATS for file in profile.files) else ""
    phrases.append(f"{many}{count(events, 'event')}, {length}{form}")
    if run.verb == "profile":
        phrases += words.libraries(run)
    return phrases + words.took(run)


def kernel(name: str, most: int = 60) -> str:
    """A kernel's name without what C++ puts around it: return type, namespaces, parameters, lambdas."""
    text = _ANONYMOUS.sub("", name.removeprefix("void "))
    text = _CONSTANT.sub("", text)
    while (bare := _CALLED.sub("", text)) != text:
        text = bare
    text = _WRAPPED.sub(r"\1", text)
    text = _NAMESPACE.sub("", _LAMBDA.sub("", text.removesuffix(" [clone .kd]"))).strip()
    return cut(words.printable(text) or words.printable(name), most)


def operator(name: str, most: int = 60) -> str:
    """An operator's name."""
    return cut(words.printable(name), most)


def cut(name: str, most: int) -> str:
    """A name with its middle left out, or the end of its template parameters: what tells least."""
    if "<" in name and ", " in name:
        return shorten(name, most)
    head = (most - 1) // 2
    return name if len(name) <= most else f"{name[:head]}…{name[head + 1 - most :]}"


def shorten(text: str, most: int) -> str:
    """The text with its end left out."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip(' ,<')}…"


def place(stack: Iterable[str]) -> str:
    """The innermost frame that is the user's own: `train.py:88 in train`; empty without a stack."""
    frame = next((frame for frame in stack if not _LIBRARY.search(frame)), "")
    parts = _FRAME.fullmatch(frame)
    if not parts:
        return words.printable(frame)
    function = "" if parts[3] in ("<module>", "") else f" in {parts[3]}"
    return words.printable(f"{parts[1]}:{parts[2]}{function}")


def commands(finding: Finding, run: Run) -> list[str]:
    """List the next steps: the finding's own advice, and the session of `tune` that makes the change."""
    steps = [whole(finding.next, run)] if finding.next else []
    if finding.optimization and "laptime tune" not in finding.next:
        steps.append(tuning(finding.optimization, run))
    return [words.printable(step) for step in steps if step]


def first_operator(operators: list[tuple[str, int]]) -> str:
    """The first of a list of (operator, ns), which has the longest first; `DataLoader` for its iterator."""
    name = operators[0][0] if operators else ""
    return "DataLoader" if name.startswith("enumerate(DataLoader)") else operator(name, 48)


def warnings(run: Run, profile: Profile) -> list[str]:
    """List problems of the files, the comparison and the numbers; name files that are of other jobs."""
    texts = []
    for file in profile.files:
        notes = file.warnings or [_CUT] * file.truncated
        texts += [f"{file.name}: {text}" if len(profile.files) > 1 else text for text in notes]
    texts += profile.against.warnings if profile.against else []
    for check in run.checks:
        if (check.outcome in ("warn", "fail") or check.name == "job") and not any(
            text in check.sentence for text in texts
        ):
            texts.append(check.sentence)
    return [words.printable(text) for text in texts]
