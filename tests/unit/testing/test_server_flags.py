"""Scripted servers take their script as JSON or as flags."""

from __future__ import annotations

import pytest

from fixtures import llm_server
from laptime.testing import http_server
from laptime.testing.server_process import arguments


def test_flags_and_json_say_the_same() -> None:
    flags = ["--port", "8000", "--slots", "4", "--cost.base", "0.02", "--cost.prefill-token", "0"]
    text = '{"slots": 4, "cost": {"base": 0.02, "prefill_token": 0}}'
    assert arguments(flags, llm_server.Script) == arguments(["8000", text], llm_server.Script)
    port, script = arguments(["--law", "exponential"], http_server.Script)
    assert (port, script.law, script.slots) == (0, "exponential", 1)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--help"], "usage: .*--slots"),
        (["--slots"], "usage"),
        (["--slots", "4", "5", "6"], "usage"),
        (["--slots", "x"], r"\$\.slots"),
        (["--law", "normal"], r"\$\.law"),
        (["--no-such", "1"], "usage"),
        (["--port", "x"], "error"),
    ],
)
def test_other_words_start_no_server(flags: list[str], said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        arguments(flags, http_server.Script)
