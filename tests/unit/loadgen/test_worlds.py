"""What a level says of servers whose truth is known, in virtual time: rates, failures, tokens, lateness."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from fixtures import load_worlds, runs
from fixtures.load_worlds import LIBRARY, OTHERS, UNSEEN, Server, World, level, numbers, stable, truth
from laptime.analysis.promises import level_judged, promises
from laptime.loadgen import arrivals
from laptime.loadgen.promise import goodput
from laptime.pricing.speeds import NoCost, speeds
from laptime.records.case import Case
from laptime.records.requests import Answer
from laptime.records.run import Run
from laptime.reports.formats import html, text
from laptime.verbs.load.levels import plan_levels
from laptime.verbs.load.request import LoadRequest

ALL = LIBRARY | UNSEEN
EVERY = ALL | OTHERS


def run_of(case: Case) -> Run:
    return structs.replace(runs.run(case), verb="load")


def shown(case: Case) -> str:
    return text.render(run_of(case), width=160)


def brief(case: Case) -> str:
    return text.render(run_of(case), brief=True)


@pytest.mark.parametrize("name", EVERY)
def test_the_rate_is_right_within_two_percent(name: str) -> None:
    world = EVERY[name]
    stats = numbers(level(world, 20, 1))
    sent = len(stats.requests.due) / stats.facts.window
    assert sent == pytest.approx(world.rate, rel=1e-6)
    whole = 1 - float(np.isinf(stats.requests.latency).mean())
    if world.utilisation < 1:
        assert stats.answered.value == pytest.approx(world.rate * whole, rel=0.02)
    else:
        assert stats.balance.grows
        drawn = 0.02 if world.law == "constant" else 0.1  # services of one level differ from their mean
        assert stats.answered.value == pytest.approx(world.served, rel=drawn)


@pytest.mark.parametrize("name", EVERY)
def test_no_level_is_invalid_whose_server_answers(name: str) -> None:
    assert level(EVERY[name], 20, 2).trust != "invalid"


def test_answers_that_are_not_short_against_the_level_have_the_right_price() -> None:
    case = level(World("constant", 6.0, 64, 4, tokens=110), 10, 1, usd_per_hour=4.0)
    assert numbers(case).answered.value == pytest.approx(4.0)
    tokens = numbers(case).tokens
    assert tokens is not None
    assert tokens.got == pytest.approx(440)
    assert "277.78" in shown(case)  # 4 USD an hour, 4 answers a second
    assert "2.53" in shown(case)


SLOW = {
    "4 s, one slot, 1/s": World("constant", 4.0, 1, 1),
    "3 s, two slots, 2/s": World("constant", 3.0, 2, 2),
    "2 s, one slot, 1/s constant": World("constant", 2.0, 1, 1, arrivals="constant"),
    "1 s, two slots, 3/s": World("constant", 1.0, 2, 3),
    "6 s, eight slots, 4/s": World("constant", 6.0, 8, 4),
    "0.1 s, one slot, 12/s": World("constant", 0.1, 1, 12),
    "3 s of 50 tokens, four slots, 4/s": World("constant", 3.0, 4, 4, tokens=50),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_slow_server_that_falls_behind_is_not_told_to_answer_what_came(name: str) -> None:
    """Ten requests of 4 s in one slot were told as answered at 1/s, four times the truth."""
    for seed in range(5):
        stats = numbers(level(SLOW[name], 10, seed))
        assert stats.balance.grows
        assert stats.answered.value == pytest.approx(SLOW[name].served, rel=0.07)


@pytest.mark.parametrize("law", ["exponential", "lognormal"])
def test_a_queue_that_may_have_grown_has_a_rate_with_a_lower_end(law: str) -> None:
    slow, calm = World(law, 2.0, 1, 1), World(law, 0.5, 8, 1)
    for seed in range(20):
        stats = numbers(level(slow, 20, seed))
        assert stats.answered.ci95 is None or stats.answered.ci95[0] < 0.8
        assert stats.balance.grows or stats.answered.ci95
        assert not numbers(level(calm, 20, seed)).balance.grows


@pytest.mark.parametrize(
    "world", [World(rate=45), World("constant", 1.0, 1, 0.9), World(slots=8, mean=1, rate=7)]
)
def test_a_busy_queue_is_not_taken_for_one_that_grows(world: World) -> None:
    assert sum(numbers(level(world, 20, seed)).balance.grows for seed in range(40)) <= 1


def test_times_of_a_file_are_answered_at_their_own_rate(tmp_path: Path) -> None:
    """Eleven times, a second apart, were told as 1.1/s."""
    file = tmp_path / "times"
    file.write_text("\n".join(map(str, range(11))))
    request = LoadRequest(target="null:noop", trace=file)
    ((_, facts, order),) = plan_levels(request, "null:noop", {})
    assert (facts.rate, facts.window, len(order.due)) == (1.0, 11.0, 11)


def test_a_server_that_dies_is_invalid_and_has_no_price() -> None:
    case = level(World(rate=30, dies=3.0), 10, 1, usd_per_hour=1.0)
    whole = int(np.isfinite(numbers(case).requests.latency).sum())
    assert case.trust == "invalid"
    assert numbers(case).answered.value == pytest.approx(whole / 10)
    assert "no answer came from second 3.0 on" in shown(case)
    assert "28.9" not in shown(case)
    assert "--duration" not in shown(case), "a longer level does not bring it back"
    closed = level(World("constant", 0.1, 64, 1, dies=3.05), 10, 1, users=8)
    assert closed.trust == "invalid"
    assert numbers(closed).answered.value == pytest.approx(24, rel=0.02)
    assert "inf" not in shown(closed)


class Hanging(Server):
    """Requests that come at a bad time wait for a minute, and fail."""

    def ends(self, at: float) -> tuple[float, str]:
        return (at + 60.0, "timeout") if self.rng.random() < 0.01 or at > 6 else super().ends(at)


@pytest.mark.parametrize("users", [0, 1, 2, 4, 8])
def test_a_server_that_hangs_is_dead_with_however_many_users(
    users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 8 users who waited for ever 8 of 1014 requests failed: `noisy`, 163/s for 101/s."""
    monkeypatch.setattr(load_worlds, "Server", Hanging)
    case = level(World(slots=8, rate=30), 10, 1, users=users)
    stats = numbers(case)
    whole = np.isfinite(stats.requests.latency)
    assert case.trust == "invalid"
    assert stats.dead is not None
    assert stats.answered.value == pytest.approx(whole.sum() / 10, rel=0.02)
    assert "no answer came from second" in shown(case)
    assert "above capacity" not in shown(case)


