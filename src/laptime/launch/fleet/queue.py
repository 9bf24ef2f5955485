"""Which machine does what next: one job at a time, and a job whose machine was lost goes to one alike."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from queue import SimpleQueue
from threading import Event as Stop
from typing import TypeVar

from laptime.kit.errors import Died
from laptime.launch.fleet import Machine
from laptime.launch.fleet.node import Lost, run_on
from laptime.records.environment import Environment
from laptime.records.run import Run

MOST_TRIES = 2  # machines that a case is lost with before it is given up
_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


class Queue:
    """Jobs that wait for a machine; it starts nothing and has no clock."""

    def __init__(self, jobs: int) -> None:
        self.left = deque(range(jobs))  # numbers of the jobs that wait
        self.lost: dict[int, list[str]] = {}  # of each job that lost a machine, the machines
        self.out: set[str] = set()  # machines that are not asked any more

    def next(self, machine: str, is_alike: Callable[[str, str], bool]) -> int | None:
        """The number of the job that a machine does next; None if there is none for it.
        is_alike: whether two machines have equal hardware, so that one may stand for the other."""
        for number in [] if machine in self.out else self.left:
            before = self.lost.get(number, [])
            if machine not in before and all(is_alike(machine, other) for other in before):
                self.left.remove(number)
                return number
        return None

    def back(self, number: int, machine: str) -> bool:
        """A machine was lost with this job; whether the job waits for another one."""
        self.out.add(machine)
        self.lost.setdefault(number, []).append(machine)
        if len(self.lost[number]) >= MOST_TRIES:
            return False
        self.left.appendleft(number)
        return True


RunOn = partial[Run]  # `run_on` of a machine: takes a verb, a request and a listener


def carry_out_one(machines: Sequence[Machine], do: Callable[[RunOn], _Result]) -> _Result:
    """Do one job on the first of the machines that is not lost. Raises Died: none could."""
    ended: list[_Result | str] = []
    carry_out([None], machines, lambda _, run: do(run), done=lambda _, result: ended.append(result))
    (result,) = ended
    if isinstance(result, str):
        raise Died(result, next="laptime doctor --on   visits each machine")
    return result


def carry_out(
    jobs: Sequence[_Job],
    machines: Sequence[Machine],
    do: Callable[[_Job, RunOn], _Result],
    *,
    done: Callable[[int, _Result | str], None],
) -> None:
    """Do all jobs on the machines, each in a thread for its machine.
    do: carries a job out by `run_on` of a machine. Raises Lost: the machine is gone. done: gets the
    number of each job that has ended, and its result, or why nobody could do it; in this thread."""
    queue, running, stop = Queue(len(jobs)), dict[Future[_Result], tuple[int, Machine]](), Stop()
    ended = SimpleQueue[Future[_Result]]()  # `wait` looks at every machine each time one of them has ended
    hardware, why = dict[str, str](), dict[int, str]()

    def learn(name: str, environment: Environment) -> None:
        hardware[name] = environment.hardware

    def is_alike(one: str, other: str) -> bool:
        return one not in hardware or other not in hardware or hardware[one] == hardware[other]

    with ThreadPoolExecutor(max_workers=len(machines)) as pool, ExitStack() as stack:
        stack.callback(stop.set)  # Ctrl-C: nothing is left running
        free = list(machines)
        while True:
            for machine in [*free]:
                number = queue.next(machine.name, is_alike)
                if number is not None:
                    free.remove(machine)
                    run = partial(run_on, machine, known=partial(learn, machine.name), stop=stop.is_set)
                    future = pool.submit(do, jobs[number], run)
                    running[future] = (number, machine)
                    future.add_done_callback(ended.put)
            if not running:
                break
            number, machine = running.pop(future := ended.get())
            free.append(machine)
            try:
                done(number, future.result())
            except Lost as lost:
                why[number] = f"{lost}; no other machine of that kind is left"
                if not queue.back(number, machine.name):
                    done(number, f"lost with {', '.join(queue.lost[number])}: {lost}")
        for number in queue.left:
            names = ", ".join(queue.lost.get(number, []) or [machine.name for machine in machines])
            done(number, f"lost with {names}: {why.get(number, 'none is left')}")
