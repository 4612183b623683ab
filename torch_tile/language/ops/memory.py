"""Loads, stores and atomic updates through pointers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torch_tile.language import arith
from torch_tile.language.casts import cast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import current, error, method, mlir_type, named, tensor
from torch_tile.language.dtypes import int1
from torch_tile.language.values import as_tensor, broadcast_to_dims, constant, describe, is_number, repeats_to

SECTION = "Memory"
_CACHE = ("", None, ".ca", ".cg", ".cs", ".cv", ".wb", ".wt")
_EVICTION = ("", None, "evict_last", "evict_first", "evict_normal")


def _pointers(pointer: Any, what: str) -> tensor:
    pointer = unwrap(pointer)
    if not isinstance(pointer, tensor):
        raise error(f"{what} expected a pointer or a tile of pointers, got {describe(pointer)}")
    if not pointer.dtype.is_ptr():
        raise error(
            f"{what} expected a pointer or a tile of pointers, got {pointer.type}; add the offsets to the "
            "pointer argument first, `{what}(x_ptr + offsets)`".replace("{what}", what)
        )
    return pointer


def _check_hints(what: str, cache_modifier: Any, eviction_policy: Any) -> None:
    if unwrap(cache_modifier) not in _CACHE:
        raise error(
            f"{what} expected cache_modifier to be one of {', '.join(str(c) for c in _CACHE[2:])}, got "
            f"{unwrap(cache_modifier)!r}"
        )
    if unwrap(eviction_policy) not in _EVICTION:
        raise error(
            f"{what} expected eviction_policy to be one of {', '.join(str(c) for c in _EVICTION[2:])}, got "
            f"{unwrap(eviction_policy)!r}"
        )


def _mask(mask: Any, what: str) -> tensor | None:
    mask = unwrap(mask)
    if mask is None:
        return None
    mask = as_tensor(mask, f"a mask of {what}")
    if mask.dtype is not int1:
        raise error(f"{what} expected a mask of conditions (int1), got {mask.type}; compare, `offsets < n`")
    return mask


def _fit(x: tensor, dims: Any, name: str, what: str) -> tensor:
    """Mask and other values follow the pointers' shape, never the other way round."""
    if x.dims != dims and not repeats_to(x.dims, dims):
        raise error(
            f"{what} expected the {name} to have the pointers' shape {list(dims)} or one that repeats to it, got "
            f"{list(x.dims)}"
        )
    return broadcast_to_dims(x, dims)


def _value(x: Any, element: Any, what: str) -> tensor:
    """A number in the pointers' element type, or a tile as it is. In Triton's kernels a float is a float32 first."""
    if is_number(x) and not element.is_ptr() and not current().follows_triton:
        return constant(x, element)
    return as_tensor(x, what)


@named(SECTION)
@method
def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> Any:
    """Reads memory.

    Args:
        pointer: pointer, tile of pointers, or block pointer.
        mask: conditions; where one is false nothing is read and the element is `other`.
        other: number or tile for masked-off elements; 0 if absent.
        boundary_check, padding_option: for block pointers: axes that are checked, and "zero" or "nan" outside.
        cache_modifier, eviction_policy, volatile: without effect on the CPU.

    Returns:
        Tile of the pointers' shape.

    Raises:
        InvalidKernelError: no pointer, or the mask's shape does not repeat to the pointers'.
        IndexError: in the interpreter, an address is outside its argument's storage.

    Example:
        >>> x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    """
    from torch_tile.language.ops.descriptors import block_pointer

    _check_hints("tl.load", cache_modifier, eviction_policy)
    if isinstance(pointer, block_pointer):
        if mask is not None or other is not None:
            raise error("tl.load of a block pointer expected boundary_check and padding_option, got a mask or other")
        return pointer.load(boundary_check, padding_option)
    p = _pointers(pointer, "tl.load")
    if unwrap(boundary_check) or unwrap(padding_option):
        raise error(
            "tl.load expected a mask for a tile of pointers, got boundary_check or padding_option; those belong "
            "to block pointers"
        )
    m = _mask(mask, "tl.load")
    other = unwrap(other)
    if other is not None and m is None:
        raise error("tl.load expected a mask beside `other`, got `other` alone")
    dims = p.dims
    if m is not None and m.dims != dims:
        m = _fit(m, dims, "mask", "tl.load")
    element = p.dtype.element_ty
    fill = None
    if isinstance(other, float) and not math.isfinite(other) and element.is_int():
        raise error(f"tl.load expected an integer as `other` beside elements of {element}, got {other}")
    if other is not None:
        fill = cast(_value(other, element, "`other`"), element)
        if fill.dims != dims and fill.dims:
            fill = _fit(fill, dims, "`other`", "tl.load")
    return tensor(current().load(p, m, fill), element, dims)


