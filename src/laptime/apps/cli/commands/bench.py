"""Measure how fast a model runs, with an interval and a verdict."""

from __future__ import annotations

from typing import Any

import click
from msgspec import structs

from laptime.apps.cli import completing, measuring, measuring_options, output
from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.options import report_options, voice_options
from laptime.kit.errors import UsageError


@click.command("bench", cls=measuring_options.Measuring)
@click.argument("targets", nargs=-1, metavar="TARGET...", shell_complete=completing.targets)
@measuring_options.same_option
@click.option(
    "--llm", is_flag=True, help="Prefill and decode of a language model: tokens/s, bytes per token."
)
@click.option(
    "--prompt",
    callback=measuring_options.read_by(measuring_options.integers),
    metavar="N,...",
    help="Tokens of its prompt, with --llm. [default: 128]",
)
@click.option(
    "--output-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Tokens that it answers with, with --llm. [default: 32]",
)
@measuring_options.all_options
@report_options
@voice_options
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
    request = measuring_options.request(context, targets, given=given, same=same)
    request = structs.replace(request, options={**request.options, **phases})
    format_ = "json" if as_json else "text"
    return measuring.carry_out(request, reports, format=format_, voice=voice)[1]


def _phases(llm: bool, prompt: list[int] | None, answer: int | None) -> dict[str, list[Any]]:
    """The options of a language model's phases; none where none is measured.

    Raises:
        UsageError: what only a language model has was asked of another, or a prompt without tokens.
    """
    if not llm:
        if prompt or answer:
            raise UsageError(
                "only a language model has a prompt and an output",
                why="--prompt and --output-tokens go with --llm",
                next="laptime bench --llm TARGET",
            )
        return {}
    if prompt and min(prompt) < 1:
        raise UsageError(
            f"--prompt {min(prompt)} is impossible",
            why="a prompt has at least one token",
            next="--prompt 128",
        )
    return {"phase": ["prefill", "decode"], "prompt": prompt or [128], "output": [answer or 32]}
