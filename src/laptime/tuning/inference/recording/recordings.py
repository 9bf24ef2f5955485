"""The model as it is and the final folder, each recorded in a process of its own: what bounds a call of both.

Nothing that happens here fails a session: what could not be recorded says why."""

import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from laptime.analysis import node_work
from laptime.analysis.bounds import Recorded, bounds
from laptime.analysis.operator_formulas import Tensor
from laptime.kit.units import show
from laptime.probes import machine
from laptime.probes.cpu import cpu
from laptime.probes.peaks import cpu_peak
from laptime.process.peer import Peer
from laptime.records.overview import CallBounds, Ceilings, ModelBounds, Work
from laptime.records.tuning import Measured
from laptime.trace import profile
from laptime.trace.reading import reader
from laptime.trace.tables import work
from laptime.tuning.inference.changes import form_of
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.folders import answer_of, strip
from laptime.tuning.inference.recording import process
from laptime.tuning.inference.setups import Setup
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed

SECONDS = 1.0  # seconds of calls in a process, about: half of them recorded
LONGER = 1.5  # times the seconds until an arm is ready that a recording takes, beside its calls
FEWEST = 8  # calls of a process, however long they are: to warm up, to see busy cores, and recorded
Sides = tuple[Measured | None, Measured | None]
"""What was measured again of the model as it is and of the final set."""


def model_bounds(evaluator: ModelEvaluator, final: Recipe, setup: Setup, measured: Sides) -> ModelBounds:
    """Return the bounds of a call before and after; no after if nothing was kept.
    setup: of the final set; a call of several instances or of another batch is not what is recorded.
    measured: both sides, measured again; None if they were not."""
    is_plain = setup.instances == 1 and not setup.threads and setup.batch == evaluator.batch
    before, after = measured
    sides = [(Recipe(), before)]
    sides += [(final, after if is_plain else None)] if strip(final) else []
    with evaluator.accounting.spent_on("record"):
        made = list(_each(evaluator, sides))
    return ModelBounds(before=made[0], after=made[1] if len(made) > 1 else None)


def seconds_to_record(evaluator: ModelEvaluator) -> float:
    """Seconds that recording both sides takes, about."""
    calls = evaluator.timings[Recipe()].seconds
    return 2 * _seconds(evaluator, median(calls) if calls else 0.0)


def _each(evaluator: ModelEvaluator, sides: list[tuple[Recipe, Measured | None]]) -> Iterator[CallBounds]:
    """One after the other; after Ctrl-C none of those that are left."""
    known: Ceilings | None = None
    why = "" if evaluator.device == "cpu" else f"ceilings of {evaluator.device} are not looked for"
    for recipe, measured in sides:
        try:
            call = _call(evaluator, recipe, measured)
            left, needed = evaluator.request.budget - evaluator.elapsed(), _seconds(evaluator, call)
            if not why and needed > left:
                left = max(0.0, left)
                why = f"it takes {show(needed, 's')}, {show(left, 's')} of the budget were left"
            if not why:
                usable = machine.environment().usable_cpus
                known = known or of_cores(usable)
                made = record(evaluator, recipe)
                yield bounds(made, call, cores(usable), known)
                continue
        except KeyboardInterrupt:
            why = "the session was interrupted"
        except Exception as error:  # profilers of three runtimes: whatever they do, the gain is measured
            yield CallBounds(missing=f"the calls could not be recorded: {error}"[:300])
            continue
        yield CallBounds(missing=f"no calls were recorded: {why}")


def _call(evaluator: ModelEvaluator, recipe: Recipe, measured: Measured | None) -> float:
    """Seconds of a call that is not recorded: measured again, or on the way, or now.
    Raises TrialFailed: it does not run."""
    alone = evaluator.timings[strip(recipe)].seconds if evaluator.raced.instances == 1 else []
    samples = measured.samples if measured is not None else [alone]
    if not any(samples):  # calls of several instances at once do not count
        with evaluator.arm(recipe) as arm:
            return arm.call
    return median(chain.from_iterable(samples))


def _seconds(evaluator: ModelEvaluator, call: float) -> float:
    return LONGER * evaluator.ready + max(SECONDS, FEWEST * call)


