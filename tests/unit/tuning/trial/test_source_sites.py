"""Where in the user's files things are done, and what they are called there."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from laptime.launch.interpreter import lending_path
from laptime.tuning.trial import source_sites
from laptime.tuning.trial.loop import ConstructorCall


def load(folder: Path, text: str, **names: Any) -> Any:
    """A file of the user's, run."""
    path = folder / "train.py"
    path.write_text(textwrap.dedent(text))
    module = ModuleType("train")
    vars(module).update(names)
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module


def test_the_standard_library_and_we_are_not_the_users() -> None:
    assert not source_sites.is_users(subprocess.__file__)
    assert not source_sites.is_users(pytest.__file__)
    assert not source_sites.is_users(source_sites.__file__)
    assert not source_sites.is_users("<frozen runpy>")
    assert source_sites.is_users(__file__)


def test_a_laptime_that_is_lent_to_another_python_is_not_the_users() -> None:
    """It is reached by a link, so its files have other names there."""
    code = "from laptime.tuning.trial import source_sites as s; print(s.__file__, s.is_users(s.__file__))"
    environ = {"PYTHONPATH": lending_path(), "PATH": ""}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    path, said = ended.stdout.split()
    assert "laptime-lent-" in path
    assert said == "False"


def test_a_place_has_the_lines_of_a_call_over_several_and_the_name(tmp_path: Path) -> None:
    module = load(
        tmp_path,
        """
        class Trainer:
            def __init__(self, thing):
                self.net = thing
            def fit(self):
                return place(
                    self.net,
                )
        """,
        place=lambda thing: source_sites.place("forward", thing, frame=sys._getframe(1)),
    )
    thing = object()
    found = module.Trainer(thing).fit()
    assert (found.line, found.end_line) == (6, 8)
    assert found.function == "Trainer.fit"
    assert found.expression == "self.net"
    assert found.file == str(tmp_path / "train.py")


def test_a_local_name_comes_before_a_global_and_an_attribute(tmp_path: Path) -> None:
    thing = object()
    module = load(
        tmp_path,
        """
        def inner(own):
            return place(own)
        def outer():
            return place(thing)
        def nowhere():
            return place(object())
        """,
        place=lambda thing: source_sites.place("forward", thing, frame=sys._getframe(1)),
        thing=thing,
    )
    assert module.inner(thing).expression == "own"
    assert module.outer().expression == "thing"
    assert module.nowhere().expression == ""


def test_a_loop_in_a_library_is_placed_at_the_users_call_of_it(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "trainers.py"
    library.parent.mkdir()
    library.write_text("def run(step):\n    return step()\n")
    namespace: dict[str, Any] = {"__name__": "trainers"}
    exec(compile(library.read_text(), str(library), "exec"), namespace)

    def step() -> Any:
        return source_sites.place("step", frame=sys._getframe(1)), source_sites.library(sys._getframe(1))

    module = load(tmp_path, "def main():\n    return run(step)\n", run=namespace["run"], step=step)
    found, library_name = module.main()
    assert (found.file, found.line) == (str(tmp_path / "train.py"), 2)
    assert library_name == "trainers"


def test_places_are_counted_and_kept_once(tmp_path: Path) -> None:
    places = source_sites.SiteCounts()
    module = load(
        tmp_path,
        "def main():\n    for _ in range(6):\n        note()\n    note()\n",
        note=lambda: places.note("sync", detail="item"),
    )
    module.main()
    # The lambda of this test is a user's frame itself: one place.
    assert [each.count for each in places.sites(2)] == [3.5]
    places.restart()
    assert places.sites() == []


@pytest.mark.torch
def test_models_are_named_at_the_optimizers_line_even_when_wrapped_later(tmp_path: Path) -> None:
    import torch

    call = ConstructorCall("SGD", torch.optim.SGD)
    module = load(
        tmp_path,
        """
        class Holder:
            pass
        def main(net, other):
            holder = Holder()
            holder.inside = net
            make()
            return holder, other
        """,
        make=lambda: source_sites.of_call(call),
    )
    inner = torch.nn.Linear(1, 1)
    stranger = torch.nn.Linear(1, 1)
    # `make` is a frame of this test's: look from the module's own instead.
    module.make = _from_caller(call)
    holder = module.main(inner, torch.nn.ReLU())
    wrapped = torch.nn.DataParallel(inner)
    found = source_sites.of_models([call], [wrapped, stranger])
    assert [(each.expression, each.index, each.kind) for each in found] == [("net", 0, "model")]
    assert call.site is not None
    assert call.site.line == 7
    assert holder


def _from_caller(call: ConstructorCall) -> Any:
    """A constructor that is not the user's: its file is in site-packages."""
    namespace: dict[str, Any] = {"of_call": source_sites.of_call, "call": call}
    exec(compile("def make():\n    of_call(call)\n", "/x/site-packages/torch.py", "exec"), namespace)
    return namespace["make"]


def test_kinds_of_calls() -> None:
    assert source_sites.kind_of(ConstructorCall("DataLoader", object)) == "loader"
    assert source_sites.kind_of(ConstructorCall("AdamW", object)) == "optimizer"
    assert source_sites.kind_of(ConstructorCall("TrainingArguments", object)) == "hf_arguments"
    lightning = type("Trainer", (), {"__module__": "lightning.pytorch.trainer"})
    assert source_sites.kind_of(ConstructorCall("Trainer", lightning)) == "lightning_trainer"
