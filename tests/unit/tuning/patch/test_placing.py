"""Statements of the process, of models and of optimizers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from laptime.tuning.optimization import CannotEdit, Change
from laptime.tuning.patch.editor import Editor
from laptime.tuning.patch.sources import Sources

THREADS = 'script.at_start("torch.set_num_threads(1)", "import torch")'
LAST = 'script.after_model("{model}.to(memory_format=torch.channels_last)")'
COMPILE = 'script.after_model("{model}.compile()")'
REBIND = 'script.after_model("{model} = torch.compile({model})")'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\nx = 1\n", "import torch\n\ntorch.set_num_threads(1)\nx = 1\n"),
        ('"""Doc."""\nx = 1\n', '"""Doc."""\nimport torch\n\ntorch.set_num_threads(1)\nx = 1\n'),
        (
            "from __future__ import annotations\nimport os\nos.environ['A'] = '1'\nimport torch\n\n\n"
            "def f():\n    pass\n",
            "from __future__ import annotations\nimport os\nos.environ['A'] = '1'\nimport torch\n\n"
            "torch.set_num_threads(1)\n\n\ndef f():\n    pass\n",
        ),
        (
            "#!/usr/bin/env python\nx = 1\n",
            "#!/usr/bin/env python\nimport torch\n\ntorch.set_num_threads(1)\nx = 1\n",
        ),
        (
            "import torch\ndef f():\n    pass\nimport late\n",
            "import torch\n\ntorch.set_num_threads(1)\ndef f():\n    pass\nimport late\n",
        ),
        (
            "try:\n    import torch\nexcept ImportError:\n    torch = None\nx = 1\n",
            "try:\n    import torch\nexcept ImportError:\n    torch = None\n\n"
            "torch.set_num_threads(1)\nx = 1\n",
        ),
        (
            "import torch as t\nx = 1\n",
            "import torch as t\nimport torch\n\ntorch.set_num_threads(1)\nx = 1\n",
        ),
        (
            "\ufeffimport torch\r\nx = 1\r\n",
            "\ufeffimport torch\r\n\r\ntorch.set_num_threads(1)\r\nx = 1\r\n",
        ),
    ],
)
def test_a_statement_of_the_process_stands_behind_the_imports(
    script: Callable[..., Sources], edited: Callable[..., str], text: str, expected: str
) -> None:
    assert edited(script(text), THREADS) == expected


def test_an_import_for_types_only_binds_no_name(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    for test in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        text = edited(script(f"import typing\nif {test}:\n    import torch\nx = 1\n"), THREADS)
        assert "    import torch\nimport torch\n\ntorch.set_num_threads(1)\n" in text


@pytest.mark.parametrize(
    "text",
    [
        "import torch as th\n\n\ndef main():\n    torch = 'a lamp'\n",
        "import torch as th\n\n\ndef main(torch='a lamp'):\n    pass\n",
        "import torch as th\nimport lamp as torch\n",
        "import torch as th\nfor torch in lamps:\n    pass\n",
    ],
)
def test_a_name_that_the_script_has_for_something_else_is_left_alone(
    script: Callable[..., Sources], change: Callable[[str], Change], text: str
) -> None:
    sources = script(text)
    with pytest.raises(CannotEdit, match="another object named torch"):
        sources.apply(change(THREADS))
    assert sources.diff() == ""


def test_a_variable_of_the_process_has_a_name_of_its_own(
    script: Callable[..., Sources], change: Callable[[str], Change]
) -> None:
    sources = script("import os\n\n\ndef libc():\n    pass\n")
    with pytest.raises(CannotEdit, match="another object named libc"):
        sources.apply(change('script.at_start("libc = ctypes.CDLL(None)", "import ctypes")'))
    script("from common import ctypes\n").apply(change('script.at_start("ctypes.util", "import ctypes")'))


def test_statements_of_the_process_keep_their_order(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    sources = script("import torch\n")
    edited(sources, THREADS)
    found = edited(sources, 'script.at_start("libc = ctypes.CDLL(None)", "import ctypes")')
    assert found == "import torch\nimport ctypes\n\ntorch.set_num_threads(1)\nlibc = ctypes.CDLL(None)\n"


LOADER = "from torch.utils.data import DataLoader\n\n\ndef data():\n    return DataLoader(ds)\n"
DEFINE = """
script.define("def seed(worker):\\n    random.seed(worker)", "import random")
script.set_arguments("loader", worker_init_fn="seed")
"""


def test_a_definition_stands_in_the_file_that_uses_it(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    sources = script(LOADER, ("loader", "DataLoader(ds)", {"detail": "DataLoader"}))
    assert edited(sources, DEFINE, "seeded") == (
        "from torch.utils.data import DataLoader\nimport random\n\n\n# laptime: seeded\n"
        "def seed(worker):\n    random.seed(worker)\n\n\n"
        "def data():\n    return DataLoader(ds, worker_init_fn=seed)\n"
    )


def test_a_name_that_is_taken_is_not_defined_again(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    sources = script(LOADER + "seed = 3\n", ("loader", "DataLoader(ds)", {"detail": "DataLoader"}))
    with pytest.raises(CannotEdit, match="another object named seed"):
        edited(sources, DEFINE)
    assert sources.diff() == ""


def model(call: str, name: str = "model", **more: object) -> list[tuple[object, ...]]:
    """Sites of an optimizer and of the model that it trains."""
    fields = {"detail": "SGD", **more}
    return [("optimizer", call, fields), ("model", call, {**fields, "expression": name})]


def test_a_statement_for_the_model_stands_behind_the_whole_statement_of_its_optimizer(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = "import torch\nopt = prepare(\n    torch.optim.SGD(model.parameters()),\n)  # here\ntrain()\n"
    sources = script(text, *model("torch.optim.SGD(model.parameters())"))
    assert edited(sources, LAST) == text.replace(
        "# here\n", "# here\nmodel.to(memory_format=torch.channels_last)\n"
    )


def test_it_stands_behind_all_branches_that_make_the_optimizer(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = (
        "import torch\ndef main():\n    if a:\n        opt = torch.optim.SGD(model.parameters())\n"
        "    elif b:\n        opt = None\n    else:\n        opt = other()\n    train(opt)\n"
    )
    sources = script(text, *model("torch.optim.SGD(model.parameters())"))
    expected = text.replace("    train", "    model.to(memory_format=torch.channels_last)\n    train")
    assert edited(sources, LAST) == expected


def test_it_stays_inside_the_guard_of_the_main_program(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    body = "    opt = torch.optim.SGD(model.parameters())\n    train(opt)\n"
    text = f'import torch\nif __name__ == "__main__":\n{body}'
    sources = script(text, *model("torch.optim.SGD(model.parameters())"))
    expected = text.replace("    train", "    model.to(memory_format=torch.channels_last)\n    train")
    assert edited(sources, LAST) == expected


def test_before_a_return_and_in_the_same_line_where_there_is_no_other_room(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = "import torch\ndef make(model):\n    return torch.optim.SGD(model.parameters())\n"
    sources = script(text, *model("torch.optim.SGD(model.parameters())"))
    expected = text.replace("    return", "    model.compile()\n    return")
    assert edited(sources, COMPILE) == expected
    text = "import torch\nopt = torch.optim.SGD(model.parameters()); train(opt)\n"
    sources = script(text, *model("torch.optim.SGD(model.parameters())"), name="other.py")
    assert edited(sources, COMPILE) == text.replace("; train", "; model.compile(); train")


def test_a_model_is_bound_anew_only_where_who_trains_it_sees_it(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    make = "import torch\ndef make(model):\n    return torch.optim.SGD(model.parameters())\n"
    with pytest.raises(CannotEdit, match="old one"):
        edited(script(make, *model("torch.optim.SGD(model.parameters())")), REBIND)
    body = "    opt = torch.optim.SGD(model.parameters())\n    train(model, opt)\n"
    main = "import torch\ndef main(model):\n" + body
    sources = script(main, *model("torch.optim.SGD(model.parameters())"), name="main.py")
    assert "    model = torch.compile(model)\n    train" in edited(sources, REBIND)
    top = "import torch\ndef make():\n    return torch.optim.SGD(model.parameters())\nmodel = 1\n"
    with pytest.raises(CannotEdit, match="global name"):
        edited(script(top, *model("torch.optim.SGD(model.parameters())"), name="top.py"), REBIND)


EPOCH = """
import torch
def train_epoch(model, loader):
    for x in loader:
        model(x).backward()
