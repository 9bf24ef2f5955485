"""The command with choices in braces: what it means, and what is refused."""

from __future__ import annotations

import pytest

from laptime.kit.errors import UsageError
from laptime.tuning.server.request import parse

VLLM = "vllm serve M --port {port} --max-num-seqs {16,64,256} --max-num-batched-tokens={2048,8192}"


def test_the_first_choice_is_the_server_as_it_is() -> None:
    template = parse(VLLM)
    _, words = template.command({}, "9001")
    flags = ["--max-num-seqs", "16", "--max-num-batched-tokens=2048"]
    assert words == ["vllm", "serve", "M", "--port", "9001", *flags]
    assert [choice.name for choice in template.choices] == ["max-num-seqs", "max-num-batched-tokens"]
    assert template.choices[0].values == (16, 64, 256)
    assert template.choices[0].is_ordered


def test_a_choice_is_made_by_name() -> None:
    _, words = parse(VLLM).command({"max-num-seqs": 256}, "1")
    assert words[5:] == ["--max-num-seqs", "256", "--max-num-batched-tokens=2048"]


def test_the_line_can_be_typed_and_leaves_the_port_open() -> None:
    template = parse("""serve --name 'two words' --port={port} --x {1,2}""")
    assert template.line({"x": 2}) == "serve --name 'two words' --port={port} --x 2"


@pytest.mark.parametrize(
    ("typed", "today", "other"),
    [
        ("{,--eager}", [], ["--eager"]),
        ("{--eager,}", ["--eager"], []),
        ("'{--level 1,--level 2}'", ["--level", "1"], ["--level", "2"]),
    ],
)
def test_a_flag_may_be_left_out_or_bring_its_value(typed: str, today: list[str], other: list[str]) -> None:
    template = parse(f"serve {typed} end")
    choice = template.choices[0]
    assert choice.name in ("eager", "level")
    assert template.command({}, "1")[1] == ["serve", *today, "end"]
    assert template.command({choice.name: choice.values[1]}, "1")[1] == ["serve", *other, "end"]


def test_a_variable_of_the_environment_is_a_choice_too() -> None:
    template = parse("OMP_NUM_THREADS={2,1} MODE=fast serve --x {a,b}")
    variables, words = template.command({"OMP_NUM_THREADS": 1}, "1")
    assert variables == {"OMP_NUM_THREADS": "1", "MODE": "fast"}
    assert words == ["serve", "--x", "a"]
    assert template.line({}) == "OMP_NUM_THREADS=2 MODE=fast serve --x a"


def test_json_stays_as_it_is_and_can_be_chosen() -> None:
    template = parse("""serve --config '{"a": 1, "b": {"c": 2}}' --x '{{"a": 1, "b": 2},{"a": 2}}'""")
    _, words = template.command({}, "1")
    assert words == ["serve", "--config", '{"a": 1, "b": {"c": 2}}', "--x", '{"a": 1, "b": 2}']


def test_the_home_folder_is_the_only_thing_that_expands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    _, words = parse("~/serve ~/model *.bin {1,2}").command({}, "1")
    assert words == ["/home/me/serve", "/home/me/model", "*.bin", "1"]


def test_several_choices_of_one_word_and_one_name() -> None:
    template = parse("serve --range={1,2}:{8,9} --range {3,4}")
    assert [choice.name for choice in template.choices] == ["range", "word1", "range2"]
    assert template.command({"word1": 9, "range2": 4}, "1")[1] == ["serve", "--range=1:9", "--range", "4"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("vllm serve M", "nothing to choose"),
        ("serve {1}", "nothing to choose"),
        ("serve {}", "nothing to choose"),
        ("serve {1,2", "is unmatched"),
        ("serve 1,2}", "is unmatched"),
        ("serve {1,1}", "twice"),
        ("serve {1,,}", "twice"),
        ("serve 'a {1,2}", "cannot be read"),
        ("serve {1,2} | tee log", "only a shell"),
        ("cd x && serve {1,2}", "only a shell"),
        ("serve {1,2}; rm x", "only a shell"),
        ("serve {1,2} > log", "only a shell"),
        ("serve {1,2} --key $(cat key)", "only a shell"),
        ("serve {1,2} --key $KEY", "only a shell"),
        ("serve {1,2} --key `cat key`", "only a shell"),
        ("", "nothing to choose"),
    ],
)
def test_what_is_refused_says_what_to_do(command: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(command)
    assert said in caught.value.what
    assert caught.value.why
    assert caught.value.next
