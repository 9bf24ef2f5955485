"""Arguments of the calls that make loaders and optimizers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch.editor import Editor
from laptime.tuning.patch.sources import Sources

IMPORT = "from torch.utils.data import DataLoader\n"
WORKERS = 'script.set_arguments("loader", num_workers="2")'


def loader(script: Callable[..., Sources], call: str, head: str = IMPORT) -> Sources:
    """A script that makes one loader by this call."""
    return script(head + f"loader = {call}\n", ("loader", call, {"detail": "DataLoader"}))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("DataLoader(ds)", "DataLoader(ds, num_workers=2)"),
        ("DataLoader(ds, 8, num_workers=0)", "DataLoader(ds, 8, num_workers=2)"),
        (
            "DataLoader(ds, 8, True, None, None, 0, collate)",
            "DataLoader(ds, 8, True, None, None, 2, collate)",
        ),
        ("DataLoader(ds, **options)", 'DataLoader(ds, **{**options, "num_workers": 2})'),
        ('DataLoader(ds, **{"num_workers": 0})', 'DataLoader(ds, **{"num_workers": 2})'),
        ('DataLoader(ds, **{"batch_size": 4,})', 'DataLoader(ds, **{"batch_size": 4,"num_workers": 2})'),
        ("DataLoader(*given, num_workers=1)", "DataLoader(*given, num_workers=2)"),
        ("DataLoader(ds, batch_size=8,)", "DataLoader(ds, batch_size=8, num_workers=2,)"),
        ("DataLoader(\n    ds,\n    8,\n)", "DataLoader(\n    ds,\n    8,\n    num_workers=2,\n)"),
        (
            "DataLoader(\n    ds,\n    8  # small\n)",
            "DataLoader(\n    ds,\n    8,  # small\n    num_workers=2,\n)",
        ),
        ("DataLoader(ds,\n           8)", "DataLoader(ds,\n           8, num_workers=2)"),
    ],
)
def test_an_argument_is_added_or_replaced_as_the_call_is_written(
    script: Callable[..., Sources], edited: Callable[..., str], call: str, expected: str
) -> None:
    assert edited(loader(script, call), WORKERS) == IMPORT + f"loader = {expected}\n"


@pytest.mark.parametrize(
    ("head", "call"),
    [
        ("import torch.utils.data as D\n", "D.DataLoader(ds)"),
        ("import torch\n", "torch.utils.data.DataLoader(ds)"),
        ("from torch.utils.data import DataLoader as DL\n", "DL(ds)"),
        ("from torch.utils import data\nLoader = data.DataLoader\n", "Loader(ds)"),
        ("from torch.utils.data import DataLoader\nclass Fast(DataLoader): pass\n", "Fast(ds)"),
        ("import mine\n", "mine.FastDataLoader(ds)"),
    ],
)
def test_a_loader_is_known_by_any_name(
    script: Callable[..., Sources], edited: Callable[..., str], head: str, call: str
) -> None:
    assert edited(loader(script, call, head), WORKERS) == head + f"loader = {call[:-1]}, num_workers=2)\n"


def test_a_call_inside_another_is_the_one_that_is_edited(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    sources = loader(script, "accelerator.prepare(DataLoader(ds, 4), key=1)")
    assert "accelerator.prepare(DataLoader(ds, 4, num_workers=2), key=1)" in edited(sources, WORKERS)


def test_a_call_that_gets_too_long_is_broken(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    call = f"DataLoader({'d' * 50}, batch_size=8, shuffle=True)"
    code = 'script.set_arguments("loader", num_workers="2", pin_memory="True")'
    found = edited(loader(script, call), code)
    inside = f"{'d' * 50}, batch_size=8, shuffle=True, num_workers=2, pin_memory=True"
    assert found == IMPORT + f"loader = DataLoader(\n    {inside}\n)\n"
    nested = f"prepare(DataLoader({'d' * 50}, batch_size=8, shuffle=True))"
    assert edited(loader(script, nested), code).count("\n") == 2


@pytest.mark.parametrize(
    ("before", "call", "reason"),
    [
        ("", "DataLoader(*given)", "spread out"),
        ("import functools\nmake = functools.partial(DataLoader, ds)\n", "make()", "functools.partial"),
        ("from mine import build\n", "build(ds)", "inside of `loader = build"),
    ],
)
def test_what_cannot_be_edited_is_refused_with_the_reason(
    script: Callable[..., Sources], edited: Callable[..., str], before: str, call: str, reason: str
) -> None:
    sources = loader(script, call, IMPORT + before)
    with pytest.raises(CannotEdit, match=reason):
        edited(sources, WORKERS)
    assert sources.diff() == ""


def test_a_factory_is_edited_where_it_makes_the_loader(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = IMPORT + "def make(ds):\n    return DataLoader(ds)\nloaders = make(a), make(b)\n"
    site = ("loader", "DataLoader(ds)", {"detail": "DataLoader"})
    again = ("loader", "DataLoader(ds)", {"detail": "DataLoader", "index": 1})
    sources = script(text, site, again)
    assert edited(sources, WORKERS) == text.replace("DataLoader(ds)", "DataLoader(ds, num_workers=2)")


def test_the_parent_of_a_subclass_is_told(script: Callable[..., Sources], edited: Callable[..., str]) -> None:
    text = IMPORT + (
        "class Mine(DataLoader):\n    def __init__(self, ds):\n        super().__init__(ds, 4)\n"
    )
    sources = script(text, ("loader", "super().__init__(ds, 4)", {"detail": "DataLoader"}))
    assert "super().__init__(ds, 4, num_workers=2)" in edited(sources, WORKERS)


def test_an_argument_can_be_read_wrapped_and_removed(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    sources = loader(script, "DataLoader(ds, 8, pin_memory=True, timeout=3)")
    editor = Editor(sources)
    assert editor.argument("loader", "batch_size") == "8"
    assert editor.argument("loader", "timeout") == "3"
    assert editor.argument("loader", "num_workers") is None
    wrapped = edited(sources, 'script.wrap_argument("loader", "dataset", "Cached({})")')
    assert "DataLoader(Cached(ds), 8, pin_memory=True, timeout=3)" in wrapped
    removed = edited(sources, 'script.remove_argument("loader", "pin_memory")')
    assert "DataLoader(Cached(ds), 8, timeout=3)" in removed
    assert "DataLoader(Cached(ds), 8)" in edited(sources, 'script.remove_argument("loader", "timeout")')


def test_an_argument_on_its_own_line_goes_with_the_line(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    call = "DataLoader(\n    ds,  # the data\n    pin_memory=True,\n)"
    found = edited(loader(script, call), 'script.remove_argument("loader", "pin_memory")')
    assert found == IMPORT + "loader = DataLoader(\n    ds,  # the data\n)\n"


def test_what_a_mapping_may_hold_is_neither_read_nor_removed(script: Callable[..., Sources]) -> None:
    sources = loader(script, "DataLoader(ds, **options)", IMPORT + 'options = {"pin_memory": True}\n')
    editor = Editor(sources)
    with pytest.raises(CannotEdit, match="pin_memory may"):
        editor.remove_argument("loader", "pin_memory")
    with pytest.raises(CannotEdit, match="pin_memory may"):
        editor.argument("loader", "pin_memory")
    assert editor.argument("loader", "timeout") is None


def test_a_positional_argument_cannot_be_removed(script: Callable[..., Sources]) -> None:
    sources = loader(script, "DataLoader(ds, 8)")
    with pytest.raises(CannotEdit, match="by position"):
        Editor(sources).remove_argument("loader", "batch_size")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("optim.Adam(net.parameters())", "optim.Adam(net.parameters(), fused=True)"),
        ("getattr(torch.optim, name)(ps)", "getattr(torch.optim, name)(ps, fused=True)"),
        ("Adam((p for p in ps))", "Adam((p for p in ps), fused=True)"),
        ("Adam(p for p in ps)", "Adam((p for p in ps), fused=True)"),
        ("Lion(ps, 1e-4)", "Lion(ps, 1e-4, fused=True)"),
    ],
)
def test_an_optimizer_is_known_by_what_is_called(
    script: Callable[..., Sources], edited: Callable[..., str], call: str, expected: str
) -> None:
    head = "import torch\nfrom torch import optim\nfrom torch.optim import Adam\nfrom lion import Lion\n"
    sources = script(head + f"opt = {call}\n", ("optimizer", call, {"detail": "Adam"}))
    assert edited(sources, 'script.set_arguments("optimizer", fused="True")').endswith(f"opt = {expected}\n")


def test_torch_is_imported_where_an_argument_needs_it(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    found = edited(
        loader(script, "DataLoader(ds)"), 'script.set_arguments("loader", generator="torch.Generator()")'
    )
    assert found == IMPORT + "import torch\nloader = DataLoader(ds, generator=torch.Generator())\n"


def test_trainers_are_told_by_their_own_arguments(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = "from transformers import TrainingArguments\nargs = TrainingArguments('out', fp16=False)\n"
    sources = script(text, ("hf_arguments", "TrainingArguments('", {"detail": "TrainingArguments"}))
    found = edited(sources, 'script.set_arguments("hf_arguments", fp16="True", tf32="True")')
    assert "TrainingArguments('out', fp16=True, tf32=True)" in found


def test_arguments_from_the_command_line_are_refused(script: Callable[..., Sources]) -> None:
    text = "(args,) = parser.parse_args_into_dataclasses()\n"
    sources = script(text, ("hf_arguments", "parser.", {"detail": "TrainingArguments"}))
    assert not Editor(sources).has_site("hf_arguments")
    with pytest.raises(CannotEdit, match="command line"):
        Editor(sources).set_arguments("hf_arguments", bf16="True")


def test_an_expression_is_replaced_where_the_last_line_has_no_newline(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    sources = script("loader = DataLoader(ds)\nrun(loader)", ("loader", "DataLoader(ds)"))
    text = edited(sources, 'script.replace_text("loader", "Prefetcher({})")')
    assert text == "loader = Prefetcher(DataLoader(ds))\nrun(loader)"
