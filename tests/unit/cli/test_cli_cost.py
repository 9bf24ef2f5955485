"""cost from the command line."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import costs, runs
from fixtures.costs import OCI, case, run
from laptime.pricing import update as lists
from laptime.pricing.update import Fetched
from laptime.records.check import Check
from laptime.store import files

Laptime = Callable[..., Any]
FAIL = [Check(name="synced", outcome="fail", sentence="faster than the hardware", next="sync")]


@pytest.fixture(autouse=True)
def _stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "cache"))
    flops = {"float32": 20e9}
    files.save(run(case(0.050, flops=flops), id="20260801-000001-000-a", name="before"))
    batches = (case(0.025 * size, axes={"batch": size}, flops=flops, spread=0.01) for size in (1, 4, 16))
    files.save(run(*batches, id="20260801-000002-000-a", name="after"))
    files.save(run(case(0.025, checks=FAIL), id="20260701-000003-000-a", name="broken"))
    unheld = costs.at_slo(0.0, "latency=200ms@p99")
    files.save(run(unheld, id="20260701-000009-000-a", name="unheld", verb="load"))


def test_the_answer_stands_first(laptime: Laptime) -> None:
    assert laptime("cost", "before", "--machine", OCI).out.startswith("6.22 USD")
    ended = laptime("cost", "before", "--machine", OCI, "--details")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "cost before"
    assert lines[1].startswith("6.22 USD")
    assert "per 1 M calls" in ended.out
    assert "16 OCPUs = 32 vCPUs = 16 cores with 2 threads each" in ended.out
    assert "327.04 USD for a month of 730 h" in ended.out
    assert "seen 2026-01-28" in ended.out


MINE = """provider,region,shape,usd_per_hour,spot_usd_per_hour,reserved_usd_per_hour,seen
mine,north,box,2,0.8,1.2,2026-11-01
mine,south,box,1.5,0.8,1.2,2026-11-01
"""


@pytest.mark.parametrize(
    "options",
    [
        "--machine aws:c5a.8xlarge --spot",
        "--machine mine:box --prices mine.csv --reserved",
        "--machine mine:box@north --prices mine.csv",
        f"--machine {OCI} --slo latency=60ms@p99",
        "--machine aws:c5a.8xlarge --usd-per-hour 1.23456789",
        "--usd-per-hour 0.8 --prices mine.csv --slo latency=70ms@p95",
    ],
)
def test_the_next_line_gives_the_same_price(laptime: Laptime, options: str) -> None:
    Path("mine.csv").write_text(MINE)
    out = laptime("cost", "before", *options.split()).out
    line = next(each for each in out.splitlines() if each.startswith("next"))
    assert laptime(*line.split("#")[0].split()[2:]).out.split()[:2] == out.split()[:2]


def test_what_a_part_of_a_card_costs_is_not_halved_again(laptime: Laptime) -> None:
    part = costs.on_gpu("NVIDIA H100 80GB HBM3 MIG 3g.40gb", int(39.5 * 2**30), 0.001)
    files.save(structs.replace(part, id="20260801-000005-000-a", name="part"))
    out = laptime("cost", "part", "--machine", "aws:p5.4xlarge", "--usd-per-hour", "8").out
    assert "at 4.00 USD/h" in out
    line = next(each for each in out.splitlines() if each.startswith("next"))
    assert "--usd-per-hour 8" in line
    assert "at 4.00 USD/h" in laptime(*line.split()[2:]).out


def test_no_bound_is_advised_where_none_is_known(laptime: Laptime) -> None:
    load = run(costs.level(50, 0.02), verb="load", id="20260801-000006-000-a", name="load")
    files.save(load)
    out = laptime("cost", "load", "--usd-per-hour", "4", "--slo", "latency=40ms@p99").out
    assert out.startswith("22.22 USD")
    assert "--where" not in out


def test_an_account_whose_free_hours_are_all_of_a_bill_pays_nothing(laptime: Laptime) -> None:
    Path("mine.csv").write_text(
        "provider,shape,usd_per_hour,free_usd_per_month,seen\nmine,a,0.05,36.5,2026-11-01\n"
    )
    out = laptime("cost", "before", "--machine", "mine:a", "--prices", "mine.csv").out
    assert "; 0.00 USD after the free hours of an account" in " ".join(out.split())
    assert (
        ",  ·"
        not in laptime("cost", "before", "--machine", "mine:a", "--prices", "mine.csv", "--details").out
    )


def test_two_prices_are_refused_with_a_line_that_runs(laptime: Laptime) -> None:
    refused = laptime("cost", "last", "--spot", "--usd-per-hour", "2")
    assert refused.code == 2
    line = next(each for each in refused.err.splitlines() if each.startswith("next"))
    assert laptime(*line.split()[2:]).code == 0


def test_every_format_says_the_same(laptime: Laptime) -> None:
    ended = laptime(
        "cost",
        "after",
        "--machine",
        OCI,
        "--where",
        "-o",
        "c.html",
        "-o",
        "c.md",
        "-o",
        "c.json",
        "-o",
        "c.csv",
    )
    assert ended.code == 0, ended.err
    page = Path("c.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<svg" in page
    assert len(page) < 500_000
    document = json.loads(Path("c.json").read_text())
    assert json.loads(laptime("cost", "after", "--machine", OCI, "--where", "--json").out) == document
    assert document["schema"] == "laptime.cost/1"
    assert {row["kind"] for row in document["elsewhere"]} == {"bounded"}
    assert {line["kind"] for line in document["lines"]} == {"measured"}
    cheapest = min(document["lines"], key=lambda line: line["usd_per_million"])
    assert f"{cheapest['usd_per_million']:.2f}"[:3] in ended.out
    assert "usd" in Path("c.csv").read_text().lower()


def test_an_interval_that_is_open_to_one_side_breaks_no_report(laptime: Laptime) -> None:
    wild = runs.case(costs.exact(0.05, n=12, spread=2.0), axes={"batch": 1})
    files.save(run(wild, id="20260801-000004-000-a", name="wild"))
    ended = laptime(
        "cost", "wild", "--machine", OCI, "-o", "w.html", "-o", "w.json", "-o", "w.md", "-o", "w.csv"
    )
    assert ended.code == 0, ended.err
    (line,) = json.loads(Path("w.json").read_text())["lines"]
    assert line["speed"]["ci95"][1] is None
    assert line["ci95"][0] == 0.0


def test_two_runs_are_before_and_after(laptime: Laptime) -> None:
    ended = laptime("cost", "before", "after", "--usd-per-hour", "4", "--rate", "70")
    assert ended.code == 0
    assert "2.00x cheaper" in ended.out or "x cheaper" in ended.out
    assert "measured apart" in ended.out


def test_a_bill_at_a_rate_and_of_a_training(laptime: Laptime) -> None:
    ended = laptime("cost", "before", "--machine", OCI, "--rate", "50", "--samples", "1.28M", "--epochs", "2")
    # 20/s: 50/s need three machines: 981.12 USD, used to 83 %; 1.28 M at 20/s are 64,000 s: 7.96 USD an epoch
    assert "981.12 USD at 50 calls/s: 3 machines, used to 83 %" in ended.out
    assert "7.96 USD for 1,280,000 calls" in ended.out
    assert "15.93 USD" in ended.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["broken", "--usd-per-hour", "4"], 3, "are invalid"),
        (["before"], 2, "no price is known"),
        (["before", "--machine", "aws:m5.8xlrage"], 2, "aws:m5.8xlarge"),
        (["before", "--machine", OCI, "--slo", "1ms"], 3, "keep latency=1ms@p99"),
        (["broken", "--machine", OCI, "--slo", "1ms"], 3, "are invalid"),
        (["unheld", "--machine", OCI], 3, "no case of run 20260701-000009-000-a is shown to keep"),
        (["nothing-like-it"], 2, "no run matches"),
        (["before", "--usd-per-hour", "-1"], 2, "impossible"),
        (["before", "--usd-per-hour", "1", "--utilization", "150%"], 2, "--utilization"),
        (["before", "--usd-per-hour", "1", "--samples", "many"], 2, "--samples"),
        (
            ["before", "--usd-per-hour", "1", "-o", "c.xml"],
            2,
            "laptime cost has none",
        ),
        (["update", "mars"], 2, "no price list is called 'mars'"),
    ],
)
def test_bad_input_is_an_error_in_three_lines(
    laptime: Laptime, words: list[str], code: int, said: str
) -> None:
    ended = laptime("cost", *words)
    assert ended.code == code
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert next(line.partition(":")[0] for line in ended.err.splitlines() if ":" in line) == "error"


def test_a_damaged_price_file_costs_a_warning(laptime: Laptime) -> None:
    Path("machines.local.csv").write_bytes(
        b"provider,shape,usd_per_hour,seen\nmine,box,2.5,2026-11-01\nmine,free,-1,2026-11-01\n\xff\xfe\n"
    )
    ended = laptime("cost", "before", "--machine", "mine:box")
    assert ended.code == 0
    assert (
        "machines.local.csv, line 3 (mine:free) was left out: a price of -1 USD/h is impossible"
        in " ".join(ended.out.split())
    )


def test_offline_an_update_says_so(laptime: Laptime, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(url: str) -> Any:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(urllib.request, "urlopen", lambda request, timeout: offline(request))
    ended = laptime("cost", "update", "oci")
    assert ended.code == 3
    assert "unreachable)" in ended.out


def test_what_was_updated_is_told(laptime: Laptime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "update", lambda names, say: [Fetched("oci", "9 flexible shapes", True)])
    ended = laptime("cost", "update")
    assert (ended.code, ended.out.strip()) == (0, "oci     9 flexible shapes")


def test_names_of_strangers_stay_text(laptime: Laptime) -> None:
    hostile = "<script>alert(1)</script>\x1b[31m"
    Path("machines.local.csv").write_text(
        f"provider,shape,usd_per_hour,seen,source\nme,{hostile},1,2026-11-01,{hostile}\n"
    )
    files.save(run(case(0.05), id="20260801-000009-000-a", name=hostile))
    ended = laptime("cost", "20260801-000009-000-a", "--machine", f"me:{hostile}", "-o", "c.html")
    assert ended.code == 0, ended.err
    assert "\x1b[31m" not in ended.out
    assert "<script>alert" not in Path("c.html").read_text()


def test_a_load_run_costs_at_its_promise(laptime: Laptime) -> None:
    files.save(run(costs.at_slo(26.9, "latency=200ms@p99"), id="20260801-000008-000-a", verb="load"))
    ended = laptime("cost", "20260801-000008-000-a", "--machine", OCI)
    assert ended.code == 0
    assert "at latency=200ms@p99" in ended.out
    assert "1 M requests" in ended.out
