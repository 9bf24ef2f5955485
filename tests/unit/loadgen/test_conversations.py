"""Conversations of several turns, prompts with a common beginning, and prompts cut by a tokenizer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

pytest.importorskip("h11")
pytest.importorskip("aiohttp")

from fixtures.llm_server import Answer, Cost, Script, serving
from laptime.analysis.load import LevelStats, level_stats
from laptime.kit.errors import LaptimeError, UsageError
from laptime.loadgen import language_model
from laptime.loadgen.language_model import Prompts, bodies, cut_by, later
from laptime.records.run import Run
from laptime.reports.formats import text
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.load.run import load

FAST = Cost(base=0.002, prefill_token=0.0002, running=0.0)


def told(run: Run) -> LevelStats:
    stats = level_stats(run.cases[0])
    assert stats is not None
    return stats


@pytest.mark.parametrize("levels", [{"concurrency": [1]}, {"rates": [60], "arrivals": "constant"}])
def test_each_turn_holds_what_was_said_before(levels: dict[str, object]) -> None:
    with serving(Script(cost=FAST)) as server:
        run = load(LoadRequest(target=server.url, requests=12, prompt=20, output=5, turns=3, **levels))  # type: ignore[arg-type]
        prompts = [job.prompt for job in server.truth()[-12:]]
    stats = told(run)
    assert (stats.facts.answered, stats.facts.failed) == (12, 0)
    # Twenty words of the user and five of the answer more, each turn.
    assert sorted(prompts) == [20] * 4 + [45] * 4 + [70] * 4
    assert stats.facts.asked == (45, 5)
    assert stats.tokens is not None
    assert stats.tokens.prompt == 45
    first = [stat.value or 0.0 for stat in stats.tokens.by_turn]
    assert [stat.n for stat in stats.tokens.by_turn] == [4, 4, 4]
    if "concurrency" in levels:  # else others are read in the same iteration
        assert first[0] < first[1] < first[2]  # 5 ms more, each
    assert "turn 1:" in text.render(run, width=110)


def test_a_conversation_ends_where_a_turn_fails() -> None:
    answers = (Answer(),) * 3 + (Answer(status=503),)
    with serving(Script(cost=FAST, answers=answers)) as server:
        run = load(LoadRequest(target=server.url, concurrency=[1], requests=9, prompt=8, output=2, turns=3))
    facts = told(run).facts
    assert facts.failed >= 1
    assert facts.answered + facts.failed < 9


@pytest.mark.parametrize("target", ["http://127.0.0.1:9/predict", "http://127.0.0.1:9/v1/completions"])
def test_what_is_no_chat_has_no_turns(target: str) -> None:
    with pytest.raises(UsageError, match="--turns"):
        load(LoadRequest(target=target, rates=[1], turns=2))


def test_prompts_begin_alike_for_as_many_tokens_as_asked() -> None:
    prompts = Prompts(kind="completions", prompt=40, shared=15)
    one, two, *_ = [msgspec.json.decode(body)["prompt"].split() for body in bodies(prompts, 4)]
    assert len(one) == len(two) == 40
    assert one[:15] == two[:15]
    assert one[15:] != two[15:]
    assert later(prompts) == []
    assert later(Prompts(kind="chat", prompt=40, turns=2))[0].count(" ") == 39


class Letters:
    """A tokenizer to which each letter is a token."""

    def encode(self, text: str, *, add_special_tokens: bool) -> SimpleNamespace:
        assert not add_special_tokens
        return SimpleNamespace(offsets=[(at, at + 1) for at in range(len(text))])


def test_a_tokenizer_cuts_prompts_to_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_model, "cutter", lambda path: cut_by(Letters()))
    prompts = Prompts(kind="completions", prompt=100, shared=30, frame=4, tokenizer="x")
    one, two = [msgspec.json.decode(body)["prompt"] for body in bodies(prompts, 2)]
    assert len(one) == len(two) == 96  # the server adds four
    assert one[:30] == two[:30]
    assert one != two


def test_a_tokenizer_that_is_none_is_refused(tmp_path: Path) -> None:
    with serving(Script(cost=FAST)) as server, pytest.raises(LaptimeError, match="tokenizer"):
        load(LoadRequest(target=server.url, rates=[1], tokenizer=tmp_path))