@pytest.mark.parametrize("users", [0, 8])
def test_a_limit_of_requests_a_second_is_no_death_and_no_fault_of_the_generator(users: int) -> None:
    class Limited(Server):
        second, given = -1, 0

        def ends(self, at: float) -> tuple[float, str]:
            if int(at) > self.second:
                self.second, self.given = int(at), 0
            self.given += 1
            return super().ends(at) if self.given <= 25 else (self.second + 1.001, "http 429")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_worlds, "Server", Limited)
        case = level(World(slots=8, rate=40), 9.7, 1, users=users)
    assert {"answers": "warn"}.items() <= {check.name: check.outcome for check in case.checks}.items()
    assert case.trust == "noisy"


def test_failures_before_the_first_answer_are_named() -> None:
    class Loading(Server):
        def ends(self, at: float) -> tuple[float, str]:
            return (at + 0.001, "http 503") if at < 4 else super().ends(at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_worlds, "Server", Loading)
        case = level(World(slots=8, rate=30), 10, 1)
    assert "all that came before second 4.0" in " ".join(shown(case).split())


def test_a_server_that_refuses_three_of_four_is_invalid_and_one_of_ten_is_not() -> None:
    assert level(World(faults=0.75), 10, 1).trust == "invalid"
    assert level(World(faults=0.1), 10, 1).trust == "noisy"


@pytest.mark.parametrize(("slots", "mean", "users"), [(64, 6.0, 8), (4, 0.5, 8), (64, 0.1, 3)])
def test_users_are_answered_as_fast_as_the_server_can(slots: int, mean: float, users: int) -> None:
    stats = numbers(level(World("constant", mean, slots, 1), 10, 1, users=users))
    assert stats.answered.value == pytest.approx(min(users, slots) / mean, rel=0.02)


@pytest.mark.parametrize("mean", [0.1, 0.115, 0.13, 0.2])
def test_a_level_of_a_few_answers_of_a_queue_of_users_is_not_told_too_fast(mean: float) -> None:
    """`tune server` kept flags that were 1.15 times slower: in a second of load 8.7/s were told as 10.3/s."""
    stats = numbers(level(World("constant", mean, 1, 1), 1, 1, users=4))
    assert stats.answered.value == pytest.approx(1 / mean, rel=0.02)


