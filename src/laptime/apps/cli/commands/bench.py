"""Measure how fast a model runs, with an interval and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from laptime.apps.cli import options, output
from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.options import complete_targets
from laptime.kit import typed
from laptime.kit.errors import ExitCode, UsageError
from laptime.records.event import Listener
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


def requested(
    context: click.Context, targets: Sequence[str], given: dict[str, Any], same: str | None = None
) -> BenchRequest:
    """The request that the line makes.

    Args:
        same: architectures; their targets, and the backends that can run them, are added.

    Raises:
        UsageError: options contradict each other.
    """
    request = options.requested(BenchRequest, context, given, targets=[*targets])
    request.check()
    if not same:
        return request
    from laptime.verbs.bench import planning  # not for `laptime --help`
    from laptime.verbs.bench import same as frameworks

    planning.check(request)
    found = frameworks.same(same, backends=request.backends, python=request.python)
    return structs.replace(
        request,
        targets=[*targets, *found.targets],
        backends=found.backends,
        origins={"backends": "machine", **request.origins},
    )


def measured(request: BenchRequest, voice: Voice, start: OpenSession | None = None) -> Recorded:
    """The run, and what is to be said if it could not be kept where it belongs.

    Args:
        start: how a variant's worker is started; None in the usual way.

    Raises:
        UsageError: the request is impossible.
    """
    from laptime.verbs.bench import bench  # not for `laptime --help`

    def work(request: BenchRequest, emit: Listener) -> Run:
        return bench(request, emit, open_session=start) if start else bench(request, emit)

    return output.watched(work, request, voice=voice, save=request.save)


def carry_out(
    request: BenchRequest, reports: Sequence[output.Output], *, as_json: bool, voice: Voice
) -> tuple[Run, ExitCode]:
    """Measure, keep, show and write; the run and the exit code it comes to.
    Raises UsageError: the request is impossible; nothing was measured.
    """
    ended = measured(request, voice)
    return ended[0], output.finish(ended, reports, as_json=as_json, voice=voice)


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
@options.asked(BenchRequest)
@options.report_options
@options.voice_options
@click.pass_context
def command(
    context: click.Context,
    /,
    targets: tuple[str, ...],
    same: str | None,
    llm: bool,
    prompt: list[int] | None,
    output_tokens: int | None,
    outputs: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> int:
    """Measure how fast a model runs, with an interval and a verdict.

    TARGET is torchvision:NAME, timm:NAME, keras:NAME, FILE.py:FUNCTION, PACKAGE.MODULE:FUNCTION or a model
    file (.onnx, .xml, .keras); the function returns a model, or a model and its inputs. Two and more targets,
    frameworks, or values of an option, are measured side by side and compared; the first is the baseline.

    \b
    laptime bench torchvision:resnet18 --batch 1,8 -o report.html
    laptime bench model.py:build --dtype float32,bfloat16
    laptime bench torchvision:resnet18 --batch auto --json
    laptime bench --llm model.py:build --prompt 128,512 --batch 1,8
    laptime bench torchvision:resnet50 keras:ResNet50 --backend torch,onnxruntime,openvino
    """
    voice = context.find_object(Voice) or Voice()
    reports = output.planned(outputs)
    phases = _phases(llm, prompt, output_tokens)
    request = requested(context, targets, given, same)
    request = structs.replace(request, options={**request.options, **phases})
    return carry_out(request, reports, as_json=as_json, voice=voice)[1]


def _phases(llm: bool, prompt: list[int] | None, answer: int | None) -> dict[str, list[Any]]:
    """The options of a language model's phases; none where none is measured.
    Raises UsageError: what only a language model has was asked of another, or a prompt without tokens.
    """
    if not llm:
        if prompt or answer:
            raise UsageError(
                "only a language model has a prompt and an output",
                why="--prompt and --output-tokens go with --llm",
                next="--llm",
            )
        return {}
    if prompt and min(prompt) < 1:
        raise UsageError(
            f"--prompt {min(prompt)} is impossible",
            why="a prompt has at least one token",
            next="--prompt 128",
        )
    return {"phase": ["prefill", "decode"], "prompt": prompt or [128], "output": [answer or 32]}
