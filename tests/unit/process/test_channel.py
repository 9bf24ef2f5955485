"""Two ends of a channel: whatever carries the bytes, and however they are cut, the same messages come out."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.process import channel as module
from laptime.process.channel import Channel, Closed, Frames, Garbled, Late

Ends = tuple[Channel, Channel]


def over_sockets() -> Ends:
    one, other = (end.detach() for end in socket.socketpair())
    return Channel(one, one), Channel(other, other)


def over_pipes() -> Ends:
    (in_one, out_other), (in_other, out_one) = os.pipe(), os.pipe()
    return Channel(in_one, out_one), Channel(in_other, out_other)


@pytest.fixture(params=[over_sockets, over_pipes])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    make: Callable[[], Ends] = request.param
    one, other = make()
    yield one, other
    one.close()
    other.close()
    other.close()


@given(st.lists(st.binary(max_size=200), max_size=20), st.data())
def test_however_the_stream_is_cut_the_same_messages_come(messages: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(Frames.pack, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=30)))
    frames, came = Frames(), []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        frames.add(stream[begin:end])
        while (message := frames.take()) is not None:
            came.append(message)
    assert came == messages
    assert not frames.is_whole


@given(st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF), min_size=8))
def test_text_is_no_message(text: str) -> None:
    frames = Frames()
    frames.add(text.encode())
    with pytest.raises(Garbled, match="no message"):
        frames.take()


def test_a_frame_without_its_end_is_no_message() -> None:
    frames, whole = Frames(), Frames.pack(b"x" * 100)
    for at in range(len(whole)):
        assert frames.take() is None
        frames.add(whole[at : at + 1])
    assert frames.take() == b"x" * 100


def test_messages_go_both_ways_in_order(ends: Ends) -> None:
    one, other = ends
    for message in (b"first", b"", b"\n\x00\xff"):
        one.send(message)
    assert [other.receive(1) for _ in range(3)] == [b"first", b"", b"\n\x00\xff"]
    other.send(b"answer")
    assert one.receive(1) == b"answer"


def test_long_messages_in_both_directions_at_once_wait_for_nobody(ends: Ends) -> None:
    """Neither end reads before it has sent all: pipes alone would hold both for ever."""
    one, other = ends
    size = 8 << 20
    heard: dict[bytes, list[bytes]] = {}

    def talk(end: Channel, letter: bytes) -> None:
        for _ in range(2):
            end.send(letter * size, 60)
        heard[letter] = [end.receive(60) for _ in range(2)]

    thread = threading.Thread(target=talk, args=(other, b"b"))
    thread.start()
    talk(one, b"a")
    thread.join(60)
    assert heard == {b"a": [b"b" * size] * 2, b"b": [b"a" * size] * 2}


def test_time_limits_hold_to_read_and_to_write(ends: Ends) -> None:
    one, other = ends
    began = time.monotonic()
    with pytest.raises(Late):
        one.receive(0.1)
    assert 0.1 <= time.monotonic() - began < 5
    with pytest.raises(Late):
        one.send(b"x" * (16 << 20), 0.1)  # nobody reads
    with pytest.raises(Closed, match="in part"):  # what follows would be taken for the rest of it
        one.send(b"short")
    other.send(b"still heard")
    assert one.receive(1) == b"still heard"


def test_a_time_limit_is_for_the_whole_message_not_for_each_part_of_it() -> None:
    mine, theirs = socket.socketpair()
    end = mine.detach()
    channel = Channel(end, end)
    stop = threading.Event()

    def drip() -> None:
        theirs.sendall(Frames.pack(b"x" * 1000)[:20])
        while not stop.wait(0.02):
            theirs.sendall(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    began = time.monotonic()
    with pytest.raises(Late):
        channel.receive(0.3)
    stop.set()
    thread.join()
    assert time.monotonic() - began < 3
    channel.close()
    theirs.close()


def test_what_was_said_before_the_end_is_heard(ends: Ends) -> None:
    one, other = ends
    other.send(b"last words")
    other.close()
    assert one.is_spoken_to()
    assert one.receive(1) == b"last words"
    assert one.is_spoken_to()  # the end of all is news, too
    with pytest.raises(Closed):
        one.receive(1)
    with pytest.raises(Closed):
        one.send(b"x")
    assert list(one) == []


def test_a_message_that_was_cut_by_the_end_is_none() -> None:
    mine, theirs = socket.socketpair()
    descriptor = mine.detach()
    channel = Channel(descriptor, descriptor)
    theirs.sendall(Frames.pack(b"whole") + Frames.pack(b"half of it")[:12])
    theirs.close()
    assert list(channel) == [b"whole"]
    channel.close()


def test_asking_whether_somebody_speaks_takes_nothing_away(ends: Ends) -> None:
    one, other = ends
    assert not one.is_spoken_to()
    other.send(b"first")
    other.send(b"second")
    assert one.is_spoken_to()
    assert list(filter(None, (one.taken(), one.taken(), one.taken()))) == [b"first", b"second"]
    assert not one.is_spoken_to()


CHILD = """
import importlib.util, os, subprocess, sys
spec = importlib.util.spec_from_file_location("channel", sys.argv[1])
channel = importlib.util.module_from_spec(spec)
spec.loader.exec_module(channel)
parent = channel.to_parent()
print("printed")
os.write(1, b"written")
subprocess.run(["echo", "by a child"])
assert sys.stdin.read() == ""
os.closerange(0, 20)
for message in parent:
    parent.send(message.upper())
"""


def test_a_program_without_laptime_speaks_and_what_it_prints_is_no_message() -> None:
    words = [sys.executable, "-I", "-c", CHILD, str(Path(module.__file__))]
    child = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    channel = Channel(os.dup(child.stdout.fileno()), os.dup(child.stdin.fileno()))
    child.stdin.close()
    child.stdout.close()
    channel.send(b"hello")
    assert channel.receive(30) == b"HELLO"
    channel.close()  # it has nobody to listen to any more, and ends
    assert child.wait(30) == 0
    said = child.stderr.read()
    assert b"written" in said
    assert b"by a child" in said
    child.stderr.close()


def test_the_channel_is_the_standard_library_alone() -> None:
    code = (
        "import sys, runpy; before = set(sys.modules); runpy.run_path(sys.argv[1]);"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, module.__file__], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
