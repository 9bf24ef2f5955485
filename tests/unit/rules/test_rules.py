"""Each rule speaks where it should, and says what is right there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from fixtures import diagnosed as made
from fixtures import runs
from fixtures.diagnosed import MS, STEPS, cpu, gpu, kernel, mark, operator
from laptime import rules
from laptime.kit.registry import load, names
from laptime.records.check import Finding
from laptime.records.overview import Phase, Synchronisation
from laptime.records.profile import Primitive, Profile
from laptime.records.tables import Launches, StackRow
from laptime.rules import _evidence, _reading
from laptime.trace import profile as trace_profile
from laptime.trace.reading import reader


def told(rule: str, profile: Profile) -> Finding | None:
    found: Finding | None = load("rules", rule).rule(profile)
    return found


def with_(profile: Profile, **changes: Any) -> Profile:
    return structs.replace(profile, **changes)


def device_with(profile: Profile, **changes: Any) -> Profile:
    use = structs.replace(profile.overview.devices[0], **changes)
    return with_(profile, overview=structs.replace(profile.overview, devices=[use]))


def reconciled(profile: Profile, **changes: Any) -> Profile:
    assert profile.reconciled is not None
    return with_(profile, reconciled=structs.replace(profile.reconciled, **changes))


FIRING = made.firing()


def test_a_slow_convolution_on_a_mac_asks_for_mps_and_not_for_onednn() -> None:
    slow = with_(cpu(), operators=[operator("aten::_slow_conv2d_forward", host=40)])
    place = StackRow(frames=["/Users/ada/train.py(3): step"], calls=1, host_self_ns=1, device_self_ns=0)
    by_path = [structs.replace(row, stacks=[place]) for row in slow.operators]
    for profile in (with_(slow, facts={**slow.facts, "os": "Darwin"}), with_(slow, operators=by_path)):
        on_mac = told("slow_convolution", profile)
        assert on_mac is not None
        assert 'to("mps")' in on_mac.change
    found = told("slow_convolution", slow)
    assert found is not None
    assert "mps" not in found.change


def test_uneven_traced_steps_are_no_advice_where_untraced_ones_were_timed() -> None:
    uneven = made.firing()["uneven_steps"]
    timed = made.beside_steps(uneven, outside=0)
    severities = [
        {one.kind: one.severity for one in rules.diagnose(profile)}["trace/uneven-steps"]
        for profile in (uneven, timed)
    ]
    assert severities == ["advice", "info"]


@pytest.mark.parametrize("name", names("rules"))
def test_each_rule_speaks_on_the_profile_made_for_it(name: str) -> None:
    found = told(name, FIRING[name])
    assert found is not None
    assert found.optimization in {*names("optimizations"), ""}


def test_quiet_profiles_have_no_findings() -> None:
    assert rules.diagnose(gpu()) == []
    assert rules.diagnose(cpu()) == []


def test_a_hidden_wait_on_the_cpu_is_found_by_the_timed_loader() -> None:
    found = told(
        "hidden_input", with_(cpu(), steps=[structs.replace(s, data_wait_ns=30 * MS) for s in cpu().steps])
    )
    assert found is not None
    assert found.gain == pytest.approx(0.030)
    assert found.optimization == "num_workers"


def made_of(*events: dict[str, Any]) -> Profile:
    trace = reader.parse(json.dumps({"traceEvents": events}).encode())
    return trace_profile.profile(trace_profile.view(trace))


def event(name: str, cat: str, start: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": dur, "args": args}


def steps_that_begin_with(name: str, cat: str) -> Profile:
    """Three steps of 1 ms whose first 0.4 ms are in this range; then one kernel of 0.5 ms."""
    events = []
    for n in range(3):
        at = n * 1000
        events += [
            event(f"ProfilerStep#{n}", "user_annotation", at, 1000),
            event("aten::mm", "cpu_op", at + 400, 100),
            event("cudaLaunchKernel", "cuda_runtime", at + 410, 20, correlation=n + 1),
            event("gemm", "kernel", at + 450, 540, correlation=n + 1, device=0, stream=7),
        ]
        if name:
            events.append(event(name, cat, at + 5, 390))
    return made_of(*events)


@pytest.mark.parametrize(
    ("name", "cat", "words"),
    [
        ("## load_batch ##", "user_annotation", "the host is in ## load_batch ##"),
        ("aten::stack", "cpu_op", "while the host is in aten::stack"),
        (
            "dataset.py(12): __getitem__",
            "python_function",
            "while the host is in dataset.py(12): __getitem__",
        ),
    ],
)
def test_a_loader_that_hides_is_found(name: str, cat: str, words: str) -> None:
    profile = steps_that_begin_with(name, cat)
    found = told("hidden_input", profile)
    assert told("num_workers", profile) is None
    assert found is not None
    assert words in found.sentence
    assert found.gain == pytest.approx(0.39e-3, rel=0.2)


def test_a_loader_that_hides_is_what_limits_the_step_and_not_the_host() -> None:
    profile = steps_that_begin_with("## load_batch ##", "user_annotation")
    assert rules.verdict(profile).bound == "input"
    assert told("host_bound", profile) is None
    guess = steps_that_begin_with("", "")
    assert rules.verdict(guess).bound == "host"
    assert told("host_bound", guess) is None  # one launch a step: there is nothing to be launched faster


def test_a_range_of_the_programs_own_is_a_wait_on_the_cpu_too() -> None:
    found = rules.verdict(with_(cpu(), annotations=[mark("fetch_batch", host=40)]))
    assert (found.bound, found.share) == ("input", pytest.approx(0.40))


def test_work_before_the_first_kernel_is_no_hidden_loader() -> None:
    assert told("hidden_input", steps_that_begin_with("aten::normal_", "cpu_op")) is None


def test_num_workers_knows_loaders_with_workers() -> None:
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    found = told("num_workers", with_(FIRING["num_workers"], annotations=[mark(name, host=30)]))
    assert found is not None
    assert "although it" in found.sentence


def test_mixed_precision_is_bf16_on_ampere_and_fp16_on_volta() -> None:
    ampere = told("tensor_cores_unused", FIRING["tensor_cores_unused"])
    volta = told(
        "tensor_cores_unused",
        with_(
            FIRING["tensor_cores_unused"],
            accelerators=[structs.replace(gpu().accelerators[0], capability="7.0")],
        ),
    )
    assert ampere is not None
    assert volta is not None
    assert (ampere.optimization, volta.optimization) == ("bf16_autocast", "fp16_autocast")


def test_backward_convolutions_count_as_eligible() -> None:
    """The plugin's list lacks aten::convolution_backward and tells 19 % where 64 % could use tensor cores."""
    profile = with_(
        device_with(gpu(tensor_cores=0.0), tensor_core_eligible=0.04),
        operators=[operator("aten::convolution_backward", device=60)],
        kernels=[kernel("wgrad_alg0_engine<float>", ms=100)],
    )
    found = told("tensor_cores_unused", profile)
    assert found is not None
    assert "60 %" in found.sentence


