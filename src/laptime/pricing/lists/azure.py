"""Azure's retail prices: Linux on demand and spot, of the shapes and regions that the table knows.

Source: https://learn.microsoft.com/en-us/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import IO, Any
from urllib.parse import quote

from msgspec import structs

from laptime.pricing.lists._pages import pages
from laptime.pricing.machine_table import Table
from laptime.records.cost import FlexShape, Machine

URL = "https://prices.azure.com/api/retail/prices?$filter="
_MOST_PAGES = 100
_OTHERS = ("windows", "low priority", "dedicated")


def fetch(
    known: Table, open_url: Callable[[str], IO[bytes]], today: date
) -> tuple[list[Machine], list[FlexShape]]:
    """The table's machines of Azure with today's prices, region by region."""
    rows = [row for row in known.machines if row.provider == "azure"]
    found: list[Machine] = []
    for region in sorted({row.region for row in rows}):
        wanted = (
            "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' "
            f"and armRegionName eq '{region}'"
        )
        items = pages(URL + quote(wanted), open_url, _MOST_PAGES)
        found += parse(items, [row for row in rows if row.region == region], today)
    return found, []


def parse(items: Iterable[Mapping[str, Any]], rows: Iterable[Machine], today: date) -> list[Machine]:
    """Machines whose price is in the list; the highest, where a shape has two on demand.
    Raises KeyError, ValueError: an item is none of such a list.
    """
    by_shape = {row.shape.lower(): row for row in rows}
    on_demand: dict[str, float] = {}
    spot: dict[str, float] = {}
    for item in items:
        words = f"{item['productName']} {item['skuName']} {item['meterName']}".lower()
        shape, price = str(item["armSkuName"]).lower(), float(item["retailPrice"])
        is_hourly = item["unitOfMeasure"] == "1 Hour" and item["type"] == "Consumption"
        if shape not in by_shape or not is_hourly or price <= 0 or any(word in words for word in _OTHERS):
            continue
        prices = spot if "spot" in words else on_demand
        prices[shape] = max(price, prices.get(shape, 0.0))
    return [
        structs.replace(
            by_shape[shape],
            usd_per_hour=price,
            spot_usd_per_hour=spot.get(shape),
            seen=today.isoformat(),
            spot_seen="",
            source="Azure retail prices API",
            origin="updated",
        )
        for shape, price in on_demand.items()
    ]
