"""What is to be typed next is a whole line: a shell splits it, and laptime has the command."""

from __future__ import annotations

import shlex

import pytest
from msgspec import structs

from fixtures import profiles, runs, tunings
from laptime.kit import registry
from laptime.records.run import IN_MEMORY, Run, Subject
from laptime.reports import document as doc
from laptime.reports.commands import again, tuning, whole
from laptime.reports.documents import document


def typed(*words: str) -> Run:
    return structs.replace(runs.noisy(), command=["laptime", *words])


@pytest.mark.parametrize(
    ("advice", "line"),
    [
        ("--budget 60s", "laptime bench --budget 60s m.py:build --batch 8"),
        (
            "--batch 1,2   measures these alone",
            "laptime bench --batch 1,2 m.py:build   # measures these alone",
        ),
        ("laptime doctor   (who it is)", "laptime doctor   # who it is"),
        ("X=1 laptime bench ...   says why", "X=1 laptime bench m.py:build --batch 8   # says why"),
        ("check the weights", "check the weights"),
        ("", ""),
    ],
)
def test_advice_becomes_a_line_that_runs(advice: str, line: str) -> None:
    assert whole(advice, typed("bench", "m.py:build", "--batch", "8")) == line


def test_own_options_are_replaced_and_others_stay() -> None:
    run = typed("-q", "compare", "a.py:f", "b.py:f", "--budget=3s", "--dtype", "bfloat16")
    assert again(run, "--budget", "30s") == "laptime compare --budget 30s a.py:f b.py:f --dtype bfloat16"


def test_a_call_of_the_api_is_the_verb_with_its_targets() -> None:
    run = structs.replace(runs.noisy(), command=["script.py"])
    assert again(run, "--budget", "30s").startswith("laptime bench --budget 30s ")


def test_of_a_suite_the_targets_are_measured_alone() -> None:
    run = structs.replace(typed("suite", "run", "bench.toml"), verb="suite")
    assert again(run, "--budget", "30s") == "laptime bench --budget 30s torchvision:resnet18"


def commands(document: doc.Document) -> list[str]:
    lines = list(document.verdict.next)
    waiting: list[doc.Block] = [block for section in document.sections for block in section.blocks]
    while waiting:
        block = waiting.pop()
        if isinstance(block, doc.Notices):
            lines += [row.next for row in block.rows]
        waiting += getattr(block, "blocks", [])
    return [line for line in lines if line]


@pytest.mark.parametrize("name", sorted(runs.scenarios()))
def test_every_next_of_a_benchmark_resolves(name: str) -> None:
    run = structs.replace(runs.scenarios()[name](), command=["laptime", "bench", "m.py:build"])
    known = registry.names("commands")
    assert known
    for line in commands(document(run)):
        if line.startswith("laptime"):
            words = [word for word in shlex.split(line, comments=True) if "=" not in word or word[0] == "-"]
            assert words[0] == "laptime", line
            assert words[1] in known, line
            assert "..." not in line
        assert not line.startswith("--"), line


def test_every_next_of_a_session_resolves() -> None:
    for run in (tunings.full(), tunings.interrupted(), tunings.gate_failed(), profiles.example()):
        for line in document(run).verdict.next:
            words = shlex.split(line, comments=True)
            assert words[0] in ("laptime", "git"), line


def test_an_object_of_a_process_is_called_again_there() -> None:
    subjects = [Subject(target="cell", source=IN_MEMORY)]
    run = structs.replace(runs.noisy(), command=["laptime"], subjects=subjects)
    assert whole("--budget 30s   too few", run) == "laptime.bench(cell, ..., budget=30)   # too few"
    assert again(run, "--precision", "2%") == "laptime.bench(cell, ..., precision=0.02)"


def profiled(subject: Subject, *words: str) -> Run:
    return structs.replace(runs.noisy(), verb="profile", subjects=[subject], command=["laptime", *words])


@pytest.mark.parametrize(
    ("target", "words", "line"),
    [
        ("train.py", "profile --steps 3 train.py --epochs 2", "laptime tune --only sdpa train.py --epochs 2"),
        ("-m pkg.train", "profile -m pkg.train --small", "laptime tune --only sdpa -m pkg.train --small"),
        ("train.py", "", "laptime tune --only sdpa train.py"),
        ("model.py:build", "profile model.py:build", ""),
    ],
)
def test_the_session_that_makes_a_change_has_the_script_and_its_arguments(
    target: str, words: str, line: str
) -> None:
    assert tuning("sdpa", profiled(Subject(target=target), *words.split())) == line


def test_a_model_is_tuned_by_changes_of_models() -> None:
    run = profiled(Subject(target="torchvision:resnet18"), "profile", "torchvision:resnet18")
    assert tuning("channels_last", run) == "laptime tune --only channels_last torchvision:resnet18"


def test_a_trace_names_no_script() -> None:
    run = structs.replace(profiled(Subject(target="trace.json")), verb="trace")
    assert tuning("tf32", run) == "tune the script that made it: laptime tune --only tf32"


def test_advice_on_a_loop_in_memory_is_a_call() -> None:
    run = profiled(Subject(target="with laptime.profile()", source=IN_MEMORY), "--epochs", "3")
    assert tuning("tf32", run) == (
        "laptime.tune(laptime.Problem(model=model, step=step, loader=loader), only=['tf32'])"
    )
    assert whole("--no-stack --no-memory", run) == "laptime.profile(stack=False, memory=False)"
    assert whole("--wait 1 --warmup 1 --steps 2", run) == "laptime.profile(wait=1, warmup=1, steps=2)"
    assert whole("--wait 1   or let it run longer", run) == "laptime.profile(wait=1)   # or let it run longer"
    assert whole("--trace another/FOLDER", run) == "laptime.profile(trace='another/FOLDER')"


def test_a_session_in_memory_goes_on_in_python() -> None:
    run = structs.replace(
        runs.noisy(), verb="tune", command=["laptime"], subjects=[Subject(target="problem", source=IN_MEMORY)]
    )
    assert again(run, "--resume", "--budget", "60s", verb="tune") == "laptime.tune(problem, ..., budget=60)"


def test_a_line_that_is_whole_stays_what_it_is() -> None:
    line = whole("laptime doctor   (shows who else uses the machine)")
    assert whole(line) == line == "laptime doctor   # shows who else uses the machine"
