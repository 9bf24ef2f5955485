"""Values of a training step against the baseline's, with the tolerance of the change's class.

exact          every bit of every tensor, every loss
reassociated   RMSE(candidate, fp64) <= k RMSE(baseline, fp64) + tolerance / 10, with k = 2, 3 or 10. Source:
               PyTorch's `torch._dynamo.utils.same`. The tolerance is relative, to the tensor's own RMS or
               1 % of its group's, whichever is larger: dynamo's absolute one would let any change of small
               gradients pass. Norm and direction of all gradients besides
precision      norm (GATE 1 of tune.md: bf16 gave 0.9994, a lost division by 4 gives 4.0) and direction of all
               gradients and updates, and single tensors: all by what simulated rounding does to this model
               (`rounding_noise`), for no one number will do. Loss within 2 %. The mean that BatchNorm keeps
               is compared in units of the deviation that it keeps
random         fed with captured batches: as `precision`. Own batches: the norm within a factor of 2 only;
               the samples are checked instead (`gates.data`)
algorithm      invariants only, and that BatchNorm counts as many batches; convergence decides

The floor is the baseline run twice: where that differs from itself, it takes the place of the tolerance
(dynamo's `eager_two_runs_differ`).
Tensors whose exact gradient is zero (the bias before a BatchNorm) have nothing but rounding errors in their
gradients, which Adam makes into updates of full size: their values are left out, and the check says so."""

import math
from collections.abc import Sequence

from laptime.records.quantity import BROKEN, KEPT, UNDECIDED
from laptime.records.tuning import GateCheck
from laptime.tuning.gates import rounding_noise
from laptime.tuning.gates.invariants import report
from laptime.tuning.gates.rounding_noise import (
    TINY,
    across,
    over,
    overshoot,
    relative,
    stretch,
    totals_of,
    turn,
)
from laptime.tuning.trial.messages import NumericsComparison, TensorComparison

TOLERANCE = 1e-4  # relative, of the first step: dynamo's default `tol`
LATER = 10  # factor on the tolerance, and k, of steps that follow others
WITHOUT_REFERENCE = 1e-3
"""Relative RMSE to the baseline if there is no reference: dynamo's tolerance of training."""
FLOOR = 3.0  # a candidate may differ this many times as much as the baseline does from itself
NORM = {"reassociated": 0.001, "precision": 0.02, "random": 0.02}
COSINE = {"reassociated": 0.9999, "precision": 0.9, "random": 0.9}
LOSS = 0.02  # relative difference of losses in lower precision: bf16 has 8 bits, 0.4 % an operation
UPDATE_NORM, UPDATE_COSINE = 0.1, 0.85
STATISTICS_UPDATE = 1.0
"""BatchNorm's running statistics may move twice or half as far in a step: rounding moves them, too, but where
they stand still, values tell nothing once a model has trained."""
TENSOR_COSINE, TENSOR_SHARE = 0.8, 0.05
"""A tensor with this share of the gradients' norm may not be turned by more."""
GRADIENT_ERROR, SIMULATED_STATISTICS = 0.05, 0.01
"""Relative error of a tensor's gradient, and of a buffer, allowed whatever little a simulation shows."""
ALONG_ACROSS = 10.0
"""Part of a rounding error along a gradient, over the part across it. Measured: up to 8 in simulations, where
what was rounded is a factor that all elements share (a sum of residuals near zero)."""
MANY = 16  # elements of a gradient from which on its length along its own direction is asked for, too
STATISTICS = 0.05  # the same of BatchNorm's running statistics and other buffers without a simulation
CHECKS = {
    "gradients": "gradients",
    "parameters": "parameters",
    "buffers": "buffers",
    "optimizer": "optimizer_state",
}
"""Name of the check of each group."""
_WORDS = {"statistics": "steps of BatchNorm's running statistics"}
_RUNNING = ("running_mean", "running_var", "num_batches_tracked")


