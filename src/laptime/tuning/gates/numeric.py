"""Values of a training step against the baseline's, with the tolerance of the change's class.

exact          every bit of every tensor, every loss
reassociated   RMSE(candidate, fp64) <= k RMSE(baseline, fp64) + tolerance / 10; k = 2, and 3 for tensors of
               less than 1000 elements. Source: PyTorch's `torch._dynamo.utils.same`, which takes 10 for
               tensors that a few directions rule; so do we for steps that follow others, where rounding
               errors have been amplified (steps of a capture are all first ones). The tolerance is
               relative, to the tensor's own RMS or 1 % of its group's, whichever is larger: dynamo's
               absolute one would let any change of small gradients pass. Norm within 0.1 % and
               cosine >= 0.9999 of all gradients, besides. Wider where rounding errors alone do more
               (`perturbation`)
precision      norm of all gradients within 2 % (tune.md, GATE 1: bf16 gave 0.9994, a lost division by 4 gives
               4.0, lost clipping 0.014; cosine alone saw neither), wider where rounding alone does more
               (`rounding`). Their cosine: >= 0.99, or 1 - cosine at
               most twice that of the baseline with its activations rounded, where that was run; else
               >= 0.9, for sound bf16 turned a fresh ResNet-18 (16 images of 32 x 32) to 0.921 here, where
               the simulation said 0.928: no number alone will do. Loss within 2 %; update: cosine >= 0.85,
               norm within 10 %; no tensor of weight with a cosine below 0.8; norms of parameters and states
               within 10 %, buffers within 5 %. The mean that BatchNorm keeps is compared in units of the
               deviation that it keeps
random         fed with captured batches: as `precision`. Own batches: the norm within a factor of 2 only;
               what is asked are the samples (`gates.data`)
algorithm      invariants only, and that BatchNorm is told of as many batches; convergence decides

The floor is the baseline run twice: where that differs from itself, it takes the place of the tolerance
(dynamo's `eager_two_runs_differ`).
Tensors whose exact gradient is zero (the bias before a BatchNorm) have nothing but rounding errors in their
gradients, which Adam makes into updates of full size: their values are left out, and said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

from laptime.records.tuning import GateCheck
from laptime.tuning.gates import perturbation, rounding
from laptime.tuning.gates.captured_numerics import Found, Row
from laptime.tuning.gates.invariants import checked

TOLERANCE = 1e-4
"""Relative, of the first step: dynamo's default `tol`."""
LATER = 10
"""Tolerance and k of steps that follow others are this multiple, or this."""
WITHOUT_REFERENCE = 1e-3
"""Relative RMSE to the baseline where there is no reference: dynamo's tolerance of training."""
FLOOR = 3.0
"""Times that a candidate may differ as much as the baseline does from itself."""
NORM = {"reassociated": 0.001, "precision": 0.02, "random": 0.02}
COSINE = {"reassociated": 0.9999, "precision": 0.9, "random": 0.9}
LOSS = 0.02
"""Relative difference of losses in lower precision: bf16 has 8 bits, 0.4 % an operation."""
UPDATE_NORM, UPDATE_COSINE = 0.1, 0.85
TENSOR_COSINE, TENSOR_SHARE = 0.8, 0.05
"""A tensor with this share of the gradients' norm may not be turned by more."""
STATISTICS = 0.05
"""Relative RMSE of BatchNorm's running statistics and other buffers in lower precision."""
CHECKS = {
    "gradients": "gradients",
    "parameters": "parameters",
    "buffers": "buffers",
    "optimizer": "optimizer_state",
}
_RUNNING = ("running_mean", "running_var", "num_batches_tracked")
_Outcome = Literal["ok", "fail", "unknown"]


def checks(
    found: Found,
    numerics: str,
    floor: Found | None = None,
    rounded: Found | None = None,
    perturbed: Found | None = None,
) -> list[GateCheck]:
    """The checks of values. Nothing witnessed gives `unknown`, never `ok`.

    Args:
        floor: the witness of the baseline's second run against its first; None: not run, nothing is granted.
        rounded: the witness of the baseline with its activations rounded (`"rounds"`), for class precision.
        perturbed: the witness of the baseline with their last bits rounded away, for class reassociated.
    """
    if not found.totals:
        return [checked("gradients", "unknown", "no tensors were compared")]
    if numerics == "algorithm":
        return [_batches_tracked(found)]
    if numerics == "random" and not found.fed:
        return [_norm(found, 1.0), _batches_tracked(found)]
    judged = _Judged(found, numerics, floor, perturbed)
    norm_limit = judged.norm_limit
    if judged.is_loose and rounded is not None:
        own = _totals(found, "gradients")
        norm_limit = rounding.norm(own, _totals(rounded, "gradients"), norm_limit)
    return [
        judged.loss(),
        _norm(found, norm_limit),
        _direction(found, judged.is_loose, judged.cosine_limit, rounded),
        *judged.groups(),
        *([_update_norm(found), _update_direction(found)] if judged.is_loose else []),
    ]


