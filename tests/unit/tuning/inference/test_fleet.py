"""Several instances at once: pinned to CPUs of their own, measured together."""

from __future__ import annotations

import json
import os
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from fixtures import array_folders
from laptime.kit.errors import UsageError
from laptime.measure.recorded_calls import RecordedCall, RecordedCalls
from laptime.tuning.inference.final_set import points
from laptime.tuning.inference.folders import Arm
from laptime.tuning.inference.request import ModelRequest, check
from laptime.tuning.inference.setups import Setup, cost_of, with_threads
from laptime.tuning.inference.sides import Fleet
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.verbs.bench.variants import usable

SLEEPS = """
import os, time
from pathlib import Path

def load():
    (Path(__file__).parent / f"{os.getpid()}.cpus").write_text(str(sorted(os.sched_getaffinity(0))))
    def model(x):
        time.sleep(0.02)
        return x
    return model
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tuned.py").write_text(SLEEPS)
    RecordedCalls([RecordedCall(4, [np.zeros((4, 3), np.float32)], [])]).save(tmp_path / "calls.npz")
    return tmp_path


@pytest.mark.skipif(len(usable()) < 2, reason="two CPUs are needed")
def test_instances_run_at_once_on_cpus_of_their_own(folder: Path) -> None:
    start = partial(Arm, isolated=True, timeout=60.0, arrays=True)
    begin = lambda place, calls, cpus: start(place, calls, cpus=cpus)  # noqa: E731
    with Fleet(begin, folder, folder / "calls.npz", Setup(2, 1, 4)) as fleet:
        visit = fleet.visit(0.4)
    places = [json.loads(path.read_text()) for path in folder.glob("*.cpus")]
    assert sorted(map(len, places)) == [1, 1]
    assert not set(places[0]) & set(places[1])
    # Each sleeps 20 ms a call: one alone would come to 200 items a second at most.
    assert visit.rate > 220
    assert visit.peak > 20_000_000
    assert len(visit.seconds) >= 20


def test_what_has_no_room_is_refused(folder: Path) -> None:
    setup = Setup((os.cpu_count() or 1) + 1, 1, 1)
    with pytest.raises(TrialFailed, match="no room"):
        Fleet(lambda *_: pytest.fail("started"), folder, folder / "calls.npz", setup)


def test_cost_counts_cpus() -> None:
    cost = cost_of("cost", 4)
    assert [cost(Setup(2, 1)), cost(Setup(1, 3)), cost(Setup(1, 0))] == [2.0, 3.0, 4.0]
    assert cost_of("throughput", 4)(Setup(4, 1)) == 1.0


def test_threads_of_a_setup_take_the_place_of_others() -> None:
    recipe = Recipe((Change("openvino"), Change("threads", {"value": 4})))
    assert with_threads(recipe, 1) == Recipe((Change("openvino"), Change("threads", {"value": 1})))
    assert with_threads(recipe, 0) == recipe


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"goal": "latency", "instances": [1, 2]}, "--instances and --goal latency"),
        ({"goal": "memory", "batches": [1, 2], "batch": 1}, "several batch sizes and --goal memory"),
        ({"instances": [0]}, "must be 1 or more"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], what: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def build():\n    ...\n")
    with pytest.raises(UsageError, match=what):
        check(ModelRequest(target=f"{tmp_path}/model.py:build", **options))  # type: ignore[arg-type]


@pytest.mark.skipif(len(usable()) < 2, reason="two CPUs are needed")
def test_several_instances_are_a_side_of_a_race(folder: Path) -> None:
    start = partial(Arm, isolated=True, timeout=60.0, arrays=True)
    begin = lambda place, calls, cpus: start(place, calls, cpus=cpus)  # noqa: E731
    with Fleet(begin, folder, folder / "calls.npz", Setup(2, 1, 4)) as fleet:
        fleet.wait()
        assert fleet.call == pytest.approx(0.02, rel=0.5)
        assert fleet.ready > fleet.call
        seconds = fleet.seconds(5)
    # Both call for as long as five calls take.
    assert 6 <= len(seconds) <= 14
    assert fleet.peak > 20_000_000


@pytest.mark.skipif(len(usable()) < 2, reason="two CPUs are needed")
def test_sides_of_a_race_run_as_they_will_be_deployed(tmp_path: Path) -> None:
    """What is raced is the folder with the threads of its setup; the model as it is stays as it is."""
    model = array_folders.evaluator(
        tmp_path, {array_folders.AS_IS: "numpy.tanh(x)", "openvino": "numpy.tanh(x)"}
    )
    model.raced, kept = Setup(2, 1, 4), Recipe((Change("openvino"),))
    threaded = kept.plus(Change("threads", {"value": 1}))
    model.folders.adopt(threaded, model.folders.ensure(kept), "onnx")
    assert model.as_raced(kept) == threaded
    assert model.as_raced(Recipe()) == Recipe()
    model.ready, model.ready_by, model.limits = 1.0, {}, model.request.limits
    rounds = list(islice(model.race(Recipe(), kept), 2))
    assert all(0.1 < each.ratio < 10 for each in rounds)
    assert {len(recipe) for recipe in model.timings} == {0, 1}
    assert min(len(timing.seconds) for timing in model.timings.values()) > 100
    (point,) = [each for each in points(model, kept) if each.chosen]
    assert (point.instances, point.threads) == (2, 1)
    as_it_is = model.figure(model.timings[Recipe()].seconds)
    assert point.throughput == pytest.approx(2 * 4 / (as_it_is * np.median([each.ratio for each in rounds])))