def checks(
    comparison: NumericsComparison,
    numerics: str,
    floor: NumericsComparison | None = None,
    rounded: Sequence[NumericsComparison] = (),
    perturbed: Sequence[NumericsComparison] = (),
) -> list[GateCheck]:
    """The checks of values. Nothing captured gives `unknown`, never `ok`.
    floor: the baseline's second run against its first; None: not run, nothing is granted. rounded: the
    baseline with its activations rounded to a smaller type, for class precision; draws. perturbed: the
    baseline with their last bits rounded away, for class reassociated; draws."""
    if not comparison.totals:
        return [report("gradients", UNDECIDED, "no tensors were compared")]
    if numerics == "algorithm":
        return [_batches_tracked(comparison)]
    tolerances = _Tolerances(comparison, numerics, floor, rounded, perturbed)
    if numerics == "random" and not comparison.fed:
        return [tolerances.gradient_norm(1.0), _batches_tracked(comparison)]
    updates = []
    if tolerances.is_loose:
        updates = [
            tolerances.norm_ratio("update_norm", "updates", UPDATE_NORM),
            tolerances.direction("update_direction", "updates", tolerances.update_cosine),
        ]
    if any(row.group == "statistics" for row in comparison.totals) and numerics != "exact":
        updates.append(tolerances.norm_ratio("statistics_update", "statistics", STATISTICS_UPDATE))
    return [
        tolerances.loss(),
        tolerances.gradient_norm(tolerances.norm_limit),
        tolerances.direction("gradient_direction", "gradients", tolerances.cosine_limit),
        *tolerances.groups(),
        *updates,
    ]


