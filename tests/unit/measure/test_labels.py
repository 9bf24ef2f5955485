from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec import structs

from fixtures.runs import LATENCY, case, timings
from laptime.analysis.evidence import find_unexplained
from laptime.measure.checks.precision import find_widest, list_printed
from laptime.measure.labels import relabel
from laptime.measure.metrics import CPU_TIME
from laptime.records.case import Case
from laptime.records.series import DISTURBED, Label, Metric, Series

N = 100


def column(name: str, values: Any) -> Series:
    metric = CPU_TIME if name == "cpu" else Metric(tag=f"disturbance/{name}", unit="s", title=name)
    return Series(metric=metric, regime="isolated", samples=[float(value) for value in values])


def measured(seconds: Any = 0.01, **evidence: Any) -> Case:
    samples = np.broadcast_to(seconds, N).astype(float)
    latency = Series(metric=LATENCY, regime="isolated", samples=samples.tolist())
    return case(latency, *(column(name, np.broadcast_to(v, N)) for name, v in evidence.items()))


def labels(of: Case, *, virtual: bool = True) -> list[Label]:
    found, _ = relabel(of, virtual=virtual)
    return [Label(bits) for bits in found.series[0].label]


def at(place: int, value: float, usual: float = 0.0) -> Any:
    values = np.full(N, usual)
    values[place] = value
    return values


@pytest.mark.parametrize(
    ("name", "label"),
    [("waited", Label.WAITED), ("stolen", Label.STOLEN), ("throttled", Label.THROTTLED)],
)
def test_each_cause_has_its_label(name: str, label: Label) -> None:
    found = labels(measured(**{name: at(50, 0.001)}))
    assert found[50] == label
    assert found.count(Label.NONE) == N - 1


@pytest.mark.parametrize("name", ["waited", "stolen", "throttled"])
def test_a_loss_below_two_percent_is_none(name: str) -> None:
    assert not any(labels(measured(**{name: at(50, 0.00019)})))


