"""What runs cost: to the cent, refused where it would mean nothing, marked where it is no measurement."""

from __future__ import annotations

import itertools
import platform
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from fixtures import costs, runs, tunings
from fixtures.costs import OCI, case, exact, level, run
from laptime.kit.errors import ExitCode, LaptimeError, UsageError
from laptime.pricing import machine_table
from laptime.pricing.location import find
from laptime.pricing.speeds import NoCost
from laptime.records.check import Check
from laptime.records.cost import Cost
from laptime.records.run import Run
from laptime.reports.document import Facts
from laptime.reports.documents.cost.words import bill
from laptime.verbs.cost.request import CostRequest
from laptime.verbs.cost.run import cost

TODAY = date(2026, 11, 22)
WARN = [Check(name="pressure", outcome="warn", sentence="others were busy", next="again")]
FAIL = [Check(name="synced", outcome="fail", sentence="faster than the hardware", next="sync")]


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def ask(*of: Run, **options: Any) -> Cost:
    options.setdefault("machines", [OCI])
    return cost(of, CostRequest(today=TODAY, **options))


def test_usd_per_million_of_a_run_is_as_by_hand() -> None:
    # 40 calls a second on 0.448 USD/h: 0.448e6 / 144000 = 3.1111; 144000 / 0.448 = 321428.57 calls a USD
    (line,) = ask(run(case(0.025))).lines
    assert line.speed.rate == pytest.approx(40.0)
    assert line.usd_per_million == pytest.approx(3.11111, abs=1e-5)
    assert line.units_per_usd == pytest.approx(321428.57, abs=0.01)
    assert line.usd_per_month == pytest.approx(327.04, abs=1e-9)
    assert (line.speed.unit, line.speed.at, line.kind) == ("call", "saturation", "measured")


def test_a_batch_counts_items_and_an_own_price_comes_first() -> None:
    # 8 items in 0.1 s are 80 a second; at 4 USD/h: 4e6 / 288000 = 13.8889
    (line,) = ask(run(case(0.1, axes={"batch": 8})), usd_per_hour=4.0).lines
    assert line.usd_per_million == pytest.approx(13.88889, abs=1e-5)
    assert line.speed.unit == "item"


def test_the_interval_is_that_of_the_throughput() -> None:
    (line,) = ask(run(case(0.025, spread=0.05))).lines
    assert line.ci95 is not None
    assert line.speed.ci95 is not None
    assert line.ci95[0] < line.usd_per_million < line.ci95[1]
    assert line.ci95[0] == pytest.approx(0.448e6 / 3600 / line.speed.ci95[1])


def test_a_training_and_a_month_are_as_by_hand() -> None:
    # 1,281,167 samples at 80/s: 16014.5875 s = 4.448497 h; x 4 = 17.7940 USD an epoch; 90 epochs 1601.46
    made = ask(
        run(case(0.1, axes={"batch": 8, "train": "sgd"})),
        usd_per_hour=4.0,
        samples=1_281_167,
        epochs=90,
        rate=200,
    )
    (line,) = made.lines
    assert line.training is not None
    assert line.training.usd_per_epoch == pytest.approx(17.79399, abs=1e-5)
    assert round(line.training.usd, 2) == 1601.46
    # 200/s need three machines of 80/s: used to 83.3 %; 3 x 4 x 730 = 8760 USD; 12e6 / 720000 = 16.6667
    assert line.monthly is not None
    assert (line.monthly.machines, line.monthly.usd) == (3, pytest.approx(8760.0))
    assert line.monthly.utilization == pytest.approx(0.83333, abs=1e-5)
    assert line.monthly.usd_per_million == pytest.approx(16.66667, abs=1e-5)
    assert line.speed.unit == "sample"


def test_half_the_utilization_is_twice_the_cost() -> None:
    whole, half = (ask(run(case(0.025)), utilization=share).lines[0] for share in (1.0, 0.5))
    assert half.usd_per_million == pytest.approx(2 * whole.usd_per_million)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.permutations([1, 2, 4, 8]))
def test_the_order_of_batches_does_not_matter(order: list[int]) -> None:
    def costs_of(sizes: list[int]) -> dict[str, tuple[float, bool]]:
        cases = [case(0.02 * size**0.5, axes={"batch": size}) for size in sizes]
        return {line.speed.case: (line.usd_per_million, line.cheapest) for line in ask(run(*cases)).lines}

    assert costs_of(order) == costs_of([1, 2, 4, 8])


