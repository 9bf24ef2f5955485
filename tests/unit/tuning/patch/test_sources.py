"""Changes one after another: whole or not at all, with a comment and a hunk each."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from laptime.tuning.loop_profile import Site
from laptime.tuning.optimization import CannotEdit, Change
from laptime.tuning.patch.sources import Sources, hunks_of

TEXT = """
import torch
from torch.utils.data import DataLoader

ds = data()
loader = DataLoader(
    ds,
    batch_size=8,
)
net = torch.nn.Linear(4, 2)
a = 1
opt = torch.optim.SGD(net.parameters(), lr=0.1)
b = 2
for epoch in range(3):
    for x, y in loader:
        opt.zero_grad()
        loss = net(x).sum()
        loss.backward()
        opt.step()
"""
SITES = [
    ("loader", "DataLoader(\n    ds,\n    batch_size=8,\n)", {"detail": "DataLoader"}),
    ("optimizer", "torch.optim.SGD(", {"detail": "SGD"}),
    ("model", "torch.optim.SGD(", {"detail": "SGD", "expression": "net"}),
    ("fetch", "for x, y in loader:", {"expression": "loader"}),
    ("zero_grad", "opt.zero_grad()", {"expression": "opt"}),
    ("forward", "net(x)", {"expression": "net"}),
    ("backward", "loss.backward()", {"expression": "loss"}),
    ("step", "opt.step()", {"expression": "opt"}),
]


def test_a_change_that_cannot_be_made_leaves_everything_as_it_was(
    script: Callable[..., Sources], change: Callable[[str], Change]
) -> None:
    sources = script(TEXT, *SITES)
    sources.apply(Change("num_workers", {"value": 2}), "num_workers=2")
    before = sources.diff()
    half = change(
        'script.set_arguments("loader", timeout="3")\nscript.set_arguments("parallel", static_graph="True")'
    )
    with pytest.raises(CannotEdit, match="DistributedDataParallel"):
        sources.apply(half, "half")
    assert sources.diff() == before
    broken = change('script.set_arguments("loader", timeout="3")\nraise KeyError("ours")')
    with pytest.raises(KeyError):
        sources.apply(broken)
    assert sources.diff() == before
    sources.apply(Change("persistent_workers"), "persistent")
    assert "    num_workers=2,\n    persistent_workers=True,\n)" in sources.files[sources.main].text


def test_an_edit_that_is_no_python_is_refused(
    script: Callable[..., Sources], change: Callable[[str], Change]
) -> None:
    sources = script(TEXT, *SITES)
    with pytest.raises(CannotEdit):
        sources.apply(change('script.set_arguments("loader", timeout="3 4")'))
    with pytest.raises(CannotEdit, match="would not be valid Python"):
        sources.apply(change('script.on_batch("return {batch}")'))
    assert sources.diff() == ""


def test_sites_stay_valid_while_lines_move(tmp_path: Path, script: Callable[..., Sources]) -> None:
    sources = script(TEXT, *SITES)
    changes = [
        Change("set_to_none"),
        Change("bf16_autocast"),
        Change("cudnn_benchmark"),
        Change("channels_last"),
        Change("fused_optimizer"),
        Change("num_workers", {"value": 2}),
        Change("flush_denormal"),
    ]
    for each in changes:
        assert sources.apply(each, f"{each}, 1.10x [1.05, 1.15]") == [str(sources.main)]
    assert sources.files[sources.main].text == (
        """import torch
from torch.utils.data import DataLoader

# laptime: cudnn_benchmark, 1.10x [1.05, 1.15]
torch.backends.cudnn.benchmark = True
# laptime: flush_denormal, 1.10x [1.05, 1.15]
torch.set_flush_denormal(True)

ds = data()
# laptime: num_workers=2, 1.10x [1.05, 1.15]
loader = DataLoader(
    ds,
    batch_size=8,
    num_workers=2,
)
net = torch.nn.Linear(4, 2)
a = 1
# laptime: fused_optimizer, 1.10x [1.05, 1.15]
opt = torch.optim.SGD(net.parameters(), lr=0.1, fused=True)
# laptime: channels_last, 1.10x [1.05, 1.15]
net.to(memory_format=torch.channels_last)
b = 2
for epoch in range(3):
    for x, y in loader:
        # laptime: set_to_none, 1.10x [1.05, 1.15]
        opt.zero_grad(set_to_none=True)
        # laptime: bf16_autocast, 1.10x [1.05, 1.15]
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            loss = net(x).sum()
        loss.backward()
        opt.step()
