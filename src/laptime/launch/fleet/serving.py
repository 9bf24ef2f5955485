"""The half of a verb that works on another machine; `node` is the half that has asked."""

import fcntl
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pkgutil import resolve_name

from msgspec import Struct, convert

from laptime.kit.errors import LaptimeError
from laptime.launch.fleet import bundle
from laptime.launch.fleet.node import BEAT, Beat, Failed, Wanted
from laptime.probes import machine
from laptime.process.channel import Closed, Lines, to_parent
from laptime.process.program import unwound_by_sigterm
from laptime.records.event import EnvironmentChanged, Progress
from laptime.store import cache
from laptime.store.encoding import DAMAGE, decode, encode


def serve(verbs: Mapping[str, tuple[str, str]], words: list[str]) -> int:
    """Carry out a verb; the exit status. words: the verb, and the name of the machine if it does one thing at
    a time. verbs: names of the request and the function of each, imported when they are asked for."""
    parent, lock, ended = to_parent(Lines()), threading.Lock(), threading.Event()

    def say(record: Struct) -> None:
        with lock:
            parent.send(encode(record))

    def fetch() -> bytes:
        say(Wanted())
        return decode(parent.receive(), bytes)

    def live() -> None:
        try:
            while not ended.wait(BEAT):
                say(Beat())
        except Closed:  # whoever has asked is gone
            os.kill(os.getpid(), signal.SIGTERM)

    if not 1 <= len(words) <= 2 or words[0] not in verbs:
        what = f"a node has no verb {' '.join(words)!r}"
        say(Failed("UsageError", what, next=f"one of {', '.join(verbs)}"))
        return 2
    try:
        with unwound_by_sigterm():
            order = parent.receive()
            threading.Thread(target=live, daemon=True).start()
            kind, verb = map(resolve_name, verbs[words[0]])
            if order.startswith(b'{"type":"code"'):
                ticket, order = decode(order, bundle.Ticket), parent.receive()
                bundle.enter(ticket, fetch)
            request = convert(decode(order, dict), kind, strict=False, dec_hook=lambda made, it: made(it))
            with _alone(words[1:], say):
                say(EnvironmentChanged(machine.environment()))
                verb(request, say)
    except LaptimeError as error:
        say(Failed(type(error).__name__, error.what, error.why, error.next))
        return error.exit_code
    except OSError as error:  # its disk is full, or may not be written
        say(Failed("Lost", f"{error.strerror}: {error.filename}"))
        return 2
    except DAMAGE as error:
        say(Failed("UsageError", "the request cannot be read", str(error).splitlines()[0]))
        return 2
    except (KeyboardInterrupt, Closed):
        return 130
    finally:
        ended.set()
    return 0


@contextmanager
def _alone(names: list[str], say: Callable[[Struct], None]) -> Iterator[None]:
    """Wait until nobody else measures on the machine of this name, whoever has asked for it."""
    for name in names:
        cache.folder().mkdir(parents=True, exist_ok=True)
        with (cache.folder() / f"{name}.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(Progress(0.0, 0.0, f"{name} is busy: another laptime measures there"))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
        return
    yield