def record(evaluator: ModelEvaluator, recipe: Recipe) -> Recorded:
    """Some calls of a recipe's folder as its runtime's profiler has seen them.
    Raises TrialFailed: it does not run, or nothing was recorded. LookupError, ValueError: what was recorded
    is not what its reader knows."""
    folder, form = evaluator.folders.ensure(recipe), "as_is"
    if evaluator.folders.is_isolated(recipe):
        form = evaluator.folders.form(recipe)
    runtime = "pytorch" if form == "as_is" else form_of(form).profiler
    if not runtime:
        raise TrialFailed("refused", f"nothing records what runs as {form}")
    evaluator.accounting.trials += 1
    is_isolated = evaluator.folders.is_isolated(recipe)
    python = evaluator.folders.python(recipe) or sys.executable
    program = [python, "-I" if is_isolated else "-P", "-B", process.__file__]
    kind = "arrays" if evaluator.folders.takes_arrays(recipe) else "tensors"
    with tempfile.TemporaryDirectory(dir=evaluator.folder) as place:
        path = Path(place) / "recorded.json"
        words = [*program, str(folder), str(evaluator.calls), kind, runtime, str(path), str(SECONDS)]
        with Peer.start(words, cwd=folder if is_isolated else None) as peer:
            about = answer_of(peer, evaluator.request.timeout, "a recording")
        rows = READERS[runtime](path, about, is_compiled=form.startswith("packaged"))
    if not any(row.total_ns for row in rows):
        raise TrialFailed("refused", f"{about['recorder']} saw no operator")
    return Recorded(
        rows, about["calls"], about["seconds"], about["threads"], about["busy"], about["recorder"]
    )


# All that usable cores can do: FLOP/s on paper, or of a product; bytes per second of a copy, as STREAM
# Copy counts them (McCalpin 1995). The bandwidth of a whole socket is far above what a part of its cores
# reaches, so it is timed. It lies when other programs use the memory meanwhile, or the last-level cache
# has more than BYTES.

BYTES, SAMPLES, SIZE = 2**27, 5, 2048


def cores(usable: float) -> float:
    """Cores that may work at the same time: of two threads of one core only one counts."""
    return min(usable, float(cpu().physical_cores or usable))


