"""Families of kernels and operators by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

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


@pytest.mark.parametrize(
    "name",
    [
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
        "turing_fp16_s1688gemm_fp16_128x64_ldg8_f2f_tn",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn",
        "ampere_d884gemm_64x64_16x4_nn",
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x64x16",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off",
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>()",
        "void cutlass::device_kernel<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<4> >()",
        "void cutlass::device_kernel<cutlass::gemm::MainloopSm100TmaUmmaWarpSpecialized<4> >()",
        "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT",
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>>()",
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention)",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT64x32x128_MI16x16x1_SN_LDSB1",
        "attn_fwd",
        "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x64x16",
    ],
)
def test_matrix_units_are_known_from_volta_to_blackwell_and_on_amd(name: str) -> None:
    assert member(names.uses_tensor_cores, name)


@pytest.mark.parametrize(
    "name",
    [
        "volta_sgemm_64x64_nt",
        "ampere_sgemm_32x128_tn",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>()",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm75(PyTorchMemEffAttention)",
        "void flash_bwd_dot_do_o_kernel<true>()",
        "Cijk_Ailk_Bljk_SB_MT64x64x8_SE_1LDSB0_TT4_4_VW1_WG16_16_1",
        "SubTensorOpWithScalar1d",
        "triton_poi_fused_add_cos_sin_0",
    ],
)
def test_kernels_on_ordinary_units_are_not_taken_for_matrix_work(name: str) -> None:
    assert not member(names.uses_tensor_cores, name)


def test_the_plugin_knows_nothing_after_ampere() -> None:
    assert member(names.uses_tensor_cores_plugin, "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn")
    assert member(names.uses_tensor_cores_plugin, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_ffma")
    for name in ("nvjet_hsh_128x256", "sm80_xmma_fprop_implicit_gemm_tf32", "Cijk_MI16x16x1", "S884"):
        assert not member(names.uses_tensor_cores_plugin, name), name


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
    assert member(names.is_collective_plugin, "nccl:all_reduce")
    assert not member(names.is_collective_plugin, "nccl:_all_gather_base")
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
