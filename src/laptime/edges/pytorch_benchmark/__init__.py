"""The measurements of the package pytorch-benchmark, done as laptime does: the core of `laptime.compat`.

A `Procedure` is one call of the drop-in, step by step: count, time calls, time copies, memory, energy, judge.

program    the user's model and inputs: made ready, moved, called
results    measurements as the keys and texts that the package returns, and its words for quantities"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from laptime.backends._shared import torch
from laptime.backends.torch.setup import modules_in
from laptime.edges.pytorch_benchmark import results as _results
from laptime.edges.pytorch_benchmark.program import Runner, move_times
from laptime.kit import __version__
from laptime.kit.clock import utc_now
from laptime.probes import machine
from laptime.records.case import Axis, Case, case_key
from laptime.records.check import Check
from laptime.records.details import Details
from laptime.records.plan import Setting
from laptime.records.run import Run, Subject
from laptime.records.series import Metric, Regime, Series
from laptime.store.folder import new_id
from laptime.verbs.bench.postprocess import complete, findings

logger = logging.getLogger("torch-benchmark")  # its name is part of the interface: users configure it
PARTS = {
    "cpu_to_gpu": "copy of the input to the device, waited for",
    "gpu_to_cpu": "copy of the output from the device, waited for",
    "total": "copy in, call and copy out, waited for once at the end",
}


@dataclass
class Procedure:
    """One call of `benchmark`."""

    model: Any
    samples: dict[int, Any]  # input on the host by batch size
    device: torch.device
    transfer: Callable[[Any, Any], Any]
    runs: int
    say: Callable[[str], Any]  # hears every result as text
    warm_up: Callable[..., Any] | None

    def __post_init__(self) -> None:
        self._started, self._begun = time.perf_counter(), utc_now()
        self._name = str(getattr(self.model, "__qualname__", None) or type(self.model).__name__)
        self._environment = machine.environment()
        self._cases: dict[int, Case] = {}
        self._counted: list[Series] = []
        self._receipt: dict[str, Any] = {}
        self._why_no_energy: dict[str, Any] = {}

    def results(self, *, details: bool) -> dict[str, Any]:
        """Measure everything, say it, and return it."""
        results: dict[str, Any] = {"machine_info": _results.machine_info(self._environment)}
        self._tell({"Machine info": results["machine_info"]})
        results["device"] = self.device.type
        self.say(f"Model device: {self.device}")
        counted = self._count()
        results |= counted
        bound = "" if self._receipt.get("complete", True) else "at least "
        for key, prefix, title in (
            ("params", "", "parameters"),
            ("flops", bound, "FLOPs"),
            ("macs", bound, "MACs"),
        ):
            if key in counted:
                self.say(f"Model {title}: {prefix}{counted[key]} ({_results.number(counted[key])})")
        timing = self._time_calls()
        if self._has_own_memory:
            for batch, parts in self._time_copies().items():
                timing[batch] |= parts
        memory, energy = self._passes(timing)
        for name, part in (("timing", timing), ("memory", memory), ("energy", energy)):
            for batch, result in sorted(part.items()):
                self._tell({f"{name.title()} results (batch_size={batch})": result})
            if part:
                results[name] = _results.by_batch(part)
        results["laptime"] = self._conclude(details=details)
        return results

    @property
    def _has_own_memory(self) -> bool:
        return self.device.type != "cpu"

    def _count(self) -> dict[str, int]:
        """params, trainable_params, flops, macs: those that can be told."""
        from laptime.backends.torch import count

        self._run_warm_up(1, runs=1)
        # Compiled modules hide their operators from the counter; the module inside is the same program.
        plain = getattr(self.model, "_orig_mod", self.model)
        sample = self._on_device(1)
        # Lazy layers have no parameters to count before a call.
        held = [p for module in modules_in(self.model) for p in module.parameters()]
        if any(torch.nn.parameter.is_lazy(p) for p in held):
            with torch.no_grad():
                plain(sample)
        series, receipt = count.count(modules_in(self.model), lambda: plain(sample), batch=1)
        keys = {
            "params/all": "params",
            "params/trainable": "trainable_params",
            "flops": "flops",
            "macs": "macs",
        }
        self._counted, self._receipt = series, receipt
        return {keys[s.metric.tag]: int(s.samples[0]) for s in series if s.metric.tag in keys}

    def _tell(self, data: dict[str, Any]) -> None:
        self.say(_results.block(data))

    def _program(self, call: Callable[[Any], Any], prepare: Callable[[int], Any]) -> Runner:
        # Modules are shown when all of them are on its device: others must not be moved there.
        modules = modules_in(self.model)
        held = [t for m in modules for t in (*m.parameters(), *m.buffers())]
        return Runner(
            call,
            prepare,
            modules=modules if all(t.device == self.device for t in held) else [],
            device=str(self.device),
            name=self._name,
        )

    def _on_device(self, batch: int) -> Any:
        return self.transfer(self.samples[batch], self.device)

    def _round_trip(self, sample: Any) -> Any:
        return self.transfer(self.model(self.transfer(sample, self.device)), "cpu")

    def _run_warm_up(self, batch: int, *, runs: int) -> None:
        if self.warm_up is None:
            return
        with torch.no_grad():
            sample = self.samples[batch]
            self.warm_up(self.model, sample, self.device, self.transfer, num_runs=runs, batch_size=batch)

    def _time_calls(self) -> dict[int, dict[str, Any]]:
        """on_device_inference by batch size; makes the cases."""
        timing: dict[int, dict[str, Any]] = {}
        with self._program(self.model, self._on_device) as program:
            told = program.loaded
            self._environment = self._environment.extend(told.devices, told.libraries, told.knobs)
            for batch in self.samples:
                self._run_warm_up(batch, runs=max(1, self.runs // 10))
                program.prepare(batch)
                case = self._time(program, batch, Regime.ISOLATED)
                main = Regime.ISOLATED
                if self.device.type == "cuda":
                    main = Regime.DEVICE
                    for series in self._time(program, batch, main).series:
                        case = case.with_series(series)
                facts = program.facts("outputs", batch)
                from laptime.backends.torch import tensors

                axes: dict[str, Axis] = {"batch": case.batch, "dtype": "auto", "device": str(self.device)}
                inputs = {"origin": "given", "shapes": tensors.words(self.samples[case.batch])}
                model = {**program.loaded.facts, "inputs": inputs}
                details = structs.replace(facts.details, in_process=True, model=model)
                case = structs.replace(case, key=case_key(self._name, axes), axes=axes, details=details)
                if case.batch == 1:
                    details = structs.replace(details, count=self._receipt)
                    case = structs.replace(case, series=[*case.series, *self._counted], details=details)
                self._cases[batch] = case
                timing[batch] = {
                    "on_device_inference": _results.timing(_latency(case, main).samples[-self.runs :])
                }
        return timing

    def _time(self, program: Runner, batch: int, regime: str) -> Case:
        virtual = bool(self._environment.virtual)
        case = program.time(batch, regime=regime, runs=self.runs, virtual=virtual)
        return move_times(case, start=self._started)

    def _time_copies(self) -> dict[int, dict[str, Any]]:
        """cpu_to_gpu, gpu_to_cpu and total by batch size: programs of their own, timed like the call."""
        programs: dict[str, tuple[Callable[[Any], Any], Callable[[int], Any]]] = {
            "cpu_to_gpu": (lambda host: self.transfer(host, self.device), self.samples.__getitem__),
            "gpu_to_cpu": (lambda output: self.transfer(output, "cpu"), self._output),
            "total": (self._round_trip, self.samples.__getitem__),
        }
        timing: dict[int, dict[str, Any]] = {batch: {} for batch in self.samples}
        for name, (call, prepare) in programs.items():
            metric = Metric(tag=f"time/{name}", unit="s", title=name, better="lower", meaning=PARTS[name])
            with self._program(call, prepare) as program:
                for batch in self.samples:
                    program.prepare(batch)
                    latency = _latency(self._time(program, batch, Regime.ISOLATED), Regime.ISOLATED)
                    timing[batch][name] = _results.timing(latency.samples[-self.runs :])
                    series = structs.replace(latency, metric=metric, regime=None)
                    self._cases[batch] = self._cases[batch].with_series(series)
        return timing

    def _output(self, batch: int) -> Any:
        with torch.no_grad():
            return self.model(self._on_device(batch))

    def _passes(self, timing: dict[int, dict[str, Any]]) -> tuple[dict[int, Any], dict[int, Any]]:
        """Memory and energy of a call with its copies, by batch size; each only if it was read."""
        memory: dict[int, Any] = {}
        energy: dict[int, Any] = {}
        with self._program(self._round_trip, self.samples.__getitem__) as program:
            for batch in self.samples:
                program.prepare(batch)
                facts = program.facts("memory", batch)
                self._keep(batch, facts.series, facts.details)
                device = facts.details.memory.device if facts.details.memory else {}
                peak = _value(facts.series, "memory/device/peak")
                if device and peak is not None:
                    after = int(torch.cuda.memory_allocated(self.device))
                    memory[batch] = _results.memory(device["before_call"], int(peak), after)
                seconds = timing[batch]["on_device_inference"]["metrics"]["seconds_per_batch_mean"]
                facts = program.facts("energy", batch, seconds=seconds * max(1, self.runs // 10))
                self._keep(batch, facts.series, facts.details)
                joules = _value(facts.series, "energy/gross")
                if joules is not None:
                    energy[batch] = _results.energy(joules * batch)
                else:
                    use = facts.details.energy
                    self._why_no_energy = use.why if use and isinstance(use.why, dict) else {}
        return memory, energy

    def _keep(self, batch: int, series: list[Series], details: Details) -> None:
        case = self._cases[batch]
        for one in series:
            case = case.with_series(one)
        self._cases[batch] = structs.replace(case, details=case.details.merge(details))

    def _conclude(self, *, details: bool) -> dict[str, Any]:
        """Judge the cases, say the verdict, and hand out the evidence."""
        plan = {
            "num_runs": Setting(value=self.runs, origin="argument"),
            "save": Setting(value=False, origin="argument"),
        }
        cases = [
            structs.replace(case, checks=[self._advise(check) for check in case.checks])
            for case in (complete(case, self._environment, plan) for case in self._cases.values())
        ]
        run = Run(
            id=new_id(),
            started=self._begun,
            seconds=time.perf_counter() - self._started,
            laptime=__version__,
            status="complete",
            subjects=[Subject(target=self._name, source="in memory")],
            environment=self._environment,
            plan=plan,
            cases=cases,
            findings=findings(cases),
        )
        evidence = _results.evidence(run, why_no_energy=self._why_no_energy)
        evidence["flops_not_counted"] = self._receipt.get("doubtful", [])
        self._tell({"Verdict": {"word": evidence["verdict"], "reasons": evidence["reasons"]}})
        if evidence["verdict"] != "trusted":
            logger.warning("These times are %s: %s", evidence["verdict"], "; ".join(evidence["reasons"]))
        if details:
            from laptime.reports.formats import text

            self._tell({"Counted": self._receipt})
            self.say(text.render(run))
        return evidence

    def _advise(self, check: Check) -> Check:
        """Checks know the command line; here the knob is `num_runs`."""
        is_ours = check.name in ("precision", "settled") and check.next
        return structs.replace(check, next=f"num_runs={4 * self.runs}") if is_ours else check


def _latency(case: Case, regime: str) -> Series:
    latency = case.find("latency", regime)
    assert latency is not None
    return latency


def _value(series: list[Series], tag: str) -> float | None:
    return next((one.samples[0] for one in series if one.metric.tag == tag and one.samples), None)
