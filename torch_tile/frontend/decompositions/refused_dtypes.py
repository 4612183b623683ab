"""Operators that ATen refuses for some dtypes, where a decomposition would compute something: they are left to it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_tile.formulas.bessel import bessel_functions
from torch_tile.formulas.special_functions import special_functions

aten = torch.ops.aten


def _is_not_float(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point


def _is_complex(dtype: torch.dtype) -> bool:
    return dtype.is_complex


def _is_not_pooled(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and dtype is not torch.int64


def _is_bool(dtype: torch.dtype) -> bool:
    return dtype is torch.bool


def _is_wide_unsigned(dtype: torch.dtype) -> bool:
    """ATen has few kernels of these, and others than decompositions call."""
    return dtype in (torch.uint16, torch.uint32, torch.uint64)


def _is_not_single_or_double(dtype: torch.dtype) -> bool:
    return dtype not in (torch.float32, torch.float64)


# Overload -> whether ATen may refuse the promoted dtype of the operands. What it does not refuse is its own to compute.
_LEFT: dict[Any, Callable[[torch.dtype], bool]] = {
    aten._cdist_forward.default: _is_not_single_or_double,
    aten._pdist_forward.default: _is_not_single_or_double,
    aten._prelu_kernel.default: _is_not_float,
    aten.addcdiv.default: _is_not_float,
    aten.addmv.default: _is_bool,
    aten.all.default: _is_wide_unsigned,
    aten.all.dim: _is_wide_unsigned,
    aten.all.dims: _is_wide_unsigned,
    aten.avg_pool1d.default: _is_not_pooled,
    aten.avg_pool2d.default: _is_not_pooled,
    aten.avg_pool3d.default: _is_not_pooled,
    aten.bucketize.Tensor: _is_bool,
    aten.celu.default: _is_not_float,
    aten.dot.default: _is_bool,
    aten.elu.default: _is_not_float,
    aten.frac.default: _is_not_float,
    aten.glu.default: _is_not_float,
    aten.grid_sampler_2d.default: _is_not_float,
    aten.grid_sampler_3d.default: _is_not_float,
    aten.hardshrink.default: _is_not_float,
    aten.hardsigmoid.default: _is_not_float,
    aten.hardswish.default: _is_not_float,
    aten.huber_loss.default: _is_not_float,
    aten.im2col.default: _is_not_float,
    aten.isin.Tensor_Tensor: _is_wide_unsigned,
    aten.leaky_relu.default: _is_not_float,
    aten.lerp.Scalar: _is_not_float,
    aten.lerp.Tensor: _is_not_float,
    aten.log_sigmoid_forward.default: _is_not_float,
    aten.logaddexp.default: _is_not_float,
    aten.logaddexp2.default: _is_not_float,
    aten.max_unpool2d.default: _is_not_float,
    aten.max_unpool3d.default: _is_not_float,
    aten.mish.default: _is_not_float,
    aten.mse_loss.default: _is_complex,
    aten.mv.default: _is_bool,
    aten.nan_to_num.default: _is_complex,
    aten.nansum.default: _is_complex,
    aten.reflection_pad1d.default: _is_bool,
    aten.round.decimals: _is_not_float,
    aten.silu.default: _is_not_float,
    aten.smooth_l1_loss.default: _is_not_float,
    aten.softplus.default: _is_not_float,
    aten.softshrink.default: _is_not_float,
    aten.trace.default: _is_bool,
    aten.tril.default: _is_wide_unsigned,
    aten.triu.default: _is_wide_unsigned,
    aten.upsample_bicubic2d.default: _is_not_float,
    aten.upsample_bicubic2d.vec: _is_not_float,
    aten.upsample_bilinear2d.default: _is_not_float,
    aten.upsample_bilinear2d.vec: _is_not_float,
    aten.upsample_linear1d.default: _is_not_float,
    aten.upsample_linear1d.vec: _is_not_float,
    aten.upsample_trilinear3d.default: _is_not_float,
    aten.upsample_trilinear3d.vec: _is_not_float,
    aten.xlogy.Tensor: _is_complex,
}

# Special functions of which ATen has no kernels of 16 bits: `aten.special_` and the name.
_NOT_OF_HALVES = [
    "airy_ai",
    "bessel_y0",
    "bessel_y1",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "spherical_bessel_j0",
    "log_ndtr",
    "erfcx",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
]


def _has_no_kernel(dtype: torch.dtype) -> bool:
    return dtype.is_complex or dtype in (torch.float16, torch.bfloat16)


def _special_of_no_halves() -> list[Any]:
    packets = [getattr(aten, f"special_{name}") for name in _NOT_OF_HALVES]
    return [getattr(packet, overload) for packet in packets for overload in packet.overloads() if "out" not in overload]


# Overloads whose kernels take operands of one dtype, or, the norms, a 16-bit input with float32 parameters.
_OF_ONE = (
    aten._cdist_forward.default,
    aten.heaviside.default,
    aten.linalg_cross.default,
)
_AT_PLACES = (aten.nll_loss2d_forward.default, aten.nll_loss_forward.default)  # beside integers
# Forward batch norms.
BATCH_NORMS = (
    aten._batch_norm_with_update.default,
    aten._batch_norm_with_update_functional.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit_no_training.default,
    aten.native_batch_norm.default,
)
_NORMS = (*BATCH_NORMS, aten.native_group_norm.default)


def _unless_mixed(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        first, *rest = [x.dtype for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        allowed = {first, torch.int64, torch.uint8} if op in _AT_PLACES else {first}
        is_one = allowed.issuperset(rest)
        if op in _NORMS:  # all parameters are float32, or none
            has_wide = first.itemsize == 2 and {torch.float32}.issuperset(rest)
            is_one = first.is_floating_point and (is_one or has_wide)
        return function(*args, **kwargs) if is_one else NotImplemented

    return decomposition


def _except_for(refuses: Callable[[torch.dtype], bool], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        # Each dtype once: torch promotes no wide unsigned integers, where there are several dtypes.
        dtype = functools.reduce(torch.promote_types, {x.dtype for x in tensors})
        return NotImplemented if refuses(dtype) else function(*args, **kwargs)

    return decomposition


_INTEGRAL = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _unless_divided_as_integers(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def addcdiv(x: torch.Tensor, above: torch.Tensor, below: torch.Tensor, **kwargs: Any) -> Any:
        is_division = not all(x.dtype in _INTEGRAL for x in (above, below))
        return function(x, above, below, **kwargs) if is_division else NotImplemented

    return addcdiv


def without_refused_dtypes(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """The decompositions among `table` whose operators ATen refuses for some dtypes, which they then leave whole."""
    left = {**dict.fromkeys((*special_functions(), *bessel_functions()), _is_complex), **_LEFT}
    left |= dict.fromkeys(_special_of_no_halves(), _has_no_kernel)
    found = {op: _except_for(refuses, table[op]) for op, refuses in left.items() if op in table}
    if aten.addcdiv.default in found:
        found[aten.addcdiv.default] = _unless_divided_as_integers(found[aten.addcdiv.default])
    for op in (*_OF_ONE, *_AT_PLACES, *_NORMS):
        if op in table:
            found[op] = _unless_mixed(op, found.get(op, table[op]))
    return found
