"""Families of kernels and operators by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fixtures import plugin as plugin_counts
from laptime.trace import names
from laptime.trace.columns import Mask
from laptime.trace.names import Family


def member(family: Family, name: str) -> bool:
    return bool(family([name])[0])


@pytest.mark.parametrize(
    "name",
    [
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
        "ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16",
        "ncclDevKernel_Generic(ncclDevComm*, unsigned long, ncclWork*)",
        "void rcclKernel_Whatever()",
        "multimem_all_reduce_kernel",
        "void c10d::symmetric_memory::multimem_one_shot_all_reduce_kernel<c10::BFloat16, 8>(int)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>()",
        "void two_shot_all_reduce_kernel<8>()",
        "void deep_ep::intranode::dispatch<8>()",
        "void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 8, 2, 16, 24>(int4*, float*)",
        "reduce_scatter_kernel",
        "all_to_all_vdev_kernel",
    ],
)
def test_kernels_that_talk_to_other_ranks_communicate(name: str) -> None:
    assert member(names.is_communication, name)


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(at::native::ReduceOp<float>)",
        "void BlockAllReduceSum<float>(float*)",
        "void warpAllReduce<float>(float*)",
        "void (anonymous namespace)::softmax_warp_forward<float, float>(float*)",
        "volta_sgemm_64x64_nt",
        "Memcpy HtoD (Pageable -> Device)",
    ],
)
def test_reductions_inside_one_device_do_not_communicate(name: str) -> None:
    assert not member(names.is_communication, name)


def test_other_tools_take_only_nccl_and_rccl_for_communication() -> None:
    assert member(names.is_nccl, "ncclDevKernel_Generic")
    assert member(names.is_nccl, "void rcclKernel()")
    assert not member(names.is_nccl, "multimem_all_reduce_kernel")


def test_the_plugin_knows_nothing_after_ampere() -> None:
    assert member(plugin_counts.uses_tensor_cores, "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn")
    assert member(plugin_counts.uses_tensor_cores, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_ffma")
    for name in ("nvjet_hsh_128x256", "sm80_xmma_fprop_implicit_gemm_tf32", "Cijk_MI16x16x1", "S884"):
        assert not member(plugin_counts.uses_tensor_cores, name), name


def test_operators_that_could_use_tensor_cores_have_exact_names() -> None:
    for name in ("aten::mm", "aten::conv2d", "aten::addmm_", "aten::cudnn_convolution_backward_weight"):
        assert member(names.is_tensor_core_eligible, name), name
    for name in ("AddmmBackward", "AddbmmBackward", "BmmBackward0", "MvBackward", "AddmvBackward"):
        assert member(names.is_tensor_core_eligible, name), name
    for name in ("aten::mul", "aten::mm_", "mm", "AddMmBackward", "xaten::mm", "aten::conv4d"):
        assert not member(names.is_tensor_core_eligible, name), name


def test_operators_of_later_torch_could_use_tensor_cores_though_the_plugin_did_not_know_them() -> None:
    for name in (
        "aten::convolution_backward",
        "aten::miopen_convolution",
        "aten::_scaled_dot_product_flash_attention",
        "aten::scaled_dot_product_attention",
        "aten::_efficient_attention_backward",
        "aten::_scaled_mm",
        "aten::_cudnn_rnn",
        "ConvolutionBackward0",
    ):
        assert member(names.is_tensor_core_eligible, name), name
        assert not member(names.is_tensor_core_eligible_plugin, name), name
    for name in ("aten::convert_something", "aten::mul", "aten::_softmax", "MulBackward0", "aten::mm_out_of"):
        assert not member(names.is_tensor_core_eligible, name), name


def test_loaders_and_steps() -> None:
    loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    assert member(names.is_dataloader, loader)
    assert member(names.is_dataloader, "enumerate(DataPipe)#ShufflerIterDataPipe")
    assert not member(names.is_dataloader, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__init__")
    assert member(names.is_step, "ProfilerStep#12")
    assert names.step_number("ProfilerStep#12") == 12
    assert not member(names.is_step, "ProfilerStep*")


def test_the_host_carries_out_gloo_and_only_launches_nccl() -> None:
    assert member(plugin_counts.is_collective, "nccl:all_reduce")
    assert not member(plugin_counts.is_collective, "nccl:_all_gather_base")
    assert member(names.is_collective, "nccl:_all_gather_base")
    assert member(names.is_host_collective, "gloo:send")
    assert not member(names.is_host_collective, "nccl:send")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,"
            " at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>)",
            "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, Array<char*, 3>>",
        ),
        (
            "void (anonymous namespace)::softmax_warp_forward<float>(float*, int)",
            "softmax_warp_forward<float>",
        ),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(P<int>)", "kernel<int>"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("volta_sgemm_64x64_nt", "volta_sgemm_64x64_nt"),
        ("kernel1", "kernel1"),
        ("", ""),
    ],
)
def test_a_signature_is_shortened_for_a_table(name: str, short: str) -> None:
    assert names.short(name) == short


def test_a_long_name_ends_at_the_width() -> None:
    assert names.short("k" * 200, 20) == "k" * 19 + "…"


def test_each_name_is_looked_at_once_and_none_is_no_member() -> None:
    seen: list[str] = []

    def family(texts: Sequence[str]) -> Mask:
        seen.extend(texts)
        return np.array([text == "b" for text in texts], bool)

    found = names.rows(["a", "b", "never"], np.array([1, 0, -1, 1, 1], np.int32), family)
    assert found.tolist() == [True, False, False, True, True]
    assert seen == ["a", "b"]
    assert names.rows([], np.empty(0, np.int32), family).tolist() == []
