"""`laptime cost update`: public price lists that need no key, fetched, checked and kept on this machine."""

import urllib.request
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from http.client import HTTPException
from importlib import import_module
from pkgutil import iter_modules
from typing import IO, NamedTuple

from laptime.kit.errors import unknown
from laptime.kit.text import count
from laptime.pricing import lists, machine_table
from laptime.pricing.machine_table import Table, reason
from laptime.records.cost import FlexShape, Machine
from laptime.store.folder import write_whole

LISTS = tuple(module.name for module in iter_modules(lists.__path__) if not module.name.startswith("_"))
"""Names of the lists: files of `pricing/lists`, each with `fetch(known, open_url, today)`."""
TIMEOUT = 20.0
OpenUrl = Callable[[str], IO[bytes]]


class Fetched(NamedTuple):
    """The outcome of fetching one list, in a sentence."""

    name: str
    sentence: str
    is_new: bool


def open_url(url: str) -> IO[bytes]:
    """A page of a price list. https alone; proxies as the environment says."""
    request = urllib.request.Request(url, headers={"User-Agent": "laptime"})  # noqa: S310 (addresses of ours)
    answer: IO[bytes] = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
    return answer


def update(
    names: Sequence[str] = (),
    say: Callable[[str], None] = print,
    *,
    open_url: OpenUrl = open_url,
    today: date | None = None,
) -> list[Fetched]:
    """Fetch the named lists, or all; what is known of machines without a new price stays.
    open_url: gives a page; another one for tests.
    Raises UsageError: there is no list of this name."""
    today = today or datetime.now(UTC).date()
    for name in names:
        if name not in LISTS:
            raise unknown("price list", name, LISTS, example="laptime cost update oci")
    known = machine_table.load(today=today)
    machines = {machine.key: machine for machine in known.machines if machine.origin == "updated"}
    flex = {each.name: each for each in known.flex if each.origin == "updated"}
    results = []
    for name in names or LISTS:
        say(f"asking {name} ...")
        result, new_machines, new_flex = _one(name, known, open_url, today)
        machines.update({machine.key: machine for machine in new_machines})
        flex.update({each.name: each for each in new_flex})
        results.append(result)
    if any(result.is_new for result in results):
        folder = machine_table.find_fetched()
        folder.mkdir(parents=True, exist_ok=True)
        rows = machine_table.encode_rows([*machines.values()], machine_table.COLUMNS)
        write_whole(folder / machine_table.MACHINES, rows)
        rows = machine_table.encode_rows([*flex.values()], machine_table.FLEX_COLUMNS)
        write_whole(folder / machine_table.FLEX, rows)
    return results


def _one(
    name: str, known: Table, open_url: OpenUrl, today: date
) -> tuple[Fetched, list[Machine], list[FlexShape]]:
    """One list; an error of the network or of what came is a sentence, and costs no other list."""
    machines: list[Machine] = []
    flex: list[FlexShape] = []
    fault = "sent no price of a known machine"
    try:
        machines, flex = import_module(f"{lists.__name__}.{name}").fetch(known, open_url, today)
    except (HTTPException, OSError) as error:
        fault = f"could not be reached ({getattr(error, 'reason', None) or error})"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fault = f"sent what is not a price list ({error})"
    good = [machine for machine in machines if not reason(machine, today)]
    if not good and not flex:
        return Fetched(name, f"{fault}: the prices known so far stay", False), [], []
    refused = len(machines) - len(good)
    what = count(len(good), "machine") + (f" and {count(len(flex), 'flexible shape')}" if flex else "")
    faults = f"; {count(refused, 'row')} refused" if refused else ""
    return Fetched(name, f"{what}, seen {today}{faults}", True), good, flex
