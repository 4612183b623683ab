"""The decomposition table of AOTAutograd.

It starts from core ATen and leaves whole what the graph dialect has an op for or what runs better as one library call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from torch_tile.formulas.airy import airy_functions
from torch_tile.formulas.bessel import bessel_functions
from torch_tile.formulas.polynomials import polynomials
from torch_tile.formulas.special_functions import special_functions
from torch_tile.frontend.decompositions.adaptive_pooling import adaptive_pooling
from torch_tile.frontend.decompositions.collectives import collectives
from torch_tile.frontend.decompositions.distances import distances
from torch_tile.frontend.decompositions.folding import folding
from torch_tile.frontend.decompositions.foreach import foreach
from torch_tile.frontend.decompositions.grid_sample import grid_sample
from torch_tile.frontend.decompositions.group_norms import by_channels
from torch_tile.frontend.decompositions.indexing import indexing
from torch_tile.frontend.decompositions.interpolation import interpolation
from torch_tile.frontend.decompositions.losses import losses, of_input_dtype
from torch_tile.frontend.decompositions.new_memory import with_new_results
from torch_tile.frontend.decompositions.number_ranges import of_number_tensors_in_range, of_numbers_in_range
from torch_tile.frontend.decompositions.orders import in_order_of_iterator
from torch_tile.frontend.decompositions.padding import padding
from torch_tile.frontend.decompositions.pointwise import of_rounded_numbers, of_rounded_operands, pointwise
from torch_tile.frontend.decompositions.pooling import pooling
from torch_tile.frontend.decompositions.products import products
from torch_tile.frontend.decompositions.refused_dtypes import BATCH_NORMS, without_refused_dtypes
from torch_tile.frontend.decompositions.short_scans import short_scans
from torch_tile.frontend.decompositions.thresholds import thresholds
from torch_tile.frontend.decompositions.value_checks import value_checks
from torch_tile.frontend.decompositions.variances import of_channels, of_norm, variances
from torch_tile.frontend.decompositions.views import views
from torch_tile.frontend.decompositions.zero_dim import of_floats, zero_dim

aten = torch.ops.aten

# Ops of the graph dialect, or written by the importer with fewer ops than torch's decomposition.
_GENERATED = (
    aten._softmax,
    aten._log_softmax,
    aten._softmax_backward_data,
    aten._log_softmax_backward_data,
    aten.addcmul,
    aten.arange,
    aten.as_strided_scatter,
    aten.clamp_max,
    aten.clamp_min,
    aten.constant_pad_nd,
    aten.diagonal,
    aten.embedding_dense_backward,
    aten.empty_like,
    aten.fill,
    aten.full_like,
    aten.gelu,
    aten.index_add,
    aten.index_copy,
    aten.index_fill,
    aten.masked_fill,
    aten.native_layer_norm,
    aten.new_empty,
    aten.new_full,
    aten.new_ones,
    aten.new_zeros,
    aten.ones,
    aten.ones_like,
    aten.rsub,
    aten.select_backward,
    aten.select_scatter,
    aten.slice_backward,
    aten.slice_scatter,
    aten.split,
    aten.split_with_sizes,
    aten.stack,
    aten.std,
    aten.std_mean,
    aten.t,
    aten.transpose,
    aten.unbind,
    aten.unfold,
    aten.var,
    aten.var_mean,
    aten.where,
    aten.zeros,
    aten.zeros_like,
)
# Library calls; random ops, which frontend/fx_passes.py replaces.
_OUTSIDE = (
    aten._scaled_dot_product_flash_attention_for_cpu,
    aten._scaled_dot_product_flash_attention_for_cpu_backward,
    aten.baddbmm,
    aten.bernoulli,
    aten.native_dropout,
)
# Beyond core ATen.
_ALSO = (
    aten._batch_norm_with_update,
    aten._batch_norm_with_update_functional,
    aten._native_batch_norm_legit,
    aten._native_batch_norm_legit_functional,
    aten._native_batch_norm_legit_no_training,
    aten.batch_norm_backward,
    aten.dist,
    aten.hardtanh,
    aten.leaky_relu,
    aten.linalg_vector_norm,
    aten.native_batch_norm,
    aten.narrow_copy,
    aten.native_group_norm,
    aten.permute_copy,
    aten.std_mean,
    aten.tril_indices,
    aten.triu_indices,
    aten.unbind_copy,
    aten.upsample_bicubic2d,
    aten.upsample_bilinear2d,
    aten.upsample_linear1d,
    aten.upsample_trilinear3d,
)


def _nll_loss_backward(
    grad_output: torch.Tensor,
    self: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: torch.Tensor,
) -> torch.Tensor:
    """torch's decomposition, with a comparison in place of its scatter, so that it fuses.

    The forward has checked the range of `target`.
    """
    channel = 0 if self.dim() < 2 else 1
    if reduction == 1:  # mean
        grad_output = grad_output / total_weight
    target = target.unsqueeze(channel)
    is_kept = target != ignore_index
    shape = [1] * self.dim()
    shape[channel] = self.shape[channel]
    classes = torch.arange(self.shape[channel], device=self.device).view(shape)
    if self.dim() > grad_output.dim() > 0:
        grad_output = grad_output.unsqueeze(channel)
    if weight is not None:
        grad_output = grad_output * weight.view(shape)
    # Selected, not multiplied: where nothing is kept the gradient is 0 even if total_weight is, which makes grad_output
    # infinite. The compiler sees that a row of it has one element that is not 0.
    zero = torch.scalar_tensor(0, dtype=self.dtype, device=self.device)
    return torch.where((classes == target) & is_kept, -grad_output, zero)


_NEAREST = (
    aten.upsample_nearest1d.default,
    aten.upsample_nearest2d.default,
    aten.upsample_nearest3d.default,
    aten._upsample_nearest_exact1d.default,
    aten._upsample_nearest_exact2d.default,
    aten._upsample_nearest_exact3d.default,
)
# Formulas in float64 that take 2 to 20 times as long as ATen's vectorised functions of a processor.
_FASTER_IN_LIBRARY = (
    aten.erfinv.default,
    aten.special_bessel_j0.default,
    aten.special_bessel_j1.default,
    aten.special_ndtri.default,
)
# Likewise, but not of float64.
_FASTER_IN_LIBRARY_BELOW_FLOAT64 = (aten.special_i1.default, aten.special_i1e.default)


def _memory_format(x: torch.Tensor) -> torch.memory_format:
    """Of a batch norm's result. ATen's processor code takes the format in which the operand is contiguous, whatever
    the strides of dimensions of one element suggest."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if x.device.type == "cpu":
        for each in (torch.contiguous_format, formats.get(x.dim(), torch.contiguous_format)):
            if x.is_contiguous(memory_format=each):
                return each
    return torch._prims_common.suggest_memory_format(x)