@named(SECTION)
@method
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> None:
    """Writes memory.

    Args:
        pointer: pointer, tile of pointers, or block pointer.
        value: number, scalar or tile; it is converted to the pointers' element type and repeated to their shape.
        mask: conditions; where one is false nothing is written.
        boundary_check: for block pointers: axes that are checked.
        cache_modifier, eviction_policy: without effect on the CPU.

    Raises:
        InvalidKernelError: no pointer, or shapes that do not fit.
        IndexError: in the interpreter, an address is outside its argument's storage.

    Where two elements go to one address the last one wins.

    Example:
        >>> tl.store(out_ptr + offsets, x + y, mask=offsets < n)
    """
    from torch_tile.language.ops.descriptors import block_pointer

    _check_hints("tl.store", cache_modifier, eviction_policy)
    if isinstance(pointer, block_pointer):
        if mask is not None:
            raise error("tl.store to a block pointer expected boundary_check, got a mask")
        pointer.store(value, boundary_check)
        return
    p = _pointers(pointer, "tl.store")
    if unwrap(boundary_check):
        raise error(
            "tl.store expected a mask for a tile of pointers, got boundary_check; that belongs to block pointers"
        )
    if p.dtype.const:
        raise error("Cannot store to a constant pointer: tl.store expected one that is not declared `tl.const`")
    value = unwrap(value)
    element = p.dtype.element_ty
    v = _value(value, element, "a value to store")
    m = _mask(mask, "tl.store")
    dims = p.dims
    if v.dims != dims:
        if not dims:
            raise error(
                f"tl.store expected a scalar for a single pointer, got {v.type}; use a tile of pointers, "
                "`ptr + tl.arange(...)`"
            )
        v = _fit(v, dims, "value", "tl.store")
    if m is not None and m.dims != dims:
        m = _fit(m, dims, "mask", "tl.store")
    v = cast(v, element)
    current().store(p, v, m)


# --- atomic updates -------------------------------------------------------------------------------------------------

_SEM = (None, "acquire", "release", "acq_rel", "relaxed")


def _order(sem: Any, scope: Any, what: str, default: str = "acq_rel") -> str:
    if unwrap(sem) not in _SEM:
        raise error(f"{what} expected sem to be one of {', '.join(str(s) for s in _SEM[1:])}, got {unwrap(sem)!r}")
    if unwrap(scope) not in (None, "gpu", "cta", "sys"):
        raise error(f"{what} expected scope to be 'gpu', 'cta' or 'sys', got {unwrap(scope)!r}")
    return unwrap(sem) or default


def _atomic(kind: str, pointer: Any, val: Any, mask: Any, sem: Any, scope: Any) -> tensor:
    what = f"tl.atomic_{kind}"
    order = _order(sem, scope, what)
    p = _pointers(pointer, what)
    element = p.dtype.element_ty
    val = unwrap(val)
    v = cast(_value(val, element, f"a value of {what}"), element)
    if element is int1 or (element.primitive_bitwidth < 16 and not element.is_int()):
        raise error(f"{what} expected elements of at least 8 bits of integers or 16 of floats, got {element}")
    if kind in ("and", "or", "xor") and not element.is_int():
        raise error(f"{what} expected integers, got {element}")
    m = _mask(mask, what)
    dims = p.dims
    v = _fit(v, dims, "value", what) if dims else v
    if v.dims != dims:
        raise error(f"{what} expected a scalar for a single pointer, got {v.type}")
    if m is not None:
        m = _fit(m, dims, "mask", what)
    run = current()
    if not run.tracing:
        return tensor(run.atomic(kind, p, v, m, order), element, dims)
    run.writes(p)
    name = kind
    if kind in ("max", "min") and element.is_int() and not element.is_signed_number():
        name = f"u{kind}"
    masked = f" mask {run.ref(m)} : {mlir_type(m)}" if m is not None else ""
    text = f"tile.atomic_rmw {name} {run.ref(v)}, {run.ref(p)}{masked} : {mlir_type(v)}, {mlir_type(p)}"
    return tensor(run.text(text), element, dims)


