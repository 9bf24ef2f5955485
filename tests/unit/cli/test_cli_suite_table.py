"""The report of a suite on a terminal: whether it passed, then all cases in one table."""

from __future__ import annotations

from msgspec import structs

from fixtures import runs
from laptime.records.case import Failure
from laptime.records.check import Finding, Verdict
from laptime.records.quantity import Judgement
from laptime.records.run import Run
from laptime.reports.formats import text


def suite() -> Run:
    """Two benchmarks that were measured, one of them slower than it may be, and one that died."""
    made = [("first", runs.case(runs.timings(0.02))), ("second", runs.case(runs.timings(0.04)))]
    cases = [
        structs.replace(case, key=f"{name}/{case.key}", axes={"benchmark": name, **case.axes})
        for name, case in made
    ]
    first = Finding(kind="suite/first_run", severity="info", sentence="no run was stored before")
    return structs.replace(runs.run(*cases), verb="suite", name="mine", findings=[first])


def shown(run: Run) -> list[str]:
    return text.render(run, brief=True).splitlines()


def test_without_limits_it_says_what_was_measured_and_then_whether_to_trust_it() -> None:
    answer, trust, *rest = shown(suite())
    assert "2 cases" in answer
    assert trust.startswith("trusted ")
    assert [line.split()[0] for line in rest if "trusted" not in line and "ms" in line] == ["first", "second"]
    assert any("no run" in line for line in rest)


def test_the_answer_is_that_of_its_limits() -> None:
    run = suite()
    words = [
        Verdict(kind="max", case=case.key, metric="latency", word=word, sentence=f"{word} it")
        for case, word in zip(run.cases, (Judgement.KEPT, Judgement.BROKEN), strict=True)
    ]
    answer, *rest = shown(structs.replace(run, verdicts=words))
    assert "1 of 2 checks" in answer
    (row,) = [line for line in rest if line.lstrip().startswith("second")]
    assert row.rstrip().endswith("broken")
    assert any("broken it" in line for line in rest)
    assert not any("kept it" in line for line in rest)


def test_a_benchmark_that_failed_did_not_pass() -> None:
    run = suite()
    died = runs.failing(Failure(kind="died", what="it died"), axes={"benchmark": "third"})
    answer, *rest = shown(structs.replace(run, cases=[*run.cases, died]))
    assert "1 of 3 cases" in answer
    assert any(line.strip() == "it died" for line in rest)


def test_a_narrow_terminal_gets_a_table_without_the_least_columns() -> None:
    run = suite()
    cases = [
        structs.replace(
            case,
            axes={**case.axes, "benchmark": f"efficientnet b0 number {at}", "dtype": dtype, "batch": 8 * at},
            series=[*case.series, runs.single("memory/host/peak", "B", 8e8, title="peak memory")],
        )
        for at, (case, dtype) in enumerate(zip(run.cases, ("float32", "bfloat16"), strict=True), 1)
    ]
    verdict = Verdict(
        kind="max", case=cases[0].key, metric="latency", word=Judgement.KEPT, sentence="kept it"
    )
    run = structs.replace(run, cases=cases, verdicts=[verdict])

    def columns(width: int) -> str:
        head, *rows = [line for line in text.render(run, width=width).splitlines() if "benchmark  " in line]
        assert not rows
        return head

    assert "peak memory" in columns(120)
    for width in (80, 72):
        head = columns(width)
        assert len(head) <= width
        assert "latency" in head
        assert "checks" in head
        assert "peak memory" not in head