class _Judged:
    """One witness under one class."""

    def __init__(
        self, found: Found, numerics: str, floor: Found | None, perturbed: Found | None = None
    ) -> None:
        self._found, self._floor = found, floor
        self._numerics = numerics
        self.is_loose = numerics in ("precision", "random")
        kind = "reassociated" if numerics == "exact" else numerics
        self.norm_limit, self.cosine_limit = NORM[kind], COSINE[kind]
        self._whole = {(row.step, row.group): row for row in found.totals}
        self._floors = {(row.step, row.group, row.name): row for row in floor.tensors} if floor else {}
        self._whole_floors = {(row.step, row.group): row for row in floor.totals} if floor else {}
        self._variances = {
            (row.step, row.name.removesuffix("var")): row.rms or 0.0
            for row in found.tensors
            if row.name.endswith("running_var")
        }
        self._idle = _without_gradient(found)
        self._granted: dict[str, float] = {}
        if perturbed is not None:
            rows = [row for row in perturbed.tensors if row.name.split("/")[0] not in self._idle]
            self._granted = perturbation.granted(rows, self._scale)
            totals = _totals(perturbed, "gradients")
            self.norm_limit = perturbation.norm(totals, self.norm_limit)
            self.cosine_limit = perturbation.cosine(totals, self.cosine_limit)

    def loss(self) -> GateCheck:
        """Of every step."""
        worst: tuple[float, float, int] = (-math.inf, 0.0, 0)
        own, base = self._found.candidate.steps, self._found.base.steps
        for number, (mine, theirs) in enumerate(zip(own, base, strict=False)):
            if mine.loss is None or theirs.loss is None:
                continue
            apart = abs(mine.loss - theirs.loss) / max(abs(theirs.loss), 1e-12)
            limit = self._loss_limit(number, theirs.loss)
            worst = max(worst, (apart - limit, apart, number))
        if worst[0] == -math.inf:
            return checked("loss", "unknown", "no loss was seen")
        _, apart, number = worst
        limit = self._loss_limit(number, base[number].loss or 0.0)
        text = f"step {number + 1}: loss {own[number].loss:.6g}, {base[number].loss:.6g} before"
        return checked("loss", "ok" if apart <= limit else "fail", text, apart, limit)

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
            return max(granted, LOSS * (1 if number == 0 or self._found.apart else 2))
        if number < len(self._found.reference.steps):
            exact = self._found.reference.steps[number].loss
            if exact is not None:
                granted = max(granted, 3 * abs(base - exact) / scale)
        return granted + TOLERANCE * (1 if number == 0 or self._found.apart else LATER)

    def groups(self) -> list[GateCheck]:
        """Gradients, parameters, buffers, optimizer state; BatchNorm's own are told apart."""
        made = []
        for group, name in CHECKS.items():
            rows = [row for row in self._found.tensors if row.group == group]
            missing = [each for each in self._found.unmatched if each.startswith(f"{group}: ")]
            if missing:
                text = f"{missing[0]} is not on both sides" + (
                    f", nor {len(missing) - 1} more" * (len(missing) > 1)
                )
                made.append(checked(name, "fail", text, len(missing), 0))
            elif group == "buffers":
                made += self._buffers(rows)
            elif rows:
                made.append(self._group(name, rows))
            elif group in ("gradients", "parameters"):
                made.append(checked(name, "unknown", f"no {group} were compared"))
        return made

    def _buffers(self, rows: list[Row]) -> list[GateCheck]:
        running = [row for row in rows if row.name.endswith(_RUNNING)]
        others = [row for row in rows if not row.name.endswith(_RUNNING)]
        made = [self._group("batchnorm", running)] if running else []
        return [*made, self._group("buffers", others)] if others else made

    def _group(self, name: str, rows: list[Row]) -> GateCheck:
        if self._numerics == "exact":
            return self._exact(name, rows)
        judged = [row for row in rows if row.name.split("/")[0] not in self._idle]
        left = len({row.name for row in rows} - {row.name for row in judged})
        note = f"; {left} tensors whose exact gradient is zero are left out" if left else ""
        if not judged:
            return checked(name, "unknown", f"nothing to compare{note}")
        limit_of = self._loose if self.is_loose else self._reassociated
        worst = max(judged, key=lambda row: _overshoot(*limit_of(row)))
        value, limit = limit_of(worst)
        outcome: _Outcome = "ok" if _overshoot(value, limit) <= 1 else "fail"
        text = f"{worst.name}, step {worst.step + 1}: relative error {value:.3g}, allowed {limit:.3g}{note}"
        if not worst.point:
            text = (
                f"{worst.name}, step {worst.step + 1}: {worst.norm:.6g}, {worst.base_norm:.6g} before{note}"
            )
            value, limit = worst.norm or 0.0, worst.base_norm or 0.0
        return checked(name, outcome, text, value, limit)

    def _exact(self, name: str, rows: list[Row]) -> GateCheck:
        unequal = [row for row in rows if not row.equal]
        if not unequal:
            return checked(
                name, "ok", f"bit for bit the same ({len({row.name for row in rows})} tensors)", 0, 0
            )
        worst = max(unequal, key=lambda row: _overshoot(_relative(row.error, row), self._floor_of(row)))
        value, limit = _relative(worst.error, worst), self._floor_of(worst)
        outcome: _Outcome = "ok" if limit > 0 and value <= limit else "fail"
        text = f"{len(unequal)} tensors differ, most of all {worst.name} in step {worst.step + 1}"
        text += f" (relative {value:.3g}"
        return checked(name, outcome, f"{text}; the baseline from itself: {limit / FLOOR:.3g})", value, limit)

    def _floor_of(self, row: Row) -> float:
        """What this tensor may differ because the baseline does from itself; relative."""
        own = self._floors.get((row.step, row.group, row.name))
        whole = self._whole_floors.get((row.step, row.group))
        found = [_relative(each.error, each) for each in (own, whole) if each is not None]
        return FLOOR * max(found, default=0.0)

    def _scale(self, row: Row) -> float:
        """RMS that errors are relative to."""
        whole = self._whole.get((row.step, row.group))
        if row.name.endswith("running_mean"):  # a mean near 0 is as exact as the deviation around it
            variance = self._variances.get((row.step, row.name.removesuffix("mean")), 0.0)
            return max(row.rms or 0.0, math.sqrt(variance), 1e-30)
        rms = 0.01 * (whole.rms or 0.0) if whole is not None else 0.0
        return max(row.rms or 0.0, rms, 1e-30)

    def _reassociated(self, row: Row) -> tuple[float, float]:
        """Relative error and its limit."""
        if not row.point:
            return (0.0 if row.equal else math.inf), 0.0
        scale, first = self._scale(row), row.step == 0 or self._found.apart
        floor = max(self._floor_of(row), self._granted.get(row.group, 0.0))
        if row.candidate_error is None or row.base_error is None:
            limit = WITHOUT_REFERENCE * (1 if first else LATER)
            return _over(row.error, scale), max(limit, floor)
        factor = (3 if row.elements < 1000 else 2) if first else LATER
        limit = factor * row.base_error / scale + TOLERANCE / 10 * (1 if first else LATER)
        return _over(row.candidate_error, scale), max(limit, floor)

    def _loose(self, row: Row) -> tuple[float, float]:
        """Of lower precision: directions of gradients, norms of states, values of the rest."""
        if not row.point:
            return (0.0 if row.equal else math.inf), 0.0
        whole = self._whole.get((row.step, row.group))
        if row.group == "gradients":
            share = (row.base_norm or 0.0) / max((whole.base_norm if whole else 0.0) or 0.0, 1e-30)
            weighs = share >= TENSOR_SHARE and row.cosine is not None
            return (1 - (row.cosine or 0.0) if weighs else 0.0), 1 - TENSOR_COSINE
        if row.group in ("optimizer", "parameters"):
            least = 0.01 * ((whole.base_norm if whole else 0.0) or 0.0)
            apart = abs((row.norm or 0.0) - (row.base_norm or 0.0))
            return apart / max(row.base_norm or 0.0, least, 1e-30), UPDATE_NORM
        return _over(row.error, self._scale(row)), STATISTICS


