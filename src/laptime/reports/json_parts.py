"""The parts that JSON documents of all kinds of run share: reasons, the machine, schemas, structs as text."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, defstruct, structs

from laptime.records import environment as records
from laptime.records.case import Case
from laptime.records.check import Check, Outcome
from laptime.records.run import Run

T = TypeVar("T", bound=Struct)


class Reason(Struct, frozen=True, kw_only=True):
    """The sentence of a check; `case` is the key of the case, null for the whole run."""

    check: str
    outcome: Outcome
    sentence: str
    next: str
    case: str | None


def fields_of(record: type[Struct], *names: str, without: Collection[str] = ()) -> dict[str, Any]:
    """These fields of a record with their types; all without names."""
    types = {field.name: field.type for field in structs.fields(record) if field.name not in without}
    return {name: types[name] for name in names or types}


def struct(name: str, about: str, fields: Mapping[str, Any]) -> type[Struct]:
    """A struct of a document for machines: every key is always there."""
    named = [*fields.items()]
    return defstruct(name, named, frozen=True, kw_only=True, module=__name__, namespace={"__doc__": about})


def fill(document: type[T], *records: Any, **special: Any) -> T:
    """A document with what is special to it; every other field is that of the first record that has it."""
    fields = [name for name in document.__struct_fields__ if name not in special]
    copied = {name: next(getattr(each, name) for each in records if hasattr(each, name)) for name in fields}
    return document(**special, **copied)


Environment = struct(
    "Environment",
    "Machine, limits, libraries and knobs; null if they could not be read. The host's name is left out.",
    {
        "fingerprint": str,
        **fields_of(records.Environment, without=("host", "sockets", "cloud")),
        "load": dict[str, float | None],
    },
)
OF_RUN = {name: str for name in ("laptime", "id", "verb", "name", "started")} | {
    "seconds": float,
    "status": str,
}
"""What every document says of its run, after its `schema`."""


def reason(check: Check, case: Case | None) -> Reason:
    """A check with something to say, as the document has it."""
    return fill(Reason, check, check=check.name, case=case.key if case else None)


def reasons(run: Run) -> list[Reason]:
    """Return the reasons from checks of the whole run."""
    return [reason(check, None) for check in run.checks if check.outcome != "ok"]


def machine(run: Run) -> Struct:
    """The environment without the host's name."""
    return fill(Environment, run.environment)


def plain(value: Any) -> Any:
    """Structs as dictionaries with all their keys, those at their default too."""
    if isinstance(value, Struct):
        if value.__struct_config__.array_like:
            return msgspec.to_builtins(value)
        return {name: plain(item) for name, item in structs.asdict(value).items()}
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def write(value: Any, indent: int = 0) -> str:
    """JSON by lines: a dictionary's key a line, and a list's item if items are dictionaries."""
    pad = " " * (indent + 2)
    if isinstance(value, dict) and value:
        rows = [f"{pad}{_compact(name)}: {write(item, indent + 2)}" for name, item in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{' ' * indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        rows = [pad + write(item, indent + 2) for item in value]
        return "[\n" + ",\n".join(rows) + f"\n{' ' * indent}]"
    return _compact(value)


def _compact(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
