"""Arguments of a launch: grids, tensors seen as another type, and what the interpreter makes of each argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from torch_tile.errors import InvalidKernelError
from torch_tile.interpreter import numerics
from torch_tile.interpreter.memory import Region
from torch_tile.language import arguments
from torch_tile.language.compile_time_values import as_constant, constexpr, unwrap
from torch_tile.language.core import tensor
from torch_tile.language.dtypes import (
    dtype,
    dtype_of_number,
    dtype_of_torch,
    float32,
    float64,
    int64,
    pointer_type,
    uint32,
)
from torch_tile.language.values import constant


def evaluate_grid(grid: Any, meta: dict[str, Any], name: str) -> tuple[int, int, int]:
    """Sizes along x, y and z; a callable gets the arguments by name."""
    if callable(grid):
        grid = grid(meta)
    sizes = tuple(grid) if isinstance(grid, (tuple, list, torch.Size)) else (grid,)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"kernel {name} expected a grid of one to three sizes, got {grid!r}")
    values = []
    for size in sizes:
        size = unwrap(size)
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            raise TypeError(f"kernel {name} expected a grid of integers, got {grid!r}")
        if int(size) < 0:
            raise ValueError(f"kernel {name} expected a grid of sizes that are not negative, got {grid!r}")
        values.append(int(size))
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def interpret_argument(name: str, value: Any, regions: list[Region], type_: Any = None) -> Any:
    """What a kernel sees of an argument of the launch."""
    if isinstance(value, constexpr):
        return as_constant(value)
    if isinstance(value, torch.Tensor):
        if (wrong := arguments.unreadable(name, value)) is not None:
            raise ValueError(f"the interpreter expected {wrong}")
        if value.device.type != "cpu":
            raise TypeError(
                f"the interpreter expected CPU tensors, got `{name}` on {value.device}; pass `{name}.cpu()`"
            )
        element = dtype_of_torch(value.dtype)
        region = Region(name, value)
        regions.append(region)
        return tensor(np.int64(value.data_ptr()), pointer_type(element), (), region)
    if isinstance(value, (bool, int, float, np.generic)):
        return constant(value.item() if isinstance(value, np.generic) else value, scalar_type(value, type_))
    if isinstance(value, (tuple, list)):
        items = [interpret_argument(f"{name}[{k}]", v, regions) for k, v in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, torch.SymInt):
        return constant(int(value), scalar_type(int(value), type_))
    if isinstance(value, np.ndarray) and value.ndim:
        scalar_type(value, None)  # says what is wrong
    if hasattr(value, "block_shape"):
        if isinstance(getattr(value, "base", None), (torch.Tensor, TensorWrapper)):
            return host_descriptor(value, interpret_argument(name, value.base, regions))
    elif isinstance(getattr(value, "base", None), torch.Tensor):
        pointer = interpret_argument(name, value.base, regions)
        element = value.dtype if isinstance(value.dtype, dtype) else dtype_of_torch(value.dtype)
        if element.is_narrow_float and not numerics.supports(element.name):
            raise InvalidKernelError("kernel", f"the interpreter does not know {element}, the type of `{name}`")
        return tensor(pointer.value, pointer_type(element), (), pointer.origin)
    return as_constant(value)


def read_only(value: Any) -> Any:
    """The argument of a parameter annotated tl.const: a pointer that kernels may not write through."""
    if isinstance(value, tensor) and value.dtype.is_ptr():
        return tensor(value.value, pointer_type(value.dtype.element_ty, const=True), value.dims, value.origin)
    return value


def scalar_type(value: Any, type_: Any) -> Any:
    """Type of a number passed at run time: the first of int32, int64 and uint64 that holds it, float32 for floats."""
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("a kernel expected a tensor, got an array of numpy; pass `torch.from_numpy(array)`")
    if type_ is not None:
        return type_
    if isinstance(value, np.generic):
        return {np.dtype(np.float64): float64, np.dtype(np.int64): int64}.get(
            value.dtype, dtype_of_number(value.item())
        )
    if isinstance(value, float):
        return float32
    type_ = dtype_of_number(value)
    return int64 if type_ is uint32 else type_


def host_descriptor(value: Any, pointer: Any) -> Any:
    """A tensor descriptor made outside of the kernel."""
    from torch_tile.language.ops.descriptors import make_tensor_descriptor

    padding = getattr(value, "padding", "zero")
    return make_tensor_descriptor(pointer, list(value.shape), list(value.strides), list(value.block_shape), padding)


class TensorWrapper:
    """A tensor whose elements a kernel sees as another type of the same size."""

    def __init__(self, base: torch.Tensor, dtype: Any) -> None:
        self.base, self.dtype = base, dtype
        self.data, self.device, self.shape = base.data, base.device, base.shape

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "base":
            raise AttributeError(name)
        return getattr(self.base, name)

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """The tensor, to be passed to a kernel as one of `dtype`, a type of the tile language or of torch."""
    if isinstance(tensor, TensorWrapper):
        return tensor.base if dtype == tensor.base.dtype else TensorWrapper(tensor.base, dtype)
    if hasattr(tensor, "data_ptr"):
        return TensorWrapper(tensor, dtype)
    raise TypeError(f"reinterpret expected a tensor, got {tensor!r}")
