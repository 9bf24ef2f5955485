"""The report for machines: one JSON document with stable keys a kind of run, whose schemas are published.

Keys are added, never renamed or retyped. NaN and infinity are written as null. A file (`-o FILE.json`) has
one key more, `run`: the run without the host's name, so that `show`, `compare` and `import` read it."""

from msgspec import structs

from laptime.records.run import Run
from laptime.reports.document import Document
from laptime.reports.documents import document
from laptime.reports.json_parts import plain, write
from laptime.store.encoding import encode

NAME = "json"
SUFFIXES: tuple[str, ...] = (".json",)


def render(run: Run, *, carry: bool = False) -> str:
    """The document of the run's kind, a key a line. carry: the run as its last key."""
    text = render_document(document(run))
    if not carry:
        return text
    bare = structs.replace(run, environment=structs.replace(run.environment, host=""))
    return f'{text.rstrip()[:-2]},\n  "run": {encode(bare).decode()}\n}}\n'


def render_document(document: Document) -> str:
    """Any document for machines."""
    return write(plain(document.data())) + "\n"
