"""The table of machines: our own file is whole, damaged files cost their damaged rows only."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from laptime.kit.errors import UsageError
from laptime.pricing import formulas, machine_table
from laptime.pricing.location import find
from laptime.records.cost import Machine

TODAY = date(2026, 11, 22)
HEAD = ",".join(machine_table.COLUMNS)


def read(*rows: str, head: str = HEAD) -> tuple[list[Machine], dict[int, str]]:
    data = "\n".join([head, *rows]).encode()
    machines, refused = machine_table.read_machines(data, today=TODAY)
    return machines, {each.line: each.reason for each in refused}


def row(**values: object) -> str:
    cells = {
        "provider": "aws",
        "region": "us-east-1",
        "shape": "x1.large",
        "usd_per_hour": 1.5,
        "seen": "2026-11-01",
        "source": "by hand",
        **values,
    }
    return ",".join(str(cells.get(column, "")) for column in machine_table.COLUMNS)


@pytest.fixture(autouse=True)
def _nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def test_no_row_of_our_own_file_is_refused_and_each_has_a_source_and_a_date() -> None:
    table = machine_table.load(today=TODAY)
    assert table.refused == []
    assert len(table.machines) > 1000
    assert {"aws", "azure", "gcp", "oci"} <= {each.provider for each in table.machines}
    rows: list[Any] = [*table.machines, *table.flex]
    assert all(each.source and formulas.first_day(each.seen) for each in rows)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"usd_per_hour": "-1"}, "a price of -1 USD/h is impossible"),
        ({"usd_per_hour": "0"}, "a price of 0 USD/h is impossible"),
        ({"usd_per_hour": "nan"}, "is impossible"),
        ({"usd_per_hour": "cheap"}, "its usd_per_hour 'cheap' is not a number"),
        ({"usd_per_hour": ""}, "it lacks usd_per_hour"),
        ({"shape": ""}, "it lacks shape"),
        ({"seen": ""}, "it lacks seen"),
        ({"seen": "last week"}, "is not a date"),
        ({"seen": "2027-01-01"}, "seen in the future"),
        ({"spot_usd_per_hour": "2"}, "its spot price 2 is above the one on demand, 1.5"),
        ({"spot_usd_per_hour": "-2"}, "a spot price of -2"),
        ({"vcpus": "2", "cores": "4"}, "4 cores in 2 vCPUs"),
        ({"vcpus": "-2"}, "-2 vcpus are impossible"),
        (
            {"accelerator": "H100-SXM", "accelerators": 8, "accelerator_memory_gib": 640, "usd_per_hour": 40},
            "640 GiB is not the memory of one H100-SXM, 80 is",
        ),
        ({"accelerator": "H100-SXM", "accelerators": 8, "usd_per_hour": 0.3}, "is not the price of one"),
        ({"accelerators": 2}, "accelerators without a name"),
        ({"accelerator": "H100SXM", "accelerators": 1}, "H100-SXM is"),
    ],
)
def test_a_bad_row_is_refused_with_its_reason_and_its_neighbours_stay(
    bad: dict[str, object], reason: str
) -> None:
    machines, refused = read(row(shape="before"), row(**{"shape": "bad", **bad}), row(shape="after"))
    assert [each.shape for each in machines] == ["before", "after"]
    assert list(refused) == [3]
    assert reason in refused[3]


def test_a_row_that_comes_again_is_refused() -> None:
    machines, refused = read(row(), row(usd_per_hour=1.0), row(region="us-east-2"))
    assert [(each.region, each.usd_per_hour) for each in machines] == [("us-east-1", 1.5), ("us-east-2", 1.5)]
    assert {line: "twice" in why for line, why in refused.items()} == {3: True}


def test_a_damaged_file_costs_its_damaged_rows_only() -> None:
    good, cut = row(shape="good"), row(shape="cut")[:12]
    data = b"\n".join([HEAD.encode(), good.encode(), b"aws,\xff\xfe\0,x,\0", b"", b"# a note", cut.encode()])
    machines, refused = machine_table.read_machines(data, today=TODAY)
    assert [each.shape for each in machines] == ["good"]
    assert len(refused) == 2


def test_a_file_without_its_head_says_so() -> None:
    machines, refused = read(row(), head="a,b,c")
    assert machines == []
    assert {line: "usd_per_hour, seen" in why for line, why in refused.items()} == {1: True}


def test_half_an_accelerator_has_half_its_memory() -> None:
    machines, refused = read(
        row(accelerator="A10", accelerators=0.5, accelerator_memory_gib=12, usd_per_hour=1.6)
    )
    assert refused == {}
    assert machines[0].accelerators == 0.5


def test_a_contract_replaces_the_list_price_in_every_region(tmp_path: Path) -> None:
    Path("machines.local.csv").write_text("provider,shape,usd_per_hour,seen\nAWS,m5.8xlarge,0.9,2026-11\n")
    machine = find("aws:m5.8xlarge", machine_table.load(today=TODAY))
    assert (machine.usd_per_hour, machine.origin) == (0.9, "local")


@pytest.mark.parametrize(
    ("typed", "usd"),
    [
        ("oci:VM.Standard.E3.Flex:16:32", 0.448),
        ("oci:vm.standard.e3.flex:16:256", 0.784),
        ("oci:VM.Standard.E6.Flex:16:32", 0.544),
        ("aws:m5.8xlarge", 1.536),
        ("aws:G5.xlarge", 1.006),
    ],
)
def test_machines_are_found_by_their_names_at_their_price(typed: str, usd: float) -> None:
    assert find(typed, machine_table.load(today=TODAY)).usd_per_hour == pytest.approx(usd, abs=1e-9)


def test_ocpu_vcpu_and_core_are_told_apart() -> None:
    table = machine_table.load(today=TODAY)
    sizes = {
        name: (found.ocpus, found.vcpus, found.cores)
        for name in ("VM.Standard.E3.Flex", "VM.Standard.A1.Flex", "VM.Standard.A2.Flex")
        for found in [find(f"oci:{name}:4:16", table)]
    }
    assert sizes == {
        "VM.Standard.E3.Flex": (4, 8, 4),
        "VM.Standard.A1.Flex": (4, 4, 4),
        "VM.Standard.A2.Flex": (4, 8, 8),
    }
    assert find("aws:m5.8xlarge", table).cores == 16
    assert find("aws:c8a.4xlarge", table).cores == 16  # SMT off: 16 vCPUs are 16 cores


@pytest.mark.parametrize(
    ("typed", "what", "hint"),
    [
        ("aws:m5.8xlrge", "no machine is called", "aws:m5.8xlarge"),
        ("m5.8xlarge", "no machine is called", "aws:m5.8xlarge"),
        ("gcp:g2-standard-4@mars", "no price of gcp:g2-standard-4 in 'mars'", "us-"),
        ("oci:VM.Standard.E3.Flex", "is rented by OCPU and GB", "16:32"),
        ("oci:VM.Standard.E3.Flex:16", "is rented by OCPU and GB", "16:32"),
        ("oci:VM.Standard.E3.Flex:16:8", "is not sold with", "16 to 1024 GB"),
        ("oci:VM.Standard.E3.Flex:500:1000", "is not sold with", "1 to 114"),
        ("\x1b[31m" * 50, "no machine is called", "--usd-per-hour"),
    ],
)
def test_an_unknown_machine_is_an_error_with_the_nearest_names(typed: str, what: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        find(typed, machine_table.load(today=TODAY))
    assert what in caught.value.what
    assert hint in caught.value.why + caught.value.next


@pytest.mark.parametrize(
    ("provider", "seen", "warns"),
    [
        ("aws", "2026-05-27", False),  # 179 days
        ("aws", "2026-05-25", True),  # 181 days
        ("lambda", "2026-10-23", False),  # 30 days
        ("lambda", "2026-10-22", True),  # 31 days
        ("oci", "2026", True),  # may be as old as the first of January
    ],
)
def test_a_price_warns_by_its_own_age(provider: str, seen: str, warns: bool) -> None:
    machine = Machine(provider=provider, shape="x", usd_per_hour=1.0, seen=seen)
    assert bool(formulas.age_warning(machine, TODAY)) is warns


def test_what_is_written_can_be_read_again() -> None:
    table = machine_table.load(today=TODAY)
    data = machine_table.encode_rows(table.machines, machine_table.COLUMNS)
    again, refused = machine_table.read_machines(data, today=TODAY)
    assert (again, refused) == (table.machines, [])
    shapes, faults = machine_table.read_flex(
        machine_table.encode_rows(table.flex, machine_table.FLEX_COLUMNS)
    )
    assert (shapes, faults) == (table.flex, [])


def local(tmp_path: Path, *rows: str) -> machine_table.Table:
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["provider,shape,usd_per_hour,seen", *rows]) + "\n")
    return machine_table.load(today=TODAY, local=path)


def test_a_contract_for_a_size_of_a_flexible_shape_is_its_price_and_no_other_size_s(tmp_path: Path) -> None:
    table = local(tmp_path, "oci,VM.Standard.E3.Flex:16.0:32,0.30,2026-11-01")
    machine = find("oci:vm.standard.e3.flex:16:32", table)
    assert (machine.usd_per_hour, machine.origin, machine.ocpus, machine.cpu) == (0.3, "local", 16, ["Zen 2"])
    assert find("oci:VM.Standard.E3.Flex:16:64", table).usd_per_hour == pytest.approx(0.496)


@pytest.mark.parametrize("sizes", ["", ":16", ":16:8", ":a:b", ":nan:32"])
def test_a_contract_without_sizes_that_are_sold_is_refused(tmp_path: Path, sizes: str) -> None:
    table = local(tmp_path, f"oci,VM.Standard.E3.Flex{sizes},0.20,2026-11-01", "mine,a,1,2026-11-01")
    (refused,) = table.refused
    assert "name both" in refused.reason or "16 to 1024 GB" in refused.reason
    assert find("mine:a", table).usd_per_hour == 1
    assert find("oci:VM.Standard.E3.Flex:16:32", table).usd_per_hour == pytest.approx(0.448)  # the list's


def test_a_contract_keeps_what_the_table_knows_of_the_machine_but_no_price(tmp_path: Path) -> None:
    machine = find("aws:g5.xlarge", local(tmp_path, "aws,g5.xlarge,0.50,2026-11-01"))
    assert (machine.vcpus, machine.accelerator, machine.memory) == (4, "A10G", 16)
    assert (machine.usd_per_hour, machine.spot_usd_per_hour, machine.source) == (0.5, None, "")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"provider;shape;usd_per_hour;seen\nmine;good;1,00;2026-11-01\n", "semicolons"),
        ("provider,shape,usd_per_hour,seen\nmine,good,1,2026-11-01\n".encode("utf-16"), "UTF-16"),
        ("provider,shape,usd_per_hour,seen\nmine,good,1,2026-11-01\n".encode("utf-16-be"), "UTF-16"),
        ("provider,shape,usd_per_hour,seen\nmine,good,1,2026-11-01\n".encode("utf-32"), "UTF-32"),
        (b"sep=;\nprovider;shape;usd_per_hour;seen\nmine;good;1,00;2026-11-01\n", "semicolons"),
        (b"provider\tshape\tusd_per_hour\tseen\nmine\tgood\t1\t2026-11-01\n", "tabs"),
        (b"PK\x03\x04\x14\x00", "workbook"),
        (b"\x1f\x8b\x08\x00", "packed"),
        (b"", "it is empty"),
        (b"\n\n", "it is empty"),
        (b"mine,good,1.00,2026-11-01\n", "its head lacks provider"),
        (b'provider,shape,usd_per_hour,seen\nmine,good,"1,2026-11-01\n', "a quote is not closed"),
        (b"provider,shape,usd_per_hour,seen\nmine,good,1,2026\n", "'2026' is not a date"),
        (b"provider,shape,usd_per_hour,seen,vcpus\nmine,good,588,2026-11-01,32\n", "for one vCPU"),
    ],
)
def test_what_was_left_out_is_said_where_its_machine_is_not_found(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    path = tmp_path / "own.csv"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        find("mine:good", machine_table.load(today=TODAY, local=path))
    assert reason in caught.value.why
    assert "own.csv, line " in caught.value.why
    assert "that line" in caught.value.next, "--usd-per-hour beside --machine fails as well"


@pytest.mark.parametrize("before", ["# our prices\n\n", "sep=,\n", "\r\n"])
def test_what_stands_before_the_head_and_capitals_in_it_cost_nothing(tmp_path: Path, before: str) -> None:
    path = tmp_path / "own.csv"
    path.write_text(
        f"{before}Provider,Shape,USD_per_hour,Seen\nmine,good,1.00,2026-11-01\nmine,bad,x,2026-11-01\n"
    )
    table = machine_table.load(today=TODAY, local=path)
    assert find("mine:good", table).usd_per_hour == 1.0
    assert [each.line for each in table.refused] == [2 + len(before.splitlines()) + 1]


def test_the_name_of_a_damaged_row_is_cut(tmp_path: Path) -> None:
    (refused,) = local(tmp_path, "x" * 4000).refused
    assert len(refused.name) == 80


def test_an_open_quote_costs_its_own_row_only(tmp_path: Path) -> None:
    table = local(tmp_path, 'mine,bad,"2,2026-11-01', "mine,good,1.00,2026-11-01")
    assert find("mine:good", table).usd_per_hour == 1.0
    assert [each.line for each in table.refused] == [2]


def test_an_estimate_of_a_spot_price_has_its_own_day() -> None:
    machine = find("aws:c5.large", machine_table.load(today=TODAY))
    assert (machine.seen, machine.spot_seen) == ("2026-07-20", "2025-06")
