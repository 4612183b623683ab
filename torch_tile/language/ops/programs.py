"""Programs, hints to the compiler, checks and printing."""

from __future__ import annotations

from typing import Any

import numpy as np

from torch_tile.language.casts import cast
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import current, emit, error, method, named, tensor
from torch_tile.language.dtypes import int1, int32
from torch_tile.language.values import as_int, as_tensor, describe

SECTION = "Programs"


def _grid_axis(axis: Any, what: str) -> int:
    axis = as_int(axis, f"{what}: axis")
    if not 0 <= axis < 3:
        raise error(f"{what} expected an axis of the grid: program_id axis must be 0, 1, or 2 but got {axis}")
    return axis


@named(SECTION)
def program_id(axis: Any) -> tensor:
    """This program's index along an axis of the grid.

    Args:
        axis: 0 (the fastest), 1 or 2.

    Returns:
        Scalar of int32, in [0, num_programs(axis)).

    Raises:
        InvalidKernelError: `axis` is no axis of a grid, or not known when the kernel is compiled.

    Example:
        >>> start = tl.program_id(0) * BLOCK
    """
    axis = _grid_axis(axis, "tl.program_id")
    return emit(
        int32,
        (),
        lambda: current().ids[axis],
        lambda run: run.text(f"tile.program_id {axis} : i32"),
    )


@named(SECTION)
def num_programs(axis: Any) -> tensor:
    """Size of the grid along an axis.

    Args:
        axis: 0, 1 or 2.

    Returns:
        Scalar of int32.

    Example:
        >>> for row in range(tl.program_id(0), rows, tl.num_programs(0)):
    """
    axis = _grid_axis(axis, "tl.num_programs")
    return emit(
        int32,
        (),
        lambda: current().sizes[axis],
        lambda run: run.text(f"tile.num_programs {axis} : i32"),
    )


@named(SECTION)
def static_assert(cond: Any, msg: Any = "") -> None:
    """Checks a condition when the kernel is compiled.

    Raises:
        InvalidKernelError: the condition is false, or known at run time only.

    Example:
        >>> tl.static_assert(BLOCK % 16 == 0, "BLOCK is a multiple of 16")
    """
    cond = unwrap(cond)
    if isinstance(cond, tensor) and current().tracing:
        raise error(
            "tl.static_assert expected a condition known when the kernel is compiled, got a run-time value; "
            "use tl.device_assert"
        )
    if not cond:
        message = unwrap(msg)
        raise error(f"static assertion failed: {message}" if message else "static assertion failed")


@named(SECTION)
def static_print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False) -> None:
    """Prints Python values when the kernel is compiled; in the interpreter, in each program."""
    print(*[unwrap(v) for v in values], sep=sep, end=end, file=file, flush=flush)


def _label(prefix: str) -> str:
    """The prefix apart from what it stands between, as in Triton: ` x: ` for `x`, ` x`, `x ` and `x:`."""
    label = prefix if prefix.endswith(" ") else prefix + " "
    label = label if label.endswith(": ") else label[:-1] + ": "
    return label if label.startswith(" ") or label == ": " else " " + label


@named(SECTION)
def device_print(prefix: Any, *args: Any, hex: bool = False) -> None:
    """Prints values at run time, with the program's ids and each element's index.

    Args:
        prefix: text, known when the kernel is compiled.
        args: tiles and scalars.
        hex: print integers in base 16.

    Example:
        >>> tl.device_print("x", x)
    """
    prefix = unwrap(prefix)
    if not isinstance(prefix, str):
        raise error(f"tl.device_print expected a text as its first argument, got {describe(prefix)}")
    values = [as_tensor(a, "an argument of tl.device_print") for a in args]
    label = _label(prefix) if values else prefix
    run = current()
    if run.tracing:
        run.print(label, values, bool(unwrap(hex)))
        return
    where = f"pid ({', '.join(str(int(i)) for i in run.ids)})"
    if not values:
        print(f"{where} {prefix}")
    for value in values:
        numbers = np.asarray(value.value)
        for index in np.ndindex(numbers.shape):
            item = numbers[index].item()
            text = (
                f"0x{item & ((1 << value.dtype.primitive_bitwidth) - 1):x}" if hex and isinstance(item, int) else item
            )
            position = f" idx ({', '.join(map(str, index))})" if index else ""
            print(f"{where}{position}{label}{text}")


@named(SECTION)
def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """Checks a condition at run time, for every element where `mask` holds.

    Raises:
        RuntimeError: at the launch, with the message; AssertionError in the interpreter, with the program's ids.

    Example:
        >>> tl.device_assert(offsets < n, "inside the tensor")
    """
    cond = as_tensor(cond, "a condition of tl.device_assert")
    cond = cast(cond, int1)
    if mask is not None:
        cond = cond | ~cast(as_tensor(mask), int1)
    message = str(unwrap(msg))
    run = current()
    if run.tracing:
        run.effect_assert(cond, message)
        return
    if not np.all(cond.value):
        lane = np.argwhere(~np.atleast_1d(cond.value))[0]
        at = f" at element {tuple(int(i) for i in lane)}" if cond.dims else ""
        raise AssertionError(f"device assertion failed{at} in program {run.program}: {message}")


@named(SECTION)
def debug_barrier() -> None:
    """Orders the threads of a program on a GPU; a program is one thread of control here, so nothing is to be done."""
    current()


@named(SECTION)
def assume(cond: Any) -> None:
    """Tells the compiler that a condition holds. The interpreter checks it.

    Raises:
        AssertionError: in the interpreter, the condition does not hold.
    """
    if isinstance(cond, tensor) and not current().tracing and not np.all(cond.value):
        raise AssertionError(f"tl.assume: the condition does not hold in program {current().program}")


@named(SECTION)
def expect_zero(x: Any, mask: Any) -> Any:
    """Says that `x` is zero wherever `mask` holds; returns `x`. The interpreter checks it.

    Raises:
        AssertionError: in the interpreter, an element is not zero.
    """
    x, run = as_tensor(x), current()
    if not run.tracing and np.any((x.value != 0) & as_tensor(mask).value):
        raise AssertionError(f"tl.expect_zero: an element is not zero in program {run.program}")
    return x


def _hint(input: Any, *values: Any) -> Any:
    return as_tensor(input)


@named(SECTION)
@method
def multiple_of(input: Any, values: Any) -> Any:
    """Tells the compiler that values are multiples of `values` along each axis; returns `input`."""
    return _hint(input, values)


@named(SECTION)
@method
def max_contiguous(input: Any, values: Any) -> Any:
    """Tells the compiler that runs of `values` neighbours are consecutive numbers; returns `input`."""
    return _hint(input, values)


@named(SECTION)
@method
def max_constancy(input: Any, values: Any) -> Any:
    """Tells the compiler that runs of `values` neighbours are equal; returns `input`."""
    return _hint(input, values)


@named(SECTION)
def inline_asm_elementwise(asm: Any, *args: Any, **kwargs: Any) -> Any:
    """Assembly of one GPU.

    Raises:
        InvalidKernelError: always; there is no such thing on a CPU.
    """
    raise error(
        "tl.inline_asm_elementwise holds assembly of a GPU and is not supported on the CPU; write the operation "
        "with functions of the tile language"
    )