def test_a_synchronisation_is_mended_by_what_caused_it() -> None:
    def because(operator_name: str, call: str = "cudaStreamSynchronize") -> Finding | None:
        base = gpu(synchronisation=5)
        assert base.overview.idle is not None
        cause = structs.replace(base.overview.idle.causes[0], operators=[(operator_name, MS)])
        known = [Synchronisation(call=call, operator=operator_name, calls=STEPS, wait_ns=MS)]
        overview = structs.replace(
            base.overview, idle=structs.replace(base.overview.idle, causes=[cause]), synchronisations=known
        )
        return told("synchronisation", with_(base, overview=overview))

    item, mask, outside = because("aten::item"), because("aten::nonzero"), because("")
    assert item is not None
    assert item.optimization == "defer_logging"
    assert mask is not None
    assert "torch.where" in mask.change
    assert outside is not None
    assert "torch.cuda.synchronize" in outside.change
    assert because("aten::to", "cudaMemcpyAsync from pageable memory") is None


def test_what_the_host_can_save_is_bounded_by_the_time_the_device_waited_for_it() -> None:
    marks = [mark("Optimizer.step#Adam.step", host=60, device=5, kernels=800)]
    found = told("unfused_optimizer", with_(gpu(host=15), annotations=marks))
    assert found is not None
    assert found.gain == pytest.approx(0.020)


