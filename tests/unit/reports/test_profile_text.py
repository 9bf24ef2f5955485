"""A profile on a terminal: the verdict first, what adds up as bars, nothing of a stranger's obeyed."""

import pytest
from msgspec import structs

from fixtures import profiles, runs
from laptime.records.check import Check, Finding
from laptime.records.overview import Breakdown, Overview
from laptime.records.profile import Bottleneck, Profile, TraceFile
from laptime.records.tables import KernelRow, OperatorRow
from laptime.reports.documents.profile import charts, facts, jobs, words
from laptime.reports.formats import text
from laptime.reports.text_layout import bar_drawn

EVIL = "aten::x\x1b[2J\r\n</script>\u202eevil"


def changed(run, **changes):
    return structs.replace(run, profile=structs.replace(run.profile, **changes))


def bare():
    empty = Profile(files=[], overview=Overview(steps=0, step_ns=0, step_median_ns=0, breakdown=Breakdown()))
    return structs.replace(profiles.cpu_only(), profile=empty, findings=[], subjects=[])


def test_verdict_why_and_next_come_in_this_order():
    lines = text.render(profiles.example()).splitlines()
    at = [
        next(i for i, line in enumerate(lines) if line.startswith(word))
        for word in ("1.14x faster", "limit       input-bound: ", "Why", "Next")
    ]
    assert at == sorted(at)
    assert at[0] == 1


def test_breakdown_has_the_plugins_names_and_adds_up_to_the_step():
    run = profiles.example()
    rows = charts.breakdown(run.profile).rows
    assert [bar.name for bar in rows] == list(words.PARTS.values())
    assert sum(bar.value for bar in rows) == pytest.approx(run.profile.overview.step_ns / 1e9)
    shown = text.render(run)
    for bar in rows:
        assert bar.name in shown


def test_causes_of_idle_time_add_up_to_the_idle_time():
    profile = profiles.example().profile
    per_step = sum(bar.value for bar in charts.idle(profile).rows)
    assert per_step == pytest.approx(profile.overview.idle.total_ns / 1e9 / profile.overview.steps)


def test_the_longest_bar_belongs_to_the_largest_part():
    lines = text.render(profiles.example()).splitlines()
    drawn = {line.split()[0]: line.count("█") for line in lines if "█" in line}
    assert drawn["Kernel"] == max(drawn.values())
    assert drawn["DataLoader"] > drawn["Communication"]


def test_a_bar_is_as_long_as_its_share():
    assert bar_drawn(1.0, 20) == "█" * 20
    assert bar_drawn(0.5, 20) == "█" * 10
    assert bar_drawn(0.0, 20) == "▏"
    assert len(bar_drawn(7.0, 20)) == 20


def test_a_finding_has_the_command_that_gets_its_gain():
    finding = Finding(kind="x", sentence="y", optimization="amp_bf16", next="look at z")
    assert words.commands(finding, profiles.example()) == [
        "look at z",
        "laptime tune --only amp_bf16 train.py",
    ]


def test_a_number_stays_on_the_line_of_its_unit():
    for width in range(60, 120):
        for line in text.render(profiles.example(), width=width).splitlines():
            assert not line.lstrip().startswith(("% ", "ms ", "us ", "GiB ", "GB/s "))


def test_shares_have_no_exponent():
    assert words.percent(0) == "0 %"
    assert words.percent(1e-7) == "<0.01 %"
    assert words.percent(0.0996) == "10 %"
    assert words.percent(-0.246) == "-25 %"
    assert words.percent(-0.06) == "-6.0 %"
    assert words.share(1, 0) == "-"


def test_a_named_run_still_says_what_it_was_about():
    run = profiles.cpu_only()
    assert words.title(structs.replace(run, name="monday"), run.profile) == "monday (train.py)"


