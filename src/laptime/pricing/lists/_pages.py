"""Lists in JSON that come page by page; a provider's machines region by region, at the prices of a list."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import date
from typing import IO, Any

from msgspec import structs

from laptime.pricing.machine_table import Table
from laptime.records.cost import Machine


def pages(url: str, open_url: Callable[[str], IO[bytes]], most: int) -> list[dict[str, Any]]:
    """The items of all pages, each of which tells the next at `NextPageLink`; at most so many.
    Raises ValueError, KeyError: a page is none; a list leads to another host."""
    host = url.split("/")[2].partition(":")[0]
    items: list[dict[str, Any]] = []
    for _ in range(most):
        with closing(open_url(url)) as answer:
            document = json.loads(answer.read())
        items += document["Items"]
        url = document.get("NextPageLink") or ""
        if not url:
            break
        if not url.startswith("https://") or url.split("/")[2].partition(":")[0] != host:
            raise ValueError(f"it goes on at {url[:80]!r}")
    return items


def by_region(
    known: Table, provider: str, price: Callable[[str, Sequence[Machine]], list[Machine]]
) -> list[Machine]:
    """The provider's machines of the table at prices that `price` finds, one region after the other."""
    rows = [row for row in known.machines if row.provider == provider]
    regions = sorted({row.region for row in rows})
    return [
        each for region in regions for each in price(region, [row for row in rows if row.region == region])
    ]


def price_all(
    known: Mapping[str, Machine],
    today: date,
    source: str,
    on_demand: Mapping[str, float],
    reserved: Mapping[str, float],
    spot: Mapping[str, float] = {},
) -> list[Machine]:
    """Machines at today's prices by shape; those of another day belong to another price on demand, and go."""
    return [
        structs.replace(
            known[shape],
            usd_per_hour=price,
            spot_usd_per_hour=spot.get(shape),
            reserved_usd_per_hour=reserved.get(shape),
            seen=today.isoformat(),
            spot_seen="",
            source=source,
            origin="updated",
        )
        for shape, price in on_demand.items()
    ]
