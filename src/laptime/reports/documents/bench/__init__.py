"""A benchmark as a document: verdict, the table of cases, comparisons, what was learned besides, drawings."""

import msgspec

from laptime.analysis.summary import summarize
from laptime.records.check import Finding
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports import document as doc
from laptime.reports.commands import whole
from laptime.reports.documents import verdicts
from laptime.reports.documents.bench import comparisons, costs, curves, data, lines, machine, reasons, samples
from laptime.reports.documents.bench.reasons import Reason, junit_cases
from laptime.reports.documents.bench.table import Stats, cards, headline, table


def document(run: Run) -> doc.Document:
    """Everything that a report says about a benchmark."""
    stats = [summarize(case, run.constants) for case in run.cases]
    doubts = reasons.reasons(run)
    commands = [each.next for each in reasons.against(doubts) if each.next]
    because = reasons.because(run, [headline(numbers) for numbers in stats], doubts)
    best, trust = cards(run, stats), doc.Facts([(run.trust, because)])
    first = trust if _has_answer(run) else doc.Facts(lines.answer(run, best), detail="text")
    return doc.Document(
        run=run,
        verb=run.verb,
        title=words.title(run),
        verdict=_headline(run, because, commands[:1], best),
        conditions=words.where(run),
        cards=best,
        brief=_brief(run, stats, because, best),
        answers=_has_answer(run),
        sections=_sections(run, stats, doubts, first),
        cases=junit_cases(run),
        data=lambda: msgspec.json.decode(msgspec.json.encode(data.report(run, stats), enc_hook=str)),
        embedded=True,
        about="The same numbers for machines are in this page as JSON, in the element #report.",
    )


def _sections(run: Run, stats: list[Stats], doubts: list[Reason], first: doc.Facts) -> list[doc.Section]:
    cases, regimes = table(run, stats), words.REGIMES
    shown = dict.fromkeys(column.regime for column in cases.columns if column.regime in regimes)
    held = [doc.Text(words.name_held(run)), doc.Text("; ".join(f"{name}: {regimes[name]}" for name in shown))]
    brackets = "In brackets: the 95 % interval." if cases.has_intervals else ""
    compared = comparisons.describe(run)
    sentences = [("compared", f"{sides}: {sentence}") for _, sides, sentence in compared]
    told = doc.Facts([*lines.agreement(run), *sentences], detail="text")
    about = [
        doc.Facts(lines.lines(run, stats)),
        _doubts(run, doubts),
        doc.Facts(machine.brief(run), detail="folded"),
    ]
    folded = doc.Folded("Model, checks and environment", about, detail="text")
    return [
        doc.Section("numbers", "The numbers themselves", [first], headed=False),
        doc.Section("cases", "Cases", [*held, cases], headed=False, note=brackets),
        doc.Section("failures", "Failures", verdicts.failures(run), headed=False),
        doc.Section("findings", "Findings", [told, _findings(run), folded], headed=False),
        curves.against_batch(run, stats),
        comparisons.strips(compared),
        samples.section(run, stats),
        curves.over_time(run),
        costs.section(run, stats),
        costs.cores(run),
        machine.section(run),
    ]


def _headline(run: Run, because: str, commands: list[str], best: list[doc.Card]) -> doc.Headline:
    """The answer to a comparison or a search; else whether the numbers can be trusted, and the first."""
    if _is_compared(run):
        described = comparisons.describe(run)
        return comparisons.sum_up([row for row in described if not comparisons.is_per_item(row[0])], commands)
    if knee := _knee(run):
        batch, sizes = knee.evidence.get("knee"), sorted(knee.evidence.get("candidates") or [])
        between = f"batch {sizes[0]} to {sizes[-1]}: not decided" if len(sizes) > 1 else "undecided"
        word, then = between if batch is None else f"batch {batch}", whole(knee.next, run)
        tone = "noisy" if batch is None else run.trust
        sentence = knee.sentence.removeprefix(f"{word} is ")
        return doc.Headline(word, tone, sentence, next=[then] if then else commands)
    failed = bool(run.cases) and all(case.status == "failed" for case in run.cases)
    figure = best[0].figure if best and run.trust != "invalid" else ""
    word = "failed" if failed else run.trust
    return doc.Headline(word, run.trust, because, next=commands, figure=figure)


def _is_compared(run: Run) -> bool:
    """Whether the run is about which of several is faster; the sizes of a batch sweep are compared beside."""
    return run.trust != "invalid" and any(not comparisons.is_per_item(each) for each in run.comparisons)


def _has_answer(run: Run) -> bool:
    return _is_compared(run) or _knee(run) is not None


def _knee(run: Run) -> Finding | None:
    """The finding of a search for a batch size."""
    is_asked = run.trust != "invalid" and not _is_compared(run)
    return next((finding for finding in run.findings if is_asked and finding.kind == "batch/knee"), None)


def _brief(run: Run, stats: list[Stats], because: str, best: list[doc.Card]) -> list[doc.Block]:
    """The numbers: a line for a single case, else the best ones and the table; the trust if the verdict
    is another one."""
    failures = verdicts.failures(run)
    trust = [doc.Facts([(run.trust, because)])] if _has_answer(run) else []
    if _is_compared(run):
        return [*trust, *failures]
    numbers: doc.Block = table(run, stats)
    if len(run.cases) == 1 and (headline(stats[0]) is not None or failures):
        numbers = doc.Facts([("latency", lines.number(run, stats[0]))])
    best_of = [] if trust else [doc.Facts(lines.answer(run, best))]
    return [*best_of, numbers, *trust, *failures]


def _findings(run: Run) -> doc.Notices:
    told = _knee(run)
    shown = [f for f in run.findings if not f.kind.startswith(("model/", "check/")) and f is not told]
    levels = ["finding" if each.severity == "info" else each.severity for each in shown]
    rows = zip(levels, shown, strict=True)
    return doc.Notices([doc.Notice(level, each.sentence, whole(each.next, run)) for level, each in rows])


def _doubts(run: Run, doubts: list[reasons.Reason]) -> doc.Notices:
    """Reasons beside the one in the verdict; failures have their own lines."""
    failed = {c.failure.kind for c in run.cases if c.failure and c.status in ("failed", "skipped")}
    against = reasons.against(doubts)
    said = against[0].name if against else ""  # with the verdict
    groups = [group for group in reasons.likewise(doubts) if group[0].name != said]
    command = next((each.next for each in against if each.next), "")
    rows = [
        doc.Notice(
            verdicts.LEVELS.get(first.outcome, first.outcome),
            reasons.say_group(group, run),
            whole(first.next, run) if first.next != command else "",
        )
        for group in groups
        if (first := group[0]).name not in failed
    ]
    return doc.Notices(rows)