def test_of_many_ranks_the_late_and_the_slow_are_shown():
    profile = profiles.example().profile
    row = profile.ranks[0]
    many = [structs.replace(row, rank=i, step_ns=1_000_000 + (i == 40) * 5_000) for i in range(64)]
    late = [structs.replace(profile.stragglers[0], rank=50)]
    (table,) = jobs.ranks(structs.replace(profile, ranks=many, stragglers=late))
    shown = [int(str(row.cells[0])) for row in table.rows if row.detail == "brief"]
    assert {40, 50} <= set(shown)
    assert shown == sorted(shown)
    assert (len(shown), len(table.rows)) == (8, 64)


def test_a_difference_leaves_out_what_explains_next_to_nothing():
    profile = profiles.example().profile
    small = structs.replace(profile.against.operators[0], name="aten::tiny", explains=0.001)
    changed_ = structs.replace(profile.against, operators=[*profile.against.operators, small])
    main, *_ = jobs.differences(structs.replace(profile, against=changed_))
    assert "aten::tiny" not in [row.cells[0] for row in main.rows]
    assert "aten::item" in [row.cells[0] for row in main.rows]


def test_many_files_are_called_by_the_first():
    files = [
        structs.replace(file, name=f"r{i}.json") for i, file in enumerate(profiles.example().profile.files)
    ]
    run = structs.replace(changed(profiles.example(), files=files), subjects=[])
    assert words.title(run, run.profile) == "r0.json and 3 more"


def test_the_verdicts_word_is_said_once():
    run = changed(profiles.cpu_only(), verdict=Bottleneck(bound="host", sentence="Host-bound: it waits"))
    assert words.sentence(run.profile) == "it waits"


def test_without_findings_the_report_says_so():
    shown = text.render(structs.replace(profiles.cpu_only(), findings=[]))
    assert "No rule" in shown


def test_a_truncated_file_is_told_even_without_a_sentence_of_its_own():
    cut = TraceFile(name="a.json", bytes=1, events=1, format="D", truncated=True)
    run = changed(profiles.cpu_only(), files=[cut])
    assert words.warnings(run, run.profile)
    assert "warning" in text.render(run)


def test_a_check_and_the_file_it_speaks_of_warn_once():
    cut = TraceFile(name="a.json", bytes=1, events=1, format="D", warnings=["it broke"])
    checks = [
        Check(name="complete", outcome="warn", sentence="a.json: it broke"),
        Check(name="steps", outcome="warn", sentence="only 1 step"),
        Check(name="fine", outcome="ok", sentence="all read"),
    ]
    run = structs.replace(changed(profiles.cpu_only(), files=[cut]), checks=checks)
    assert words.warnings(run, run.profile) == ["it broke", "only 1 step"]


@pytest.mark.parametrize("width", [48, 60, 80, 100, 132])
@pytest.mark.parametrize("make", [profiles.example, profiles.cpu_only, bare])
def test_lines_keep_to_the_width_but_for_commands(make, width):
    long = [line for line in text.render(make(), width=width).splitlines() if len(line) > width]
    assert all("next: " in line or len(line.split()) == 1 for line in long)


def test_all_of_a_report_of_one_rank_on_a_gpu_stays_short():
    run = changed(
        profiles.example(), ranks=[], collectives=[], stragglers=[], against=None, reconciled=None, files=[]
    )
    assert len(text.render(structs.replace(run, findings=run.findings[:3])).splitlines()) <= 86


def test_nothing_is_coloured_unless_asked():
    assert "\x1b" not in text.render(profiles.example())
    assert "\x1b[" in text.render(profiles.example(), color=True)