def test_the_cheapest_line_is_marked_once_a_run() -> None:
    made = ask(run(*(case(0.1, axes={"batch": size}) for size in (1, 4))))
    assert [line.cheapest for line in made.lines] == [False, True]


# What is refused, and what is carried along.


def test_invalid_runs_are_refused_and_noisy_ones_carry_the_word() -> None:
    with pytest.raises(NoCost, match="invalid") as caught:
        ask(run(case(0.025, checks=FAIL)))
    assert caught.value.exit_code == ExitCode.UNDECIDED
    assert "faster than" in caught.value.why
    (line,) = ask(run(case(0.025, checks=WARN))).lines
    assert line.speed.verdict == "noisy"


def test_an_invalid_case_beside_a_good_one_is_left_out_with_its_reason() -> None:
    made = ask(run(case(0.025), case(0.1, axes={"batch": 8}, checks=FAIL)))
    assert len(made.lines) == 1
    assert "faster than" in made.excluded[0].reason


def test_a_run_without_throughput_is_refused() -> None:
    with pytest.raises(UsageError, match="no throughput"):
        ask(run(runs.case(runs.single("reported/accuracy", "1", 0.76))))


def test_a_failed_run_is_refused() -> None:
    with pytest.raises(UsageError, match="no throughput"):
        ask(structs.replace(runs.failed(), cases=runs.failed().cases[1:] or runs.failed().cases))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"machines": ["aws:m5.8xlrge"]}, "no machine is called"),
        ({"machines": [OCI, OCI, OCI]}, "3 machines for 1 run"),
        ({"usd_per_hour": 0.0}, "--usd-per-hour 0 is impossible"),
        ({"usd_per_hour": float("nan")}, "is impossible"),
        ({"rate": -1.0}, "--rate -1 is impossible"),
        ({"samples": 0.0}, "--samples 0 is impossible"),
        ({"slo": "soon"}, "is not a duration"),
        ({"slo": "50ms@p42"}, "is not a promise"),
        ({"spot": True, "usd_per_hour": 1.0}, "--spot and --usd-per-hour"),
        ({"spot": True, "reserved": True}, "--spot and --reserved"),
        ({"reserved": True}, "no reserved price of oci:VM.Standard.E3.Flex:16:32 is known"),
        ({"prices": Path("none.csv")}, "cannot be read"),
        ({"machines": ["aws:c8g.4xlarge"]}, "was not measured on aws:c8g.4xlarge"),
    ],
)
def test_bad_options_are_errors_in_three_lines(options: dict[str, Any], said: str) -> None:
    with pytest.raises(LaptimeError) as caught:
        ask(run(case(0.025)), **options)
    assert said in str(caught.value)
    assert caught.value.why


