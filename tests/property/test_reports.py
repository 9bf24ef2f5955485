"""No run, however odd, may break a report."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.runs import run
from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.records.case import Case, Failure
from laptime.records.check import Check, Finding
from laptime.records.comparison import Comparison
from laptime.records.details import Details, EnergyUse, Peak
from laptime.records.series import Metric, Series

words = st.text(max_size=12)
seconds = st.floats(min_value=1e-9, max_value=1e4)
anything = st.floats(allow_nan=True, allow_infinity=True)
axes = st.dictionaries(
    st.sampled_from(["dtype", "device", "threads", "compile", "odd/axis"]),
    st.one_of(words, st.integers(1, 64), st.booleans()),
    max_size=3,
)
metrics = st.builds(
    Metric,
    tag=st.sampled_from(
        ["memory/host/peak", "memory/device/weights", "params/all", "flops", "time/x", "energy/item", "new"]
    ),
    unit=st.sampled_from(["s", "B", "J", "FLOP", "1", "ratio", "K", "furlong"]),
    title=words,
)


@st.composite
def latencies(draw):
    samples = draw(st.lists(seconds, min_size=1, max_size=30))
    n = len(samples)
    column = st.lists(st.integers(0, 511), min_size=n, max_size=n)
    return Series(
        metric=Metric(tag="latency", unit="s", title="latency", better="lower"),
        regime=draw(st.sampled_from(["isolated", "saturated", "device", "paced"])),
        samples=samples,
        at=draw(st.one_of(st.just([]), st.lists(seconds, min_size=n, max_size=n).map(sorted))),
        process=draw(st.one_of(st.just([]), st.lists(st.integers(0, 2), min_size=n, max_size=n).map(sorted))),
        label=draw(st.one_of(st.just([]), column)),
    )


others = st.builds(Series, metric=metrics, samples=st.lists(anything, min_size=1, max_size=3))
checks = st.builds(
    Check, name=words, outcome=st.sampled_from(["ok", "note", "warn", "fail"]), sentence=words, next=words
)
failures = st.builds(Failure, kind=st.sampled_from(["hung", "died", "interrupted"]), what=words, next=words)
batches = st.dictionaries(st.just("batch"), st.integers(1, 64), max_size=1)
facts = st.dictionaries(words, st.one_of(words, anything, st.dictionaries(words, anything, max_size=2)))
receipts = st.fixed_dictionaries({}, optional={"complete": anything, "counted": anything, "reason": words})
details = st.builds(
    Details,
    model=facts,
    inputs=facts,
    count=st.one_of(facts, receipts),
    extra_info=facts,
    energy=st.none() | st.builds(EnergyUse, measured=st.booleans(), why=st.one_of(words, facts)),
    peak=st.none() | st.builds(Peak, reason=words),
    memory_failed=st.none() | failures,
)
cases = st.builds(
    Case,
    key=words,
    target=st.one_of(words, st.just("m.py:f")),
    axes=st.builds(lambda a, b: {**a, **b}, batches, axes),
    status=st.sampled_from(["ok", "failed", "skipped", "interrupted"]),
    failure=st.one_of(st.none(), failures),
    series=st.lists(st.one_of(latencies(), others), max_size=4, unique_by=lambda s: s.key),
    checks=st.lists(checks, max_size=3),
    details=details,
)
ratios = st.floats(min_value=1e-3, max_value=1e3)
comparisons = st.builds(
    Comparison,
    baseline=words,
    candidate=words,
    metric=words,
    speedup=ratios,
    ci95=st.tuples(ratios, st.one_of(ratios, st.just(float("inf")))),
    word=st.sampled_from(["faster", "slower", "same", "unclear"]),
    margin=st.just(0.01),
    pairs=st.integers(0, 9),
)
findings = st.builds(Finding, kind=words, sentence=words, evidence=st.dictionaries(words, anything))
made_runs = st.builds(
    lambda own, **rest: run(*own, **rest),
    st.lists(cases, max_size=4),
    name=words,
    status=st.sampled_from(["running", "complete", "interrupted", "failed"]),
    comparisons=st.lists(comparisons, max_size=2),
    findings=st.lists(findings, max_size=2),
    checks=st.lists(checks, max_size=2),
)


def _is_timed(case):
    return any(series.metric.tag == "latency" and series.samples for series in case.series)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(made_runs)
def test_every_report_renders_every_run(made):
    for name in registry.names("reports"):
        try:
            shown = registry.load("reports", name).render(made)
        except UsageError:
            if name in ("folded", "speedscope"):  # the calls of a profile
                continue
            assert name in ("asv", "perfzero", "pytest_benchmark")  # formats of other tools, for timings
            assert not any(case.status != "failed" and _is_timed(case) for case in made.cases)
            continue
        assert shown.strip()
        if name == "json":
            assert json.loads(shown)["verdict"] == made.trust
        elif name in ("text", "markdown"):  # the others are formats of other tools
            assert made.trust in shown
