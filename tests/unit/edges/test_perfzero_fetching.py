"""Repositories and data files: never through a shell, never half a file, never over somebody's changes."""

from __future__ import annotations

import hashlib
import http.server
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laptime.edges.perfzero import fetching
from laptime.edges.perfzero.fetching import Download, Repo
from laptime.kit.errors import LaptimeError, Unavailable, UsageError
from laptime.kit.extras import install


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *words],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository whose path no shell would survive, with a commit on main and one on the branch `next`."""
    folder = tmp_path / "a $(touch hacked) & 'b\" repo"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "bench.py").write_text("VALUE = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    git(folder, "checkout", "--quiet", "-b", "next")
    (folder / "bench.py").write_text("VALUE = 2\n")
    git(folder, "commit", "--quiet", "-am", "two")
    git(folder, "checkout", "--quiet", "main")
    return folder


def test_a_path_with_spaces_and_shell_characters_is_a_path(origin: Path, tmp_path: Path) -> None:
    (repo,) = fetching.parse_repos([f"{origin};next"])
    there = fetching.clone(repo, tmp_path / "site", cached=False)
    assert (tmp_path / "site" / origin.name / "bench.py").read_text() == "VALUE = 2\n"
    assert there.hash == git(origin, "rev-parse", "next")
    assert not there.dirty
    assert not list(tmp_path.rglob("hacked"))


def test_a_hash_is_taken_and_later_commits_are_followed_without_one(origin: Path, tmp_path: Path) -> None:
    first = git(origin, "rev-parse", "main")
    (origin / "bench.py").write_text("VALUE = 3\n")
    git(origin, "commit", "--quiet", "-am", "three")
    at = fetching.clone(Repo(url=str(origin), branch="main", hash=first), tmp_path / "site", cached=True)
    assert at.hash == first
    newest = fetching.clone(Repo(url=str(origin), branch="main"), tmp_path / "site", cached=False)
    assert newest.hash == git(origin, "rev-parse", "main") != first
    assert fetching.clone(Repo(url=str(origin)), tmp_path / "site", cached=True).hash == newest.hash


def test_changes_in_a_clone_are_never_thrown_away(origin: Path, tmp_path: Path) -> None:
    repo = Repo(url=str(origin), branch="main")
    site = tmp_path / "site"
    fetching.clone(repo, site, cached=False)
    mine = site / origin.name / "bench.py"
    mine.write_text("VALUE = 'mine'\n")
    with pytest.raises(UsageError, match="changes"):
        fetching.clone(repo, site, cached=False)
    assert fetching.clone(repo, site, cached=True).dirty
    assert mine.read_text() == "VALUE = 'mine'\n"


def test_a_clone_of_something_else_is_not_taken_for_it(origin: Path, tmp_path: Path) -> None:
    fetching.clone(Repo(url=str(origin)), tmp_path / "site", cached=False)
    other = tmp_path / "other" / origin.name
    other.parent.mkdir()
    git(tmp_path, "clone", "--quiet", str(origin), str(other))
    with pytest.raises(UsageError, match="something else"):
        fetching.clone(Repo(url=str(other)), tmp_path / "site", cached=False)


@pytest.mark.parametrize("text", ["--upload-pack=touch hacked;main", "url;-b;x", ";main", "a;b;c;d", "x/.."])
def test_what_git_could_take_for_an_option_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        fetching.parse_repos([text])


def test_what_git_says_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not fetch"):
        fetching.clone(Repo(url=str(tmp_path / "nothing" / "there")), tmp_path, cached=False)


@pytest.mark.parametrize("repo", [{"branch": "nosuch"}, {"hash": "0" * 40}, {"branch": "--help"}])
def test_a_commit_that_is_not_there_is_told_and_never_an_option(
    origin: Path, tmp_path: Path, repo: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="not fetch") as caught:
        fetching.clone(Repo(url=str(origin), **repo), tmp_path / "site", cached=False)
    assert next(iter(repo.values())) in caught.value.why


def test_a_tag_is_checked_out_as_it_is(origin: Path, tmp_path: Path) -> None:
    git(origin, "tag", "v1", "next")
    there = fetching.clone(Repo(url=str(origin), branch="v1"), tmp_path / "site", cached=False)
    assert there.hash == git(origin, "rev-parse", "next")


def test_hooks_of_another_repository_do_not_lead_git_astray(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert fetching.clone(Repo(url=str(origin)), tmp_path / "site", cached=False).hash
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("missing", "url", "step"),
    [
        ("fsspec", "https://host/x", install("remote")),
        ("aiohttp", "https://host/x", install("remote")),
        ("gcsfs", "gs://bucket/x", "pip install gcsfs"),
        ("s3fs", "s3://bucket/x", "pip install s3fs"),
    ],
)
def test_the_library_that_is_missing_is_named(
    missing: str, url: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(Unavailable, match=f"needs {missing}") as caught:
        fetch(url, tmp_path)
    assert caught.value.next == step
    with pytest.raises(Unavailable):
        fetching.require(url)
    fetching.require("/a/path")
    fetching.require("file:///a/path")


@pytest.fixture
def server() -> Iterator[str]:
    """A web server: /whole has its ten bytes, /early ends after four of them, /packed says that it is packed
    to whom takes that; /missing is missing, and for all else it is too busy."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in ("/whole", "/early", "/packed"):
                self.send_error(404 if self.path == "/missing" else 503)
                return
            self.send_response(200)
            if self.path == "/packed" and "gzip" in self.headers.get("Accept-Encoding", ""):
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", "10")
            self.end_headers()
            self.wfile.write(b"0123" if self.path == "/early" else b"0123456789")

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_address[1]}"
        found.shutdown()


