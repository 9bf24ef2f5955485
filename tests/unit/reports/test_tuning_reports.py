"""A session in words: the gain first, the ladder, the gates; the document for machines; the Markdown."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import click
import pytest
from msgspec import structs

from fixtures import recorded_bounds, tunings
from laptime.analysis import tuned
from laptime.apps.cli.commands.tune import command
from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.records.check import Check
from laptime.records.overview import CallBounds, ModelBounds
from laptime.records.run import Run
from laptime.records.tuning import Applied, Gate, Measured, Rung, Shortfall, Speedup, Tuning
from laptime.reports.documents import document
from laptime.reports.documents.tuning import ladder, script, words
from laptime.reports.documents.tuning import model as of_model
from laptime.reports.documents.tuning.headline import headline, next_steps
from laptime.reports.formats import html, markdown, text
from laptime.reports.formats import json as json_report

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "schemas" / "tuning.schema.json").read_text(encoding="utf-8"))
SAMPLES = {**tunings.samples(), "hostile": tunings.hostile}
ISSUE_RUNG = {"name", "verdict", "speedup", "ci95", "numerics", "gate", "kept", "reason"}


def changed(run: Run, **changes: Any) -> Run:
    assert run.tuning is not None
    return structs.replace(run, tuning=structs.replace(run.tuning, **changes))


def said(run: Run) -> tuple[str, str]:
    line = headline(run)
    return line.word, line.sentence


@pytest.mark.parametrize("name", sorted(tunings.samples()))
@pytest.mark.parametrize("width", [48, 60, 80, 100, 140])
def test_lines_keep_the_width_unless_a_word_is_longer(name, width):
    for line in text.render(SAMPLES[name](), width=width).splitlines():
        is_command = "next: " in line or line.lstrip().startswith(("next ", "git ", "laptime "))
        assert len(line) <= width or is_command, line


def test_a_gain_without_a_passed_gate_is_no_gain():
    run = changed(tunings.full(), gate=Gate())
    assert headline(run).word == "gate undecided"
    assert "git apply" not in text.render(run).partition("\nNext\n")[2]


def test_a_control_that_moves_makes_the_gain_doubtful():
    control, *others = tunings.full().tuning.ladder
    ladder = [structs.replace(control, verdict="faster"), *others]
    own = headline(changed(tunings.full(), ladder=ladder))
    assert own.tone == "noisy"
    assert "the control" in own.sentence


def test_a_patch_that_does_not_apply_is_said_first():
    run = tunings.full()
    run = changed(run, patch=structs.replace(run.tuning.patch, applies=False))
    assert said(run) == (
        "patch fails",
        "git apply refuses the patch; measured again: 2.31x [2.24, 2.38] faster",
    )


def test_utilisation_stands_beside_each_rung_where_it_is_known():
    table = ladder.ladder(tunings.gpu().tuning)
    at = [column.title for column in table.columns].index("device")
    shown: list[Any] = [row.cells[at] for row in table.rows]
    assert [cell.text for cell in shown] == ["73 %", "92 %", "94 %", "98 %"]
    columns = ladder.ladder(tunings.full().tuning).columns
    assert "device" not in [column.title for column in columns]


def test_the_control_is_no_rung():
    first: list[Any] = [row.cells[0] for row in ladder.ladder(tunings.full().tuning).rows]
    assert all(not cell.text.startswith(tuned.CONTROL) for cell in first)
    assert len(first) == 7


@pytest.mark.parametrize(
    ("value", "ci95", "shown"),
    [
        (2.31, (2.24, 2.38), "2.31x [2.24, 2.38]"),
        (1.012, (1.004, 1.02), "1.012x [1.004, 1.020]"),
        (2.3, (1.8, 2.9), "2.3x [1.8, 2.9]"),
        (8.17, None, "8.17x"),
        (1.5, (1.0, float("inf")), "1.50x"),
        (None, None, "-"),
    ],
)
def test_digits_of_an_effect_follow_its_interval(value, ci95, shown):
    assert words.effect(value, ci95) == shown


def test_a_change_is_written_as_people_write_it():
    assert words.change(Applied(name="num_workers", options={"value": 2})) == "num_workers=2"
    assert words.change(Applied(name="compile", options={"mode": "x"})) == "compile mode=x"
    assert words.change(Applied(name="channels_last")) == "channels_last"


@pytest.mark.parametrize("report", registry.names("reports"))
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_report_renders_every_session_or_refuses_it(report, name):
    if report in ("asv", "folded", "perfzero", "pytest_benchmark", "speedscope"):  # timings or calls alone
        with pytest.raises(UsageError, match=f"the {report} report"):
            registry.load("reports", report).render(SAMPLES[name]())
        return
    shown = registry.load("reports", report).render(SAMPLES[name]())
    assert shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_the_document_has_the_promised_keys(name):
    found = json.loads(json_report.render(SAMPLES[name]()))
    assert found["schema"] == "laptime.tuning/1"
    promised = {"baseline", "final", "speedup", "bound", "ladder", "patch", "recipe"}
    assert promised <= found.keys()
    assert set(found["bound"]) == {"before", "after"}
    assert all(rung.keys() >= ISSUE_RUNG for rung in found["ladder"])
    assert set(found) == set(SCHEMA["$defs"]["Document"]["properties"])
    assert found["speedup"] is None or {"value", "ci95"} <= found["speedup"].keys()


def test_numbers_of_the_document_are_those_of_the_record():
    found = json.loads(json_report.render(tunings.full()))
    assert (found["speedup"]["value"], found["speedup"]["ci95"]) == (2.31, [2.24, 2.38])
    assert found["bound"] == {"before": "compute", "after": "compute"}
    assert [rung["name"] for rung in found["ladder"] if rung["kept"]] == [
        each["name"] for each in found["recipe"]
    ]
    assert json.loads(json_report.render(tunings.dry_run()))["baseline"] is None


def test_every_key_of_the_document_is_explained():
    page = (ROOT / "docs" / "tune.md").read_text(encoding="utf-8").partition("## The JSON document")[2]
    keys = {name for kind in SCHEMA["$defs"].values() for name in kind.get("properties", {})}
    assert [key for key in sorted(keys) if f"`{key}`" not in page] == []


def test_every_option_is_explained():
    page = (ROOT / "docs" / "tune.md").read_text(encoding="utf-8")
    options = [own.opts[-1] for own in command.params if isinstance(own, click.Option)]
    everywhere = {"--verbose", "--quiet", "--output", "--details"}
    assert [name for name in options if f"`{name}" not in page and name not in everywhere] == []


def test_markdown_escapes_and_no_line_of_the_patch_ends_its_block():
    run = tunings.full()
    patch = structs.replace(run.tuning.patch, text="+```\n+<b>\x1b[2J</b>\n")
    shown = markdown.render(changed(run, patch=patch))
    assert "````diff\n+```\n" in shown
    assert "\x1b" not in shown
    hostile = markdown.render(tunings.hostile())
    outside = re.sub(r"(?ms)^(`{3,})diff$.*?^\1$|`[^\n]*?`", "", hostile)
    assert not re.search(r"(?<!\\)<(?!/?(?:details|summary)>)", outside)


def test_a_session_of_nothing_is_still_told():
    run = structs.replace(tunings.full(), subjects=[], tuning=Tuning())
    assert "no change" in text.render(run)
    assert markdown.render(run)
    assert json.loads(json_report.render(run))["ladder"] == []


def test_a_rate_without_interval_and_a_step_of_nothing_are_shown():
    assert words.rate(Measured(step=0.0)) == "0"
    assert words.rate(Measured(step=0.1, ci95=(0.0, 0.2), throughput=10.0)) == "10.0"
    assert words.rate(Measured(step=0.1, ci95=(math.nan, 0.0), throughput=10.0)) == "10.0"


def test_a_run_without_tuning_has_no_outcome():
    with pytest.raises(ValueError, match="no tuning"):
        tuned.outcome(structs.replace(tunings.full(), tuning=None))


def test_memory_needs_both_peaks():
    run = tunings.memory()
    assert tuned.outcome(run) == "smaller"
    assert tuned.outcome(changed(run, final=None)) == "not measured"
    larger = structs.replace(run.tuning.final, peak=1 << 40)
    assert tuned.outcome(changed(run, final=larger)) == "same"


def test_stored_and_read_again_a_session_is_the_same():
    import msgspec

    run = tunings.full()
    assert msgspec.json.decode(msgspec.json.encode(run), type=Run) == run


def test_speed_that_is_lost_is_not_called_a_gain():
    lost = Speedup(value=0.9, ci95=(0.88, 0.92), word="slower", pairs=3)
    own = headline(changed(tunings.full(), speedup=lost))
    assert own.word == "0.90x [0.88, 0.92] slower"
    assert own.tone == "invalid"


def test_busy_programs_beside_a_session_are_on_the_first_screen():
    told = Check(name="quiet", outcome="warn", sentence="other programs used 1.6 of 2 CPUs meanwhile")
    run = structs.replace(tunings.nothing(), checks=[told])
    assert "1.6 of 2 CPUs" in text.render(run, brief=True)


def test_an_interval_that_leaves_one_out_does_not_print_it():
    assert words.effect(1.7, (1.03, 2.9)) == "1.70x [1.03, 2.90]"
    assert words.effect(1.7, (1.4, 2.9)) == "1.7x [1.4, 2.9]"


def test_a_rung_says_why_it_is_not_in_the_patch():
    rung = Rung(name="a", reason="faster", edit="made in a library")
    assert "the patch: made" in words.reason(rung)


@pytest.mark.parametrize(
    ("command", "changes", "typed"),
    [
        ("tune --dry-run -m train --lr 1", {"ended": "dry run"}, "laptime tune -m train --lr 1"),
        ("tune train.py", {"ended": "interrupted"}, "laptime tune --resume train.py"),
        ("tune --resume t.py", {"ended": "interrupted"}, "laptime tune --resume t.py"),
        ("tune --budget 5m t.py", {"gate": Gate()}, "laptime tune --resume --budget 1200s t.py"),
        ("tune --budget=5m t.py", {"gate": Gate()}, "laptime tune --resume --budget 1200s t.py"),
    ],
)
def test_the_next_step_is_the_line_as_it_was_typed(command, changes, typed):
    run = structs.replace(changed(tunings.full(), **changes), command=["laptime", *command.split()])
    assert next_steps(run)[0] == typed


def test_parts_that_take_no_time_are_left_out():
    run = tunings.full()
    before = structs.replace(run.tuning.before, shares={"data": 1.0, "transfer": 0.0})
    table = script.parts(structs.replace(run.tuning, before=before, after=None))
    assert [row.cells[0] for row in table.rows] == ["waiting for data"]


def test_changes_that_were_not_tried_for_one_reason_are_named_together():
    rungs = [Rung(name=name, reason="no time was left") for name in ("a", "b")]
    run = changed(tunings.full(), ladder=rungs, recipe=[], ended="budget", budget=100.0)
    assert ladder.list_untried(run.tuning) == [("not tried", "a, b: no time was left")]
    assert said(run) == ("not measured", "the budget of 100 s ended before a change was tried")
    assert next_steps(run) == ["laptime tune --resume --budget 400s train.py"]


def test_a_pair_too_few_for_an_interval_is_shown_all_the_same():
    """A patch whose only pair contradicts its races is not handed back without a word of it."""
    run = tunings.full()
    final = structs.replace(run.tuning.final, step=2 * run.tuning.baseline.step, processes=1)
    word, sentence = said(changed(run, speedup=None, final=final))
    assert word == "not measured"
    assert sentence.endswith("; 1 pair of processes showed 0.50x, too few for an interval")


def test_notes_of_both_diagnoses_are_told_once():
    run = tunings.full()
    before, after = (
        structs.replace(own, notes=notes)
        for own, notes in ((run.tuning.before, ["one"]), (run.tuning.after, ["one", "two"]))
    )
    seen = script.bounds(structs.replace(run.tuning, before=before, after=after))
    assert [text for name, text in seen if name == "note"] == ["one", "two"]


def test_a_race_that_time_cut_short_decides_nothing():
    rung = Rung(name="a", verdict="unclear", rounds=1, reason="the time was up after 1 rounds")
    run = changed(tunings.full(), ladder=[rung], recipe=[], ended="budget", budget=100.0)
    assert said(run) == (
        "not measured",
        "the budget of 100 s ended before a change could be decided",
    )
    assert tuned.exit_code(run) == 3
    longer = changed(run, ladder=[structs.replace(rung, rounds=4, ci95=(0.9, 1.04), speedup=1.0)])
    assert tuned.outcome(longer) == "nothing"


def test_none_made_it_faster_is_said_of_what_was_shown_only():
    """A change that won its race and was not gated, and one that may still be faster, are open: exit 3."""
    control, *_ = tunings.nothing().tuning.ladder
    won = Rung(name="a", label="a", verdict="faster", rounds=6, speedup=1.08, ci95=(1.04, 1.12))

    def of(*rungs: Rung) -> Run:
        return changed(tunings.nothing(), ladder=[control, *rungs])

    undecided = of(structs.replace(won, gate=Gate(word="undecided", reason="no step was captured")))
    assert tuned.exit_code(undecided) == 3
    assert said(undecided) == (
        "gate undecided",
        "a was 1.08x [1.04, 1.12] as fast, but could not be decided by its gate: no step was captured",
    )
    refused = of(structs.replace(won, gate=Gate(word="failed", reason="loss: step 1")))
    assert tuned.exit_code(refused) == 5
    assert (
        "none kept; a was 1.08x [1.04, 1.12] as fast, but failed its gate: loss: step 1" in said(refused)[1]
    )
    open_ = of(structs.replace(won, verdict="unclear", ci95=(0.97, 1.2)))
    assert tuned.exit_code(open_) == 3
    assert said(open_) == ("unclear", "1 change tried, none kept; still open: a 1.08x [0.97, 1.20]")
    assert (
        tuned.outcome(of(structs.replace(won, verdict="unclear", speedup=0.9, ci95=(0.7, 1.2)))) == "nothing"
    )
    crowded = of(structs.replace(won, verdict="unclear", speedup=0.99, ci95=(0.5, 2.0)))
    assert tuned.exit_code(crowded) == 3


def test_steps_are_not_called_samples():
    run = tunings.full()
    sides = {
        name: structs.replace(getattr(run.tuning, name), throughput=1 / getattr(run.tuning, name).step)
        for name in ("baseline", "final")
    }
    assert " steps/s" in headline(changed(run, **sides)).sentence
    assert " samples/s" in headline(run).sentence


def test_a_suggestion_is_no_change_that_would_be_tried():
    rungs = [Rung(name="a"), Rung(name="b", verdict="suggested")]
    own = headline(changed(tunings.nothing(), ladder=rungs, ended="dry run", budget=60.0))
    assert own.sentence.startswith("1 change")
    assert "1 more" in own.sentence


def test_where_the_control_moved_no_less_can_be_shown():
    control, *others = tunings.nothing().tuning.ladder
    control = structs.replace(control, verdict="slower", speedup=0.96, ci95=(0.95, 0.97))
    own = headline(changed(tunings.nothing(), ladder=[control, *others]))
    assert "5.3 % of a step" in own.sentence


def test_labels_leave_lists_and_long_texts_to_the_document():
    options = {"every": 50, "sites": [0], "mode": "max-autotune-no-cudagraphs"}
    assert words.change(Rung(name="defer_logging", label="long", options=options)) == "defer_logging every=50"
    assert words.change(Applied(name="threads", options={"threads": 1})) == "threads=1"


def test_a_reason_does_not_repeat_the_numbers_of_its_row():
    rung = Rung(name="threads", reason="1.11x [1.06, 1.17] in 5 rounds, 5 rounds leave it open")
    assert words.reason(rung) == "in 5 rounds, 5 rounds leave it open"


def test_the_gain_of_the_patched_script_is_told_once():
    run = tunings.full()
    gain = structs.replace(run.tuning.speedup, ratios=[2.3, 2.32])
    patch = structs.replace(run.tuning.patch, speedup=gain)
    shown = " ".join(text.render(changed(run, speedup=gain, patch=patch)).split())
    assert "without hooks" in shown


def test_a_long_suggestion_is_cut():
    run = tunings.full()
    patch = structs.replace(run.tuning.patch, suggestions="\n".join(f"+line {at}" for at in range(60)))
    shown = text.render(changed(run, patch=patch)).partition("Suggested, not applied\n")[2]
    assert "+line 24\n  and 35 lines more: --json" in shown
    assert "+line 25" not in shown


def test_the_next_line_keeps_what_was_typed_behind_the_verb():
    run = structs.replace(
        tunings.dry_run(), command=["laptime", "-q", "tune", "--dry-run", "train.py", "--epochs", "3"]
    )
    assert next_steps(run) == ["laptime tune train.py --epochs 3"]


def test_a_model_whose_session_was_stopped_has_its_folder_and_goes_on():
    run = tunings.model()
    tuning = structs.replace(run.tuning, ended="interrupted", baseline=None, final=None, speedup=None)
    stopped = headline(structs.replace(run, tuning=tuning, status="interrupted"))
    assert "1 of them" in stopped.sentence
    again, verify = stopped.next
    assert again == ("laptime tune --resume --export /home/me/fast-2 --goal latency torchvision:resnet18")
    assert "verify fast/recipe.json" in verify


def test_why_there_is_no_folder():
    run = tunings.model()
    model = structs.replace(run.tuning.model, folder="")
    undecided = structs.replace(run.tuning, model=model, gate=Gate(word="undecided"))
    assert "the model's" in dict(of_model.facts(undecided, model))["folder"]
    passed = structs.replace(run.tuning, model=model)
    assert dict(of_model.facts(passed, model))["folder"].endswith("--export FOLDER")


def test_where_the_generator_lacked_a_cpu_no_longer_session_is_advised():
    lost = Check(name="generator", outcome="warn", sentence="it stood still", next="taskset -c 1 for laptime")
    typed = ["laptime", "tune", "--server", "serve {1,2}", "--concurrency", "8"]
    run = changed(
        tunings.server(), speedup=None, final=None, recipe=[], ladder=[], ended="budget", budget=99.0
    )
    run = structs.replace(run, command=typed)
    (longer,) = next_steps(run)
    assert "--budget" in longer
    (line,) = next_steps(structs.replace(run, checks=[lost]))
    assert line == "laptime tune --server 'serve {1,2}' --concurrency 8   # taskset -c 1 for laptime"


def bounded(both: ModelBounds | None) -> Run:
    run = tunings.model()
    assert run.tuning is not None
    assert run.tuning.model is not None
    return changed(run, model=structs.replace(run.tuning.model, bounds=both))


def test_what_bounds_a_model_is_a_line_of_the_answer():
    brief = text.render(tunings.model(), brief=True)
    words = "neither (compute 34 %, threads 10 %, overhead 5.8 %) -> compute 81 %"
    assert f"bound {words}" in " ".join(brief.split())
    assert "convolution" not in brief


def test_classes_of_operators_are_a_table_and_both_rooflines_are_drawn():
    shown = text.render(tunings.model())
    assert re.search(r"normalisation +20  9.00 ms +19 % .* +memory 7.9 %", shown)
    assert re.search(r"convolution +20  19.4 ms +96 % .* +compute 85 %", shown)
    page = html.render(tunings.model())
    assert "Roofline" in page
    assert "Roofline, tuned" in page
    assert page.count("roofline: FLOP per second over FLOP per byte") == 4  # wide screens, and phones


def test_a_model_that_was_not_recorded_says_why():
    why = "no calls were recorded: it takes 9.00 s, 2.00 s of the budget were left"
    shown = text.render(bounded(ModelBounds(before=CallBounds(missing=why))), brief=True)
    assert f"bound {why}" in " ".join(shown.split())
    one = ModelBounds(before=recorded_bounds.recorded().before, after=CallBounds(missing=why))
    assert "not recorded" in " ".join(text.render(bounded(one), brief=True).split())
    assert why in " ".join(text.render(bounded(one)).split())


def test_a_model_that_nobody_asked_about_has_no_such_part():
    assert "bounds a" not in text.render(bounded(None))
    assert "bound " not in text.render(bounded(ModelBounds()), brief=True)


def test_threads_that_were_chosen_with_the_instances_are_no_kept_change() -> None:
    """Of one change tried two were kept, the page said."""
    run = changed(
        tunings.model(), recipe=[Applied(name="onnxruntime"), Applied(name="threads", options={"value": 1})]
    )
    assert run.tuning is not None
    assert [each.name for each in tuned.list_kept(run.tuning)] == ["onnxruntime"]
    page = html.render(run)
    assert "3 tried" in page
    kept = re.search(r"changes kept.*?>(\d+)<", page, re.IGNORECASE | re.DOTALL)
    assert kept is not None
    assert kept[1] == "1"


def test_a_session_without_races_keeps_what_its_recipe_says() -> None:
    """As `laptime verify` does."""
    run = changed(tunings.model(), ladder=[])
    assert run.tuning is not None
    assert tuned.list_kept(run.tuning) == run.tuning.recipe


KINDS = {"script": tunings.full, "model": tunings.model, "server": tunings.server}


@pytest.fixture(params=sorted(KINDS))
def session(request: pytest.FixtureRequest) -> Run:
    """A finished session of each kind."""
    return KINDS[request.param]()


def test_why_a_session_ended_is_said_of_every_kind(session: Run) -> None:
    why = "the reserve for measuring again had begun"
    lacked = Shortfall(what="race", needs=900.0, left=600.0, budget=1800.0, sentence="a start takes 70 s")
    tuning = structs.replace(session.tuning, why_ended=why, shortfall=lacked)
    quiet = Check(name="quiet", outcome="warn", sentence="other programs used 1.4 of 2 CPUs")
    run = structs.replace(session, tuning=tuning, checks=[quiet])
    for shown in (text.render(run, width=200), html.render(run)):
        assert why in shown
        assert lacked.sentence in shown
        assert quiet.sentence in shown
    assert quiet.sentence in text.render(run, width=200, brief=True)


def test_a_session_of_any_kind_that_was_stopped_goes_on(session: Run) -> None:
    run = structs.replace(session, status="interrupted")
    assert headline(run).word == "interrupted"
    assert next_steps(run)[0].startswith("laptime tune --resume ")


def test_a_gain_of_any_kind_can_be_checked_again_but_a_check_does_not_ask_for_itself(session: Run) -> None:
    assert any(step.startswith("laptime verify ") for step in next_steps(session))
    assert not any("verify" in step for step in next_steps(structs.replace(session, verb="verify")))


@pytest.mark.parametrize(("more", "shortfall"), [("1800s", True), ("1200s", False)])
def test_what_was_left_open_gets_the_budget_that_is_enough(session: Run, more: str, shortfall: bool) -> None:
    lacked = Shortfall(what="race", needs=900.0, left=600.0, budget=1800.0, sentence="a start takes 70 s")
    speedup = Speedup(value=1.02, ci95=(0.9, 1.2), word="unclear")
    own = structs.replace(session.tuning, speedup=speedup, shortfall=lacked if shortfall else None)
    (first, *_) = next_steps(structs.replace(session, tuning=structs.replace(own, budget=600.0)))
    assert first.startswith(f"laptime tune --resume --budget {more} ")


def test_more_time_is_not_advised_where_the_budget_was_without_limit(session: Run) -> None:
    speedup = Speedup(value=1.02, ci95=(0.9, 1.2), word="unclear")
    own = structs.replace(session.tuning, speedup=speedup, budget=math.inf)
    assert next_steps(structs.replace(session, tuning=own)) == []


def test_every_kind_has_its_gate_and_the_ladder_once(session: Run) -> None:
    ids = [section.id for section in document(session).sections]
    assert ids.count("same") == ids.count("ladder") == ids.count("session") == 1
    assert len(ids) == len({*ids})


def test_short_calls_of_processes_that_differ_have_quantiles() -> None:
    """1,125 calls of five processes: worth five by the usual count, which gave none."""
    levels = [0.010, 0.012, 0.009, 0.011, 0.0105]
    samples = [[level * (1 + 0.1 * at / 225) for at in range(225)] for level in levels]
    side = Measured(step=1.0, samples=samples)
    (row,) = of_model._latencies(None, side).rows
    cells: Any = row.cells
    name, p50, p90, p99, _ = cells
    assert (name, p99.text) == ("tuned", "-")
    mean = math.exp(sum(map(math.log, levels)) / 5)
    assert p50.value == pytest.approx(mean * (1 + 0.1 * 112 / 225))
    assert p50.value < p90.value
    assert p50.interval
