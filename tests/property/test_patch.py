"""Laws of edits of source: the result is Python, only edited lines differ, twice is once."""

from __future__ import annotations

import tempfile
import textwrap
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laptime.tuning.loop_profile import Site
from laptime.tuning.optimization import CannotEdit, Change
from laptime.tuning.patch.diff import diff_file, hunks, lines, patch_copies, relabel
from laptime.tuning.patch.sources import Sources, hunks_of

SLOW = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])

CHANGES = [
    Change("num_workers", {"value": 2}),
    Change("fused_optimizer"),
    Change("set_to_none"),
    Change("bf16_autocast"),
    Change("channels_last"),
    Change("compile"),
    Change("cudnn_benchmark"),
    Change("pin_memory"),
    Change("fp16_autocast", {"clips": True}),
    Change("seed_by_sample"),
]

LOADERS = [
    "DataLoader(ds)",
    "DataLoader(ds, 8, True)",
    "DataLoader(\n    ds,  # données\n    batch_size=8,\n)",
    "DataLoader(ds, **dict(batch_size=8))",
    "torch.utils.data.DataLoader(dataset=ds, num_workers=0, )",
]
STEPS = [
    "opt.zero_grad()\nout = net(x)\nloss = out.sum()\nloss.backward()\nopt.step()",
    "loss = net(x).mean()  # ça\n\nopt.zero_grad(); loss.backward()\nopt.step()",
    'net(x).sum().backward()\nopt.step(); note = """\n  kept as it is\n"""',
    "with quiet():\n    loss = (net(x)\n            .sum())\n    if ok:\n        loss.backward()\nopt.step()",
    "match kind:\n    case 1 if ok:\n        loss = net(x)\n    case _:\n        loss = -net(x)\n"
    "loss.backward(); opt.step()",
]
HEADS = [
    "import torch\nfrom torch.utils.data import DataLoader\n",
    '"""Doc."""\nfrom __future__ import annotations\n\n'
    "import torch; from torch.utils.data import DataLoader\n\n",
    "#!/usr/bin/env python\n# ünïcode\nimport os\nos.environ['A'] = '1'\nimport torch\n"
    "from torch.utils.data import *\n"
    "from torch.utils.data import DataLoader\n",
]
FRAMES = [
    "{setup}\nfor x in loader:\n{step}\n",
    "@decorated(\n    1,\n)\ndef main():\n    def inner():\n        pass\n"
    "{setup4}\n    for epoch in range(2):\n"
    "        for i, x in enumerate(loader):\n{step12}\n\nmain()\n",
    "class Trainer:\n    async def train(self):\n{setup8}\n"
    "        for x in loader:\n            x = x.to(dev)\n{step12}\n"
    "        return 1  # fin\n",
]


def sites_of(text: str, path: str) -> tuple[Site, ...]:
    """Where the calls are, by their text; in multi-line calls the first line."""
    found = []
    kinds = {
        "loader": (("DataLoader(ds", "DataLoader(\n", "DataLoader(dataset"), "", "DataLoader"),
        "optimizer": (("torch.optim.SGD(",), "", "SGD"),
        "model": (("torch.optim.SGD(",), "net", "Linear"),
        "fetch": (("for x in loader", "for i, x in enumerate(loader"), "loader", "DataLoader"),
        "zero_grad": (("opt.zero_grad(",), "opt", ""),
        "forward": (("net(x)",), "net", "Linear"),
        "backward": ((".backward(",), "", "Tensor"),
        "step": (("opt.step(",), "opt", "SGD"),
    }
    normal = text.replace("\r\n", "\n")
    for kind, (snippets, name, detail) in kinds.items():
        for snippet in snippets:
            at = normal.find(snippet)
            while at >= 0:
                line = normal[:at].count("\n") + 1
                found.append(Site(kind, path, line, expression=name, detail=detail))
                at = normal.find(snippet, at + 1)
    return tuple(found)


