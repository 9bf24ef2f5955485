"""`laptime scale` on scripted jobs: what it starts, and what it makes of what ranks observed."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.analysis.ranks import bound, fewest, rank_rows
from laptime.instrument.messages import Ended, Observed, Sample, Settings
from laptime.kit.errors import LaptimeError, TargetError, UsageError, UserCodeError
from laptime.launch.script import Outcome, Program
from laptime.pricing.speeds import speeds
from laptime.probes import machine
from laptime.records.case import Case
from laptime.records.overview import Straggler
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED
from laptime.records.run import Run
from laptime.records.scale import RATE, Exchange
from laptime.records.series import Series
from laptime.reports.documents.scale import document, headline
from laptime.store import files
from laptime.verbs.scale import job
from laptime.verbs.scale import run as verb
from laptime.verbs.scale.request import ScaleRequest

MS = 1_000_000
PHASES = {"data": 0, "forward": 0, "backward": 0, "optimizer": 0}
TALK = Exchange(step_ns=100.0 * MS, exposed_ns=30.0 * MS, collectives=10, waiting=0.8, stragglers=[])


class World:
    """Answers in place of torchrun. step: seconds of a step by ranks and whether they share a batch."""

    def __init__(self, step: Callable[[int, bool], float], batch: int = 32, **observed: Any) -> None:
        self.step, self.batch, self.observed = step, batch, observed
        self.started: list[tuple[int, bool, bool]] = []  # ranks, whether a batch is shared, whether traced
        self.variables: list[dict[str, str]] = []
        self.outcome: Callable[[int, list[Observed]], Outcome] = lambda ranks, seen: Outcome(observed=seen)

    def execute(
        self, program: Program, *, settings: Settings, variables: dict[str, str], **_: Any
    ) -> Outcome:
        assert program.words[:3] == ["-m", "torch.distributed.run", "--standalone"]
        ranks = int(program.words[3].removeprefix("--nproc-per-node="))
        self.started.append((ranks, settings.shares_batch, settings.steps > 0))
        self.variables.append(variables)
        seconds = self.step(ranks, settings.shares_batch)
        seen = [self._rank(rank, ranks, seconds, settings) for rank in range(ranks)]
        return self.outcome(ranks, seen)

    def _rank(self, rank: int, world: int, seconds: float, settings: Settings) -> Observed:
        seen = Observed(
            rank=rank, world=world, pid=rank, source="optimizer", joined=True, batches=100 // world
        )
        wall = round(seconds * 1e9)
        seen.untraced = [Sample(wall=wall, host=wall, cpu=wall, phases=PHASES)] * settings.exactly
        seen.samples = self.batch / (world if settings.shares_batch else 1)
        for name, value in self.observed.items():
            setattr(seen, name, value)
        return seen


Measure = Callable[..., Run]


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """The verb on a scripted world, on a machine of two CPUs with one thread a rank."""
    script = tmp_path / "train.py"
    script.write_text("print()")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(job, "environment", lambda observed: runs.environment())
    monkeypatch.setattr(machine, "environment", runs.environment)

    def measured(world: World, exchange: Exchange | None = TALK, **options: Any) -> Run:
        monkeypatch.setattr(job, "execute", world.execute)
        monkeypatch.setattr(verb, "_exchange", lambda shares: exchange if world.started[-1][2] else None)
        return verb.scale(ScaleRequest(program=str(script), **options))

    return measured


def even(loss: float = 0.0, scatter: float = 0.0, seed: int = 0) -> Callable[[int, bool], float]:
    """A step of 0.1 s for a whole batch on one rank; on more ranks longer by `loss`; jobs scatter."""
    dice = random.Random(seed)

    def step(ranks: int, shared: bool) -> float:
        work = 0.1 / (ranks if shared else 1)
        return work * (1 + loss * (ranks > 1)) * math.exp(dice.gauss(0, scatter))

    return step


def test_rates_and_efficiencies_are_those_of_the_world(measure: Measure) -> None:
    run = measure(World(even(loss=0.25)), ranks=[1, 2])
    rows = rank_rows(run.cases)
    assert [(row.ranks, row.scaling) for row in rows] == [(1, ""), (2, "weak"), (2, "strong")]
    assert [row.rate.value for row in rows] == pytest.approx([320, 512, 512])
    assert [row.efficiency.value for row in rows] == pytest.approx([1, 0.8, 0.8])
    assert [row.step.value for row in rows] == pytest.approx([0.1, 0.125, 0.0625])
    assert headline(run).word == "80 % efficient"
    assert run.trust == "trusted"


def test_every_point_is_started_once_a_round_in_changing_order_and_traced_once(measure: Measure) -> None:
    world = World(even())
    measure(world, ranks=[1, 2, 4], jobs=6)
    rounds = [world.started[at : at + 5] for at in range(0, 30, 5)]
    points = {(1, False), (2, False), (2, True), (4, False), (4, True)}
    assert [{each[:2] for each in order} for order in rounds] == [points] * 6
    assert len({tuple(each[:2] for each in order) for order in rounds}) > 2
    assert [each[2] for each in world.started] == [each[0] > 1 for each in world.started[:5]] + [False] * 25
    assert world.started[0][0] > 1  # whether it trains on several ranks at all is asked first
    assert {each["OMP_NUM_THREADS"] for each in world.variables} == {"1"}


def scattered(ranks: int, rate: float, scatter: float, dice: random.Random) -> Case:
    samples = [rate * math.exp(dice.gauss(0, scatter)) for _ in range(5)]
    series = Series(metric=RATE, samples=samples, process=[*range(5)], round=[*range(5)])
    return Case(key=f"{ranks}", target="x", axes={"ranks": ranks, "scaling": "weak"}, series=[series])


@pytest.mark.parametrize("scatter", [0.002, 0.03])
def test_the_interval_of_an_efficiency_holds_the_truth_where_jobs_differ(scatter: float) -> None:
    dice, held = random.Random(1), 0
    for _ in range(600):
        cases = [scattered(1, 320, scatter, dice), scattered(2, 512, scatter, dice)]
        efficiency = rank_rows(cases)[1].efficiency
        assert efficiency.low is not None
        assert efficiency.high is not None
        held += efficiency.low <= 0.8 <= efficiency.high
    assert 0.92 <= held / 600 <= 0.98  # 95 % nominal; three standard errors of 600 are 2.7 %


def test_drift_that_all_jobs_of_a_round_share_cancels_in_the_efficiency(measure: Measure) -> None:
    world = World(even())
    world.step = lambda ranks, shared: 0.1 * (1 + 0.5 * ((len(world.started) - 1) // 2))
    row = rank_rows(measure(world, ranks=[1, 2], scaling="weak", jobs=4).cases)[1]
    assert row.efficiency.precision is not None
    assert row.rate.precision is not None
    assert row.efficiency.precision < row.rate.precision / 2


# The rate that is asked for.


def test_the_fewest_ranks_for_a_rate(measure: Measure) -> None:
    rows = rank_rows(measure(World(even(loss=0.25, scatter=0.01)), ranks=[1, 2, 4], scaling="weak").cases)
    met = fewest(rows, 450)
    assert (met.word, met.met and met.met.ranks, met.bound) == (KEPT, 2, 0)
    assert fewest(rows, 320).word is KEPT
    assert [row.ranks for row in fewest(rows, 320).open] == [1]
    none = fewest(rows, 5000)
    assert (none.word, none.met) == (BROKEN, None)
    assert none.bound > 4
    undecided = fewest(rows[:1], rows[0].rate.value)
    assert (undecided.word, undecided.bound) == (UNDECIDED, 0)


def test_what_lies_beyond_is_a_bound_and_says_so(measure: Measure) -> None:
    run = measure(World(even(loss=0.25)), ranks=[1, 2], target=10_000.0)
    assert headline(run).word == "not reached"
    assert "at least 40 are needed (a bound)" in headline(run).sentence  # 256/s of a rank at 2
    assert bound(rank_rows(run.cases), 8) == pytest.approx(2048)


def test_ranks_that_take_turns_are_named_and_bound_nothing(measure: Measure) -> None:
    run = measure(World(even(loss=1.0)), ranks=[1, 2, 4], scaling="weak")
    crowded = [case for case in run.cases if any(check.name == "cpus" for check in case.checks)]
    assert [case.axes["ranks"] for case in crowded] == [4]
    assert "share 2 CPUs: they take turns" in str(crowded[0].checks)
    assert run.trust == "noisy"
    rows = rank_rows(run.cases)
    assert bound(rows, 8) == pytest.approx(4 * rows[1].rate.value)  # by the two that had CPUs of their own


# What keeps a script from being measured.


def test_a_script_that_reads_no_rank_is_told_what_is_missing(measure: Measure) -> None:
    world = World(even(), joined=False)
    with pytest.raises(UsageError, match="trains 2 copies of its model") as error:
        measure(world, ranks=[1, 2])
    assert "WORLD_SIZE" in error.value.why
    assert "init_process_group" in error.value.next
    assert world.started == [(2, False, True)]  # nothing else was started for it


@pytest.mark.parametrize(
    ("observed", "what"),
    [
        ({"world": 4}, "does not train on the 2 ranks that were started"),
        ({"samples": 0.0}, "the samples in a step of .* are not known"),
        ({"untraced": []}, "ended before 5 steps were timed"),
        ({"source": "", "torch": True}, "no step was found"),
    ],
)
def test_what_else_keeps_it_from_being_measured(
    observed: dict[str, Any], what: str, measure: Measure
) -> None:
    with pytest.raises(UsageError, match=what) as error:
        measure(World(even(), **observed), ranks=[1, 2])
    assert error.value.why
    assert error.value.next


def test_samples_that_cannot_be_counted_can_be_told(measure: Measure) -> None:
    run = measure(World(even(), samples=0.0), ranks=[1, 2], batch=10.0)
    assert [row.rate.value for row in rank_rows(run.cases)] == pytest.approx([100, 200, 200])


def test_no_script_is_refused(measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="cannot be started on ranks"):
        verb.scale(ScaleRequest(program="torchvision:resnet18"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    with pytest.raises(TargetError) as error:
        verb.scale(ScaleRequest(program="trian.py"))
    assert error.value.next == "laptime scale train.py"


def failing(at: int, error: str = "ValueError: planted") -> Callable[[int, list[Observed]], Outcome]:
    ended = [
        Ended(how="raised", status=1, error="ChildFailedError: x"),
        Ended(how="raised", status=1, error=error),
    ]
    return lambda ranks, seen: Outcome(ended=ended, status=1) if ranks == at else Outcome(observed=seen)


def test_a_script_that_fails_at_once_tells_its_own_error_and_the_line_to_try(measure: Measure) -> None:
    world = World(even())
    world.outcome = failing(2)
    with pytest.raises(UserCodeError) as error:
        measure(world, ranks=[1, 2])
    assert error.value.why == "ValueError: planted"
    assert "torchrun --nproc-per-node=2" in error.value.next


def test_a_number_of_ranks_that_fails_leaves_the_others(measure: Measure) -> None:
    world = World(even())
    world.outcome = failing(4)
    run = measure(world, ranks=[1, 2, 4], jobs=3)
    assert {case.axes["ranks"]: case.status for case in run.cases} == {1: "ok", 2: "ok", 4: "failed"}
    assert sum(each[0] == 4 for each in world.started) == 2  # weak and strong, once each
    assert [row.ranks for row in rank_rows(run.cases)] == [1, 2, 2]
    assert "planted" in str(run.cases[-1].failure)


def test_what_was_measured_before_ctrl_c_is_kept(measure: Measure) -> None:
    world = World(even())
    world.outcome = lambda ranks, seen: Outcome(observed=seen, interrupted=len(world.started) > 4)
    run = measure(world, ranks=[1, 2], scaling="weak", jobs=5)
    assert run.status == "interrupted"
    assert [len(case.find(RATE.tag).samples) for case in run.cases if case.find(RATE.tag)] == [2, 2]
    assert run.trust == "noisy"  # two jobs have no interval
    world.outcome = lambda ranks, seen: Outcome(interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        measure(world, ranks=[1, 2])


# What is said of the numbers.


def test_ranks_that_exchange_nothing_are_invalid(measure: Measure) -> None:
    silent = structs.replace(TALK, collectives=0, exposed_ns=0.0, waiting=None)
    run = measure(World(even()), exchange=silent, ranks=[1, 2], scaling="weak")
    assert run.trust == "invalid"
    assert "exchanged nothing" in headline(run).sentence


def test_loaders_that_cannot_be_divided_are_no_strong_scaling(measure: Measure) -> None:
    run = measure(World(even(), samples=32.0), ranks=[1, 2])
    failed = [case for case in run.cases if case.trust == "invalid"]
    assert [case.axes["scaling"] for case in failed] == ["strong"]
    assert "do not share a batch" in str(failed[0].checks)


def test_without_a_loader_strong_scaling_is_left_out_and_the_others_are_trusted(measure: Measure) -> None:
    world = World(even(), batches=0)
    run = measure(world, ranks=[1, 2, 4], jobs=3)
    assert [row.scaling for row in rank_rows(run.cases)] == ["", "weak", "weak"]
    assert sum(shared for _, shared, _ in world.started) == 1
    assert [check.outcome for check in run.checks if check.name == "batch"] == ["note"]


def test_a_script_that_divides_its_batch_itself_is_told(measure: Measure) -> None:
    world = World(even())
    world.step = lambda ranks, shared: 0.1 / ranks
    original = world._rank

    def divided(rank: int, ranks: int, seconds: float, settings: Settings) -> Observed:
        seen = original(rank, ranks, seconds, settings)
        seen.samples = 32 / ranks
        return seen

    world._rank = divided  # type: ignore[method-assign, assignment]
    run = measure(world, ranks=[1, 2], scaling="weak")
    assert "the script itself divides its batch" in str([case.checks for case in run.cases])
    assert rank_rows(run.cases)[1].efficiency.value == pytest.approx(1)


def test_findings_name_exposed_communication_the_late_rank_and_its_cause(measure: Measure) -> None:
    late = Straggler(rank=1, caused_ns=9, share=0.9, last_arrivals=9, collectives=10, why="it waits for data")
    run = measure(World(even(0.4)), exchange=structs.replace(TALK, stragglers=[late]), scaling="weak")
    told = {finding.kind: finding.sentence for finding in run.findings}
    assert told["scale/communication"] == (
        "2 ranks: only communication runs 30.0 ms of a traced step (30 %),"
        " 80 % of it waiting for the last rank"
    )
    assert told["scale/straggler"].startswith("2 ranks: rank 1 arrives last in 9 of 10 collectives")
    assert told["scale/straggler"].endswith("; it waits for data")


def test_ranks_that_all_read_the_whole_data_are_told(measure: Measure) -> None:
    run = measure(World(even(), batches=100), ranks=[1, 2], scaling="weak")
    assert [finding.kind for finding in run.findings if "data" in finding.kind] == ["scale/whole-data"]
    fine = measure(World(even()), ranks=[1, 2], scaling="weak")
    assert not [finding for finding in fine.findings if "data" in finding.kind]


def test_others_on_the_machine_make_it_noisy(measure: Measure) -> None:
    world = World(even())
    world.outcome = lambda ranks, seen: Outcome(observed=seen, others=1.5)
    run = measure(world)
    assert "other programs used 1.5 of 2 CPUs" in str(run.checks)
    assert run.trust == "noisy"


def test_an_epoch_has_its_price_where_one_is_known(measure: Measure) -> None:
    run = measure(World(even(loss=0.25, scatter=0.01)), ranks=[1, 2], usd_per_hour=3.6, scaling="weak")
    one, two = run.cases[1].details.ranks, run.cases[0].details.ranks
    assert one is not None
    assert two is not None
    assert one.epoch == 3200
    assert one.usd == pytest.approx(3200 / 320 * 0.001, rel=0.05)  # 3.6 USD an hour are 0.1 cents a second
    assert two.usd == pytest.approx(3200 / 512 * 0.001, rel=0.05)
    assert two.usd_ci95 is not None
    assert two.usd_ci95[0] < two.usd < two.usd_ci95[1]
    made = speeds(run).speeds
    assert [(each.unit, each.at, each.instances) for each in made] == [
        ("sample", "training", 2),
        ("sample", "training", 1),
    ]


def test_a_price_that_is_not_known_is_a_note_with_the_line_to_type(measure: Measure) -> None:
    run = measure(World(even()))
    (check,) = [check for check in run.checks if check.name == "price"]
    assert check.outcome == "note"
    assert "--usd-per-hour" in check.next


@pytest.mark.parametrize("name", ["text", "markdown", "html", "json", "junit", "csv"])
def test_every_report_shows_a_stored_run(name: str, measure: Measure, tmp_path: Path) -> None:
    from laptime.kit import registry

    world = World(even(loss=0.3, scatter=0.01))
    world.outcome = failing(4)
    run = measure(world, ranks=[1, 2, 4], usd_per_hour=4.0, target=300.0)
    stored = files.read(files.save(run, tmp_path))
    report = registry.load("reports", name).render(stored)
    assert "320" in report or name == "junit"
    if name in ("text", "markdown", "html"):
        assert "the fewest that reach 300/s samples" in " ".join(report.split())
    assert 'class="fill p-"' not in report, "a bar without a kind is black on black"
    if name == "json":
        answer = json.loads(report)
        assert answer["schema"] == "laptime.scale/1"
        assert answer["target"]["ranks"] == 1
        assert len(answer["rows"]) == 3


def test_a_run_without_a_rate_is_said_to_be_invalid() -> None:
    run = runs.run()
    assert document(structs.replace(run, verb="scale", cases=[])).verdict.word == "invalid"


def test_options_are_checked() -> None:
    from laptime.kit.options import make_request

    for wrong in ({"ranks": [0]}, {"jobs": 0}, {"target": -1.0}, {"batch": 0.0}, {"scaling": "sideways"}):
        with pytest.raises(LaptimeError):
            make_request(ScaleRequest, wrong, "laptime.scale", program="x")
