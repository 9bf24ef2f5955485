"""Options of `tune` behind a model are options; behind a script they are the script's."""

from __future__ import annotations

import pytest

from laptime.apps.cli.commands.tune import command


def parsed(*words: str) -> dict[str, object]:
    return command.make_context("tune", list(words)).params


def test_options_stand_on_either_side_of_a_model() -> None:
    for order in (
        ("--goal", "latency", "torchvision:resnet18", "--budget", "5m"),
        ("torchvision:resnet18", "--budget", "5m", "--goal", "latency"),
    ):
        settings = parsed(*order)
        assert (settings["program"], settings["goal"], settings["budget"]) == (
            "torchvision:resnet18",
            "latency",
            300,
        )
        assert not settings["arguments"]


def test_what_stands_behind_a_script_is_its_own() -> None:
    settings = parsed("--budget", "5m", "train.py", "--goal", "latency", "--epochs", "3")
    assert (settings["program"], settings["goal"]) == ("train.py", "throughput")
    assert settings["arguments"] == ("--goal", "latency", "--epochs", "3")


def test_a_second_word_behind_a_model_is_no_option() -> None:
    settings = parsed("torchvision:resnet18", "--goal", "latency", "train.csv")
    assert (settings["program"], settings["arguments"]) == ("torchvision:resnet18", ("train.csv",))


def test_a_misspelt_option_behind_a_model_is_refused() -> None:
    with pytest.raises(Exception, match="--gaol"):
        parsed("torchvision:resnet18", "--gaol", "latency")
