"""Does the tuned server answer the same? What varies by itself is left out, and said."""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fixtures import llm_server
from fixtures.scripted_servers import served
from laptime.loadgen.connection import Reply
from laptime.loadgen.messages import Endpoint
from laptime.records.tuning import Gate
from laptime.testing import http_server
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.server import outputs as of_server
from laptime.tuning.server.outputs import MANY, PROMPTS, ROUNDS, _parts, outputs
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.load.senders import sender_target

Answers = list[dict[str, Any]]
SAME: Answers = [{"text": "a b", "output tokens": 2}, {"text": "c d", "output tokens": 2}]


def texts(*said: str, tokens: int = 2) -> Answers:
    return [{"text": each, "output tokens": tokens} for each in said]


def gate(reference: list[Answers], tuned: Answers, *, differs: bool) -> Gate:
    """Hold answers against others; one that names no prompt has that of its place."""
    *as_it_is, made = ([{"prompt": at, **each} for at, each in enumerate(a)] for a in [*reference, tuned])
    return of_server.gate(as_it_is, made, differs=differs)


def test_the_same_answers_pass() -> None:
    made = gate([SAME, SAME], SAME, differs=False)
    assert made.word == "passed"
    assert [check.sentence for check in made.checks] == [
        "the server as it is, asked after 2 starts, gave the same answers",
        "2 answers came out the same: output tokens, text",
    ]


def test_another_text_fails_and_is_named() -> None:
    made = gate([SAME, SAME], texts("a b", "c X"), differs=False)
    assert (made.word, made.reason) == ("failed", "1 of 2 answers came out different in text")


def test_texts_that_vary_by_themselves_are_left_out() -> None:
    made = gate([SAME, texts("x y", "z w")], texts("q q", "q q"), differs=False)
    assert made.word == "passed"
    assert "in text:" in made.checks[0].sentence
    assert "2 answers" in made.checks[1].sentence
    assert gate([SAME, texts("x", "z")], texts("q", "q", tokens=1), differs=False).word == "failed"


def test_an_id_that_grows_and_the_last_digits_of_floats_are_no_other_answer() -> None:
    def answer(number: int, *, total: int = 7, score: float = 0.123456789) -> Answers:
        return [{"status": 200, "values": 3, "sum": total, "score": score, "id": number}]

    made = gate([answer(8), answer(9)], answer(10, score=0.123456789 * (1 + 1e-7)), differs=False)
    assert made.word == "passed"
    assert made.checks[1].sentence == "1 answer came out the same: score, status, sum, values"
    assert gate([answer(8), answer(9)], answer(10, total=8), differs=False).word == "failed"
    assert gate([answer(8), answer(9)], answer(10, score=0.1235), differs=False).word == "failed"
    assert (
        gate([answer(8), answer(9)], [{**answer(10)[0], "values": 4, "more": 1}], differs=False).word
        == "failed"
    )


class Mixing(BaseHTTPRequestHandler):
    """Answers the sum of a body; every so many-th is off by one if another request is under way then."""

    under, every, order = 0, 0, 0
    lock = threading.Lock()

    def log_message(self, *words: object) -> None:
        pass

    def do_POST(self) -> None:
        cls = type(self)
        body = self.rfile.read(int(self.headers["content-length"]))
        with cls.lock:
            cls.under += 1
            cls.order += 1
        time.sleep(0.01)
        with cls.lock:
            is_wrong = cls.every and cls.order % cls.every == 0 and cls.under > 1
            pairs = [("sum", sum(body) + is_wrong), ("id", cls.order)]
            cls.under -= 1
        text = json.dumps(dict(pairs[:: 1 if cls.order % 2 else -1])).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class Mixed(ThreadingHTTPServer):
    """Serves it: connections that come at once wait in line; the sixth would try again a second later."""

    request_queue_size = 128