def test_a_program_that_waits_for_its_own_threads_was_not_disturbed() -> None:
    alone = labels(measured(waited=0.004, others=0.003))
    assert Label.WAITED not in alone
    beside = np.where(np.arange(N) // 10 == 4, 0.15, 0.0)
    found = labels(measured(waited=0.004, others=beside))
    assert [Label.WAITED in bits for bits in found] == [10 * 4 <= n < 10 * 5 for n in range(N)]


def test_waiting_beside_a_neighbour_stays_a_disturbance() -> None:
    assert all(Label.WAITED in bits for bits in labels(measured(waited=0.004, others=0.4)))
    assert all(Label.WAITED in bits for bits in labels(measured(waited=0.004)))
    # Others ran for half of what was waited.
    assert all(Label.WAITED in bits for bits in labels(measured(waited=0.0008, others=0.04)))


def test_being_stopped_by_a_quota_is_no_waiting_for_others() -> None:
    """A kernel counts the time of a stopped thread as time that it waits for a CPU."""
    stopped = labels(measured(waited=0.004, throttled=0.0039, others=0.4))
    assert not any(Label.WAITED in bits for bits in stopped)
    assert all(Label.WAITED in bits for bits in labels(measured(waited=0.004, throttled=0.001, others=0.4)))


def test_a_single_wait_is_a_disturbance_whoever_ran() -> None:
    """One wait in a quiet block is some short program's: too little CPU time to be seen in ticks."""
    found = labels(measured(waited=at(50, 0.001), others=0.0))
    assert found[50] == Label.WAITED


def test_cpu_time_that_a_thread_awake_lacks_is_stolen_on_a_virtual_machine_only() -> None:
    of = measured(missing=at(50, 0.002))
    assert labels(of)[50] == Label.STOLEN
    assert not any(labels(of, virtual=False))


@pytest.mark.parametrize("used", [0.5, 1.0], ids=["one thread of two", "two threads of four"])
def test_a_sample_that_used_less_cpu_than_usual_was_not_stolen_from(used: float) -> None:
    """Every fifth call sleeps, or has a serial part: longer, with less CPU time a second, all by itself."""
    slow = np.arange(N) % 5 == 4
    seconds = np.where(slow, 0.025, 0.005)
    cpu = np.where(slow, used * 0.005, 2 * used * 0.005)
    assert not any(labels(measured(seconds, cpu=cpu, waited=0.0, stolen=0.0, missing=0.0, others=0.03)))


def test_a_cpu_that_is_slower_at_known_work_is_a_disturbance() -> None:
    """Also where it is slow for most of the time, as beside another guest on the other hyperthread."""
    slow = np.arange(N) % 10 > 2
    found = labels(measured(ruler=np.where(slow, 30e-6, 20e-6)))
    assert [bits == Label.CLOCK for bits in found] == slow.tolist()


def test_noise_of_the_ruler_is_none() -> None:
    dice = np.random.default_rng(1)
    assert not any(labels(measured(ruler=20e-6 * dice.lognormal(0, 0.01, N))))


def test_what_a_slow_cpu_takes_explains_what_its_samples_are_longer() -> None:
    slow = np.arange(N) % 3 == 0
    of, _ = relabel(measured(np.where(slow, 0.015, 0.01), ruler=np.where(slow, 30e-6, 20e-6)), virtual=True)
    assert find_unexplained(of, of.series[0]) == pytest.approx(0, abs=0.01)
    of, _ = relabel(measured(np.where(slow, 0.030, 0.01), ruler=np.where(slow, 30e-6, 20e-6)), virtual=True)
    assert find_unexplained(of, of.series[0]) > 0.3


def test_the_few_calls_whose_threads_wait_for_each_other_were_not_disturbed() -> None:
    """Every fifth call starts more threads than there are CPUs: too few samples to show in their median."""
    crowded = np.arange(N) % 5 == 4
    found = labels(measured(np.where(crowded, 0.025, 0.005), waited=np.where(crowded, 0.02, 0), others=0.02))
    assert not any(found)


def test_stolen_ticks_of_bare_metal_are_none() -> None:
    assert not any(labels(measured(stolen=at(50, 0.005)), virtual=False))


def test_latency_itself_never_makes_a_label_but_warm_up() -> None:
    """Ten times as long, and nothing was lost: then the program is slow at times, and that is its own."""
    quiet = np.full(N, 0.01)
    quiet[40:45] = 0.1
    found = labels(measured(quiet, cpu=quiet, waited=0.0, stolen=0.0))
    assert not any(found)


def test_a_fast_sample_that_lost_time_is_labelled_all_the_same() -> None:
    found = labels(measured(at(50, 0.005, usual=0.01), waited=at(50, 0.001)))
    assert found[50] == Label.WAITED


def test_evidence_of_another_length_is_not_used() -> None:
    of = measured(waited=0.005)
    cut = structs.replace(of.series[1], samples=of.series[1].samples[:-1])
    assert not any(labels(structs.replace(of, series=[of.series[0], cut])))


def test_labels_of_the_worker_are_kept_and_ours_made_anew() -> None:
    of = measured(waited=at(50, 0.005))
    old = [0] * N
    old[10], old[20], old[30] = int(Label.GC), int(Label.WAITED), int(Label.RESUMED | Label.LATE)
    of = structs.replace(of, series=[structs.replace(of.series[0], label=old), of.series[1]])
    found = labels(of)
    assert found[10] == Label.GC
    assert found[20] == Label.NONE
    assert found[30] == Label.RESUMED | Label.LATE
    assert found[50] == Label.WAITED


def test_every_process_has_its_own_warm_up() -> None:
    dice = np.random.default_rng(2)
    samples = 0.01 * dice.lognormal(0, 0.005, 200)
    samples[:4] *= 2
    samples[100:107] *= 2
    series = Series(
        metric=LATENCY, regime="isolated", samples=samples.tolist(), process=[0] * 100 + [1] * 100
    )
    found, steady = relabel(case(series), virtual=False)
    warm = [index for index, bits in enumerate(found.series[0].label) if bits & Label.WARM_UP]
    assert warm == [*range(4), *range(100, 107)]
    assert [each.start for each in steady["isolated"]] == [4, 7]


def test_labelling_twice_changes_nothing() -> None:
    of = measured(timings(0.01, n=N, warm_up=5).samples, waited=at(50, 0.005), cpu=0.01)
    once, _ = relabel(of, virtual=True)
    assert relabel(once, virtual=True)[0] == once


def test_disturbed_samples_do_not_pass_for_warm_up() -> None:
    slow = np.full(N, 0.01)
    slow[:10] = 0.02
    found = labels(measured(slow, waited=np.where(slow > 0.01, 0.01, 0.0)))
    assert all(bits & DISTURBED and not bits & Label.WARM_UP for bits in found[:10])


# When it is enough.


def test_the_widest_printed_interval_decides() -> None:
    narrow, wide = timings(0.01, spread=0.001), timings(0.01, spread=0.2, regime="paced")
    assert find_widest(case(narrow)) < 0.01 < find_widest(case(narrow, wide))
    assert len(list_printed(case(narrow, wide))) == 3  # two medians and the throughput


def test_nothing_measured_is_never_enough() -> None:
    assert find_widest(case()) == float("inf")
    assert find_widest(case(timings(0.01, n=3, processes=1))) == float("inf")
