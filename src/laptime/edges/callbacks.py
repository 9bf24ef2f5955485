"""The clock that all callbacks share: parts of a step by the host's clock, and what to log of them.

A mark is one reading of the clock, so a step costs a few microseconds. Nothing waits for a GPU: that would
slow the loop. On one, a part is the time in which its work was handed over; the step as a whole is right,
because the loop cannot run ahead for long."""

import os
import warnings
from collections import deque
from time import perf_counter

from laptime.edges.exports import Export, Point, Record, opened
from laptime.kit.errors import LaptimeError
from laptime.kit.units import show
from laptime.verbs.profile.block import profile as profile_of_loop

RECENT = 50  # steps behind a live number
SETTLING = 5  # first steps, which allocate, compile and tune, and are not counted


class StepClock:
    """Parts of steps: `mark("data")` ends the part `data`, `end(samples)` the step."""

    def __init__(self) -> None:
        self.steps = 0  # steps that ended, the first ones too
        self._parts: dict[str, float] = {}
        self._recent: deque[tuple[float, float, dict[str, float]]] = deque(maxlen=RECENT)
        self._last = self._began = perf_counter()

    def begin(self) -> None:
        """The loop begins, or goes on after something that is no step: validation, a checkpoint."""
        self._last = self._began = perf_counter()
        self._parts = {}

    def mark(self, part: str) -> None:
        """The time since the last mark was this part; a part may come several times in a step."""
        now = perf_counter()
        self._parts[part] = self._parts.get(part, 0.0) + now - self._last
        self._last = now

    def end(self, part: str, samples: float = 0.0) -> None:
        """The step ends with this part. samples: in this step; 0 if unknown."""
        self.mark(part)
        self.steps += 1
        if self.steps > SETTLING:
            self._recent.append((self._last - self._began, samples, self._parts))
        self._parts, self._began = {}, self._last

    def numbers(self) -> dict[str, float]:
        """The same as `metrics`, by the names they are logged under: `laptime/step_s`, `laptime/data_s`."""
        names = {"step": "step", "throughput": "samples_per"}
        return {
            f"laptime/{names.get(tag, tag.rpartition('/')[2])}_s": value for tag, value, _ in self.metrics()
        }

    def metrics(self) -> list[tuple[str, float, str]]:
        """Means of the recent steps: tag, value, unit; the step, samples per second, then the parts.

        Empty until the first steps are over."""
        count = len(self._recent)
        if not count:
            return []
        seconds = sum(step for step, _, _ in self._recent)
        samples = sum(each for _, each, _ in self._recent)
        names = dict.fromkeys(name for _, _, parts in self._recent for name in parts)
        means = {name: sum(parts.get(name, 0.0) for *_, parts in self._recent) / count for name in names}
        rate = [("throughput", samples / seconds, "1/s")] if samples else []
        parts = [(f"step/{name}", mean, "s") for name, mean in means.items()]
        return [("step", seconds / count, "s"), *rate, *parts]

    def sentence(self) -> str:
        """The same for people: `a step 12.1 ms: data 1.02 ms (8 %), ...`."""
        numbers = self.numbers()
        if not numbers:
            return f"laptime: {self.steps} steps are too few to say how long one takes"
        step = numbers.pop("laptime/step_s")
        rate = numbers.pop("laptime/samples_per_s", None)
        parts = [
            f"{name.removeprefix('laptime/').removesuffix('_s')} {show(mean, 's')} ({mean / step:.0%})"
            for name, mean in numbers.items()
        ]
        fast = f", {rate:,.0f} samples/s" if rate else ""
        return f"laptime: a step {show(step, 's')}{fast} (last {len(self._recent)} steps): {', '.join(parts)}"


class SharedStepTimes:
    """Arguments, clock, profile, export and last line of a callback. What a profile or an export cannot do is
    a warning, and never ends the training.

    Args:
        profile: profile some steps, too, and print the report when training ends.
        show: print one line when training ends.
        export: also hand the numbers to mlflow, opentelemetry, prometheus, tensorboard or wandb; of several
            ranks only the first does.
        to: file, folder or address that the export writes to; "" is its own.

    Raises:
        Unavailable: the library of the export is not installed."""

    def __init__(self, *, profile: bool = False, show: bool = True, export: str = "", to: str = "") -> None:
        super().__init__()
        self.clock = StepClock()
        self._show = show
        self._profile = profile_of_loop() if profile else None
        is_first = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"
        title = f"loop-{os.getpid()}"
        self._export: Export | None = opened(export, to, title=title) if export and is_first else None

    def _begin_loop(self) -> None:
        if self._profile is not None:
            self._profile.__enter__()
        self.clock.begin()

    def _send(self) -> dict[str, float]:
        """The numbers that are logged now; the export gets them, too, and what it raises ends no training."""
        numbers = self.clock.numbers()
        if self._export is not None and numbers:
            points = [Point(tag, value, unit) for tag, value, unit in self.clock.metrics()]
            record = Record("loop", {"target": type(self).__module__}, points, self.clock.steps)
            try:
                self._export.write(record)
            except Exception as error:  # whatever another library or its network raises
                self._export = None
                warnings.warn(f"laptime: the export has ended: {error}", stacklevel=3)
        return numbers

    def _end_loop(self) -> None:
        profile, self._profile = self._profile, None
        export, self._export = self._export, None
        place = ""
        try:
            if profile is not None:
                profile.__exit__(None, None, None)  # prints the report
        except LaptimeError as error:
            warnings.warn(str(error), stacklevel=3)
        try:
            place = export.close() if export is not None else ""
        except Exception as error:  # as above
            warnings.warn(f"laptime: the export has ended: {error}", stacklevel=3)
        if self._show:
            print(self.clock.sentence())
            if place:
                print(f"laptime: numbers: {place}")