@pytest.mark.parametrize("color", [False, True])
def test_names_of_strangers_reach_the_terminal_as_text(color):
    run = profiles.example()
    profile = run.profile
    evil = changed(
        run,
        verdict=Bottleneck(bound="host", sentence=EVIL),
        device_type=EVIL,
        operators=[
            OperatorRow(id=EVIL, name=EVIL, calls=1, host_total_ns=5, host_self_ns=5, device_self_ns=5)
        ],
        kernels=[KernelRow(id=EVIL, name=EVIL, calls=1, total_ns=5, mean_ns=5, min_ns=5, max_ns=5)],
        files=[structs.replace(profile.files[0], name=EVIL, warnings=[EVIL])],
        copies=[structs.replace(profile.copies[0], operators=[(EVIL, 1)], direction=EVIL)],
        memory=[structs.replace(profile.memory[0], device=EVIL)],
        stragglers=[structs.replace(profile.stragglers[0], why=EVIL)],
        reconciled=structs.replace(profile.reconciled, note=EVIL, parts_ns={EVIL: 3}),
        against=structs.replace(profile.against, before=EVIL, sentence=EVIL, warnings=[EVIL]),
        overview=structs.replace(
            profile.overview,
            idle=structs.replace(
                profile.overview.idle,
                causes=[
                    structs.replace(c, operators=[(EVIL, 1)], stack=[EVIL])
                    for c in profile.overview.idle.causes
                ],
            ),
            synchronisations=[
                structs.replace(s, call=EVIL, operator=EVIL) for s in profile.overview.synchronisations
            ],
            phases=[structs.replace(p, name=EVIL) for p in profile.overview.phases],
        ),
    )
    finding = Finding(kind="x", sentence=EVIL, change=EVIL, next=EVIL, optimization=EVIL, stack=[EVIL])
    evil = structs.replace(evil, findings=[finding], name=EVIL)
    for run in (evil, structs.replace(evil, verb="trace"), changed(evil, overview=structs.replace(
        evil.profile.overview, devices=[]))):  # fmt: skip
        shown = text.render(run, color=color)
        assert "\x1b[2J" not in shown
        assert "\r" not in shown
        assert "\u202e" not in shown
        assert "</script>" in shown


def test_a_profile_of_nothing_is_still_a_report():
    shown = text.render(bare())
    assert "undecided" in shown
    assert "0 steps" in shown


def test_one_step_is_not_an_average():
    profile = profiles.cpu_only().profile
    one = structs.replace(
        profile, overview=structs.replace(profile.overview, steps=1), steps=profile.steps[:1]
    )
    assert facts.step(one).endswith("one step")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, "
            "at::detail::Array<char*, 3> >(int, at::native::AddFunctor<float>, at::detail::Array<char*, 3>)",
            "vectorized_elementwise_kernel<4, AddFunctor<float>, Array<char*, 3> >",
        ),
        (
            "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::(anonymous "
            "namespace)::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::"
            "{lambda()#7}::operator()() const::{lambda(float)#1}> >(int)",
            "elementwise_kernel<128, 2, gpu_kernel_impl<direct_copy_kernel_cuda> >",
        ),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(Args<4096ul>)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        ("void cutlass::Kernel2<cutlass_80_bf16>(cutlass_80_bf16::Params)", "cutlass_80_bf16"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("", ""),
    ],
)  # fmt: skip
def test_kernels_lose_what_cpp_puts_around_their_names(name, short):
    assert words.kernel(name, 200) == short


def test_template_parameters_lose_their_end_and_other_names_their_middle():
    assert words.kernel("k<float, " + "k" * 100, 20) == "k<float, kkkkkkkkkk…"
    assert words.kernel("Cijk_MT64x32" + "_" * 50 + "WG16", 20) == "Cijk_MT64…______WG16"
    assert words.operator("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 30).endswith(
        ".__next__"
    )
    assert len(words.operator("x" * 100, 30)) == 30


@pytest.mark.parametrize(
    ("stack", "place"),
    [
        (
            ["torch/nn/modules/conv.py(456): forward", "train.py(88): step", "train.py(9): main"],
            "train.py:88 in step",
        ),
        (["/usr/lib/python3/site-packages/x.py(1): f", "<built-in method add>"], ""),
        (["train.py(88): <module>"], "train.py:88"),
        (["something else"], "something else"),
        ([], ""),
    ],
)
def test_the_place_is_the_innermost_line_of_the_users_own(stack, place):
    assert words.place(stack) == place


def test_a_run_without_a_profile_is_reported_as_before():
    assert text.render(runs.trusted()).startswith("bench torchvision:resnet18")