def of_cores(usable: float) -> Ceilings:
    """The ceilings of so many cores of this machine. usable: CPUs that may be used, by affinity and quota."""
    threads = max(1, round(cores(usable)))
    sources = [np.ones(BYTES // threads // 4, np.float32) for _ in range(threads)]
    places = [np.zeros_like(source) for source in sources]
    with ThreadPoolExecutor(threads) as pool:
        seconds = _best(lambda: list(pool.map(np.copyto, places, sources)))
    bandwidth = 2 * sum(source.nbytes for source in sources) / seconds
    copied = f"{show(bandwidth, 'B/s')} measured, a copy of {show(BYTES, 'B')}"
    if peak := cpu_peak(cpu(), usable=usable):
        source = f"{peak.note}; {copied}"
        return Ceilings(device=peak.name, flops=peak.flops, bandwidth=bandwidth, source=source)
    left = np.ones((SIZE, SIZE), np.float32)
    flops = 2 * SIZE**3 / _best(lambda: left @ left)
    multiplied = f"{show(flops, 'FLOP/s')} measured, a product of {SIZE} x {SIZE}"
    return Ceilings(
        device="cores that no table has",
        flops={"float32": flops},
        bandwidth=bandwidth,
        source=f"{multiplied}; {copied}",
    )


def _best(call: Callable[[], object]) -> float:
    """Seconds of the fastest of some calls: what disturbs one only makes it slower."""
    seconds = []
    for _ in range(SAMPLES):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


# What a runtime's profiler recorded, as rows by operator and shapes: a reader for each of its recorders.
#
# ONNX Runtime: events of the category Node have the operator, and types and shapes of its inputs and outputs;
# weights that were packed beforehand are missing there. An event of the category Session named model_run is a
# call. OpenVINO: times are those of `get_profiling_info`, shapes and the precision of nodes those of
# `get_runtime_model`. All tensors of a node are taken to be in its precision: at least so many bytes are
# moved. PyTorch: rows are counted as those of any trace. A compiled model is kernels that torch.profiler does
# not see, and a few operators that it calls: the rest of a call is `fused kernels` then, without FLOP.


class Node(NamedTuple):
    """One node: its inputs and outputs as far as they are known; calls and nanoseconds of all of them."""

    op: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    calls: int
    ns: int


def rows_of(nodes: Sequence[Node]) -> list[Work]:
    """A row by operator, types and shapes; one whose work the shapes do not show is not counted."""
    groups = defaultdict[str, list[Node]](list)
    for node in nodes:
        groups[f"{node.op} {_shapes(node)}"].append(node)
    return [_row(name, each) for name, each in groups.items()]


def _shapes(node: Node) -> str:
    return ", ".join(f"{each.dtype}{list(each.shape)}" for each in node.inputs)


def _row(name: str, nodes: Sequence[Node]) -> Work:
    first, ns, calls = nodes[0], sum(node.ns for node in nodes), sum(node.calls for node in nodes)
    counted = [(node.calls, node_work.work(node.op, node.inputs, node.outputs)) for node in nodes]
    known = [(number, each) for number, each in counted if each is not None]
    is_counted = len(known) == len(counted)
    flop = float(sum(number * each.flop for number, each in known))
    return Work(
        id=name,
        kind=node_work.kind_of(first.op),
        name=first.op,
        shapes=_shapes(first),
        calls=calls,
        total_ns=ns,
        uncounted_ns=0 if is_counted else ns,
        flop={known[0][1].dtype: flop} if is_counted and flop else {},
        bytes=float(sum(number * each.bytes for number, each in known)) if is_counted else None,
    )


_NAMES = {"float": "float32", "double": "float64", "boolean": "bool", "bf16": "bfloat16", "f16": "float16"}
_NAMES |= {f"{kind[0]}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_NAMES |= {"f32": "float32", "f64": "float64"}
_NAMES |= {name: name for name in set(_NAMES.values())}
"""Types by the names that the runtimes have for them."""
_CONTAINERS = ("If", "Loop", "Scan")  # nodes that run others, which are events of their own


def of_onnx_runtime(place: Path, about: Mapping[str, Any], *, is_compiled: bool = False) -> list[Work]:
    """Work of all recorded calls, which are the last ones of the file. place: the profile. about: see
    `recording.process`. is_compiled: is not asked."""
    events = json.loads(place.read_text(encoding="utf-8"))
    runs = sorted(event["ts"] for event in events if event.get("name") == "model_run")
    first = runs[-int(about["calls"])]
    nodes = []
    for each in events:
        if each.get("cat") == "Node" and each["ts"] >= first and each["args"]["op_name"] not in _CONTAINERS:
            args = each["args"]
            inputs, outputs = (_tensors(args.get(f"{side}_type_shape", [])) for side in ("input", "output"))
            nodes.append(Node(args["op_name"], inputs, outputs, 1, int(each["dur"]) * 1000))
    return rows_of(nodes)


def _tensors(listed: list[dict[str, list[int]]]) -> list[Tensor]:
    """`[{"float": [1, 3, 224, 224]}, ...]`; what is no tensor of numbers is left out."""
    named = [(shape, _NAMES[kind]) for each in listed for kind, shape in each.items() if kind in _NAMES]
    return [Tensor(shape, name, 2 if "16" in name else np.dtype(name).itemsize) for shape, name in named]


def of_openvino(place: Path, about: Mapping[str, Any], *, is_compiled: bool = False) -> list[Work]:
    """Work of all recorded calls. place: the nodes. about: see `recording.process`. is_compiled: is not
    asked."""
    nodes = []
    for node in json.loads(place.read_text(encoding="utf-8"))["nodes"]:
        inputs, outputs = (
            _tensors([{node["type"]: shape} for shape in node[side]]) for side in ("inputs", "outputs")
        )
        nodes.append(Node(node["op"], inputs, outputs, node["calls"], node["us"] * 1000))
    return rows_of(nodes)


FUSED = "fused kernels"
_COMPILED = ("Torch-Compiled Region", "## Call CompiledFxGraph")
"""How names begin of ranges that a graph of torch.compile runs in."""


def of_pytorch(place: Path, about: Mapping[str, Any], *, is_compiled: bool = False) -> list[Work]:
    """Work of all recorded calls. place: the trace. about: see `recording.process`. is_compiled: the folder
    has a compiled package."""
    view = profile.view(reader.read(place, processes=1))
    made = work.works(view)
    if is_compiled or any(text.startswith(_COMPILED) for text in view.trace.texts):
        calls = int(about["calls"])
        if (rest := round(float(about["seconds"]) * calls * 1e9) - sum(row.total_ns for row in made)) > 0:
            row = Work(id=FUSED, kind="fused", name=FUSED, calls=calls, total_ns=rest, uncounted_ns=rest)
            made = [*made, row]
    return made


READERS = {"pytorch": of_pytorch, "onnx_runtime": of_onnx_runtime, "openvino": of_openvino}