def _not_on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: NotImplemented if x.device.type == "cpu" else function(x)


def _not_below_float64_on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: NotImplemented if x.device.type == "cpu" and x.dtype is not torch.float64 else function(x)


def _spaced_by_aten_on_cpu(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Numbers at equal distances that are rounded otherwise become other indices, and ATen's rounding depends on the
    vectors of the processor. Between complex tensors lie complex numbers, of which fake implementations know nothing.
    """

    def spaced(*args: Any, dtype: torch.dtype | None = None, device: Any = None, **kwargs: Any) -> Any:
        if dtype is None and any(isinstance(end, torch.Tensor) and end.is_complex() for end in args):
            return op(*args, dtype=torch.get_default_dtype().to_complex(), device=device, **kwargs)
        is_cpu = device is not None and torch.device(device).type == "cpu"
        return NotImplemented if is_cpu else function(*args, dtype=dtype, device=device, **kwargs)

    return spaced


def _laid_out(function: Callable[..., Any]) -> Callable[..., Any]:
    def decomposition(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        first, *rest = function(x, *args, **kwargs)
        return first.contiguous(memory_format=_memory_format(x)), *rest

    return decomposition


def _shuffle_laid_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """ATen's processor code keeps the memory format of the operand; on other devices the result is contiguous."""

    def channel_shuffle(x: torch.Tensor, groups: int) -> Any:
        result = function(x, groups)
        if x.device.type != "cpu":
            return result
        return result.contiguous(memory_format=torch._prims_common.suggest_memory_format(x))

    return channel_shuffle


def _of_known_sizes(function: Callable[..., Any]) -> Callable[..., Any]:
    """The operator stays whole where its decomposition asks what only the running graph knows."""

    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except GuardOnDataDependentSymNode:
            return NotImplemented

    return decomposition


def _exact_norm(function: Callable[..., Any]) -> Callable[..., Any]:
    """A norm over dimensions counted from the first: of one element along a dimension that is counted from the last,
    the decomposition of torch 2.11 and 2.12 keeps the dimension. The largest magnitude of complex numbers is taken in
    the dtype that is asked for, not in that of the operand."""

    @functools.wraps(function)
    def decomposition(
        x: torch.Tensor, order: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Any:
        if dim is not None and x.dim() > 0:
            dim = [each % x.dim() for each in ([dim] if isinstance(dim, int) else dim)]
        if dtype is not None and x.is_complex():
            x = x.to(dtype)
        return function(x, order, dim, keepdim, dtype=dtype)

    return decomposition


# In torch's decompositions of these, a number is divided by how many elements there are.
_OF_MEANS = (
    aten.huber_loss_backward.default,
    aten.mse_loss_backward.default,
    aten.smooth_l1_loss_backward.default,
)


def _of_some_or_none(function: Callable[..., Any]) -> Callable[..., Any]:
    """A loss's gradient, for operands without elements too: that of the sum, which has none either."""
    of_sum = 2

    @functools.wraps(function)
    def decomposition(
        grad_output: torch.Tensor, x: torch.Tensor, target: torch.Tensor, reduction: int, *rest: Any
    ) -> Any:
        try:
            return function(grad_output, x, target, reduction, *rest)
        except ZeroDivisionError:
            return function(grad_output, x, target, of_sum, *rest)

    return decomposition


def _core_decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions to its core operators, without those that dispatch takes apart before a graph sees them.

    To list these takes torch a twelfth of the first call of a process.
    """
    post_autograd = getattr(torch._decomp, "_core_aten_decompositions_post_autograd", None)
    if post_autograd is None:  # a private part of torch
        return dict(core_aten_decompositions())
    return {**post_autograd(), **get_decompositions(_NEAREST)}


@functools.cache
def decomposition_table(is_training: bool = False, has_foreach: bool = False) -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition. Made once; do not change it.

    Args:
        is_training: whether the graph will be cut into forward and backward. Softmaxes are then written with simpler
            ops, so that the cut can save a maximum and a sum for each row and compute the rest again.
        has_foreach: whether operators on lists of tensors occur; to find them takes 20 ms.
    """
    table = _core_decompositions()
    table.update(get_decompositions(list(_ALSO)))
    for packet in (*_GENERATED, *_OUTSIDE):
        overloads: list[str] = packet.overloads()  # type: ignore[no-untyped-call]
        for overload in overloads:
            table.pop(getattr(packet, overload), None)
    # Whole in the importer only as .correction; the older overloads are written with it.
    for packet in (aten.var, aten.std, aten.var_mean, aten.std_mean):
        table.update(
            (op, function)
            for op, function in get_decompositions([packet]).items()
            if getattr(op, "_overloadname", "") in ("default", "dim")
        )
    table.update(get_decompositions([aten.std_mean]))
    # ATen lays their result out in the memory format that the operand suggests.
    table.update((op, of_channels(_laid_out(of_norm(table[op])))) for op in BATCH_NORMS if op in table)
    table[aten.linalg_vector_norm.default] = _exact_norm(table[aten.linalg_vector_norm.default])
    table[aten.native_group_norm.default] = by_channels(of_norm(table[aten.native_group_norm.default]))
    table[aten.channel_shuffle.default] = _shuffle_laid_out(table[aten.channel_shuffle.default])
    for family in (
        pointwise,
        polynomials,
        pooling,
        adaptive_pooling,
        airy_functions,
        bessel_functions,
        distances,
        folding,
        grid_sample,
        indexing,
        losses,
        padding,
        products,
        special_functions,
        short_scans,
        thresholds,
        value_checks,
        variances,
        views,
        zero_dim,
    ):
        table.update((op, _of_known_sizes(function)) for op, function in family().items())
    table.update(collectives())
    for packet in (aten.linspace, aten.logspace):
        overloads = packet.overloads()  # type: ignore[no-untyped-call]
        for op in (getattr(packet, overload) for overload in overloads):
            if op in table:
                table[op] = _spaced_by_aten_on_cpu(op, table[op])
    table.update((op, _not_on_cpu(table[op])) for op in _FASTER_IN_LIBRARY)
    table.update((op, _not_below_float64_on_cpu(table[op])) for op in _FASTER_IN_LIBRARY_BELOW_FLOAT64)
    table[aten.huber_loss.default] = of_input_dtype(table[aten.huber_loss.default])
    table.update(of_rounded_operands(table))
    table.update(of_rounded_numbers(table))
    table.update(interpolation(table))
    table.update(without_refused_dtypes(table))
    table.update(of_numbers_in_range(table))
    table.update(of_number_tensors_in_range(table))
    if is_training:
        softmaxes = (aten._softmax, aten._log_softmax, aten._softmax_backward_data, aten._log_softmax_backward_data)
        table.update(get_decompositions(softmaxes))
        table.update((op, of_floats(table[op])) for op in (aten._softmax.default, aten._log_softmax.default))
    if has_foreach:
        table.update(foreach())
    table.update((op, _of_some_or_none(table[op])) for op in _OF_MEANS if op in table)
    table[aten.nll_loss_backward.default] = _nll_loss_backward
    table[aten.nll_loss2d_backward.default] = _nll_loss_backward
    table = with_new_results(table)
    table.update(in_order_of_iterator(table))
    return table