def test_a_level_sends_what_it_says_and_each_rate_has_a_schedule_of_its_own() -> None:
    due = {rate: arrivals.schedule("poisson", rate, seconds=10, seed=0) for rate in (2, 4, 20)}
    assert {rate: len(times) for rate, times in due.items()} == {2: 20, 4: 40, 20: 200}
    assert not np.allclose(due[4][:20] / due[4][19], due[2] / due[2][19])
    means = [arrivals.schedule("poisson", 4, seconds=10, seed=seed).mean() for seed in range(200)]
    assert np.mean(means) == pytest.approx(5.0, abs=0.2)  # gaps are not long at the start


def test_tokens_of_a_chunk_count_and_what_is_not_known_is_not_said() -> None:
    # 8 tokens in 0.2 s, the first at 40 ms, then one every 22.857 ms
    single, four = (level(World("constant", 0.2, 64, 4, tokens=8, per=per), 10, 1) for per in (1, 4))
    for case in (single, four):
        tokens = numbers(case).tokens
        assert tokens is not None
        assert tokens.tpot["median"].value == pytest.approx(0.022857, rel=1e-3)
    at_once = level(World("constant", 0.2, 64, 4, tokens=8, per=8), 10, 1, slo="tpot=1ms@p95")
    tokens = numbers(at_once).tokens
    assert tokens is not None
    assert not tokens.tpot
    assert at_once.details.load is not None
    assert at_once.details.load.kept == "undecided"
    assert goodput(promises("tpot=1ms@p95"), numbers(at_once)) is None


