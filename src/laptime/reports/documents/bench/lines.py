"""The lines below the table of cases: model, inputs, tokens, start-up, memory, metrics without a column."""

from laptime.analysis.stat import Stat
from laptime.kit.units import estimate, show, show_interval
from laptime.records.case import AS_GIVEN, Case
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports._words import label, printable
from laptime.reports.document import Card
from laptime.reports.documents.bench.reasons import list_unmeasured, say_disturbed
from laptime.reports.documents.bench.table import Stats, headline, metrics, throughputs_of

STARTUP = ("time/import", "time/export", "time/load", "time/compile", "time/first_call", "time/warm_up")
_SHOWN = (
    "latency/", "throughput/", "time/", "params/", "buffers/", "macs", "flops", "memory/", "energy/",
    "tokens/", "bytes/",
)  # fmt: skip
_EVIDENCE = ("evidence/", "disturbance/", "timer/")
_ORIGINS = {
    "given": "as given",
    "known": "known for this model",
    "guessed": "guessed from the model's layers",
}
_MOST = 4


def lines(run: Run, stats: list[Stats]) -> list[tuple[str, str]]:
    """(topic, text) of all that has no column of its own."""
    groups: dict[str, list[tuple[Case, Stat]]] = {}
    columns = {tag for tag, _, _ in metrics(stats)}
    for case, numbers in zip(run.cases, stats, strict=True):
        for tag, stat in numbers.items():
            if tag not in columns and not tag.startswith((*_SHOWN, *_EVIDENCE)):
                groups.setdefault(tag, []).append((case, stat))
    labels = {case.key: f" ({label(case, run)})" if len(run.cases) > 1 else "" for case in run.cases}
    return [
        *(("model", text) for text in models(run, stats)),
        *token_rows(run, stats),
        ("inputs", inputs(run)),
        *(("start-up", _startup_text(*start)) for start in startups(run, stats).items()),
        *_memory(run, stats),
        ("disturbed", say_disturbed(run)),
        *[
            (printable(tag), ", ".join(_with_interval(stat) + labels[case.key] for case, stat in pairs))
            for tag, pairs in groups.items()
        ],
        *(("unmeasured", text) for text in list_unmeasured(run)),
    ]


def number(run: Run, stats: Stats) -> str:
    """The answer for one case: latency with its interval, throughput, and what holds for it."""
    head = headline(stats)
    if head is None or head.value is None:
        return f"not measured: {words.title(run)}"
    (rate,) = throughputs_of([stats])
    parts = [f"{_with_interval(head)} a call ({head.regime})"]
    parts += [_with_interval(rate)] if rate is not None and rate.value is not None else []
    return ", ".join([*parts, words.title(run), words.name_held(run)])


def answer(run: Run, cards: list[Card]) -> list[tuple[str, str]]:
    """The first line of several cases: the fastest call and the highest throughput, each with its case."""
    held = f", {words.name_held(run)}"
    best = [
        f"{estimate(card.figure, card.interval)} ({card.note.removesuffix(held)})"
        for card in cards
        if card.title in ("lowest median latency", "highest throughput")
    ]
    return [("best", "; ".join(best))] if best and run.trust != "invalid" and run.verb != "suite" else []


def agreement(run: Run) -> list[tuple[str, str]]:
    """Before any word on speed: whether it is one model at all, and whether outputs agree, by topic.

    Outputs that do not agree are reasons against the numbers, and stand there."""
    rows = [("model", printable(each.sentence)) for each in run.findings if each.kind.startswith("model/")]
    return rows + [
        ("outputs", f"{words.label(case, run)}: {words.printable(check.sentence)}")
        for case in run.cases
        for check in case.checks
        if check.name == "agreement" and check.outcome == "ok"
    ]


def models(run: Run, stats: list[Stats]) -> list[str]:
    """Describe each model: parameters, work an item, rate."""
    groups: dict[str, list[str]] = {}
    for target in dict.fromkeys(case.target for case in run.cases):
        pairs = [(c, s) for c, s in zip(run.cases, stats, strict=True) if c.target == target]
        if text := _model(run, pairs):
            groups.setdefault(text, []).append(words.printable(target))
    several = len({case.target for case in run.cases}) > 1
    return [f"{', '.join(targets)}: {text}" if several else text for text, targets in groups.items()]


def _model(run: Run, pairs: list[tuple[Case, Stats]]) -> str:
    parts = []
    case, stats = next(((c, s) for c, s in pairs if "params/all" in s or "flops" in s), pairs[0])
    if "params/all" in stats:
        every, trainable = stats["params/all"], stats.get("params/trainable")
        some = trainable is not None and trainable.value != every.value
        few = f" ({trainable.text} trainable)" if some and trainable else ""
        parts.append(f"{every.text} parameters{few}")
    work = [s for tag in ("macs", "flops") if (s := stats.get(tag)) and s.value]
    if work:
        numbers = " = ".join(f"{show((s.value or 0.0) / case.batch, s.unit)}s" for s in work)
        of = "a call" if case.axes.get("batch") == AS_GIVEN else "an item"
        is_least = work[0].at_least
        parts.append(
            f"at least {numbers} {of} ({printable(work[0].note)})" if is_least else f"{numbers} {of}"
        )
    rated = [(c, s) for c, s in pairs if "flops/achieved" in s and s["flops/achieved"].value]
    if rated:
        case, stats = max(rated, key=lambda pair: pair[1]["flops/achieved"].value or 0.0)
        achieved = stats["flops/achieved"]
        text = f"{achieved.text} achieved ({achieved.regime}"
        text += f", {words.label(case, run, target=False)})" if len(pairs) > 1 else ")"
        if (share := stats.get("flops/share_of_peak")) is not None:
            why_none = f"; no share of peak is shown: {printable(share.note)}"
            text += why_none if share.value is None else f", {share.text} of the measured peak"
        parts.append(text)
    return "; ".join(parts)


