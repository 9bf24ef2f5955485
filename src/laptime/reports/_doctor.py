"""What `laptime doctor` found, for a terminal and as JSON."""

from __future__ import annotations

import textwrap

import msgspec
from rich.text import Text

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.doctor import DoctorCheck, DoctorReport, NoiseFloor, Rate
from laptime.reports.text_layout import console

_MARKS = {"ok": ("ok", "green"), "warn": ("warn", "bold yellow"), "none": ("--", "dim")}
_INDENT = 8
_WIDEST = 62
"""Columns up to which sentences push the `next:` beside them to the right."""

USELESS = 0.25
"""From here on the machine, not the tool, is what keeps differences from being seen."""


def to_json(report: DoctorReport) -> str:
    """One JSON document; SI units throughout."""
    document = msgspec.to_builtins(report)
    document["environment"]["fingerprint"] = report.environment.fingerprint
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def to_text(report: DoctorReport, *, width: int = 100, color: bool = False) -> str:
    """Lines to read: what machine, what was found, measured peaks, and the noise floor at the end."""
    out = console(color=color)
    lines = [Text(part, style="bold") for part in textwrap.wrap(_head(report), width)]
    column = _column(report.lines)
    for line in report.lines:
        lines += _line(line, column=column, width=width)
    lines += _rates(report)
    lines += [Text(), *_noise(report, width)]
    with out.capture() as captured:
        for text in lines:
            out.print(text, soft_wrap=True)
    return captured.get()


def _head(report: DoctorReport) -> str:
    environment = report.environment
    models = [device.model for device in report.devices if device.name != "cpu"]
    drivers = sorted({device.driver for device in report.devices if device.driver})
    parts = [environment.host, environment.cpu, *models, *(f"driver {driver}" for driver in drivers)]
    parts += [f"on {environment.virtual}" if environment.virtual else ""]
    parts += [environment.os, f"Python {environment.python.split()[0]}"]
    return " · ".join(_plain(part) for part in parts if part)


def _column(lines: list[DoctorCheck]) -> int:
    """Where `next:` begins, so that commands stand below each other."""
    short = [len(_plain(line.sentence)) for line in lines if line.next]
    return max((length for length in short if length <= _WIDEST), default=0) + 3


def _line(line: DoctorCheck, *, column: int, width: int) -> list[Text]:
    mark, style = _MARKS[line.outcome]
    sentence, command = _plain(line.sentence), _plain(line.next)
    text = Text("  ").append(f"{mark:<{_INDENT - 2}}", style=style)
    beside = _INDENT + column + len("next: ") + len(command) <= width and len(sentence) + 3 <= column
    if command and beside:
        text.append(f"{sentence:<{column}}").append("next: ", style="dim").append(command, style="bold")
        return [text]
    body = textwrap.wrap(sentence, max(20, width - _INDENT)) or [""]
    found = [text.append(body[0]), *(Text(" " * _INDENT + part) for part in body[1:])]
    if command:
        found.append(Text(" " * _INDENT).append("next: ", style="dim").append(command, style="bold"))
    return found


def _rates(report: DoctorReport) -> list[Text]:
    if not report.rates:
        return []
    rows = [_rate(rate) for rate in report.rates]
    widths = [max(len(row[index]) for row in rows) for index in range(4)]
    when = f" (measured {report.rates_from[:10]}; again: laptime doctor --fresh)"
    if report.rates_disturbed:
        when = " (too low: others used the machine meanwhile, so they are not kept)"
    found = [Text(), Text("Peak rates").append(when, style="dim")]
    for device, what, value, ceiling in rows:
        line = f"  {device:<{widths[0]}}  {what:<{widths[1]}}  {value:>{widths[2]}}  {ceiling}"
        found.append(Text(line.rstrip()))
    return found


def _rate(rate: Rate) -> tuple[str, str, str, str]:
    what = rate.dtype if rate.kind == "gemm" else "copy"
    if rate.value is None:
        return rate.device, what, "-", _plain(rate.reason)
    paper = ""
    if rate.ceiling:
        share = rate.value / rate.ceiling
        paper = f"{share:.0%} of {show(rate.ceiling, rate.unit)} on paper ({rate.ceiling_source})"
    return rate.device, what, show(rate.value, rate.unit), paper


def _noise(report: DoctorReport, width: int) -> list[Text]:
    if report.noise is None:
        return [Text("The smallest difference it can show is not known: see the warning above.")]
    noise = report.noise
    verdict = f"Can see differences from about {_share(noise.smallest)} on {noise.device}"
    if noise.smallest > USELESS:
        verdict = f"Can see only differences beyond {_share(noise.smallest)} on {noise.device} now"
    found = [Text(verdict, style="bold")]
    found += [Text(part, style="dim") for part in textwrap.wrap(_how(noise), width)]
    return found


def _how(noise: NoiseFloor) -> str:
    processes = "1 fresh process" if noise.processes == 1 else f"{noise.processes} fresh processes"
    return (
        f"{noise.workload} against itself: {noise.word}, difference {abs(noise.seen):.1%} "
        f"± {_share(noise.half_width)}; {count(noise.pairs, 'pair')}, {processes} each, "
        f"{show(round(noise.seconds), 's')}"
    )


def _share(value: float) -> str:
    """A share in per cent; above 100 % it is a factor."""
    if value >= 1.0:
        return f"a factor of {1 + value:.1f}" if value < 99 else "a factor of 100 and more"
    return f"{value:.1%}" if value < 0.1 else f"{value:.0%}"


def _plain(text: str) -> str:
    """On one line, with nothing in it that a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.splitlines()))
