"""Which ATen ops are taken apart before the compiler sees them.

Taken apart are ops that are a few pointwise, reduction or view ops. Whole stay what the graph dialect has an op for (softmax, layer norm, gelu), what runs faster as one library
call (attention, convolution, batched matmul), and what would end in a scatter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import get_decompositions

aten = torch.ops.aten


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """The table that AOTAutograd traces with."""
    return get_decompositions(
        [
            *_ARITHMETIC,
            *_ACTIVATIONS,
            *_LOSSES,
            *_NORMALIZATION,
            *_CREATION,
            *_LAYOUT,
            *_REDUCTIONS,
            *_SAMPLING,
        ]
    )


_ARITHMETIC = [
    aten.addcdiv, aten.addcdiv_, aten.addcmul, aten.addcmul_, aten.addr, aten.addmv, aten.deg2rad, aten.deg2rad_, aten.dist, aten.dot, aten.vdot, aten.floor_divide,
    aten.frac, aten.frac_, aten.heaviside, aten.heaviside_, aten.isneginf, aten.isposinf, aten.lcm, aten.lerp, aten.lerp_, aten.linalg_cross, aten.logaddexp,
    aten.logaddexp2, aten.logit, aten.logit_, aten.logit_backward, aten.masked_fill, aten.masked_fill_, aten.mv, aten.mvlgamma, aten.mvlgamma_, aten.nan_to_num,
    aten.nan_to_num_, aten.rad2deg, aten.rad2deg_, aten.renorm, aten.renorm_, aten.sgn, aten.sgn_, aten.sinc, aten.sinc_, aten.special_entr, aten.special_log_ndtr,
    aten.special_xlog1py, aten.xlogy, aten.xlogy_, aten.isin, aten.bitwise_and_, aten.bitwise_or_, aten.clamp_min_, aten.sin_, aten.sqrt_, aten.fill, aten.fill_,
]  # fmt: skip

_ACTIVATIONS = [
    aten.celu, aten.celu_, aten.elu, aten.elu_, aten.elu_backward, aten.gelu_, aten.gelu_backward, aten.glu, aten.glu_backward, aten.hardshrink, aten.hardsigmoid,
    aten.hardsigmoid_, aten.hardsigmoid_backward, aten.hardswish, aten.hardswish_, aten.hardswish_backward, aten.hardtanh, aten.hardtanh_, aten.hardtanh_backward,
    aten.leaky_relu, aten.leaky_relu_, aten.leaky_relu_backward, aten.log_sigmoid_forward, aten.log_sigmoid_backward, aten.mish, aten.mish_, aten.mish_backward,
    aten._prelu_kernel, aten._prelu_kernel_backward, aten.sigmoid_backward, aten.silu, aten.silu_, aten.silu_backward, aten.softplus, aten.softplus_backward,
    aten.softshrink, aten.tanh_backward, aten.threshold, aten.threshold_, aten.threshold_backward, aten.native_dropout_backward, aten._safe_softmax,
]  # fmt: skip

_LOSSES = [
    aten.binary_cross_entropy, aten.binary_cross_entropy_backward, aten.binary_cross_entropy_with_logits, aten.huber_loss, aten.huber_loss_backward, aten.l1_loss,
    aten.mse_loss, aten.mse_loss_backward, aten.multi_margin_loss, aten.multilabel_margin_loss_forward, aten.nll_loss_forward, aten.nll_loss_backward,
    aten.nll_loss2d_forward, aten.nll_loss2d_backward, aten.smooth_l1_loss, aten.smooth_l1_loss_backward, aten.soft_margin_loss, aten.soft_margin_loss_backward,
]  # fmt: skip

_NORMALIZATION = [
    aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional, aten._native_batch_norm_legit_no_training, aten._batch_norm_with_update,
    aten._batch_norm_with_update_functional, aten._batch_norm_no_update, aten.batch_norm_backward, aten.native_batch_norm, aten.native_batch_norm_backward,
    aten.native_group_norm, aten.native_group_norm_backward, aten.native_layer_norm_backward, aten._fused_rms_norm, aten._fused_rms_norm_backward,
    aten.linalg_vector_norm, aten.norm, aten._weight_norm_interface,
]  # fmt: skip

_CREATION = [
    aten.empty_like, aten.eye, aten.hann_window, aten.linspace, aten.logspace, aten.new_empty, aten.new_full, aten.new_ones, aten.new_zeros, aten.ones,
    aten.ones_like, aten.tril_indices, aten.triu_indices, aten.zero, aten.zero_, aten.zeros, aten.zeros_like,
]  # fmt: skip

_LAYOUT = [
    aten.block_diag, aten.channel_shuffle, aten.diag_embed, aten.diagonal_backward, aten.expand_as, aten.narrow, aten.pixel_shuffle, aten.pixel_unshuffle,
    aten._reshape_alias, aten.reflection_pad1d, aten.reflection_pad2d, aten.reflection_pad3d, aten.replication_pad1d, aten.replication_pad2d,
    aten.replication_pad3d, aten.roll, aten.rot90, aten.stack, aten.t, aten.take, aten.tril, aten.tril_, aten.triu, aten.triu_, aten._unsafe_index,
    aten.permute_copy, aten.transpose_copy, aten.alias_copy, aten.expand_copy, aten.squeeze_copy, aten.unsqueeze_copy, aten.t_copy, aten.diagonal_copy,
]  # fmt: skip

_REDUCTIONS = [aten.aminmax, aten.count_nonzero, aten.logsumexp, aten.nansum, aten.std, aten.std_mean, aten.trace]

_SAMPLING = [
    aten.affine_grid_generator, aten._adaptive_avg_pool2d_backward, aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d,
]  # fmt: skip
