"""Ranks of one job: the same collective on all of them, who waits, who comes last."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from fixtures import traces
from laptime.records.overview import CollectiveRow
from laptime.trace import collectives, view
from laptime.trace.collectives import Collective, kind
from laptime.trace.ranks import RankShare, combine, share
from laptime.trace.reading import reader
from laptime.trace.view import View

US = 1_000

Event = dict[str, Any]


def seen(trace: Any) -> View:
    joined = view.link(trace)
    return View(trace, joined, view.find_steps(trace, joined))


def rank(number: int, events: list[Event], step: tuple[int, int] = (0, 1000), **top: Any) -> RankShare:
    document = {
        "traceEvents": [host("ProfilerStep#1", step[0], step[1] - step[0], "user_annotation"), *events],
        "distributedInfo": {"rank": number, "world_size": 2},
        **top,
    }
    return share(seen(reader.parse(json.dumps(document).encode(), name=f"rank{number}.json")))


def host(name: str, start: int, dur: int, cat: str = "cpu_op", **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": dur, "args": args}


def nccl(start: int, dur: int, name: str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", **args: Any) -> Event:
    args = {"device": 0, "stream": 20, "correlation": start} | args
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": 20,
        "ts": start,
        "dur": dur,
        "args": args,
    }


def told(name: str, elements: int, sequence: int, group: str = "0", size: int = 2) -> dict[str, Any]:
    return {
        "Collective name": name,
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "dtype": "Float",
        "Group size": size,
        "Process Group Name": group,
        "Seq": sequence,
    }


def test_latency_is_the_shortest_duration_and_the_rest_is_waiting_for_the_last() -> None:
    ranks, found, late = combine([rank(0, [nccl(100, 500)]), rank(1, [nccl(500, 100)], step=(400, 1000))])
    assert found == [
        CollectiveRow(
            name="all_reduce",
            ranks=[0, 1],
            start_ns=100 * US,
            latency_ns=100 * US,
            skew_ns=400 * US,
            first=0,
            last=1,
            waiting_ns=400 * US,
            duration_ns=600 * US,
        )
    ]
    assert [(row.waiting_ns, row.transfer_ns, row.last_arrivals) for row in ranks] == [
        (400 * US, 100 * US, 0),
        (0, 100 * US, 1),
    ]
    assert [(each.rank, each.caused_ns, each.share, each.last_arrivals) for each in late] == [
        (1, 400 * US, 1.0, 1)
    ]
    assert "400 us later" in late[0].why


def test_nobody_is_a_straggler_when_all_are_late_in_turn() -> None:
    one, other = [nccl(100, 50), nccl(300, 10)], [nccl(140, 10), nccl(260, 50)]
    _, found, late = combine([rank(0, one), rank(1, other)])
    assert [row.last for row in found] == [1, 0]
    assert late == []


def test_a_straggler_that_waits_for_data_is_told_so() -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    slow = [host(loader, 0, 450, "user_annotation"), nccl(500, 100)]
    _, _, late = combine([rank(0, [nccl(100, 500)]), rank(1, slow)])
    assert "450 us longer" in late[0].why


def test_sequence_numbers_match_collectives_whatever_their_order() -> None:
    one = [nccl(100, 100, **told("allreduce", 10, 7)), nccl(300, 100, **told("allreduce", 20, 8))]
    other = [nccl(350, 50, **told("allreduce", 20, 8)), nccl(600, 50, **told("allreduce", 30, 9))]
    _, found, _ = combine([rank(0, one), rank(1, other)])
    assert [(row.bytes, row.skew_ns, row.group, row.group_size) for row in found] == [(80, 50 * US, "0", 2)]


def test_collectives_of_different_groups_are_not_taken_for_the_same() -> None:
    one, other = told("allreduce", 1, 3, group="tp"), told("allreduce", 1, 3, group="dp")
    assert combine([rank(0, [nccl(100, 9, **one)]), rank(1, [nccl(100, 9, **other)])])[1] == []


def test_more_ranks_than_a_group_has_are_not_one_collective() -> None:
    metadata = told("allreduce", 1, 3, group="dp", size=2)
    assert combine([rank(n, [nccl(100, 9, **metadata)]) for n in range(4)])[1] == []


def test_a_trace_that_began_earlier_is_shifted_to_where_collectives_overlap() -> None:
    one = [nccl(100 * n, 50) for n in range(1, 6)]
    _, found, _ = combine([rank(0, one), rank(1, one[2:4])])
    assert [(row.start_ns, row.skew_ns) for row in found] == [(300 * US, 0), (400 * US, 0)]


def test_series_of_other_clocks_are_shifted_to_where_their_ends_keep_one_distance() -> None:
    one = [nccl(at, 50) for at in (100, 300, 700, 1500, 3100)]
    other = [nccl(at + 7_000_000, 50) for at in (700, 1500, 3100)]
    _, found, _ = combine([rank(0, one), rank(1, other, step=(7_000_000, 7_004_000))])
    assert [(row.start_ns, row.skew_ns) for row in found] == [(at * US, 0) for at in (700, 1500, 3100)]


def test_sends_and_receives_are_left_alone() -> None:
    assert combine([rank(n, [nccl(100, 9, **told("send", 1, 3))]) for n in range(2)])[1] == []


def test_a_rank_without_collectives_has_no_waiting() -> None:
    ranks, found, late = combine([rank(0, []), rank(1, [])])
    assert (found, late) == ([], [])
    assert [(row.rank, row.file, row.waiting_ns, row.last_arrivals) for row in ranks] == [
        (0, "rank0.json", None, None),
        (1, "rank1.json", None, None),
    ]


def test_clocks_of_different_machines_are_brought_together_by_the_ends() -> None:
    one = [nccl(at, 50) for at in (100, 300, 500)]
    other = [nccl(at + 7_000_000, 40) for at in (110, 310, 510)]
    ranks, found, _ = combine([rank(0, one), rank(1, other, step=(7_000_000, 7_001_000))])
    assert [row.clock_offset_ns for row in ranks] == [0, -7_000_000 * US]
    assert [row.skew_ns for row in found] == [10 * US] * 3
    assert [row.last for row in found] == [1, 1, 1]


def test_one_clock_is_left_as_it_is() -> None:
    ranks, _, _ = combine([rank(0, [nccl(100, 50)]), rank(1, [nccl(140, 20)])])
    assert [row.clock_offset_ns for row in ranks] == [0, 0]


def test_times_count_from_the_first_event_of_all_files() -> None:
    shifted: dict[str, Any] = {"baseTimeNanoseconds": 5_000_000}
    _, found, _ = combine(
        [rank(0, [nccl(100, 500)], **shifted), rank(1, [nccl(150, 450)], step=(50, 900), **shifted)]
    )
    assert [(row.start_ns, row.skew_ns) for row in found] == [(100 * US, 50 * US)]


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("allreduce", 1.5),
        ("_allgather_base", 0.75),
        ("reduce_scatter", 0.75),
        ("all_to_allv", 0.75),
        ("broadcast", 1),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(name: str, factor: float) -> None:
    events = [nccl(100, 100, **told(name, 1_000_000, 1, size=4))]
    _, found, _ = combine([rank(n, events) for n in range(4)])
    assert found[0].bytes == 4_000_000
    assert found[0].algorithm_bandwidth == pytest.approx(4e10)
    assert found[0].bus_bandwidth == pytest.approx(4e10 * factor)


def test_without_metadata_name_and_bytes_come_from_the_range_around_the_launch() -> None:
    events = [
        host(
            "nccl:all_to_all",
            10,
            50,
            "user_annotation",
            **{"Input Dims": [[6, 4]], "Input type": ["c10::Half"]},
        ),
        host("cudaLaunchKernel", 20, 10, "cuda_runtime", correlation=100),
        nccl(100, 10, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)"),
    ]
    found = rank(0, events).collectives
    assert [(each.name, each.kernel, each.bytes) for each in found] == [("all_to_all", "send_recv", 48)]


def test_gloo_collectives_run_on_the_host() -> None:
    events = [host("gloo:all_reduce", 100, 50, "user_annotation")]
    _, found, _ = combine([rank(n, events) for n in range(2)])
    assert [(row.name, row.latency_ns) for row in found] == [("all_reduce", 50 * US)]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "send_recv"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("nccl:_all_gather_base", "all_gather"),
        ("nccl:reduce", "reduce"),
        ("alltoall_base", "all_to_all"),
        ("void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*)", "all_reduce"),
        ("ncclDevKernel_Generic", ""),
    ],
)
def test_kinds_of_collectives_are_told_by_any_of_their_names(name: str, word: str) -> None:
    assert kind(name) == word


def test_a_share_survives_the_way_from_another_process() -> None:
    own = rank(0, [nccl(100, 50, **told("allreduce", 10, 7))])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(own), type=RankShare) == own


def test_collectives_that_only_one_rank_has_are_no_meeting() -> None:
    one = Collective("all_reduce", "all_reduce", "", -1, -1, 0, 10, None, "", 1)
    assert collectives.meet([[one], []]) == []


# dlrm_8_ranks: one step of a recommendation model on eight V100.


@pytest.fixture(scope="module")
def eight() -> list[RankShare]:
    files = sorted(traces.path("dlrm_8_ranks").iterdir())
    return [share(seen(reader.read(path))) for path in files]


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    traces.path("dlrm_8_ranks")
    return traces.expected()["multi_rank"]["dlrm_8_ranks"]["independent"]


def test_transfers_are_those_of_an_independent_count(
    eight: list[RankShare], expected: dict[str, Any]
) -> None:
    ranks, found, _ = combine(eight)
    assert [row.latency_ns // US for row in found] == expected[
        "transfer_us_rule(min over ranks of k-th kernel)"
    ]
    assert [row.communication_ns // US for row in ranks] == expected["nccl_total_per_rank_us"]
    assert {row.transfer_ns for row in ranks} == {217 * US}


def test_rank_7_comes_last_and_the_others_wait(eight: list[RankShare], expected: dict[str, Any]) -> None:
    ranks, found, late = combine(eight[::-1])
    arrivals = {one.rank: one.collectives[0].start_ns for one in eight}
    earliest = min(arrivals.values())
    skews = [(arrivals[n] - earliest) // US for n in range(8)]
    assert skews == expected["first_collective_start_skew_us_vs_earliest_rank"]
    assert (found[0].name, found[0].last, found[0].first, found[0].skew_ns) == (
        "all_to_all",
        7,
        1,
        7_624 * US,
    )
    assert [each.rank for each in late] == [7]
    assert late[0].share > 0.75
    assert "4.52 ms later" in late[0].why
    waiting = sum(row.waiting_ns or 0 for row in ranks)
    assert waiting / sum(row.communication_ns for row in ranks) > 0.95
    assert waiting == sum(row.waiting_ns for row in found)
    assert [row.clock_offset_ns for row in ranks] == [0] * 8


def test_a_rank_without_a_device_is_late_for_what_its_host_does() -> None:
    def of(number: int, start: int, *work: Event) -> RankShare:
        talk = host("gloo:all_reduce", start, 900 - start, "user_annotation")
        return rank(number, [{**talk, "tid": 7}, *work])

    slow = host("aten::mm", 100, 500)
    (late,) = combine([of(0, 100, host("aten::mm", 50, 50)), of(1, 700, slow)])[2]
    assert (late.rank, late.why) == (
        1,
        "per step its operators take 450 us longer than the median of the others",
    )
    idle = host("aten::mm", 0, 50)
    (late,) = combine([of(0, 100, idle), of(1, 700, idle)])[2]
    assert late.why.startswith("per step it does 600 us more outside of operators")


def test_communication_of_the_host_is_exposed_where_no_operator_runs() -> None:
    talk = host("gloo:all_reduce", 100, 300, "user_annotation")
    talk["tid"] = 7
    events = [
        talk,
        host("aten::mm", 150, 100),
        host("aten::add", 390, 60),
        host("backward", 90, 400, "user_annotation"),
    ]
    shown = rank(0, events)
    assert shown.row.exposed_communication_ns == (300 - 100 - 10) * US
    device = rank(0, [nccl(100, 50), talk])
    assert device.row.exposed_communication_ns == 50 * US
