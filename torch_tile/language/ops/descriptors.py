"""Tensors described by base, sizes and strides: block pointers and tensor descriptors, made of pointers and masks."""

from __future__ import annotations

from typing import Any

from torch_tile.language.casts import cast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import Shape, current, error, named, tensor
from torch_tile.language.dtypes import int8, int64, tile_type
from torch_tile.language.ops import memory
from torch_tile.language.ops.shapes import _expand, arange, reshape
from torch_tile.language.values import as_int, as_shape, as_tensor, broadcast_to_dims, constant, describe, is_number

SECTION = "Descriptors and block pointers"


def _scalars(values: Any, count: int, what: str) -> list[Any]:
    values = unwrap(values)
    if not isinstance(values, (list, tuple)) or len(values) != count:
        raise error(f"{what} expected a list of {count} integers, got {describe(values)}")
    result = []
    for value in values:
        value = unwrap(value)
        if isinstance(value, tensor):
            if value.dims or not value.dtype.is_int():
                raise error(f"{what} expected integers, got {value.type}")
            value = cast(value, int64)
        elif not is_number(value) or isinstance(value, float):
            raise error(f"{what} expected integers, got {describe(value)}")
        result.append(value)
    return result


def _padding(option: Any, what: str, element: Any) -> Any:
    option = unwrap(option)
    if option in ("", None):
        return None
    if option == "zero":
        return 0
    if option != "nan":
        raise error(f"{what} expected padding_option 'zero' or 'nan', got {option!r}")
    if not element.is_floating():
        raise error(f"{what}: padding with NaN expected floats, got {element}")
    return float("nan")


def _load(pointers: Any, mask: Any, fill: Any) -> tensor:
    """The elements, and `fill` where the mask is false; without a fill those are undefined, as of tl.load."""
    if mask is None:
        fill = None
    elif fill == 0:
        # Compiled code reads 0 without being told; the interpreter looks for results that depend on undefined elements.
        fill = None if current().tracing else constant(0, int64 if pointers.dtype.element_ty.is_ptr() else int8)
    result: tensor = memory.load(pointers, mask, fill)
    return result


def _address(base: tensor, offsets: list[Any], strides: list[Any], block: Any, limits: Any, checked: Any) -> Any:
    """Pointers to a block at `offsets`, and the mask of elements inside the limits on the axes `checked`."""
    rank = len(block)
    pointers: Any = base
    mask: Any = None
    for axis in range(rank):
        steps = cast(arange(0, block[axis]), int64)
        for k in range(rank):
            if k != axis:
                steps = _expand(steps, k)
        position = steps + offsets[axis]
        pointers = pointers + position * strides[axis]
        if axis in checked:
            inside = (position >= 0) & (position < limits[axis])
            mask = inside if mask is None else mask & inside
    dims = tuple(block)
    pointers = broadcast_to_dims(pointers, dims)
    return pointers, None if mask is None else broadcast_to_dims(mask, dims)


class block_pointer:
    """A block inside a tensor, moved with tl.advance; made by tl.make_block_ptr."""

    __slots__ = ("base", "block_shape", "limits", "offsets", "strides")

    def __init__(self, base: tensor, limits: Any, strides: Any, offsets: Any, block_shape: Any) -> None:
        self.base, self.limits, self.strides = base, limits, strides
        self.offsets, self.block_shape = offsets, Shape(block_shape)

    @property
    def dtype(self) -> Any:
        return self.base.dtype

    @property
    def type(self) -> Any:
        return self.base.dtype

    @property
    def shape(self) -> Any:
        return Shape(self.block_shape)

    def flatten(self) -> list[Any]:
        return [self.base, *self.limits, *self.strides, *self.offsets]

    def unflatten(self, values: list[Any]) -> block_pointer:
        n = len(self.block_shape)
        return block_pointer(
            values[0], values[1 : n + 1], values[n + 1 : 2 * n + 1], values[2 * n + 1 :], self.block_shape
        )

    def advance(self, offsets: Any) -> block_pointer:
        steps = _scalars(offsets, len(self.block_shape), "tl.advance: offsets")
        moved = [o + s for o, s in zip(self.offsets, steps, strict=True)]
        return block_pointer(self.base, self.limits, self.strides, moved, self.block_shape)

    def _checked(self, boundary_check: Any, what: str) -> list[int]:
        axes = unwrap(boundary_check)
        axes = axes if isinstance(axes, (list, tuple)) else (axes,)
        checked = [as_int(a, f"{what}: boundary_check") for a in axes]
        for axis in checked:
            if not 0 <= axis < len(self.block_shape):
                raise error(f"{what} expected boundary_check to hold axes below {len(self.block_shape)}, got {axis}")
        return checked

    def load(self, boundary_check: Any = (), padding_option: Any = "") -> tensor:
        checked = self._checked(boundary_check, "tl.load")
        pointers, mask = _address(self.base, self.offsets, self.strides, self.block_shape, self.limits, checked)
        fill = _padding(padding_option, "tl.load", self.base.dtype.element_ty)
        return _load(pointers, mask, fill)

    def store(self, value: Any, boundary_check: Any = ()) -> None:
        checked = self._checked(boundary_check, "tl.store")
        pointers, mask = _address(self.base, self.offsets, self.strides, self.block_shape, self.limits, checked)
        memory.store(pointers, value, mask)