def fetch(url: str, folder: Path, path: str = "sub/data.bin", sha256: str = "") -> Path:
    return fetching.download(Download(url=url, path=path, sha256=sha256), folder, say=lambda text: None)


def test_a_file_comes_whole_and_its_hash_is_compared(server: str, tmp_path: Path) -> None:
    right = hashlib.sha256(b"0123456789").hexdigest()
    assert fetch(f"{server}/whole", tmp_path, sha256=right).read_bytes() == b"0123456789"
    with pytest.raises(UsageError, match="expected file"):
        fetch(f"{server}/whole", tmp_path, "other.bin", sha256="0" * 64)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["data.bin"]


def test_a_url_that_ends_early_leaves_nothing(server: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ended early|be fetched"):
        fetch(f"{server}/early", tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_answer_that_is_no_file_is_an_error(server: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        fetch(f"{server}/missing", tmp_path)
    assert "404" in caught.value.why
    with pytest.raises(UsageError) as caught:
        fetch(f"{server}/busy", tmp_path)
    assert "503" in caught.value.why
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_file_is_taken_as_it_lies_on_the_server(server: str, tmp_path: Path) -> None:
    assert fetch(f"{server}/packed", tmp_path).read_bytes() == b"0123456789"


def test_a_file_comes_from_any_store_that_fsspec_knows(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/set/data.bin", b"stored")
    assert fetch("memory://set/data.bin", tmp_path).read_bytes() == b"stored"
    with pytest.raises(UsageError, match="be fetched"):
        fetch("memory://set/other.bin", tmp_path, "other.bin")
    assert fetch(str(tmp_path / "sub" / "data.bin"), tmp_path, "by a path").read_bytes() == b"stored"


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_text("mine")
    fetch("http://127.0.0.1:9/never", tmp_path, "data.bin")
    assert (tmp_path / "data.bin").read_text() == "mine"
    with pytest.raises(UsageError, match="expected file"):
        fetch("http://127.0.0.1:9/never", tmp_path, "data.bin", sha256="0" * 64)


def test_archives_are_unpacked_and_may_not_leave_their_folder(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "in.txt").write_text("inside")
    for name, inside in (("good.tar.gz", "in.txt"), ("evil.tar.gz", "../out.txt")):
        with tarfile.open(source / name, "w:gz") as archive:
            archive.add(source / "in.txt", inside)
    fetch((source / "good.tar.gz").as_uri(), tmp_path / "data", "set/good.tar.gz")
    assert (tmp_path / "data" / "set" / "in.txt").read_text() == "inside"
    with pytest.raises(UsageError):
        fetch((source / "evil.tar.gz").as_uri(), tmp_path / "data", "set/evil.tar.gz")
    assert not (tmp_path / "data" / "out.txt").exists()
    (source / "plain.gz").write_bytes(b"\x1f\x8bnot an archive")
    assert fetch((source / "plain.gz").as_uri(), tmp_path / "data", "plain.gz").is_file()


@pytest.mark.parametrize("text", ["url", "url;/etc/passwd", "url;../up", "url;a;nohash", "url;", ";a"])
def test_a_download_stays_in_the_data_folder(text: str) -> None:
    with pytest.raises(UsageError):
        fetching.parse_downloads(text)


def test_results_are_copied_to_a_folder_or_a_url(tmp_path: Path) -> None:
    source = tmp_path / "run-1"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "file").write_text("x")
    fetching.copy_folder(source, str(tmp_path / "there"))
    assert (tmp_path / "there" / "run-1" / "deep" / "file").read_text() == "x"
    with pytest.raises(LaptimeError):
        fetching.copy_folder(source, "nosuch://bucket/x")
    fsspec = pytest.importorskip("fsspec")
    fetching.copy_folder(source, "memory://bucket")
    assert fsspec.filesystem("memory").cat("/bucket/run-1/deep/file") == b"x"