def startup(stats: Stats) -> list[Stat]:
    """The parts of a start in the order in which they happen; unknown ones last."""
    parts = [stats[tag] for tag in STARTUP if tag in stats]
    return parts + [s for tag, s in stats.items() if tag.startswith("time/") and tag not in STARTUP]


def startups(run: Run, stats: list[Stats]) -> dict[str, Stats]:
    """The numbers of the first case of each variant whose start is known, by the variant's name."""
    groups: dict[str, Stats] = {}
    for case, numbers in zip(run.cases, stats, strict=True):
        if startup(numbers):
            groups.setdefault(words.variant_name(case, run), numbers)
    return groups


def _startup_text(name: str, stats: Stats) -> str:
    notes = {stat.tag: f" ({printable(stat.note)})" if stat.note else "" for stat in startup(stats)}
    text = ", ".join(f"{printable(each.title)} {each.text}{notes[each.tag]}" for each in startup(stats))
    return f"{name}: {text}" if name else text


def memory(stats: Stats) -> list[Stat]:
    """Return all known facts about the memory of a case, the device's first."""
    parts = [stat for tag, stat in stats.items() if tag.startswith("memory/")]
    return sorted(parts, key=lambda stat: not stat.tag.startswith("memory/device"))


def memory_name(stat: Stat) -> str:
    """Whose memory: `device peak`."""
    return words.printable(stat.tag.removeprefix("memory/")).replace("/", " ")


def _memory(run: Run, stats: list[Stats]) -> list[tuple[str, str]]:
    """Return where device memory goes, and what a call adds on the host; the peak is in the table."""
    groups: dict[str, list[str]] = {}
    for case, numbers in zip(run.cases, stats, strict=True):
        place = "device" if "memory/device/peak" in numbers else "host"
        split = [stat for stat in memory(numbers) if stat.tag != f"memory/{place}/peak"]
        if split and (place == "device" or len(run.cases) == 1):
            text = ", ".join(f"{memory_name(s)} {s.text}" for s in split)
            groups.setdefault(text, []).append(words.label(case, run))
    several = len(run.cases) > 1
    return [("memory", f"{'; '.join(w)}: {text}" if several else text) for text, w in groups.items()]


def _with_interval(stat: Stat) -> str:
    text = words.printable(stat.text)
    if stat.ci95 is None or stat.value is None or stat.at_least:
        return text
    return estimate(text, words.printable(show_interval(stat.ci95, stat.value, stat.unit)))


def token_rows(run: Run, stats: list[Stats]) -> list[tuple[str, str]]:
    """(topic, text) of each case of a language model; nothing of others."""
    rows = []
    for case, numbers in zip(run.cases, stats, strict=True):
        if (rate := numbers.get("tokens/rate")) is None:
            continue
        brackets = "" if rate.ci95 is None else f" [{rate.ci95[0]:.3g}, {rate.ci95[1]:.3g}]"
        text = f"{words.label(case, run)}: {rate.text.removesuffix('/s')} tokens/s{brackets}"
        if (moved := numbers.get("bytes/token")) is not None and moved.value:
            text += f"; at least {show(moved.value, 'B')} moved per token, {numbers['bytes/rate'].text}"
            if (share := numbers.get("bytes/share")) is not None:
                text += f", {share.text} of the measured copy bandwidth"
        rows.append(("tokens", text))
    return rows


def inputs(run: Run) -> str:
    """A phrase for each different input, with its case if there are several; empty if none is known."""
    phrases: dict[str, str] = {}
    for case in run.cases:
        if text := _of_calls(case):
            phrases.setdefault(text, label(case, run))
    if len(phrases) < 2:
        return next(iter(phrases), "")
    told = [f"{name}: {text}" for text, name in phrases.items()]
    more = [f"and {len(told) - _MOST} more"] if len(told) > _MOST else []
    return "; ".join([*told[:_MOST], *more])


def _of_calls(case: Case) -> str:
    told = case.details.known_inputs
    shapes, origin = told.shapes, told.origin
    if not shapes or origin == "none":
        return ""
    if origin != "given":
        return ", ".join(printable(part) for part in (shapes, _ORIGINS.get(origin, origin)))
    before = case.details.known_model.inputs.shapes or shapes
    is_other = before != shapes and told.resized
    source = f"cut or repeated from {before}" if is_other else _ORIGINS[origin]
    doubt = case.details.outputs.batch if case.details.outputs else ""
    why = printable("; ".join(str(each) for each in (told.batch_is, doubt) if each))
    is_unknown = case.axes.get("batch") == AS_GIVEN
    lead = "the batch is not known, throughput counts calls" if is_unknown else f"batch {case.batch}"
    return f"{printable(shapes)}, {printable(source)}" + (f"; {lead}: {why}" if why else "")
