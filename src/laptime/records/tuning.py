"""The results of `laptime tune`: diagnosis, ladder, gates, the gain of the whole, the patch.

All times are seconds, all speedups are baseline time over candidate time (above 1 is faster)."""

from typing import Any, Literal

from msgspec import Struct

from laptime.records.overview import ModelBounds
from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Judgement

Numerics = Literal["exact", "reassociated", "random", "precision", "algorithm"]
GateWord = Literal["passed", "failed", "undecided", "none"]
ConvergenceWord = Literal["holds", "fails", "inconclusive", "none"]
RungWord = Literal[
    "faster", "slower", "same", "unclear", "failed", "not tried", "suggested", "smaller", "larger"
]


class GateCheck(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question of a gate."""

    name: str  # loss, gradients, parameters, buffers, optimizer_state, samples, learning_rate, order ...
    outcome: Judgement  # whether it is kept; undecided never counts as kept
    # value, limit: what was found and what was allowed; None if it is not a number
    value: float | None = None
    limit: float | None = None
    sentence: str = ""  # with its numbers; names the worst tensor


GATED: dict[Judgement, GateWord] = {KEPT: "passed", BROKEN: "failed", UNDECIDED: "undecided"}
"""What a gate says when its checks together are that."""


class Gate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Is it still the same training?"""

    word: GateWord = "none"  # passed; failed; undecided (no data never means passed); none: nothing was gated
    numerics: Numerics = "exact"  # the class whose tolerance was applied
    steps: int = 0  # optimizer steps that were compared, on captured batches of the script
    reason: str = ""  # the first failed check in words, or why nothing is known
    checks: list[GateCheck] = []


class Convergence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Does the final set train as well? Paired by seed, non-inferiority."""

    word: ConvergenceWord = "none"  # holds, fails, inconclusive; none: not asked (all changes are exact)
    metric: str = "training loss"  # what was compared
    margin: float | None = None  # said beforehand; in units of the metric
    difference: float | None = None  # mean over seeds of final minus baseline
    upper: float | None = None  # one-sided 95 % bound of it
    # seeds, steps: how many
    seeds: int = 0
    steps: int = 0
    smoke_test: bool = True  # the horizon is too short to be more than that
    sentence: str = ""
    baseline: list[list[float]] = []
    final: list[list[float]] = []


class Applied(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change: one optimization with its options."""

    name: str
    options: dict[str, Any] = {}


class Suspect(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change that could save much, before anything was raced."""

    label: str  # with its options, `num_workers=2`
    title: str = ""  # what it does
    saves: float = 0.0  # seconds of a step that it could save at most
    suggests: bool = False  # it is only ever suggested


class Diagnosis(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a step's time goes, by leaving parts out."""

    recipe: list[Applied] = []  # under these changes
    step: float = 0.0  # seconds, median
    shares: dict[str, float] = {}  # seconds by part; add up to `step`
    what_if: dict[str, float] = {}  # seconds of a step with parts left out
    bound: str = ""  # data, transfer, compute, other
    sentence: str = ""  # what bounds the step, in words
    syncs: list[dict[str, Any]] = []  # synchronising calls: [{"what", "where", "count"}]
    noise: float | None = None  # A/A: relative standard deviation of a round
    # smallest saving that a long race finds in half of all cases, as a share of the step
    detectable: float | None = None
    batch: int = 1
    peak: int | None = None
    # share of the step that the device works; None if it was not measured
    utilization: float | None = None
    facts: list[str] = []
    notes: list[str] = []
    suspects: list[Suspect] = []  # what could save most, the likeliest first


class Rung(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change that was tried, or not."""

    name: str  # of the optimization
    label: str = ""  # with its options, `num_workers=2`
    title: str = ""
    options: dict[str, Any] = {}  # of the change
    numerics: Numerics = "exact"
    # faster, slower, same, unclear (raced); smaller, larger (goal memory); failed; not tried; suggested
    verdict: RungWord = "not tried"
    # speedup, ci95: against the incumbent of that moment; None when it was not raced
    speedup: float | None = None
    ci95: tuple[float, float] | None = None
    bound: float | None = None  # seconds of a step that it could save at most
    step: float | None = None  # seconds of a step with it
    rounds: int = 0  # paired rounds
    ratios: list[float] = []
    seconds: float = 0.0  # of the session that it took
    compile_seconds: float = 0.0  # of these in torch.compile
    pays_back: int | None = None  # steps after which the compile time is won back; None when there is none
    gate: Gate = Gate()
    kept: bool = False  # it is in the final set
    dropped: bool = False  # it had been kept and was taken out again (leave one out)
    replaced: bool = False  # it had been kept until a rival took its place, whose effect is on top of it
    reason: str = ""  # why kept or not, in words
    throughput: float | None = None  # samples per second with it
    memory: float | None = None  # ratio of peaks, candidate over incumbent
    utilization: float | None = None  # share of the step that the device works, with it
    hunk: bool = False  # its edit stands in the patch
    edit: str = ""  # why not, if it does not
    suggestion: str = ""


class Measured(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Speed of one recipe in fresh processes."""

    step: float  # seconds, mean over processes of medians
    ci95: tuple[float, float] | None = None  # of it
    throughput: float = 0.0  # samples per second
    processes: int = 0  # fresh ones
    steps: int = 0  # timed in all
    samples: list[list[float]] = []  # raw seconds of steps by process
    peak: int | None = None  # bytes


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
    """The patch and its verification."""

    path: str = ""  # of the .patch file, "" when nothing could be edited
    text: str = ""  # the unified diff
    command: str = ""  # the script with its own switches
    hunks: list[str] = []  # names of the optimizations in it
    left_out: dict[str, str] = {}  # names with the reason
    applies: bool | None = None  # `git apply` says yes
    files: dict[str, str] = {}  # sha256 of each file as the patch leaves it, by path
    speedup: Speedup | None = None  # of the patched script against the user's, without recipe
    # its losses are those of the recipe's run; None when they could not be compared
    same_losses: bool | None = None
    contradictions: list[str] = []  # what the raced changes do at run time and the patched script does not
    sentence: str = ""
    suggestions: str = ""  # unified diff of what is only suggested


class OutputSameness(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far one output tensor of the tuned model is from the model as it is; worst over all inputs."""

    output: int  # its place
    # rms, largest: error over the root mean square of the model's output
    rms: float
    largest: float
    absolute: float  # largest error, in the output's own unit
    cosine: float  # of all calls as one vector
    # share of rows whose largest element is at the same place; None for other outputs
    top1: float | None = None
    # number of the recorded call with the largest RMS error, from 1; None: nobody looked
    worst: int | None = None


class Point(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way to run a model, as far as it was measured on the way."""

    label: str  # its changes; "as it is"
    recipe: list[Applied] = []  # the same
    instances: int = 1  # processes at once
    threads: int = 0  # of each; 0: the runtime's own choice
    batch: int = 1  # items in a call
    latency: float = 0.0  # seconds of a call, median
    ci95: tuple[float, float] | None = None  # of it
    # upper end of the interval of the quantile that the SLO names; None without one, or with too few calls
    bound: float | None = None
    throughput: float = 0.0  # items per second, of all instances
    peak: int = 0  # bytes of their processes together
    # joules an item, gross, of CPU packages and memory; None if no meter gave a reading
    energy: float | None = None
    calls: int = 0  # timed
    limits: Judgement | None = None  # whether it keeps them; None if none were set
    # no other point is better in one of latency, throughput, memory and, if it was read of all, energy
    # without being worse in another
    front: bool = False
    chosen: bool = False  # it is the final set


class TunedModel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The additional results of a session that tunes a model, not a script."""

    batch: int = 1  # items in a call
    inputs: str = ""  # of a call, in words
    origin: str = ""  # where they come from
    form: str = "as_is"  # how the final set runs the model: as_is, exported, packaged, onnx, openvino
    folder: str = ""  # that was handed back, "" for none
    needs: list[str] = []  # packages of its tuned.py
    takes: str = ""  # tensors, in words
    calls: int = 0  # recorded calls that it was held against
    outputs: list[OutputSameness] = []  # the errors there
    instructions: list[str] = []  # what the CPU has for vectors of few bits
    slo: str = ""  # latency that was promised, `20ms@p99`; "" for none
    max_memory: int | None = None  # bytes that its process may have
    limits: list[GateCheck] = []  # whether the chosen point keeps them
    points: list[Point] = []  # all that was measured, the fastest first
    # what bounds a call, before and after; None if the session ended before that was asked
    bounds: ModelBounds | None = None

    @property
    def chosen(self) -> Point | None:
        """The point of the final set; None if none was measured as a point."""
        return next((point for point in self.points if point.chosen), None)


class TunedServer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The additional results of a session that tunes the flags of a server."""

    before: str = ""  # its command line as it is
    command: str = ""  # with the final flags; `{port}` stays open in both
    choices: dict[str, list[str | int | float]] = {}  # values of each flag in braces, today's first
    template: str = ""  # the command with its braces
    url: str = ""  # where requests went
    body: str = ""  # file with what was sent
    sent: str = ""  # a hash of it
    headers: list[str] = []  # their names
    # load, figure: on it, and what the goal looks at, in words
    load: str = ""
    figure: str = ""
    unit: str = "requests"  # what a rate counts
    compared: int = 0  # answers that were held against those of the server as it is
    slo: str = ""  # promise, `ttft=300ms@p95`; "" for none
    limits: list[GateCheck] = []  # whether the final flags keep it
    ready: dict[str, float] = {}  # seconds until a start answered, median, by side
    block: float = 0.0  # seconds of load of a side of a round


class Tuning(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that a session of `laptime tune` found."""

    # throughput, memory; of models latency and cost, CPU seconds an item
    goal: Literal["throughput", "memory", "latency", "cost"] = "throughput"
    mode: Literal["fast", "certify"] = "fast"  # fast or certify
    budget: float = 600.0  # seconds
    # before, after: diagnoses of the script as it is and with the final set
    before: Diagnosis | None = None
    after: Diagnosis | None = None
    ladder: list[Rung] = []  # in the order of trying
    ruled_out: dict[str, str] = {}  # why names of the catalogue were not even candidates
    # baseline, final, speedup: measured again, in new processes, interleaved: only that is "the gain"
    baseline: Measured | None = None
    final: Measured | None = None
    speedup: Speedup | None = None
    recipe: list[Applied] = []  # the final set
    recipe_path: str = ""  # file for `laptime verify` and `laptime.apply`
    gate: Gate = Gate()
    convergence: Convergence = Convergence()
    patch: Patched = Patched()
    # of the session, by what was done: diagnose, race, gate, measure, record, patch, compile
    seconds_by: dict[str, float] = {}
    trials: int = 0  # processes that were started
    ended: str = "complete"  # complete, budget (stopped trying), interrupted
    why_ended: str = ""  # why nothing more was tried
    shortfall: "Shortfall | None" = None  # what the budget was too short for; None if it was not
    # of a session that tunes a model, server: of one that tunes a server's flags; None of others
    model: TunedModel | None = None
    server: TunedServer | None = None

    @property
    def limits(self) -> list[GateCheck]:
        """The limits that the final set has to keep, and whether it does."""
        tuned = self.model or self.server
        return tuned.limits if tuned else []


class Shortfall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part that a session left out because its budget was too short for it."""

    # race (nothing could be tried), measurement (the gain was not measured again)
    what: Literal["race", "measurement"]
    needs: float  # seconds that it takes, about
    left: float  # seconds that were left for it
    budget: float  # seconds of a session that would do, about
    sentence: str  # all that in words
