"""The same changes in a user's source: it still runs, and trains what it trained before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from laptime.tuning.loop_profile import Site
from laptime.tuning.optimization import CannotEdit, Change
from laptime.tuning.patch.sources import Sources

pytestmark = pytest.mark.torch

SCRIPT = '''"""Trains something small."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokens = torch.randint(1, 50, (16, 24))
    tokens[:, 9:] = 0  # padding
    data = TensorDataset(tokens, torch.rand(16, 1))
    loader = DataLoader(data, batch_size=4, shuffle=True)
    model = nn.Sequential(nn.EmbeddingBag(50, 4, padding_idx=0), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for rows, wanted in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(rows), wanted)
            loss.backward()
            optimizer.step()
            print(rows.shape[1], loss.item())
    print("end", sum(each.sum().item() for each in model.parameters()))


if __name__ == "__main__":
    main()
'''

PLACES = {
    "loader": ("DataLoader(data", "", "DataLoader"),
    "optimizer": ("torch.optim.SGD", "optimizer", "SGD"),
    "model": ("torch.optim.SGD", "model", "SGD"),
    "fetch": ("for rows", "loader", ""),
    "forward": ("model(rows)", "model", ""),
    "backward": ("loss.backward", "loss", ""),
    "step": ("optimizer.step", "optimizer", ""),
    "sync": ("print(rows", "", "item"),
}


def patched(folder: Path, *changes: Change) -> tuple[str, Path]:
    """The script's text after these changes, and its path."""
    path = folder / "train.py"
    path.write_text(SCRIPT)
    lines = SCRIPT.splitlines()
    sites = []
    for kind, (text, expression, detail) in PLACES.items():
        line = next(number for number, each in enumerate(lines, 1) if text in each)
        sites.append(Site(kind, str(path), line, "main", line, expression, detail=detail))
    sources = Sources(tuple(sites), str(path))
    for change in changes:
        assert sources.apply(change, "kept") == [str(path)]
    text = sources.file(path).text
    path.write_text(text)
    return text, path


def losses(path: Path) -> list[str]:
    """What the script prints, line by line."""
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the script prints as it is."""
    return losses(patched(tmp_path_factory.mktemp("plain"))[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "line"),
    [
        (Change("cache_dataset"), "loader = DataLoader(CachedDataset(data), batch_size=4, shuffle=True)"),
        (Change("seed_by_sample"), "loader = DataLoader(SeededBySample(data), batch_size=4, shuffle=True)"),
        (
            Change("batched_fetch"),
            "loader = DataLoader(TensorBatches(data), batch_size=4, shuffle=True, collate_fn=list)",
        ),
        (
            Change("num_workers", {"value": 2}),
            "loader = DataLoader(data, batch_size=4, shuffle=True, num_workers=2)",
        ),
        (Change("trim_padding", {"pad": 0}), "rows, wanted = trim_padding((rows, wanted), pad=0)"),
    ],
)
def test_an_edited_script_trains_the_same(
    tmp_path: Path, plain: list[str], change: Change, line: str
) -> None:
    text, path = patched(tmp_path, change)
    assert line in text
    assert "# laptime: kept" in text
    found = losses(path)
    if change.name == "trim_padding":
        assert {each.split()[0] for each in found[:-1]} == {"16"}
    assert [each.split()[1] for each in found] == [each.split()[1] for each in plain]


@pytest.mark.slow
def test_several_changes_stand_together(tmp_path: Path, plain: list[str]) -> None:
    changes = [
        Change("cache_dataset"),
        Change("num_workers", {"value": 2}),
        Change("prefetch_factor", {"value": 4}),
        Change("persistent_workers"),
        Change("trim_padding", {"pad": 0}),
    ]
    text, path = patched(tmp_path, *changes)
    arguments = "batch_size=4, shuffle=True, num_workers=2, prefetch_factor=4, persistent_workers=True"
    assert f"DataLoader( CachedDataset(data), {arguments} )" in " ".join(text.split())
    # The first epoch; then workers that live on have left the shuffle another number.
    assert [each.split()[1] for each in losses(path)[:4]] == [each.split()[1] for each in plain[:4]]


def test_arguments_and_rules_are_written_as_people_do(tmp_path: Path) -> None:
    text, _ = patched(
        tmp_path, Change("batch_size", {"value": 16, "times": 4, "lr": "linear"}), Change("in_order")
    )
    assert "DataLoader(data, batch_size=16, shuffle=True, in_order=False)" in text
    assert "torch.optim.SGD(model.parameters(), lr=0.1 * 4)" in text


def test_logging_is_put_under_a_flag(tmp_path: Path) -> None:
    text, _ = patched(tmp_path, Change("defer_logging", {"every": 50, "sites": [0]}))
    assert "import itertools" in text
    assert "            is_logged = next(batch_numbers) % 50 == 0\n" in text
    assert "            if is_logged:\n                print(rows.shape[1], loss.item())\n" in text


@pytest.mark.parametrize(
    "statements",
    [
        "total += loss.item()",
        "total = total + loss.item()",
        "last = loss.item()\n            history.append(last)",
        "last = loss.item()\n            best = min(best, last)",
        "if loss.item() > 9: break",
        "history.append(loss.item())",
        "print(loss.item(), file=log)",
        "print(history.pop(), loss.item())",
        "meter.update(loss.item())",
        "assert loss.item() > 0",
    ],
)
def test_a_value_that_goes_elsewhere_than_into_a_log_is_left_alone(tmp_path: Path, statements: str) -> None:
    path = edited_loop(tmp_path, statements)
    sources = Sources(loop_sites(path), str(path))
    with pytest.raises(CannotEdit):
        sources.apply(Change("defer_logging", {"every": 50, "sites": [0]}), "suggested")
    assert not sources.diff()


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("logger.info('%s', loss.item())", "            if is_logged:\n                logger.info("),
        ("bar.set_postfix(loss=loss.item())", "            if is_logged:\n                bar.set_postfix("),
        (
            "last = loss.item()\n            print(f'{last:.3f}')",
            "            if is_logged:\n                last = loss.item()\n"
            "            if is_logged:\n                print(f'{last:.3f}')\n",
        ),
    ],
)
def test_what_a_log_shows_is_read_under_the_flag(tmp_path: Path, statements: str, expected: str) -> None:
    path = edited_loop(tmp_path, statements)
    sources = Sources(loop_sites(path), str(path))
    change = Change("defer_logging", {"every": 50, "sites": [0]})
    sources.apply(change, "suggested")
    assert expected in sources.file(path).text
    assert sources.apply(change, "suggested") == [], "twice is once"


def edited_loop(folder: Path, statements: str) -> Path:
    """The script with other statements in place of its print."""
    path = folder / "train.py"
    path.write_text(SCRIPT.replace("print(rows.shape[1], loss.item())", statements))
    return path


def loop_sites(path: Path) -> tuple[Site, ...]:
    lines = path.read_text().splitlines()
    fetch = next(number for number, each in enumerate(lines, 1) if "for rows" in each)
    wait = next(n for n, each in enumerate(lines, 1) if "loss" in each and n > fetch + 4)
    return (
        Site("fetch", str(path), fetch, "main", fetch, "loader"),
        Site("sync", str(path), wait, "main", wait, "", detail="item", count=1.0),
    )


def test_a_gpu_is_fed_in_the_source(tmp_path: Path) -> None:
    text, _ = patched(tmp_path, Change("prefetch_to_device"))
    assert "loader = DevicePrefetcher(DataLoader(data, batch_size=4, shuffle=True))" in text
    assert "class DevicePrefetcher" in text
    assert "def prefetch_all" in text


def test_images_are_normalised_in_front_of_the_model(tmp_path: Path) -> None:
    text, _ = patched(tmp_path, Change("uint8_transfer", {"mean": [0.5], "std": [0.25]}))
    assert "DataLoader(with_bytes(data), batch_size=4, shuffle=True)" in text
    assert "model.register_forward_pre_hook(NormalizeBytes([0.5], [0.25]))" in text
    assert text.count("def with_bytes") == text.count("class NormalizeBytes") == 1


def test_nothing_is_edited_for_nothing(tmp_path: Path) -> None:
    with pytest.raises(CannotEdit, match="changes nothing"):
        patched(tmp_path, Change("identity"))
