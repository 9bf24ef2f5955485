"""Folders and files behind a URL: this machine's own, and all that fsspec knows (gs, s3, az, ssh ...)."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from laptime.kit.errors import LaptimeError, Unavailable, UsageError


def is_url(text: str) -> bool:
    """Whether it has a scheme that is not this machine's."""
    scheme = urllib.parse.urlsplit(text).scheme
    return len(scheme) > 1 and scheme != "file"


def local(text: str) -> Path:
    """The path that a text without scheme, or `file://`, means."""
    parts = urllib.parse.urlsplit(text)
    return Path(urllib.request.url2pathname(parts.path) if parts.scheme == "file" else text)


@contextlib.contextmanager
def opened(url: str) -> Iterator[IO[bytes]]:
    """A file behind a URL, to be read.

    Raises:
        Unavailable: the library for such URLs is not installed.
        OSError: it cannot be read.
    """
    system, path = _filesystem(url)
    with _plain_errors(url), system.open(path, "rb") as file:
        yield file


def copy_folder(folder: Path, url: str) -> str:
    """Put a folder and all in it under a URL, by its own name; where it is then.

    Raises:
        LaptimeError: it could not be copied.
    """
    try:
        if not is_url(url):
            return str(shutil.copytree(folder, local(url) / folder.name, dirs_exist_ok=True))
        system, path = _filesystem(url)
        with _plain_errors(url):
            for file in sorted(each for each in folder.rglob("*") if each.is_file()):
                inside = file.relative_to(folder.parent).as_posix()
                system.put_file(str(file), f"{path.rstrip('/')}/{inside}")
    except (OSError, shutil.Error) as error:
        raise UsageError(
            f"{folder} could not be copied to {url}",
            why=str(error),
            next="nothing is lost: the folder is still there",
        ) from error
    return f"{url.rstrip('/')}/{folder.name}"


def known(url: str) -> None:
    """Silent when there is a library for such URLs.

    Raises:
        Unavailable: there is none here.
    """
    if is_url(url):
        _filesystem(url)


@contextlib.contextmanager
def _plain_errors(url: str) -> Iterator[None]:
    """Libraries for stores of all kinds raise errors of all kinds."""
    try:
        yield
    except (OSError, LaptimeError):
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def _filesystem(url: str) -> tuple[Any, str]:
    scheme = urllib.parse.urlsplit(url).scheme
    try:
        return importlib.import_module("fsspec").core.url_to_fs(url)  # type: ignore[no-any-return]
    except ImportError as error:
        ours = error.name == "fsspec"
        raise Unavailable(
            f"{scheme}:// needs {'fsspec' if ours else 'another library'}",
            why=str(error),
            next="pip install 'laptime[remote]'" if ours else "install what the line above names",
        ) from error
    except Exception as error:
        raise UsageError(
            f"{url} cannot be used", why=f"{type(error).__name__}: {error}", next="gs://bucket/folder, say"
        ) from error
