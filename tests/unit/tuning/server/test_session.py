"""A session over a server's flags: journal and --resume, why it ended, what it leaves to the end, verify."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures.scripted_server import ScriptedServer, World
from laptime.analysis import tuned
from laptime.kit.errors import UsageError
from laptime.records.event import ignore
from laptime.records.run import Run
from laptime.records.tuning import Gate
from laptime.reports.documents.tuning.headline import headline
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import Round, TrialFailed
from laptime.tuning.server import subject
from laptime.tuning.server.request import ServerRequest
from laptime.tuning.server.subject import tune_server, verify_server
from laptime.tuning.session.verify import VerifyRequest, holds

FACTORS: dict[str, dict[Any, float]] = {"good": {1: 0.5}, "late": {1: 0.7}, "bad": {1: 1.5}}
COMMAND = "serve --port {port} --good {0,1} --late {0,1} --bad {0,1}"


class Server(ScriptedServer):
    """The scripted server behind a request of a user's; Ctrl-C when the race of `stop` begins."""

    stop = ""
    dies_again = False

    def __init__(self, request: ServerRequest, folder: Path) -> None:
        super().__init__(World(FACTORS))
        self.request = request

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Generator[Round]:
        if self.stop in candidate.names:
            raise KeyboardInterrupt
        return super().race(incumbent, candidate, fresh=fresh)

    def measure(self, recipe: Recipe, numbers: list[int]) -> list[float]:
        if self.dies_again and len(recipe) and len(numbers) == subject.BLOCKS:
            raise TrialFailed("crashed", "the server ended with status 137")
        return super().measure(recipe, numbers)


@pytest.fixture(autouse=True)
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(subject, "ServerEvaluator", Server)
    monkeypatch.setattr(subject, "rate", lambda case: 1.0)  # these blocks hold no requests
    monkeypatch.setattr(Server, "stop", "")
    monkeypatch.setattr(Server, "dies_again", False)


def asked(**options: Any) -> ServerRequest:
    return ServerRequest(command=COMMAND, **{"concurrency": 8, "budget": 3600.0, **options})


def ratios(run: Run, name: str) -> list[float]:
    assert run.tuning is not None
    return next(rung.ratios for rung in run.tuning.ladder if rung.name == name)


def names(run: Run) -> set[str]:
    assert run.tuning is not None
    return {each.name for each in run.tuning.recipe}


def test_a_session_that_was_interrupted_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "stop", "late")
    before = tune_server(asked())
    assert tuned.outcome(before) == "interrupted"
    assert names(before) == {"good"}
    assert before.tuning is not None
    assert before.tuning.server is not None
    assert "--good 1 --late 0" in before.tuning.server.command, "what was kept by then is handed back"
    assert before.tuning.gate.word == "passed"
    monkeypatch.setattr(Server, "stop", "")
    after = tune_server(asked(resume=True))
    assert ratios(after, "good") == ratios(before, "good"), "nothing of it is raced again"
    assert names(after) == {"good", "late"}
    assert tuned.outcome(after) == "faster"
    with pytest.raises(UsageError, match="no session"):
        tune_server(asked(resume=True))


@pytest.mark.parametrize(
    "changed",
    [{"concurrency": 4}, {"slo": "latency=1s@p95"}, {"bodies": ["{}"]}, {"prompt": 7}, {"certify": True}],
)
def test_another_load_is_another_session(changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "stop", "late")
    tune_server(asked())
    with pytest.raises(UsageError, match="no session"):
        tune_server(asked(**changed, resume=True))


def test_ctrl_c_before_anything_is_known_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(self: Server, recipe: Recipe) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "diagnose", stopped)
    with pytest.raises(KeyboardInterrupt):
        tune_server(asked())


def test_a_session_says_why_it_ended() -> None:
    run = tune_server(asked())
    assert run.tuning is not None
    assert (run.tuning.ended, run.tuning.why_ended) == ("complete", "all that may help was tried")


