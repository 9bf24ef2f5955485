"""The request of `laptime tune model`: the model, the goal, the budget, and what may be tried."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from laptime import targets
from laptime.analysis.promises import promise_of_calls
from laptime.backends import onnxruntime
from laptime.kit import typed
from laptime.kit.errors import LaptimeError, Unavailable, UsageError, unknown
from laptime.kit.options import Option
from laptime.probes.host_memory import available_bytes
from laptime.records.plan import Name, Origin, Save, Variant
from laptime.store import writable
from laptime.tuning.options import Budget, Certify, DryRun, MaxMemory, Resume, Timeout, only, skip

if TYPE_CHECKING:
    from laptime.tuning.inference.changes import Interpreters
    from laptime.tuning.inference.setups import Limits


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """The request of `laptime tune model`."""

    target: str  # the model, as `laptime bench` takes it
    budget: Budget = 600.0
    allow: Annotated[
        list[Literal["precision"]],
        Option("Also try changes of this class: precision rounds to fewer bits.", repeatable=True),
    ] = field(default_factory=list)
    strict: Annotated[
        bool, Option("Try no change that rounds to fewer bits, as without --allow precision.")
    ] = False
    only: Annotated[list[str], only("model_changes")] = field(default_factory=list)
    skip: Annotated[list[str], skip("model_changes")] = field(default_factory=list)
    # latency: the median of calls; throughput: items per second; memory: the peak of its process; cost: CPU
    # seconds that an item takes
    goal: Annotated[
        Literal["throughput", "memory", "latency", "cost"],
        Option("What to improve; cost is CPU seconds per item."),
    ] = "throughput"
    batch: int = 0  # items in a call; 0: as the inputs are given
    # sizes that the final set is tried with
    batches: Annotated[
        list[int],
        Option(
            "Items in a call; of several, the best is chosen. [default: as the inputs are]",
            "N,...",
            flags="--batch",
            read=typed.integers,
        ),
    ] = field(default_factory=list)
    # numbers of processes at once that it is tried with; none: as `on` says
    instances: Annotated[
        list[int],
        Option(
            "Processes that run at once, each on its own CPUs; the best number is chosen. "
            "[default: 1; with --goal throughput on a CPU 1, 2, 4 ... up to its CPUs and memory]",
            "N,...",
            read=typed.integers,
        ),
    ] = field(default_factory=lambda: [1])
    # as `laptime bench` names it; "auto": CUDA if there is a device, else the CPU
    device: Annotated[
        str, Option("Device: cpu, cuda, cuda:1. [default: the first CUDA device, else the CPU]", "NAME")
    ] = "cpu"
    inputs: Annotated[
        str,
        Option(
            "Function that returns samples: a list or generator, the inputs of one call each.",
            "FILE.py:FUNCTION",
        ),
    ] = ""
    metric: Annotated[
        str,
        Option(
            "Function that scores a list of outputs for these samples; higher is better.", "FILE.py:FUNCTION"
        ),
    ] = ""
    slo: Annotated[
        str, Option("Latency limit of the tuned model; the upper end of the interval decides.", "20ms@p99")
    ] = ""
    export: Annotated[
        Path | None,
        Option(
            "New folder to write the tuned model to: tuned.py, which needs no laptime, and recipe.json.",
            "FOLDER",
        ),
    ] = None
    max_memory: MaxMemory = None
    certify: Certify = False
    resume: Resume = False
    dry_run: DryRun = False
    python: Annotated[
        str,
        Option("Environment that has a runtime: openvino=.venv-ov. [default: laptime's own]", "NAME=PATH"),
    ] = ""
    timeout: Timeout = 600.0
    name: Name = ""
    save: Save = True
    origins: dict[str, Origin] = field(default_factory=dict)

    def complete(self) -> ModelRequest:
        """The request with what follows from what was asked, and is not a default of every field."""
        is_of_all = "goal" in self.origins and self.goal == "throughput"
        named = self.instances if "instances" in self.origins else [] if is_of_all else [1]
        return replace(
            self,
            batch=self.batches[0] if self.batches else self.batch,
            instances=named,
            device=self.device if "device" in self.origins else "auto",
        )

    @property
    def classes(self) -> frozenset[str]:
        """Numerics classes that may be tried."""
        from laptime.tuning.inference.changes import DEFAULT  # not for `laptime tune --help`

        return DEFAULT | set(self.allow)

    @property
    def has_setups(self) -> bool:
        """Instances, threads and batch sizes are chosen, see `deployment`."""
        return self.goal == "cost" or self.has_instances or len(self.batches) > 1

    @property
    def has_instances(self) -> bool:
        """Other numbers of processes than one were named."""
        return self.instances not in ([], [1])

    def on(self, device: str, peak: int) -> ModelRequest:
        """The request once its device is known: numbers of instances that are not given are powers of two.
        peak: bytes of a process; there is room for both sides of a race."""
        from laptime.tuning.inference.setups import powers_of_two  # not for `laptime tune --help`
        from laptime.verbs.bench import variants

        if self.instances:
            return self
        is_many = device == "cpu" and self.goal in ("throughput", "cost")
        most = max(1, min(variants.room(), available_bytes() // (2 * peak))) if is_many else 1
        return replace(self, instances=powers_of_two(most))

    @property
    def is_throughput(self) -> bool:
        """Whether only the throughput of all instances together counts, and nothing limits a call."""
        return self.goal == "throughput" and not self.limits

    @property
    def place(self) -> str:
        """The device; setups are processes on CPUs, so they are looked for there unless told otherwise."""
        return "cpu" if self.device == "auto" and self.has_setups else self.device

    @property
    def interpreters(self) -> Interpreters:
        """Where runtimes are installed; raises UsageError and Unavailable as `Interpreters.of_text` does."""
        from laptime.tuning.inference.changes import Interpreters

        return Interpreters.of_text(self.python)

    @property
    def limits(self) -> Limits:
        """The limits that must be kept. Raises UsageError: the SLO is none."""
        from laptime.tuning.inference.setups import Limits  # not for `laptime tune --help`

        return Limits(promise_of_calls(self.slo) if self.slo else None, self.max_memory)


def is_model(program: str) -> bool:
    """Whether the word behind `tune` names a model: a target, or what would be no script, either."""
    suffix = Path(program).suffix.lower()
    if suffix in (".py", ".onnx") or suffix in targets.LOADERS:
        return suffix != ".py"
    with suppress(LaptimeError):
        return bool(targets.parse(program))
    with suppress(OSError), Path(program).open("rb") as file:
        return b"\0" in file.read(4096)  # a model of whatever kind, but no script
    return False


def check(request: ModelRequest) -> None:
    """Refuse what cannot be done before it costs minutes.
    Raises UsageError: the target is neither a model of PyTorch nor an ONNX file, a name is unknown, or the
    folder exists or cannot be written. Unavailable: ONNX Runtime is not installed."""
    recipe = targets.parse(request.target)
    if recipe.kind == "onnx_file":
        onnxruntime.imports(Variant(target=request.target))
    elif recipe.backend != "torch" or recipe.file:
        raise UsageError(
            f"{request.target} is neither a PyTorch model nor an ONNX file",
            why="laptime tunes torchvision:NAME, timm:NAME, file.py:FUNCTION and FILE.onnx",
            next=f"laptime bench {request.target}",
        )
    if request.strict and request.allow:
        raise UsageError(
            "--strict and --allow precision contradict each other",
            why="--strict leaves out changes that round to fewer bits",
            next="leave out one of them",
        )
    request.limits  # noqa: B018 - reads the SLO
    interpreters = request.interpreters
    _check_device(request, is_file=recipe.kind == "onnx_file")
    check_functions(request)
    _check_setups(request)
    for option, names in (("--only", request.only), ("--skip", request.skip)):
        for name in names:
            _check_change(option, name, interpreters)
    if request.export is not None and request.export.exists():
        raise UsageError(
            f"{request.export} exists already",
            why="a folder that was handed back is never overwritten",
            next=f"--export {request.export}-2",
        )
    if request.export is not None:
        writable.file(request.export, "--export")


def check_functions(request: ModelRequest) -> None:
    """`--inputs` and `--metric`: they exist, and go together."""
    from laptime.tuning.inference import samples  # not for `laptime tune --help`

    for option, text in (("--inputs", request.inputs), ("--metric", request.metric)):
        if text:
            samples.check(option, text)
    if request.inputs and request.batch:
        raise UsageError(
            "--batch and --inputs contradict each other",
            why="samples have the batch size that they are given with",
            next=f"leave out --batch, and let {request.inputs} give {request.batch} items at once",
        )
    if request.metric and not request.inputs:
        raise UsageError(
            "--metric needs --inputs",
            why="scores of random inputs mean nothing",
            next=f"--inputs data.py:samples --metric {request.metric}",
        )


def _check_change(option: str, name: str, interpreters: Interpreters) -> None:
    """Refuse a change that there is not, and one that was asked for and cannot be made here."""
    from laptime.tuning.inference.changes import names

    if name not in names():
        raise unknown("model change", name, names(), option=option, example="laptime tune --help")
    missing = interpreters.missing(name)
    if option == "--only" and missing:
        raise Unavailable(
            f"{' and '.join(missing)} not installed",
            why=f"the change {name} needs it",
            next=f"pip install {' '.join(missing)}",
        )


def _check_device(request: ModelRequest, *, is_file: bool) -> None:
    """Refuse what does not run on a GPU; that is a model of PyTorch, one process, one batch size."""
    device, kind = request.device, request.device.partition(":")[0]
    if kind not in ("auto", "cpu", "cuda"):
        raise UsageError(
            f"models are not tuned on {device!r}",
            why="the folder that is handed back runs on a CPU or a CUDA device",
            next="--device cuda   or   --device cpu",
        )
    if kind == "cuda" and is_file:
        raise UsageError(
            "ONNX files are tuned on the CPU",
            why=f"on {device} the changes are those of PyTorch models",
            next=f"laptime bench --device {device} {request.target}",
        )
    if kind == "cuda" and request.has_setups:
        what = "--goal cost" if request.goal == "cost" else "--instances and several batch sizes"
        raise UsageError(
            f"{what} and --device {device} do not go together",
            why="setups are processes on CPUs of their own, and cost is their seconds",
            next="--goal throughput --batch N   or   --device cpu",
        )


def _check_setups(request: ModelRequest) -> None:
    """Several instances and batch sizes: for goals that look at many items."""
    is_single = request.goal in ("latency", "memory")
    if is_single and request.has_setups:
        option = "--instances" if request.has_instances else "several batch sizes"
        raise UsageError(
            f"{option} and --goal {request.goal} do not go together",
            why="one call of one process is what this goal looks at",
            next="--goal throughput   or   --goal cost",
        )
    if min([*request.instances, *request.batches], default=1) < 1:
        raise UsageError("--instances and --batch must be 1 or more", why="a smaller number was given")
