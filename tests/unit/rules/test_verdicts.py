"""What limits the step: made-up profiles, and the shared traces whose truth is known."""

from __future__ import annotations

import pytest
from msgspec import structs

from fixtures import diagnosed as made
from fixtures import traces
from fixtures.diagnosed import cpu, gpu
from laptime import rules
from laptime.kit.units import percent
from laptime.records.overview import Breakdown, Overview, RankRow
from laptime.records.profile import Profile
from laptime.rules import communication


@pytest.mark.parametrize(
    ("profile", "bound", "share"),
    [
        (gpu(data=30), "input", 0.30),
        (gpu(host=30), "host", 0.30),
        (gpu(host=24, data=24), "device", 0.52),
        (gpu(host=30, data=31), "input", 0.31),
        (gpu(synchronisation=40), "synchronisation", 0.40),
        (gpu(copies=20, copy=20), "copy", 0.40),
        (gpu(communication=45, host=47), "communication", 0.45),
        (gpu(communication=10, host=60), "host", 0.60),
        (gpu(other=60), "unknown", 0.60),
        (cpu(), "cpu", 0.95),
        (cpu(data=40), "input", 0.40),
        (cpu(other=60), "host", 0.60),
        (structs.replace(cpu(), overview=structs.replace(cpu().overview, threads_busy=0.4)), "host", 0.60),
    ],
)
def test_the_step_is_bound_by(profile: Profile, bound: str, share: float) -> None:
    found = rules.verdict(profile)
    assert found.bound == bound
    assert found.share == pytest.approx(share, abs=1e-6)
    assert f"{percent(share)}" in found.sentence


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        (gpu(data=24), ["kernels compute 76 %", "24 % the device waits for data"]),
        (gpu(data=26), ["26 % of the", "waits for data", "74 % kernels compute"]),
        (gpu(host=26, data=12), ["Host-bound: 26 %", "62 % kernels compute", "12 % the device waits"]),
        (cpu(data=24), ["operators take 71 %", "24 % it waits for data"]),
        (cpu(data=26), ["Input-bound: 26 %", "69 % operators run"]),
    ],
)
def test_both_are_said_on_either_side_of_the_threshold(profile: Profile, words: list[str]) -> None:
    sentence = rules.verdict(profile).sentence
    assert [each for each in words if each not in sentence] == [], sentence


def test_what_is_by_far_the_largest_part_stands_alone() -> None:
    assert "kernels compute" not in rules.verdict(gpu(data=60)).sentence


def test_nothing_is_bound_by_nothing() -> None:
    nothing = Profile(
        files=[], overview=Overview(steps=0, step_ns=0, step_median_ns=0, breakdown=Breakdown())
    )
    assert rules.verdict(nothing).bound == "unknown"
    assert rules.verdict(nothing).share is None


def test_all_ranks_together_tell_that_communication_is_the_limit() -> None:
    """The late rank's own file shows a slow host; the job waits for communication."""
    job = made.ranks(waiting=60)
    late = structs.replace(gpu(host=60), rank=3, ranks=job.ranks, stragglers=job.stragglers)
    found = rules.verdict(late)
    assert found.bound == "communication"
    assert "rank 3" in found.sentence
    assert rules.verdict(gpu(host=60)).bound == "host"


def test_the_straggler_is_the_rank_of_the_largest_share_whatever_the_order() -> None:
    job = made.ranks(waiting=60)
    (late,) = job.stragglers
    half = structs.replace(late, rank=1, share=0.5, caused_ns=late.caused_ns * 9)
    unsorted = structs.replace(job, stragglers=[half, structs.replace(late, share=0.6)])
    assert "rank 3" in rules.verdict(unsorted).sentence
    none = structs.replace(job, stragglers=[structs.replace(half, share=0.49)])
    assert "arrives last" not in rules.verdict(none).sentence


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("resnet50_num_workers_0.json.gz", "input"),
        ("resnet50_num_workers_4.json.gz", "device"),
        ("nccl_a100.json.gz", "host"),
        ("ns_resolution_v100.json.gz", "device"),
        ("edge/cpu_only_gloo.json.gz", "communication"),
        ("edge/rank_not_found.json.gz", "unknown"),
    ],
)
def test_known_traces_get_their_verdict(name: str, bound: str) -> None:
    from laptime.verbs.trace import analyse

    assert rules.verdict(analyse([traces.path(name)])).bound == bound


