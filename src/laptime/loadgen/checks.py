"""Is this level of load true? What the server did (was it answered, are tokens counted, could it keep up),
and what the generator did that nobody may take for the server: it sent late, stood still, had no CPU.

A check is a pure function of a level and its numbers (None if no request was answered), and returns None if
there is nothing to say."""

import math
import operator
from collections.abc import Callable

import numpy as np
from msgspec import structs

from laptime.analysis.load import QUANTILES, LevelStats
from laptime.analysis.open_loop import FEWEST_LOST, grew_since, longest_pause, step
from laptime.analysis.quantiles import Floats, effective_size_of_mean
from laptime.kit.text import count
from laptime.kit.units import percent, show
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.load import AT_ONCE, Level, count_here

MOST_FAILED = 0.01
MOST_FAILED_OF_ALL = 0.5
"""Beyond it the others are the few that came through, and their latency is not that of the load asked for."""
_LOOK = "read what the server printed, and repeat this when it is up"
ROUGHLY = 0.1
TTFT_SLACK = 0.001  # Seconds: two clocks of one machine, read by two processes
_ALONE = "repeat this while nobody else sends to this server"
LONGEST = 7200  # seconds of a level that is advised: a queue that needs more is seen better at a lower rate
WIDEST = 0.05  # as of a benchmark (`measure/checks/precision.py`): beyond it a number is `noisy`
FEWEST = 30
"""Independent requests: fewer show too little of the queue's memory for an interval to cover as it says."""
ALIKE = 0.5  # of the requests that are worth as independent ones: below it they are plainly alike
MOST_OF_A_FIGURE = 0.05  # of a reported figure: so much of it may be the generator's
_QUIET = "repeat this on a machine with nothing else to do"
_BESIDE = "pin them apart: taskset -c 0 for the server, -c 1 for laptime; or send from another machine"
"""If the generator kept up on loopback before: the server took its CPU, or another program."""
BUSIEST = 0.7
_ZERO = 1e-9  # seconds below which a figure is zero
_Lost = Callable[[Floats, Floats, Floats], Floats]
"""Seconds of each request that may be the generator's: of when it was due, what it took, how late it was."""


def run_all(case: Case, stats: LevelStats | None) -> list[Check]:
    """The answers of all checks that have something to say, worst first."""
    made = [each(case, stats) for each in _CHECKS]
    order = {"fail": 0, "warn": 1, "note": 2, "ok": 3}
    return sorted((check for check in made if check is not None), key=lambda c: order[c.outcome])


def answers(case: Case, stats: LevelStats | None) -> Check | None:
    """Were the requests answered? Those that failed took forever, as far as a promise about latency goes.

    Fail if most were not, or from some second on nobody was; warn above 1 % of failures, note fewer."""
    facts = case.details.load
    if facts is None or not facts.failed:
        return None
    total = facts.answered + facts.failed
    kinds = ", ".join(f"{error.kind} {error.count}" for error in facts.errors)
    example = facts.errors[0].example if facts.errors else ""
    said = f": {example}" if example else ""
    if stats is None or not facts.answered:
        return Check("answers", "fail", f"none of {total} requests was answered ({kinds}){said}")
    share = facts.failed / total
    sentence = f"{facts.failed} of {total} requests ({percent(share)}) failed ({kinds}){said}"
    due, whole = stats.requests.due, np.isfinite(stats.requests.latency)
    if stats.dead is not None:
        since = max(stats.dead - due[0], 0.05)
        return Check("answers", "fail", f"no answer came from second {since:.1f} on: {sentence}", _LOOK)
    if share > MOST_FAILED_OF_ALL:
        sentence += ": what the few others took is not a figure of the server"
        return Check("answers", "fail", sentence, _LOOK)
    if (first := int(np.argmax(whole))) >= FEWEST_LOST:
        sentence += f", all that came before second {due[first] - due[0]:.1f} among them"
    warns = share > MOST_FAILED
    return Check("answers", "warn" if warns else "note", sentence, _LOOK * warns)


