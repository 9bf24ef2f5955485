"""What the terminal shows in the odd cases."""

import itertools
import re

import pytest
from msgspec import structs

from fixtures import profiles, runs
from laptime.kit import registry
from laptime.records.case import Failure
from laptime.records.check import Check
from laptime.records.plan import Setting
from laptime.reports.documents import document
from laptime.reports.documents.bench.reasons import reasons
from laptime.reports.formats import markdown, text

HOSTILE = "</script><script>alert(1)</script>|`a`\x1b[2J\u202e\n# x"


def test_reports_are_found_by_their_file_name():
    found = registry.names("reports")
    assert {"text", "json", "markdown"} <= set(found)
    for name in found:
        module = registry.load("reports", name)
        assert name == module.NAME
        assert all(suffix.startswith(".") for suffix in module.SUFFIXES)


def test_no_two_reports_claim_one_suffix():
    suffixes = [s for name in registry.names("reports") for s in registry.load("reports", name).SUFFIXES]
    assert len(suffixes) == len(set(suffixes))


@pytest.mark.parametrize("name", sorted(runs.scenarios()))
def test_verdict_comes_before_every_number(name):
    run = runs.scenarios()[name]()
    _, second, *rest = text.render(run).splitlines()
    assert second.startswith(document(run).verdict.word)
    word = "failed" if name == "failed" else run.trust
    assert any(line.startswith(word) for line in (second, *rest))


@pytest.mark.parametrize("name", sorted(runs.scenarios()))
@pytest.mark.parametrize("width", [80, 120])
def test_only_commands_are_longer_than_the_terminal(name, width):
    for line in text.render(runs.scenarios()[name](), width=width).splitlines():
        assert len(line) <= width or line.lstrip().startswith("next"), line