def _base(base: Any, what: str) -> tensor:
    base = unwrap(base)
    if not isinstance(base, tensor) or base.dims or not base.dtype.is_ptr():
        raise error(f"{what} expected a pointer as base, got {describe(base)}")
    return base


@named(SECTION)
def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any = None) -> Any:
    """A pointer to a block inside a tensor.

    Args:
        base: pointer to the tensor's first element.
        shape, strides: the tensor's sizes and strides, in elements.
        offsets: where the block begins.
        block_shape: sizes of the block, powers of two.
        order: axes by their strides, the least first; without effect.

    Returns:
        A block pointer, for tl.load, tl.store and tl.advance.

    Example:
        >>> a = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (pid * BM, 0), (BM, BK), (1, 0))
    """
    what = "tl.make_block_ptr"
    block = as_shape(block_shape, what)
    rank = len(block)
    if unwrap(order) is not None:
        axes = tuple(as_int(axis, f"{what}: order") for axis in unwrap(order))
        if sorted(axes) != list(range(rank)):
            raise error(f"{what} expected order to be a permutation of {tuple(range(rank))}, got {axes}")
    return block_pointer(
        _base(base, what),
        [_to64(v) for v in _scalars(shape, rank, f"{what}: shape")],
        [_to64(v) for v in _scalars(strides, rank, f"{what}: strides")],
        [_to64(v) for v in _scalars(offsets, rank, f"{what}: offsets")],
        block,
    )


def _to64(value: Any) -> tensor:
    return value if isinstance(value, tensor) else constant(int(value), int64)


@named(SECTION)
def advance(base: Any, offsets: Any) -> Any:
    """The block pointer moved by `offsets`, in elements along each axis."""
    if not isinstance(base, block_pointer):
        raise error(f"tl.advance expected a block pointer, got {describe(base)}")
    return base.advance(offsets)