def _over(value: float | None, scale: float) -> float:
    return math.inf if value is None else value / scale


def _relative(error: float | None, row: Row) -> float:
    return _over(error, max(row.rms or 0.0, 1e-30))


def _overshoot(value: float, limit: float) -> float:
    if limit > 0:
        return value / limit
    return 0.0 if value == 0 else math.inf


def _without_gradient(found: Found) -> set[str]:
    """Parameters whose gradient is rounding error alone: as far from exact as it is long."""
    names = set()
    whole = {(row.step, row.group): row for row in found.totals}
    for row in found.tensors:
        if row.group != "gradients" or row.rms is None:
            continue
        if row.base_error is not None and row.reference_norm is not None:
            exact = row.reference_norm / math.sqrt(max(row.elements, 1))
            if row.base_error > 0.5 * exact:
                names.add(row.name)
        elif row.rms < 1e-6 * (whole[row.step, "gradients"].rms or 0.0):
            names.add(row.name)
    return names


def _totals(found: Found, group: str) -> list[Row]:
    return [row for row in found.totals if row.group == group]


def _norm(found: Found, limit: float) -> GateCheck:
    """Norm of all gradients, candidate over baseline; later steps may be off by twice as much.

    Clipping makes different gradients of one length: so the norms that it began from are compared, too.
    """
    for number, (mine, theirs) in enumerate(zip(found.candidate.steps, found.base.steps, strict=False)):
        allowed = _allowed(found, number, limit)
        for own, base in zip(mine.clipped_from, theirs.clipped_from, strict=False):
            if own is None or not base or max(own / base, base / max(own, 1e-30)) <= 1 + allowed:
                continue
            text = f"step {number + 1}: before clipping the norm of the gradients is {own / base:.4g} times"
            return checked("gradient_norm", "fail", f"{text} the baseline's", own / base, 1 + allowed)
    return _ratio("gradient_norm", "gradients", found, limit)


