"""Repositories and data files: never through a shell, never half a file, never over somebody's changes."""

from __future__ import annotations

import hashlib
import http.server
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from laptime.edges.perfzero import downloads, remote, repos
from laptime.edges.perfzero.downloads import Download
from laptime.edges.perfzero.repos import Repo
from laptime.kit.errors import LaptimeError, UsageError


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
    (repo,) = repos.parse([f"{origin};next"])
    there = repos.fetch(repo, tmp_path / "site", cached=False)
    assert (tmp_path / "site" / origin.name / "bench.py").read_text() == "VALUE = 2\n"
    assert there.hash == git(origin, "rev-parse", "next")
    assert not there.dirty
    assert not list(tmp_path.rglob("hacked"))


def test_a_hash_is_taken_and_later_commits_are_followed_without_one(origin: Path, tmp_path: Path) -> None:
    first = git(origin, "rev-parse", "main")
    (origin / "bench.py").write_text("VALUE = 3\n")
    git(origin, "commit", "--quiet", "-am", "three")
    at = repos.fetch(Repo(url=str(origin), branch="main", hash=first), tmp_path / "site", cached=True)
    assert at.hash == first
    newest = repos.fetch(Repo(url=str(origin), branch="main"), tmp_path / "site", cached=False)
    assert newest.hash == git(origin, "rev-parse", "main") != first
    assert repos.fetch(Repo(url=str(origin)), tmp_path / "site", cached=True).hash == newest.hash


def test_changes_in_a_clone_are_never_thrown_away(origin: Path, tmp_path: Path) -> None:
    repo = Repo(url=str(origin), branch="main")
    site = tmp_path / "site"
    repos.fetch(repo, site, cached=False)
    mine = site / origin.name / "bench.py"
    mine.write_text("VALUE = 'mine'\n")
    with pytest.raises(UsageError, match="changes"):
        repos.fetch(repo, site, cached=False)
    assert repos.fetch(repo, site, cached=True).dirty
    assert mine.read_text() == "VALUE = 'mine'\n"


def test_a_clone_of_something_else_is_not_taken_for_it(origin: Path, tmp_path: Path) -> None:
    repos.fetch(Repo(url=str(origin)), tmp_path / "site", cached=False)
    other = tmp_path / "other" / origin.name
    other.parent.mkdir()
    git(tmp_path, "clone", "--quiet", str(origin), str(other))
    with pytest.raises(UsageError, match="clone of something else"):
        repos.fetch(Repo(url=str(other)), tmp_path / "site", cached=False)


@pytest.mark.parametrize("text", ["--upload-pack=touch hacked;main", "url;-b;x", ";main", "a;b;c;d", "x/.."])
def test_what_git_could_take_for_an_option_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        repos.parse([text])


def test_what_git_says_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="could not fetch"):
        repos.fetch(Repo(url=str(tmp_path / "nothing" / "there")), tmp_path, cached=False)


@pytest.fixture
def server() -> Iterator[str]:
    """A web server: /whole has its ten bytes, /early ends after four of them, all else is missing."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in ("/whole", "/early"):
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", "10")
            self.end_headers()
            self.wfile.write(b"0123456789" if self.path == "/whole" else b"0123")

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_address[1]}"
        found.shutdown()


def fetch(url: str, folder: Path, path: str = "sub/data.bin", sha256: str = "") -> Path:
    return downloads.fetch(Download(url=url, path=path, sha256=sha256), folder, say=lambda text: None)


def test_a_file_comes_whole_and_its_hash_is_compared(server: str, tmp_path: Path) -> None:
    right = hashlib.sha256(b"0123456789").hexdigest()
    assert fetch(f"{server}/whole", tmp_path, sha256=right).read_bytes() == b"0123456789"
    with pytest.raises(UsageError, match="not the file"):
        fetch(f"{server}/whole", tmp_path, "other.bin", sha256="0" * 64)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["data.bin"]


def test_a_url_that_ends_early_leaves_nothing(server: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ended early|could not be fetched"):
        fetch(f"{server}/early", tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_answer_that_is_no_file_is_an_error(server: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        fetch(f"{server}/missing", tmp_path)
    assert "404" in caught.value.why


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_text("mine")
    fetch("http://127.0.0.1:9/never", tmp_path, "data.bin")
    assert (tmp_path / "data.bin").read_text() == "mine"
    with pytest.raises(UsageError, match="not the file"):
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
        downloads.parse(text)


def test_results_are_copied_to_a_folder_or_a_url(tmp_path: Path) -> None:
    source = tmp_path / "run-1"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "file").write_text("x")
    remote.copy_folder(source, str(tmp_path / "there"))
    assert (tmp_path / "there" / "run-1" / "deep" / "file").read_text() == "x"
    with pytest.raises(LaptimeError):
        remote.copy_folder(source, "nosuch://bucket/x")
    fsspec = pytest.importorskip("fsspec")
    remote.copy_folder(source, "memory://bucket")
    assert fsspec.filesystem("memory").cat("/bucket/run-1/deep/file") == b"x"
