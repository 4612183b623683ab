"""Wrong kernels: the message, and the line marked `# here`."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_tile
import torch_tile.language as tl

# ruff: noqa: B018, F821, F841, RUF005, RUF100
WRONG: list[tuple[Any, str]] = []


def wrong(message: str) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        WRONG.append((function, message))
        return function

    return add


@wrong("shapes [16] and [32] do not match")
def shapes(x_ptr, n, B: tl.constexpr):
    a = tl.arange(0, 16)
    b = tl.arange(0, 32)
    c = a + b  # here


@wrong("expected a range whose size is a power of two, got 24")
def range_size(x_ptr, n, B: tl.constexpr):
    a = tl.arange(0, 24)  # here


@wrong("tl.arange expected end to be greater than start")
def empty_range(x_ptr, n, B: tl.constexpr):
    a = tl.arange(4, 4)  # here


@wrong("tl.arange: end expected an integer known when the kernel is compiled")
def run_time_range(x_ptr, n, B: tl.constexpr):
    a = tl.arange(0, n)  # here


@wrong("tl.full expected sizes that are powers of two, got 12")
def zeros_size(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([12], tl.float32)  # here


@wrong("expected sizes known when the kernel is compiled, got a run-time value in the shape")
def run_time_shape(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([n], tl.float32)  # here


@wrong("tl.load expected a pointer or a tile of pointers, got <[16], int32>")
def load_of_offsets(x_ptr, n, B: tl.constexpr):
    a = tl.load(tl.arange(0, 16))  # here


@wrong("expected numbers, got pointer<fp32>")
def pointer_times(x_ptr, n, B: tl.constexpr):
    a = x_ptr * 2  # here


@wrong("`<` expected numbers, got <[16], int32> and None")
def order_of_nothing(x_ptr, n, B: tl.constexpr):
    a = tl.arange(0, 16) < None  # here


@wrong("`<` expected numbers or two pointers, got <[16], int32> and pointer<fp32>; load through the pointer")
def order_of_address(x_ptr, n, B: tl.constexpr):
    a = tl.arange(0, 16) < x_ptr  # here


@wrong("pointers cannot be added")
def pointer_sum(x_ptr, n, B: tl.constexpr):
    a = x_ptr + x_ptr  # here


@wrong("a pointer expected integer offsets, got fp32")
def float_offset(x_ptr, n, B: tl.constexpr):
    a = x_ptr + 1.5  # here


@wrong("expected a mask of conditions (int1), got <[16], int32>")
def integer_mask(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, 16)
    a = tl.load(x_ptr + i, mask=i)  # here


@wrong("expected the mask to have the pointers' shape [16]")
def mask_shape(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, 16)
    a = tl.load(x_ptr + i, mask=tl.arange(0, 32) < n)  # here


@wrong("expected a mask beside `other`")
def other_alone(x_ptr, n, B: tl.constexpr):
    a = tl.load(x_ptr + tl.arange(0, 16), other=0.0)  # here


@wrong("tl.store expected a scalar for a single pointer, got <[16], int32>")
def store_tile(x_ptr, n, B: tl.constexpr):
    tl.store(x_ptr, tl.arange(0, 16))  # here


@wrong("expected the value to have the pointers' shape [16]")
def store_shape(x_ptr, n, B: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, 16), tl.zeros([32], tl.float32))  # here


@wrong("tl.sum expected an axis in [-1, 1) for a tile of rank 1, got 1")
def axis(x_ptr, n, B: tl.constexpr):
    s = tl.sum(tl.arange(0, 16), axis=1)  # here


@wrong("program_id axis must be 0, 1, or 2 but got 3")
def grid_axis(x_ptr, n, B: tl.constexpr):
    p = tl.program_id(3)  # here


@wrong("[16, 32] and [16, 32] (32 and 16)")
def dot_shapes(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16, 32], tl.float32)
    c = tl.dot(a, a)  # here


@wrong("tl.dot expected operands of one type, got fp32 and fp16")
def dot_types(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16, 16], tl.float32)
    c = tl.dot(a, a.to(tl.float16))  # here


@wrong("tl.dot expected two tiles of two axes, or of the same number of more")
def dot_ranks(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16], tl.float32)
    c = tl.dot(a, a)  # here


@wrong("tl.dot expected floats or int8, got int32; cast to tl.float32 first")
def dot_of_integers(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16, 16], tl.int32)
    c = tl.dot(a, a)  # here


@wrong("tl.dot expected acc of shape [16, 32], got <[16, 16], fp32>")
def dot_acc_shape(x_ptr, n, B: tl.constexpr):
    a, b, acc = tl.zeros([16, 8], tl.float32), tl.zeros([8, 32], tl.float32), tl.zeros([16, 16], tl.float32)
    c = tl.dot(a, b, acc)  # here


@wrong("tl.dot expected acc of type int32, got fp32")
def dot_acc_type(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16, 16], tl.int8)
    c = tl.dot(a, a, tl.zeros([16, 16], tl.float32))  # here


@wrong("tl.dot expected equal leading axes, got [2, 16, 16] and [4, 16, 16]")
def dot_batches(x_ptr, n, B: tl.constexpr):
    c = tl.dot(tl.zeros([2, 16, 16], tl.float32), tl.zeros([4, 16, 16], tl.float32))  # here


@wrong("tl.dot expected a tile of numbers, got pointer<fp32>")
def dot_of_pointers(x_ptr, n, B: tl.constexpr):
    c = tl.dot(x_ptr, x_ptr)  # here


@wrong("tl.dot expected floats or int8, got int1; cast to tl.float32 first")
def dot_of_conditions(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16, 16], tl.float32) > 0
    c = tl.dot(a, a)  # here


@wrong("tl.dot expected input_precision to be one of ieee, tf32, tf32x3, bf16x3, bf16x6, got 'tf64'")
def dot_precision(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16, 16], tl.float32)
    c = tl.dot(a, a, input_precision="tf64")  # here


@wrong("tl.dot expected input_precision or allow_tf32, got both")
def dot_precision_twice(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16, 16], tl.float32)
    c = tl.dot(a, a, input_precision="ieee", allow_tf32=False)  # here


@wrong("tl.make_block_ptr expected order to be a permutation of (0, 1), got (1, 1)")
def block_order(x_ptr, n, B: tl.constexpr):
    tl.make_block_ptr(x_ptr, (n, n), (n, 1), (0, 0), (16, 16), (1, 1))  # here


@wrong("tl.load expected boundary_check to hold axes below 2, got 2")
def block_axis(x_ptr, n, B: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (n, n), (n, 1), (0, 0), (16, 16), (1, 0))
    tl.load(x, boundary_check=(0, 2))  # here


@wrong("tl.load: padding with NaN expected floats, got int32")
def block_padding(x_ptr, n, B: tl.constexpr):
    x = tl.make_block_ptr(x_ptr.to(tl.pointer_type(tl.int32)), (n, n), (n, 1), (0, 0), (16, 16), (1, 0))
    tl.load(x, boundary_check=(0,), padding_option="nan")  # here


@wrong("tl.advance expected a block pointer, got")
def advance_of_pointers(x_ptr, n, B: tl.constexpr):
    tl.advance(x_ptr, (0, 1))  # here


@wrong("tl.advance: offsets expected a list of 2 integers")
def advance_count(x_ptr, n, B: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (n, n), (n, 1), (0, 0), (16, 16), (1, 0))
    tl.advance(x, (1,))  # here


@wrong("tl.exp expected floats, got <[16], int32>")
def exp_of_integers(x_ptr, n, B: tl.constexpr):
    a = tl.exp(tl.arange(0, 16))  # here


@wrong("`&` expected integers or conditions, got fp32; cast them, `.to(tl.int32)`: invalid operands of type fp32")
def and_of_floats(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16], tl.float32)
    b = a & a  # here


@wrong("`//` expected integers, got fp32; use `tl.floor(x / y)`")
def floor_division(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16], tl.float32)
    b = a // 2  # here


@wrong("Cannot use `//` on int32 and uint32 because they have different signedness")
def mixed_signs(x_ptr, n, B: tl.constexpr):
    a = tl.arange(0, 16)
    b = a // a.to(tl.uint32)  # here


@wrong("is out of range for int8")
def too_great(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16], tl.int8)
    b = a + 300  # here


@wrong("unsupported tensor index [3]: a tile is indexed with None and `:` only")
def element(x_ptr, n, B: tl.constexpr):
    a = tl.arange(0, 16)
    b = a[3]  # here


@wrong("tl.reshape expected a shape of 16 elements")
def reshape_size(x_ptr, n, B: tl.constexpr):
    a = tl.reshape(tl.arange(0, 16), [4, 8])  # here


@wrong("expected a shape to which [16] can be repeated, got [32]")
def broadcast_size(x_ptr, n, B: tl.constexpr):
    a = tl.broadcast_to(tl.arange(0, 16), [32])  # here


@wrong("tl.permute expected a permutation of the axes 0 to 1")
def permutation(x_ptr, n, B: tl.constexpr):
    a = tl.permute(tl.zeros([4, 4], tl.float32), [0, 0])  # here


@wrong("tl.split expected a tile whose last axis has size 2")
def split_size(x_ptr, n, B: tl.constexpr):
    a = tl.split(tl.arange(0, 16))  # here


@wrong("a bitcast expected types of one width, got int32 (32 bits) and fp16 (16 bits)")
def bitcast_width(x_ptr, n, B: tl.constexpr):
    a = tl.arange(0, 16).to(tl.float16, bitcast=True)  # here


@wrong("tl.cast: dtype expected an element type like tl.float32, got 'float32'")
def no_dtype(x_ptr, n, B: tl.constexpr):
    a = tl.arange(0, 16).to("float32")  # here


@wrong("static assertion failed: B is even")
def static_assertion(x_ptr, n, B: tl.constexpr):
    tl.static_assert(B % 2 == 1, "B is even")  # here


@wrong("expected a combine function that keeps the type int32, got fp32")
def combine_type(x_ptr, n, B: tl.constexpr):
    a = tl.reduce(tl.arange(0, 16), 0, lambda a, b: a + b * 0.5)  # here


@wrong("expected a tile, a scalar or a number as operand, got")
def torch_tensor(x_ptr, n, B: tl.constexpr):
    a = tl.arange(0, 16) + [1, 2]  # here


@wrong("tl.inline_asm_elementwise holds assembly of a GPU")
def assembly(x_ptr, n, B: tl.constexpr):
    tl.inline_asm_elementwise("mov", "=r", [], tl.int32, True, 1)  # here


@wrong("range expected integers as bounds, got 1.5")
def float_bounds(x_ptr, n, B: tl.constexpr):
    for _ in range(1.5):  # here
        pass


@wrong("range expected a step other than 0")
def zero_step(x_ptr, n, B: tl.constexpr):
    for _ in range(0, n, 0):  # here
        pass


@wrong("expected a scalar condition, got <[16], int1>")
def tile_condition(x_ptr, n, B: tl.constexpr):
    if tl.arange(0, 16) < n:  # here
        pass


@wrong("tl.clamp expected floats, got <[16], int32>")
def clamp_integers(x_ptr, n, B: tl.constexpr):
    a = tl.clamp(tl.arange(0, 16), 0, 5)  # here


@wrong("tl.atomic_and expected integers, got fp32")
def atomic_floats(x_ptr, n, B: tl.constexpr):
    tl.atomic_and(x_ptr, 1)  # here


@wrong("expected sem to be one of acquire, release, acq_rel, relaxed, got 'strong'")
def atomic_order(x_ptr, n, B: tl.constexpr):
    tl.atomic_add(x_ptr, 1, sem="strong")  # here


@wrong("expected the last stride to be 1, got 2")
def descriptor_stride(x_ptr, n, B: tl.constexpr):
    tl.make_tensor_descriptor(x_ptr, [n, n], [n, 2], [16, 16])  # here


@wrong("tl.where expected two pointers of one type")
def mixed_pointers(x_ptr, n, B: tl.constexpr):
    a = tl.where(n > 0, x_ptr, x_ptr.to(tl.pointer_type(tl.int32)))  # here


@wrong("tl.histogram expected a tile of 32-bit integers of one axis, got <[16], fp32>")
def histogram_floats(x_ptr, n, B: tl.constexpr):
    tl.histogram(tl.zeros([16], tl.float32), 16)  # here


@wrong("tl.sort expected the last axis, 1, got 0")
def sort_axis(x_ptr, n, B: tl.constexpr):
    tl.sort(tl.zeros([4, 4], tl.float32), dim=0)  # here


@wrong("generators are not supported in kernels")
def generator(x_ptr, n, B: tl.constexpr):
    yield n  # here


@wrong("a negative number, -1, and values of unsigned type uint32 do not combine")
def negative_and_unsigned(x_ptr, n, B: tl.constexpr):
    a = tl.arange(0, 16).to(tl.uint32) + (-1)  # here


@wrong("arithmetic on fp8e5 is not supported")
def float8_arithmetic(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16], tl.float8e5)
    b = a * a  # here


@wrong("arithmetic on fp8e5 is not supported")
def float8_fma(x_ptr, n, B: tl.constexpr):
    a = tl.zeros([16], tl.float8e5)
    b = tl.fma(a, a, a)  # here


@wrong("expected an integer as `other` beside elements of int32, got -inf")
def infinite_other(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, 16)
    p = tl.cast(x_ptr, tl.pointer_type(tl.int32))
    a = tl.load(p + i, mask=i < n, other=-float("inf"))  # here


@wrong("`**` of run-time values is not supported; write x * x")
def power(x_ptr, n, B: tl.constexpr):
    a = tl.arange(0, 16) ** 2  # here


@wrong("has no attribute 'mean'")
def attribute(x_ptr, n, B: tl.constexpr):
    tl.arange(0, 16).mean()  # here


def line_of(function: Any) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(k for k, line in enumerate(lines) if "# here" in line)


@pytest.mark.parametrize("function, message", [pytest.param(f, m, id=f.__name__) for f, m in WRONG])
def test_message_and_line(launch: Callable[[Any], Any], function: Any, message: str) -> None:
    kernel = launch(torch_tile.jit(function))
    with pytest.raises((torch_tile.InvalidKernelError, AttributeError)) as caught:
        kernel[(1,)](torch.zeros(64), 5, B=16)
    assert message in str(caught.value)
    line = line_of(function)
    assert line in [f.lineno for f in traceback.extract_tb(caught.value.__traceback__) if f.filename == __file__] or (
        line == caught.value.line
    )
    if isinstance(caught.value, torch_tile.InvalidKernelError):
        assert caught.value.line == line
        assert function.__name__ in str(caught.value)


@torch_tile.jit
def fine(x_ptr, n, B: tl.constexpr):
    tl.store(x_ptr, n)


def test_the_last_frame_is_the_users() -> None:
    with pytest.raises(torch_tile.InvalidKernelError) as caught:
        torch_tile.jit(shapes).interpret[(1,)](torch.zeros(4), 5, B=16)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == __file__
    assert traceback.extract_tb(caught.value.__traceback__)[-1].line == "c = a + b  # here"


def test_launches() -> None:
    x = torch.zeros(4)
    with pytest.raises(TypeError, match="missing a required argument: 'n'"):
        fine.interpret[(1,)](x, B=16)
    with pytest.raises(TypeError, match=r"fine\(x_ptr, n, B\)"):
        fine.interpret[(1,)](x, 1, 2, 3)
    with pytest.raises(TypeError, match="expected a grid of integers"):
        fine.interpret[(1.5,)](x, 1, 2)
    with pytest.raises(ValueError, match="one to three sizes"):
        fine.interpret[(1, 1, 1, 1)](x, 1, 2)
    with pytest.raises(RuntimeError, match="expected a grid: launch it as"):
        fine(x, 1, 2)
    with pytest.raises(torch_tile.InvalidKernelError, match="inside a kernel"):
        tl.arange(0, 16)
    with pytest.raises(TypeError, match="expected a function"):
        torch_tile.jit(3)
    with pytest.raises(torch_tile.InvalidKernelError, match="complex64 are not supported"):
        fine.interpret[(1,)](torch.zeros(4, dtype=torch.complex64), 1, 2)


@torch_tile.jit
def calls_itself(x):
    return calls_itself(x) + 1


@torch_tile.jit
def calls_other(x):
    return other(x) + 1


@torch_tile.jit
def other(x):
    return calls_other(x) * 2


@pytest.mark.parametrize("function", [calls_itself, calls_other])
def test_recursion(function: Any) -> None:
    @torch_tile.jit
    def kernel(x_ptr):
        tl.store(x_ptr, function(tl.load(x_ptr)))

    with pytest.raises(torch_tile.errors.InvalidKernelError, match="recursion is not supported"):
        kernel[(1,)](torch.ones(1))


def test_lambdas_on_one_line() -> None:
    add, double = (torch_tile.jit(f) for f in (lambda p: tl.store(p, tl.load(p) + 1), lambda p: tl.store(p, tl.load(p) * 2)))  # fmt: skip # noqa: E501
    x = torch.full((1,), 5.0)
    add[(1,)](x)
    double[(1,)](x)
    assert x.item() == 12


@torch_tile.jit
def adds_to_a_pointer(x_ptr, o_ptr):
    tl.store(o_ptr, x_ptr + 1)


@torch_tile.jit
def calls_torch(x_ptr, o_ptr):
    tl.store(o_ptr, torch.exp(tl.load(x_ptr)))


@torch_tile.jit
def returns_a_value(x_ptr, o_ptr):
    return tl.load(x_ptr)


@torch_tile.jit
def misspells(x_ptr, o_ptr):
    tl.store(o_ptr + tl.arrange(0, 2), 1.0)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (adds_to_a_pointer, "cannot convert pointer<fp32> to fp32; .*; load through the pointer first, with tl.load"),
        (calls_torch, r"torch\.exp takes no values of a kernel; tl\.exp does"),
        (returns_a_value, "a kernel returns nothing, got fp32; store results with tl.store"),
        (misspells, r"has no attribute 'arrange' \(the nearest: arange\)"),
    ],
)
def test_what_beginners_write(kernel: Any, text: str) -> None:
    with pytest.raises((torch_tile.InvalidKernelError, AttributeError), match=text):
        kernel[(1,)](torch.ones(4), torch.ones(4))


def test_names_that_are_not_there() -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'n'; it has no argument 'm'"):
        fine[(1,)](torch.ones(4), m=4, B=16)


@torch_tile.jit
def raise_in_branch(x_ptr, n):
    if n > 100:
        raise ValueError("too large")
    tl.store(x_ptr, n)


def test_raise_in_branch() -> None:
    """Compiled, it would happen whatever the value is; the interpreter raises as Python does."""
    x = torch.zeros(1)
    with pytest.raises(torch_tile.InvalidKernelError, match=r"use tl\.device_assert"):
        raise_in_branch[(1,)](x, 3)
    raise_in_branch.interpret[(1,)](x, 3)
    assert x.item() == 3
    with pytest.raises(ValueError, match="too large"):
        raise_in_branch.interpret[(1,)](x, 101)
