"""Fetch remote data: repositories through git, files and folders behind any URL through fsspec.

A file is there whole or not at all: it is written beside its place, its hash is compared, then it is moved.
What is there already stays, and nothing that a user changed or committed in a clone is thrown away: a commit
is checked out detached, and a clone with changes is refused."""

import hashlib
import importlib
import os
import re
import shutil
import tarfile
import tempfile
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from laptime.kit.errors import LaptimeError, Unavailable, UsageError
from laptime.kit.extras import install
from laptime.launch.git_worktree import git

GIT_TIMEOUT = 1800.0
HTTP_TIMEOUT = 60.0  # seconds without a byte; a download as a whole may take as long as it likes
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_LIBRARIES = {"gs": "gcsfs", "gcs": "gcsfs", "s3": "s3fs", "az": "adlfs", "abfs": "adlfs"}


class Repo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A repository; in what `clone` gives back, hash is the commit that is checked out."""

    url: str
    branch: str = ""
    hash: str = ""
    dirty: bool = False

    @property
    def name(self) -> str:
        """Its folder: the last part of the URL."""
        last = self.url.rstrip("/").replace("\\", "/").rpartition("/")[2]
        return last.rpartition(":")[2].removesuffix(".git")


class Download(Struct, frozen=True, kw_only=True):
    """A file: where from, where to under the data folder, and its hash if it is known."""

    url: str
    path: str
    sha256: str = ""


def parse_repos(texts: Sequence[str]) -> list[Repo]:
    """The repositories of all `--git_repos`. Raises UsageError: a part cannot be what it should be."""
    parts = [part for text in texts for part in ([text] if Path(text).exists() else text.split(","))]
    repos = list(dict.fromkeys(_repo(word) for part in parts if (word := part.strip())))
    for repo in repos:
        urls = [other.url for other in repos if other.name == repo.name]
        if len(urls) > 1:
            next = "clone one of them yourself and name it with --python_path=/absolute/folder"
            raise UsageError(f"two repositories want the folder {repo.name}", why=", ".join(urls), next=next)
    return repos


def _repo(word: str) -> Repo:
    parts = [word] if Path(word).exists() else [part.strip() for part in word.split(";")]
    if len(parts) > 3 or not parts[0] or any(part.startswith("-") for part in parts):
        raise UsageError(
            f"--git_repos={word} cannot be read",
            why="it is url, url;branch or url;branch;hash, and no part begins with a dash",
            next="--git_repos='https://github.com/tensorflow/models.git;master'",
        )
    url, branch, commit = [*parts, "", ""][:3]
    repo = Repo(url=url, branch=branch, hash=commit)
    if repo.name in ("", ".", ".."):
        why, next = "the last part of the URL is the folder's name", "name the repository's own folder"
        raise UsageError(f"--git_repos={word} does not name a folder for the clone", why=why, next=next)
    return repo


def clone(repo: Repo, folder: Path, *, cached: bool) -> Repo:
    """Have the repository in `folder/NAME` at the wanted commit; what is there then.
    cached: take a clone that exists as it is, unless a hash is asked for.
    Raises UsageError: git says no, or the clone there has changes, or comes from elsewhere. Unavailable: git
    is not installed."""
    place = folder / repo.name
    # A local path is meant from here, not from inside the clone.
    url = str(Path(repo.url).resolve()) if Path(repo.url).exists() else repo.url

    what = f"git could not fetch {';'.join(filter(None, (repo.url, repo.branch, repo.hash)))}"
    advice = "check the URL, the branch and the hash"

    def ask(*words: str) -> str:
        return git(*words, what=what, advice=advice, timeout=GIT_TIMEOUT).strip()

    def here(*words: str) -> str:
        return ask("-C", str(place), *words)

    def commit_of(name: str) -> str:
        with suppress(UsageError):
            return here("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return ""

    def changes() -> str:
        # Files that git does not know stay untouched by a checkout: compiled Python is among them.
        return here("status", "--porcelain", "--untracked-files=no")

    def state() -> Repo:
        return structs.replace(repo, hash=here("rev-parse", "HEAD"), dirty=bool(changes()))

    if not place.exists():
        folder.mkdir(parents=True, exist_ok=True)
        ask("clone", "--quiet", "--", url, str(place.resolve()))
    elif not (place / ".git").exists():
        raise UsageError(
            f"{place} is not a git repository",
            why=f"the clone of {repo.url} belongs there",
            next=f"move it away: mv '{place}' '{place}.old'",
        )
    elif cached and not repo.hash:
        return state()
    else:
        _refuse_other(place, here("config", "--get", "remote.origin.url"), (repo.url, url))
        _refuse_changed(place, changes().splitlines())
        here("fetch", "--quiet", "--tags", "origin")
    # The first that is there counts: the newest of a branch at its origin, or a tag.
    branches = (f"origin/{repo.branch}", repo.branch) if repo.branch else ("origin/HEAD",)
    names = (repo.hash,) if repo.hash else branches
    commit = next((found for name in names if (found := commit_of(name))), "")
    if commit:
        here("checkout", "--quiet", "--detach", commit)
    elif repo.hash or repo.branch:
        raise UsageError(what, why=f"it has no commit, branch or tag {names[-1]}", next=advice)
    return state()


def _refuse_other(place: Path, origin: str, urls: Sequence[str]) -> None:
    if origin not in urls:
        why = f"it is a clone of {origin}"
        raise UsageError(f"{place} is a clone of something else", why=why, next="--workspace=ANOTHER/FOLDER")


def _refuse_changed(place: Path, changed: Sequence[str]) -> None:
    if changed:
        raise UsageError(
            f"{place} has changes that an update could overwrite",
            why=f"{len(changed)} changed files, {changed[0].strip()} among them",
            next="--use_cached_site_packages   runs it as it is; or commit the changes, or move it away",
        )


def parse_downloads(*texts: str | None) -> list[Download]:
    """The files of `--data_downloads` and `--gcs_downloads`.
    Raises UsageError: one is not `url;path` or `url;path;sha256`, or its path leads out of the data folder.
    """
    return [_download(part.strip()) for text in texts if text for part in text.split(",") if part.strip()]


def _download(word: str) -> Download:
    parts = [part.strip() for part in word.split(";")]
    sha256 = parts[2].removeprefix("sha256=").removeprefix("sha256:").lower() if len(parts) == 3 else ""
    path = Path(parts[1]) if len(parts) > 1 else Path()
    bad = ""
    if len(parts) not in (2, 3) or not all(parts):
        bad = "it is url;path or url;path;sha256"
    elif path.is_absolute() or ".." in path.parts:
        bad = "the path must lie under --root_data_dir"
    elif sha256 and not _SHA256.fullmatch(sha256):
        bad = "a SHA-256 has 64 hexadecimal digits"
    if bad:
        example = "--data_downloads='https://host/data.tar.gz;imagenet/data.tar.gz'"
        raise UsageError(f"{word} cannot be downloaded", why=bad, next=example)
    return Download(url=parts[0], path=parts[1], sha256=sha256)


def download(wanted: Download, folder: Path, *, say: Callable[[str], None]) -> Path:
    """Have the file under `folder`; an archive (`.tar.gz`) is unpacked beside itself.
    Raises UsageError: it could not be fetched, ended early, or is not the one with this hash. Unavailable:
    the library for such URLs is not installed."""
    place = folder / wanted.path
    if place.exists():
        if place.is_file():
            _compare(wanted, place, place)
        say(f"{place} is there already")
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as folder_of_draft:
            draft = Path(folder_of_draft, place.name)
            if is_url(wanted.url):
                system, path = _filesystem(wanted.url)
                with _as_os_error():
                    system.get_file(path, str(draft))
            else:
                shutil.copyfile(local(wanted.url), draft)
            _compare(wanted, draft, place)
            draft.replace(place)
        if wanted.url.endswith(".gz"):
            _unpack(place, say=say)
    except OSError as error:
        raise UsageError(
            f"{wanted.url} could not be fetched to {place}",
            why=getattr(error, "strerror", None) or str(error),
            next="fetch it yourself; laptime leaves existing files as they are",
        ) from error
    return place


def _compare(wanted: Download, file: Path, place: Path) -> None:
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest() if wanted.sha256 else ""
    if digest != wanted.sha256:
        what, why = f"{place} is not the expected file", f"its SHA-256 is {digest}, not {wanted.sha256}"
        raise UsageError(what, why=why, next=f"check {wanted.url}; remove {place} to fetch it again")


def _unpack(place: Path, *, say: Callable[[str], None]) -> None:
    """PerfZero hands every .gz to tar; one that is not an archive stays as it is."""
    if not tarfile.is_tarfile(place):
        say(f"{place} is not a tar archive and stays as it is")
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
        for name in [*names, *(folder for folder in folders if Path(root, folder).is_symlink())]:
            Path(root, name).replace(target / name)


def copy_folder(folder: Path, url: str) -> str:
    """Put a folder and all in it under a URL, by its own name; where it is then.
    Raises LaptimeError: it could not be copied."""
    try:
        if not is_url(url):
            return str(shutil.copytree(folder, local(url) / folder.name, dirs_exist_ok=True))
        system, path = _filesystem(url)
        with _as_os_error():
            for file in sorted(each for each in folder.rglob("*") if each.is_file()):
                inside = file.relative_to(folder.parent).as_posix()
                system.put_file(str(file), f"{path.rstrip('/')}/{inside}")
    except (OSError, shutil.Error) as error:
        next = "nothing is lost: the folder is still there"
        raise UsageError(f"{folder} could not be copied to {url}", why=str(error), next=next) from error
    return f"{url.rstrip('/')}/{folder.name}"


def is_url(text: str) -> bool:
    """Whether it has a scheme that is not this machine's."""
    scheme = urllib.parse.urlsplit(text).scheme
    return len(scheme) > 1 and scheme != "file"


