"""`laptime push` and `pull` with a PostgreSQL server of the test's own, started as another user than root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.kit.errors import UsageError
from laptime.store import files, shared

psycopg: Any = pytest.importorskip("psycopg", reason="laptime[store] is not installed")
PASSWORD = "a pass:word/of-its@own"
QUOTED = "a%20pass%3Aword%2Fof-its%40own"


def program(name: str) -> str:
    """One of PostgreSQL's; Debian does not put them on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name) or ""


class Server:
    """A server that is started, killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        secret = folder / "password"
        secret.write_text(PASSWORD)
        self.user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            for path in (folder, secret):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        self._run("initdb", "-D", f"{folder}/data", "-U", "team", "-A", "scram-sha-256", f"--pwfile={secret}")

    def _run(self, name: str, *words: str) -> None:
        subprocess.run(
            [program(name), *words], check=True, capture_output=True, user=self.user, cwd=self.folder
        )

    def start(self) -> None:
        words = ["-D", f"{self.folder}/data", "-p", str(self.port), "-k", str(self.folder), "-h", "127.0.0.1"]
        self.process = subprocess.Popen(
            [program("postgres"), *words], user=self.user, cwd=self.folder, stderr=subprocess.DEVNULL
        )
        for _ in range(600):
            try:
                shared.push(self.url(), root=self.folder / "nothing")
                return
            except UsageError:
                time.sleep(0.2)
        raise TimeoutError

    def stop(self, number: int = signal.SIGQUIT) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()

    def url(self, password: str = QUOTED) -> str:
        return f"postgresql://team:{password}@127.0.0.1:{self.port}/postgres"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if not program("initdb"):
        pytest.skip("there is no PostgreSQL here: apt install postgresql")
    with tempfile.TemporaryDirectory(prefix="laptime-postgres-") as folder:
        made = Server(Path(folder))
        made.start()
        yield made
        made.stop()


def fill(root: Path, numbers: range, name: str = "") -> None:
    for number in numbers:
        files.save(structs.replace(runs.trusted(), id=f"20260801-{number:06}-337-9f3a1c", name=name), root)


def content(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files.list_files(root)}


def test_runs_go_there_and_come_back_as_they_were(server: Server, tmp_path: Path) -> None:
    fill(tmp_path / "a", range(5))
    assert shared.push(server.url(), root=tmp_path / "a") == (5, 0, 0)
    assert shared.push(server.url(), root=tmp_path / "a") == (0, 5, 0)
    assert shared.pull(server.url(), root=tmp_path / "b") == (5, 0, 0)
    assert content(tmp_path / "b") == content(tmp_path / "a")


def test_a_wrong_password_is_refused_and_never_shown(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        shared.push(server.url("not%20the%20one"), root=tmp_path)
    text = str(error.value)
    assert "password authentication failed" in text
    assert "not the one" not in text
    assert "not%20the%20one" not in text
    assert len(text.splitlines()) == 3


def test_writers_side_by_side_lose_nothing_and_write_nothing_twice(server: Server, tmp_path: Path) -> None:
    for writer in range(8):
        fill(
            tmp_path / str(writer), range(1000 + 5 * writer, 1010 + 5 * writer)
        )  # half of it is the next one's
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda writer: shared.push(server.url(), root=tmp_path / str(writer)), range(8)))
    shared.pull(server.url(), root=tmp_path / "all")
    found = {name[:15] for name in content(tmp_path / "all")}
    assert found >= {f"20260801-{number:06}" for number in range(1000, 1045)}


def test_what_was_pushed_survives_a_kill_of_the_server_and_the_same_line_goes_on(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "a", range(2000, 2040))
    write, written = shared._Database.write, list[str]()

    def killing(self: shared._Database, name: str, data: bytes) -> None:
        if len(written) == 17:
            server.stop(signal.SIGKILL)
        write(self, name, data)
        written.append(name)

    monkeypatch.setattr(shared._Database, "write", killing)
    with pytest.raises(UsageError, match="cannot be used as a store"):
        shared.push(server.url(), root=tmp_path / "a")
    monkeypatch.undo()
    assert len(written) == 17
    server.start()
    assert shared.push(server.url(), root=tmp_path / "a") == (23, 17, 0)
    shared.pull(server.url(), root=tmp_path / "b")
    assert content(tmp_path / "b").items() >= content(tmp_path / "a").items()


@pytest.mark.slow
def test_fifty_writers_and_a_kill_of_the_server_lose_none_of_two_thousand(
    server: Server, tmp_path: Path
) -> None:
    fill(tmp_path / "one", range(1))
    (made,) = files.list_files(tmp_path / "one")
    for number in range(2000):
        home = tmp_path / f"writer{number % 50}" / "runs" / "2026-09"
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, home / f"20260901-{number:06}-337-9f3a1c.json")
    homes, begun = [tmp_path / f"writer{writer}" for writer in range(50)], threading.Event()

    def push(home: Path) -> bool:
        begun.set()
        try:
            shared.push(server.url(), root=home)
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(50) as pool:
        ended = pool.map(push, homes)
        begun.wait()
        time.sleep(1.0)
        server.stop(signal.SIGKILL)
        server.start()
        cut_off = [home for home, well in zip(homes, ended, strict=True) if not well]
    assert cut_off  # the kill met somebody
    with ThreadPoolExecutor(50) as pool:
        assert all(pool.map(push, homes))
    shared.pull(server.url(), root=tmp_path / "all")
    found = [name for name in content(tmp_path / "all") if name.startswith("20260901")]
    assert len(found) == 2000
    assert shared.push(server.url(), root=homes[7]) == (0, 40, 0)


def test_a_store_of_a_newer_laptime_is_refused(server: Server, tmp_path: Path) -> None:
    with psycopg.connect(server.url()) as connection:
        connection.execute("insert into laptime_store values (99)")
    try:
        with pytest.raises(UsageError, match="of a newer laptime") as error:
            shared.pull(server.url(), root=tmp_path)
        assert "version 99" in error.value.why
        assert len(str(error.value).splitlines()) == 3
    finally:
        with psycopg.connect(server.url()) as connection:
            connection.execute("delete from laptime_store where version = 99")