"""
    )
    assert sources.patch_copies(tmp_path / "applied")


def test_a_change_has_a_hunk_of_its_own_where_lines_lie_between(
    tmp_path: Path, script: Callable[..., Sources]
) -> None:
    sources = script(TEXT, *SITES)
    for each in (Change("num_workers", {"value": 2}), Change("fused_optimizer"), Change("bf16_autocast")):
        sources.apply(each, str(each))
    assert [(file.shown, hunk.names) for file in sources.files.values() for hunk in hunks_of(file)] == [
        ("train.py", ("num_workers",)),
        ("train.py", ("fused_optimizer",)),
        ("train.py", ("bf16_autocast",)),
    ]
    assert sources.patch_copies(tmp_path / "applied")


def test_what_is_so_already_is_no_change(script: Callable[..., Sources]) -> None:
    sources = script(
        TEXT.replace("batch_size=8", "num_workers=2"),
        *SITES[1:],
        ("loader", "DataLoader(\n    ds,\n    num_workers=2,\n)", {"detail": "DataLoader"}),
    )
    assert sources.apply(Change("num_workers", {"value": 2}), "num_workers=2") == []
    assert sources.diff() == ""


def test_a_site_in_a_library_says_so(tmp_path: Path) -> None:
    library = tmp_path / "lib" / "site-packages" / "transformers" / "trainer.py"
    library.parent.mkdir(parents=True)
    library.write_text("loader = DataLoader(ds)\n")
    (tmp_path / "train.py").write_text("import transformers\n")
    sources = Sources((Site("loader", str(library), 1, detail="DataLoader"),), str(tmp_path / "train.py"))
    with pytest.raises(CannotEdit, match=r"transformers/trainer.py.*laptime.apply"):
        sources.apply(Change("num_workers", {"value": 2}))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"# coding: latin-1\nloader = DataLoader('\xe9')\n", "iso-8859-1"),
        (b"loader = DataLoader('\xe9')\n", "not text in UTF-8"),
        (b"loader = DataLoader(\n", "cannot be read by libcst"),
    ],
)
def test_a_file_that_cannot_be_read_says_so(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(data)
    sources = Sources((Site("loader", str(path), 1, detail="DataLoader"),), str(path))
    with pytest.raises(CannotEdit, match=reason):
        sources.apply(Change("num_workers", {"value": 2}))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_cannot_be_written_says_so(script: Callable[..., Sources]) -> None:
    sources = script(TEXT, *SITES)
    assert sources.main is not None
    sources.main.chmod(0o444)
    with pytest.raises(CannotEdit, match="be written"):
        Sources(sources.sites, str(sources.main)).apply(Change("num_workers", {"value": 2}))


def test_paths_are_relative_to_the_git_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    path = tmp_path / "deep" / "my train.py"
    path.parent.mkdir()
    path.write_text("import torch\n")
    sources = Sources((), str(path))
    sources.apply(Change("cudnn_benchmark"), "cudnn_benchmark")
    assert "--- a/deep/my train.py\t\n+++ b/deep/my train.py\t\n" in sources.diff()
    assert sources.patch_copies(tmp_path / "applied")


@pytest.mark.parametrize("link", ["linked/train.py", "bin/start.py"])
def test_a_script_behind_a_link_is_edited_where_it_lies(tmp_path: Path, link: str) -> None:
    """Neither git nor patch writes through a link."""
    (tmp_path / ".git").mkdir()
    main = tmp_path / "real" / "train.py"
    main.parent.mkdir()
    main.write_text("from torch.utils.data import DataLoader\n\nloader = DataLoader(ds)\n")
    (tmp_path / "linked").symlink_to("real")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "start.py").symlink_to("../real/train.py")
    for given in (tmp_path / link, main):
        sources = Sources((Site("loader", str(tmp_path / link), 3, detail="DataLoader"),), str(given))
        sources.apply(Change("num_workers", {"value": 2}))
        assert "+++ b/real/train.py\n" in sources.diff()
        assert sources.diff().count("\n@@") == 1
        assert sources.patch_copies(tmp_path / "applied")


def test_a_module_without_a_known_file_has_no_start(tmp_path: Path) -> None:
    with pytest.raises(CannotEdit, match="main file"):
        Sources((), "").apply(Change("cudnn_benchmark"))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("if due:\n    {}", "if ok:\n    if due:\n        print(loss.item())\nx = 1\n"),
        ("{}.detach()", "if ok:\n    print(loss.item().detach())\nx = 1\n"),
    ],
)
def test_an_expression_or_its_statement_is_replaced(
    script: Callable[..., Sources], edited: Callable[..., str], template: str, expected: str
) -> None:
    sources = script(
        "if ok:\n    print(loss.item())\nx = 1\n",
        ("sync", "loss.item()", {"detail": "item", "expression": ""}),
    )
    assert edited(sources, f"script.replace_text('sync', {template!r})") == expected


@pytest.mark.parametrize("command", [["git", "apply"], ["patch", "--silent", "-p1", "-i"]])
def test_a_patch_applies_from_the_root_wherever_the_script_lies(tmp_path: Path, command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    (tmp_path / ".git").mkdir()
    place = tmp_path / "a" / "deep folder"
    place.mkdir(parents=True)
    main = place / "train.py"
    main.write_text('"""Trains."""\n\nimport math\nimport torch\n\n\ndef main():\n    pass\n\n\nmain()\n')
    sources = Sources((), str(main))
    sources.apply(Change("allocator"), "memory is kept")
    (tmp_path / "change.patch").write_text(sources.diff())
    shutil.rmtree(tmp_path / ".git")
    done = subprocess.run(
        [*command, "change.patch"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    head, _, rest = main.read_text().partition("libc")
    assert sorted(line for line in head.splitlines() if "import" in line) == [
        "import ctypes", "import math", "import torch",
    ]  # fmt: skip
    assert "import" not in rest
