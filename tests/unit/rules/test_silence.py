"""Each rule is silent just before the point from which it speaks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from fixtures import diagnosed as made
from fixtures.diagnosed import FLOAT, HALF, MS, ODD, SCORES, STEPS, cpu, gpu, kernel, mark, operator
from laptime.kit.registry import load, names
from laptime.records.overview import Roofline, Work
from laptime.records.profile import Primitive, Profile
from laptime.records.tables import Launches


def with_(profile: Profile, **changes: Any) -> Profile:
    return structs.replace(profile, **changes)


def device_with(profile: Profile, **changes: Any) -> Profile:
    use = structs.replace(profile.overview.devices[0], **changes)
    return with_(profile, overview=structs.replace(profile.overview, devices=[use]))


def reconciled(profile: Profile, **changes: Any) -> Profile:
    assert profile.reconciled is not None
    return with_(profile, reconciled=structs.replace(profile.reconciled, **changes))


FIRING = made.firing()
PAGEABLE = FIRING["pageable_copies"].copies[0]
MEMORY = FIRING["memory_near_limit"].memory[0]
PICKED = FIRING["batched_fetch"]
UNEVEN = FIRING["uneven_steps"].steps[-1]

FUSIBLE = FIRING["elementwise"].workload.fusible
SMALL = FIRING["small_collectives"].workload.collectives[0]
EXPERTS = FIRING["uneven_all_to_all"].collectives[0]
CLONES = FIRING["device_copies"].copies[0]
GROWING = FIRING["cache_growth"].operators_by_shape

JUST_NOT: list[tuple[str, str, Profile]] = [
    (
        "batched_fetch",
        "99 selections a step",
        with_(PICKED, operators=[structs.replace(row, calls=99 * STEPS) for row in PICKED.operators]),
    ),
    ("batched_fetch", "workers do it", with_(PICKED, annotations=[])),
    ("batched_fetch", "9 % of the step", made.picked(9)),
    ("new_workers", "1.9 % of the loop", made.beside_steps(gpu(), outside=5, workers=1.9)),
    ("new_workers", "no loader has workers", made.beside_steps(gpu(), outside=60)),
    ("between_steps", "9 % of the untraced loop", made.beside_steps(gpu(), outside=9.8)),
    ("between_steps", "new workers are all of it", made.beside_steps(gpu(), outside=60, workers=60)),
    ("autotuning", "1.9 %", made.working(gpu(host=2), host_work=[made.host_work("autotuning", 1.9)])),
    ("cache_growth", "two lengths", with_(FIRING["cache_growth"], operators_by_shape=GROWING[:2])),
    (
        "cache_growth",
        "pieces of equal length are joined",
        with_(
            FIRING["cache_growth"],
            operators_by_shape=[
                operator("aten::cat", device=5, shapes=f"[[[16, {n}, 64], [16, {n}, 64]], []]")
                for n in (3, 4, 5)
            ],
        ),
    ),
    ("copy_waits", "the device works meanwhile", made.working(FIRING["copy_waits"], empty_waits=[])),
    (
        "copy_waits",
        "19 % of the step",
        made.working(
            FIRING["copy_waits"],
            empty_waits=[
                structs.replace(FIRING["copy_waits"].workload.empty_waits[0], idle_ns=19 * MS * STEPS),
            ],
        ),
    ),
    ("device_copies", "49 a step", with_(gpu(copies=14), copies=[structs.replace(CLONES, calls=49 * STEPS)])),
    ("device_copies", "kernels run", with_(gpu(copies=14), copies=[structs.replace(CLONES, exposed_ns=0)])),
    (
        "elementwise",
        "9 % of the step",
        made.working(gpu(), fusible=structs.replace(FUSIBLE, reachable_ns=9 * MS * STEPS)),
    ),
    ("elementwise", "the host is the limit", made.working(gpu(host=60), fusible=FUSIBLE)),
    (
        "garbage_collection",
        "1 % of the step",
        made.working(gpu(host=10), host_work=[made.host_work("collection", 1)]),
    ),
    ("host_work", "4 % of the step", made.working(gpu(host=30), host_work=[made.host_work("stretch", 4)])),
    (
        "host_work",
        "once in all steps",
        made.working(gpu(host=30), host_work=[structs.replace(made.host_work("stretch", 25), calls=1)]),
    ),
    (
        "initialisation",
        "less than half",
        made.working(gpu(host=40), host_work=[made.host_work("initialisation", 40)]),
    ),
    (
        "small_collectives",
        "49 a step",
        made.working(
            FIRING["small_collectives"],
            collectives=[structs.replace(SMALL, calls=49 * STEPS, small=49 * STEPS)],
        ),
    ),
    (
        "small_collectives",
        "hidden behind computing",
        made.working(FIRING["small_collectives"], collectives=[structs.replace(SMALL, exposed_ns=0)]),
    ),
    (
        "uneven_all_to_all",
        "less than half is waiting",
        with_(
            FIRING["uneven_all_to_all"],
            collectives=[structs.replace(EXPERTS, duration_ns=3 * EXPERTS.waiting_ns)],
        ),
    ),
    (
        "attention",
        "messages between nodes, no products that make the scores",
        with_(
            FIRING["attention"],
            operators_by_shape=[
                operator("aten::_softmax", device=10, shapes="[[64, 300, 32], [], []]"),
                operator("aten::bmm", device=20, shapes="[[64, 300, 128], [64, 128, 128]]"),
            ],
        ),
    ),
    (
        "unfused_optimizer",
        "it has neither a fused nor a foreach version",
        with_(
            gpu(host=15), annotations=[mark("Optimizer.step#SparseAdam.step", host=12, device=5, kernels=800)]
        ),
    ),
    (
        "allocator",
        "calls are few",
        with_(gpu(), launches=Launches(launches=4, calls=[("cudaMalloc", 3, 99 * MS)])),
    ),
    (
        "allocator",
        "calls are short",
        with_(gpu(), launches=Launches(launches=4, calls=[("cudaFree", 8, 3 * MS)])),
    ),
    (
        "attention",
        "a softmax over classes",
        with_(
            FIRING["attention"],
            operators_by_shape=[operator("aten::_softmax", device=10, shapes="[[8, 12, 512, 10], [], []]")],
        ),
    ),
    (
        "attention",
        "fused attention",
        with_(
            FIRING["attention"],
            operators=[
                operator("aten::bmm", device=20),
                operator("aten::_scaled_dot_product_flash_attention"),
            ],
        ),
    ),
    (
        "attention",
        "4 % of the step",
        with_(
            FIRING["attention"],
            operators=[operator("aten::bmm", device=2)],
            operators_by_shape=[operator("aten::_softmax", device=2, shapes=SCORES)],
        ),
    ),
    ("communication", "9 %", gpu(communication=9)),
    ("cpu_precision", "no bf16 unit", with_(cpu(), facts={"isa": "avx2 avx512f"})),
    (
        "cpu_precision",
        "bf16 already",
        with_(
            cpu(),
            facts={"isa": "amx_bf16"},
            operators=[operator("aten::mm", host=60, dtypes=['["c10::BFloat16"]'])],
        ),
    ),
    (
        "cpu_precision",
        "products of less than 16 MFLOP",
        with_(
            cpu(),
            facts={"isa": "avx512_bf16"},
            operators=[operator("aten::mm", host=60, dtypes=['["float", "float"]'])],
            roofline=Roofline(
                operators=[
                    Work(id="mm", kind="matmul", calls=STEPS, total_ns=1, flop={"float32": 15e6 * STEPS})
                ]
            ),
        ),
    ),
    ("crowded_cpu", "one thread, all the time", FIRING["idle_threads"]),
    ("denormals", "one number of 100,000", with_(cpu(), facts={"denormal": 1e-5})),
    ("denormals", "an accelerator", with_(gpu(), facts={"denormal": 0.5})),
    ("idle_threads", "kept from running by others", FIRING["crowded_cpu"]),
    (
        "num_workers",
        "only the profiler makes the loader slow",
        reconciled(made.loaded(FIRING["crowded_cpu"], 10), loader_wait_ns=4 * MS),
    ),
    ("data_parallel", "one device", with_(gpu(host=10), annotations=[mark("DataParallel.forward")])),
    (
        "data_parallel",
        "DistributedDataParallel, not DataParallel",
        with_(FIRING["data_parallel"], annotations=[mark("DistributedDataParallel.forward")]),
    ),
    (
        "ddp_without_nccl",
        "NCCL kernels",
        with_(FIRING["ddp_without_nccl"], kernels=[kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", ms=5)]),
    ),
    ("ddp_without_nccl", "one rank", with_(FIRING["ddp_without_nccl"], world=1)),
    (
        "ddp_gradient_copies",
        "0.9 %",
        with_(
            gpu(host=10),
            annotations=[mark("torch.distributed.ddp.reducer::copy_bucket_to_grad", host=0.9, calls=160)],
        ),
    ),
    (
        "exposed_copies",
        "hidden behind kernels",
        with_(
            FIRING["exposed_copies"],
            copies=[structs.replace(FIRING["exposed_copies"].copies[0], exposed_ns=4 * MS * STEPS)],
        ),
    ),
    (
        "fp32_matmul",
        "Volta has no TF32",
        with_(FIRING["fp32_matmul"], accelerators=[structs.replace(gpu().accelerators[0], capability="7.0")]),
    ),
    (
        "fp32_matmul",
        "TF32 kernels",
        with_(gpu(), operators=[operator("aten::mm", device=30, dtypes=FLOAT, tensor_core_self=1.0)]),
    ),
    (
        "fp32_matmul",
        "float64",
        with_(gpu(), operators=[operator("aten::mm", device=30, dtypes=['["double"]'])]),
    ),
    (
        "fp32_matmul",
        "1 % of the step",
        with_(gpu(), operators=[operator("aten::mm", device=1, dtypes=FLOAT)]),
    ),
    (
        "gradient_zeroing",
        "one foreach call",
        with_(gpu(host=5), annotations=[mark("Optimizer.zero_grad#SGD.zero_grad", host=4, kernels=2)]),
    ),
    ("hidden_input", "5 %", gpu(data=5)),
    ("hidden_input", "the loader is seen", FIRING["num_workers"]),
    ("host_bound", "9 %", gpu(host=9)),
    ("host_only", "gloo needs no accelerator", with_(cpu(), annotations=[mark("gloo:all_reduce", host=5)])),
    (
        "host_only",
        "cudnn_is_acceptable runs on the CPU, too",
        with_(cpu(), operators=[operator("aten::cudnn_is_acceptable", host=5)]),
    ),
    ("idle_threads", "three of four busy", reconciled(FIRING["idle_threads"], threads_busy=3.0)),
    ("idle_threads", "others have the rest", reconciled(FIRING["idle_threads"], others=2.5)),
    ("crowded_cpu", "others have little", reconciled(FIRING["idle_threads"], others=0.5)),
    ("idle_threads", "usable CPUs unknown", with_(FIRING["idle_threads"], facts={})),
    ("incomplete", "a tenth lost", with_(gpu(), launches=Launches(launches=900, lost=100))),
    ("layout_conversion", "0.9 %", with_(gpu(), kernels=[kernel("nchwToNhwcKernel", ms=0.9)])),
    (
        "loop_indexing",
        "few selections",
        with_(gpu(host=20), operators=[operator("aten::select", host=15, calls=99)]),
    ),
    ("tf_data", "5 %", with_(made.loaded(gpu(data=5), 5), facts={"framework": "tensorflow"})),
    (
        "memory_near_limit",
        "90 %",
        with_(gpu(), memory=[structs.replace(MEMORY, peak=72 * 2**30)]),
    ),
    ("memory_near_limit", "capacity unknown", with_(gpu(), memory=[structs.replace(MEMORY, capacity=None)])),
    ("num_workers", "exactly 5 %", made.loaded(gpu(data=5), 5)),
    (
        "onednn_reorders",
        "1 %",
        with_(cpu(), primitives=[Primitive(kind="reorder", implementation="jit", calls=6, total_ns=MS)]),
    ),
    ("pageable_copies", "pinned", FIRING["exposed_copies"]),
    (
        "pageable_copies",
        "0.9 %",
        with_(gpu(), copies=[structs.replace(PAGEABLE, total_ns=int(0.9 * MS * STEPS))]),
    ),
    (
        "recompiles",
        "compiled, not compiling",
        with_(gpu(), annotations=[mark("Torch-Compiled Region: 0/0", host=30)]),
    ),
    (
        "slow_convolution",
        "an accelerator",
        with_(gpu(), operators=[operator("aten::_slow_conv2d_forward", host=40)]),
    ),
    ("straggler", "4 % of the step", made.ranks(waiting=4)),
    (
        "straggler",
        "no rank causes half of the waiting",
        with_(made.ranks(), stragglers=[structs.replace(made.ranks().stragglers[0], share=0.49)]),
    ),
    ("synchronisation", "a wait that leaves no gap", gpu(host=5)),
    ("synchronisation", "1 %", gpu(synchronisation=1)),
    ("tensor_cores_unused", "some are used", gpu(tensor_cores=0.02)),
    (
        "tensor_cores_unused",
        "half precision already",
        with_(gpu(tensor_cores=0.0), operators=[operator("aten::mm", device=30, dtypes=HALF)]),
    ),
    (
        "tensor_cores_unused",
        "bf16 kernels, operators unknown",
        with_(gpu(tensor_cores=0.0), operators=[], kernels=[kernel("some_gemm_bf16_128x64", ms=50)]),
    ),
    (
        "tensor_cores_unused",
        "nothing eligible",
        device_with(gpu(tensor_cores=0.0), tensor_core_eligible=0.04),
    ),
    (
        "tensor_cores_unused",
        "Pascal has none",
        with_(gpu(tensor_cores=0.0), accelerators=[structs.replace(gpu().accelerators[0], capability="6.1")]),
    ),
    (
        "unaligned_matmul",
        "float32",
        with_(gpu(), operators_by_shape=[operator("aten::addmm", device=12, shapes=ODD, dtypes=FLOAT)]),
    ),
    (
        "unaligned_matmul",
        "an odd batch",
        with_(
            gpu(),
            operators_by_shape=[
                operator("aten::addmm", device=12, shapes="[[64], [33, 768], [768, 64]]", dtypes=HALF)
            ],
        ),
    ),
    ("recomputed_samples", "9.9 % of the step", made._prepared(11)),
    (
        "recomputed_samples",
        "drawn at random for every batch",
        with_(
            FIRING["recomputed_samples"],
            operators=[*FIRING["recomputed_samples"].operators, operator("aten::randint")],
        ),
    ),
    (
        "recomputed_samples",
        "workers prepare",
        with_(
            FIRING["recomputed_samples"],
            annotations=[mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", host=60)],
        ),
    ),
    (
        "between_steps",
        "9 % of the step",
        with_(gpu(), overview=structs.replace(gpu().overview, between_ns=9_000_000)),
    ),
    ("not_recorded", "4 % of the step", made._unrecorded(4)),
    ("warm_up", "none", gpu()),
    (
        "uneven_steps",
        "1.49 times",
        with_(gpu(), steps=[*gpu().steps[:-1], structs.replace(UNEVEN, end_ns=UNEVEN.start_ns + 149 * MS)]),
    ),
    (
        "unfused_optimizer",
        "few kernels",
        with_(gpu(host=15), annotations=[mark("Optimizer.step#Adam.step", host=12, device=5, kernels=99)]),
    ),
    (
        "unfused_optimizer",
        "fused",
        with_(FIRING["unfused_optimizer"], operators=[operator("aten::_fused_adam_")]),
    ),
]


@pytest.mark.parametrize(
    ("name", "profile"),
    [pytest.param(name, profile, id=f"{name}: {why}") for name, why, profile in JUST_NOT],
)
def test_a_rule_is_silent_just_before(name: str, profile: Profile) -> None:
    assert load("rules", name).rule(profile) is None


def test_every_rule_has_a_case_in_which_it_is_just_silent() -> None:
    assert {name for name, _, _ in JUST_NOT} == set(names("rules"))
