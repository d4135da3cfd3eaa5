"""Forms of operators that this package translates itself, by the tests that the ``onnx`` wheel has for them."""

from __future__ import annotations

import unittest

from .wheel import node_tests, run

FORMS = """
attention_3d_gqa_softcap attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal
attention_23_boolmask_fullymasked_row_nan_robustness attention_4d_causal_nonpad_attn_mask_composition
attention_4d_diff_heads_mask4d_padded_kv attention_local_window_gqa_rank4_mask
attention_23_boolmask_fullymasked_row_nan_robustness_expanded bitcast_2d_float32_to_int32 castlike_FLOAT_to_DOUBLE
convinteger_with_padding convtranspose_output_shape convtranspose_autopad_same cumprod_1d_reverse_exclusive
cumsum_2d_axis_0 cumsum_1d_exclusive
cumsum_1d_reverse_exclusive cumsum_2d_negative_axis cumprod_2d_axis_1 dft_axis dft_inverse dft_irfft isinf_negative l1normalization_axis_0
maxpool_with_argmax_2d_precomputed_pads maxpool_with_argmax_2d_precomputed_strides mod_float_edge_cases_fmod_0_float32
mod_mixed_sign_float16 pow_types_float32_int64 pow_types_int32_int32 rms_normalization_3d_axis0_epsilon resize_upsample_scales_nearest_axes_3_2
reversesequence_time rotary_embedding_3d_input scan9_sum sce_none_weights spacetodepth_crd_mode_example
top_k_same_values_2d top_k_smallest bitshift_left_int8_shift_ge_width bitshift_right_int32_negative_shift stft_with_window
col2im_pads col2im_5d tensorscatter_circular quantizelinear_blocked_asymmetric dequantizelinear_blocked
resize_upsample_sizes_nearest_not_larger scatter_elements_with_duplicate_indices scatter_elements_with_reduction_max
""".split()


class Forms(unittest.TestCase):
    """Each agrees with what the wheel expects."""

    def test_forms_agree_with_onnx(self) -> None:
        tests = {test.name.removeprefix("test_"): test for test in node_tests()}
        for name in FORMS:
            with self.subTest(name):
                outcome, reason = run(tests[name])
                self.assertTrue(outcome.startswith("agrees"), f"{outcome}: {reason}")
