"""What was traced: facts of recordings that are made to have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advice.made import inference, parts, several, training
from fixtures import traces
from fixtures.kineto import A100, Recording
from laptime.records.profile import Workload
from laptime.trace import profile
from laptime.trace.reading import reader


def traced(recording: Recording) -> Workload:
    document = {**recording.top, "traceEvents": sorted(recording.events, key=lambda one: one["ts"])}
    found = profile.profile(profile.view(reader.parse(json.dumps(document).encode()))).workload
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("recording", "kind", "server", "stage"),
    [
        (training.well_fed, "training", "", ""),
        (inference.loop_with_loader, "inference", "", ""),
        (inference.server_eager, "inference", "vLLM", "decode"),
        (inference.server_prefill, "inference", "vLLM", "mixed"),
        (inference.server_capture, "inference", "vLLM", "capture"),
        (inference.server_copy_waits, "inference", "SGLang", "decode"),
    ],
)
def test_the_program_is(recording: Any, kind: str, server: str, stage: str) -> None:
    found = traced(recording())
    assert (found.kind, found.server, found.stage) == (kind, server, stage)


def test_the_server_is_told_by_its_own_ranges_before_the_kernels_that_it_borrows() -> None:
    recording = Recording(A100)
    with recording.annotation("step[DECODE bs=4]"), recording.op("aten::mm"):
        recording.launch("void vllm::act_and_mul_kernel<c10::BFloat16>", 5)
    assert traced(recording).server == "SGLang"


def test_a_training_run_that_calls_a_servers_kernels_is_no_server() -> None:
    recording = Recording(A100)
    with recording.annotation("Optimizer.step#AdamW.step"), recording.op("aten::_fused_adamw_"):
        recording.launch("void vllm::act_and_mul_kernel<c10::BFloat16>", 5)
    found = traced(recording)
    assert (found.kind, found.server, found.optimizer) == ("training", "", "AdamW")


def test_a_graph_is_one_launch() -> None:
    recording = Recording(A100)
    with recording.op("aten::add"):
        recording.launch(parts.ADD, 3)
    recording.graph([(parts.ADD, 3.0)] * 9)
    found = traced(recording)
    assert (found.launch_calls, found.graph_launches, found.graph_share) == (2, 1, 0.9)


def test_a_context_is_initialisation_and_a_free_in_every_step_is_not() -> None:
    def freeing(often: int, us: float) -> Recording:
        recording = Recording(A100)
        for number in range(4):
            with recording.step(number), recording.op("aten::empty"):
                if 1 <= number <= often or often == 4:
                    recording.call("cudaFree", us, correlation=9_000 + number)
                recording.launch(parts.ADD, 50)
            recording.sync()
        return recording

    (row,) = [row for row in traced(freeing(1, 90_000)).host_work if row.kind == "initialisation"]
    assert row.host_ns == 90_000_000
    assert row.names == [("cudaFree", 90_000_000)]
    assert traced(freeing(4, 90_000)).host_work == []
    assert traced(freeing(1, 900)).host_work == []


def test_a_free_that_waits_for_the_device_is_no_initialisation() -> None:
    recording = Recording(A100)
    with recording.op("aten::empty"):
        recording.launch(parts.ADD, 50_000)
        recording.sync("cudaFree")
    assert traced(recording).host_work == []


def test_preparing_samples_is_named_and_its_stack_begins_with_it() -> None:
    (row,) = [row for row in traced(inference.mi300_timesformer()).host_work if row.kind == "preprocessing"]
    assert row.names[0][0] == "transformers/models/videomae/image_processing_videomae.py(247): preprocess"
    assert row.stack[1] == "run_timesformer.py(31): prepare_inputs"
    assert row.idle_ns == pytest.approx(264e6, rel=0.02)


def test_preparing_samples_in_a_loader_is_the_loaders() -> None:
    recording = Recording(A100, with_stack=1)
    for number in range(2):
        with recording.step(number), recording.function("train.py(3): main"):
            with (
                recording.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
                recording.function("torchvision/transforms/v2/_geometry.py(88): transform"),
            ):
                recording.work(20_000)
            parts.linear(recording, 900)
    assert traced(recording).host_work == []


def test_operators_of_the_host_are_no_stretch_but_a_long_one_is() -> None:
    def between(*operators: float) -> list[str]:
        recording = Recording(A100)
        for _ in range(60):
            parts.linear(recording, 5)
        for us in operators:
            with recording.op("aten::sort", us):
                pass
        parts.linear(recording, 5)
        return [row.kind for row in traced(recording).host_work]

    assert between(*[50.0] * 200) == []  # 10 ms of dispatch
    assert between(10_000.0) == ["stretch"]


def test_collectives_are_told_by_kind_and_dtype_and_their_exposed_times_sum_up() -> None:
    recording = several.all_to_all()
    found = traced(recording)
    kinds = {(use.kind, use.dtype): use for use in found.collectives}
    assert set(kinds) == {("all_to_all", "Half"), ("all_reduce", "Float")}
    assert found.gradient_dtype == "Float"
    assert kinds["all_to_all", "Half"].calls == 4 * 30
    assert kinds["all_to_all", "Half"].bytes == 4 * 30 * 33_000_000 * 2
    assert kinds["all_reduce", "Float"].in_backward == 4 * 6


@pytest.mark.parametrize(
    "name", ["nccl_a100.json.gz", "dlrm_8_ranks/worker7_step_12.1694128201553.pt.trace.json.gz"]
)
def test_exposed_communication_of_real_traces_is_that_of_the_device(name: str) -> None:
    found = profile.profile(profile.view(reader.read(Path(traces.path(name)))))
    assert found.workload is not None
    exposed = sum(use.exposed_ns for use in found.workload.collectives)
    assert exposed == sum(use.exposed_communication_ns for use in found.overview.devices)


def test_fusing_keeps_the_longest_kernel_of_each_row() -> None:
    recording = Recording(A100)
    recording.random.uniform = lambda low, high: 1.0  # type: ignore[method-assign, assignment]
    for kernel, us in (
        (parts.ADD, 10),
        (parts.GELU, 30),
        (parts.GEMM["fp16"], 99),
        (parts.ADD, 20),
        (parts.ADD, 20),
    ):
        with recording.op("aten::x"):
            recording.launch(kernel, us)
    with recording.annotation("Optimizer.step#SGD.step"), recording.op("aten::_foreach_add_"):
        recording.launch(parts.MULTI_TENSOR, 70)
    found = traced(recording).fusible
    assert found is not None
    assert (found.kernels, found.runs, found.total_ns, found.reachable_ns) == (4, 2, 80_000, 30_000)


def test_a_wait_without_work_in_the_file_is_told() -> None:
    (wait,) = traced(inference.server_copy_waits()).empty_waits
    assert wait.call == "hipMemcpyWithStream"
    assert wait.calls == 15
    assert wait.idle_ns > 0.9 * wait.wait_ns
    assert sum(row.idle_ns for row in traced(training.item_in_every_step()).empty_waits) < 1_000_000
