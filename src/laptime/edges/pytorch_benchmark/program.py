"""Functions of the user's as programs that laptime's engine measures, a fixed number of times each."""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import structs

from laptime.kit.errors import UserCodeError
from laptime.kit.registry import load as extension
from laptime.launch.worker import CommandFailed, InProcessWorker
from laptime.measure import protocol
from laptime.measure.engine import Engine
from laptime.measure.labels import relabel
from laptime.records.case import Case
from laptime.records.plan import Variant

T = TypeVar("T")
_ATTEMPTS = 4
"""Blocks measured at most while the level has not settled; then the last runs are taken, and labelled."""
_BLOCK = 1.0  # seconds; the counters beside the samples are read at its ends at least
_NO_LIMIT = 1e9  # seconds; in this process nobody could end a call that hangs


class Held:
    """An input that is passed on as it is: the user's own functions made it, on the device they chose."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Subject:
    """A function of the user's, called with one argument, whatever that is. Keeps the error it raised.

    The backend finds the modules of a callable among its attributes; those given are shown to it there, the
    function itself lies in a slot where it is not looked into."""

    __slots__ = ("__dict__", "_call", "error")

    def __init__(self, call: Callable[[Any], Any], modules: list[Any]) -> None:
        self._call = call
        self.error: Exception | None = None
        for index, module in enumerate(modules):
            setattr(self, f"module_{index}", module)

    def __call__(self, held: Held) -> Any:
        try:
            return self._call(held.value)
        except Exception as error:
            self.error = error
            raise


class Runner:
    """One function with an input of each batch size, loaded into an engine of this process.

    call: takes the input. prepare: the input of a batch size; called once for each. modules: modules that
    `call` runs, all of them on the device. device: as frameworks name it; what is waited for.

    Errors that the user's functions raise come out as they are."""

    def __init__(
        self,
        call: Callable[[Any], Any],
        prepare: Callable[[int], Any],
        *,
        modules: list[Any],
        device: str,
        name: str,
    ) -> None:
        self._subject = Subject(call, modules)
        self._inputs: dict[int, tuple[Held]] = {}
        self._make = prepare
        self._session = InProcessWorker(Engine(self._open))
        self._variant = Variant(target=name, device=device, dtype="auto")
        self._failed: Exception | None = None
        self._blocks = 0
        self.loaded = self._only(protocol.Loaded, self._ask(protocol.Load(variant=self._variant)))

    def _open(self, variant: Variant) -> protocol.Model:
        backend = extension("backends", variant.backend)
        return backend.open_object(self._subject, self._input, variant)  # type: ignore[no-any-return]

    def _input(self, batch: int) -> tuple[Held]:
        if batch not in self._inputs:
            try:
                self._inputs[batch] = (Held(self._make(batch)),)
            except Exception as error:
                self._failed = error
                raise
        return self._inputs[batch]

    def prepare(self, batch: int) -> None:
        """Make the input and call once, before anything is timed."""
        self._ask(protocol.Prepare(batch=batch))

    def time(self, batch: int, *, regime: str, runs: int, virtual: bool) -> Case:
        """`runs` calls after the level has settled, and those before it, labelled; series of one case.

        The calls to settle in are a tenth of the runs at first. When the level changed later than that, as
        many runs follow as are missing, a few times at most."""
        case = Case(key=self._variant.target, target=self._variant.target, axes={"batch": batch})
        missing = runs + max(1, runs // 10)
        for _ in range(_ATTEMPTS):
            done = 0
            while done < missing:
                block = protocol.Block(
                    batch=batch, regime=regime, seconds=_BLOCK, min_calls=1, max_calls=missing - done
                )
                number = self._blocks = self._blocks + 1
                told = self._only(protocol.Samples, self._ask(block)).series
                for series in told:
                    case = case.with_series(structs.replace(series, round=[number] * len(series.samples)))
                done += len(told[0].samples)
            case, steady = relabel(case, virtual=virtual)
            latency = case.find("latency", regime)
            missing = runs - ((len(latency.samples) if latency else 0) - steady[regime][0].start)
            if missing <= 0:
                break
        return case

    def facts(self, kind: str, batch: int, *, seconds: float = 0.0) -> protocol.Facts:
        """A separate pass of the engine: memory, energy, outputs."""
        return self._only(protocol.Facts, self._ask(protocol.Pass(kind=kind, batch=batch, seconds=seconds)))

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *reason: object) -> None:
        """Let go of the inputs and undo what was changed."""
        self._session.close()
        self._inputs.clear()

    def _ask(self, command: protocol.Command) -> list[protocol.Message]:
        try:
            return self._session.ask(command, timeout=_NO_LIMIT)
        except CommandFailed as error:
            self.__exit__()
            if users := self._subject.error or self._failed:
                raise users from None
            failure = error.failure
            raise UserCodeError(failure.what, why=failure.why, next=failure.next) from error

    @staticmethod
    def _only(kind: type[T], messages: list[protocol.Message]) -> T:
        return next(message for message in messages if isinstance(message, kind))


def move_times(case: Case, *, start: float) -> Case:
    """The case with times counted from the start of the run."""
    series = [structs.replace(s, at=[at - start for at in s.at]) if s.at else s for s in case.series]
    return structs.replace(case, series=series)


def first_item(sample: Any, batch_size: int) -> Any:
    """The first item of a sample: tensors and arrays cut along dimension 0, dtypes and values kept.

    Cut are those as long as the batch; if none is, those as long as the leading dimension that most share."""
    from laptime.backends.torch import tensors

    if tensors.is_item_list(sample):
        return sample[:1]
    lengths = {int(leaf.shape[0]) for leaf in tensors.leaves(sample) if _has_length(leaf)}
    length = batch_size if batch_size in lengths else tensors.batch_of(sample)
    return tensors.map_leaves(
        lambda leaf: leaf[:1] if _has_length(leaf) and leaf.shape[0] == length else leaf, sample
    )


def _has_length(leaf: Any) -> bool:
    from laptime.backends.torch import tensors

    return (tensors.is_tensor(leaf) or tensors.is_array(leaf)) and leaf.ndim > 0
