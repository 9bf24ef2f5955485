"""Drop-in for `pytorch_benchmark.benchmark` (release 0.3.6): same arguments, same keys, right values.

    from laptime.compat.pytorch_benchmark import benchmark    # was: from pytorch_benchmark import benchmark
    results = benchmark(model, sample, num_runs=100)

What differs in value, and why, is told in docs/pytorch-benchmark.md and in `benchmark`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import structs

import laptime
from laptime.compat import _plain, _results
from laptime.compat._program import Program, first_item, moved_to
from laptime.kit.clock import utc_now
from laptime.kit.errors import UsageError
from laptime.probes import machine
from laptime.records.case import Axis, Case, case_key
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.metric import Metric
from laptime.records.plan import Setting
from laptime.records.run import Run, Subject
from laptime.records.series import Series
from laptime.store.folder import new_id
from laptime.verbs.finish import findings, judged

if TYPE_CHECKING:
    import torch

logger = logging.getLogger("torch-benchmark")  # its name is part of the interface: users configure it

PARTS = {
    "cpu_to_gpu": "copy of the input to the device, waited for",
    "gpu_to_cpu": "copy of the output from the device, waited for",
    "total": "copy in, call and copy out, waited for once at the end",
}


def get_device(model: Any) -> torch.device:
    """The device of the first parameter or buffer found in a model (or in a method's owner); else the CPU."""
    import torch

    for module in _modules(model):
        for tensor in (*module.parameters(), *module.buffers()):
            place: torch.device = tensor.device
            return place
    return torch.device("cpu")


def to_device(value: Any, device: Any) -> Any:
    """Every tensor of a nested structure (list, tuple, mapping, dataclass) moved; dtypes stay."""
    import torch

    from laptime.backends.torch import tensors

    return tensors.moved(value, torch.device(device))


def benchmark(
    model: Any,
    sample: Any,
    num_runs: int = 100,
    print_details: bool = False,
    get_device_fn: Callable[[Any], Any] = get_device,
    transfer_to_device_fn: Callable[[Any, Any], Any] = to_device,
    sample_with_batch_size1: Any = None,
    batch_size: int | None = None,
    print_fn: Callable[[str], Any] = logger.info,
    warm_up_fn: Callable[..., Any] | None = None,
) -> dict[str, Any]:
    """Measure a model at batch size 1 and at that of `sample`.

    Args:
        model: a module, any callable, or a method of an object that holds modules. Called as
            `model(transfer_to_device_fn(sample, device))`, in eval and inference mode.
        sample: input, any nested structure.
        num_runs: timed runs of each program at each batch size; warm-up comes on top of them.
        print_details: also print what was counted and laptime's own report.
        get_device_fn: model -> torch.device.
        transfer_to_device_fn: (input or output, device or "cpu") -> the same there.
        sample_with_batch_size1: input with one item; cut from `sample` when not given.
        batch_size: items in `sample`; its leading dimension when not given.
        print_fn: hears every result as text.
        warm_up_fn: called as (model, sample, device, transfer_to_device_fn, num_runs=, batch_size=) before
            timing. Without it, and after it, warm-up is found in the samples.

    Returns:
        machine_info: system, cpu, memory, gpus. device: "cpu", "cuda" ... params: all parameters;
        trainable_params: those with a gradient.
        flops: FLOPs of one call with one item, 2 x MACs. (pytorch-benchmark gives MACs under this name.)
        macs: the MACs.
        timing.batch_size_N.on_device_inference: seconds of a call; on CUDA those on the device itself,
            between events, without the host's part. On devices with memory of their own also cpu_to_gpu,
            gpu_to_cpu and total (wall time, host's part included), each timed by itself. Each has metrics
            (see `_results.timing`) of all `num_runs` runs, disturbed ones too, and human_readable.
        memory.batch_size_N (CUDA): bytes before, at the peak of, and after a warm call with its copies.
        energy.batch_size_N (where a sensor was read): joules and kWh of a call with its copies.
        laptime: verdict, reasons, medians with 95 % intervals by regime, and the whole run.

    Raises:
        UsageError: the batch size cannot be told, or the device is no torch.device.
        Exception: whatever the model or the functions raise; training flags are restored first.
    """
    if num_runs < 1:
        raise UsageError(
            f"num_runs={num_runs} measures nothing", why="it must be 1 or more", next="num_runs=100"
        )
    sample = transfer_to_device_fn(sample, "cpu")
    size = batch_size or _batch_of(sample)
    one = sample_with_batch_size1 if sample_with_batch_size1 is not None else first_item(sample, size)
    with _evaluating(model):
        work = _Benchmark(
            model,
            {1: one, **({size: sample} if size > 1 else {})},
            device=_device(get_device_fn(model)),
            transfer=transfer_to_device_fn,
            runs=num_runs,
            say=print_fn,
            warm_up=warm_up_fn,
        )
        return work.results(details=print_details)


class _Benchmark:
    """One call of `benchmark`.

    Args:
        samples: input on the host by batch size.
        say: hears every result as text.
    """

    def __init__(
        self,
        model: Any,
        samples: dict[int, Any],
        *,
        device: torch.device,
        transfer: Callable[[Any, Any], Any],
        runs: int,
        say: Callable[[str], Any],
        warm_up: Callable[..., Any] | None,
    ) -> None:
        self._model = model
        self._samples = samples
        self._device = device
        self._transfer = transfer
        self._runs = runs
        self._say = say
        self._warm_up = warm_up
        self._started = time.perf_counter()
        self._begun = utc_now()
        self._name = str(getattr(model, "__qualname__", None) or type(model).__name__)
        self._environment: Environment = machine.environment()
        self._cases: dict[int, Case] = {}
        self._counted: list[Series] = []
        self._receipt: dict[str, Any] = {}
        self._why_no_energy: dict[str, Any] = {}

    def results(self, *, details: bool) -> dict[str, Any]:
        """Measure everything, say it, and return it."""
        found: dict[str, Any] = {"machine_info": _results.machine_info(self._environment)}
        self._tell({"Machine info": found["machine_info"]})
        found["device"] = self._device.type
        self._say(f"Model device: {self._device}")
        counted = self._count()
        found |= counted
        for key, title in (
            ("params", "Model parameters"),
            ("flops", "Model FLOPs"),
            ("macs", "Model MACs"),
        ):
            if key in counted:
                self._say(f"{title}: {counted[key]} ({_plain.number(counted[key])})")
        timing = self._time_calls()
        if self._has_own_memory:
            for batch, parts in self._time_copies().items():
                timing[batch] |= parts
        memory, energy = self._passes(timing)
        for title, part in (("Timing", timing), ("Memory", memory), ("Energy", energy)):
            for batch, result in sorted(part.items()):
                self._tell({f"{title} results (batch_size={batch})": result})
        found["timing"] = _results.by_batch(timing)
        if memory:
            found["memory"] = _results.by_batch(memory)
        if energy:
            found["energy"] = _results.by_batch(energy)
        found["laptime"] = self._conclude(details=details)
        return found

    @property
    def _has_own_memory(self) -> bool:
        return self._device.type != "cpu"

    def _tell(self, data: dict[str, Any]) -> None:
        self._say(_plain.block(data))

    def _exposed(self) -> list[Any]:
        """The model's modules, when all of them are on its device: others must not be moved there."""
        modules = _modules(self._model)
        held = [t for m in modules for t in (*m.parameters(), *m.buffers())]
        return modules if all(t.device == self._device for t in held) else []

    def _program(self, call: Callable[[Any], Any], prepare: Callable[[int], Any]) -> Program:
        return Program(call, prepare, modules=self._exposed(), device=str(self._device), name=self._name)

    def _on_device(self, batch: int) -> Any:
        return self._transfer(self._samples[batch], self._device)

    def _round_trip(self, sample: Any) -> Any:
        return self._transfer(self._model(self._transfer(sample, self._device)), "cpu")

    def _count(self) -> dict[str, int]:
        """params, trainable_params, flops, macs: those that can be told."""
        from laptime.backends.torch import count

        self._run_warm_up(1, runs=1)
        # Compiled modules hide their operators from the counter; the module inside is the same program.
        plain = getattr(self._model, "_orig_mod", self._model)
        sample = self._on_device(1)
        series, receipt = count.count(_modules(self._model), lambda: plain(sample), batch=1)
        keys = {
            "params/all": "params",
            "params/trainable": "trainable_params",
            "flops": "flops",
            "macs": "macs",
        }
        self._counted, self._receipt = series, receipt
        return {keys[s.metric.tag]: int(s.samples[0]) for s in series if s.metric.tag in keys}

    def _run_warm_up(self, batch: int, *, runs: int) -> None:
        if self._warm_up is None:
            return
        import torch

        with torch.no_grad():
            self._warm_up(
                self._model,
                self._samples[batch],
                self._device,
                self._transfer,
                num_runs=runs,
                batch_size=batch,
            )

    def _time_calls(self) -> dict[int, dict[str, Any]]:
        """on_device_inference by batch size; makes the cases."""
        timing: dict[int, dict[str, Any]] = {}
        with self._program(self._model, self._on_device) as program:
            self._learn(program)
            for batch in self._samples:
                self._run_warm_up(batch, runs=max(1, self._runs // 10))
                program.prepare(batch)
                case = self._timed(program, batch, "isolated")
                main = "isolated"
                if self._device.type == "cuda":
                    main = "device"
                    for series in self._timed(program, batch, main).series:
                        case = case.with_series(series)
                facts = program.facts("outputs", batch)
                self._cases[batch] = self._as_case(case, program, facts.details)
                timing[batch] = {"on_device_inference": self._timing_of(case, main)}
        return timing

    def _timed(self, program: Program, batch: int, regime: str) -> Case:
        virtual = bool(self._environment.virtual)
        case = program.timed(batch, regime=regime, runs=self._runs, virtual=virtual)
        return moved_to(case, start=self._started)

    def _timing_of(self, case: Case, regime: str) -> dict[str, Any]:
        latency = case.find("latency", regime)
        assert latency is not None
        return _results.timing(latency.samples[-self._runs :])

    def _time_copies(self) -> dict[int, dict[str, Any]]:
        """cpu_to_gpu, gpu_to_cpu and total by batch size: programs of their own, timed like the call."""
        programs: dict[str, tuple[Callable[[Any], Any], Callable[[int], Any]]] = {
            "cpu_to_gpu": (lambda host: self._transfer(host, self._device), self._samples.__getitem__),
            "gpu_to_cpu": (lambda output: self._transfer(output, "cpu"), self._output),
            "total": (self._round_trip, self._samples.__getitem__),
        }
        timing: dict[int, dict[str, Any]] = {batch: {} for batch in self._samples}
        for name, (call, prepare) in programs.items():
            metric = Metric(tag=f"time/{name}", unit="s", title=name, better="lower", meaning=PARTS[name])
            with self._program(call, prepare) as program:
                for batch in self._samples:
                    program.prepare(batch)
                    case = self._timed(program, batch, "isolated")
                    timing[batch][name] = self._timing_of(case, "isolated")
                    latency = case.find("latency", "isolated")
                    assert latency is not None
                    series = structs.replace(latency, metric=metric, regime=None)
                    self._cases[batch] = self._cases[batch].with_series(series)
        return timing

    def _output(self, batch: int) -> Any:
        import torch

        with torch.no_grad():
            return self._model(self._on_device(batch))

    def _passes(self, timing: dict[int, dict[str, Any]]) -> tuple[dict[int, Any], dict[int, Any]]:
        """Memory and energy of a call with its copies, by batch size; each only where it was read."""
        memory: dict[int, Any] = {}
        energy: dict[int, Any] = {}
        with self._program(self._round_trip, self._samples.__getitem__) as program:
            for batch in self._samples:
                program.prepare(batch)
                facts = program.facts("memory", batch)
                self._keep(batch, facts.series, facts.details)
                device = facts.details["memory"].get("device")
                peak = _value(facts.series, "memory/device/peak")
                if device is not None and peak is not None:
                    memory[batch] = _results.memory(device["before_call"], int(peak), self._allocated())
                seconds = timing[batch]["on_device_inference"]["metrics"]["seconds_per_batch_mean"]
                facts = program.facts("energy", batch, seconds=seconds * max(1, self._runs // 10))
                self._keep(batch, facts.series, facts.details)
                joules = _value(facts.series, "energy/gross")
                if joules is not None:
                    energy[batch] = _results.energy(joules * batch)
                else:
                    self._why_no_energy = facts.details.get("energy", {}).get("why", {})
        return memory, energy

    def _allocated(self) -> int:
        import torch

        return int(torch.cuda.memory_allocated(self._device))

    def _keep(self, batch: int, series: list[Series], details: dict[str, Any]) -> None:
        case = self._cases[batch]
        for one in series:
            case = case.with_series(one)
        self._cases[batch] = structs.replace(case, details={**case.details, **details})

    def _learn(self, program: Program) -> None:
        """Add what the backend tells of devices, libraries and knobs to the environment."""
        told, known = program.loaded, self._environment
        names = {device.name for device in known.devices}
        self._environment = structs.replace(
            known,
            devices=[*known.devices, *(device for device in told.devices if device.name not in names)],
            libraries={**known.libraries, **told.libraries},
            knobs={**known.knobs, **told.knobs},
        )

    def _as_case(self, case: Case, program: Program, outputs: dict[str, Any]) -> Case:
        from laptime.backends.torch import tensors

        axes: dict[str, Axis] = {"batch": case.batch, "dtype": "auto", "device": str(self._device)}
        inputs = {"origin": "given", "shapes": tensors.words(self._samples[case.batch])}
        details = {**outputs, "in_process": True, "model": {**program.loaded.facts, "inputs": inputs}}
        series = case.series
        if case.batch == 1:
            series, details = [*series, *self._counted], {**details, "count": self._receipt}
        return structs.replace(
            case, key=case_key(self._name, axes), axes=axes, series=series, details=details
        )

    def _conclude(self, *, details: bool) -> dict[str, Any]:
        """Judge the cases, say the verdict, and hand out the evidence."""
        plan = {
            "num_runs": Setting(value=self._runs, origin="argument"),
            "save": Setting(value=False, origin="argument"),
        }
        cases = [
            structs.replace(case, checks=[self._advised(check) for check in case.checks])
            for case in (judged(case, self._environment, plan) for case in self._cases.values())
        ]
        run = Run(
            id=new_id(),
            started=self._begun,
            seconds=time.perf_counter() - self._started,
            laptime=laptime.__version__,
            status="complete",
            subjects=[Subject(target=self._name, source="in memory")],
            environment=self._environment,
            plan=plan,
            cases=cases,
            findings=findings(cases),
        )
        found = _results.evidence(run, why_no_energy=self._why_no_energy)
        self._tell({"Verdict": {"word": found["verdict"], "reasons": found["reasons"]}})
        if found["verdict"] != "trusted":
            logger.warning("These times are %s: %s", found["verdict"], "; ".join(found["reasons"]))
        if details:
            self._say_details(run)
        return found

    def _advised(self, check: Check) -> Check:
        """Checks know the command line; here the knob is `num_runs`."""
        is_ours = check.name in ("precision", "settled") and check.next
        return structs.replace(check, next=f"num_runs={4 * self._runs}") if is_ours else check

    def _say_details(self, run: Run) -> None:
        from laptime.reports import text

        self._tell({"Counted": self._receipt})
        self._say(text.render(run))


def _modules(model: Any) -> list[Any]:
    from laptime.backends.torch.setup import modules_in

    return modules_in(model)


def _batch_of(sample: Any) -> int:
    from laptime.backends.torch import tensors

    found = tensors.batch_of(sample)
    if not found:
        raise UsageError(
            "the batch size of the sample cannot be told",
            why=f"it is {tensors.words(sample)}, which holds no tensor with a leading dimension",
            next="benchmark(..., batch_size=8, sample_with_batch_size1=...)",
        )
    return found


def _device(given: Any) -> torch.device:
    import torch

    if not isinstance(given, torch.device):
        raise UsageError(
            f"get_device_fn returned {given!r}",
            why="it must return a torch.device",
            next="torch.device('cpu')",
        )
    here: torch.device = given
    if here == torch.device("cuda"):  # without an index it means the current one
        return torch.device("cuda", torch.cuda.current_device())
    return here


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Eval mode inside; every training flag as it was afterwards, whatever happens."""
    flags = [(part, part.training) for module in _modules(model) for part in module.modules()]
    was_training = not flags and getattr(model, "training", False)
    try:
        for module in (model, *_modules(model)):
            if hasattr(module, "eval"):
                module.eval()
        yield
    finally:
        for part, training in flags:
            part.training = training
        if was_training and hasattr(model, "train"):
            model.train()


def _value(series: list[Series], tag: str) -> float | None:
    return next((one.samples[0] for one in series if one.metric.tag == tag and one.samples), None)
