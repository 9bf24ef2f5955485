"""All machines whose price is known: laptime's own, what an update fetched, the user's contracts.

    data/machines.csv, data/flex_shapes.csv    laptime's own, dated, with a source a row
    CACHE/prices/machines.csv, flex_shapes.csv  fetched on this machine
    machines.local.csv                          the user's: in the current folder, or in the store

The same machine in a later file replaces that in an earlier one. Columns of `machines.local.csv` are those of
`data/machines.csv`; provider, shape, usd_per_hour and seen must be there.

Rows are refused one by one, each with its reason, if they are not believable; the others still count. Faults
that public lists have had: GPU memory times the number of GPUs, once or twice; a spot price above the one on
demand; the price of a machine without its GPU; rows twice with two prices."""

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, structs

from laptime.kit.errors import UsageError
from laptime.kit.text import closest
from laptime.pricing.formulas import first_day
from laptime.probes.peaks import accelerator_name, accelerators
from laptime.records.cost import FlexShape, Machine, Origin, Refused
from laptime.store import cache, folder

CHEAPEST, DEAREST = 0.05, 60.0
"""USD per hour of one whole accelerator: beyond, the price is that of something else."""
DEAREST_VCPU = 2.0  # the same of a vCPU of a machine without accelerators
MEMORY_OFF = 0.15
"""Share by which a card's memory may differ from what its maker says: drivers and ECC keep some."""
R = TypeVar("R")


def reason(machine: Machine, today: date) -> str:
    """Say why a machine's row cannot be right; "" if nothing speaks against it."""
    return _price(machine) or _date(machine, today) or _sizes(machine) or _accelerator(machine)


def _price(machine: Machine) -> str:
    price = machine.usd_per_hour
    others = ("spot", machine.spot_usd_per_hour), ("reserved", machine.reserved_usd_per_hour)
    for name, each in (("", price), *others):
        if each is not None and not 0 < each < math.inf:
            return f"a {name} price of {each:g} USD/h is impossible".replace("  ", " ")
        if each is not None and each > price:
            return f"its {name} price {each:g} is above the one on demand, {price:g}"
    if not 0 <= (machine.free_usd_per_month or 0.0) < math.inf:
        return f"{machine.free_usd_per_month:g} USD of a month cannot be free"
    each = price / machine.vcpus if machine.vcpus and not machine.accelerator else 0.0
    wrong = f"{each:.3g} USD/h for one vCPU is not a price per hour: is it one per month?"
    return wrong if each > DEAREST_VCPU else ""


def _date(machine: Machine, today: date) -> str:
    if not machine.seen:
        return "it does not say when the price was seen"
    for seen in filter(None, (machine.seen, machine.spot_seen)):
        seen_on = first_day(seen)
        # A year is as old as its first day; a contract can say more.
        if seen_on is None or (machine.origin == "local" and len(seen) == len("2026")):
            return f"{seen!r} is not a date (2026-11-22)"
        if seen_on > today:
            return f"it was seen in the future: {seen}"
    return ""