def _update_norm(found: Found) -> GateCheck:
    return _ratio("update_norm", "updates", found, UPDATE_NORM)


def _ratio(name: str, group: str, found: Found, limit: float) -> GateCheck:
    rows = [row for row in _totals(found, group) if row.norm is not None and row.base_norm]
    if not rows:
        return checked(name, "unknown", f"no {group} were compared")

    def off(row: Row) -> float:
        ratio = (row.norm or 0.0) / (row.base_norm or 1.0)
        return max(ratio, 1 / max(ratio, 1e-30)) - 1

    worst = max(rows, key=lambda row: off(row) / _allowed(found, row.step, limit))
    ratio = (worst.norm or 0.0) / (worst.base_norm or 1.0)
    outcome: _Outcome = "ok" if off(worst) <= _allowed(found, worst.step, limit) else "fail"
    text = f"step {worst.step + 1}: the norm of all {group} is {ratio:.4g} times the baseline's"
    if outcome == "fail" and (worst.cosine or 0.0) > COSINE["reassociated"]:
        text += ", and they point the same way: they are scaled"
    return checked(name, outcome, text, ratio, 1 + _allowed(found, worst.step, limit))


def _allowed(found: Found, step: int, limit: float) -> float:
    """Steps that follow others may be off by twice as much."""
    return limit if step == 0 or found.apart else 2 * limit


def _direction(found: Found, is_loose: bool, limit: float, rounded: Found | None) -> GateCheck:
    if is_loose and rounded is not None:
        limit = rounding.cosine(_totals(rounded, "gradients"), limit)
    return _cosine("gradient_direction", "gradients", found, limit)


def _update_direction(found: Found) -> GateCheck:
    return _cosine("update_direction", "updates", found, UPDATE_COSINE)


def _cosine(name: str, group: str, found: Found, limit: float) -> GateCheck:
    rows = [row for row in _totals(found, group) if row.cosine is not None]
    if not rows:
        return checked(name, "unknown", f"no {group} were compared")
    worst = max(rows, key=lambda row: (1 - (row.cosine or 0.0)) / _allowed(found, row.step, 1 - limit))
    least = 1 - _allowed(found, worst.step, 1 - limit)
    outcome: _Outcome = "ok" if (worst.cosine or 0.0) >= least else "fail"
    text = f"step {worst.step + 1}: cosine of all {group} {worst.cosine:.6f}"
    if outcome == "fail":
        text += _most_turned(group, found.tensors)
    return checked(name, outcome, text, worst.cosine, least)


def _most_turned(group: str, rows: Iterable[Row]) -> str:
    own = [row for row in rows if row.group == group and row.cosine is not None]
    key: Callable[[Row], float] = lambda row: (1 - (row.cosine or 0.0)) * (row.base_norm or 0.0)  # noqa: E731
    return f", most of all {max(own, key=key).name}" if own else ""


def _batches_tracked(found: Found) -> GateCheck:
    """BatchNorm counts its batches: more of them are micro-batches, with other statistics."""
    rows = [row for row in found.tensors if row.name.endswith("num_batches_tracked")]
    for row in rows:
        if not row.equal:
            text = f"{row.name}, step {row.step + 1}: {row.norm:.6g} batches, {row.base_norm:.6g} before"
            return checked("batchnorm", "fail", text, row.norm, row.base_norm)
    return checked("batchnorm", "ok", "told of as many batches" if rows else "there is none")