def tokens(case: Case, stats: LevelStats | None) -> Check | None:
    """Are tokens what the server counted, and as many as were asked for?

    Fail if tokens were not counted; note answers that ended early, and prompts of another length."""
    facts, made = (stats.facts, stats.tokens) if stats else (None, None)
    if facts is None or facts.asked is None or made is None:
        return None
    if facts.uncounted:
        missing = f"the server gave no usage for {facts.uncounted} of {facts.answered} answers: "
        missing += "their tokens are not known, and a chunk may hold several"
        return Check("tokens", "fail", missing, "a server that knows stream_options.include_usage")
    asked, counted, more = facts.asked[1], made.output * facts.answered, ""
    if facts.chunks > counted + 0.5:
        more = f"{facts.chunks} chunks held text, the server counted {counted:.0f} tokens"
    elif made.output > asked + 0.001:
        more = f"it counted {made.output:.1f} tokens an answer, at most {asked} were requested"
    if more:
        advice = "--body x.json   measures without tokens"
        return Check("tokens", "fail", f"the server's usage cannot be true: {more}", advice)
    if made.short:
        sentence = f"{percent(made.short)} of the answers are shorter than the requested {asked} tokens, "
        sentence += f"{made.output:.1f} on average: do not compare them with full ones"
        return Check("tokens", "warn", sentence, "a server that knows ignore_eos")
    if made.prompt and abs(made.prompt - facts.asked[0]) > ROUGHLY * facts.asked[0]:
        sentence = f"prompts had {made.prompt:.0f} tokens, {facts.asked[0]} were requested"
        return Check("tokens", "note", sentence)
    return Check("tokens", "ok", f"{made.prompt:.0f} tokens in, {made.output:.0f} out, as the server counts")


def server_counts(case: Case, stats: LevelStats | None) -> Check | None:
    """Does the server count what was counted here? Its `/metrics` saw the same requests from the other side.

    Fail if requests or tokens differ by one, or the server's first token came later than ours."""
    server = stats.facts.server if stats else None
    if stats is None or server is None:
        return None
    ours = count_here(case.requests, stats.facts)
    names = ("requests", "prompt tokens", "output tokens")
    pairs = zip(names, structs.astuple(server), structs.astuple(ours), strict=False)
    # To the unit; of requests that failed here the server may have counted any part.
    agree = operator.ge if stats.facts.failed else operator.eq
    differ = [f"{of}: {there:,} there, {here:,} here" for of, there, here in pairs if not agree(there, here)]
    if differ:
        sentence = f"the server's /metrics disagrees ({'; '.join(differ)})"
        return Check("server_counts", "fail", sentence, _ALONE)
    known, is_same = (server.ttft, ours.ttft), server.first_tokens == ours.first_tokens
    if None not in known and is_same and (server.ttft or 0.0) > (ours.ttft or 0.0) + TTFT_SLACK:
        sentence = (
            f"the server's /metrics says {show(server.ttft, 's')} to the first token on average, more than "
            f"the {show(ours.ttft, 's')} from sending to reading it here"
        )
        return Check("server_counts", "fail", sentence, "laptime doctor")
    sentence = f"the server's /metrics counts the same {server.requests} requests and their tokens"
    return Check("server_counts", "ok", sentence)


def capacity(case: Case, stats: LevelStats | None) -> Check | None:
    """Could the server keep up? A queue that grows has no latency but the length of the window: warn."""
    if stats is None or not stats.balance.grows:
        return None
    rate = stats.answered.value or 0.0
    came = stats.facts.rate or rate + stats.balance.growth
    since = grew_since(stats.requests.due, stats.requests.end)
    sentence = (
        f"unstable: above capacity{f' from second {since:.0f} on' if since else ''}. "
        f"About {show(rate, '1/s')} were answered, {show(max(0.0, came - rate), '1/s')} more came; in this "
        f"window p95 is {show(stats.window, 's')}, and later requests would wait longer"
    )
    return Check("capacity", "warn", sentence, f"--rate {0.7 * rate:.3g}")