def test_answers_that_are_wrong_while_others_are_under_way_fail_and_the_order_of_keys_does_not() -> None:
    server = Mixed(("127.0.0.1", 0), Mixing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    try:
        Mixing.every = 0
        reference = [asked_of(url, bodies=["a", "bb"]) for _ in range(2)]
        assert gate(reference, asked_of(url, bodies=["a", "bb"]), differs=False).word == "passed"
        Mixing.every = 1
        made = gate(reference, asked_of(url, bodies=["a", "bb"]), differs=False)
    finally:
        server.shutdown()
        server.server_close()
    assert made.word == "failed"
    assert "different in sum" in made.reason


def test_one_of_fifty_answers_that_is_wrong_beside_others_fails_though_not_in_each_round() -> None:
    answers = []
    for every in (0, 50):
        handler = type("Rare", (Mixing,), {"every": every, "under": 0, "order": 0})
        server = Mixed(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        try:
            answers.append(asked_of(url, seconds=60.0, bodies=["a", "bb"]))
        finally:
            server.shutdown()
            server.server_close()
    sound, rare = answers
    assert MANY <= len(sound) < MANY + 2 * PROMPTS
    made = gate([sound, sound], rare, differs=False)
    assert made.word == "failed"
    assert re.fullmatch(r"[1-9]\d? of \d+ answers came out different in sum", made.reason)


def test_a_count_of_requests_is_left_out_though_every_start_counts_alike() -> None:
    start = [{"prompt": 0, "sum": 7, "id": number} for number in range(4)]
    made = gate([start, start], [{**each, "id": 9 - each["id"]} for each in start], differs=False)
    assert made.word == "passed"
    assert "in id:" in made.checks[0].sentence
    assert gate([start, start], [{**each, "sum": 8} for each in start], differs=False).word == "failed"


def test_the_length_of_what_is_no_document_counts() -> None:
    whole = [[{"status": 200, "length": 5, "body": body}] for body in (b"plain", b"white", b"plainer")]
    assert gate(whole[:2], whole[1], differs=False).word == "passed"
    longer = [{**whole[2][0], "length": 7}]
    assert gate(whole[:2], longer, differs=False).word == "failed"


def test_where_nothing_repeats_itself_nothing_is_known() -> None:
    made = gate([[{"id": 1}], [{"id": 2}]], [{"id": 3}], differs=False)
    assert made.word == "undecided"
    assert "every part" in made.reason


def test_lengths_alone_where_answers_may_differ() -> None:
    assert gate([SAME, SAME], texts("q", "r"), differs=True).word == "passed"
    assert gate([SAME, SAME], texts("q", "r", tokens=1), differs=True).word == "failed"
    assert gate([SAME, SAME], SAME, differs=True).numerics == "precision"


def test_a_part_that_is_missing_is_a_difference() -> None:
    assert gate([SAME, SAME], [{"text": "a b"}, SAME[1]], differs=False).word == "failed"


def asked_of(url: str, seconds: float = 0.0, **load: Any) -> Answers:
    endpoint, _ = sender_target(LoadRequest(target=url, concurrency=[1], **load))
    assert isinstance(endpoint, Endpoint)
    return outputs(endpoint, seconds=seconds)


def test_a_language_model_is_asked_for_text_and_counts() -> None:
    with served(llm_server.Script(cost=llm_server.Cost(base=0.0, prefill_token=0.0, running=0.0))) as url:
        found = asked_of(url, prompt=5, output=3)
    parts = {"text": " w0 w1 w2", "prompt tokens": 5, "output tokens": 3}
    assert found[:8] == [{"prompt": at, **parts} for at in range(8)]
    assert found[8:] == [{"prompt": -1 - at, "prompt answered": at} for at in range(8)] * ROUNDS


@pytest.mark.parametrize("answer", [{"reasoning": 3}, {"channel": "tool_calls"}])
def test_what_a_language_model_only_thinks_or_calls_is_compared_too(answer: dict[str, Any]) -> None:
    """A text of nothing was the same whatever the model thought."""
    script = llm_server.Script(answers=(llm_server.Answer(**answer),))
    with served(script) as url:
        found = asked_of(f"{url}/chat/completions", prompt=5, output=3)
    assert found[0]["text"]


def test_a_packed_answer_is_compared_by_what_is_in_it() -> None:
    parts = []
    for at in (1.0, 2.0):
        packed = gzip.compress(b'{"score": 0.5}', mtime=at)
        parts.append(_parts(Reply(200, {"content-encoding": "gzip"}, [(0.0, packed)], 0.0)))
    assert parts == [{"status": 200, "values": 1, "score": 0.5}] * 2


@pytest.mark.parametrize(
    "harm", [lambda packed: packed[:-9], lambda packed: b"no gzip", lambda packed: b"\x1f\x8b" + packed]
)
def test_a_packed_answer_that_is_damaged_is_compared_as_it_is(harm: Callable[[bytes], bytes]) -> None:
    packed = gzip.compress(b'{"score": 0.5}', mtime=1.0)
    headers = {"content-encoding": "gzip"}
    whole, damaged = (_parts(Reply(200, headers, [(0.0, body)], 0.0)) for body in (packed, harm(packed)))
    assert gate([[whole], [whole]], [damaged], differs=False).word == "failed"
    assert gate([[damaged], [damaged]], [damaged], differs=False).word == "passed"


def test_each_value_of_a_json_document_is_a_part() -> None:
    answer = http_server.Answer(body='{"label": "cat", "scores": [0.5, {"x": null}]}')
    with served(http_server.Script(answers=(answer,))) as url:
        found = asked_of(url)
    parts = {"prompt": 0, "status": 200, "values": 3, "label": "cat", "scores[0]": 0.5, "scores[1].x": None}
    assert found == [parts] * (1 + ROUNDS * PROMPTS)


@pytest.mark.parametrize(
    ("body", "alike", "other"),
    [
        ('{"a": 0.5, "id": 1}\n{"a": 0.7, "id": 2}\n', ("0.7", "0.70000004"), ("0.7", "0.71")),
        ("score=0.25 label=cat\n", ("0.25", "0.25000001"), ("cat", "dog")),
        ('{"score": "0.125"}', ("0.125", "0.12500001"), ("0.125", "0.126")),
        ('{"score": 1}', ("1", "1.0000001"), ("1", "2")),
        ("<p>cat</p>\n<p>0.5</p>", ("0.5", "0.50000001"), ("cat", "cats")),
        ('{"n": "17"}', ("x", "x"), ("17", "18")),
        ('{"ok": true}', ("x", "x"), ("true", "1")),
        ('{"a": NaN, "b": 0.5}', ("0.5", "0.50000001"), ("0.5", "NaN")),
        ('{"a": NaN, "b": 0.5}', ("x", "x"), ("NaN", "0.1")),
        ('{"text": "a cat (0.98765)"}', ("0.98765", "0.987650001"), ("0.98765", "0.98")),
        ('{"text": "a cat (0.98765)"}', ("x", "x"), ("a cat", "a dog")),
        ('{"at": 1e-3}', ("1e-3", "0.0010000001"), ("1e-3", "1e3")),
        ('{"n": -0.5}', ("-0.5", "-0.50000001"), ("-0.5", "0.5")),
        ('{"n": 1e-9}', ("1e-9", "-1e-9"), ("1e-9", "1e-3")),
        ('{"n": "v17 of 18"}', ("x", "x"), ("17", "19")),
        ("a:0.5 b:0.25", ("0.25", "0.25000001"), ("0.25", "0.26")),
    ],
)
def test_answers_of_any_text_are_compared_by_value(
    body: str, alike: tuple[str, str], other: tuple[str, str]
) -> None:
    def asked(text: str) -> Answers:
        with served(http_server.Script(answers=(http_server.Answer(body=text),))) as url:
            return asked_of(url)

    reference = [asked(body)] * 2
    assert gate(reference, asked(body.replace(*alike)), differs=False).word == "passed"
    assert gate(reference, asked(body.replace(*other)), differs=False).word == "failed"


def test_a_word_that_varies_is_named_and_left_out() -> None:
    answers = [
        [{"status": 200, "values": 2, "word 1": "cat", "word 2": at}] for at in ("9:59", "10:00", "10:01")
    ]
    made = gate(answers[:2], answers[2], differs=False)
    assert made.word == "passed"
    assert "word 2" in made.checks[0].sentence


def test_as_many_are_asked_at_once_as_the_load_has() -> None:
    with served(http_server.Script(answers=(http_server.Answer(body="plain"),))) as url:
        endpoint, _ = sender_target(LoadRequest(target=url, concurrency=[1]))
        assert isinstance(endpoint, Endpoint)
        assert [len(outputs(endpoint, users)) for users in (1, 20)] == [1 + 3 * PROMPTS, 1 + 3 * 20]


def test_other_answers_are_compared_whole_and_one_that_fails_ends_the_trial() -> None:
    with served(http_server.Script(answers=(http_server.Answer(body="plain"),))) as url:
        assert asked_of(url)[0] == {"prompt": 0, "status": 200, "length": 5, "body": b"plain"}
    broken = http_server.Script(answers=(http_server.Answer(status=500),))
    with served(broken) as url, pytest.raises(TrialFailed, match="http 500"):
        asked_of(url)
