"""A peer: asked with a time limit, one or many, and how it ended; whatever it does."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from laptime.process import peer as module
from laptime.process.channel import Channel
from laptime.process.peer import Gone, Peer, Silent, receive_any
from laptime.process.program import LastWords

HEAD = """
import os, signal, subprocess, sys, time
from laptime.process import channel
parent = channel.to_parent()
"""
Start = Callable[..., Peer]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts peers by what they do; afterwards none is left, nor an open file."""
    before = psutil.Process().num_fds()
    peers: list[Peer] = []

    def of(does: str, **options: object) -> Peer:
        peers.append(Peer.start([sys.executable, "-c", HEAD + does], **options))  # type: ignore[arg-type]
        return peers[-1]

    yield of
    for peer in peers:
        peer.close()
        peer.close()
        assert not psutil.pid_exists(peer.pid)
    assert psutil.Process().num_fds() <= before


ECHO = "for message in parent: parent.send(message)"


def gone(pid: int) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def test_ask_and_answer_however_long(start: Start) -> None:
    peer = start(ECHO)
    assert peer.is_alive
    assert peer.pid > 0
    for message in (b"", b"short", b"x" * (16 << 20)):
        assert peer.ask(message, 60) == message


def test_a_peer_that_sends_before_it_reads_holds_nobody(start: Start) -> None:
    peer = start("parent.send(b'y' * (8 << 20)); parent.send(str(len(parent.receive())).encode())")
    peer.send(b"x" * (8 << 20))
    assert peer.receive(30) == b"y" * (8 << 20)
    assert peer.receive(30) == str(8 << 20).encode()


def test_silence_has_its_time_and_the_peer_may_be_asked_again(start: Start) -> None:
    peer = start("parent.receive(); time.sleep(1.0); parent.send(b'late')")
    began = time.monotonic()
    with pytest.raises(Silent):
        peer.ask(b"?", 0.3)
    assert 0.3 <= time.monotonic() - began < 10
    assert peer.is_alive
    assert peer.receive(30) == b"late"


def test_a_peer_that_never_reads_holds_nobody_beyond_its_time(start: Start) -> None:
    peer = start("time.sleep(600)")
    began = time.monotonic()
    with pytest.raises(Silent):
        peer.ask(b"x" * (8 << 20), 0.3)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("does", "how", "line"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL", ""),
        ("print('gone for lunch'); os._exit(3)", "ended with status 3", "gone for lunch"),
        ("raise ValueError('no luck')", "ended with status 1", "ValueError: no luck"),
        ("sys.exit(0)", "ended with status 0", ""),
    ],
)
def test_how_it_ended(start: Start, does: str, how: str, line: str) -> None:
    peer = start("sys.stdout.reconfigure(line_buffering=True)\n" + does)
    for _ in range(2):  # and again, however often one asks
        with pytest.raises(Gone) as caught:
            peer.ask(b"?", 30)
        assert caught.value.words.how == how
        assert caught.value.words.line == line
    assert not peer.is_alive


def test_what_it_said_before_it_ended_comes_first(start: Start) -> None:
    peer = start("parent.send(b'one'); parent.send(b'two' * 100000); os.kill(os.getpid(), signal.SIGKILL)")
    assert peer.receive(30) == b"one"
    assert peer.receive(30) == b"two" * 100000
    with pytest.raises(Gone, match="SIGKILL"):
        peer.receive(30)


def test_a_frame_that_its_end_cut_is_not_given(start: Start) -> None:
    peer = start("os.write(parent._outgoing, channel.Frames.pack(b'x' * 100)[:50]); os._exit(4)")
    with pytest.raises(Gone, match="status 4"):
        peer.receive(30)