def local(text: str) -> Path:
    """The path that a text without scheme, or `file://`, means."""
    parts = urllib.parse.urlsplit(text)
    return Path(urllib.request.url2pathname(parts.path) if parts.scheme == "file" else text)


def require(url: str) -> None:
    """Refuse a URL that no installed library reaches, before anything is measured.
    Raises Unavailable: there is none here."""
    if is_url(url):
        _filesystem(url)


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Libraries for stores of all kinds raise errors of all kinds."""
    try:
        yield
    except FileNotFoundError as error:
        raise OSError(f"there is no such file (404): {error}") from error
    except (OSError, LaptimeError):
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def _filesystem(url: str) -> tuple[Any, str]:
    """The file system that a URL belongs to, and its path there."""
    scheme = urllib.parse.urlsplit(url).scheme
    try:
        options = _http_options() if scheme in ("http", "https") else {}
        return importlib.import_module("fsspec").core.url_to_fs(url, **options)  # type: ignore[no-any-return]
    except ImportError as error:
        if error.name in ("fsspec", "aiohttp"):
            library, step = error.name, install("remote")
        else:
            library = _LIBRARIES.get(scheme, "")
            step = f"pip install {library}" if library else "install what the line above names"
        raise Unavailable(
            f"{scheme}:// needs {library or 'another library'}", why=str(error), next=step
        ) from error
    except Exception as error:
        raise UsageError(
            f"{url} cannot be used", why=f"{type(error).__name__}: {error}", next="gs://bucket/folder"
        ) from error


def _http_options() -> dict[str, Any]:
    """The bytes as they lie there, through the user's proxy, and no limit on the whole download."""
    aiohttp = importlib.import_module("aiohttp")
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=HTTP_TIMEOUT, sock_read=HTTP_TIMEOUT)
    headers = {"Accept-Encoding": "identity"}
    return {"client_kwargs": {"trust_env": True, "timeout": timeout, "headers": headers}}
