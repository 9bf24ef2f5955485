"""AWS's list of EC2 prices of a region: a file of hundreds of megabytes, read line by line and kept nowhere.

Taken are rows on demand, of Linux without software, on shared hosts, in use: the price of an hour.

Source: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/price-changes.html (bulk price lists).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import date
from typing import IO

from msgspec import structs

from laptime.pricing.machine_table import Table
from laptime.records.cost import FlexShape, Machine

URL = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv"
_WANTED = {
    "TermType": "OnDemand",
    "Unit": "Hrs",
    "Currency": "USD",
    "Operating System": "Linux",
    "Tenancy": "Shared",
    "CapacityStatus": "Used",
    "Pre Installed S/W": "NA",
}
_HEAD = "SKU"


def fetch(
    known: Table, open_url: Callable[[str], IO[bytes]], today: date
) -> tuple[list[Machine], list[FlexShape]]:
    """The table's machines of AWS with today's prices, region by region."""
    rows = [row for row in known.machines if row.provider == "aws"]
    found: list[Machine] = []
    for region in sorted({row.region for row in rows}):
        with closing(open_url(URL.format(region=region))) as answer:
            lines = io.TextIOWrapper(answer, encoding="utf-8", newline="")
            found += parse(lines, [row for row in rows if row.region == region], today)
    return found, []


def parse(lines: Iterable[str], rows: Iterable[Machine], today: date) -> list[Machine]:
    """Machines whose price is in the list. Raises ValueError: it has no head of such a list."""
    by_shape = {row.shape: row for row in rows}
    found: dict[str, Machine] = {}
    for row in _rows(lines):
        shape = row.get("Instance Type") or ""
        if shape not in by_shape or any(
            row.get(name) not in (value, None) for name, value in _WANTED.items()
        ):
            continue
        price = float(row["PricePerUnit"])
        if price > 0:
            # The list has no spot price; one from another day belongs to another price on demand.
            found[shape] = structs.replace(
                by_shape[shape],
                usd_per_hour=price,
                spot_usd_per_hour=None,
                seen=today.isoformat(),
                spot_seen="",
                source="AWS bulk price list",
                origin="updated",
            )
    return list(found.values())


def _rows(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Rows by the names of their columns; the lines before the head are about the list itself."""
    reader = csv.reader(iter(lines))
    head = next((cells for cells in reader if cells[:1] == [_HEAD]), None)
    if head is None:
        raise ValueError("it has no line that begins with SKU")
    for cells in reader:
        yield dict(zip(head, cells, strict=False))