def _describe_atomic(kind: str, effect: str) -> Any:
    def function(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
        return _atomic(kind, pointer, val, mask, sem, scope)

    function.__name__ = function.__qualname__ = f"atomic_{kind}"
    function.__module__ = __name__
    function.__doc__ = f"""{effect}, in one step that other programs cannot divide.

    Args:
        pointer: pointer or tile of pointers.
        val: number, scalar or tile of values; colliding elements each take effect, in order.
        mask: conditions; where one is false memory is left alone and the result is 0.
        sem: "acquire", "release", "acq_rel" (the default) or "relaxed".
        scope: "gpu", "cta" or "sys".

    Returns:
        What memory held before.
    """
    return named(SECTION)(method(function))


atomic_add = _describe_atomic("add", "Adds to memory")
atomic_max = _describe_atomic("max", "Replaces memory by the greater of it and the value")
atomic_min = _describe_atomic("min", "Replaces memory by the lesser of it and the value")
atomic_and = _describe_atomic("and", "Bitwise and with memory")
atomic_or = _describe_atomic("or", "Bitwise or with memory")
atomic_xor = _describe_atomic("xor", "Bitwise exclusive or with memory")
atomic_xchg = _describe_atomic("xchg", "Replaces memory by the value")


@named(SECTION)
@method
def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None, mask: Any = None) -> tensor:
    """Replaces memory that equals `cmp`, bit for bit, by `val`, in one step.

    Returns:
        What memory held before.

    Example:
        >>> while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        ...     pass
    """
    order = _order(sem, scope, "tl.atomic_cas")
    p = _pointers(pointer, "tl.atomic_cas")
    element = p.dtype.element_ty
    operands = []
    for x in (cmp, val):
        v = cast(_value(unwrap(x), element, "a value of tl.atomic_cas"), element)
        operands.append(_fit(v, p.dims, "value", "tl.atomic_cas") if p.dims else v)
    expected, value = operands
    m = _mask(mask, "tl.atomic_cas")
    run = current()
    if not run.tracing:
        return tensor(run.atomic("cas", p, value, m, order, expected), element, p.dims)
    run.writes(p)
    masked = f" mask {run.ref(m)} : {mlir_type(m)}" if m is not None else ""
    text = (
        f"tile.atomic_cas {run.ref(expected)}, {run.ref(value)}, {run.ref(p)}{masked} : {mlir_type(value)}, "
        f"{mlir_type(p)}"
    )
    return tensor(run.text(text), element, p.dims)


@named(SECTION)
@method
def atomic_load(pointer: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> tensor:
    """Reads memory in one step."""
    p = _pointers(pointer, "tl.atomic_load")
    order = _order(sem, scope, "tl.atomic_load", "acquire")
    sem = "acquire" if order == "acq_rel" else "relaxed" if order == "release" else order  # a load releases nothing
    return _atomic("or" if p.dtype.element_ty.is_int() else "add", p, 0, mask, sem, scope)


@named(SECTION)
@method
def atomic_store(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> None:
    """Writes memory in one step."""
    order = _order(sem, scope, "tl.atomic_store", "release")
    sem = "release" if order == "acq_rel" else "relaxed" if order == "acquire" else order  # a store acquires nothing
    _atomic("xchg", pointer, val, mask, sem, scope)


@named(SECTION)
@method
def atomic_poll(
    pointer: Any, expected_value: Any, sem: Any = None, scope: Any = None, timeout_ns: Any = None
) -> tensor:
    """Waits until memory holds `expected_value`; with `timeout_ns`, looks once.

    Returns:
        Conditions of the pointers' shape: whether the value was seen.

    Programs of a launch run in the order of their ids on each thread, so a program may wait on lower ids only.
    """
    p = _pointers(pointer, "tl.atomic_poll")
    run = current()
    if unwrap(timeout_ns) is not None:
        return arith.compare("eq", atomic_load(p, None, sem, scope), expected_value)
    if not run.tracing:
        seen = arith.compare("eq", atomic_load(p, None, sem, scope), expected_value)
        if not np.all(seen.value):
            raise error(
                f"tl.atomic_poll waits for a value that nobody stores any more, in program {run.program}; the "
                "interpreter runs programs one after the other"
            )
        return seen

    def is_missing() -> Any:
        found = arith.compare("ne", atomic_load(p, None, sem, scope), expected_value)
        return reduce_or(found, None) if p.dims else found

    from torch_tile.language.ops.reductions import reduce_or

    run.while_loop(is_missing, lambda: (), (), ())
    return broadcast_to_dims(constant(True, int1), p.dims)
