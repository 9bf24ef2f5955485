"""What `laptime tune` found: diagnosis, ladder, gates, the gain of the whole, the patch.

All times are seconds, all speedups are baseline time over candidate time (above 1 is faster).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from laptime.records.bounds import ModelBounds
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Judgement
from laptime.records.shortfall import Shortfall

Numerics = Literal["exact", "reassociated", "random", "precision", "algorithm"]
GateWord = Literal["passed", "failed", "undecided", "none"]
ConvergenceWord = Literal["holds", "fails", "inconclusive", "none"]
RungWord = Literal[
    "faster", "slower", "same", "unclear", "failed", "not tried", "suggested", "smaller", "larger"
]


class GateCheck(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question of a gate.

    Attributes:
        name: loss, gradients, parameters, buffers, optimizer_state, samples, learning_rate, order ...
        outcome: whether it is kept; undecided never counts as kept.
        value, limit: what was found and what was allowed; None where it is not a number.
        sentence: with its numbers; names the worst tensor.
    """

    name: str
    outcome: Judgement
    value: float | None = None
    limit: float | None = None
    sentence: str = ""


GATED: dict[Judgement, GateWord] = {KEPT: "passed", BROKEN: "failed", UNDECIDED: "undecided"}
"""What a gate says when its checks together are that."""


class Gate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Is it still the same training?

    Attributes:
        word: passed; failed; undecided (no data never means passed); none: nothing was gated.
        numerics: the class whose tolerance was applied.
        steps: optimizer steps that were compared, on captured batches of the script.
        reason: the first failed check in words, or why nothing is known.
    """

    word: GateWord = "none"
    numerics: Numerics = "exact"
    steps: int = 0
    reason: str = ""
    checks: list[GateCheck] = []


class Convergence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Does the final set train as well? Paired by seed, non-inferiority.

    Attributes:
        word: holds, fails, inconclusive; none: not asked (all changes are exact).
        metric: what was compared. margin: said beforehand; in units of the metric.
        difference: mean over seeds of final minus baseline. upper: one-sided 95 % bound of it.
        seeds, steps: how many. smoke_test: the horizon is too short to be more than that.
    """

    word: ConvergenceWord = "none"
    metric: str = "training loss"
    margin: float | None = None
    difference: float | None = None
    upper: float | None = None
    seeds: int = 0
    steps: int = 0
    smoke_test: bool = True
    sentence: str = ""
    baseline: list[list[float]] = []
    final: list[list[float]] = []


