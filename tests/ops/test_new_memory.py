"""Results of operators are new memory where eager's are, also where the result is the operand, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.compiling import compiled

aten = torch.ops.aten
Function = Callable[[torch.Tensor], Any]

# Each of these gives its operand back, bit for bit, if only for some sizes and dtypes. Not here: `dropout` that drops
# nothing, which gives back its argument in eager mode and a copy once AOTAutograd has traced it, and `native_dropout`,
# which AOTAutograd does not trace where its argument is written.
NEUTRAL: dict[str, Function] = {
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.contiguous(),
    "to": lambda x: x.to(x.dtype),
    "to_copy": lambda x: x.to(x.dtype, copy=True),
    "_to_copy": lambda x: aten._to_copy.default(x, dtype=x.dtype),
    "convert": lambda x: torch.ops.prims.convert_element_type.default(x, x.dtype),
    "add_0": lambda x: x + 0,
    "add_negative_0": lambda x: x + (-0.0),
    "sub_0": lambda x: x - 0,
    "mul_1": lambda x: x * 1,
    "div_1": lambda x: x / 1,
    "floor_div_1": lambda x: x // 1,
    "pow_1": lambda x: x**1,
    "pow_tensor": lambda x: torch.pow(x, torch.ones((), dtype=torch.int64)),
    "positive": lambda x: +x,
    "neg_neg": lambda x: x.neg().neg(),
    "abs": lambda x: x.abs(),
    "floor": lambda x: x.floor(),
    "round": lambda x: x.round(),
    "trunc": lambda x: x.trunc(),
    "sign": lambda x: x.sign(),
    "relu": lambda x: x.relu(),
    "clamp": lambda x: x.clamp(-100, 100),
    "clamp_min": lambda x: x.clamp(min=-100),
    "maximum": lambda x: torch.maximum(x, x),
    "where": lambda x: torch.where(x > 0, x, x),
    "masked_fill": lambda x: x.masked_fill(x > 1000, 1),
    "lerp": lambda x: torch.lerp(x, x, 0.0),
    "nan_to_num": lambda x: x.nan_to_num(),
    "feature_dropout": lambda x: torch.feature_dropout(x, 0.5, False),
    "cat": lambda x: torch.cat([x]),
    "cat_empty": lambda x: torch.cat([x, x[:0]]),
    "stack": lambda x: torch.stack([x])[0],
    "expand": lambda x: x.expand(x.shape),
    "expand_clone": lambda x: x.expand(x.shape).clone(),
    "repeat": lambda x: x.repeat(*[1] * max(x.dim(), 1)),
    "tile": lambda x: x.tile(1),
    "flip_none": lambda x: x.flip([]),
    "flip": lambda x: x.flip(0) if x.dim() else x.flip([]),
    "roll": lambda x: x.roll(0),
    "pad": lambda x: torch.nn.functional.pad(x, [0, 0] if x.dim() else []),
    "constant_pad": lambda x: aten.constant_pad_nd.default(x, [0, 0] if x.dim() else []),
    "permute": lambda x: x.permute([0, 1][: x.dim()]).clone(),
    "transpose": lambda x: x.transpose(0, 0).clone() if x.dim() else x.clone(),
    "index_slices": lambda x: x[(slice(None),) * x.dim()].clone(),
    "index_all": lambda x: x[...],
    "index_tensor": lambda x: x[torch.arange(x.shape[0])] if x.dim() else x.clone(),
    "index_select": lambda x: x.index_select(0, torch.arange(x.shape[0] if x.dim() else 1)),
    "gather": lambda x: x.gather(0, torch.zeros_like(x, dtype=torch.int64)),
    "slice_scatter": lambda x: x.slice_scatter(x) if x.dim() else x.clone(),
    "slice_scatter_none": lambda x: x.slice_scatter(x[:0], end=0) if x.dim() else x.clone(),
    "select_scatter": lambda x: x.select_scatter(x[0], 0, 0) if x.dim() else x.clone(),
    "as_strided_scatter": lambda x: torch.as_strided_scatter(x, x, x.shape, x.stride()),
    "diagonal_scatter": lambda x: x.diagonal_scatter(x.diagonal()) if x.dim() > 1 else x.clone(),
    "index_put": lambda x: x.index_put((x > 1000,), torch.ones((), dtype=x.dtype)),
    "index_add": lambda x: x.index_add(0, torch.zeros(0, dtype=torch.int64), x[:0]) if x.dim() else x.clone(),
    "scatter": lambda x: x.scatter(0, torch.zeros_like(x, dtype=torch.int64)[:0], 1) if x.dim() else x.clone(),
    "masked_scatter": lambda x: x.masked_scatter(x > 1000, x),
    "copy": lambda x: torch.ops.aten.copy.default(x, x),
    "reshape": lambda x: x.reshape(x.shape),
    "view_copy": lambda x: torch.view_copy(x, x.shape),
    "alias_copy": lambda x: torch.alias_copy(x),
    "expand_copy": lambda x: torch.expand_copy(x, x.shape),
    "unsafe_split": lambda x: torch.unsafe_split(x, 100)[0] if x.dim() else x.clone(),
    "detach": lambda x: x.detach(),
    "lift_fresh_copy": lambda x: aten.lift_fresh_copy.default(x),
    "tril": lambda x: x.tril(100) if x.dim() > 1 else x.clone(),
    "sort": lambda x: x.sort()[0] if x.dim() else x.clone(),
    "cumsum": lambda x: x.cumsum(0),
    "cummax": lambda x: x.cummax(0)[0] if x.dim() else x.clone(),
    "sum_to_size": lambda x: x.sum_to_size(x.shape),
    "sum_none": lambda x: x.sum(()),
    "amax_keep": lambda x: x.amax((), keepdim=True),
    "max_dim": lambda x: x.max(0, keepdim=True)[0],
    "mode": lambda x: x.mode(0, keepdim=True)[0],
    "conj": lambda x: x.conj(),
    "conj_physical": lambda x: x.conj_physical(),
    "resolve_conj": lambda x: x.resolve_conj(),
    "real": lambda x: torch.real(x),
    "movedim": lambda x: x.movedim(0, 0) if x.dim() else x,
    "squeeze": lambda x: x.squeeze(),
    "atleast_1d": lambda x: torch.atleast_1d(x),
    "broadcast": lambda x: torch.broadcast_tensors(x, x)[1],
    "type_as": lambda x: x.type_as(x),
    "float_power": lambda x: x.float_power(1),
    "bitwise_or_0": lambda x: x | 0,
    "pixel_shuffle": lambda x: torch.nn.functional.pixel_shuffle(x.view(1, 1, *x.shape), 1),
    "interpolate": lambda x: torch.nn.functional.interpolate(x.view(1, 1, *x.shape), scale_factor=1),
    "avg_pool": lambda x: torch.nn.functional.avg_pool2d(x.view(1, *x.shape), 1),
    "foreach": lambda x: torch._foreach_add([x], 0)[0],
}
SHAPES = [(), (1,), (5,), (1, 1), (3, 4), (0, 2)]


def _runs(function: Function, x: torch.Tensor) -> bool:
    try:
        function(x)
    except Exception:
        return False
    return True


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "read"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_are_new_memory_where_eagers_are(shape: tuple[int, ...], dtype: torch.dtype, is_written: bool) -> None:
    """One graph of many neutral operators, each of an input of its own that is written afterwards."""
    chosen = {name: f for name, f in NEUTRAL.items() if _runs(f, torch.zeros(shape, dtype=dtype))}

    def make() -> list[torch.Tensor]:
        torch.manual_seed(0)
        return [torch.randint(0, 2, shape).to(dtype) for _ in chosen]

    def function(*inputs: torch.Tensor) -> list[Any]:
        results = [f(x) for f, x in zip(chosen.values(), inputs, strict=True)]
        for x in inputs if is_written else ():
            x.logical_not_() if x.dtype == torch.bool else x.add_(1)
        return results

    given, expected_given = make(), make()
    expected = function(*expected_given)
    result = compiled(function)(*given)
    for name, mine, eager, x, y in zip(chosen, result, expected, given, expected_given, strict=True):
        is_view = eager.untyped_storage()._cdata == y.untyped_storage()._cdata
        assert (mine.untyped_storage()._cdata == x.untyped_storage()._cdata) == is_view, f"{name}: a view is {is_view}"
        assert torch.equal(mine, eager), f"{name}: {mine}, not {eager}"
        assert torch.equal(x, y), name
