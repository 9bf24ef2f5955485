"""Measure how fast a model runs, with an interval and a verdict."""

from __future__ import annotations

from typing import Any

import click

from laptime.apps.cli import completing, measuring, measuring_options
from laptime.apps.cli.error_boundary import Voice
from laptime.apps.cli.options import report_options, voice_options


@click.command("bench", cls=measuring_options.Measuring)
@click.argument("targets", nargs=-1, metavar="TARGET...", shell_complete=completing.targets)
@measuring_options.same_option
@measuring_options.all_options
@report_options
@voice_options
@click.pass_context
def command(
    context: click.Context,
    /,
    targets: tuple[str, ...],
    same: str | None,
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
    laptime bench torchvision:resnet50 keras:ResNet50 --backend torch,onnxruntime,openvino
    """
    voice = context.find_object(Voice) or Voice()
    request = measuring_options.request(context, targets, given=given, same=same)
    format_ = "json" if as_json else "text"
    return measuring.carry_out(request, outputs, format=format_, voice=voice)[1]
