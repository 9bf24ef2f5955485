"""No session, however odd, may break a report, and nothing in it reaches the reader as a command."""

import enum
import json
import types
import typing
from html.parser import HTMLParser

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from fixtures import tunings
from laptime.analysis import tuned
from laptime.records.tuning import Tuning
from laptime.reports.formats import html, markdown, text
from laptime.reports.formats import json as json_report

names = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["a\x1b[2Jb", "</script>", "identity", "+++ b", "data", tunings.HOSTILE]),
)
plain = {
    str: names,
    int: st.one_of(st.integers(0, 3), st.integers(-(2**40), 2**62)),
    float: st.floats(allow_nan=True, allow_infinity=True),
    bool: st.booleans(),
}


def made(kind):
    """Any value of a type as the records write it."""
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if kind in plain:
        return plain[kind]
    if kind is typing.Any:
        return names
    if origin is typing.Literal:
        return st.sampled_from(inside)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(st.none() if each is types.NoneType else made(each) for each in inside))
    if origin is list:
        return st.lists(st.deferred(lambda: made(inside[0])), max_size=3)
    if origin is tuple:
        return st.tuples(*map(made, inside))
    if origin is dict:
        return st.dictionaries(names, made(inside[1]), max_size=2)
    if isinstance(kind, enum.EnumType):
        return st.sampled_from(list(kind))
    assert issubclass(kind, Struct), kind
    return st.builds(kind, **{name: made(hint) for name, hint in typing.get_type_hints(kind).items()})


class Elements(HTMLParser):
    """Names of the elements of a page, and event attributes."""

    def __init__(self, source):
        super().__init__()
        self.scripts, self.events, self.sources = 0, [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.events += [name for name, _ in attrs if name.startswith("on")]
        self.sources += [name for name, _ in attrs if name in ("src", "srcset")]


@settings(
    max_examples=80,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # a session is too large to be shrunk in useful time
    suppress_health_check=list(HealthCheck),
)
@given(made(Tuning), names, st.sampled_from(["complete", "interrupted", "failed"]), st.integers(1, 140))
def test_any_session_is_rendered_and_stays_text(tuning, name, status, width):
    run = structs.replace(tunings.full(), tuning=tuning, name=name, status=status)
    assert all(line.isprintable() for line in text.render(run, width=width).split("\n"))
    assert all(line.isprintable() for line in markdown.render(run).split("\n"))
    assert json.loads(json_report.render(run))["schema"] == "laptime.tuning/1"
    page = Elements(html.render(run))
    assert (page.scripts, page.events, page.sources) == (1, [], [])
    assert tuned.exit_code(run) in (0, 1, 3, 4, 5, 130)
