"""OCI's list of parts, one price for all commercial regions: OCPU-hours and GB-hours of the flexible shapes.

A part may have tiers, the first of them free for a tenancy: the price is that of the last tier, and as many
hours of a month are free as that one begins with.

Source: https://apexapps.oracle.com/pls/apex/cetools/api/v1/products/ (Oracle's price list API)."""

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import date
from typing import IO, Any

from msgspec import structs

from laptime.pricing.machine_table import Table
from laptime.records.cost import FlexShape, Machine

URL = "https://apexapps.oracle.com/pls/apex/cetools/api/v1/products/?currencyCode=USD"
_MODEL = "PAY_AS_YOU_GO"


def fetch(
    known: Table, open_url: Callable[[str], IO[bytes]], today: date
) -> tuple[list[Machine], list[FlexShape]]:
    """The flexible shapes with today's prices."""
    with closing(open_url(URL)) as answer:
        return [], parse(answer.read(), known, today)


def parse(data: bytes, known: Table, today: date) -> list[FlexShape]:
    """Shapes of the table whose two parts are in the list.
    Raises ValueError, KeyError: it is no such list."""
    prices = {str(item["partNumber"]): item for item in json.loads(data)["items"]}
    found = []
    for shape in known.flex:
        ocpu, memory = (_price(prices.get(part)) for part in (shape.ocpu_part, shape.memory_part))
        if shape.provider == "oci" and ocpu and memory:
            found.append(
                structs.replace(
                    shape,
                    usd_per_ocpu_hour=ocpu[0],
                    usd_per_gb_hour=memory[0],
                    free_ocpu_hours=ocpu[1],
                    free_gb_hours=memory[1],
                    seen=today.isoformat(),
                    source=f"OCI price list API, parts {shape.ocpu_part} and {shape.memory_part}",
                    origin="updated",
                )
            )
    return found


def _price(item: Mapping[str, Any] | None) -> tuple[float, float] | None:
    """USD of the last tier, and the free hours before it; None if there is none above zero."""
    if item is None:
        return None
    tiers = [
        price
        for each in item["currencyCodeLocalizations"]
        if each["currencyCode"] == "USD"
        for price in each["prices"]
        if price["model"] == _MODEL
    ]
    last = max(tiers, key=lambda tier: float(tier.get("rangeMin") or 0), default=None)
    if not last or not float(last["value"]):
        return None
    is_free = not any(float(tier["value"]) for tier in tiers if tier is not last)
    return float(last["value"]), float(last.get("rangeMin") or 0) * is_free