def test_a_file_without_its_device_tells_no_limit() -> None:
    """rank_not_found comes from a GPU job of which only the host was recorded: it is not bound by the CPU."""
    assert rules.verdict(made.firing()["host_only"]).bound == "unknown"


def test_the_fed_resnet_is_told_to_use_mixed_precision() -> None:
    from laptime.verbs.trace import analyse

    found = {
        each.kind: each for each in rules.diagnose(analyse([traces.path("resnet50_num_workers_4.json.gz")]))
    }
    assert found["trace/tensor-cores-unused"].optimization == "fp16_autocast"
    assert "trace/num-workers" not in found


def test_the_starved_resnet_is_told_to_use_workers_first() -> None:
    from laptime.verbs.trace import analyse

    found = rules.diagnose(analyse([traces.path("resnet50_num_workers_0.json.gz")]))
    assert found[0].kind == "trace/num-workers"
    assert found[0].gain == pytest.approx(0.0593, abs=1e-4)


def test_half_precision_runs_are_not_told_to_use_half_precision() -> None:
    """The plugin advises AMP to bf16 runs whose tensor-core kernels it does not know by name."""
    from laptime.verbs.trace import analyse

    for name in ("h100_bert_small.json.gz", "h100_vit.json.gz", "mi300_vit.json.gz", "nccl_a100.json.gz"):
        kinds = {each.kind for each in rules.diagnose(analyse([traces.path(name)]))}
        assert not kinds & {"trace/tensor-cores-unused", "trace/fp32-matmul"}


def test_eight_ranks_wait_for_rank_7() -> None:
    from laptime.verbs.trace import analyse

    job = analyse([traces.path("dlrm_8_ranks")])
    assert rules.verdict(job).bound == "communication"
    late = [each for each in rules.diagnose(job) if each.kind == "trace/straggler"]
    assert len(late) == 1
    assert late[0].evidence["rank"] == 7
    assert late[0].rows == ["ranks/7"]


def test_a_file_that_breaks_off_within_the_devices_work_gets_no_verdict_and_no_advice() -> None:
    whole = gpu(host=60)
    cut = structs.replace(
        whole,
        files=[structs.replace(whole.files[0], truncated=True)],
        steps=[structs.replace(whole.steps[0], device_busy_ns=0), *whole.steps[1:]],
    )
    assert rules.verdict(whole).bound == "host"
    assert rules.verdict(cut).bound == "unknown"
    assert [found.kind for found in rules.diagnose(cut) if found.gain] == []
    assert "trace/incomplete" in {found.kind for found in rules.diagnose(cut)}


def test_a_file_that_breaks_off_behind_whole_steps_keeps_its_verdict() -> None:
    whole = gpu(host=60)
    cut = structs.replace(whole, files=[structs.replace(whole.files[0], truncated=True)])
    assert rules.verdict(cut).bound == "host"


@pytest.mark.parametrize(
    ("world", "words"),
    [(128, "over 2 of 128 ranks, is"), (2, "over all 2 ranks, is"), (None, "over 2 ranks, is")],
)
def test_waiting_is_said_of_the_ranks_that_were_given(world: int | None, words: str) -> None:
    rows = [
        RankRow(rank=rank, file="", steps=1, step_ns=100, compute_ns=10, communication_ns=80,
                exposed_communication_ns=80, idle_ns=10,
                breakdown=Breakdown(communication_ns=80, other_ns=20),
                waiting_ns=30, transfer_ns=50)
        for rank in (0, 1)
    ]  # fmt: skip
    profile = Profile(
        files=[],
        world=world,
        ranks=rows,
        overview=Overview(
            steps=1,
            step_ns=100,
            step_median_ns=100,
            breakdown=Breakdown(communication_ns=80, other_ns=20),
        ),
    )
    found = communication.rule(profile)
    assert found is not None
    assert words in found.sentence