def test_a_session_whose_rounds_could_not_be_used_does_not_blame_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It said that the budget of an hour had ended, after minutes: the generator was late in every race."""

    def unusable(
        self: Server, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False
    ) -> Iterator[Round]:
        while True:
            yield Round(math.nan)

    monkeypatch.setattr(Server, "race", unusable)
    run = tune_server(asked())
    assert run.tuning is not None
    assert tuned.outcome(run) == "not measured"
    assert "3 rounds could not be used, 0" in run.tuning.why_ended
    assert run.tuning.why_ended in headline(run).sentence


@pytest.mark.parametrize(("budget", "what"), [(25.0, "race"), (40.0, "measurement")])
def test_a_budget_that_is_too_short_names_one_that_would_do(budget: float, what: str) -> None:
    """It used to say that the budget had ended when 25 of its 40 seconds were over."""
    short = tune_server(asked(budget=budget))
    assert short.tuning is not None
    assert tuned.outcome(short) == "not measured"
    lacked = short.tuning.shortfall
    assert lacked is not None
    assert lacked.what == what
    assert lacked.needs > lacked.left
    enough = tune_server(asked(budget=lacked.budget))
    assert enough.tuning is not None
    assert tuned.list_tried(enough.tuning), "with the budget that was named, something is tried"
    assert what == "race" or enough.tuning.speedup is not None


def test_pairs_that_take_longer_than_expected_say_what_they_would_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It named a budget below the one that had not sufficed."""
    usual = Server.measure

    def slow(self: Server, recipe: Recipe, numbers: list[int]) -> list[float]:
        if len(numbers) == subject.BLOCKS:
            self.world.clock += 400.0  # the machine is shared from here on
        return usual(self, recipe, numbers)

    monkeypatch.setattr(Server, "measure", slow)
    run = tune_server(asked(budget=1200.0))
    assert run.tuning is not None
    assert run.tuning.speedup is None
    assert run.tuning.shortfall is not None
    assert run.tuning.shortfall.needs > 2400.0
    assert run.tuning.shortfall.budget > 2400.0


def test_what_is_kept_back_is_what_the_end_takes() -> None:
    """Of an hour two pairs of starts of seconds take little, and no fixed share."""
    server = Server(asked(), Path())
    cost = subject.ServerSubject(server).cost(Recipe(), 0.1)
    assert cost.pair == pytest.approx(2 * (server.world.ready + subject.BLOCKS * server.block))
    assert cost.keep_back(3600.0) < 0.05 * 3600.0
    assert cost.keep_back(60.0) >= 2 * cost.pair


def test_a_server_that_dies_when_it_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "dies_again", True)
    run = tune_server(asked())
    assert run.tuning is not None
    assert run.tuning.speedup is None
    gate = Gate(word="undecided", reason="it failed when measured again: the server ended with status 137")
    assert run.tuning.gate == gate


def test_other_programs_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laptime.tuning.session.session.OthersMeter.cpus", lambda self: 64.0)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    run = tune_server(asked())
    assert [check.outcome for check in run.checks if check.name == "quiet"] == ["warn"]


# Verifying


def verified(run: Run, **options: Any) -> Run:
    return verify_server(run, VerifyRequest(budget=600.0, **options), ignore)


def test_an_earlier_result_still_holds() -> None:
    before = tune_server(asked())
    run = verified(before)
    assert (run.verb, holds(run)) == ("verify", True)
    assert names(run) == names(before) == {"good", "late"}
    (finding,) = [each for each in run.findings if each.kind == "tune/verified"]
    assert "nothing has changed" in finding.sentence


def test_an_earlier_result_that_holds_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    before = tune_server(asked())
    monkeypatch.setitem(FACTORS, "good", {1: 1.6})
    assert holds(verified(before)) is False
    monkeypatch.setattr(Server, "dies_again", True)
    run = verified(before)
    assert holds(run) is False
    assert run.tuning is not None
    assert "status 137" in run.tuning.gate.reason


def test_what_was_sent_is_sent_again(tmp_path: Path) -> None:
    body = tmp_path / "x.jsonl"
    body.write_text('{"a": 1}\n{"a": 2}\n')
    url = "http://127.0.0.1:{port}/predict"
    bodies = ['{"a": 1}', '{"a": 2}']
    before = tune_server(asked(url=url, bodies=bodies, body=str(body)))
    assert holds(verified(before)) is True
    body.write_text('{"a": 3}\n')
    with pytest.raises(UsageError, match="longer known"):
        verified(before)
    in_memory = tune_server(asked(url=url, bodies=bodies))
    with pytest.raises(UsageError) as caught:
        verified(in_memory)
    assert "from a file" in caught.value.why


def test_a_header_is_asked_for() -> None:
    before = tune_server(asked(headers=[("Authorization", "Bearer secret")]))
    assert "secret" not in str(before)
    with pytest.raises(UsageError, match="header Authorization"):
        verified(before)
    assert holds(verified(before, headers=[("Authorization", "Bearer secret")])) is True


def test_what_cannot_be_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    before = tune_server(asked())
    assert before.tuning is not None
    older = structs.replace(before.tuning.server, template="")
    with pytest.raises(UsageError, match="be verified"):
        verified(structs.replace(before, tuning=structs.replace(before.tuning, server=older)))
    with pytest.raises(UsageError, match="nothing to"):
        verified(structs.replace(before, tuning=structs.replace(before.tuning, recipe=[])))
