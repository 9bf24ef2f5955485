"""What the JSON documents of all kinds of run share: reasons, the machine, schemas, structs as text."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, structs

from laptime.records.case import Case
from laptime.records.check import Check, Outcome
from laptime.records.environment import Device
from laptime.records.run import Run


class Reason(Struct, frozen=True, kw_only=True):
    """What a check says; `case` is the key of the case, null for the whole run."""

    check: str
    outcome: Outcome
    sentence: str
    next: str
    case: str | None


class Environment(Struct, frozen=True, kw_only=True):
    """Machine, limits, libraries and knobs; null where it could not be read. The host's name is left out."""

    fingerprint: str
    os: str
    python: str
    cpu: str
    vcpus: int
    physical_cores: int | None
    usable_cpus: float
    affinity: list[int]
    cpu_quota: float | None
    isa: list[str]
    memory: int
    memory_limit: int | None
    virtual: str | None
    governor: str | None
    turbo: bool | None
    load: dict[str, float | None]
    devices: list[Device]
    libraries: dict[str, str]
    knobs: dict[str, Any]
    packages_sha256: str | None
    git: dict[str, Any] | None


def reason(check: Check, case: Case | None) -> Reason:
    """A check with something to say, as the document has it."""
    return Reason(
        check=check.name,
        outcome=check.outcome,
        sentence=check.sentence,
        next=check.next,
        case=case.key if case else None,
    )


def machine(run: Run) -> Environment:
    """The environment without the host's name."""
    names = Environment.__struct_fields__
    return Environment(**{name: getattr(run.environment, name) for name in names})


def published(document: type[Struct]) -> dict[str, Any]:
    """The schema of a document of which every key is always there."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(document)}
    for definition in schema["$defs"].values():
        definition["description"] = " ".join(definition["description"].partition("\n\n")[0].split())
        if "properties" in definition:
            definition["required"] = list(definition["properties"])
    return schema


def plain(value: Any) -> Any:
    """Structs as dictionaries with all their keys, those at their default too."""
    if isinstance(value, Struct):
        if value.__struct_config__.array_like:
            return msgspec.to_builtins(value)
        return {name: plain(item) for name, item in structs.asdict(value).items()}
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def written(value: Any, indent: int = 0) -> str:
    """JSON by lines: a dictionary's key a line, and a list's item where items are dictionaries."""
    pad = " " * (indent + 2)
    if isinstance(value, dict) and value:
        rows = [f"{pad}{_compact(name)}: {written(item, indent + 2)}" for name, item in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{' ' * indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        rows = [pad + written(item, indent + 2) for item in value]
        return "[\n" + ",\n".join(rows) + f"\n{' ' * indent}]"
    return _compact(value)


def _compact(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
