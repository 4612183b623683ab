"""Operators that ATen refuses for some dtypes, where a decomposition would compute something: they are left to it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from torch_tile.errors import UnsupportedError

aten = torch.ops.aten

_WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)


def _is_not_float(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point


def _is_complex(dtype: torch.dtype) -> bool:
    return dtype.is_complex


def _is_not_pooled(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and dtype is not torch.int64


def _is_bool(dtype: torch.dtype) -> bool:
    return dtype is torch.bool


def _is_wide_unsigned(dtype: torch.dtype) -> bool:
    return dtype in _WIDE_UNSIGNED


def _has_few_kernels(dtype: torch.dtype) -> bool:
    """ATen has few kernels of these, and others than decompositions call."""
    return _is_wide_unsigned(dtype) or (dtype.is_floating_point and dtype.itemsize == 1)


def _is_not_single_or_double(dtype: torch.dtype) -> bool:
    return dtype not in (torch.float32, torch.float64)


# Beside what torch tags as pointwise: operators that are asked with one element of each operand, too.
_ASKED = (
    aten._prelu_kernel.default,
    aten.binary_cross_entropy.default,
    aten.hardswish.default,
    aten.huber_loss.default,
    aten.log_sigmoid_forward.default,
    aten.mse_loss.default,
    aten.smooth_l1_loss.default,
    aten.soft_margin_loss.default,
)
# Those that the importer has itself, and whose rules for fake tensors promote what ATen does not.
_IMPORTED = (aten.div.Tensor, aten.polar.default)
_NUMBERS: dict[type, Any] = {
    bool: True,
    int: 1,
    float: 1.0,
    complex: 1j,
    torch.SymBool: True,
    torch.SymInt: 1,
    torch.SymFloat: 1.0,
}


class _Operand(NamedTuple):
    dtype: torch.dtype
    has_dims: bool  # one without counts less where dtypes are promoted


def _kind(argument: Any) -> Any:
    """What of an argument decides whether ATen takes it; of a number its type."""
    if isinstance(argument, torch.Tensor):
        return _Operand(argument.dtype, argument.dim() > 0)
    return type(argument) if type(argument) in _NUMBERS else argument


def _example(kind: Any) -> Any:
    if isinstance(kind, _Operand):
        return torch.ones([1] if kind.has_dims else [], device="cpu").to(kind.dtype)
    return _NUMBERS[kind] if isinstance(kind, type) else kind


@functools.lru_cache(maxsize=4096)
def _asked(op: Any, kinds: tuple[Any, ...], options: tuple[tuple[str, Any], ...]) -> Exception | None:
    with unset_fake_temporarily(), _disable_current_modes(), torch.no_grad(), torch._C._DisableAutocast():
        try:
            op(*map(_example, kinds), **{name: _example(kind) for name, kind in options})
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            return error.with_traceback(None)
    return None


def _refusal(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Exception | None:
    """What ATen raises for one element of each operand on the processor."""
    kinds, options = tuple(map(_kind, args)), tuple((name, _kind(value)) for name, value in kwargs.items())
    both = [*kinds, *(kind for _, kind in options)]
    dtypes = {kind.dtype for kind in both if isinstance(kind, _Operand)}
    if len(dtypes) == 1 and not _is_not_single_or_double(*dtypes) and complex not in both:
        return None
    if not all(isinstance(kind, (_Operand, type, str, torch.dtype)) or kind is None for kind in both):
        return None  # lists, layouts: no such operator is asked
    return _asked(op, kinds, options)


def _unless_refused(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if _refusal(op, args, kwargs) is None else NotImplemented

    return decomposition


def _refused_while_traced(op: Any) -> Callable[..., Any]:
    """On the processor alone: other devices may have a kernel, and the whole graph would be refused."""

    def decomposition(*args: Any, **kwargs: Any) -> Any:
        is_on_cpu = all(x.device.type == "cpu" for x in args if isinstance(x, torch.Tensor))
        if is_on_cpu and (error := _refusal(op, args, kwargs)) is not None:
            raise UnsupportedError("import", f"{op}, which eager mode refuses: {error}")
        return NotImplemented

    return decomposition


# Overload -> whether ATen may refuse the promoted dtype of the operands. What it does not refuse is its own to compute.
_LEFT: dict[Any, Callable[[torch.dtype], bool]] = {
    aten._cdist_forward.default: _is_not_single_or_double,
    aten._pdist_forward.default: _is_not_single_or_double,
    aten.addmv.default: _is_bool,
    aten.aminmax.default: _is_complex,
    aten.avg_pool1d.default: _is_not_pooled,
    aten.avg_pool2d.default: _is_not_pooled,
    aten.avg_pool3d.default: _is_not_pooled,
    aten.bucketize.Tensor: _is_bool,
    aten.dot.default: _is_bool,
    aten.glu.default: _is_not_float,
    aten.grid_sampler_2d.default: _is_not_float,
    aten.grid_sampler_3d.default: _is_not_float,
    aten.im2col.default: _is_not_float,
    aten.max_unpool2d.default: _is_not_float,
    aten.max_unpool3d.default: _is_not_float,
    aten.mv.default: _is_bool,
    aten.nan_to_num.default: _is_complex,  # torch takes it apart for real numbers
    aten.nansum.default: _is_complex,
    aten.nll_loss2d_forward.default: _is_not_float,
    aten.nll_loss_forward.default: _is_not_float,
    aten.reflection_pad1d.default: _is_bool,
    aten.reflection_pad2d.default: _is_bool,
    aten.reflection_pad3d.default: _is_bool,
    aten.searchsorted.Tensor: _is_bool,
    aten.trace.default: _is_bool,
    aten.upsample_bicubic2d.default: _is_not_float,
    aten.upsample_bicubic2d.vec: _is_not_float,
    aten.upsample_bilinear2d.default: _is_not_float,
    aten.upsample_bilinear2d.vec: _is_not_float,
    aten.upsample_linear1d.default: _is_not_float,
    aten.upsample_linear1d.vec: _is_not_float,
    aten.upsample_trilinear3d.default: _is_not_float,
    aten.upsample_trilinear3d.vec: _is_not_float,
}

# Overloads whose kernels take operands of one dtype, or, the norms, a 16-bit input with float32 parameters.
_OF_ONE = (
    aten._cdist_forward.default,
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


def _unless_few_kernels(function: Callable[..., Any], has_few: Callable[[torch.dtype], bool]) -> Callable[..., Any]:
    @functools.wraps(function)
    def decomposition(*args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        is_left = any(has_few(x.dtype) for x in leaves if isinstance(x, torch.Tensor))
        return NotImplemented if is_left else function(*args, **kwargs)

    return decomposition


# Moves of elements, of which ATen has kernels: for all dtypes, and for all but wide unsigned integers.
_MOVE_ALL = (aten.index.Tensor, aten.narrow_copy.default, aten.repeat_interleave.Tensor, aten.roll.default)
_MOVE_FLOATS = (aten.index_select.default,)

# Functional forms of operators whose kernels write their operand, or of the same name.
_OF_OTHERS = (aten.count_nonzero.default, aten.masked_scatter.default, aten.put.default)


def _has_own_kernel(op: Any) -> bool:
    if op in _OF_OTHERS:
        return True
    is_functional = isinstance(op, torch._ops.OpOverload) and not op._schema.is_mutable and not op.is_view
    return is_functional and op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CPU)


def _is_asked(op: Any) -> bool:
    if op in _ASKED:
        return True
    is_functional = isinstance(op, torch._ops.OpOverload) and not op._schema.is_mutable
    return is_functional and torch.Tag.pointwise in op.tags and torch.Tag.nondeterministic_seeded not in op.tags


def without_refused_dtypes(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """The decompositions among `table` whose operators ATen refuses for some dtypes, which they then leave whole."""
    found = {op: _except_for(refuses, table[op]) for op, refuses in _LEFT.items() if op in table}
    for op in (*_OF_ONE, *_AT_PLACES, *_NORMS):
        if op in table:
            found[op] = _unless_mixed(op, found.get(op, table[op]))
    for op, function in table.items():
        if _is_asked(op):
            found[op] = _unless_refused(op, found.get(op, function))
        elif _has_own_kernel(op) and op not in _MOVE_ALL:
            has_few = _is_wide_unsigned if op in _MOVE_FLOATS else _has_few_kernels
            found[op] = _unless_few_kernels(found.get(op, function), has_few)
    return found | {op: _refused_while_traced(op) for op in _IMPORTED}