def test_one_step_is_never_a_problem() -> None:
    for finding in rules.diagnose(gpu(steps=1, host=60)):
        assert finding.severity != "problem"


def test_device_work_is_no_problem_while_the_host_is_the_limit() -> None:
    slow = with_(gpu(host=60), kernels=[kernel("nchwToNhwcKernel", ms=25)])
    found = told("layout_conversion", slow)
    assert found is not None
    assert found.severity == "advice"


def test_a_host_that_hardly_launches_is_not_told_to_compile() -> None:
    few, many = (with_(gpu(host=60), launches=Launches(launches=n * STEPS)) for n in (16, 1_600))
    few, many = made.working(few, launch_calls=16 * STEPS), made.working(many, launch_calls=1_600 * STEPS)
    busy, launching = told("host_work", few), told("host_bound", many)
    assert told("host_bound", few) is None
    assert busy is not None
    assert busy.optimization == ""
    assert "compile" not in busy.change
    assert launching is not None
    assert launching.optimization == "compile_reduce_overhead"
    assert "1,600 times" in launching.sentence


def test_a_cpu_is_not_told_to_compress_gradients_for_nccl() -> None:
    base = cpu()
    parts = structs.replace(base.overview.breakdown, communication_ns=40 * MS, cpu_ns=55 * MS)
    found = told("communication", with_(base, overview=structs.replace(base.overview, breakdown=parts)))
    assert found is not None
    assert found.optimization == ""
    assert "comm_hook" not in found.change


def test_findings_come_most_severe_first_then_by_gain() -> None:
    found = rules.diagnose(FIRING["loop_indexing"]) + rules.diagnose(FIRING["straggler"])
    again = rules.diagnose(with_(FIRING["unfused_optimizer"], launches=Launches(launches=1)))
    assert len(found) > 2
    for listed in (rules.diagnose(FIRING["unfused_optimizer"]), again):
        keys = [({"problem": 0, "advice": 1, "info": 2}[f.severity], -(f.gain or 0)) for f in listed]
        assert keys == sorted(keys)


def test_the_machine_tells_what_its_cpus_can_do() -> None:
    machine = structs.replace(runs.environment(), isa=["avx512f", "amx_bf16"], usable_cpus=4.0)
    assert rules.diagnose(cpu()) == []
    assert [each.kind for each in rules.diagnose(cpu(), machine)] == ["trace/cpu-precision"]
    slow = with_(FIRING["idle_threads"], facts={})
    assert "trace/idle-threads" in {each.kind for each in rules.diagnose(slow, machine)}


def test_programs_beside_the_script_are_what_keeps_its_threads_idle() -> None:
    beside = reconciled(FIRING["idle_threads"], others=2.5)
    (found,) = [each for each in rules.diagnose(beside) if each.kind == "trace/crowded-cpu"]
    assert "2.5 of 4 CPUs" in found.sentence
    assert "trace/idle-threads" not in {each.kind for each in rules.diagnose(beside)}


def test_a_broken_rule_is_told_and_the_others_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def burst(profile: Profile) -> Finding | None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(load("rules", "allocator"), "rule", burst)
    found = rules.diagnose(FIRING["host_bound"])
    assert [each.kind for each in found] == ["trace/host-bound", "trace/broken-rule"]
    assert "'allocator'" in found[1].sentence
    assert "ZeroDivisionError: planted" in found[1].sentence


