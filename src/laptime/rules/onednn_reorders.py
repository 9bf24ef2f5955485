"""oneDNN spends the step on turning tensors from one layout into another.

Lies when: weights are reordered once and then kept (frozen inference): the observed step was the first.
Source: oneDNN's guide to its verbose output; 5 % of the step is our own threshold: the primitives are
those of a single step, and writing them down makes that step slower."""

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._facts import CONVOLUTION
from laptime.rules._reading import in_loader, operators, per_step, share, step, times

THRESHOLD = 0.05


def rule(profile: Profile) -> Finding | None:
    """Sum the reorders of the observed step."""
    rows = [row for row in profile.primitives if row.kind == "reorder"]
    inside = [row for row in operators(profile, CONVOLUTION) if in_loader(row) < 0.5]
    # Primitives are timed in a step of their own, which writing them down makes slower than it is, and those
    # of linear layers are among them: the change spares no more than the convolutions take.
    most = per_step(profile, sum(row.host_self_ns for row in inside)) if inside else step(profile)
    # Transforms of images are convolutions, too: the share that no loader makes.
    made = operators(profile, r"aten::(mkldnn_)?convolution")
    of_model = sum(row.calls * (1 - in_loader(row)) for row in made) / (sum(row.calls for row in made) or 1)
    calls = sum(row.calls for row in rows)
    reorders = sum(row.total_ns for row in rows) * 1e-9 * (of_model if made else 1.0)
    spent, bound = min(most, reorders), "at most " if reorders > most else ""
    convolves = any(row.kind == "convolution" for row in profile.primitives) or operators(
        profile, CONVOLUTION
    )
    if not rows or not convolves or share(profile, spent) < THRESHOLD:
        return None
    return finding(
        profile,
        f"oneDNN reorders tensors {calls:,} times a step: {bound}{times(profile, spent)}",
        reaches={"compute": spent},
        gain_is="the time in reorder primitives, at most that of all convolutions; faster convolutions in"
        " the other layout come on top",
        evidence={"shapes": [row.shapes for row in sorted(rows, key=lambda row: -row.total_ns)[:5]]},
        rows=[f"operators/{row.id}" for row in operators(profile, r"aten::(mkldnn_convolution|to_mkldnn)")],
        change="model.to(memory_format=torch.channels_last) and the same for the input",
        optimization="channels_last",
    )
