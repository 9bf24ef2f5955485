"""Measure how fast a model runs, with an interval and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from laptime.apps.cli import options
from laptime.apps.cli.options import complete_targets
from laptime.apps.cli.output import Delivery
from laptime.kit import typed
from laptime.kit.errors import UsageError
from laptime.records.plan import BenchRequest
from laptime.records.run import Run
from laptime.store.live_run import Recorded

if TYPE_CHECKING:
    from laptime.verbs.bench.case_worker import OpenSession

same_option = click.option(
    "--same",
    metavar="NAME,...",
    help="Measure these architectures in every installed framework: efficientnet_b0, resnet50.",
)


def make_request(targets: Sequence[str], given: dict[str, Any], same: str | None = None) -> BenchRequest:
    """The request that the line makes. same: architectures; their targets, and the backends that can run
    them, are added. Raises UsageError: options contradict each other."""
    request = options.make_request(BenchRequest, given, targets=[*targets])
    request.check()
    if not same:
        return request
    from laptime.verbs.bench import planning  # not for `laptime --help`
    from laptime.verbs.bench import variants as frameworks

    planning.check(request)
    found = frameworks.same(same, backends=request.backends, python=request.python)
    return structs.replace(
        request,
        targets=[*targets, *found.targets],
        backends=found.backends,
        origins={"backends": "machine", **request.origins},
    )


def measure(request: BenchRequest, delivery: Delivery, start: OpenSession | None = None) -> Recorded:
    """The run, and what is to be said if it could not be kept where it belongs. Raises UsageError: the
    request is impossible; nothing was measured. start: how a variant's worker is started; None in the usual
    way."""
    from laptime.verbs.bench import bench  # not for `laptime --help`

    work = partial(bench, open_session=start) if start else bench
    return delivery.watch(work, request, save=request.save, travels="" if start else "bench")


def run_of(request: BenchRequest, delivery: Delivery, start: OpenSession | None = None) -> Run:
    """The run alone, which is shown later; what kept it from its place is said at once."""
    run, complaint = measure(request, delivery, start)
    if complaint:
        delivery.voice.complain(complaint)
    return run


@click.command("bench", cls=options.Command)
@click.argument("targets", nargs=-1, metavar="TARGET...", shell_complete=complete_targets)
@same_option
@click.option(
    "--llm", is_flag=True, help="Measure prefill and decode of a language model: tokens/s, bytes per token."
)
@click.option(
    "--prompt",
    callback=options.reader(typed.integers),
    metavar="N,...",
    help="Prompt length in tokens, with --llm. [default: 128]",
)
@click.option(
    "--output-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Answer length in tokens, with --llm. [default: 32]",
)
@options.ask_for(BenchRequest)
@options.on_option
@options.report_options
def command(
    *,
    delivery: Delivery,
    targets: tuple[str, ...],
    same: str | None,
    llm: bool,
    prompt: list[int] | None,
    output_tokens: int | None,
    **given: Any,
) -> int:
    """Measure how fast a model runs, with an interval and a verdict.

    TARGET is torchvision:NAME, timm:NAME, keras:NAME, FILE.py:FUNCTION, PACKAGE.MODULE:FUNCTION or a model
    file (.onnx, .xml, .keras); the function returns a model, or a model and its inputs. Two or more targets,
    frameworks or values of an option are measured side by side and compared; the first is the baseline.

    \b
    laptime bench torchvision:resnet18 --batch 1,8 -o report.html
    laptime bench model.py:build --dtype float32,bfloat16
    laptime bench torchvision:resnet18 --batch auto --json
    laptime bench --llm model.py:build --prompt 128,512 --batch 1,8
    laptime bench torchvision:resnet50 keras:ResNet50 --backend torch,onnxruntime,openvino
    """
    phases = _phases(llm, prompt, output_tokens)
    request = make_request(targets, given, same)
    request = structs.replace(request, options={**request.options, **phases})
    return delivery.finish(measure(request, delivery))


def _phases(llm: bool, prompt: list[int] | None, answer: int | None) -> dict[str, list[Any]]:
    """The options of a language model's phases; none if none is measured.
    Raises UsageError: what only a language model has was asked of another, or a prompt without tokens."""
    if not llm and (prompt or answer):
        what, why = (
            "only a language model has a prompt and an output",
            "--prompt and --output-tokens go with --llm",
        )
        raise UsageError(what, why=why, next="--llm")
    if not llm:
        return {}
    if prompt and min(prompt) < 1:
        what, why = f"--prompt {min(prompt)} is impossible", "a prompt has at least one token"
        raise UsageError(what, why=why, next="--prompt 128")
    return {"phase": ["prefill", "decode"], "prompt": prompt or [128], "output": [answer or 32]}
