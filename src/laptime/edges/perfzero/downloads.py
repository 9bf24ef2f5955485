"""Data files that benchmarks need: `url;relative/path[;sha256]`, put under --root_data_dir.

A file is there whole or not at all: it is written beside its place, its length and hash are compared, then
it is moved. What is there already stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import re
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from msgspec import Struct

from laptime.edges.perfzero.remote import opened
from laptime.kit.errors import UsageError

TIMEOUT = 60.0
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


class Download(Struct, frozen=True, kw_only=True):
    """One file: where from, where to under the data folder, and its hash when it is known."""

    url: str
    path: str
    sha256: str = ""


def parse(*texts: str | None) -> list[Download]:
    """The files of `--data_downloads` and `--gcs_downloads`.

    Raises:
        UsageError: one is not `url;path` or `url;path;sha256`, or its path leads out of the data folder.
    """
    words = [word.strip() for text in texts if text for word in text.split(",") if word.strip()]
    return [_parse(word) for word in words]


def fetch(download: Download, folder: Path, *, say: Callable[[str], None]) -> Path:
    """Have the file under `folder`; an archive (`.tar.gz`) is unpacked beside itself.

    Raises:
        UsageError: it could not be fetched, ended early, or is not the one with this hash.
    """
    place = folder / download.path
    if place.exists():
        if download.sha256 and place.is_file() and _hash(place) != download.sha256:
            raise _wrong_hash(download, place, _hash(place))
        say(f"{place} is there already")
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _write(download, place)
        if download.url.endswith(".gz"):
            _unpack(place, say=say)
    except OSError as error:
        raise UsageError(
            f"{download.url} could not be fetched to {place}",
            why=getattr(error, "strerror", None) or str(error),
            next="fetch it yourself; a file that is there is left as it is",
        ) from error
    return place


def _parse(word: str) -> Download:
    parts = [part.strip() for part in word.split(";")]
    sha256 = parts[2].removeprefix("sha256=").removeprefix("sha256:").lower() if len(parts) == 3 else ""
    path = Path(parts[1]) if len(parts) > 1 else Path()
    bad = ""
    if len(parts) not in (2, 3) or not all(parts):
        bad = "url;path, or url;path;sha256"
    elif path.is_absolute() or ".." in path.parts:
        bad = "the path is one under --root_data_dir"
    elif sha256 and not _SHA256.fullmatch(sha256):
        bad = "a SHA-256 has 64 hexadecimal digits"
    if bad:
        raise UsageError(
            f"{word} cannot be downloaded", why=bad, next="--data_downloads='https://host/data.tar.gz;imagenet/data.tar.gz'"
        )  # fmt: skip
    return Download(url=parts[0], path=parts[1], sha256=sha256)


def _write(download: Download, place: Path) -> None:
    draft = place.with_name(f".{place.name}.part")
    digest = hashlib.sha256()
    try:
        with _source(download.url) as (source, expected), draft.open("wb") as target:
            size = 0
            while part := source.read(1 << 20):
                target.write(part)
                digest.update(part)
                size += len(part)
        if expected is not None and size != expected:
            raise UsageError(
                f"{download.url} ended early",
                why=f"{size:,} of {expected:,} bytes came",
                next="the same command again",
            )
        if download.sha256 and digest.hexdigest() != download.sha256:
            raise _wrong_hash(download, place, digest.hexdigest())
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def _source(url: str) -> Iterator[tuple[IO[bytes], int | None]]:
    """The bytes of a URL, and how many are announced."""
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme == "file":
        path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))
        with path.open("rb") as file:
            yield file, path.stat().st_size
    elif scheme in ("http", "https"):
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:  # noqa: S310 (http or https)
                length = answer.headers.get("Content-Length")
                yield answer, int(length) if length else None
        except urllib.error.HTTPError as error:
            raise OSError(f"the server answers {error.code} {error.reason}") from error
        except urllib.error.URLError as error:
            raise OSError(str(error.reason)) from error
        except http.client.HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
    else:
        with opened(url) as file:
            yield file, None


def _unpack(place: Path, *, say: Callable[[str], None]) -> None:
    """PerfZero hands every .gz to tar; one that is no archive stays as it is."""
    if not tarfile.is_tarfile(place):
        say(f"{place} is no tar archive and stays as it is")
        return
    try:
        with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as draft:
            with tarfile.open(place) as archive:
                archive.extractall(draft, filter="data")
            _move(Path(draft), place.parent)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        place.unlink()  # or it would count as there the next time
        raise OSError(f"the archive cannot be unpacked: {error}") from error


def _move(draft: Path, folder: Path) -> None:
    """Move all files of a folder into another one, which keeps what else it has."""
    for root, folders, names in os.walk(draft):
        target = folder / Path(root).relative_to(draft)
        target.mkdir(exist_ok=True)
        for name in [*names, *(each for each in folders if Path(root, each).is_symlink())]:
            Path(root, name).replace(target / name)


def _hash(place: Path) -> str:
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _wrong_hash(download: Download, place: Path, digest: str) -> UsageError:
    return UsageError(
        f"{place} is not the file that was asked for",
        why=f"its SHA-256 is {digest}, not {download.sha256}",
        next=f"check {download.url}; remove {place} to fetch it again",
    )