def test_colour_repeats_what_the_words_say():
    plain = text.render(runs.noisy())
    coloured = text.render(runs.noisy(), color=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_unsupported_percentile_says_what_it_needs():
    run = runs.run(runs.case(runs.timings(0.02, n=50, processes=1)))
    assert re.search(r"needs \d+ more", text.render(run))


def test_single_sample_has_no_interval():
    shown = text.render(runs.run(runs.case(runs.timings(0.02, n=1, processes=1))))
    assert "cannot carry" in shown
    assert "[" not in shown


def test_unknown_metric_is_shown_as_it_is():
    case = runs.case(runs.timings(0.02), runs.single("temperature/junction", "K", 341.0))
    assert "temperature/junction" in text.render(runs.run(case))
    assert "341 K" in text.render(runs.run(case))


def test_run_without_saving_does_not_claim_a_file():
    shown = text.render(runs.run(runs.case(runs.timings(0.02)), plan={"save": Setting(value=False)}))
    assert "Not saved" in shown
    assert "Saved 2026" not in shown


def test_a_profile_that_was_interrupted_before_it_had_an_answer_is_not_trusted():
    stopped = structs.replace(profiles.example(), status="interrupted", profile=None, findings=[])
    for shown in (text.render(stopped), text.render(stopped, brief=True), markdown.render(stopped)):
        assert "nothing was measured" in shown
        assert "trusted" not in shown
        assert "no check found fault" not in shown


@pytest.mark.parametrize("report", [text, markdown])
def test_hostile_names_cannot_leave_their_line(report):
    failure = Failure(kind="user_code", what=HOSTILE, why=HOSTILE, next=HOSTILE)
    cases = [
        runs.case(runs.timings(0.02), target=HOSTILE),
        runs.failing(failure, target=HOSTILE, axes={HOSTILE: HOSTILE}),
    ]
    shown = report.render(runs.run(*cases, name=HOSTILE))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert not re.search(r"^\s*# x", shown, re.MULTILINE)


def test_pipes_and_backticks_do_not_break_a_markdown_table():
    cases = [runs.case(runs.timings(0.02), target="a|b`c"), runs.case(runs.timings(0.03), target="d")]
    rows = [line for line in markdown.render(runs.run(*cases)).splitlines() if line.startswith("|")]
    cells = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert len(cells) == 1
    assert r"a\|b\`c" in rows[2]


def test_markdown_leaves_out_folders_and_host():
    failure = Failure(kind="user_code", what="it raised", why="in /home/someone/secret/model.py: no such key")
    run = runs.run(runs.failing(failure, target="/home/someone/model.py:build"))
    shown = markdown.render(run)
    assert "someone" not in shown
    assert "model.py" in shown
    assert "build-7" not in shown


def test_one_check_that_speaks_in_two_cases_is_said_once():
    cases = [
        runs.case(
            runs.timings(0.02 * batch, seed=batch),
            axes={"batch": batch},
            checks=[Check(name="disturbed", outcome="warn", sentence=f"{batch} % of the samples waited")],
        )
        for batch in (1, 8)
    ]
    shown = text.render(runs.run(*cases))
    assert "1 % of the samples waited (batch 1; likewise batch 8)" in shown
    assert "8 % of the samples" not in shown


def test_the_same_target_twice_is_told_apart():
    cases = [runs.case(runs.timings(0.02)), runs.case(runs.timings(0.02, seed=2), axes={"again": 2})]
    even = runs.against(cases[0], cases[1], word="same", speedup=1.0, ci95=(0.995, 1.005))
    assert "copy 2 against copy 1: same" in text.render(runs.run(*cases, comparisons=[even]))


def test_what_could_not_be_measured_says_why():
    tried = {"nvml": {"why": "no GPU"}, "rapl": {"why": "hidden by the hypervisor"}}
    details = {
        "count": {"reason": "no operators seen"},
        "energy": {"measured": False, "why": tried},
        "memory_failed": {"kind": "user_code", "what": "the pass failed", "why": "RuntimeError"},
    }
    shown = text.render(runs.run(runs.case(runs.timings(0.02), details=details)))
    assert "operators seen" in shown
    assert "no GPU;" in shown
    assert "memory: RuntimeError" in shown


@pytest.mark.parametrize("cause", ["growth", "quota", "waits_for_itself"])
def test_the_cause_comes_before_what_it_causes(cause: str) -> None:
    checks = [
        Check("disturbed", "warn", "23 % of the samples waited for a CPU", ""),
        Check("settled", "warn", "its level wandered", ""),
        Check(cause, "note", "what the program does by itself", ""),
    ]
    case = structs.replace(runs.case(runs.timings(0.02)), checks=checks)
    told = text.render(runs.run(case))
    assert "2 more" in told
    assert told.index("the program") < told.index("a CPU")
    alone = structs.replace(case, checks=[checks[1], checks[0]])
    assert "by itself" not in text.render(runs.run(alone))


def test_reasons_stand_in_the_order_in_which_one_causes_the_next() -> None:
    order = ["recompiled", "disturbed", "settled", "precision"]
    for names in itertools.permutations(order):
        checks = [Check(name, "warn", f"reason {name}", "") for name in names]
        run = runs.run(structs.replace(runs.case(runs.timings(0.02)), checks=checks))
        assert [reason.name for reason in reasons(run)] == order
        assert "reason recompiled; 3 more reasons" in text.render(run, brief=True)
    failed = structs.replace(checks[0], name="finite", outcome="fail", sentence="NaN")
    run = runs.run(structs.replace(runs.case(runs.timings(0.02)), checks=[*checks, failed]))
    assert reasons(run)[0].name == "finite"  # why it is invalid comes before why it is noisy


def test_reasons_that_are_counted_stand_in_the_report() -> None:
    checks = [Check(name, "warn", f"reason {name}", "") for name in ("settled", "precision", "processes")]
    told = text.render(runs.run(structs.replace(runs.case(runs.timings(0.02)), checks=checks)))
    assert "2 more" in told  # what is no effect comes first
    assert all(f"reason {name}" in told for name in ("settled", "precision", "processes"))
