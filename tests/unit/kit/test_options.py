"""Options are declared once: the shell and Python read the same fields, and refuse in the same words."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import pytest
from click.testing import CliRunner

from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.options import Command, ask_for, make_request
from laptime.kit import options, typed, units
from laptime.kit.errors import UsageError
from laptime.kit.options import Option, UnknownKeyword, fields, takes
from laptime.records.plan import BenchRequest


@dataclass(frozen=True, kw_only=True)
class Baking:
    """A request of no verb."""

    cake: str
    heat: Annotated[float | None, Option("Of the oven.", "TIME", read=units.seconds)] = None
    eggs: Annotated[int, Option("In it.", least=1, most=12)] = 3
    tins: Annotated[list[int], Option("Sizes.", "N,...", read=typed.integers)] = field(default_factory=list)
    glaze: Annotated[Literal["", "sugar", "cocoa"], Option("On top.", bare="sugar")] = ""
    icing: Annotated[list[Literal["white", "dark"]], Option("Kinds.", repeatable=True)] = field(
        default_factory=list
    )
    fan: Annotated[bool, Option("Without the fan.")] = True
    open: Annotated[bool, Option("With the door open.", flags="-O --open-door")] = False
    book: Annotated[Path | None, Option("Of recipes.", "FILE")] = None
    labels: Annotated[
        dict[str, list[str]], Option("Names.", flags="--label", read=typed.settings, repeatable=True)
    ] = field(default_factory=dict)
    timeout: Annotated[float, Option("Patience.", "TIME", read=units.seconds)] = 600.0
    origins: dict[str, str] = field(default_factory=dict)


made: list[Baking] = []


@click.command("bake", cls=Command)
@click.argument("cake")
@ask_for(Baking)
def bake(cake: str, **given: Any) -> None:
    made.append(make_request(Baking, given, cake=cake))


def typed_line(line: str) -> Baking:
    made.clear()
    ended = CliRunner().invoke(bake, line.split(), obj=Voice(), catch_exceptions=False)
    assert not ended.exit_code, ended.output
    return made[0]


def called(**keywords: Any) -> Baking:
    return options.make_request(Baking, keywords, "kitchen.bake", cake="plum")


@pytest.mark.parametrize(
    ("line", "keywords"),
    [
        ("", {}),
        ("--heat 2m", {"heat": "2m"}),
        ("--heat 2m", {"heat": 120}),
        ("--eggs 4", {"eggs": 4}),
        ("--tins 1,8", {"tins": [1, 8]}),
        ("--tins 8", {"tins": 8}),
        ("--tins 1,8", {"tins": "1,8"}),
        ("--glaze cocoa", {"glaze": "cocoa"}),
        ("--icing white --icing dark", {"icing": ["white", "dark"]}),
        ("--icing white", {"icing": "white"}),
        ("--no-fan", {"fan": False}),
        ("-O", {"open": True}),
        ("--open-door", {"open": True}),
        ("--book a.md", {"book": "a.md"}),
        ("--book a.md", {"book": Path("a.md")}),
        ("--label a=1,2", {"labels": "a=1,2"}),
        ("--label a=1 --label b=2", {"labels": {"a": ["1"], "b": ["2"]}}),
    ],
)
def test_a_line_and_a_call_make_the_same_request(line: str, keywords: dict[str, Any]) -> None:
    shell, python = typed_line(f"plum {line}"), called(**keywords)
    names = [each for each in fields(Baking)]
    assert [getattr(shell, name) for name in names] == [getattr(python, name) for name in names]
    assert {**shell.origins, "cake": "x"} == {**dict.fromkeys(python.origins, "flag"), "cake": "x"}


@pytest.mark.parametrize(
    ("line", "keywords", "said"),
    [
        ("--heat soon", {"heat": "soon"}, "'soon' is not a duration"),
        ("--eggs 0", {"eggs": 0}, "0 is impossible"),
        ("--eggs 13", {"eggs": 13}, "13 is impossible"),
        ("--eggs many", {"eggs": "many"}, "'many' is not a valid integer"),
        ("--tins a", {"tins": "a"}, "not a list of whole numbers"),
        ("--glaze=suger", {"glaze": "suger"}, "'suger' is not one of"),
        ("--icing grey", {"icing": ["white", "grey"]}, "'grey' is not one of"),
        ("--label a", {"labels": "a"}, "is not a name with a value"),
    ],
)
def test_both_refuse_in_the_same_words(line: str, keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as shell:
        typed_line(f"plum {line}")
    with pytest.raises(UsageError, match=said) as python:
        called(**keywords)
    assert shell.value.what.partition(": ")[2] == python.value.what.partition(": ")[2]
    assert shell.value.what.startswith(line.partition("=")[0].split()[0])
    assert shell.value.why == python.value.why
    assert shell.value.next
    assert python.value.next


def test_the_nearest_choice_is_named() -> None:
    with pytest.raises(UsageError) as told:
        called(glaze="suger")
    assert "sugar?" in told.value.next


@pytest.mark.parametrize("wrong", [{"eggs": 2.5}, {"eggs": True}, {"fan": 1}, {"glaze": 3}, {"timeout": []}])
def test_a_value_of_another_kind_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is not"):
        called(**wrong)


def test_none_is_as_if_it_were_left_out() -> None:
    assert called(heat=None, glaze=None) == called()


def test_an_unknown_keyword_is_a_type_error_with_the_nearest_name() -> None:
    with pytest.raises(TypeError, match="'egs'") as told:
        called(egs=2)
    assert isinstance(told.value, UnknownKeyword)
    assert "eggs=?" in told.value.next


def test_a_bare_option_has_its_usual_value() -> None:
    assert typed_line("--glaze plum").glaze == "sugar"
    assert typed_line("--glaze cocoa plum").glaze == "cocoa"
    assert typed_line("plum --glaze").glaze == "sugar"


def test_help_has_the_fields_in_their_order_with_their_defaults() -> None:
    text = CliRunner().invoke(bake, ["--help"], obj=Voice()).output
    names = [word.strip(",") for word in text.split() if word.startswith("--")]
    assert names == ["--heat", "--eggs", "--tins", "--glaze", "--icing", "--no-fan", "--open-door", "--book",
                     "--label", "--timeout", "--help"]  # fmt: skip
    assert "Patience.  [default: 10m]" in text
    assert "In it.  [default: 3]" in text
    assert "[|sugar|cocoa]" in text or "[sugar|cocoa]" in text


def test_a_signature_lists_the_options() -> None:
    @takes(Baking, fan=False)
    def cook(cake: str, *, loud: bool = False, **options: Any) -> None:
        """Cook."""

    shown = inspect.signature(cook)
    shown.bind("plum", eggs=3, tins=[1], loud=True)
    with pytest.raises(TypeError):
        shown.bind("plum", egs=3)
    assert shown.parameters["fan"].default is False
    assert shown.parameters["eggs"].default == 3
    assert cook.__doc__ is not None
    assert "heat: Of the oven." in cook.__doc__


def test_every_field_of_a_measurement_has_a_help_of_one_or_two_sentences() -> None:
    for name, each in fields(BenchRequest).items():
        assert each.option.help.strip(), name
        assert len(each.flags[-1]) > 2, name
