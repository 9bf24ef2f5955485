"""Text for terminals that can show nothing but ASCII: `LC_ALL=C`, old consoles, some CI logs."""

from __future__ import annotations

import unicodedata

_WORDS = str.maketrans({
    "·": "|", "±": "+-", "×": "x", "…": "~", "→": "->", "–": "-", "—": "-", "“": '"', "”": '"', "’": "'",
    "µ": "u", "█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "=", "▍": "=", "▎": "-", "▏": "-",
    "▁": "_", "▂": "_", "▃": ".", "▄": "-", "▅": "=", "▆": "+", "▇": "#", "\xa0": " ",
})  # fmt: skip


def in_ascii(text: str) -> str:
    """The same text with other signs for what ASCII has not; letters lose their accents, others become ?."""
    plain = unicodedata.normalize("NFKD", text.translate(_WORDS))
    kept = "".join(sign for sign in plain if not unicodedata.combining(sign))
    return kept.encode("ascii", "replace").decode()
