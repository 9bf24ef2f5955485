"""Which library a kernel is of, and whether it computes on matrix units, by names of real kernels."""

from __future__ import annotations

import re

import pytest

from laptime.trace import names
from laptime.trace.names import Family


def member(family: Family, name: str) -> bool:
    return bool(family([name])[0])


MATRIX = {
    "trtllm-gen matrix product": [
        "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_Ab32_Bb32_Cb32_t128x128x256u2_s4_et128x32_m256x128x32_c2x1x1_rM_TN_transOut",
        "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_Ab32_Bb32_t128x8x256_s4_et128x8_m128x8x32_c1x1x1_rM_TN_tran",
        "bmm_E4m3_E4m3E4m3_Fp32_t128x8x128u2_s8_et64x8_m64x8x32_cga1x1x1_16dp256b_rM_TN_transOut_dynB_sm100f",
        "gemm_Bfloat16_E2m1E2m1_Fp32_t128x64x256u2_s5_et128x64_m128x64x64_cga1x1x4_16dp256b_splitK4_TN_sm100a",
    ],
    "trtllm-gen attention": [
        "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64MultiCtasKvVarSeqQ8Kv128StaticSwapsAbForGen",
        "fmhaSm100aKernel_QkvE4m3OBfloat16HQk192HV128PackedQkvCausalVarSeqQ128Kv128PersistentContext",
    ],
    "Triton matrix product": [
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x256x128x1_swiglu",
        "_p_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x64x1",
        "fused_moe_kernel",
        "triton_tem_fused_addmm_0",
        "_w8a8_block_fp8_matmul",
        "matmul_kernel_persistent",
    ],
    "Triton attention": ["kernel_unified_attention_2d", "_attn_fwd", "_fwd_kernel", "_bwd_kernel_dkdv"],
    "FlashAttention 4": [
        "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__t"
    ],
    "FlashAttention 3": [
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Main> > >()",
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnBwdSm90<flash::Main> > >()",
    ],
    "FlashAttention 1 and 2": [
        "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(Flash_fwd_params)",
        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<pytorch_flash::Traits>()",
    ],
    "FlashInfer": [
        "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<1, 128, 2>>()",
        "void flashinfer::mla::BatchMLAPagedAttentionKernel<flashinfer::mla::KernelTraits<true>>()",
    ],
    "Tensile and hipBLASLt": [
        "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT64x32x128_MI16x16x1_SN_LDSB1",
        "Custom_Cijk_Alik_Bljk_F8B8BS_BH_Bias_MT256x256x128_MI16x16x1",
    ],
    "Composable Kernel": [
        "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<ck::tensor_layout>>()",
        "void ck_tile::kentry<256, 2, ck_tile::GemmKernel<ck_tile::GemmPipeline> >()",
    ],
    "AITER": [
        "f4gemm_bf16_per1x32Fp4_BpreShuffle_128x512",
        "_ZN5aiter36fmoe_bf16_blockscaleFp8_g1u1_novs_silu",
    ],
    "cuBLAS": [
        "nvjet_sm100_tst_128x256_64x6_2x1_2cta_v_bz_TNT",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn",
    ],
    "cuDNN": [
        "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x64x16",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1_cga1x1x1",
    ],
    "CUTLASS": ["void cutlass::device_kernel<cutlass::gemm::MainloopSm100TmaUmmaWarpSpecialized<4> >()"],
    "quantized matrix product": [
        "void marlin_moe_wna16::Marlin<__nv_bfloat16, 4, 256>()",
        "gemm_forward_4bit_cuda_m16n128k32",
    ],
}
OTHERS = {
    "trtllm-gen attention, its reduction": ["fmhaReductionKernel_Bfloat16"],
    "FlashAttention 3, its reduction": ["void cutlass::device_kernel<flash::FlashAttnFwdCombine<float> >()"],
    "FlashAttention 1 and 2": [
        "void flash_bwd_dot_do_o_kernel<true>()",
        "void flash_fwd_splitkv_combine_kernel<8>()",
    ],
    "FlashInfer decode": ["void flashinfer::BatchDecodeWithPagedKVCacheKernel<64, 2, 8>()"],
    "Inductor pointwise and reduction": [
        "triton_poi_fused_add_cos_sin_0",
        "triton_red_fused__softmax_mm_3",
        "triton_per_fused_mm_1",
    ],
    "Triton attention, its reduction": ["reduce_segments", "_fwd_kernel_stage2"],
    "Tensile, before and after the product": ["Cijk_BBS_BH_PostGSU8_VW4", "Cijk_S_BetaOnly"],
    "Tensile and hipBLASLt": ["Cijk_Ailk_Bjlk_SB_MT64x64x8_SE_1LDSB0_TT4_4_VW1_WG16_16_1"],
    "cuBLAS vector product and reduction": [
        "void gemv2T_kernel_val<int, int, __nv_bfloat16, float>()",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float>()",
    ],
    "cuBLAS": [
        "volta_sgemm_64x64_nt",
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_ffma_aligna4",
        "cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_128x64x16_1x1x1_3_tnn_align1_bias_f32_relu",
    ],
    "PyTorch": [
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >()",
        "fused_dropout_kernel",
    ],
    "CUB and Thrust": ["void cub::DeviceScanKernel<int>()"],
    "communication": ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"],
    "vLLM, SGLang and TensorRT-LLM": [
        "void vllm::act_and_mul_kernel<c10::BFloat16>()".replace("c10::", "__nv_")
    ],
}


def every(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(family, name) for family, names in table.items() for name in names]


@pytest.mark.parametrize(("family", "name"), every(MATRIX))
def test_matrix_products_and_attention_are_known_by_family(family: str, name: str) -> None:
    assert names.name_of(name) == family
    assert member(names.uses_tensor_cores, name)


@pytest.mark.parametrize(("family", "name"), every(OTHERS))
def test_what_belongs_to_them_but_computes_elsewhere_is_known_too(family: str, name: str) -> None:
    assert names.name_of(name) == family
    assert not member(names.uses_tensor_cores, name)


def test_a_kernel_of_no_family_is_unknown() -> None:
    assert names.unknown(["my_own_kernel", "nvjet_hsh_128x256", "wmma_of_mine"]).tolist() == [
        True,
        False,
        False,
    ]
    assert names.name_of("my_own_kernel") == ""


def test_every_row_has_a_source_a_name_of_its_own_and_a_name_that_it_is_tested_with() -> None:
    listed = [row.name for row in names.FAMILIES]
    assert len(set(listed)) == len(listed)
    assert all(row.source and re.compile(row.pattern) for row in names.FAMILIES)


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