class _Tolerances:
    """Judges one comparison by the tolerances of one class."""

    def __init__(
        self,
        comparison: NumericsComparison,
        numerics: str,
        floor: NumericsComparison | None,
        rounded: Sequence[NumericsComparison],
        perturbed: Sequence[NumericsComparison],
    ) -> None:
        self._comparison, self._floor, self._numerics = comparison, floor, numerics
        self.is_loose = numerics in ("precision", "random")
        self._totals = {(row.step, row.group): row for row in comparison.totals}
        self._floors = {(row.step, row.group, row.name): row for row in floor.tensors} if floor else {}
        self._floor_totals = {(row.step, row.group): row for row in floor.totals} if floor else {}
        self._variances = {
            (row.step, row.name.removesuffix("var")): row.rms or 0.0
            for row in comparison.tensors
            if row.name.endswith("running_var")
        }
        self._without_gradient = rounding_noise.without_gradient(comparison)
        kind = "reassociated" if numerics == "exact" else numerics
        self.norm_limit, self.cosine_limit = NORM[kind], COSINE[kind]
        self._norm_granted: dict[int, float] = {}
        rows = [row for each in perturbed for row in each.tensors if not self._is_left_out(row)]
        self._granted = rounding_noise.last_bits_errors(rows, self._scale)
        rounded = rounded if self.is_loose else ()
        self._noise = rounding_noise.largest(rounded, self._deviation)
        self._stretch = rounding_noise.largest(rounded, stretch)
        self._across = rounding_noise.largest(rounded, across)
        updates = [row for each in rounded for row in totals_of(each, "updates")]
        self.update_cosine = min(UPDATE_COSINE, rounding_noise.precision_cosine(updates, UPDATE_COSINE))
        if gradients := [row for each in (*rounded, *perturbed) for row in totals_of(each, "gradients")]:
            grant, turn_to = rounding_noise.last_bits_norm, rounding_noise.last_bits_cosine
            if self.is_loose:
                grant, turn_to = rounding_noise.precision_norm, rounding_noise.precision_cosine
            self._norm_granted = {
                row.step: grant(row, gradients) for row in totals_of(comparison, "gradients")
            }
            self.cosine_limit = turn_to(gradients, self.cosine_limit)

    def _is_first(self, step: int) -> bool:
        """Whether a step began from the baseline's own state."""
        return step == 0 or self._comparison.restored

    def _allow(self, step: int, limit: float) -> float:
        """Steps that follow others may be off by twice as much."""
        return limit if self._is_first(step) else 2 * limit

    # All tensors together.

    def loss(self) -> GateCheck:
        """Compare the loss of every step; return the one that is farthest over its limit."""
        candidate, base = self._comparison.candidate.steps, self._comparison.base.steps
        worst: tuple[float, float, int] | None = None
        for number, (mine, theirs) in enumerate(zip(candidate, base, strict=False)):
            if mine.loss is None or theirs.loss is None:
                continue
            error = abs(mine.loss - theirs.loss) / max(abs(theirs.loss), 1e-12)
            excess = (error - self._loss_limit(number, theirs.loss), error, number)
            worst = excess if worst is None else max(worst, excess)
        if worst is None:
            return report("loss", UNDECIDED, "no loss was captured")
        _, error, number = worst
        limit = self._loss_limit(number, base[number].loss or 0.0)
        text = f"step {number + 1}: loss {candidate[number].loss:.6g}, {base[number].loss:.6g} before"
        return report("loss", KEPT if error <= limit else BROKEN, text, error, limit)

    def _loss_limit(self, number: int, base: float) -> float:
        """Relative; what the reference and the floor show is granted."""
        scale = max(abs(base), 1e-12)
        granted = 0.0
        if self._floor is not None and number < len(self._floor.candidate.steps):
            again = self._floor.candidate.steps[number].loss
            granted = FLOOR * abs(again - base) / scale if again is not None else 0.0
        if self._numerics == "exact":
            return granted
        if self.is_loose:
            return max(granted, self._allow(number, LOSS))
        if number < len(self._comparison.reference.steps):
            exact = self._comparison.reference.steps[number].loss
            if exact is not None:
                granted = max(granted, 3 * abs(base - exact) / scale)
        return granted + TOLERANCE * (1 if self._is_first(number) else LATER)

    def gradient_norm(self, limit: float) -> GateCheck:
        """Norm of all gradients, candidate over baseline.

        Clipping makes different gradients of one length: so the norms that it began from are compared, too.
        """
        candidate, base = self._comparison.candidate.steps, self._comparison.base.steps
        for number, (mine, theirs) in enumerate(zip(candidate, base, strict=False)):
            allowed = self._allow(number, max(limit, self._norm_granted.get(number, 0.0)))
            for norm, base_norm in zip(mine.clipped_from, theirs.clipped_from, strict=False):
                if norm is None or not base_norm:
                    continue
                if max(norm / base_norm, base_norm / max(norm, TINY)) <= 1 + allowed:
                    continue
                ratio = norm / base_norm
                text = f"step {number + 1}: before clipping the norm of the gradients is {ratio:.4g} times"
                return report("gradient_norm", BROKEN, f"{text} the baseline's", ratio, 1 + allowed)
        return self.norm_ratio("gradient_norm", "gradients", limit)

    def norm_ratio(self, name: str, group: str, limit: float) -> GateCheck:
        """Norm of a whole group, candidate over baseline."""
        rows = [row for row in totals_of(self._comparison, group) if row.norm is not None and row.base_norm]
        if not rows:
            return report(name, UNDECIDED, f"no {group} were compared")

        def ratio_of(row: TensorComparison) -> float:
            return (row.norm or 0.0) / (row.base_norm or 1.0)

        def error(row: TensorComparison) -> float:
            return max(ratio_of(row), 1 / max(ratio_of(row), TINY)) - 1

        def allow_row(row: TensorComparison) -> float:
            granted = self._norm_granted.get(row.step, 0.0) if group == "gradients" else 0.0
            return self._allow(row.step, max(limit, granted))

        worst = max(rows, key=lambda row: error(row) / allow_row(row))
        allowed, ratio = allow_row(worst), ratio_of(worst)
        what = _WORDS.get(group, group)
        text = f"step {worst.step + 1}: the norm of all {what} is {ratio:.4g} times the baseline's"
        if error(worst) <= allowed:
            return report(name, KEPT, text, ratio, 1 + allowed)
        if (worst.cosine or 0.0) > COSINE["reassociated"]:
            text += ", and they point the same way: they are scaled"
        return report(name, BROKEN, text, ratio, 1 + allowed)

    def direction(self, name: str, group: str, limit: float) -> GateCheck:
        """Cosine between a whole group and the baseline's."""
        rows = [row for row in totals_of(self._comparison, group) if row.cosine is not None]
        if not rows:
            return report(name, UNDECIDED, f"no {group} were compared")
        worst = max(rows, key=lambda row: turn(row) / self._allow(row.step, 1 - limit))
        least = 1 - self._allow(worst.step, 1 - limit)
        text = f"step {worst.step + 1}: cosine of all {group} {worst.cosine:.6f}"
        if (worst.cosine or 0.0) >= least:
            return report(name, KEPT, text, worst.cosine, least)
        tensors = [row for row in self._comparison.tensors if row.group == group and row.cosine is not None]
        if tensors:
            text += f", most of all {max(tensors, key=lambda row: turn(row) * (row.base_norm or 0.0)).name}"
        return report(name, BROKEN, text, worst.cosine, least)

    # Tensor by tensor.

    def groups(self) -> list[GateCheck]:
        """Gradients, parameters, buffers, optimizer state; BatchNorm's own buffers apart."""
        results = []
        for group, name in CHECKS.items():
            rows = [row for row in self._comparison.tensors if row.group == group]
            missing = [each for each in self._comparison.unmatched if each.startswith(f"{group}: ")]
            if missing:
                more = f", nor {len(missing) - 1} more" if len(missing) > 1 else ""
                text = f"{missing[0]} is not on both sides{more}"
                results.append(report(name, BROKEN, text, len(missing), 0))
            elif group == "buffers":
                running = [row for row in rows if row.name.endswith(_RUNNING)]
                others = [row for row in rows if not row.name.endswith(_RUNNING)]
                results += [self._group("batchnorm", running)] if running else []
                results += [self._group("buffers", others)] if others else []
            elif rows:
                results.append(self._group(name, rows))
            elif group in ("gradients", "parameters"):
                results.append(report(name, UNDECIDED, f"no {group} were compared"))
        return results

    def _group(self, name: str, rows: list[TensorComparison]) -> GateCheck:
        if self._numerics == "exact":
            return self._exact(name, rows)
        judged = [row for row in rows if not self._is_left_out(row)]
        left_out = len({row.name for row in rows} - {row.name for row in judged})
        note = f"; {left_out} tensors whose exact gradient is zero are left out" if left_out else ""
        if not judged:
            return report(name, UNDECIDED, f"nothing to compare{note}")
        limit_of = self._loose if self.is_loose else self._reassociated
        worst = max(judged, key=lambda row: overshoot(*limit_of(row)))
        value, limit = limit_of(worst)
        is_allowed = overshoot(value, limit) <= 1
        text = f"{worst.name}, step {worst.step + 1}: relative error {value:.3g}, allowed {limit:.3g}{note}"
        if not worst.point:
            value, limit = worst.norm or 0.0, worst.base_norm or 0.0
            text = f"{worst.name}, step {worst.step + 1}: {value:.6g}, {limit:.6g} before{note}"
        return report(name, KEPT if is_allowed else BROKEN, text, value, limit)

    def _exact(self, name: str, rows: list[TensorComparison]) -> GateCheck:
        unequal = [row for row in rows if not row.equal]
        if not unequal:
            count = len({row.name for row in rows})
            return report(name, KEPT, f"bit for bit the same ({count} tensors)", 0, 0)
        worst = max(unequal, key=lambda row: overshoot(relative(row), self._floor_of(row)))
        value, limit = relative(worst), self._floor_of(worst)
        text = f"{len(unequal)} tensors differ, most of all {worst.name} in step {worst.step + 1}"
        text += f" (relative {value:.3g}; the baseline from itself: {limit / FLOOR:.3g})"
        return report(name, KEPT if limit > 0 and value <= limit else BROKEN, text, value, limit)

    def _is_left_out(self, row: TensorComparison) -> bool:
        return row.name.split("/")[0] in self._without_gradient

    def _floor_of(self, row: TensorComparison) -> float:
        """Return how far this tensor may differ because the baseline differs from itself; relative."""
        rows = (
            self._floors.get((row.step, row.group, row.name)),
            self._floor_totals.get((row.step, row.group)),
        )
        return FLOOR * max((relative(row) for row in rows if row is not None), default=0.0)

    def _scale(self, row: TensorComparison) -> float:
        """RMS that errors are relative to."""
        total = self._totals.get((row.step, row.group))
        if row.name.endswith("running_mean"):  # a mean near 0 is as exact as the deviation around it
            variance = self._variances.get((row.step, row.name.removesuffix("mean")), 0.0)
            return max(row.rms or 0.0, math.sqrt(variance), TINY)
        return max(row.rms or 0.0, 0.01 * ((total.rms if total else 0.0) or 0.0), TINY)

    def _reassociated(self, row: TensorComparison) -> tuple[float, float]:
        if not row.point:
            return (0.0 if row.equal else math.inf), 0.0
        scale, is_first = self._scale(row), self._is_first(row.step)
        least = max(self._floor_of(row), self._granted.get(row.group, 0.0))
        if row.candidate_error is None or row.base_error is None:
            return over(row.error, scale), max(WITHOUT_REFERENCE * (1 if is_first else LATER), least)
        factor = (3 if row.elements < 1000 else 2) if is_first else LATER
        limit = factor * row.base_error / scale + TOLERANCE / 10 * (1 if is_first else LATER)
        return over(row.candidate_error, scale), max(limit, least)

    def _loose(self, row: TensorComparison) -> tuple[float, float]:
        """In lower precision: how far a tensor is off, and what simulated rounding does to this tensor.

        Gradients without a simulation: the direction of those that have weight."""
        if not row.point:
            return (0.0 if row.equal else math.inf), 0.0
        simulated = self._noise.get((row.group, row.name))
        if row.group in ("optimizer", "parameters"):
            turned = min(across(row), self._across.get((row.group, row.name), 0.0))
            limit = max(UPDATE_NORM, rounding_noise.TENSOR_NORM_TIMES * (simulated or 0.0))
            return self._deviation(row), max(limit, rounding_noise.grant_to_turned(turned))
        if simulated is not None:
            least = GRADIENT_ERROR if row.group == "gradients" else SIMULATED_STATISTICS
            limit = max(least, rounding_noise.TENSOR_ERROR_TIMES * simulated)
            return max((self._deviation(row), limit), self._along(row), key=lambda pair: overshoot(*pair))
        if row.group != "gradients":
            return self._deviation(row), STATISTICS
        total = self._totals.get((row.step, row.group))
        whole = (total.base_norm if total else 0.0) or 0.0
        has_weight = (row.base_norm or 0.0) / max(whole, TINY) >= TENSOR_SHARE and row.cosine is not None
        return (turn(row) if has_weight else 0.0), 1 - TENSOR_COSINE

    def _along(self, row: TensorComparison) -> tuple[float, float]:
        """How far a gradient is from as long along its own direction, where rounding errors hardly lie.

        Rounding that makes a gradient longer turns it, too: one that keeps its direction is scaled."""
        if row.group != "gradients" or row.elements < MANY:
            return 0.0, 1.0
        simulated = rounding_noise.TENSOR_NORM_TIMES * self._stretch.get((row.group, row.name), 0.0)
        return stretch(row), max(GRADIENT_ERROR, min(simulated, ALONG_ACROSS * across(row)))

    def _deviation(self, row: TensorComparison) -> float:
        """The relative change of the norm for parameters and states, the relative error for the others."""
        if row.group not in ("optimizer", "parameters"):
            return over(row.error, self._scale(row))
        total = self._totals.get((row.step, row.group))
        whole = (total.base_norm if total else 0.0) or 0.0
        difference = abs((row.norm or 0.0) - (row.base_norm or 0.0))
        return difference / max(row.base_norm or 0.0, 0.01 * whole, TINY)


def _batches_tracked(comparison: NumericsComparison) -> GateCheck:
    """BatchNorm counts its batches: more of them are micro-batches, with other statistics."""
    rows = [row for row in comparison.tensors if row.name.endswith("num_batches_tracked")]
    for row in rows:
        if not row.equal:
            text = f"{row.name}, step {row.step + 1}: {row.norm:.6g} batches, {row.base_norm:.6g} before"
            return report("batchnorm", BROKEN, text, row.norm, row.base_norm)
    return report("batchnorm", KEPT, "it counts as many batches" if rows else "there is none")