"""
FORWARD = ("forward", "model(x)", {"expression": "model", "function": "train_epoch"})


def test_without_a_name_at_the_optimizer_it_stands_before_the_loop(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    assert "    model.to(memory_format=torch.channels_last)\n    for x" in edited(
        script(EPOCH, FORWARD), LAST
    )


def test_before_a_loop_of_one_epoch_only_what_can_be_done_again_is_done(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    found = edited(script(EPOCH, FORWARD), COMPILE)
    assert "    if model._compiled_call_impl is None:\n        model.compile()\n    for x" in found
    with pytest.raises(CannotEdit, match="an epoch"):
        edited(script(EPOCH, FORWARD, name="b.py"), REBIND)
    with pytest.raises(CannotEdit, match="an epoch"):
        edited(script(EPOCH, FORWARD, name="c.py"), 'script.after_model("checkpoint({model})")')


def test_each_model_gets_its_statement_once(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = "import torch\na = torch.optim.SGD(g.parameters())\nb = torch.optim.SGD(d.parameters())\ntrain()\n"
    first, second = "torch.optim.SGD(g.", "torch.optim.SGD(d."
    places = [
        ("model", each, {"detail": "SGD", "expression": name, "index": number})
        for each in (first, second)
        for number, name in enumerate("gd")
    ]
    assert edited(script(text, *places), COMPILE) == text.replace("train", "g.compile()\nd.compile()\ntrain")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("opt = SGD(ps)", "opt = SGD(ps)\n    wrap(opt)"),
        ("self.opt: Any = SGD(ps)", "self.opt: Any = SGD(ps)\n    wrap(self.opt)"),
        ("net, opt = Net(), SGD(ps)", "net, opt = Net(), SGD(ps)\n    wrap(opt)"),
        ("return SGD(ps)", "optimizer = SGD(ps)\n    wrap(optimizer)\n    return optimizer"),
        ("return [SGD(ps)], []", "optimizer = SGD(ps)\n    wrap(optimizer)\n    return [optimizer], []"),
    ],
)
def test_a_statement_for_the_optimizer_uses_its_name(
    script: Callable[..., Sources], edited: Callable[..., str], line: str, expected: str
) -> None:
    text = f"from torch.optim import SGD\ndef make():\n    {line}\n"
    sources = script(text, ("optimizer", "SGD(ps)", {"detail": "SGD"}))
    found = edited(sources, 'script.after_optimizer("wrap({optimizer})")')
    assert found == text.replace(line, expected)


def test_what_names_no_optimizer_is_said_once_behind_the_last(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = "from torch.optim import SGD\na = SGD(x)\nb = SGD(y)\n"
    sources = script(
        text, ("optimizer", "SGD(x)", {"detail": "SGD"}), ("optimizer", "SGD(y)", {"detail": "SGD"})
    )
    assert edited(sources, 'script.after_optimizer("begin()")') == text + "begin()\n"


def test_an_optimizer_without_a_name_is_refused(script: Callable[..., Sources]) -> None:
    text = "from torch.optim import SGD\nall.append(SGD(ps))\n"
    sources = script(text, ("optimizer", "SGD(ps)", {"detail": "SGD"}))
    with pytest.raises(CannotEdit, match="no name"):
        Editor(sources).after_optimizer("wrap({optimizer})")