def enough(case: Case, stats: LevelStats | None, widest: float = WIDEST) -> Check | None:
    """Was the window long enough for an interval? Warn if the mean has none, or one that is wide."""
    if stats is None or stats.balance.grows or stats.dead is not None:
        return None
    if stats.facts.arrivals == AT_ONCE:
        # Where all requests are due at once the figure is how many are answered per second.
        known = stats.answered.precision
        if known is not None and known <= WIDEST:
            return None
        sentence = "too few answers for an interval"
        if known is not None:
            sentence = f"answered/s is known to ±{percent(known)} only"
        short = max(4.0, ((known or 0.0) / WIDEST) ** 2)
        return Check("enough", "warn", sentence, f"--requests {short * stats.answered.n:.0f}")
    mean = stats.latency["mean"]
    latency = stats.requests.latency[stats.steady :]
    independent = effective_size_of_mean(latency[np.isfinite(latency)])
    if mean.precision is not None and mean.precision <= widest and independent >= FEWEST:
        return None
    short = max(4.0, ((mean.precision or 0.0) / widest) ** 2)  # an interval narrows with the root of the time
    seconds = _round_up(short * (stats.facts.window or 10.0))
    advice = f"--duration {seconds}s"
    if seconds > LONGEST:
        advice = f"--duration auto --budget {LONGEST / 3600:g}h"
    if stats.facts.arrivals == "trace":
        advice = "a longer trace"
    if mean.precision is None:
        return Check("enough", "warn", f"{mean.n} answers are too few for an interval", advice)
    if mean.precision <= widest:
        sentence = f"{mean.n} requests are worth {independent:.0f} independent ones: intervals may be short"
        return Check("enough", "warn", sentence, advice)
    alike = ": requests that queue repeat each other" if independent < ALIKE * mean.n else ""
    return Check("enough", "warn", f"the mean is known to ±{percent(mean.precision)} only{alike}", advice)


def find_pause(case: Case, stats: LevelStats | None) -> Check | None:
    """Was there a time in which nobody was answered, longer than any other? It is in the figures."""
    rows = stats.requests if stats else None
    users = stats.facts.users if stats else 0
    pause = rows and longest_pause(rows.due, rows.end, np.isfinite(rows.latency), users)
    if rows is None or pause is None:
        return None
    begin, end, came = pause
    when = f"from second {begin - rows.due[0]:.1f} to {end - rows.due[0]:.1f} no answer came"
    sent_after = (rows.due < end) & (rows.due + rows.late > 0.9 * end + 0.1 * begin)
    if stats and stats.facts.kind == "open" and 2 * np.sum((rows.due > begin) & sent_after) > came:
        return Check("stalled", "fail", f"the generator stood still: {when}, and nothing was sent", _QUIET)
    return Check("stood_still", "note", f"the server stood still: {when}, {count(came, 'request')} came")


def find_step(case: Case, stats: LevelStats | None) -> Check | None:
    """Did answers take longer, or less, from some second on, of a server that lost slots say? A note."""
    if stats is None or stats.balance.grows or stats.facts.arrivals == AT_ONCE:
        return None
    rows, begin = stats.requests.since(stats.steady), stats.requests.due[0]
    if (found := step(rows.due, rows.latency)) is None:
        return None
    when = f"from second {found[0] - begin:.0f} on"
    return Check("stepped", "note", f"{when} the median latency was {found[1]:.2g} times that before")


def _round_up(seconds: float) -> int:
    """To two digits: how long is enough is not known to the second."""
    step: int = 10 ** max(0, int(math.log10(max(seconds, 1.0))) - 1)
    return math.ceil(seconds / step) * step


def late(case: Case, stats: LevelStats | None) -> Check | None:
    """Fail if a figure would be more than 5 % smaller had the generator sent in time."""
    if stats is None or stats.facts.kind == "closed" or stats.facts.arrivals == AT_ONCE:
        return None
    part, name = _worst(stats, lambda due, took, late: late)
    words = f"99 of 100 requests were sent within {show(stats.late, 's')} of their time"
    if not name:
        return Check("late", "ok", words)
    if part <= MOST_OF_A_FIGURE:
        return Check("late", "ok", f"{words}: {percent(part)} of the {name}, and less of other figures")
    cause, advice = _cause(stats.facts, stats.late / 2)
    words = f"the generator was late: {words}, and lateness is {percent(part)} of the {name}{cause}"
    return Check("late", "fail", words, advice)


def _cause(facts: Level, limit: float) -> tuple[str, str]:
    """Return the cause that the self-test shows, and the advice."""
    alone = facts.alone
    if alone is None:
        return "", _QUIET
    if alone.quota is not None and alone.quota < 1:
        return f"; laptime may use {percent(alone.quota)} of a CPU", "repeat it with a CPU quota of 1 or more"
    on_loopback = f"on loopback, without the server, it was {show(alone.late, 's')}"
    if alone.late > limit:
        return f"; {on_loopback}, too: this machine is busy", _QUIET
    if alone.bound:
        on_its_own = "; another program uses the CPUs that laptime is bound to"
        return f"; {on_loopback} only{on_its_own}", "other CPUs, or another machine for the generator"
    return f"; {on_loopback} only: beside it the generator lacks a CPU", _BESIDE


