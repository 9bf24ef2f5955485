"""`laptime cost update`: documents in the shape in which the lists were recorded; offline it says so.

The documents under `tests/data/prices` have the heads, keys and traps of the public lists (free first tiers,
Windows and reserved rows, spot beside on demand, a second page), cut down to some rows, prices our own.
"""

from __future__ import annotations

import io
import urllib.error
from datetime import date
from pathlib import Path
from typing import IO
from urllib.parse import unquote

import pytest

from laptime.kit.errors import UsageError
from laptime.pricing import machine_table
from laptime.pricing.lists import aws, azure, oci
from laptime.pricing.lists._pages import pages
from laptime.pricing.location import find
from laptime.pricing.update import Fetched, update

DATA = Path(__file__).parents[2] / "data" / "prices"
TODAY = date(2026, 11, 22)


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


class Web:
    """Answers addresses with files; counts what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, url: str) -> IO[bytes]:
        self.asked.append(unquote(url))
        name = "oci_products.json"
        if "azure" in url:
            name = "azure_page2.json" if "skip" in url else "azure_page1.json"
            if "westus2" in url:
                name = "azure_page2.json"
        elif "amazonaws" in url:
            name = "aws_index.csv"
        return io.BytesIO((DATA / name).read_bytes())


def table() -> machine_table.Table:
    return machine_table.load(today=TODAY)


def test_oci_takes_the_last_tier_not_the_free_one() -> None:
    shapes = {
        each.shape: each for each in oci.parse((DATA / "oci_products.json").read_bytes(), table(), TODAY)
    }
    assert sorted(shapes) == ["VM.Standard.A1.Flex", "VM.Standard.E4.Flex"]  # E5's memory is not in the list
    arm, milan = shapes["VM.Standard.A1.Flex"], shapes["VM.Standard.E4.Flex"]
    assert (arm.usd_per_ocpu_hour, arm.usd_per_gb_hour) == (0.011, 0.0016)
    assert (arm.free_ocpu_hours, arm.free_gb_hours) == (3000, 18000)
    assert (milan.free_ocpu_hours, milan.free_gb_hours) == (0, 0)
    assert (milan.usd_per_ocpu_hour, milan.usd_per_gb_hour, milan.seen) == (0.026, 0.0015, "2026-11-22")


def test_azure_takes_linux_on_demand_and_spot_from_all_pages() -> None:
    items = pages("https://prices.azure.com/api/retail/prices?$filter=x", Web(), 5)
    rows = [row for row in table().machines if row.provider == "azure" and row.region == "eastus"]
    found = {each.shape: each for each in azure.parse(items, rows, TODAY)}
    assert sorted(found) == ["Standard_D16s_v6", "Standard_D32s_v6", "Standard_ND96isr_H100_v5"]
    assert (found["Standard_D32s_v6"].usd_per_hour, found["Standard_D32s_v6"].spot_usd_per_hour) == (
        1.7,
        0.31,
    )
    assert found["Standard_ND96isr_H100_v5"].usd_per_hour == 99.0
    assert found["Standard_D32s_v6"].reserved_usd_per_hour == pytest.approx(9000 / 8760)
    assert found["Standard_D16s_v6"].reserved_usd_per_hour is None
    assert found["Standard_D32s_v6"].cores == 16  # what the list does not tell stays


def test_aws_takes_linux_on_shared_hosts_on_demand_and_reserved_for_a_year() -> None:
    rows = [row for row in table().machines if row.provider == "aws"]
    with (DATA / "aws_index.csv").open(newline="") as lines:
        found = {
            each.shape: (each.usd_per_hour, each.reserved_usd_per_hour)
            for each in aws.parse(lines, rows, TODAY)
        }
    # Of a year and of three, nothing, a part and all at once, standard and convertible: one is the price.
    assert found == {"m5.8xlarge": (1.55, 0.976), "g5.xlarge": (1.006, None)}


def test_an_update_is_kept_and_comes_before_our_own_table() -> None:
    web = Web()
    results = {each.name: each for each in update(say=lambda text: None, open_url=web, today=TODAY)}
    assert all(each.is_new for each in results.values()), results
    assert find("aws:m5.8xlarge", table()).usd_per_hour == 1.55
    assert find("oci:VM.Standard.E4.Flex:16:32", table()).usd_per_hour == pytest.approx(0.464)
    assert find("oci:VM.Standard.E3.Flex:16:32", table()).usd_per_hour == pytest.approx(0.448)
    assert find("azure:Standard_D32s_v6@eastus", table()).origin == "updated"
    assert find("azure:Standard_D32s_v6@eastus", table()).reserved_usd_per_hour
    assert find("oci:VM.Standard.A1.Flex:4:24", table()).free_usd_per_month == pytest.approx(60.152)
    assert table().refused == []
    # A spot price above the one on demand is a fault of the list: the row is refused, and the old one stays.
    assert "1 row refused" in results["azure"].sentence or find("azure:Standard_D16s_v6", table()).origin
    assert any("armRegionName eq 'eastus'" in each for each in web.asked)


def test_only_the_named_list_is_asked() -> None:
    web = Web()
    assert [each.name for each in update(["oci"], lambda text: None, open_url=web, today=TODAY)] == ["oci"]
    assert len(web.asked) == 1
    with pytest.raises(UsageError, match="'ocl'"):
        update(["ocl"], open_url=web, today=TODAY)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            urllib.error.URLError("Name or service not known"),
            "could not be reached (Name or service not known)",
        ),
        (TimeoutError("timed out"), "could not be reached"),
        (b"<html>captive portal</html>", "sent what is not a price list"),
        (b'{"items": []}', "sent no price"),
        (b'{"items": [{"partNumber": "B93113"}]}', "sent"),
        (b"[1, 2]", "sent what is not a price list"),
        (b"\xff\xfe", "sent what is not a price list"),
    ],
)
def test_offline_or_nonsense_is_said_and_nothing_is_lost(answer: Exception | bytes, said: str) -> None:
    def open_url(url: str) -> IO[bytes]:
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)

    before = table()
    results: list[Fetched] = update(["oci"], lambda text: None, open_url=open_url, today=TODAY)
    assert said in results[0].sentence
    assert not results[0].is_new
    assert table() == before
    assert not machine_table.find_fetched().exists()


def test_a_list_cannot_lead_to_another_host() -> None:
    def open_url(url: str) -> IO[bytes]:
        return io.BytesIO(b'{"Items": [], "NextPageLink": "https://elsewhere.example/"}')

    with pytest.raises(ValueError, match="goes on"):
        pages("https://prices.azure.com/x", open_url, 3)


def test_pages_that_never_end_do() -> None:
    asked = []

    def open_url(url: str) -> IO[bytes]:
        asked.append(url)
        return io.BytesIO(b'{"Items": [], "NextPageLink": "https://prices.azure.com/x"}')

    assert pages("https://prices.azure.com/x", open_url, 7) == []
    assert len(asked) == 7


def test_a_damaged_cache_costs_its_damaged_rows_only() -> None:
    update(["oci"], lambda text: None, open_url=Web(), today=TODAY)
    file = machine_table.find_fetched() / machine_table.FLEX
    file.write_bytes(file.read_bytes() + b"oci,VM.Standard.E3.Flex,free\n\0\0\n")
    again = table()
    assert find("oci:VM.Standard.E4.Flex:16:32", again).usd_per_hour == pytest.approx(0.464)
    assert find("oci:VM.Standard.E3.Flex:16:32", again).usd_per_hour == pytest.approx(0.448)
    assert again.refused