def test_stacks_begin_with_the_users_own_frame() -> None:
    stack = [
        "<built-in function linear>",
        "torch/nn/modules/linear.py(124): forward",
        "/opt/venv/lib/python3.11/site-packages/timm/models/vit.py(3): forward",
        "train.py(12): loop",
        "torch/_dynamo/x.py(1): y",
    ]
    assert _evidence.from_user_code(stack)[0] == "train.py(12): loop"
    assert _evidence.from_user_code(stack[:2]) == []
    hooks = ["/src/laptime/instrument/hooks.py(138): forward", *stack]
    assert _evidence.from_user_code(hooks)[0] == "train.py(12): loop"


def test_without_a_frame_of_the_users_own_the_models_library_is_named() -> None:
    stack = ["torch/nn/functional.py(1): linear", "transformers/models/bert/modeling_bert.py(551): forward"]
    assert _evidence.from_user_code(stack) == stack[1:]


def test_dtypes_are_read_from_the_files_texts() -> None:
    assert _reading.only(['["float", "float", "Scalar"]'], ("float",))
    assert not _reading.only(['["float", "c10::Half"]'], ("float",))
    assert not _reading.only(['["long int"]'], ("float",))
    assert not _reading.only([], ("float",))


def test_what_a_closure_computes_inside_the_optimizer_is_not_the_optimizers() -> None:
    profile = FIRING["unfused_optimizer"]
    before = told("unfused_optimizer", profile)
    assert before is not None
    own = Phase(name="optimizer", host_ns=1_000)
    after = told(
        "unfused_optimizer", with_(profile, overview=structs.replace(profile.overview, phases=[own]))
    )
    assert after is None or after.evidence["host_s"] == pytest.approx(1e-6)
    assert before.evidence["host_s"] > 1e-3


def test_reorders_take_no_longer_than_the_convolutions_that_channels_last_changes() -> None:
    """oneDNN's reorders are of linear layers, too, and are timed in a step that recording them slows."""
    reorders = [Primitive(kind="reorder", implementation="jit", calls=60, total_ns=80 * MS)]
    rows = [operator("aten::mkldnn_convolution", host=20), operator("aten::addmm", host=60)]
    found = told("onednn_reorders", with_(cpu(), operators=rows, primitives=reorders))
    assert found is not None
    assert found.gain == pytest.approx(0.020)
    assert "20 %" in found.sentence


@pytest.mark.parametrize(
    "optimization", ["batch_size", "channels_last", "compile_reduce_overhead", "num_workers", "tf32"]
)
def test_no_next_command_is_offered_that_the_catalogue_refuses(optimization: str) -> None:
    """A graph-replayed model on a CPU, without loader and convolution: none of their needs is met."""
    bare = made.working(
        with_(cpu(), operators=[operator("aten::addmm", host=60)]), compiled=True, loader=False
    )
    assert _evidence.possible(bare, optimization) == ""


def test_copies_to_another_type_prepare_samples() -> None:
    """`image.float()` in a dataset: a cached sample needs it no more; a batch that is put together does."""
    profile = made._prepared(60)
    place = profile.operators[0].stacks

    def share(types: str) -> float | None:
        copy = structs.replace(operator("aten::copy_", host=54, dtypes=[types]), stacks=place)
        found = told("recomputed_samples", with_(profile, operators=[copy, profile.operators[1]]))
        return None if found is None else float(found.evidence["share_of_loader"])

    assert share('["float", "unsigned char", "Scalar"]') == pytest.approx(0.9, abs=0.01)
    assert share('["float", "float", "Scalar"]') is None


def test_a_loader_of_ones_own_is_told_on_a_cpu_although_it_counts_as_operators() -> None:
    own = with_(cpu(other=1.0), annotations=[mark("load_batch", host=44)])
    first = rules.diagnose(own)[0]
    assert (first.kind, first.gain) == ("trace/hidden-input", pytest.approx(0.044))