@st.composite
def scripts(draw: st.DrawFn) -> str:
    """Training scripts of several shapes, indentations and newlines."""
    setup = f"net = Net()\nloader = {draw(st.sampled_from(LOADERS))}\n"
    setup += "opt = torch.optim.SGD(net.parameters(), lr=0.1)"
    step = draw(st.sampled_from(STEPS))
    frame = draw(st.sampled_from(FRAMES))
    parts = {
        "setup": setup,
        "setup4": textwrap.indent(setup, " " * 4),
        "setup8": textwrap.indent(setup, " " * 8),
        "step": textwrap.indent(step, " " * 4),
        "step12": textwrap.indent(step, " " * 12),
    }
    text = draw(st.sampled_from(HEADS)) + frame.format(**parts)
    if draw(st.booleans()):
        rows = text.split("\n")
        text = "\n".join("\t" * ((len(row) - len(row.lstrip(" "))) // 4) + row.lstrip(" ") for row in rows)
    if draw(st.booleans()):
        text = text.rstrip("\n")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return "\ufeff" * draw(st.integers(0, 1)) + text


@SLOW
@given(scripts(), st.lists(st.sampled_from(CHANGES), unique_by=lambda change: change.name, max_size=5))
def test_edits_leave_python_and_other_lines_alone_and_twice_is_once(text: str, changes: list[Change]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_bytes(text.encode())
        compile(text.encode(), "train.py", "exec")
        sources = Sources(sites_of(text, str(path)), str(path), "cpu")
        file = sources.files[path]
        for change in changes:
            before = file.text
            try:
                sources.apply(change, f"{change}, 1.10x")
            except CannotEdit:
                assert file.text == before
                continue
            compile(file.text.encode(), "train.py", "exec")
            once = file.text
            sources.applied.clear()
            assert sources.apply(change, "again") == []
            assert file.text == once
        diff = sources.diff()
        if not diff:
            assert file.text == text
            return
        check_lines(text, file.text, sources)
        (written,) = patch_copies(diff, {path: file.text}, sources.root, Path(folder) / "into").values()
        assert Path(written).read_bytes() == file.text.encode()


def check_lines(before: str, after: str, sources: Sources) -> None:
    """What is in no edit is the same, byte by byte, and every edit has its change's name."""
    old, new = lines(before), lines(after)
    at_old = at_new = 0
    for hunk in (hunk for file in sources.files.values() for hunk in hunks_of(file)):
        assert hunk.names
        for a, b, c, d in hunk.edits:
            assert old[at_old:a] == new[at_new:c]
            at_old, at_new = b, d
    assert old[at_old:] == new[at_new:]
    ends = {"\r\n" if row.endswith("\r\n") else "\n" for row in new if row.endswith("\n")}
    assert ends <= {"\r\n" if "\r\n" in before else "\n"}
    assert after.endswith("\n") == before.endswith("\n")


WORDS = st.lists(st.sampled_from(["a", "b", "", "  x", "é\r", "\u2028", "tab\t"]), max_size=12)


@given(WORDS, WORDS, WORDS, st.booleans(), st.booleans())
def test_a_diff_of_any_two_texts_gives_the_second(
    first: list[str], second: list[str], third: list[str], ends: bool, also: bool
) -> None:
    old = "\n".join(first) + "\n" * ends
    middle = "\n".join(second)
    new = "\n".join(third) + "\n" * also
    labels = relabel(middle, new, relabel(old, middle, [()] * len(lines(old)), "one"), "two")
    assert len(labels) == len(lines(new))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.py").write_bytes(old.encode())
        diff = diff_file(old, new, "a.py", hunks(old, new, labels))
        if old == new:
            assert diff == ""
        else:
            texts = {Path(folder) / "a.py": new}
            (written,) = patch_copies(diff, texts, Path(folder), Path(folder) / "into").values()
            assert Path(written).read_bytes() == new.encode()
