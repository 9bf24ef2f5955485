"""What is asked for: effective settings with their origin, and the variants that a worker loads."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from laptime.records.case import Axis

OPTIMIZERS = ("sgd", "adamw")
"""What a training step can be measured with."""

Origin = Literal["flag", "preset", "default", "argument", "machine"]


class Setting(Struct, frozen=True, kw_only=True):
    """An effective value, and where it came from."""

    value: Any
    origin: Origin = "default"


class Variant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one worker process loads; its batch sizes are cases inside it.

    Attributes:
        target: as the user wrote it.
        backend: name of the framework file that runs it.
        python: interpreter of its worker, as the user wrote it; "" is laptime's own.
        device: cpu, cuda:0, mps ...
        dtype: float32, bfloat16, float16.
        threads: intra-op threads; None leaves the framework's default.
        channels_last: memory format NHWC for 4-d inputs and weights.
        compile: "" for eager, else the mode of torch.compile ("default", "reduce-overhead", ...).
        train: "" for inference, else the optimizer ("sgd", "adamw"): a call is then one full step.
        seed: seeds weights and inputs, so that two processes measure the same program.
        options: a backend's own settings, by the names in its `OPTIONS`; `shape`: sizes of an input without
            the batch, or of a named dimension, by name; `again`: the number of a twin in an A/A comparison;
            `instances`: copies that run at the same time.
    """

    target: str
    backend: str = "torch"
    python: str = ""
    device: str = "cpu"
    dtype: str = "float32"
    threads: int | None = None
    channels_last: bool = False
    compile: str = ""
    train: str = ""
    seed: int = 0
    options: dict[str, Any] = {}

    def axes(self) -> dict[str, Axis]:
        """The axis values of this variant; those at their default are left out, except dtype and device."""
        axes: dict[str, Axis] = {"dtype": self.dtype, "device": self.device}
        if self.threads is not None:
            axes["threads"] = self.threads
        if self.channels_last:
            axes["channels_last"] = True
        if self.compile:
            axes["compile"] = self.compile
        if self.train:
            axes["train"] = self.train
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

    Values that are None come from the preset; `origins` tells which ones the user gave.

    Attributes:
        targets: as typed; the first is the baseline of comparisons.
        batch: sizes, or "auto" / "auto:linear" for the search; None: that of the inputs as they were given, 1
            where inputs are made.
        precision: half-width of the 95 % interval asked for, as a share (0.01 is 1 %).
        budget: seconds of measuring in the whole command.
        regimes: isolated, saturated, device, paced; empty takes what the device offers.
        rate: calls per second of the paced regime.
        processes: fresh processes of each variant.
        timeout: seconds that any one step (load, first call, block) may take before it counts as hung.
        backends: frameworks to run the targets with, those that can; empty: the one that each target implies.
        python: interpreter of a backend's workers, by backend; laptime's own where none is named.
        options: values of backends' own settings by name; several are measured side by side.
        shapes: sizes that a model file leaves open: of an input without the batch, or of a dimension.
        save: keep the run under .laptime/.
        train: an optimizer of OPTIMIZERS measures full training steps; "" inference.
        instances: copies of the program that run at the same time; several numbers are measured side by side.
        timing_only: no separate passes (FLOPs, memory, copies, energy) after the timing.
    """

    targets: list[str]
    batch: list[int] | Literal["auto", "auto:linear"] | None = None
    device: str = "auto"
    dtype: list[str] = field(default_factory=lambda: ["float32"])
    threads: list[int] = []
    channels_last: bool = False
    compile: str = ""
    precision: float | None = None
    budget: float | None = None
    preset: Literal["quick", "standard", "strict"] = "standard"
    regimes: list[str] = []
    rate: float | None = None
    processes: int | None = None
    timeout: float = 120.0
    backends: list[str] = []
    python: dict[str, str] = {}
    train: str = ""
    options: dict[str, list[Any]] = {}
    instances: list[int] = []
    shapes: dict[str, list[int]] = {}
    seed: int = 0
    name: str = ""
    save: bool = True
    timing_only: bool = False
    origins: dict[str, Origin] = {}