def find_stall(case: Case, stats: LevelStats | None) -> Check | None:
    """Did the generator stand still while answers came? Then it read the clock too late.

    Fail if stalls may make up more than 5 % of a reported figure."""
    if stats is None or not stats.facts.stalls:
        return None
    stalls = stats.facts.stalls

    def get_delay(due: Floats, took: Floats, late: Floats) -> Floats:
        """Return the delay of late reads: that of one stall, at most the part of it in which they waited."""
        most = np.zeros(len(due))
        for begin, seconds in stalls:
            overlap = np.minimum(due + took, begin + seconds) - np.maximum(due, begin)
            most = np.maximum(most, overlap)
        return most

    share, name = _worst(stats, get_delay)
    if share <= _ZERO:
        return None
    longest = max(seconds for _, seconds in stalls)
    stood = f"the generator stood still {count(len(stalls), 'time')}, {show(longest, 's')} at the longest"
    if share <= MOST_OF_A_FIGURE:
        return Check("stalled", "note", f"{stood}: at most {percent(share)} of a figure")
    words = f"{stood}: that may be {percent(share)} of the {name}. It was late, not the server"
    return Check("stalled", "fail", words, _cause(stats.facts, longest / 2)[1])


def busy_sender(case: Case, stats: LevelStats | None) -> Check | None:
    """Had a sender CPU time to spare? One that has none is what is measured.

    Fail if a sender used more than 70 % of its time; a program's own process is the program."""
    if stats is None or case.axes.get("server") == "own":
        return None
    used = f"the busiest sender used {percent(stats.facts.cpu)} of a CPU"
    if stats.facts.cpu <= BUSIEST:
        return Check("busy_sender", "ok", used)
    words = f"{used}, more than {percent(BUSIEST)}: it may be what is slow"
    return Check("busy_sender", "fail", words, f"--senders {2 * stats.facts.senders}")


def self_test(case: Case, stats: LevelStats | None) -> Check | None:
    """Can the generator send at that rate at all? It tried on loopback first, where no server was in its way.

    Fail if the rate takes more CPU than all senders have."""
    alone = stats.facts.alone if stats else None
    if stats is None or alone is None:
        return None
    most = alone.capacity / BUSIEST
    senders = count(stats.facts.senders, "sender")
    rate = stats.facts.rate or stats.answered.value or 0.0
    if rate <= most:
        words = f"on loopback {senders} sent within {show(alone.late, 's')} of their time"
        return Check("self_test", "ok", words)
    words = (
        f"on loopback, without the server, {senders} came to {most:,.0f} requests/s, fewer than {rate:,.0f}/s"
    )
    advice = f"--rate {alone.capacity:.2g}, or more machines for the generator"
    return Check("self_test", "fail", f"the generator is too slow: {words}", advice)


def _worst(stats: LevelStats, lost: _Lost) -> tuple[float, str]:
    """The largest share, and of which figure: without it, each request took so much less."""
    rows = stats.requests.since(stats.steady)
    shares = [(0.0, "")]
    told = [("latency", rows.latency, stats.latency)]
    told += [("TTFT", rows.ttft, stats.tokens.ttft)] if stats.tokens else []
    for title, took, figures in told:
        whole = np.isfinite(took)
        if not whole.any():
            continue
        values = took[whole]
        without = values - lost(rows.due[whole], values, rows.late[whole])
        names = [name for name, stat in figures.items() if stat.value]
        if stats.balance.grows and not names:
            names = ["p95"]  # of its window is told
        for name in names:
            figure, less = _figure(values, name), _figure(without, name)
            shares.append(((figure - less) / figure if figure > _ZERO else 0.0, f"{name} {title}"))
    return max(shares)


def _figure(values: Floats, name: str) -> float:
    q = QUANTILES.get(name)
    return float(values.mean() if q is None else np.quantile(values, q, method="higher"))


_CHECKS = (
    answers,
    busy_sender,
    capacity,
    enough,
    late,
    self_test,
    server_counts,
    find_stall,
    find_pause,
    find_step,
    tokens,
)
"""In the order in which they are told, if they are as bad."""