class Applied(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change: one optimization with its options."""

    name: str
    options: dict[str, Any] = {}


class Suspect(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change that could save much, before anything was raced.

    Attributes:
        label: with its options, `num_workers=2`. title: what it does.
        saves: seconds of a step that it could save at most. suggests: it is only ever suggested.
    """

    label: str
    title: str = ""
    saves: float = 0.0
    suggests: bool = False


class Diagnosis(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a step's time goes, by leaving parts out.

    Attributes:
        recipe: under these changes. step: seconds, median. shares: seconds by part; add up to `step`.
        what_if: seconds of a step with parts left out. bound: data, transfer, compute, other.
        sentence: what bounds the step, in words.
        syncs: synchronising calls: [{"what", "where", "count"}].
        noise: A/A: relative standard deviation of a round. detectable: smallest saving that a long race
            finds in half of all cases, as a share of the step.
        utilization: share of the step that the device works; None where it was not measured.
        suspects: what could save most, the likeliest first.
    """

    recipe: list[Applied] = []
    step: float = 0.0
    shares: dict[str, float] = {}
    what_if: dict[str, float] = {}
    bound: str = ""
    sentence: str = ""
    syncs: list[dict[str, Any]] = []
    noise: float | None = None
    detectable: float | None = None
    batch: int = 1
    peak: int | None = None
    utilization: float | None = None
    facts: list[str] = []
    notes: list[str] = []
    suspects: list[Suspect] = []


class Rung(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change that was tried, or not.

    Attributes:
        name: of the optimization. label: with its options, `num_workers=2`. options: of the change.
        verdict: faster, slower, same, unclear (raced); smaller, larger (goal memory); failed; not tried;
            suggested.
        speedup, ci95: against the incumbent of that moment; None when it was not raced.
        bound: seconds of a step that it could save at most. step: seconds of a step with it.
        rounds: paired rounds. seconds: of the session that it took; compile_seconds: of these in
            torch.compile.
        pays_back: steps after which the compile time is won back; None when there is none.
        kept: it is in the final set. dropped: it had been kept and was taken out again (leave one out).
        replaced: it had been kept until a rival took its place, whose effect is on top of it.
        reason: why kept or not, in words.
        throughput: samples per second with it. memory: ratio of peaks, candidate over incumbent.
        utilization: share of the step that the device works, with it.
        hunk: its edit stands in the patch; edit: why not, where it does not.
    """

    name: str
    label: str = ""
    title: str = ""
    options: dict[str, Any] = {}
    numerics: Numerics = "exact"
    verdict: RungWord = "not tried"
    speedup: float | None = None
    ci95: tuple[float, float] | None = None
    bound: float | None = None
    step: float | None = None
    rounds: int = 0
    ratios: list[float] = []
    seconds: float = 0.0
    compile_seconds: float = 0.0
    pays_back: int | None = None
    gate: Gate = Gate()
    kept: bool = False
    dropped: bool = False
    replaced: bool = False
    reason: str = ""
    throughput: float | None = None
    memory: float | None = None
    utilization: float | None = None
    hunk: bool = False
    edit: str = ""
    suggestion: str = ""


class Measured(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Speed of one recipe in fresh processes.

    Attributes:
        step: seconds, mean over processes of medians. ci95: of it. throughput: samples per second.
        processes: fresh ones. steps: timed in all. samples: raw seconds of steps by process. peak: bytes.
    """

    step: float
    ci95: tuple[float, float] | None = None
    throughput: float = 0.0
    processes: int = 0
    steps: int = 0
    samples: list[list[float]] = []
    peak: int | None = None


class Speedup(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The gain: baseline time over final time. apart: why its sides took no turns. forked: pairs of forks."""

    value: float
    ci95: tuple[float, float]
    word: Literal["faster", "slower", "same", "unclear"] = "unclear"
    pairs: int = 0
    ratios: list[float] = []
    apart: str = ""
    forked: int = 0


class Patched(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The patch and its verification.

    Attributes:
        path: of the .patch file, "" when nothing could be edited. text: the unified diff.
        hunks: names of the optimizations in it. left_out: names with the reason.
        applies: `git apply` says yes. speedup: of the patched script against the user's, without recipe.
        same_losses: its losses are those of the recipe's run; None when they could not be compared.
        contradictions: what the raced changes do at run time and the patched script does not.
        suggestions: unified diff of what is only suggested. command: the script with its own switches.
    """

    path: str = ""
    text: str = ""
    command: str = ""
    hunks: list[str] = []
    left_out: dict[str, str] = {}
    applies: bool | None = None
    speedup: Speedup | None = None
    same_losses: bool | None = None
    contradictions: list[str] = []
    sentence: str = ""
    suggestions: str = ""


class OutputSameness(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far one output tensor of the tuned model is from the model as it is; worst over all inputs.

    Attributes:
        output: its place. rms, largest: error over the root mean square of the model's output.
        absolute: largest error, in the output's own unit. cosine: of all calls as one vector.
        top1: share of rows whose largest element is at the same place; None for other outputs.
        worst: number of the recorded call with the largest RMS error, from 1; None: nobody looked.
    """

    output: int
    rms: float
    largest: float
    absolute: float
    cosine: float
    top1: float | None = None
    worst: int | None = None


class Point(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to run a model, as far as it was measured on the way.

    Attributes:
        label: its changes; "as it is". recipe: the same.
        instances: processes at once. threads: of each; 0: the runtime's own choice. batch: items in a call.
        latency: seconds of a call, median. ci95: of it. bound: upper end of the interval of the quantile that
            the SLO names; None without one, or with too few calls.
        throughput: items per second, of all instances. peak: bytes of their processes together.
        energy: joules an item, gross, of CPU packages and memory; None where no meter gave a reading.
        calls: timed. limits: whether it keeps them; None if none were set.
        front: no other point is better in one of latency, throughput, memory and, where it was read of all,
            energy without being worse in another. chosen: it is the final set.
    """

    label: str
    recipe: list[Applied] = []
    instances: int = 1
    threads: int = 0
    batch: int = 1
    latency: float = 0.0
    ci95: tuple[float, float] | None = None
    bound: float | None = None
    throughput: float = 0.0
    peak: int = 0
    energy: float | None = None
    calls: int = 0
    limits: Judgement | None = None
    front: bool = False
    chosen: bool = False


class TunedModel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session has besides where it tunes a model, not a script.

    Attributes:
        batch: items in a call. inputs: of a call, in words. origin: where they come from.
        form: how the final set runs the model: as_is, exported, packaged, onnx, openvino.
        folder: that was handed back, "" for none. needs: packages of its tuned.py. takes: tensors, in words.
        calls: recorded calls that it was held against. outputs: the errors there.
        instructions: what the CPU has for vectors of few bits.
        slo: latency that was promised, `20ms@p99`; "" for none. max_memory: bytes that its process may have.
        limits: whether the chosen point keeps them. points: all that was measured, the fastest first.
        bounds: what bounds a call, before and after; None where the session ended before that was asked.
    """

    batch: int = 1
    inputs: str = ""
    origin: str = ""
    form: str = "as_is"
    folder: str = ""
    needs: list[str] = []
    takes: str = ""
    calls: int = 0
    outputs: list[OutputSameness] = []
    instructions: list[str] = []
    slo: str = ""
    max_memory: int | None = None
    limits: list[GateCheck] = []
    points: list[Point] = []
    bounds: ModelBounds | None = None

    @property
    def chosen(self) -> Point | None:
        """The point of the final set; None where none was measured as a point."""
        return next((point for point in self.points if point.chosen), None)


class TunedServer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session has besides where it tunes the flags of a server.

    Attributes:
        before: its command line as it is. command: with the final flags; `{port}` stays open in both.
        choices: values of each flag in braces, today's first. template: the command with its braces.
        url: where requests went. body: file with what was sent; sent: a hash of it; headers: their names.
        load, figure: on it, and what the goal looks at, in words. unit: what a rate counts.
        compared: answers that were held against those of the server as it is.
        slo: promise, `ttft=300ms@p95`; "" for none. limits: whether the final flags keep it.
        ready: seconds until a start answered, median, by side. block: seconds of load of a side of a round.
    """

    before: str = ""
    command: str = ""
    choices: dict[str, list[str | int | float]] = {}
    template: str = ""
    url: str = ""
    body: str = ""
    sent: str = ""
    headers: list[str] = []
    load: str = ""
    figure: str = ""
    unit: str = "requests"
    compared: int = 0
    slo: str = ""
    limits: list[GateCheck] = []
    ready: dict[str, float] = {}
    block: float = 0.0


class Tuning(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that a session of `laptime tune` found.

    Attributes:
        goal: throughput, memory; of models latency and cost, CPU seconds an item. mode: fast or certify.
        budget: seconds. before, after: diagnoses of the script as it is and with the final set.
        ladder: in the order of trying. ruled_out: why names of the catalogue were not even candidates.
        baseline, final, speedup: measured afresh, in new processes, interleaved: only that is "the gain".
        recipe: the final set. recipe_path: file for `laptime verify` and `laptime.apply`.
        seconds_by: of the session, by what was done: diagnose, race, gate, measure, record, patch, compile.
        trials: processes that were started.
        ended: complete, budget (stopped trying), interrupted. why_ended: why nothing more was tried.
        shortfall: what the budget was too short for; None where it was not.
        model: of a session that tunes a model, server: of one that tunes a server's flags; None of others.
    """

    goal: Literal["throughput", "memory", "latency", "cost"] = "throughput"
    mode: Literal["fast", "certify"] = "fast"
    budget: float = 600.0
    before: Diagnosis | None = None
    after: Diagnosis | None = None
    ladder: list[Rung] = []
    ruled_out: dict[str, str] = {}
    baseline: Measured | None = None
    final: Measured | None = None
    speedup: Speedup | None = None
    recipe: list[Applied] = []
    recipe_path: str = ""
    gate: Gate = Gate()
    convergence: Convergence = Convergence()
    patch: Patched = Patched()
    seconds_by: dict[str, float] = {}
    trials: int = 0
    ended: str = "complete"
    why_ended: str = ""
    shortfall: Shortfall | None = None
    model: TunedModel | None = None
    server: TunedServer | None = None

    @property
    def limits(self) -> list[GateCheck]:
        """What the final set has to keep, and whether it does."""
        tuned = self.model or self.server
        return tuned.limits if tuned else []