def test_a_child_that_holds_the_stream_open_hides_no_death(start: Start) -> None:
    """A loader's worker, forked, has the descriptors of the one that was killed."""
    peer = start(
        "pid = os.fork()\n"
        "if not pid: time.sleep(600)\n"
        "parent.send(str(pid).encode())\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    child = int(peer.receive(30))
    began = time.monotonic()
    with pytest.raises(Gone, match="SIGKILL"):
        peer.receive(60)
    assert time.monotonic() - began < 10
    assert gone(child)


def test_one_that_closes_its_stream_and_lives_on_is_ended(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAVING", 0.2)
    peer = start("parent.close(); time.sleep(600)")
    with pytest.raises(Gone, match="the channel"):
        peer.receive(30)
    assert not peer.is_alive


def test_one_that_writes_into_the_stream_is_told_so(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAVING", 0.2)
    peer = start("os.write(parent._outgoing, b'Welcome to node 7\\n'); time.sleep(600)")
    with pytest.raises(Gone, match="node 7"):
        peer.receive(30)


def test_all_that_it_started_ends_with_it(start: Start) -> None:
    peer = start(
        "child = subprocess.Popen(['sleep', '600'])\nparent.send(str(child.pid).encode()); time.sleep(600)"
    )
    child = int(peer.receive(30))
    assert psutil.pid_exists(child)
    peer.end()
    assert gone(child)


def test_many_at_once_as_they_come(start: Start) -> None:
    peers = [
        start(f"time.sleep({seconds}); parent.send(b'{seconds}'); time.sleep(600)") for seconds in (2, 0)
    ]
    came = []
    for peer, message in receive_any(peers, 60):
        came.append((peers.index(peer), message))
        if len(came) == 2:
            break
    assert came == [(1, b"0"), (0, b"2")]


def test_of_many_who_is_removed_is_not_listened_to(start: Start) -> None:
    quick = start("parent.send(b'done')")  # and ends
    slow = start("time.sleep(1); parent.send(b'slow'); time.sleep(600)")
    listening, came = [quick, slow], []
    for peer, message in receive_any(listening, 60):
        came.append(message)
        listening.remove(peer)
        if not listening:
            break
    assert came == [b"done", b"slow"]


def test_of_many_one_that_ends_is_told_of_while_others_are_silent(start: Start) -> None:
    peers = [start("time.sleep(600)"), start("os._exit(9)")]
    began = time.monotonic()
    with pytest.raises(Gone, match="status 9"):
        next(receive_any(peers, 60))
    assert time.monotonic() - began < 20


def test_left_at_any_message_no_other_is_lost(start: Start) -> None:
    peer = start("for at in range(5): parent.send(str(at).encode())\nparent.receive()")
    for _, message in receive_any([peer], 30):
        if message == b"1":
            break
    assert [peer.receive(30) for _ in range(3)] == [b"2", b"3", b"4"]


def test_waiting_takes_no_processor(start: Start) -> None:
    peer = start("time.sleep(600)")
    before = time.process_time()
    with pytest.raises(Silent):
        peer.receive(1.0)
    assert time.process_time() - before < 0.1


def test_an_end_that_is_no_program_works_the_same() -> None:
    mine, theirs = (end.detach() for end in socket.socketpair())
    there = Channel(theirs, theirs)

    def answer() -> None:
        for message in there:
            there.send(json.dumps({"got": len(json.loads(message))}).encode())
            if message == b"[]":
                break
        there.close()

    thread = threading.Thread(target=answer)
    thread.start()
    with Peer(Channel(mine, mine)) as peer:
        assert (peer.is_alive, peer.pid) == (True, 0)
        assert json.loads(peer.ask(json.dumps(["x"] * 10**6).encode(), 30)) == {"got": 10**6}
        assert peer.ask(b"[]", 30) == b'{"got": 0}'
        with pytest.raises(Gone, match="the channel"):
            peer.ask(b"[]", 30)
        assert not peer.is_alive
        assert peer.ends_within(0)
    thread.join()


def test_without_descriptors_of_processes_the_end_of_the_stream_tells(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    peer = start("parent.send(b'hello'); os.kill(os.getpid(), signal.SIGKILL)")
    assert peer.receive(30) == b"hello"
    with pytest.raises(Gone, match="SIGKILL"):
        peer.receive(30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_the_start_leaves_nobody(number: signal.Signals) -> None:
    code = f"""
import os, signal
from laptime.process import peer, program
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
made = program.Process.__init__
def start(self, *words, **options):
    made(self, *words, **options)
    print(self.pid, flush=True)
    os.kill(os.getpid(), {int(number)})
program.Process.__init__ = start
with program.unwound_by_sigterm():
    peer.Peer.start(["sleep", "600"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in done.stderr
    assert gone(int(done.stdout))


def test_words_on_an_end() -> None:
    killed = LastWords(-signal.SIGKILL, "something\n")
    assert (killed.how, killed.signal, killed.sentence) == (
        "was ended by SIGKILL",
        "SIGKILL",
        "was ended by SIGKILL",
    )
    left = LastWords(2, "one\nTypeError: two\n\n")
    assert (left.signal, left.line, left.sentence) == (
        "",
        "TypeError: two",
        "ended with status 2: TypeError: two",
    )
    ours = LastWords(-signal.SIGKILL, "", "has closed the channel")
    assert (ours.signal, ours.sentence) == ("", "has closed the channel")
