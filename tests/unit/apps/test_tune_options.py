"""Options of `tune` behind a model are options; behind a script they are the script's."""

from __future__ import annotations

from typing import Any

import click
import pytest

from laptime.apps.cli.commands.tune import command
from laptime.kit.errors import UsageError
from laptime.kit.options import fields
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.script.request import TuneRequest
from laptime.tuning.server.request import ServerRequest


def parsed(*words: str) -> dict[str, object]:
    word, *rest = command.named(words)
    return {"subject": word, **command.commands[word].make_context(word, rest).params}


def test_options_stand_on_either_side_of_a_model() -> None:
    for order in (
        ("--goal", "latency", "torchvision:resnet18", "--budget", "5m"),
        ("torchvision:resnet18", "--budget", "5m", "--goal", "latency"),
    ):
        settings = parsed(*order)
        assert (settings["subject"], settings["goal"], settings["budget"]) == ("model", "latency", 300)
        assert settings["target"] == "torchvision:resnet18"


def test_what_stands_behind_a_script_is_its_own() -> None:
    settings = parsed("--budget", "5m", "train.py", "--goal", "latency", "--epochs", "3")
    assert (settings["program"], settings["goal"]) == ("train.py", "throughput")
    assert settings["arguments"] == ("--goal", "latency", "--epochs", "3")


def test_a_second_word_behind_a_model_is_refused() -> None:
    with pytest.raises(click.UsageError, match=r"extra argument.*train\.csv"):
        parsed("torchvision:resnet18", "--goal", "latency", "train.csv")


def test_a_misspelt_option_behind_a_model_is_refused() -> None:
    with pytest.raises(Exception, match="--gaol"):
        parsed("torchvision:resnet18", "--gaol", "latency")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("train.py --epochs 3", "script train.py --epochs 3"),
        ("script train.py", "script train.py"),
        ("--budget 5m script --strict train.py", "script --budget 5m --strict train.py"),
        ("-m package.train", "script -m package.train"),
        ("-m torchvision:resnet18", "script -m torchvision:resnet18"),
        ("--name model train.py", "script --name model train.py"),
        ("--name script script train.py", "script --name script train.py"),
        ("-q torchvision:resnet18", "model -q torchvision:resnet18"),
        ("fast.onnx --slo 1ms@p99", "model fast.onnx --slo 1ms@p99"),
        ("--goal latency model m.py:build", "model --goal latency m.py:build"),
        ("model.py", "script model.py"),
        ("--server serve --rate 4", "server --server serve --rate 4"),
        ("--rate 4 --server=serve", "server --rate 4 --server=serve"),
        ("server serve --rate 4", "server serve --rate 4"),
        ("--only a --help", "--help"),
        ("script --help", "script --help"),
    ],
)
def test_the_subject_is_the_word_behind_tune_or_is_told_from_what_is_tuned(words: str, named: str) -> None:
    assert command.named(words.split()) == named.split()


@pytest.mark.parametrize(
    ("words", "said", "next"),
    [
        ("scirpt train.py", "'scirpt' is neither a script nor a model", "did you mean laptime tune script?"),
        ("modle torchvision:resnet18", "'modle' is neither", "did you mean laptime tune model?"),
        ("--strict --url x train.py", "--url is for servers", "laptime tune script --help"),
        ("model --steps 3 torchvision:resnet18", "--steps is for training scripts", "tune model --help"),
        ("server serve --patch p", "--patch is for training scripts", "laptime tune server --help"),
        ("server serve --goal cost", "--goal cost is for models", "laptime tune server --help"),
        ("server serve --instances 2", "--instances is for models", "laptime tune server --help"),
        ("--allow precision train.py", "--allow precision is for models and servers", "tune script --help"),
        ("--goal latncy fast.onnx", "'latncy' is not one of", "did you mean latency?"),
    ],
)
def test_what_belongs_to_another_subject_says_to_which(words: str, said: str, next: str) -> None:
    with pytest.raises(UsageError, match=said) as told:
        parsed(*words.split())
    assert next in told.value.next


def test_each_subject_has_the_options_of_its_request_and_no_others() -> None:
    for word, request in (("script", TuneRequest), ("model", ModelRequest), ("server", ServerRequest)):
        subject: Any = command.commands[word]
        assert [each.name for each in subject.asked] == [*fields(request)]
        assert subject.many
        assert subject.reason
