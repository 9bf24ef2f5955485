"""The parts of a session that tuned a server's flags: command line, load, promise, answers."""

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.tuning import TunedServer, Tuning
from laptime.reports import _words
from laptime.reports import document as doc
from laptime.reports.documents.tuning import ladder, words
from laptime.reports.documents.tuning.ladder import questions
from laptime.reports.fields import Field, tabulate

_SIDES = {"baseline": "as it is", "final": "tuned"}


def brief(tuning: Tuning) -> list[tuple[str, str]]:
    """The gate, the load, and whether the promise is kept; the command line is what to type next."""
    assert tuning.server is not None
    left = ("left out", tuning.why_ended if tuning.ended == "budget" else "")
    return [("gate", gate(tuning)), *_load(tuning.server), left]


def sections(tuning: Tuning) -> list[doc.Section]:
    """The command lines, the gate, the ladder."""
    server = tuning.server
    assert server is not None
    return [section(tuning, server), sameness(tuning, server), ladder.section(tuning)]


def gate(tuning: Tuning) -> str:
    """Return the comparison of answers and its result; "" if nothing was compared."""
    if tuning.gate.word == "none":
        return ""
    said = "; ".join(check.sentence for check in tuning.gate.checks if check.name != "slo")
    return f"{tuning.gate.word}: {said or tuning.gate.reason}"


def _load(server: TunedServer) -> list[tuple[str, str]]:
    text = f"{server.load}, on {_words.printable(server.url)}; looked at: {server.figure}"
    return [("load", text), *(("promise", check.sentence) for check in server.limits)]


def section(tuning: Tuning, server: TunedServer) -> doc.Section:
    """The command line as it is and as it was best, and how fast both were."""
    seconds = [(seconds, _SIDES[name]) for name, seconds in server.ready.items() if name in _SIDES]
    rows = [
        ("as it is", _words.printable(server.before)),
        ("tuned", _words.printable(server.command) if tuning.recipe else ""),
        ("ready after", ", ".join(f"{show(each, 's')} {side}" for each, side in seconds)),
        *_load(server),
    ]
    sides = [(name, side) for name, side in (("as it is", tuning.baseline), ("tuned", tuning.final)) if side]
    figure = lambda each: doc.Cell(show(each[1].step, "s", each[1].ci95), each[1].step)  # noqa: E731
    rate = lambda each: doc.Cell(words.rate(each[1]), each[1].throughput)  # noqa: E731
    fields = [
        Field("server", lambda each: each[0]),
        tuning.goal == "latency" and Field(server.figure, figure, "number"),
        Field(f"{server.unit} per second", rate, "number"),
        Field("starts", lambda each: str(each[1].processes), "number"),
        Field("blocks", lambda each: str(each[1].steps), "number"),
    ]
    return doc.Section("server", "The server", [doc.Facts(rows), tabulate("sides", fields, sides)])


def sameness(tuning: Tuning, server: TunedServer) -> doc.Section:
    """The gate with its questions."""
    note = f"{count(server.compared, 'prompt')} of the load, one after another, temperature 0."
    blocks = [doc.Facts([("gate", gate(tuning))]), questions(tuning.gate, "questions")]
    return doc.Section("same", "Does it answer the same?", blocks, note=note if server.compared else "")
