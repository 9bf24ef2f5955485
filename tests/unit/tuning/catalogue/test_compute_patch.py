"""The edits of computing in a script that is there: it stays Python, and it trains the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from laptime.tuning.loop_profile import Site
from laptime.tuning.optimization import Change
from laptime.tuning.patch.sources import Sources

SCRIPT = '''"""A script."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def block():
    return nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU())


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), block(), block(), nn.Flatten(), nn.Linear(144, 2))
    data = TensorDataset(torch.randn(8, 3, 8, 8), torch.zeros(8).long())
    loader = DataLoader(data, batch_size=4)
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    for images, labels in loader:
        out = net(images)
        loss = nn.functional.cross_entropy(out, labels)
        opt.zero_grad(set_to_none=False)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        print(loss.item())


main()
'''

PLACES = {
    "loader": ("DataLoader(data", "loader"),
    "fetch": ("for images", "loader"),
    "optimizer": ("AdamW(", "opt"),
    "model": ("AdamW(", "net"),
    "forward": ("net(images)", "net"),
    "zero_grad": ("zero_grad(", "opt"),
    "backward": (".backward(", "loss"),
    "step": ("opt.step(", "opt"),
}

EDITS: dict[str, tuple[dict[str, Any], str]] = {
    "channels_last": ({}, "    net.to(memory_format=torch.channels_last)\n"),
    "bf16_autocast": ({}, '        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):\n'),
    "fp16_autocast": (
        {"clips": True},
        "        scaler.scale(loss).backward()\n        scaler.unscale_(opt)\n",
    ),
    "compile": ({}, "    net.compile()\n"),
    "fused_optimizer": ({}, "fused=True)\n"),
    "set_to_none": ({}, "opt.zero_grad(set_to_none=True)\n"),
    "threads": ({"threads": 1}, "    torch.set_num_threads(1)\n"),
    "no_anomaly_detection": ({}, "    torch.autograd.set_detect_anomaly(False)\n"),
    "allocator": ({}, "\nlibc.mallopt(-4, 0)"),
    "huge_pages": ({}, 'os.environ["THP_MEM_ALLOC_ENABLE"] = "1"\n'),
    "onednn_bf16": ({}, '\ntorch.backends.mkldnn.conv.fp32_precision = "bf16"\n'),
    "mark_dynamic": ({}, "\ntorch._dynamo.config.assume_static_by_default = False\n"),
    "tf32": ({}, '\ntorch.set_float32_matmul_precision("high")\n'),
    "flush_denormal": ({}, "\ntorch.set_flush_denormal(True)\n"),
    "gc_freeze": ({}, "\ngc.freeze()\n"),
    "expandable_segments": ({}, '\nos.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF",'),
    "activation_checkpointing": ({}, "\n    checkpoint_blocks(net)\n"),
}
RUNS_HERE = (
    *(
        "channels_last",
        "fused_optimizer",
        "set_to_none",
        "threads",
        "allocator",
        "huge_pages",
        "mark_dynamic",
    ),
    *("flush_denormal", "gc_freeze", "activation_checkpointing", "no_anomaly_detection"),
)
"""Those that a CPU of any kind runs, and that change no more than rounding."""


def sources(script: Path) -> Sources:
    script.write_text(SCRIPT)
    lines = SCRIPT.split("\n")

    def line(text: str) -> int:
        return next(number for number, each in enumerate(lines, 1) if text in each)

    sites = tuple(
        Site(kind, str(script), line(text), "main", expression=name) for kind, (text, name) in PLACES.items()
    )
    made = Sources(sites, str(script))
    made.device = "cpu"
    return made


@pytest.mark.parametrize("name", EDITS)
def test_the_edit_is_made_at_its_place_and_once(name: str, tmp_path: Path) -> None:
    made = sources(tmp_path / "train.py")
    options, expected = EDITS[name]
    assert made.apply(Change(name, options))
    text = made.file(tmp_path / "train.py").text
    assert text.count(expected) == 1
    made.apply(Change(name, options))
    assert made.file(tmp_path / "train.py").text == text


@pytest.mark.parametrize("name", ["device", "args.device"])
def test_autocast_follows_the_device_of_the_script(name: str, tmp_path: Path) -> None:
    """A patch made on a CPU is right where the script finds a GPU."""
    made = sources(tmp_path / "train.py")
    text = SCRIPT.replace("net(images)", f"net(images.to({name}))")
    (tmp_path / "train.py").write_text(text)
    made = Sources(made.sites, str(tmp_path / "train.py"), "cpu")
    assert made.apply(Change("bf16_autocast", {}))
    header = f"with torch.autocast(device_type=torch.device({name}).type, dtype=torch.bfloat16):"
    assert header in made.file(tmp_path / "train.py").text


def test_the_scaler_is_on_wherever_the_script_runs(tmp_path: Path) -> None:
    made = sources(tmp_path / "train.py")
    assert made.apply(Change("fp16_autocast", {}))
    line = '\nscaler = torch.amp.GradScaler("cuda" if torch.cuda.is_available() else "cpu")\n'
    edited = made.file(tmp_path / "train.py").text
    assert edited.count(line) == edited.count("scaler = ") == 1
    compile(edited, "train.py", "exec")
    made.apply(Change("fp16_autocast", {}))
    assert made.file(tmp_path / "train.py").text == edited


@pytest.mark.slow
@pytest.mark.torch
def test_all_of_them_together_train_the_same(tmp_path: Path) -> None:
    made = sources(tmp_path / "train.py")
    for name in RUNS_HERE:
        made.apply(Change(name, EDITS[name][0]))
    (tmp_path / "patched.py").write_text(made.file(tmp_path / "train.py").text)
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    losses = []
    for script in ("train.py", "patched.py"):
        told = subprocess.run(
            [sys.executable, str(tmp_path / script)],
            capture_output=True,
            text=True,
            check=True,
            env=one_thread,
        )
        losses.append([float(each) for each in told.stdout.split()])
    assert len(losses[0]) == 2
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