def test_a_reserved_price_and_what_an_account_has_free_are_figures(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text(
        "provider,shape,usd_per_hour,seen,reserved_usd_per_hour,free_usd_per_month\n"
        "mine,a,1,2026-11-01,0.6,100\nmine,b,1,2026-11-01,1.6,\nmine,c,1,2026-11-01,,-1\n"
    )
    asked = {"machines": ["mine:a"], "prices": own}
    (line,) = ask(run(case(0.025)), **asked, rate=60.0).lines
    assert line.usd_per_month == pytest.approx(730)
    (facts, *_) = bill(ask(run(case(0.025)), **asked, rate=60.0)).blocks
    assert isinstance(facts, Facts)
    text = " ".join(text for _, text in facts.rows)
    assert "630.00 USD" in text
    assert "1,360.00 USD" in text, "of two machines an account has them once"
    (line,) = ask(run(case(0.025)), **asked, reserved=True).lines
    assert line.usd_per_hour == 0.6
    refused = {each.name: each.reason for each in ask(run(case(0.025)), **asked).refused}
    assert "price 1.6" in refused["mine:b"]
    assert "-1 USD" in refused["mine:c"]


def test_oci_gives_arm_hours_of_a_month_for_nothing() -> None:
    # 2 OCPUs and 12 GB for 730 h are 1,460 OCPU hours and 8,760 GB hours: all free; 4 and 24 are half free.
    table = machine_table.load(today=TODAY)
    for sizes, free in (("2:12", 27.74), ("4:24", 28.5)):
        machine = find(f"oci:VM.Standard.A1.Flex:{sizes}", table)
        assert machine.free_usd_per_month == pytest.approx(free)
    assert find("oci:VM.Standard.E5.Flex:2:12", table).free_usd_per_month is None


def test_without_a_machine_the_error_says_what_to_type() -> None:
    with pytest.raises(UsageError, match="no price") as caught:
        ask(run(case(0.025)), machines=[])
    assert "--usd-per-hour" in caught.value.next


def test_a_run_that_tells_its_machine_needs_no_option() -> None:
    made = ask(run(case(0.025), environment=costs.environment(cloud="aws:m5.8xlarge")), machines=[])
    assert (made.machines[0].known_by, made.lines[0].usd_per_hour) == ("run", 1.536)


def test_a_flexible_shape_without_sizes_takes_those_of_the_run() -> None:
    assert ask(run(case(0.025)), machines=["oci:VM.Standard.E3.Flex"]).lines[0].machine == OCI


def test_detect_is_asked_only_where_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laptime.pricing.location.detect", lambda: OCI)
    here = run(case(0.025), environment=costs.environment(host=platform.node()))
    assert ask(here, machines=[], detect=True).machines[0].known_by == "metadata"
    with pytest.raises(UsageError, match="no price"):
        ask(run(case(0.025)), machines=[], detect=True)
    with pytest.raises(UsageError, match="no price"):
        ask(here, machines=[])


def test_what_does_not_fit_together_is_said() -> None:
    made = ask(run(case(0.025)), machines=["aws:m5.large"])
    assert any("saw 32 vCPUs, aws:m5.large has 2" in each for each in made.warnings)


def test_an_accelerator_of_another_kind_is_refused_and_one_of_eight_costs_an_eighth() -> None:
    made = costs.on_gpu("NVIDIA H100 80GB HBM3", 80 * 2**30, 0.001)
    with pytest.raises(UsageError, match=r"on aws:g5\.xlarge"):
        ask(made, machines=["aws:g5.xlarge"])
    with pytest.raises(UsageError, match="no accelerator"):
        ask(made, machines=["aws:m5.8xlarge"])
    (line,) = ask(made, machines=["aws:p5.48xlarge"]).lines
    assert (line.share, line.usd_per_hour) == (0.125, pytest.approx(6.88))


H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB"


@pytest.mark.parametrize(
    ("model", "gib", "machine"),
    [
        ("NVIDIA H100 NVL", 93.1, "aws:p5.48xlarge"),  # 94 GB on 80 GB
        (H100, 79.1, "azure:Standard_NC40ads_H100_v5"),
        (A100, 39.5, "aws:p4de.24xlarge"),  # 40 GB on 80 GB
        (f"{A100} MIG 3g.20gb", 19.5, "aws:p4de.24xlarge"),
        (f"{H100} MIG 1g.10gb", 9.75, "lambda:gpu_1x_gh200"),
        ("NVIDIA GH200 480GB", 95.0, "aws:p5.48xlarge"),
        ("NVIDIA GH200 144G HBM3e", 140.0, "aws:p5.48xlarge"),
        ("NVIDIA Foo 9000", 48.0, "aws:p5.48xlarge"),
        ("NVIDIA A10", 23.0, "aws:g5.xlarge"),  # A10G
        ("Tesla T4", 14.6, "aws:g5g.xlarge"),  # T4g
        ("NVIDIA GeForce RTX 4090", 24.0, "aws:g7e.2xlarge"),
        ("NVIDIA L4", 22.5, "aws:g6f.large"),  # an eighth of one
        ("NVIDIA L4-3Q", 3.0, "aws:g6.xlarge"),
        ("NVIDIA A10", 22.5, "azure:Standard_NV6ads_A10_v5"),
    ],
)
def test_another_accelerator_is_refused_whatever_its_name_begins_with(
    model: str, gib: float, machine: str
) -> None:
    made = costs.on_gpu(model, int(gib * 2**30), 0.001)
    with pytest.raises(UsageError, match="not measured"):
        ask(made, machines=[machine])


@pytest.mark.parametrize(
    ("model", "gib", "machine", "share"),
    [
        (f"{H100} MIG 1g.10gb", 9.75, "aws:p5.48xlarge", 1 / 7 / 8),
        (f"{H100} MIG 1g.20gb", 19.6, "aws:p5.48xlarge", 1 / 4 / 8),  # four of these, by memory
        (f"{A100} MIG 3g.20gb", 19.5, "aws:p4d.24xlarge", 1 / 2 / 8),
        ("NVIDIA H100 NVL MIG 2g.24gb+me", 23.0, "azure:Standard_NC40ads_H100_v5", 2 / 7),
        (f"{A100} MIG 1c.3g.20gb", 19.5, "aws:p4d.24xlarge", 1 / 2 / 3 / 8),
    ],
)
def test_a_slice_pays_its_share_of_the_card_and_is_told(
    model: str, gib: float, machine: str, share: float
) -> None:
    made = ask(costs.on_gpu(model, int(gib * 2**30), 0.001), machines=[machine])
    assert made.lines[0].share == pytest.approx(share)
    assert any("MIG slice" in each for each in made.warnings)
    assert not any("the whole machine" in each for each in made.warnings), "a part of it is paid"
    typed = ask(costs.on_gpu(model, int(gib * 2**30), 0.001), machines=[], usd_per_hour=1.0)
    assert typed.lines[0].usd_per_hour == 1.0
    assert any("1 USD/h" in each for each in typed.warnings)


@pytest.mark.parametrize(
    ("model", "gib", "machine"),
    [
        ("NVIDIA H100 PCIe", 79.1, "aws:p5.48xlarge"),
        ("NVIDIA A100 80GB PCIe", 79.2, "aws:p4de.24xlarge"),
    ],
)
def test_an_accelerator_that_may_be_another_one_gets_a_word(model: str, gib: float, machine: str) -> None:
    told = ask(costs.on_gpu(model, int(gib * 2**30), 0.001), machines=[machine]).warnings
    assert any("not known" in each for each in told)


@pytest.mark.parametrize(
    ("cpu", "isa", "machine", "is_said"),
    [
        ("AMD EPYC 7742 64-Core Processor", ["avx2"], "aws:m5.8xlarge", True),
        ("AMD EPYC 7742 64-Core Processor", ["avx2"], OCI, False),
        ("AMD EPYC 7J13 64-Core Processor", ["avx2"], OCI, True),  # Zen 3
        ("AMD EPYC 9R14", ["avx2", "avx512f"], "aws:c7a.4xlarge", False),
        ("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", ["avx2", "avx512f"], "aws:c6i.8xlarge", False),
        ("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", ["avx2", "avx512f"], "aws:c6a.8xlarge", True),
        ("Intel(R) Xeon(R) CPU E5-2686 v4", ["avx2"], "aws:c7i.8xlarge", True),  # no AMX
        ("Intel(R) Xeon(R) Platinum 8481C", ["avx2", "avx512f", "amx_bf16"], "aws:m5.8xlarge", True),
        ("Intel(R) Xeon(R) Platinum 8481C", ["avx2", "avx512f", "amx_bf16"], "aws:c7i.8xlarge", False),
        ("Neoverse-V1", ["asimd", "bf16"], "aws:c6g.8xlarge", True),  # Graviton 3 on 2
        ("Neoverse-V1", ["asimd", "bf16"], "aws:c7g.8xlarge", False),
        ("", [], "aws:m5.8xlarge", False),
    ],
)
def test_a_cpu_that_the_machine_does_not_have_gets_a_word(
    cpu: str, isa: list[str], machine: str, is_said: bool
) -> None:
    made = ask(run(case(0.025), environment=costs.environment(cpu=cpu, isa=isa)), machines=[machine])
    assert any("not measured" in each for each in made.warnings) is is_said


@pytest.mark.parametrize(
    ("named", "usd"),
    [
        ("aws,p4d.24xlarge,16,2026-11-01,A100-40GB", 2.0),  # how many of them is known
        ("mine,box,4,2026-11-01,NVIDIA A100-SXM4-40GB", 4.0),  # as its driver says
        ("mine,box,4,2026-11-01,A100-SXM4-40GB", 4.0),
    ],
)
def test_a_contract_may_call_its_accelerator_as_the_driver_does(
    named: str, usd: float, tmp_path: Path
) -> None:
    path = tmp_path / "own.csv"
    path.write_text(f"provider,shape,usd_per_hour,seen,accelerator\n{named}\n")
    made = ask(
        costs.on_gpu(A100, int(39.4 * 2**30), 0.001), prices=path, machines=[":".join(named.split(",")[:2])]
    )
    assert made.lines[0].usd_per_hour == usd
    assert not any("not known" in each for each in made.warnings)


def test_memory_of_another_size_is_the_reason_that_is_told(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    head = "provider,shape,usd_per_hour,seen,accelerator,accelerator_memory_gib\n"
    path.write_text(f"{head}mine,box,4,2026-11-01,Foo 9000,24\n")
    made = costs.on_gpu("NVIDIA Foo 9000", 48 * 2**30, 0.001)
    with pytest.raises(UsageError) as refused:
        ask(made, prices=path, machines=["mine:box"])
    assert "Foo 9000 of 48 GiB, and that machine has 24 GiB" in refused.value.why


def test_a_contract_without_a_region_holds_in_every_one(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("provider,shape,usd_per_hour,seen\naws,c5a.8xlarge,0.5,2026-11-01\n")
    for region in ("", "@us-east-1", "@eu-west-1"):
        made = ask(run(case(0.025)), prices=path, machines=[f"aws:c5a.8xlarge{region}"])
        assert made.lines[0].usd_per_hour == 0.5


def test_a_contract_counts_wherever_its_machine_is_priced(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("provider,shape,usd_per_hour,seen\noci,VM.Standard.E3.Flex:16:32,0.30,2026-11-01\n")
    made = ask(
        run(case(0.025, flops={"float32": 8e9})), prices=path, machines=["aws:c5a.8xlarge"], where=True
    )
    assert ask(run(case(0.025)), prices=path).lines[0].usd_per_hour == 0.30
    (row,) = [each for each in made.elsewhere if each.machine.name == OCI]
    assert row.machine.usd_per_hour == 0.30


def test_prices_beyond_their_age_stand_behind_and_are_marked() -> None:
    made = ask(run(case(0.025, flops={"float32": 8e9})), machines=["aws:m5.8xlarge"], where=True)
    open_rows = [each for each in made.elsewhere if each.word == "open"]
    assert [each.is_old for each in open_rows] == sorted(each.is_old for each in open_rows)
    assert open_rows[0].is_old is False
    assert open_rows[-1].is_old is True
    assert all(each.is_old for each in made.elsewhere if each.machine.seen == "2026")
    spot = ask(run(case(0.025)), machines=["aws:c5a.8xlarge"], spot=True)
    assert spot.machines[0].age.startswith("seen 2025-06, up to")


def test_old_prices_are_said_by_their_own_age() -> None:
    assert any("298 days" in each for each in ask(run(case(0.025))).warnings)
    fresh = ask(run(case(0.025)), machines=["aws:m5.8xlarge"])
    assert not any("days old" in each for each in fresh.warnings)
    assert fresh.machines[0].age == "seen 2026-07-20, 125 days ago"


# Promises.


def test_a_promise_is_judged_by_the_upper_end() -> None:
    made = run(case(0.025), case(0.060, axes={"batch": 8}))
    kept = ask(made, slo="latency=50ms@p99")
    assert [line.speed.label for line in kept.lines] == ["batch 1"]
    assert kept.lines[0].speed.at.startswith("latency=50ms@p99")
    assert "p99 latency 60.0 ms, at least 60.0 ms" in kept.excluded[0].reason
    with pytest.raises(NoCost, match="no case of run"):
        ask(made, slo="10ms")


def test_a_percentile_that_the_sample_cannot_support_keeps_no_promise() -> None:
    few = run(runs.case(exact(0.025, n=50)))
    with pytest.raises(NoCost) as caught:
        ask(few, slo="50ms@p99")
    assert "p99 needs" in caught.value.why


def test_a_load_test_costs_what_it_costs_at_its_promise() -> None:
    (line,) = ask(run(costs.at_slo(26.9, "latency=200ms@p99"), verb="load")).lines
    assert (line.speed.at, line.speed.unit) == ("latency=200ms@p99", "request")
    assert line.usd_per_million == pytest.approx(0.448e6 / 3600 / 26.9)


def test_levels_of_load_cost_what_they_answered_and_the_promise_picks_among_them() -> None:
    made = run(level(20.0, 0.020), level(40.0, 0.030), level(80.0, 0.200), verb="load")
    lines = ask(made).lines
    # What was answered, not 1 / latency: 20 a second, though each takes 20 ms.
    assert [line.speed.rate for line in lines] == pytest.approx([20.0, 40.0, 80.0], rel=0.02)
    assert {(line.speed.unit, line.speed.at) for line in lines} == {("request", "a given rate")}
    assert lines[0].usd_per_million == pytest.approx(0.448e6 / 3600 / 20.0, rel=0.02)
    kept = ask(made, slo="latency=50ms@p90")
    assert [line.speed.label for line in kept.lines] == ["rate 20.0", "rate 40.0"]
    (best,) = [line for line in kept.lines if line.cheapest]
    assert (best.speed.label, best.speed.at) == ("rate 40.0", "latency=50ms@p90")
    assert best.speed.tail == pytest.approx(0.030, rel=0.05)
    assert "p90 latency 20" in kept.excluded[0].reason
    with pytest.raises(NoCost) as caught:
        ask(made, slo="latency=1ms@p90")
    assert "--rate 5,10,20" in caught.value.next


def test_a_level_whose_queue_grows_keeps_no_promise_and_is_at_saturation() -> None:
    growing = run(level(80.0, 0.020, served=40.0), verb="load")
    (line,) = ask(growing).lines
    assert line.speed.at == "saturation"
    assert line.speed.rate == pytest.approx(40.0, rel=0.05)
    with pytest.raises(NoCost) as caught:
        ask(growing, slo="latency=60s@median")
    assert "queue grows" in caught.value.why


def test_a_language_model_costs_by_output_token_where_every_answer_was_counted() -> None:
    counted, uncounted = (run(level(20.0, 0.5, tokens=32, uncounted=n), verb="load") for n in (0, 1))
    (line,) = ask(counted, slo="latency=1s@p90").lines
    # 20 answers a second of 32 tokens on 0.448 USD/h: 0.448e6 / 3600 / 640 = 0.1944 USD per 1 M tokens
    assert (line.speed.unit, line.speed.rate) == ("token", pytest.approx(640.0, rel=0.03))
    assert line.usd_per_million == pytest.approx(0.1944, rel=0.03)
    (line,) = ask(uncounted).lines
    assert (line.speed.unit, line.speed.rate) == ("request", pytest.approx(20.0, rel=0.03))


def test_the_price_of_a_token_has_the_interval_of_tokens_not_of_requests() -> None:
    """One user, 100 tokens an answer in 0.4 to 0.6 s, at 4 USD/h: 5.6 [5.5, 5.7], once with [554, 572]."""
    (line,) = ask(run(costs.one_user(), verb="load"), machines=[], usd_per_hour=4.0).lines
    assert line.speed.unit == "token"
    assert line.usd_per_million == pytest.approx(5.56, abs=0.1)
    assert line.ci95 is not None
    assert line.ci95 == pytest.approx((5.48, 5.65), abs=0.1)
    assert line.ci95[0] < line.usd_per_million < line.ci95[1]
    assert line.speed.ci95 is not None
    assert line.speed.ci95[0] < line.speed.rate < line.speed.ci95[1]


def test_load_on_another_machine_does_not_cost_what_this_one_does() -> None:
    far = run(level(20.0, 0.02, target="http://model.example:8000/predict"), verb="load")
    here = structs.replace(far.environment, cloud=OCI)
    with pytest.raises(UsageError) as caught:
        ask(structs.replace(far, environment=here), machines=[])
    assert "model.example" in caught.value.why
    near = run(level(20.0, 0.02, target="http://127.0.0.1:8000/predict"), verb="load")
    assert ask(structs.replace(near, environment=here), machines=[]).lines


# Before and after; tuning and profiles.


def test_before_and_after_are_compared_case_by_case() -> None:
    before, after = run(case(0.050), id="20260801-000001-000-a"), run(case(0.025), id="20260801-000002-000-a")
    (saving,) = ask(before, after, rate=70.0).savings
    assert saving.ratio == pytest.approx(2.0)
    assert (saving.word, saving.paired) == ("cheaper", False)
    # 70/s need four machines of 20/s, or two of 40/s: 4 x 327.04 - 2 x 327.04
    assert saving.usd_per_month == pytest.approx(654.08)


def test_a_difference_within_the_intervals_is_unclear() -> None:
    before = run(case(0.0251, spread=0.2), id="20260801-000001-000-a")
    after = run(case(0.025, spread=0.2), id="20260801-000002-000-a")
    assert ask(before, after).savings[0].word == "unclear"


def test_a_tuning_session_tells_what_it_saves_with_its_own_interval() -> None:
    tuned = tunings.samples()["tuning"]()
    made = ask(tuned, machines=[], usd_per_hour=1.0, samples=1e6)
    assert [line.speed.label for line in made.lines] == ["as it is", "tuned"]
    assert tuned.tuning is not None
    assert tuned.tuning.speedup is not None
    (saving,) = made.savings
    assert saving.ci95 == tuned.tuning.speedup.ci95
    assert saving.paired
    assert saving.usd_per_training is not None
    assert saving.usd_per_training > 0


def test_a_session_of_a_model_counts_items() -> None:
    cost = ask(tunings.model(), machines=[], usd_per_hour=1.0)
    assert {line.speed.unit for line in cost.lines} == {"item"}
    assert not any("--batch N" in warning for warning in cost.warnings)


@pytest.mark.parametrize("name", sorted(tunings.samples()))
def test_every_tuning_session_has_a_cost_or_a_reason(name: str) -> None:
    session = tunings.samples()[name]()
    assert session.tuning is not None
    if session.tuning.baseline is None:
        with pytest.raises(UsageError, match="no throughput") as caught:
            ask(session, machines=[], usd_per_hour=1.0)
        assert "not measured" in caught.value.why
    else:
        assert ask(session, machines=[], usd_per_hour=1.0).lines


def test_a_profile_costs_a_step_until_somebody_says_its_batch() -> None:
    from fixtures import profiles

    step = ask(profiles.cpu_only(), machines=[], usd_per_hour=1.0)
    assert step.lines[0].speed.unit == "step"
    assert any("--batch N" in each for each in step.warnings)
    sample = ask(profiles.cpu_only(), machines=[], usd_per_hour=1.0, samples_per_step=32)
    assert sample.lines[0].speed.unit == "sample"
    assert sample.lines[0].usd_per_million == pytest.approx(step.lines[0].usd_per_million / 32)


# Machines that are not at hand.

FLOPS = {"float32": 20e9}


def where(*of: Run, **options: Any) -> Cost:
    return ask(*of, where=True, **options)


def test_a_bound_is_as_by_hand() -> None:
    # A10G: 35 TFLOP/s: 20e9 / 35e12 = 0.5714 ms, 1750 calls/s at 1.006 USD/h: 1.006e6 / 6.3e6 = 0.159683
    row = next(
        each
        for each in where(run(case(0.025, flops=FLOPS))).elsewhere
        if each.machine.name == "aws:g5.xlarge"
    )
    assert (row.kind, row.word, row.limit) == ("bounded", "open", "compute")
    assert row.rate == pytest.approx(1750.0)
    assert row.usd_per_million == pytest.approx(0.159683, abs=1e-6)


def test_a_machine_whose_best_case_is_dearer_is_ruled_out_and_no_other() -> None:
    made = where(run(case(0.025, flops=FLOPS)))
    (line,) = made.lines
    known = [row for row in made.elsewhere if row.usd_per_million is not None]
    dearest = line.ci95[1] if line.ci95 else line.usd_per_million
    assert {row.word for row in known} == {"open", "ruled out"}
    for row in known:
        assert row.usd_per_million is not None
        assert (row.word == "ruled out") is (row.usd_per_million > dearest)
        assert row.kind == "bounded"
        assert "not faster" in row.reason


def test_what_does_not_fit_in_memory_is_refused() -> None:
    made = costs.on_gpu("NVIDIA H100 80GB HBM3", 80 * 2**30, 0.01, FLOPS)
    (whole,) = made.cases
    large = structs.replace(whole, series=[*whole.series, runs.single("memory/device/peak", "B", 30 * 2**30)])
    rows = where(structs.replace(made, cases=[large]), machines=["aws:p5.48xlarge"]).elsewhere
    words = {row.machine.name: row.word for row in rows}
    assert "not fit" in words["aws:g5.xlarge"]
    assert words["lambda:gpu_1x_h100_sxm5"] in ("open", "ruled out")


def test_without_a_count_nothing_is_bounded_and_it_is_said() -> None:
    made = where(run(case(0.025)))
    assert made.elsewhere == []
    assert any("bounds other" in each for each in made.warnings)


def three(shares: tuple[float, ...]) -> list[Run]:
    """The same program on A10G, L4-like and A100 machines, each at a share of its bound."""
    gpus = (("NVIDIA A10G", 24, 35e12), ("NVIDIA L40S", 48, 183e12), ("NVIDIA A100-SXM4-80GB", 80, 156e12))
    return [
        costs.on_gpu(model, memory * 2**30, 20e9 / peak / share, FLOPS, id=f"2026080{at}-000000-000-a")
        for at, ((model, memory, peak), share) in enumerate(zip(gpus, shares, strict=True), 1)
    ]


MACHINES = ["aws:g5.xlarge", "aws:g6e.xlarge", "aws:p4de.24xlarge"]


def test_between_measured_machines_a_prediction_has_an_interval_and_its_error() -> None:
    made = where(*three((0.5, 0.4, 0.45)), machines=MACHINES)
    assert made.prediction is not None
    assert made.prediction.error is not None
    # Logarithms -0.6931, -0.9163, -0.7985; each against the mean of the others: 0.1643, 0.1705, 0.0062;
    # their mean 0.1137 is a factor of 1.1204, the largest one of 1.1859.
    assert made.prediction.error == pytest.approx(1.1204, abs=1e-3)
    assert made.prediction.worst == pytest.approx(1.1859, abs=1e-3)
    predicted = [row for row in made.elsewhere if row.kind == "predicted"]
    assert predicted
    for row in predicted:
        assert row.ci95 is not None
        assert row.usd_per_million is not None
        assert row.ci95[0] <= row.usd_per_million <= row.ci95[1]
        assert row.word == "estimate"
    names = {row.machine.name for row in predicted}
    assert not names & {*MACHINES}
    # Outside the measured peaks, or a CPU: bounds alone.
    assert all(
        row.kind == "bounded" for row in made.elsewhere if row.machine.accelerator in ("", "B200", "T4")
    )


def test_two_machines_predict_nothing() -> None:
    made = where(*three((0.5, 0.4, 0.45))[:2], machines=MACHINES[:2])
    assert made.prediction is not None
    assert "3 are needed" in made.prediction.why_not
    assert all(row.kind == "bounded" for row in made.elsewhere)


def test_measured_speeds_never_beat_the_bounds_of_their_own_machines() -> None:
    for made, name in itertools.zip_longest(three((1.0, 0.9, 0.1)), MACHINES):
        rows = where(made, machines=[name]).elsewhere
        rate = made.cases[0]
        seconds = rate.series[0].samples[0]
        same = [row for row in rows if row.machine.accelerator and row.machine.accelerators == 1]
        own = {"aws:g5.xlarge": "A10G", "aws:g6e.xlarge": "L40S", "aws:p4de.24xlarge": "A100-80GB"}[name]
        bounds = [row.rate for row in same if row.machine.accelerator == own and row.rate]
        assert all(1 / seconds <= bound * (1 + 1e-9) for bound in bounds)


# Cores.


def test_the_cheapest_number_of_cores_is_told_and_the_machine_is_sized_down() -> None:
    # 1 thread 10/s, 2 threads 19/s, 4 threads 30/s; 6 GiB peak: 1.2 x 6 + 1 = 8.2, so 9 GB.
    made = run(*(case(seconds, axes={"threads": n}) for n, seconds in ((1, 0.1), (2, 1 / 19), (4, 1 / 30))))
    rows = {row.threads: row for row in ask(made).cores}
    assert [round(rows[n].efficiency or 0, 3) for n in (1, 2, 4)] == [1.0, 0.95, 0.75]
    assert rows[2].machine == "oci:VM.Standard.E3.Flex:2:9"
    # 1 OCPU + 9 GB = 0.0385 -> 1.0694; 2: 0.0635 -> 0.9284; 4: 0.1135 -> 1.0509 USD per 1 M
    assert [round(rows[n].usd_per_million or 0, 4) for n in (1, 2, 4)] == [1.0694, 0.9284, 1.0509]
    assert [rows[n].cheapest for n in (1, 2, 4)] == [False, True, False]


def test_a_promise_may_need_more_cores_than_the_cheapest() -> None:
    made = run(*(case(seconds, axes={"threads": n}) for n, seconds in ((1, 0.1), (2, 1 / 19), (4, 1 / 30))))
    rows = {row.threads: row for row in ask(made, slo="40ms@p99").cores}
    assert [rows[n].holds for n in (1, 2, 4)] == [False, False, True]
    assert rows[4].cheapest


def test_threads_beyond_the_cores_share_them_and_rent_no_more() -> None:
    made = run(*(case(seconds, axes={"threads": n}) for n, seconds in ((16, 0.01), (32, 0.009))))
    rows = {row.threads: row for row in ask(made).cores}
    assert (rows[16].siblings, rows[32].siblings) == (False, True)
    assert rows[32].cores == rows[16].cores == 16
    assert rows[32].machine == rows[16].machine
