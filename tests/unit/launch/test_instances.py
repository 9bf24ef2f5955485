"""Several instances of a program at the same time: CPUs of their own, samples of all, which of them count."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.fake_root import FakeRoot
from fixtures.runs import LATENCY
from laptime.kit import system_files
from laptime.kit.errors import UsageError
from laptime.launch.instances import deal_cpus, in_order, together
from laptime.measure.metrics import CPU_TIME
from laptime.measure.protocol import Samples
from laptime.probes.others import METRICS as OTHERS
from laptime.records.plan import BenchRequest, Variant
from laptime.records.series import Label, Series
from laptime.verbs.bench import variants


@pytest.fixture
def four_threads(tmp_path: Path) -> str:
    """Two cores: CPUs 0 and 2 share one, 1 and 3 the other."""
    root = FakeRoot(tmp_path)
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        root.put(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", siblings + "\n")
    return root.root


def test_cores_come_before_their_second_threads(four_threads: str) -> None:
    assert in_order([0, 1, 2, 3], four_threads) == [0, 1, 2, 3]
    assert in_order([0, 2, 3], four_threads) == [0, 3, 2]
    assert deal_cpus(2, 1, [0, 1, 2, 3], four_threads) == [[0], [1]]
    assert deal_cpus(2, 2, [0, 1, 2, 3], four_threads) == [[0, 1], [2, 3]]
    assert deal_cpus(3, 2, [0, 1, 2, 3], four_threads) == []


def block(at: list[float], seconds: list[float], *, cpu: float = 1.0, others: float = 0.0) -> list[Samples]:
    latency = Series(metric=LATENCY, regime="isolated", samples=seconds, at=at)
    used = Series(metric=CPU_TIME, regime="isolated", samples=[cpu * each for each in seconds])
    beside = Series(metric=OTHERS[0], regime="isolated", samples=[others] * len(seconds))
    return [Samples(batch=1, series=[latency, used, beside])]


def test_samples_of_all_are_told_in_the_order_in_which_they_began() -> None:
    (made,) = together([block([0.0, 1.0], [1.0, 1.0]), block([0.1, 1.1], [0.9, 0.8])])
    assert isinstance(made, Samples)
    latency = made.series[0]
    assert latency.at == [0.0, 0.1, 1.0, 1.1]
    assert latency.samples == [1.0, 0.9, 1.0, 0.8]
    assert latency.label == []


def test_a_call_that_began_when_another_instance_had_ended_is_alone() -> None:
    (made,) = together([block([0.0, 1.0, 2.0], [1.0, 1.0, 1.0]), block([0.0], [1.5])])
    assert isinstance(made, Samples)
    # The call at 1.0 began beside the other, whatever its own end; that at 2.0 did not.
    assert dict(zip(made.series[0].at, made.series[0].label, strict=True)) == {
        0.0: 0,
        1.0: 0,
        2.0: Label.ALONE,
    }


def test_other_instances_are_no_neighbours() -> None:
    # Each sees one CPU of others: the other instance, which used exactly one.
    (made,) = together([block([0.0], [1.0], others=1.0), block([0.0], [1.0], others=1.5)])
    assert isinstance(made, Samples)
    others = next(series for series in made.series if series.metric.tag == "disturbance/others")
    assert others.samples == pytest.approx([0.0, 0.5])


def request(**changes: object) -> BenchRequest:
    return BenchRequest(targets=["null:spin=1ms"], **changes)  # type: ignore[arg-type]


def test_variants_that_have_no_cpus_are_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "usable", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(system_files, "cpu_quota", lambda root: None)
    planned = [Variant(target="null:spin=1ms", threads=threads) for threads in (1, 2, 4)]
    made, left_out = variants.with_instances(request(instances=[1, 2]), planned)
    sizes = [(each.threads, each.options.get("instances", 1)) for each in made]
    assert sizes == [(1, 1), (1, 2), (2, 1), (2, 2), (4, 1)]
    assert "2 x 4" in left_out[0].sentence
    assert [len(variants.cpus_of(each)) for each in made] == [0, 2, 0, 2, 0]


def test_threads_that_nobody_set_are_the_cpus_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "usable", lambda: list(range(8)))
    monkeypatch.setattr(system_files, "cpu_quota", lambda root: 4.0)
    made, _ = variants.with_instances(request(instances=[1, 2, 4]), [Variant(target="null:spin=1ms")])
    assert [each.threads for each in made] == [4, 2, 1]


@pytest.mark.parametrize(
    ("wish", "in_memory", "said"),
    [
        ({"instances": [0]}, False, "--instances 0 is impossible"),
        ({"instances": [99_999]}, False, "do not fit"),
        ({"instances": [2], "rate": 10.0}, False, "do not go together"),
        ({"instances": [2]}, True, "an object of this process"),
    ],
)
def test_impossible_instances_are_refused(wish: dict[str, object], in_memory: bool, said: str) -> None:
    asked = request(**wish)

    def refused() -> None:
        variants.check_instances(asked, in_memory=in_memory)
        variants.with_instances(asked, [Variant(target="null:spin=1ms", threads=1)])

    with pytest.raises(UsageError, match=said):
        refused()
