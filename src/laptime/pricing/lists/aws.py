"""AWS's list of EC2 prices of a region: a file of hundreds of megabytes, read line by line and kept nowhere.

Taken are rows of Linux without software, on shared hosts, in use: the price of an hour on demand, and
reserved for a year with nothing paid at once.

Source: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-changes.html (bulk price lists)."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import date
from typing import IO

from laptime.pricing.lists._pages import by_region, price_all
from laptime.pricing.machine_table import Table
from laptime.records.cost import FlexShape, Machine

URL = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv"
_WANTED = {
    "Unit": "Hrs",
    "Currency": "USD",
    "Operating System": "Linux",
    "Tenancy": "Shared",
    "CapacityStatus": "Used",
    "Pre Installed S/W": "NA",
}
_RESERVED = {"LeaseContractLength": "1yr", "PurchaseOption": "No Upfront", "OfferingClass": "standard"}


def fetch(
    known: Table, open_url: Callable[[str], IO[bytes]], today: date
) -> tuple[list[Machine], list[FlexShape]]:
    """The table's machines of AWS with today's prices, region by region."""

    def price(region: str, rows: Sequence[Machine]) -> list[Machine]:
        with closing(open_url(URL.format(region=region))) as answer:
            return parse(io.TextIOWrapper(answer, encoding="utf-8", newline=""), rows, today)

    return by_region(known, "aws", price), []


def parse(lines: Iterable[str], rows: Iterable[Machine], today: date) -> list[Machine]:
    """Machines whose price is in the list. Raises ValueError: it has no head of such a list."""
    by_shape = {row.shape: row for row in rows}
    on_demand: dict[str, float] = {}
    reserved: dict[str, float] = {}
    for row in _rows(lines):
        shape = row.get("Instance Type") or ""
        if shape not in by_shape or any(
            row.get(name) not in (value, None) for name, value in _WANTED.items()
        ):
            continue
        if (price := float(row["PricePerUnit"])) <= 0:
            continue
        if row["TermType"] == "OnDemand":
            on_demand[shape] = price
        elif all(row.get(name) == value for name, value in _RESERVED.items()):
            reserved[shape] = price
    return price_all(by_shape, today, "AWS bulk price list", on_demand, reserved)


def _rows(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Rows by the names of their columns; the lines before the head are about the list itself."""
    reader = csv.reader(iter(lines))
    head = next((cells for cells in reader if cells[:1] == ["SKU"]), None)
    if head is None:
        raise ValueError("it has no line that begins with SKU")
    for cells in reader:
        yield dict(zip(head, cells, strict=False))