class tensor_descriptor:
    """A tensor of which blocks are loaded and stored; made by tl.make_tensor_descriptor.

    Elements outside the tensor read as 0 (or NaN, as asked) and are not written.
    """

    __slots__ = ("_base", "_fill", "block_shape", "limits", "steps")

    def __init__(self, base: tensor, limits: Any, steps: Any, block_shape: Any, fill: Any) -> None:
        self._base, self.limits, self.steps, self._fill = base, limits, steps, fill
        self.block_shape = Shape(block_shape)

    @property
    def dtype(self) -> Any:
        return self._base.dtype.element_ty

    @property
    def block_type(self) -> Any:
        return tile_type(self.dtype, tuple(self.block_shape))

    @property
    def type(self) -> Any:
        return self.block_type

    @property
    def shape(self) -> Any:
        return tuple(self.limits)

    @property
    def strides(self) -> Any:
        return tuple(self.steps)

    @property
    def base(self) -> tensor:
        return self._base

    def flatten(self) -> list[Any]:
        return [self._base, *self.limits, *self.steps]

    def unflatten(self, values: list[Any]) -> tensor_descriptor:
        n = len(self.block_shape)
        return tensor_descriptor(values[0], values[1 : n + 1], values[n + 1 :], self.block_shape, self._fill)

    def _at(self, offsets: Any, what: str) -> Any:
        places = [_to64(v) for v in _scalars(offsets, len(self.block_shape), f"{what}: offsets")]
        every = range(len(self.block_shape))
        return _address(self._base, places, self.steps, self.block_shape, self.limits, every)

    def load(self, offsets: Any) -> tensor:
        """The block that begins at `offsets`."""
        pointers, mask = self._at(offsets, "descriptor.load")
        return _load(pointers, mask, self._fill)

    def _value(self, value: Any, what: str) -> Any:
        value = as_tensor(value)
        if value.dims != tuple(self.block_shape):
            if value.numel != self.block_type.numel:
                raise error(f"{what} expected a tile of shape {list(self.block_shape)}, got {value.type}")
            value = reshape(value, tuple(self.block_shape))
        return value

    def store(self, offsets: Any, value: Any) -> None:
        """Writes the block that begins at `offsets`."""
        pointers, mask = self._at(offsets, "descriptor.store")
        memory.store(pointers, self._value(value, "descriptor.store"), mask)

    def _atomic(self, kind: str, offsets: Any, value: Any) -> None:
        pointers, mask = self._at(offsets, f"descriptor.atomic_{kind}")
        # As bulk reductions of a GPU, these order nothing else.
        memory._atomic(kind, pointers, self._value(value, f"descriptor.atomic_{kind}"), mask, "relaxed", None)

    def atomic_add(self, offsets: Any, value: Any) -> None:
        self._atomic("add", offsets, value)

    def atomic_min(self, offsets: Any, value: Any) -> None:
        self._atomic("min", offsets, value)

    def atomic_max(self, offsets: Any, value: Any) -> None:
        self._atomic("max", offsets, value)

    def atomic_and(self, offsets: Any, value: Any) -> None:
        self._atomic("and", offsets, value)

    def atomic_or(self, offsets: Any, value: Any) -> None:
        self._atomic("or", offsets, value)

    def atomic_xor(self, offsets: Any, value: Any) -> None:
        self._atomic("xor", offsets, value)

    def _rows(self, x_offsets: Any, y_offset: Any, what: str, rows: Any) -> Any:
        if len(self.block_shape) != 2 or self.block_shape[0] != 1:
            raise error(f"{what} expected a descriptor of block shape [1, columns], got {list(self.block_shape)}")
        if not isinstance(rows, tensor) or len(rows.dims) != 1 or not rows.dtype.is_int():
            raise error(f"{what} expected a tile of row numbers of one axis, got {describe(rows)}")
        row = _expand(cast(rows, int64), 1)
        column = _expand(cast(arange(0, self.block_shape[1]), int64) + y_offset, 0)
        dims = (rows.dims[0], self.block_shape[1])
        mask = (row >= 0) & (row < self.limits[0]) & (column >= 0) & (column < self.limits[1])
        pointers = self._base + row * self.steps[0] + column * self.steps[1]
        return broadcast_to_dims(pointers, dims), broadcast_to_dims(mask, dims)

    def gather(self, x_offsets: Any, y_offset: Any) -> tensor:
        """Rows `x_offsets` of the tensor, columns from `y_offset` on."""
        pointers, mask = self._rows(x_offsets, y_offset, "descriptor.gather", x_offsets)
        return _load(pointers, mask, self._fill)

    def scatter(self, value: Any, x_offsets: Any, y_offset: Any) -> None:
        """Writes rows `x_offsets` of the tensor, columns from `y_offset` on."""
        pointers, mask = self._rows(x_offsets, y_offset, "descriptor.scatter", x_offsets)
        memory.store(pointers, value, mask)


@named(SECTION)
def make_tensor_descriptor(base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero") -> Any:
    """Describes a tensor of which blocks are loaded and stored.

    Args:
        base: pointer to the first element.
        shape, strides: sizes and strides in elements; the last stride is 1.
        block_shape: sizes of a block, powers of two.
        padding_option: what elements outside read as: "zero" or "nan".

    Returns:
        A descriptor with load(offsets), store(offsets, value), gather, scatter, atomic_add(offsets, value), ...

    Example:
        >>> x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BM, BN])
        >>> tile = x.load([pid * BM, 0])
    """
    what = "tl.make_tensor_descriptor"
    pointer = _base(base, what)
    block = as_shape(block_shape, what)
    rank = len(block)
    if not 1 <= rank <= 5:
        raise error(f"{what} expected 1 to 5 axes, got {rank}")
    limits = _scalars(shape, rank, f"{what}: shape")
    steps = _scalars(strides, rank, f"{what}: strides")
    if is_number(steps[-1]) and steps[-1] != 1:
        raise error(f"{what} expected the last stride to be 1, got {steps[-1]}")
    fill = _padding(padding_option, what, pointer.dtype.element_ty)
    fill = 0 if fill is None else fill
    return tensor_descriptor(pointer, [_to64(v) for v in limits], [_to64(v) for v in steps], block, fill)


@named(SECTION)
def load_tensor_descriptor(desc: Any, offsets: Any) -> tensor:
    """The same as desc.load(offsets)."""
    result: tensor = desc.load(offsets)
    return result


@named(SECTION)
def store_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """The same as desc.store(offsets, value)."""
    desc.store(offsets, value)
