"""The document of `laptime doctor`: the smallest difference it can show, what was checked, peak rates."""

from typing import Any

import msgspec

from laptime.kit.text import count
from laptime.kit.units import show
from laptime.records.environment import DoctorReport, NoiseFloor, Rate
from laptime.reports import document as doc
from laptime.reports.fields import Field, tabulate

USELESS = 0.25  # from here on the machine, not the tool, is what keeps differences from being seen
_LEVELS = {"ok": "ok", "warn": "warning", "none": "--"}


def document(report: DoctorReport) -> doc.Document:
    """Build the document of an examination."""
    lines = [doc.Notice(_LEVELS[line.outcome], line.sentence, line.next) for line in report.lines]
    environment = report.environment
    models = [device.model for device in report.devices if device.name != "cpu"]
    drivers = sorted({f"driver {device.driver}" for device in report.devices if device.driver})
    virtual = [f"on {environment.virtual}"] if environment.virtual else []
    python = f"Python {environment.python.split()[0]}"
    return doc.Document(
        verb="doctor",
        title=report.environment.host,
        verdict=_headline(report.noise),
        conditions=[
            part for part in (environment.cpu, *models, *drivers, *virtual, environment.os, python) if part
        ],
        brief=[doc.Notices([line for line in lines if line.level == "warning"] or lines[:1])],
        sections=[
            doc.Section("checks", "This machine", [doc.Notices(lines)], headed=False),
            doc.Section("rates", "Peak rates", _rates(report)),
        ],
        data=lambda: data(report),
    )


def data(report: DoctorReport) -> dict[str, Any]:
    """The report for machines: the record with the fingerprint of the environment; SI units throughout."""
    document: dict[str, Any] = msgspec.to_builtins(report)
    document["environment"]["fingerprint"] = report.environment.fingerprint
    return document


def _headline(noise: NoiseFloor | None) -> doc.Headline:
    if noise is None:
        sentence = "see the warning below"
        return doc.Headline("The smallest difference is not known", "unknown", sentence)
    useless = noise.smallest > USELESS
    word = f"Can see differences from about {_share(noise.smallest)} on {noise.device}"
    if useless and noise.word == "unclear":
        word = f"Too disturbed to show differences on {noise.device} now"
    elif useless:
        word = f"Can see only differences beyond {_share(noise.smallest)} on {noise.device} now"
    processes = "1 fresh process" if noise.processes == 1 else f"{noise.processes} fresh processes"
    sentence = (
        f"{noise.workload} against itself: {noise.word}, difference {abs(noise.seen):.1%} "
        f"± {_share(noise.half_width)}; {count(noise.pairs, 'pair')}, {processes} each, "
        f"{show(round(noise.seconds), 's')}"
    )
    return doc.Headline(word, "noisy" if useless else "trusted", sentence)


def _rates(report: DoctorReport) -> list[doc.Block]:
    measured = f"measured {report.rates_from[:10]}; again: laptime doctor --fresh"
    if report.rates_disturbed:
        measured = "too low, because other programs used the machine meanwhile; not stored"
    fields = [
        Field("device", "device", "code"),
        Field("what", lambda rate: rate.dtype if rate.kind == "gemm" else "copy"),
        Field("peak", lambda rate: doc.number(rate.value, rate.unit), "number"),
        Field("on paper", _paper),
    ]
    return [doc.Text(measured), tabulate("peaks", fields, report.rates)] if report.rates else []


def _paper(rate: Rate) -> str:
    if rate.value is None or not rate.ceiling:
        return rate.reason if rate.value is None else ""
    return f"{rate.value / rate.ceiling:.0%} of {show(rate.ceiling, rate.unit)} ({rate.ceiling_source})"


def _share(value: float) -> str:
    """A share in per cent; above 100 % it is a factor."""
    if value >= 1.0:
        return f"a factor of {1 + value:.1f}" if value < 99 else "a factor of 100 and more"
    return f"{value:.1%}" if value < 0.1 else f"{value:.0%}"
