"""Does a backend keep the contract of `measure/protocol.py`?"""

import math
from typing import Any

from msgspec import structs

from laptime.kit.errors import LaptimeError, OutOfMemory, UserCodeError
from laptime.kit.registry import names
from laptime.measure import protocol
from laptime.records.environment import Device
from laptime.records.plan import Variant
from laptime.records.series import Series
from laptime.testing.conformance import UNITS, documented, need, plain, raises_target_error, takes

METHODS = ("workload", "facts", "devices", "libraries", "knobs")


def check_backend(
    name: str, *, target: str = "null:noop", device: str = "cpu", batches: tuple[int, ...] = (1, 2)
) -> None:
    """A backend loads a target, calls it with every batch size, and tells what it knows in plain data.

    name: file name or entry point. target: something small that it can run. device: where. batches: batch
    sizes that the target can take.
    Raises Broken: it does not keep the contract; the sentence says how. Unavailable: its framework is not
    installed, so only its outside could be checked."""
    module = documented("backends", name)
    takes(module.available)
    takes(module.open, "variant")
    takes(module.open_object, "subject", "inputs", "variant")
    kinds = getattr(module, "TARGETS", ())
    need(set(kinds) <= {*names("targets")}, f"backends/{name}: TARGETS names {kinds}, not all of them kinds")
    versions = module.available()
    need(_texts(versions), f"backends/{name}: available() gave {versions!r}, wanted names and versions")
    variant = Variant(target=target, backend=name, device=device)
    raises_target_error(module.open, structs.replace(variant, target="no such: target"))
    raises_target_error(module.open, structs.replace(variant, device="warp:9"))
    model = module.open(variant)
    try:
        _check_model(f"backends/{name}", model)
        for batch in batches:
            who = f"backends/{name}"
            workload = model.workload(batch)
            need(workload.batch == batch, f"{who}: workload({batch}) says batch {workload.batch}")
            need(isinstance(workload.synchronous, bool), f"{who}: `synchronous` is True or False")
            for _ in range(2):
                workload.call()
                need(workload.sync() is None, f"{who}: sync() waits, it returns nothing")
            again = model.workload(batch)
            need(again.batch == batch, f"{who}: a second workload({batch}) is another batch")
            _check_abilities(f"backends/{name}", model, batch)
    finally:
        if isinstance(model, protocol.Closes):
            model.close()


def _texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(word, str) for pair in value.items() for word in pair)


def _check_model(who: str, model: Any) -> None:
    for method in METHODS:
        need(callable(getattr(model, method, None)), f"{who}: the model has no {method}()")
    facts, knobs = model.facts(), model.knobs()
    plain(facts, f"{who}: facts()")
    plain(knobs, f"{who}: knobs()")
    need(isinstance(facts, dict) and isinstance(knobs, dict), f"{who}: facts() and knobs() are dicts")
    need(knobs == model.knobs(), f"{who}: knobs() changes from call to call")
    need(_texts(model.libraries()), f"{who}: libraries() are names and versions")
    devices = model.devices()
    need(
        devices and all(isinstance(device, Device) for device in devices),
        f"{who}: devices() names the devices that the model runs on, the CPU too",
    )


def _check_abilities(who: str, model: Any, batch: int) -> None:
    if isinstance(model, protocol.CountsWork):
        _check_series(f"{who}: count()", *model.count(batch))
    if isinstance(model, protocol.MeasuresMemory):
        _check_series(f"{who}: device_memory()", *model.device_memory(batch))
    if isinstance(model, protocol.TimesCopies):
        _check_series(f"{who}: copies()", model.copies(batch, 2), {})
    if isinstance(model, protocol.ChecksOutputs):
        outputs = model.check_outputs(batch)
        plain(outputs, f"{who}: check_outputs()")
        need(outputs.get("finite") in (True, False, None), f"{who}: `finite` is True, False or None")
    if isinstance(model, protocol.Compiles):
        need(model.compiles() >= 0, f"{who}: compiles() counts from 0")
    if isinstance(model, protocol.TimesCompilation):
        taken = model.compile_seconds(batch)
        need(taken is None or taken >= 0, f"{who}: compile_seconds() gave {taken!r}: seconds or None")
    if isinstance(model, protocol.Exports):
        taken = model.exported()
        need(taken is None or taken >= 0, f"{who}: exported() gave {taken!r}: seconds or None")
    if isinstance(model, protocol.Scoped):
        workload = model.workload(batch)  # type: ignore[attr-defined]
        for _ in range(2):  # entered again for the next block
            with model.scope():
                workload.call()
    if isinstance(model, protocol.Explains):
        usual, exhausted = model.explain(ValueError("planted"), batch), model.explain(MemoryError(), batch)
        need(
            isinstance(usual, UserCodeError) and not isinstance(usual, OutOfMemory),
            f"{who}: explain(ValueError) is {type(usual).__name__}, wanted UserCodeError",
        )
        need("planted" in str(usual), f"{who}: explain() loses the words of the error")
        need(isinstance(exhausted, OutOfMemory), f"{who}: explain(MemoryError) is not an OutOfMemory")
        for error in (usual, exhausted):
            need(isinstance(error, LaptimeError) and error.why, f"{who}: explain() does not say why")


def _check_series(what: str, series_list: list[Series], details: dict[str, Any]) -> None:
    plain(details, what)
    keys = [series.key for series in series_list]
    need(len(keys) == len(set(keys)), f"{what} gives {keys}: one series a metric and regime")
    for series in series_list:
        unit, tag = series.metric.unit, series.metric.tag
        need(unit in UNITS, f"{what}: {tag} is in {unit!r}; stored units are {' '.join(sorted(UNITS))}")
        need(series.samples, f"{what}: {tag} has no samples; leave out what was not measured")
        need(all(math.isfinite(value) for value in series.samples), f"{what}: {tag} is not finite")
