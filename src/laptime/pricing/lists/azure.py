"""Azure's retail prices: Linux on demand, spot and reserved for a year, of the shapes that the table knows.

Source: https://learn.microsoft.com/en-us/rest/api/cost-management/retail-prices/azure-retail-prices"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import IO, Any
from urllib.parse import quote

from laptime.pricing.lists._pages import by_region, pages, price_all
from laptime.pricing.machine_table import Table
from laptime.records.cost import FlexShape, Machine

URL = "https://prices.azure.com/api/retail/prices?$filter="
_MOST_PAGES = 200
_YEAR = 8760.0  # hours; the price of a reservation is that of its term
_OTHERS = ("windows", "low priority", "dedicated")


def fetch(
    known: Table, open_url: Callable[[str], IO[bytes]], today: date
) -> tuple[list[Machine], list[FlexShape]]:
    """The table's machines of Azure with today's prices, region by region."""

    def price(region: str, rows: Sequence[Machine]) -> list[Machine]:
        wanted = (
            "serviceName eq 'Virtual Machines' and (priceType eq 'Consumption' or priceType eq "
            f"'Reservation') and armRegionName eq '{region}'"
        )
        return parse(pages(URL + quote(wanted), open_url, _MOST_PAGES), rows, today)

    return by_region(known, "azure", price), []


def parse(items: Iterable[Mapping[str, Any]], rows: Iterable[Machine], today: date) -> list[Machine]:
    """Machines whose price is in the list; the highest, if a shape has two on demand.
    Raises KeyError, ValueError: an item is none of such a list."""
    by_shape = {row.shape.lower(): row for row in rows}
    on_demand: dict[str, float] = {}
    spot: dict[str, float] = {}
    reserved: dict[str, float] = {}
    for item in items:
        words = f"{item['productName']} {item['skuName']} {item['meterName']}".lower()
        shape, price = str(item["armSkuName"]).lower(), float(item["retailPrice"])
        if shape not in by_shape or price <= 0 or any(word in words for word in _OTHERS):
            continue
        if item["type"] == "Reservation" and item.get("reservationTerm") == "1 Year":
            reserved[shape] = max(price / _YEAR, reserved.get(shape, 0.0))
        if item["unitOfMeasure"] != "1 Hour" or item["type"] != "Consumption":
            continue
        prices = spot if "spot" in words else on_demand
        prices[shape] = max(price, prices.get(shape, 0.0))
    return price_all(by_shape, today, "Azure retail prices API", on_demand, reserved, spot)
