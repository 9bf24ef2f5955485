"""Text of so many tokens, by a tokenizer of the user's own. What the server counts stays the truth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from laptime.kit.errors import Unavailable, UsageError

Cut = Callable[[str, int], str]
"""The beginning of a text that has so many tokens."""


def cutter(path: Path) -> Cut:
    """Of a `tokenizer.json`, or a folder that holds one.

    Raises:
        Unavailable: the library is not installed. UsageError: the file is no tokenizer.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise Unavailable(
            "tokenizers is not installed", why="--tokenizer is read by it", next="pip install tokenizers"
        ) from None
    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        return cut_by(Tokenizer.from_file(str(file)))
    except Exception as error:  # the library raises Exception itself
        raise UsageError(
            f"{path} is no tokenizer", why=str(error), next="--tokenizer FOLDER   with a tokenizer.json"
        ) from None


def cut_by(tokenizer: Any) -> Cut:
    """Of anything whose `encode` tells where each token lies in the text."""

    def cut(text: str, tokens: int) -> str:
        offsets = tokenizer.encode(text, add_special_tokens=False).offsets
        return text[: offsets[min(tokens, len(offsets)) - 1][1]] if tokens > 0 and offsets else ""

    return cut
