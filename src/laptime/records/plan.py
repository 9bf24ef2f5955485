"""The plan of a run: effective settings with their origin, and the variants that a worker loads."""

from typing import Annotated, Any, Literal

from msgspec import Struct, field

from laptime.kit import typed, units
from laptime.kit.errors import UsageError
from laptime.kit.options import Option
from laptime.records.case import Axis
from laptime.records.series import Regime

OPTIMIZERS = ("sgd", "adamw")  # what a training step can be measured with
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
Origin = Literal["flag", "preset", "default", "argument", "machine"]
Name = Annotated[str, Option("Name of this run: laptime show TEXT.", "TEXT", read=typed.run_name)]
Save = Annotated[bool, Option("Do not store the run.")]
Module = Annotated[bool, Option("Run a module, as `python -m` does.", flags="-m")]
STEPS = ("optimizer", "loader", "forward")  # what the end of a step can be told by


class Setting(Struct, frozen=True, kw_only=True):
    """An effective value, and where it came from."""

    value: Any
    origin: Origin = "default"


class Variant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model that one worker process loads; its batch sizes are cases inside it."""

    target: str  # as the user wrote it
    backend: str = "torch"  # name of the framework file that runs it
    python: str = ""  # interpreter of its worker, as the user wrote it; "" is laptime's own
    device: str = "cpu"  # cpu, cuda:0, mps ..
    dtype: str = "float32"  # float32, bfloat16, float16
    threads: int | None = None  # intra-op threads; None leaves the framework's default
    channels_last: bool = False  # memory format NHWC for 4-d inputs and weights
    compile: str = ""  # "" for eager, else the mode of torch.compile ("default", "reduce-overhead", ...)
    train: str = ""  # "" for inference, else the optimizer ("sgd", "adamw"): a call is then one full step
    seed: int = 0  # seeds weights and inputs, so that two processes measure the same program
    # a backend's own settings, by the names in its `OPTIONS`; `shape`: sizes of an input without the batch,
    # or of a named dimension, by name; `again`: the number of a twin in an A/A comparison; `instances`:
    # copies that run at the same time
    options: dict[str, Any] = {}

    def axes(self) -> dict[str, Axis]:
        """The axis values of this variant; those at their default are left out, except dtype and device."""
        axes: dict[str, Axis] = {"dtype": self.dtype, "device": self.device}
        for name, default in {"threads": None, "channels_last": False, "compile": "", "train": ""}.items():
            if (value := getattr(self, name)) != default:
                axes[name] = value
        if self.backend != "torch":
            axes["backend"] = self.backend
        for name, value in self.options.items():
            if name == "shape":
                axes[name] = " ".join(f"{of}={'x'.join(map(str, sizes))}" for of, sizes in value.items())
            elif name != "again":
                axes[name] = value
        return axes


class BenchRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything `laptime bench` can be asked, validated by `verbs.bench.planning`.

    Values that are None come from the preset; `origins` tells which ones the user gave."""

    targets: list[str]  # as typed; the first is the baseline of comparisons
    # None is the batch of the inputs as they were given, 1 if inputs are made
    batch: Annotated[
        list[int] | Literal["auto", "auto:linear"] | None,
        Option(
            "Batch sizes; auto finds the largest that fits, and the knee. [default: that of the inputs]",
            "N,... | auto",
            read=typed.batches,
        ),
    ] = None
    device: Annotated[str, Option("Device: cpu, cuda:0, mps ... [default: the fastest]", "NAME")] = "auto"
    dtype: Annotated[
        list[str],
        Option("Data types: float32, bfloat16, float16. [default: float32]", "NAME,...", read=typed.dtypes),
    ] = field(default_factory=lambda: ["float32"])
    threads: Annotated[list[int], Option("Threads of one operator.", "N,...", read=typed.integers)] = []
    instances: Annotated[
        list[int],
        Option(
            "Copies that run at once, each on its own CPUs; the throughput is that of all copies.",
            "N,...",
            read=typed.integers,
        ),
    ] = []
    channels_last: Annotated[bool, Option("Use the memory format NHWC (channels last).")] = False
    compile: Annotated[
        str,
        Option(
            f"Compile the model first: {', '.join(COMPILE_MODES)}.",
            "[MODE]",
            choices=COMPILE_MODES,
            bare="default",
        ),
    ] = ""
    # "" measures inference
    train: Annotated[
        str,
        Option(
            f"Measure full training steps on made-up data: {', '.join(OPTIMIZERS)}.",
            "[OPTIMIZER]",
            choices=OPTIMIZERS,
            bare="sgd",
        ),
    ] = ""
    # a share, 0.01 is 1 %
    precision: Annotated[
        float | None,
        Option(
            "Stop when the 95 % interval is at most ± this wide. [default: by preset]",
            "PERCENT",
            read=units.share,
        ),
    ] = None
    # in the whole command
    budget: Annotated[
        float | None,
        Option(
            "Stop measuring after this time: 60s, 2m, 1.5h. [default: by preset]", "TIME", read=units.seconds
        ),
    ] = None
    preset: Annotated[Literal["quick", "standard", "strict"], Option("Trade precision for time.")] = (
        "standard"
    )
    regimes: Annotated[
        list[str],
        Option(
            "isolated (one call at a time), saturated (back to back), device (by its own clock), paced "
            "(at --rate). [default: those that the device supports]",
            "NAME,...",
            flags="--regime",
            read=typed.words,
        ),
    ] = []
    rate: Annotated[float | None, Option("Calls per second of the paced regime.", "PER_SECOND")] = None
    processes: Annotated[int | None, Option("New processes for each variant.", "N")] = None
    # of any one step: load, first call, block
    timeout: Annotated[float, Option("Fail a step that takes longer.", "TIME", read=units.seconds)] = 120.0
    backends: Annotated[
        list[str],
        Option(
            "Frameworks; each measures the targets that it can run. [default: by target]",
            "NAME,...",
            flags="--backend",
            read=typed.backends,
            completes="backends",
        ),
    ] = []
    python: Annotated[
        dict[str, str],
        Option(
            "Run a framework in another environment: tensorflow=.venv-tf/bin/python. Repeatable.",
            "BACKEND=PATH",
            read=typed.interpreters,
            repeatable=True,
        ),
    ] = {}
    # several values of a setting are measured side by side, and so are several `instances`
    options: Annotated[
        dict[str, list[Any]],
        Option(
            "Set an option of the framework: hint=latency,throughput. Repeatable.",
            "NAME=VALUE,...",
            flags="--option",
            read=typed.settings,
            repeatable=True,
        ),
    ] = {}
    shapes: Annotated[
        dict[str, list[int]],
        Option(
            "Set sizes that a model file leaves open, of an input without batch or a dimension. Repeatable.",
            "NAME=3x224x224",
            flags="--shape",
            read=typed.shapes,
            repeatable=True,
        ),
    ] = {}
    seed: Annotated[int, Option("Seed of weights and inputs.", "N")] = 0
    name: Name = ""
    save: Save = True
    timing_only: bool = False  # no separate passes (FLOPs, memory, copies, energy) after the timing
    origins: dict[str, Origin] = {}

    def check(self) -> None:
        """Refuse options that do not go together, whatever the targets are.
        Raises UsageError: a rate, and no regime that keeps it."""
        if self.rate is not None and self.regimes and Regime.PACED not in self.regimes:
            raise UsageError(
                f"--rate needs the {Regime.PACED} regime",
                why=f"--regime {','.join(self.regimes)} makes no calls on a schedule",
                next=f"--regime {','.join([*self.regimes, Regime.PACED])} --rate {self.rate:g}",
            )


class Constants(Struct, frozen=True, kw_only=True):  # writes its defaults, too: they may change
    """The defaults are today's; files of versions that did not store them are read with these."""

    # so many undisturbed samples tell the level better than a majority of disturbed ones
    few_samples: int = 3
    # half-width, as a share, up to which a CPU's saturated throughput is taken as it is
    sound_throughput: float = 0.05
    # rounds of a tuning session's control from which a difference in it widens the margin
    control_rounds: int = 6
    widest_margin: float = 0.1  # what a control can widen the margin to at most, as a share of a step


TODAY = Constants()
