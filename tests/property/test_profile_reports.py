"""No profile, however odd, may break a report, and nothing in it reaches the terminal as a command."""

import json
import types
import typing

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from fixtures import profiles
from laptime.records.check import Finding
from laptime.records.profile import Profile
from laptime.reports.documents.profile import words
from laptime.reports.formats import html, markdown, text
from laptime.reports.formats import json as json_report

names = st.one_of(
    st.text(max_size=12), st.sampled_from(["a\x1b[2Jb", "</script>", "x<y<z>(w)>", "f.py(3): g"])
)
numbers = st.one_of(st.integers(0, 3), st.integers(0, 2**62), st.integers(-(2**40), 0))
shares = st.floats(allow_nan=True, allow_infinity=True)
plain = {str: names, int: numbers, float: shares, bool: st.booleans()}


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
        return st.lists(st.deferred(lambda: made(inside[0])), max_size=2)
    if origin is tuple:
        return st.tuples(*map(made, inside))
    if origin is dict:
        return st.dictionaries(names, made(inside[1]), max_size=2)
    assert issubclass(kind, Struct), kind
    return st.builds(kind, **{name: made(hint) for name, hint in typing.get_type_hints(kind).items()})


PROFILES, FINDINGS = made(Profile), made(Finding)


@settings(
    max_examples=60,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # a profile is too large to be shrunk in useful time
    suppress_health_check=list(HealthCheck),
)
@given(
    PROFILES,
    st.lists(FINDINGS, max_size=2),
    names,
    st.sampled_from(["trace", "profile"]),
    st.integers(1, 140),
)
def test_any_profile_is_rendered_as_text_of_one_line_each(profile, findings, name, verb, width):
    run = structs.replace(profiles.cpu_only(), profile=profile, findings=findings, name=name, verb=verb)
    shown = text.render(run, width=width)
    assert all(line.isprintable() for line in shown.split("\n"))
    page = markdown.render(run)
    assert all(line.isprintable() for line in page.split("\n"))
    assert json.loads(json_report.render(run))["schema"] == "laptime.profile/1"
    stages = (profile.timeline is not None) + bool(profile.calls and profile.calls.parent)
    assert html.render(run).count("<script") == 1 + stages


@given(st.text(max_size=80), st.integers(4, 60))
def test_any_kernel_name_gets_short_and_stays_printable(name, most):
    found = words.kernel(name, most)
    assert len(found) <= most
    assert found.isprintable()
    assert bool(found) == bool(name)


@given(st.text(alphabet="a(){}<>:lambda #1operatorconst*&,", max_size=60))
def test_any_nesting_of_brackets_in_a_kernel_name_ends(name):
    assert bool(words.kernel(name)) == bool(name)
