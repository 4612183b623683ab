"""The pass: sorts of short rows become launches of `kernel.sort_rows`.

ATen's processor code sorts row after row by comparisons of single elements, and its GPU code sorts each row by a block
of its own, or all rows by a radix sort. Short rows fit into registers, where a network of exchanges sorts many at once.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.config import Settings
from torch_tile.debug import limits
from torch_tile.frontend.emit import emit_before
from torch_tile.frontend.flex.numbers import Numbers
from torch_tile.frontend.launches.embed_kernels import GivenKernel, own_copy
from torch_tile.frontend.launches.insert import Result, insert_launch
from torch_tile.frontend.part_writes.chains import argument, hint
from torch_tile.frontend.part_writes.paths import is_same_layout
from torch_tile.frontend.sorts.kernel import Shape, sort_rows
from torch_tile.language.launch_options import LaunchOptions

aten = torch.ops.aten

_SORTS = (aten.sort.default, aten.sort.stable)
_DTYPES = (
    *(torch.float32, torch.float16, torch.bfloat16, torch.float64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)
# Elements of a row, at most: a network takes some log2(n)^2 / 2 exchanges of all elements. Of rows of 2048 a radix sort
# is faster on an H100 (78 us against 97 for 2^21 elements).
_LONGEST = 1024
# Elements that are sorted before compiling a kernel, half a second, is worth it on a processor.
_FEWEST = 1 << 16
# Elements of a program, and its warps: four elements of a thread, and rows of 128 within one warp.
_PROGRAM, _WARPS = 512, 4


@dataclasses.dataclass
class _Sort:
    node: Node
    dim: int
    kept: int
    is_descending: bool

    @property
    def value(self) -> torch.Tensor:
        found: torch.Tensor = self.node.args[0].meta["val"]  # type: ignore[union-attr]
        return found

    def results(self) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = self.node.meta["val"]
        return values, places


def _sort_of(node: Node) -> _Sort | None:
    x: Any = node.args[0] if node.args and isinstance(node.args[0], Node) else None
    value = x.meta.get("val") if x is not None else None
    if not isinstance(value, torch.Tensor) or value.dim() == 0 or value.layout is not torch.strided:
        return None
    if node.target is aten.topk.default:
        # Which of equal elements are taken is the implementation's choice; on a processor it stays eager mode's.
        if value.device.type == "cpu":
            return None
        kept, dim, is_descending = node.args[1], argument(node, 2, "dim", -1), argument(node, 3, "largest", True)
    else:
        shift = int(node.target is aten.sort.stable)
        if shift:
            dim, is_descending = node.kwargs.get("dim", -1), node.kwargs.get("descending", False)
        else:
            dim, is_descending = argument(node, 1, "dim", -1), argument(node, 2, "descending", False)
        kept = value.shape[dim]
    if not isinstance(kept, int) or not isinstance(dim, int) or not isinstance(is_descending, bool):
        return None
    return _Sort(node, dim % value.dim(), kept, is_descending)


def _used(node: Node) -> dict[int, Node]:
    """The results that are read, by number."""
    return {int(user.args[1]): user for user in node.users if user.users}  # type: ignore[arg-type]


def _is_worth_it(sort: _Sort) -> bool:
    value = sort.value
    length = value.shape[sort.dim]
    if value.device.type not in ("cpu", "cuda") or not isinstance(length, int):
        return False
    if not 2 <= length <= _LONGEST or sort.kept < 1:
        return False
    if (
        value.dtype not in _DTYPES
        or not _used(sort.node)
        or any(user.target is not operator.getitem for user in sort.node.users)
    ):
        return False
    # What ATen lays out in other ways.
    if not all(result.is_contiguous() for result in sort.results()):
        return False
    if value.device.type == "cpu" and sort.node.kwargs.get("stable") is not True and 1 in _used(sort.node):
        return False  # the places of equal elements are eager mode's
    count = hint(value.shape)
    return count is not None and (value.device.type == "cuda" or count >= _FEWEST)


def _replace(gm: GraphModule, sort: _Sort, kernels: dict[str, GivenKernel]) -> None:
    node, last = sort.node, sort.value.dim() - 1
    results = _used(node)
    emit, numbers = functools.partial(emit_before, gm, node), Numbers(gm, node)
    x: Any = node.args[0]
    if sort.dim != last:
        x = emit(aten.transpose.int, x, sort.dim, last)
    if not x.meta["val"].is_contiguous():
        x = emit(aten.clone.default, x, memory_format=torch.contiguous_format)
    given = x.meta["val"]
    width = 1 << (given.shape[-1] - 1).bit_length()
    shape = Shape(given.shape[-1], width, sort.kept, max(1, _PROGRAM // width), sort.value.dtype, sort.is_descending)
    rows = numbers.product(*(numbers.of(size) for size in given.shape[:-1]))
    programs = numbers.call(operator.floordiv, numbers.call(operator.add, rows, shape.rows - 1), shape.rows)
    sizes, dtypes = [*given.shape[:-1], sort.kept], (sort.value.dtype, torch.int64)
    with given.fake_mode:
        made = [torch.empty(sizes, dtype=dtypes[which], device=given.device) for which in results]
    values: dict[str, Any] = {"x": x, "values": None, "places": None, "rows": rows, "S": shape}
    for index, which in enumerate(results):
        values[("values", "places")[which]] = Result(index, made[index])
    options = LaunchOptions(num_warps=_WARPS)
    launched = insert_launch(gm, node, sort_rows, values, [programs, 1, 1], options, made, given.device, kernels)
    for (which, user), result in zip(results.items(), launched, strict=True):
        if sort.dim != last:
            result = emit(aten.transpose.int, result, sort.dim, last)
        if not is_same_layout(result.meta["val"], sort.results()[which]):
            result = emit(aten.clone.default, result, memory_format=torch.contiguous_format)
        user.replace_all_uses_with(result)
    for user in list(node.users):
        gm.graph.erase_node(user)
    gm.graph.erase_node(node)


def replace_sorts(gm: GraphModule, settings: Settings) -> GraphModule:
    """The graph with kernels for sorts of short rows; as it is where there are none."""
    if not limits.is_on(settings, "sorts"):
        return gm
    nodes = [node for node in gm.graph.nodes if node.target in (*_SORTS, aten.topk.default)]
    if not any((sort := _sort_of(node)) is not None and _is_worth_it(sort) for node in nodes):
        return gm
    gm = own_copy(gm)
    kernels: dict[str, GivenKernel] = {}
    for node in list(gm.graph.nodes):
        sort = _sort_of(node) if node.target in (*_SORTS, aten.topk.default) else None
        if sort is None or not _is_worth_it(sort):
            continue
        _replace(gm, sort, kernels)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm
