"""Batches in the training loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from laptime.tuning.optimization import CannotEdit
from laptime.tuning.patch.editor import Editor
from laptime.tuning.patch.sources import Sources

TRIM = 'script.on_batch("{batch} = trim({batch})")'


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("for batch in loader:", "batch = trim(batch)"),
        ("for x, y in loader:", "x, y = trim((x, y))"),
        ("for i, (x, y) in enumerate(loader):", "x, y = trim((x, y))"),
        ("for i, batch in tqdm(enumerate(loader, 1), total=9):", "batch = trim(batch)"),
        ("for i, (x, (y, z)) in enumerate(tqdm(loader)):", "x, (y, z) = trim((x, (y, z)))"),
        ("for (x,) in islice(loader, 9):", "(x,) = trim((x,))"),
        ("for a, (x, y) in zip(other, loader):", "x, y = trim((x, y))"),
        ("for step, (a, b) in enumerate(zip(loader, other)):", "a = trim(a)"),
    ],
)
def test_a_statement_for_the_batch_is_the_first_of_the_loop(
    script: Callable[..., Sources], edited: Callable[..., str], header: str, expected: str
) -> None:
    sources = script(f"{header}\n    # note\n    use()\n", ("fetch", header, {"expression": "loader"}))
    assert edited(sources, TRIM) == f"{header}\n    {expected}\n    # note\n    use()\n"


@pytest.mark.parametrize(
    ("text", "site", "reason"),
    [
        ("for item in enumerate(loader):\n    use()\n", "for item", "no name"),
        ("for x in loader: use(x)\n", "for x", "same line"),
        ("for pair in zip(loader, loader):\n    use()\n", "for pair", "not clear"),
        ("x = next(it).to(device)\n", "next(it)", "no name"),
        ("all = [x for x in loader]\n", "[x for", "is not made by a call"),
    ],
)
def test_a_batch_without_a_name_is_refused(
    script: Callable[..., Sources], text: str, site: str, reason: str
) -> None:
    sources = script(text, ("fetch", site, {"expression": "loader"}))
    with pytest.raises(CannotEdit, match=reason):
        Editor(sources).on_batch("{batch} = trim({batch})")


def test_an_iterator_that_begins_anew_gives_its_batch_behind_the_whole_try(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = (
        "while go:\n    try:\n        x, y = next(it)\n"
        "    except StopIteration:\n        x, y = next(again)\n    use(x)\n"
    )
    found = edited(script(text, ("fetch", "next(it)")), TRIM)
    assert found == text.replace("    use", "    x, y = trim((x, y))\n    use")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x, y = x.to(dev), y.cuda()", "x, y = x.to(dev, non_blocking=True), y.cuda(non_blocking=True)"),
        ("x = x.float().to(dev)", "x = x.float().to(dev, non_blocking=True)"),
        ("x = x.to(device=dev)", "x = x.to(device=dev, non_blocking=True)"),
        ("x = [t.to(dev) for t in x]", "x = [t.to(dev, non_blocking=True) for t in x]"),
        ("z = x['a'].to(dev, torch.float32)", "z = x['a'].to(dev, torch.float32, non_blocking=True)"),
    ],
)
def test_copies_of_the_batch_do_not_wait(
    script: Callable[..., Sources], edited: Callable[..., str], body: str, expected: str
) -> None:
    sources = script(f"for x, y in loader:\n    {body}\n", ("fetch", "for x", {"expression": "loader"}))
    assert edited(sources, "script.non_blocking()") == f"for x, y in loader:\n    {expected}\n"


def test_copies_in_a_function_that_is_given_the_batch_do_not_wait(
    script: Callable[..., Sources], edited: Callable[..., str]
) -> None:
    text = (
        "def move(batch, device):\n    return {k: v.to(device) for k, v in batch.items()}\n"
        "for batch in loader:\n    batch = move(batch, dev)\n"
    )
    sources = script(text, ("fetch", "for batch", {"expression": "loader"}))
    assert edited(sources, "script.non_blocking()") == text.replace(
        ".to(device)", ".to(device, non_blocking=True)"
    )


@pytest.mark.parametrize(
    "body", ["out = model(x).to(dev)", "x = x.to(torch.float16)", "x = x.to('cpu')", "x = x.to(dtype=half)"]
)
def test_results_conversions_and_copies_to_the_host_wait(script: Callable[..., Sources], body: str) -> None:
    """A copy to the host that does not wait may be read before it is there."""
    sources = script(f"for x, y in loader:\n    {body}\n", ("fetch", "for x", {"expression": "loader"}))
    with pytest.raises(CannotEdit, match="no copy"):
        Editor(sources).non_blocking()