def _sizes(machine: Machine) -> str:
    for name in ("vcpus", "cores", "memory", "accelerator_memory"):
        value = getattr(machine, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            return f"{value:g} {name.replace('_', ' ')} are impossible"
    if machine.vcpus and machine.cores and machine.cores > machine.vcpus:
        return f"{machine.cores:g} cores in {machine.vcpus:g} vCPUs are impossible"
    return ""


def _accelerator(machine: Machine) -> str:
    """The accelerator is one that is known, with its memory, at a price that it can have."""
    if not machine.accelerator:
        return "accelerators without a name" if machine.accelerators else ""
    if not (math.isfinite(machine.accelerators) and machine.accelerators > 0):
        return f"{machine.accelerators:g} accelerators are impossible"
    memory = accelerators().get(machine.accelerator)
    each = machine.usd_per_hour / machine.accelerators
    if machine.accelerators >= 1 and not CHEAPEST <= each <= DEAREST:
        return f"{each:g} USD/h for one {machine.accelerator} is not the price of one"
    if memory is None:
        near = closest(machine.accelerator, accelerators())
        plain = machine.accelerator.lower().replace("-", "").replace(" ", "")
        if near and near.lower().replace("-", "") == plain:
            return f"no accelerator is called {machine.accelerator}: {near} is"
        return ""  # one whose peak nobody knows here, a TPU say: it has a price, but no bound
    whole = memory * min(1.0, machine.accelerators)
    told = machine.accelerator_memory
    if told is not None and abs(told / whole - 1) > MEMORY_OFF:
        return f"{told:g} GiB is not the memory of one {machine.accelerator}, {whole:g} is"
    return ""


# The table.

LOCAL = "machines.local.csv"
MACHINES, FLEX = "machines.csv", "flex_shapes.csv"
NEEDED = ("provider", "shape", "usd_per_hour", "seen")
COLUMNS = (
    *("provider", "region", "shape", "vcpus", "cores", "cpu", "memory_gib", "accelerator", "accelerators"),
    *("accelerator_memory_gib", "usd_per_hour", "spot_usd_per_hour", "reserved_usd_per_hour"),
    *("free_usd_per_month", "seen", "spot_seen", "source"),
)
FLEX_COLUMNS = (
    *("provider", "shape", "usd_per_ocpu_hour", "usd_per_gb_hour", "vcpus_per_ocpu", "cores_per_ocpu"),
    *("max_ocpus", "max_memory_gb", "min_gb_per_ocpu", "max_gb_per_ocpu", "spot_factor", "free_ocpu_hours"),
    *("free_gb_hours", "ocpu_part", "memory_part", "cpu", "seen", "source"),
)
_FIELDS = {
    "memory_gib": "memory",
    "accelerator_memory_gib": "accelerator_memory",
    "max_memory_gb": "max_memory",
    "min_gb_per_ocpu": "min_gb",
    "max_gb_per_ocpu": "max_gb",
}
"""Fields of the records whose columns have another name: units stand in the heads of files."""


class Table(Struct, frozen=True, kw_only=True):
    """Machines and flexible shapes by key, and the rows that were refused."""

    machines: list[Machine]
    flex: list[FlexShape]
    refused: list[Refused] = []

    def flexible(self, name: str) -> FlexShape | None:
        """The flexible shape of this name, with sizes or without."""
        stem = ":".join(name.lower().split(":")[:2])
        return next((each for each in self.flex if each.name.lower() == stem), None)

    def find_contract(self, machine: Machine) -> Machine:
        """A machine of a flexible shape as a contract has it; else as it is."""
        return next((each for each in self.machines if each.name.lower() == machine.name.lower()), machine)


def load(*, today: date | None = None, local: Path | None = None, only_own: bool = False) -> Table:
    """Everything that is known of prices; a damaged file costs its damaged rows only.

    Args:
        today: no price was seen later.
        local: file of the user's own; None looks in the usual places.
        only_own: laptime's own file alone, the same on every machine.

    Raises:
        UsageError: the file named by `local` cannot be read.
    """
    today = today or datetime.now(UTC).date()
    own = files("laptime") / "data"
    machines: dict[tuple[str, str, str], Machine] = {}
    flex: dict[str, FlexShape] = {}
    refused: list[Refused] = []
    usual = (Path(LOCAL), folder.home() / LOCAL)
    updated, path = find_fetched(), local or next((path for path in usual if path.is_file()), None)
    sources: list[tuple[Origin, str, bytes | None]] = [
        ("builtin", MACHINES, (own / MACHINES).read_bytes()),
        ("builtin", FLEX, (own / FLEX).read_bytes()),
        ("updated", MACHINES, _bytes(updated / MACHINES)),
        ("updated", FLEX, _bytes(updated / FLEX)),
        ("local", str(path), _bytes(path, needed=local is not None) if path else None),
    ]
    for origin, name, data in sources:
        if data is None or (only_own and origin != "builtin"):
            continue
        if name == FLEX:
            shapes, faults = read_flex(data, origin=origin)
            flex.update({shape.name: shape for shape in shapes})
        else:
            known = Table(machines=[*machines.values()], flex=[*flex.values()]) if origin == "local" else None
            rows, faults = read_machines(data, name=name, origin=origin, today=today, known=known)
            # A contract holds wherever the table has the shape.
            everywhere = {row.key[:2] for row in rows if origin == "local" and not row.region}
            machines = {key: row for key, row in machines.items() if key[:2] not in everywhere}
            machines.update({row.key: row for row in rows})
        refused += faults
    return Table(machines=list(machines.values()), flex=list(flex.values()), refused=refused)


def find_fetched() -> Path:
    """The folder of what `laptime cost update` fetched."""
    return cache.folder() / "prices"


def _bytes(path: Path, *, needed: bool = False) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError as error:
        if needed:
            why, step = error.strerror or str(error), f"--prices FILE   with {', '.join(NEEDED)}"
            raise UsageError(f"{path} cannot be read", why=why, next=step) from error
        return None


def read_machines(
    data: bytes, *, name: str = MACHINES, origin: Origin = "builtin", today: date, known: Table | None = None
) -> tuple[list[Machine], list[Refused]]:
    """The machines of a file, and its rows that cannot be right. known: has what contracts leave out."""

    def read(row: dict[str, str]) -> Machine:
        machine = _machine(row, origin)
        machine = machine if known is None else _fill(machine, known)
        if why := reason(machine, today):
            raise ValueError(why)
        return machine

    return _read(data, NEEDED, name, read, lambda machine: machine.key)


def read_flex(
    data: bytes, *, name: str = FLEX, origin: Origin = "builtin"
) -> tuple[list[FlexShape], list[Refused]]:
    """The same of flexible shapes."""
    needed = ("provider", "shape", "seen")
    return _read(data, needed, name, lambda row: _flex(row, origin), lambda shape: shape.name)


def _read(
    data: bytes,
    needed: Sequence[str],
    name: str,
    read: Callable[[dict[str, str]], R],
    key: Callable[[R], object],
) -> tuple[list[R], list[Refused]]:
    """Read each row with `read`, keep the first of each key; it raises ValueError for an impossible row."""
    refused: list[Refused] = []
    good: dict[object, R] = {}
    for line, row in _rows(data, needed, refused, name):
        try:
            made = read(row)
            if key(made) in good:
                raise ValueError("it stands there twice")
            good[key(made)] = made
        except ValueError as error:
            refused.append(Refused(file=name, line=line, name=_name(row), reason=str(error)))
    return [*good.values()], refused


def _name(row: dict[str, str]) -> str:
    return f"{row.get('provider') or '?'}:{row.get('shape') or '?'}"[:80]


def _rows(
    data: bytes, needed: Sequence[str], refused: list[Refused], name: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows with their lines. A cut row, an open quote, a NUL or a wrong byte costs its own row only."""
    text = data.decode("utf-8-sig", errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    head: list[str] | None = None
    lines = text.splitlines() if text.strip() else [""]
    for number, line in enumerate(lines, start=1):
        row: dict[str, str] = {}
        if head is None and len(lines) > 1 and (not line.strip() or line.startswith(("#", "sep="))):
            continue
        try:
            cells = next(csv.reader([line], strict=True), [])
            if head is None:
                head = _head(cells, needed, data)
            elif any(cell.strip() for cell in cells) and not cells[0].startswith("#"):
                row = dict(zip(head, (cell.strip() for cell in cells), strict=False))
                if why := _damage(row, cells, head, needed):
                    raise ValueError(why)
                yield number, row
        except (csv.Error, ValueError) as error:
            why = str(error).replace("unexpected end of data", "a quote is not closed")
            why = f"it is not CSV: {why}" if isinstance(error, csv.Error) else why
            refused.append(Refused(file=name, line=number, name=_name(row) if row else "", reason=why))
            if head is None:
                return


def _head(cells: list[str], needed: Sequence[str], data: bytes) -> list[str]:
    """The names of the columns. Raises ValueError: needed ones are missing, so that nothing can be read."""
    head = [cell.strip().lower() for cell in cells]
    missing = ", ".join(column for column in needed if column not in head)
    if not missing:
        return head
    if not head:
        raise ValueError("it is empty")
    if data.startswith((b"PK", b"\x1f\x8b")):
        raise ValueError("it is a workbook or packed; save it as CSV")
    if data[:200].count(0) > len(data[:200]) / 4:
        raise ValueError("it is written in UTF-16 or UTF-32; save it as UTF-8")
    for sign, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(head) == 1 and sign in head[0]:
            raise ValueError(f"its cells stand between {name}; it takes commas, and points in numbers")
    raise ValueError(f"its head lacks {missing}")


def _damage(row: dict[str, str], cells: Sequence[str], head: Sequence[str], needed: Sequence[str]) -> str:
    missing = [column for column in needed if not row.get(column)]
    if missing:
        return f"it lacks {', '.join(missing)}"
    if len(cells) > len(head):
        return f"it has {len(cells)} cells, its head {len(head)}"
    is_text = all("\N{REPLACEMENT CHARACTER}" not in cell for cell in cells)
    return "" if is_text else "it has bytes that are not text"


def _number(row: dict[str, str], column: str) -> float | None:
    try:
        return float(row[column]) if row.get(column) else None
    except ValueError:
        raise ValueError(f"its {column} {row[column]!r} is not a number") from None


def _require(row: dict[str, str], column: str) -> float:
    value = _number(row, column)
    if value is None or not 0 < value < math.inf:
        raise ValueError(f"its {column} is {'missing' if value is None else f'{value:g}'}")
    return value


def _machine(row: dict[str, str], origin: Origin) -> Machine:
    numbers = (
        *("vcpus", "cores", "memory_gib", "accelerator_memory_gib"),
        *("spot_usd_per_hour", "reserved_usd_per_hour", "free_usd_per_month"),
    )
    return Machine(
        provider=row["provider"].lower(),
        region=row.get("region", ""),
        shape=row["shape"],
        cpu=[name for name in row.get("cpu", "").split("|") if name],
        accelerator=row.get("accelerator", ""),
        accelerators=_number(row, "accelerators") or 0.0,
        usd_per_hour=_number(row, "usd_per_hour") or 0.0,
        seen=row["seen"],
        spot_seen=row.get("spot_seen", ""),
        source=row.get("source", ""),
        origin=origin,
        **{_FIELDS.get(column, column): _number(row, column) for column in numbers},
    )


_SIZES = ("vcpus", "cores", "ocpus", "cpu", "memory", "accelerator", "accelerators", "accelerator_memory")


def _fill(contract: Machine, known: Table) -> Machine:
    """A contract with what it leaves out of its machine, and the table's name of its accelerator.
    Raises ValueError: it names a flexible shape without sizes, or with some that are not sold."""
    shape = known.flexible(contract.name)
    machine = known.find_contract(contract)
    if shape is not None:
        sizes = contract.shape.replace(" ", "").split(":")[1:]
        if len(sizes) != 2 or not all(size.replace(".", "", 1).isdigit() for size in sizes):
            raise ValueError(f"it is rented by OCPU and GB: name both, {shape.shape}:16:32")
        ocpus, memory = (float(size) for size in sizes)
        if why := shape.why_not(ocpus, memory):
            raise ValueError(why)
        machine = shape.size_to(ocpus, memory)
    filled = {name: getattr(contract, name) or getattr(machine, name) for name in _SIZES}
    there = filled["accelerator"]
    filled["accelerator"] = there if there in accelerators() else accelerator_name(there) or there
    filled["accelerators"] = filled["accelerators"] or float(bool(there))
    return structs.replace(contract, shape=machine.shape, **filled)


def _flex(row: dict[str, str], origin: Origin) -> FlexShape:
    numbers = FLEX_COLUMNS[FLEX_COLUMNS.index("usd_per_ocpu_hour") : FLEX_COLUMNS.index("spot_factor")]
    named: dict[str, Any] = {_FIELDS.get(column, column): _require(row, column) for column in numbers}
    named |= {column: row.get(column, "") for column in ("ocpu_part", "memory_part", "seen", "source")}
    named |= {column: _number(row, column) or 0.0 for column in ("free_ocpu_hours", "free_gb_hours")}
    return FlexShape(
        provider=row["provider"].lower(),
        shape=row["shape"],
        cpu=[name for name in row.get("cpu", "").split("|") if name],
        spot_factor=_number(row, "spot_factor"),
        origin=origin,
        **named,
    )


def encode_rows(rows: Sequence[Machine] | Sequence[FlexShape], columns: Sequence[str]) -> bytes:
    """Rows as such a file: what `laptime cost update` keeps."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        fields = structs.asdict(row) | {"cpu": "|".join(row.cpu)}
        values = (fields[_FIELDS.get(column, column)] for column in columns)
        writer.writerow(repr(each).removesuffix(".0") if isinstance(each, float) else each for each in values)
    return out.getvalue().encode()
