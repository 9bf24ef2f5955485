"""Writes schemas/*.schema.json, the JSON documents of reports, from the types that make them: `make docs`.

python scripts/schemas.py           write them
python scripts/schemas.py --check   1 when one is not that of the code
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "schemas"
SCHEME, DRAFT = "https", "json-schema.org/draft/2020-12/schema"


def documents() -> dict[str, type]:
    """The type of each document, by the name of its file; of a cost the record itself."""
    from laptime.records.cost import Cost
    from laptime.reports.documents.bench import data as bench
    from laptime.reports.documents.load import data as load
    from laptime.reports.documents.profile import schema as profile
    from laptime.reports.documents.tuning import data as tuning

    return {
        "report": bench.Report,
        "load": load.Report,
        "profile": profile.Document,
        "tuning": tuning.Document,
        "cost": Cost,
    }


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document. Every key is required, but in that of bench, which says so itself."""
    import msgspec

    made = {"$schema": f"{SCHEME}://{DRAFT}", **msgspec.json.schema(documents()[name])}
    for definition in made["$defs"].values() if name != "report" else ():
        definition["description"] = " ".join(definition["description"].partition("\n\n")[0].split())
        if "properties" in definition:
            definition["required"] = list(definition["properties"])
    if name == "cost":  # an interval that is open to one side has a null end
        for definition in made["$defs"].values():
            for field in definition["properties"].values():
                for kind in field.get("anyOf", []):
                    if kind.get("type") == "array" and "prefixItems" in kind:
                        kind["prefixItems"] = [{"type": ["number", "null"]}] * 2
    return made


def main(*words: str) -> int:
    """Write the files, or say which differs."""
    stale = []
    for name in documents():
        path, text = FOLDER / f"{name}.schema.json", json.dumps(schema(name), indent=2) + "\n"
        if words == ("--check",):
            stale += [name] if not path.exists() or path.read_text(encoding="utf-8") != text else []
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"stale: {', '.join(stale)}: python scripts/schemas.py")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
