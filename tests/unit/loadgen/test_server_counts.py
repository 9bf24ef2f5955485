"""What a server counts itself, beside what was counted here: to the unit, or the level is invalid."""

from __future__ import annotations

import pytest

pytest.importorskip("h11")
pytest.importorskip("aiohttp")

from fixtures.llm_server import Answer, Cost, Script, serving
from laptime.loadgen.server_metrics import totals
from laptime.records.check import Check
from laptime.records.load import count_here
from laptime.records.run import Run
from laptime.reports.formats import text
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.load.run import load

PAGE = """# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="a"} 100.0
vllm:prompt_tokens_total{engine="1",model_name="a"} 1.5e+02
vllm:prompt_tokens_total{engine="0",model_name="b"} 7.0
vllm:generation_tokens_total{engine="0",model_name="a"} 40.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="a"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="a"} 2.0
vllm:time_to_first_token_seconds_bucket{le="+Inf",model_name="a"} 5.0
vllm:time_to_first_token_seconds_count{model_name="a"} 5.0
vllm:time_to_first_token_seconds_sum{model_name="a"} 0.25
"""


def counted(script: Script) -> tuple[Run, Check | None]:
    with serving(script) as server:
        run = load(LoadRequest(target=server.url, concurrency=[2], requests=6, prompt=20, output=8))
    checks = [check for check in run.cases[0].checks if check.name == "server_counts"]
    return run, checks[0] if checks else None


def test_a_page_is_summed_over_engines_and_reasons_of_one_model() -> None:
    of_a = totals(PAGE, "a")
    assert of_a is not None
    assert (of_a.requests, of_a.prompt, of_a.output) == (5, 250, 40)
    assert (of_a.first_tokens, of_a.ttft_sum) == (5, 0.25)
    everything = totals(PAGE)
    assert everything is not None
    assert everything.prompt == 257
    assert totals("process_cpu_seconds_total 1.0\n") is None


def test_a_server_that_counts_the_same_is_shown_beside_what_was_seen() -> None:
    run, check = counted(Script(cost=Cost(base=0.004)))
    assert check is not None
    assert check.outcome == "ok"
    facts = run.cases[0].details.load
    assert facts is not None
    assert facts.server is not None
    ours = count_here(run.cases[0].requests, facts)
    assert (ours.requests, ours.prompt, ours.output) == (6, 120, 48)
    assert (facts.server.requests, facts.server.prompt, facts.server.output) == (6, 120, 48)
    assert ours.ttft is not None
    assert facts.server.ttft is not None
    assert 0 <= ours.ttft - facts.server.ttft < 0.05
    assert "server's /metrics beside" in text.render(run, width=140)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (Script(metrics_tokens_error=1), "output tokens: 54 there, 48 here"),
        (Script(metrics_ttft_error=1.0), "to the first token on average, more than"),
    ],
)
def test_a_server_that_counts_otherwise_makes_the_level_invalid(script: Script, said: str) -> None:
    run, check = counted(script)
    assert check is not None
    assert check.outcome == "fail"
    assert said in check.sentence
    assert run.cases[0].trust == "invalid"


def test_of_requests_that_failed_the_server_may_count_any_part() -> None:
    answers = (Answer(),) * 4 + (Answer(end="cut", after=3),)
    _, check = counted(Script(answers=answers))
    assert check is not None
    assert check.outcome == "ok"


def test_a_server_without_metrics_is_believed() -> None:
    run, check = counted(Script(metrics=False))
    assert check is None
    assert "/metrics" not in text.render(run, width=140)
