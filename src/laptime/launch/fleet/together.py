"""One verb on several machines at once, whose programs meet (`probes.rendezvous`)."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from threading import Event as Stop
from typing import Any, cast

from laptime.records import event as events
from laptime.records.event import Event, Listener, ignore
from laptime.records.run import Run

LAST_WORDS = 3.0  # seconds after one machine has failed in which another one may tell why
Ask = Callable[[int, dict[str, Any], Listener, Stop], Run]


def carry_out_together(machines: int, ask: Ask, says_little: Callable[[Any], Any]) -> list[Run]:
    """The runs of so many machines, by their numbers. ask: carries the verb out on the machine of a number;
    it gets where the first listens, nothing if it is the first, what hears its events, and what ends it.
    Raises what `ask` raises: of several errors the one that sorts first by `says_little`."""
    plan, over = Future[dict[str, Any]](), Stop()

    def heard(event: Event) -> None:
        if isinstance(event, events.RunStarted):
            plan.set_result({name: setting.value for name, setting in event.run.plan.items()})

    with ThreadPoolExecutor(max_workers=machines) as pool, ExitStack() as stack:
        stack.callback(over.set)  # Ctrl-C, too
        runs = [pool.submit(ask, 0, {}, heard, over)]
        wait(cast(list[Future[Any]], [*runs, plan]), return_when=FIRST_COMPLETED)
        if plan.done():
            where = plan.result()
            runs += [pool.submit(ask, number, where, ignore, over) for number in range(1, machines)]
        wait(runs, return_when=FIRST_EXCEPTION)
        ended, _ = wait(runs, timeout=LAST_WORDS)
        over.set()
        if errors := [error for run in ended if (error := run.exception())]:
            raise min(errors, key=says_little)
        return [run.result() for run in runs]