@pytest.mark.parametrize(("counted", "said"), [(4, False), (8, False), (16, True)])
def test_chunks_hold_several_tokens_only_if_more_were_counted(
    counted: int, said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = load_worlds.WorldSenders._row

    def row(*args: Any) -> Answer:
        return structs.replace(real(*args), usage=[16, counted, 0])

    monkeypatch.setattr(load_worlds.WorldSenders, "_row", row)
    assert ("several tokens" in shown(level(World("constant", 0.2, 64, 4, tokens=8), 10, 1))) is said


def test_gaps_between_chunks_break_no_promise_about_tokens() -> None:
    case = level(World("constant", 0.2, 64, 4, tokens=8, per=4), 60, 1)
    wanted = promises("itl=40ms@p95")
    assert level_judged(wanted, numbers(case)).word == "undecided"
    assert goodput(wanted, numbers(case)) is None
    kept = level_judged(promises("tpot=40ms@p95"), numbers(case))
    assert kept.word == "kept"


def test_lateness_that_moves_no_figure_leaves_a_level_trusted_and_one_that_does_not_is_named() -> None:
    """One of 50 requests is sent 3 ms late, a fifth of the median; then all are, by 2 ms of 20."""

    def seldom(rng: random.Random) -> float:
        return 0.003 if rng.random() < 0.02 else 0.00005

    assert level(World(slots=64, rate=80), 60, 1, seldom).trust == "trusted"
    always = level(World("constant", slots=64, rate=40), 60, 1, lambda rng: 0.002)
    assert always.trust == "invalid"
    (late,) = [check for check in always.checks if check.name == "late"]
    assert "lateness is 9.1 %" in late.sentence


def test_a_stall_of_the_server_is_named_and_no_day_of_load_is_advised() -> None:
    case = level(World(rate=30, stall=(20.0, 2.0)), 60, 1)
    assert "from second 19.9 to 22.0 no answer came" in shown(case)
    assert "--duration auto --budget 2h" in shown(case)
    first = brief(case).partition("next")[0]
    assert "from second 19.9 to 22.0 no answer came" in " ".join(first.split()), "it is the answer"
    checks = [check.name for world in ALL.values() for check in level(world, 10, 3).checks]
    assert "stood_still" not in checks
    assert "stepped" not in checks


@pytest.mark.parametrize(("mean", "users"), [(0.3, 64), (0.05, 32), (2.0, 32), (1.0, 8)])
def test_users_who_are_answered_in_waves_see_no_stall(mean: float, users: int) -> None:
    """64 users of a server that takes 0.3 s were told that it had stood still for 0.3 s."""
    case = level(World("constant", mean, 64, 1), 10, 1, users=users)
    assert "stood_still" not in [check.name for check in case.checks]


@pytest.mark.parametrize("users", [2, 4, 64])
def test_a_stall_is_named_with_however_many_users(users: int) -> None:
    # Between two services: else a sum of fifty tenths, below 5 or not, decides on the last answer before.
    case = level(World("constant", 0.1, 64, 1, stall=(5.03, 2.0)), 10, 1, users=users)
    assert "from second 5.1 to 7.1 no answer came" in " ".join(shown(case).split())


@pytest.mark.parametrize("second", [4, 8, 15])
def test_slots_that_halved_under_users_are_named_with_their_second(second: int) -> None:
    """Of a clean step of constants permutations found none."""
    case = level(World("constant", 0.1, 8, 1, halves=second), 20, 1, users=8)
    (stepped,) = [check for check in case.checks if check.name == "stepped"]
    found = re.search(r"second (\d+) on the median latency was 2 times", stepped.sentence)
    assert found is not None
    assert float(found[1]) == pytest.approx(second, abs=1)


def test_a_constant_rate_of_few_users_is_known() -> None:
    """A server that answers 8/s in waves of 8 was told as [4.6, 32]/s."""
    ends = numbers(level(World("constant", 1.0, 64, 1), 10, 1, users=8)).answered.ci95
    assert ends is not None
    assert 8 / 2 < ends[0] < 8 < ends[1] < 8 * 2


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_a_stall_in_the_first_half_is_no_warm_up(arrivals: str) -> None:
    """It was cut off, with the 40 to 60 requests before it, and the median was of what came after it."""
    case = level(World("constant", 0.2, 8, 10, arrivals, stall=(4.0, 2.0)), 10, 1)
    stats = numbers(case)
    assert stats.steady <= 10
    assert stats.latency["mean"].quantity is not None
    assert stats.latency["mean"].quantity.value > 0.3, "20 of 100 waited for a second"
    assert "stood_still" in [check.name for check in case.checks]


def test_slots_that_halved_are_named_with_their_second() -> None:
    case = level(World(slots=8, mean=0.1, rate=36, halves=30.0), 60, 1)
    (stepped,) = [check for check in case.checks if check.name == "stepped"]
    assert re.search(r"second (29|3\d) on .* was \d", stepped.sentence)
    assert stepped.sentence in " ".join(brief(case).split())


def test_a_queue_that_grows_since_slots_went_is_told_with_its_second() -> None:
    halved = level(World("constant", slots=8, mean=0.1, rate=60, halves=10.0), 20, 1)
    assert re.search(r"second 1[01] on", " ".join(brief(halved).split()))
    assert re.search(r"above capacity .* 1[01] on", shown(halved))
    always = level(World("constant", rate=60), 20, 1)
    assert "from second" not in shown(always)


def test_the_first_line_of_an_invalid_level_says_why() -> None:
    late = level(World("constant", slots=64, rate=40), 60, 1, lambda rng: 0.002)
    dead = level(World(slots=8, rate=30, dies=3.0), 10, 1)
    for case, word in ((late, "the generator was late"), (dead, "no answer came from second 2.9 on")):
        assert case.trust == "invalid"
        assert word in " ".join(brief(case).partition("offered")[0].split())
    sound = brief(level(World("constant", slots=64, rate=40), 60, 1)).partition("offered")[0]
    assert "generator" not in sound


def test_a_page_draws_latency_over_time() -> None:
    page = html.render(run_of(level(World(rate=30, stall=(20.0, 2.0)), 60, 1)))
    assert "Latency over" in page
    assert "seconds of" in page


def test_an_untold_quantile_says_how_much_longer_a_level_must_be() -> None:
    assert "p95 needs" in shown(level(World(), 10, 1))
    assert "times as long a level shows it" in shown(level(World(), 10, 1))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_told_quantiles_hold_in_93_of_100() -> None:
    held, told = dict.fromkeys(("mean", "median", "p90", "p95", "p99"), 0), 0
    counts = dict.fromkeys(held, 0)
    for world in (each for each in EVERY.values() if stable(each)):
        right = truth(world)
        for seed in range(10):
            latency = numbers(level(world, 30, seed)).latency
            for name in held:
                ends = latency[name].ci95 if latency[name].value is not None else None
                if ends is not None:
                    counts[name] += 1
                    held[name] += ends[0] * 0.999 <= right[name] <= ends[1] * 1.001
    told = sum(counts.values())
    assert sum(held.values()) >= 0.93 * told, (held, counts)


def test_a_load_run_has_a_price_where_it_keeps_a_promise_about_first_tokens() -> None:
    stream = World("constant", 0.2, 64, 8, tokens=8)
    long = run_of(level(stream, 120, 1))
    (kept,) = speeds(long, wanted=promises("ttft=60ms@p95")).speeds
    assert (kept.unit, kept.at) == ("token", "ttft=60ms@p95")
    assert kept.rate == pytest.approx(64, rel=0.01)
    with pytest.raises(NoCost) as broken:
        speeds(long, wanted=promises("ttft=30ms@p95"))
    assert "p95 ttft" in broken.value.why
    with pytest.raises(NoCost) as short:
        speeds(run_of(level(stream, 5, 1)), wanted=promises("ttft=60ms@p95"))
    assert "first token" in short.value.why
    assert "--duration auto" in short.value.next
