"""The executor: steps, arguments of outside calls, sizes, results, errors."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from types import ModuleType

import numpy as np
import pytest
import torch

from .artifact_builder import Builder, Slot, Torch


def call(
    runtime: ModuleType, b: Builder, *inputs: object, pycalls: list[object] | None = None, **options: bool
) -> list:
    return runtime.load_artifact(b.build(), pycalls or [], **options)(list(inputs))


def test_matrix_product(runtime: ModuleType) -> None:
    b = Builder()
    x, y = b.input([3, 4]), b.input([4, 5])
    (z,) = b.extern("aten::mm", [x, y], [[3, 5]], lines=[3])
    b.free(x)
    b.output(z)
    b.output(None)
    program = runtime.load_artifact(b.build(), [])
    a, c = torch.randn(3, 4), torch.randn(4, 5)
    arguments = [a, c]
    result = program(arguments)
    assert arguments == []
    assert result[1] is None
    torch.testing.assert_close(result[0], a @ c, rtol=0, atol=0)
    assert (program.num_kernels, program.num_externs, program.loaded_from) == (0, 1, "compiled")
    assert program.externs == [{"name": "aten::mm", "lines": [3]}]
    assert program.step_lines == [[3], []]
    assert "extern aten::mm(%0, %1)" in program.steps
    assert program.compile_ms > 0


def test_argument_kinds(runtime: ModuleType) -> None:
    x = torch.randn(4, 6)
    b = Builder()
    s = b.input([4, 6])
    (cast,) = b.extern("aten::_to_copy", [s, Torch("DType", "float64"), None, None, None, False, None], [[4, 6]])
    (empty,) = b.extern(
        "aten::full",
        [[2, 3], 1.5, Torch("DType", "float32"), Torch("Layout", "strided"), Torch("Device", "cpu"), False],
        [[2, 3]],
    )
    (clone,) = b.extern("aten::clone", [s, Torch("MemoryFormat", "contiguous_format")], [[4, 6]])
    (total,) = b.extern("aten::sum.dim_IntList", [s, 1, True, None], [[4, 1]])  # int where a list is declared
    (joined,) = b.extern("aten::cat", [[s, clone], 0], [[8, 6]])
    (added,) = b.extern("aten::add.Tensor", [s, clone, 2], [[4, 6]])
    (gelu,) = b.extern("aten::gelu", [s, "tanh"], [[4, 6]])
    for slot in (cast, empty, clone, total, joined, added, gelu):
        b.output(slot)
    expected = [
        x.double(),
        torch.full((2, 3), 1.5),
        x.clone(),
        x.sum(1, True),
        torch.cat([x, x]),
        x + 2 * x,
        torch.nn.functional.gelu(x, approximate="tanh"),
    ]
    for got, want in zip(call(runtime, b, x), expected, strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_optional_tensor_list(runtime: ModuleType) -> None:
    b = Builder()
    x, i = b.input([4, 6]), b.input([3], dtype="i64")
    (y,) = b.extern("aten::index.Tensor", [x, [None, i]], [[4, 3]])
    b.output(y)
    a, index = torch.randn(4, 6), torch.tensor([5, 0, 2])
    torch.testing.assert_close(call(runtime, b, a, index)[0], a[:, index])


def test_results(runtime: ModuleType) -> None:
    """Several results, unused ones, lists of tensors."""
    b = Builder()
    x = b.input([5, 4])
    (order,) = b.extern("aten::sort", [x, -1, False], [None, [5, 4]])
    first, second, rest = b.extern("aten::split.Tensor", [x, 2, 0], [[2, 4], [2, 4], [1, 4]])
    for slot in (order, first, second, rest):
        b.output(slot)
    a = torch.randn(5, 4)
    got = call(runtime, b, a)
    for result, want in zip(got, [a.sort()[1], *a.split(2)], strict=True):
        torch.testing.assert_close(result, want)
    assert got[1].data_ptr() == a.data_ptr()


def test_none_result_is_none(runtime: ModuleType) -> None:
    b = Builder()
    g, x, w = b.input([1, 2, 4, 4]), b.input([1, 1, 6, 6]), b.input([2, 1, 3, 3])
    gx, gw, gb = b.extern(
        "aten::convolution_backward",
        [g, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]],
        [[1, 1, 6, 6], [2, 1, 3, 3], [2]],
    )
    for slot in (gx, gw, gb):
        b.output(slot)
    got = call(runtime, b, torch.randn(1, 2, 4, 4), torch.randn(1, 1, 6, 6), torch.randn(2, 1, 3, 3))
    assert got[0] is None
    assert got[1].shape == (2, 1, 3, 3)
    assert got[2] is None


def test_result_of_other_strides_is_copied(runtime: ModuleType) -> None:
    b = Builder()
    x = b.input([3, 4])
    (t,) = b.extern("aten::t", [x], [([4, 3], [3, 1])])
    b.output(t)
    a = torch.randn(3, 4)
    (got,) = call(runtime, b, a)
    assert got.stride() == (3, 1)
    torch.testing.assert_close(got, a.t())


def test_result_of_other_sizes_is_an_error(runtime: ModuleType) -> None:
    b = Builder()
    x = b.input([3, 4])
    b.extern("aten::t", [x], [[3, 4]])
    with pytest.raises(RuntimeError, match=r"result 0 of 'aten::t' expected sizes \[3, 4\], got \[4, 3\]"):
        call(runtime, b, torch.randn(3, 4))


@pytest.mark.parametrize(("says", "got"), [("f32", None), ("f64", "float64"), ("i1", "bool")])
def test_result_of_another_type_is_an_error(runtime: ModuleType, says: str, got: str | None) -> None:
    b = Builder()
    (y,) = b.extern("aten::sin", [b.input([3, 4])], [([3, 4], None, says)])
    b.output(y)
    a = torch.randn(3, 4)
    if got is None:
        assert torch.equal(call(runtime, b, a)[0], a.sin())
        return
    message = rf"result 0 of 'aten::sin' expected torch.{got}, as its fake implementation says, got torch.float32$"
    with pytest.raises(RuntimeError, match=message):
        call(runtime, b, a)


def test_number_of_results_is_checked(runtime: ModuleType) -> None:
    b = Builder()
    b.extern("aten::split.Tensor", [b.input([5, 4]), 2, 0], [[2, 4]])
    with pytest.raises(RuntimeError, match="expected to give 1 results, got 3"):
        call(runtime, b, torch.randn(5, 4))


def test_alias_shares_memory_and_version(runtime: ModuleType) -> None:
    b = Builder()
    x = b.input([4, 6])
    b.output(b.alias(x, [2, 3], [12, 2], offset=1))
    a = torch.randn(5, 6)[1:]
    (view,) = call(runtime, b, a)
    torch.testing.assert_close(view, a.as_strided((2, 3), (12, 2), a.storage_offset() + 1))
    before = view._version
    a.add_(1)
    assert view._version == before + 1
    torch.testing.assert_close(view, a.as_strided((2, 3), (12, 2), a.storage_offset() + 1))


def test_same_input_twice_and_returned(runtime: ModuleType) -> None:
    b = Builder()
    x, y = b.input([3]), b.input([3])
    (z,) = b.extern("aten::add.Tensor", [x, y, 1], [[3]])
    for slot in (z, x, z):
        b.output(slot)
    a = torch.randn(3)
    got = call(runtime, b, a, a)
    assert got[1] is a
    assert got[0] is got[2]
    torch.testing.assert_close(got[0], a + a)


def test_sizes_from_inputs(runtime: ModuleType) -> None:
    b = Builder()
    b.symbol("s0", "Scalar", 0)
    b.symbol("s1", "Size", 1, 1)
    b.symbol("s2", "Stride", 1, 0)
    b.int_input()
    x = b.input(["s0", "s1"], ["s2", 1])
    (y,) = b.extern("aten::view", [x, [("Mul", "s0", "s1")]], [[("Mul", "s0", "s1")]])
    b.output(y)
    for e in (
        ("FloorDiv", ("Add", "s0", -10), 4),
        ("CeilDiv", "s0", 4),
        ("PythonMod", ("Mul", "s0", -1), 4),
        ("TruncDiv", ("Add", "s0", -10), 4),
        ("Min", "s0", "s1"),
        ("Max", "s0", "s1"),
        7,
    ):
        b.output(e)
    program = runtime.load_artifact(b.build(), [])
    for n, m in ((3, 5), (8, 2), (1, 1)):
        a = torch.randn(n, m)
        got = program([n, a])
        assert torch.equal(got[0], a.view(-1))
        assert got[1:] == [(n - 10) // 4, -(-n // 4), -n % 4, int((n - 10) / 4), min(n, m), max(n, m), 7]
    with pytest.raises(
        RuntimeError, match=r"input 1 expected float32 \[3, 5\] with strides \[5, 1\], got float32 \[4, 5\]"
    ):
        program([3, torch.randn(4, 5)])


def test_sizes_that_kernels_are_not_made_for(runtime: ModuleType) -> None:
    """A kernel of rows that fill a vector would write before a shorter one."""
    b = Builder()
    b.symbol("s0", "Size", 0, 0, least=2, greatest=9)
    b.symbol("s1", "Scalar", 1, least=-3)
    x = b.input(["s0"], [1])
    b.int_input()
    b.output(x)
    b.output(("Add", "s0", "s1"))
    program = runtime.load_artifact(b.build(), [])
    for size, number in ((2, -3), (9, 100)):
        assert program([torch.randn(size), number])[1] == size + number
    for size in (1, 10):
        with pytest.raises(RuntimeError, match=rf"input 0: size of dimension 0 expected 2 to 9, .*, got {size}"):
            program([torch.randn(size), 0])
    with pytest.raises(RuntimeError, match="input 1 expected at least -3, as the graph was compiled for, got -4"):
        program([torch.randn(4), -4])


def test_artifacts_without_ranges(runtime: ModuleType) -> None:
    """Format 9: sizes were taken to be at least 2, but for those that depend on data."""
    b = Builder(version=9)
    b.symbol("s0", "Size", 0, 0)
    b.symbol("u0", "Size", 1, 0)
    x, y = b.input(["s0"], [1]), b.input(["u0"], [1])
    b.output(x)
    b.output(y)
    program = runtime.load_artifact(b.build(), [])
    assert [len(result) for result in program([torch.randn(2), torch.randn(1)])] == [2, 1]
    with pytest.raises(RuntimeError, match=r"size of dimension 0 expected at least 2, .*, got 1"):
        program([torch.randn(1), torch.randn(1)])


def test_sizes_from_results(runtime: ModuleType) -> None:
    """An integer result and the size of a result define symbols; later sizes use them."""
    b = Builder()
    x, k = b.input([6]), b.input([], dtype="i64")
    b.symbol("u0", "ExternResult", 2)
    b.symbol("u1", "ExternResult", 3, 0)
    b.extern("aten::_local_scalar_dense", [k], [[]])
    (positions,) = b.extern("aten::nonzero", [x], [(["u1", 1], [1, "u1"])])
    assert positions == Slot(3)
    buffer = b.alloc(["u0", "u1"])
    (filled,) = b.extern("aten::fill_.Scalar", [buffer, 2.0], [["u0", "u1"]])
    b.output(filled)
    b.output(("Add", "u0", "u1"))
    got = call(runtime, b, torch.tensor([0.0, 1, 2, 0, 3, 0]), torch.tensor(4))
    assert torch.equal(got[0], torch.full((4, 3), 2.0))
    assert got[1] == 7


def test_symbol_that_nothing_reads(runtime: ModuleType) -> None:
    b = Builder()
    k = b.input([], dtype="i64")
    b.symbol("u0", "ExternResult", 1)
    b.extern("aten::_local_scalar_dense", [k], [[]])
    b.output(7)
    assert call(runtime, b, torch.tensor(4)) == [7]


def test_division_by_zero_size(runtime: ModuleType) -> None:
    b = Builder()
    b.symbol("s0", "Scalar", 0)
    b.int_input()
    b.output(("FloorDiv", 4, "s0"))
    program = runtime.load_artifact(b.build(), [])
    assert program([2]) == [2]
    with pytest.raises(RuntimeError, match="divides by zero"):
        program([0])


def test_check(runtime: ModuleType) -> None:
    b = Builder()
    b.symbol("s0", "Scalar", 0)
    b.int_input()
    b.check("s0", "s0 must not be zero")
    assert call(runtime, b, 1) == []
    with pytest.raises(RuntimeError, match="s0 must not be zero"):
        call(runtime, b, 0)


def test_python_callable(runtime: ModuleType) -> None:
    seen = []

    def function(x: torch.Tensor, n: int, options: list[object], dtype: torch.dtype) -> object:
        seen.append((n, options, dtype))
        return [x * n, (None, 5)]

    b = Builder()
    x = b.input([3])
    b.symbol("u0", "ExternResult", 3)
    y, nothing, _number = b.pycall(0, [x, 2, [1.5, None, True], Torch("DType", "float16")], [[3], [1], []])
    (z,) = b.extern("aten::relu", [y], [[3]])
    for out in (z, nothing, "u0"):
        b.output(out)
    a = torch.randn(3)
    got = call(runtime, b, a, pycalls=[function])
    assert seen == [(2, [1.5, None, True], torch.float16)]
    torch.testing.assert_close(got[0], (a * 2).relu())
    assert got[1:] == [None, 5]

    with pytest.raises(ValueError, match="needs Python callable 0, got 0"):
        runtime.load_artifact(b.build(), [])

    def failing(*_: object) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        call(runtime, b, a, pycalls=[failing])
    with pytest.raises(TypeError, match="expected to return tensors, ints and None"):
        call(runtime, b, a, pycalls=[lambda *_: "text"])


def test_callable_may_call_the_program_again(runtime: ModuleType) -> None:
    depth = []

    def function(x: torch.Tensor) -> torch.Tensor:
        depth.append(1)
        return x if len(depth) == 4 else program([x + 1])[0]

    b = Builder()
    (y,) = b.pycall(0, [b.input([2])], [[2]])
    b.output(y)
    program = runtime.load_artifact(b.build(), [function])
    assert torch.equal(program([torch.zeros(2)])[0], torch.full((2,), 3.0))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            lambda: torch.randn(8, 255),
            r"input 0 expected float32 \[8, 256\] with strides \[256, 1\], got float32 \[8, 255\]",
        ),
        (lambda: torch.randn(256, 8).t(), r"strides \[256, 1\], got float32 \[8, 256\] with strides \[1, 8\]"),
        (lambda: torch.randn(8, 256).double(), r"got float64 \[8, 256\]"),
        (lambda: torch.randn(8, 256, 1), r"got float32 \[8, 256, 1\]"),
        (lambda: 3, "input 0 expected a tensor, got int"),
        (lambda: None, "input 0 expected a tensor, got NoneType"),
        (lambda: torch.empty(8, 256, device="meta"), "input 0 is on the meta device"),
        (lambda: torch.randn(8, 256).to_sparse(), r"input 0 is a sparse tensor; .*call \.to_dense"),
    ],
)
def test_wrong_input(runtime: ModuleType, value: object, message: str) -> None:
    b = Builder()
    b.output(b.input([8, 256]))
    with pytest.raises(RuntimeError, match=message):
        call(runtime, b, value())  # type: ignore[operator]


def test_wrong_call(runtime: ModuleType) -> None:
    b = Builder()
    b.int_input()
    b.output(1)
    program = runtime.load_artifact(b.build(), [])
    with pytest.raises(RuntimeError, match="expected 1 inputs, got 2"):
        program([1, 2])
    with pytest.raises(RuntimeError, match="input 0 expected an integer, got str"):
        program(["1"])
    with pytest.raises(OverflowError):
        program([1 << 70])
    assert program(7) == program([7])
    for arguments in ((), (1, 2)):
        with pytest.raises(RuntimeError, match=f"expected 1 inputs, got {len(arguments)}"):
            program(*arguments)
    with pytest.raises(TypeError, match="no keyword arguments"):
        program(inputs=[1])
    with pytest.raises(TypeError):
        runtime.Program()


def test_strides_that_mean_nothing_are_not_checked(runtime: ModuleType) -> None:
    b = Builder()
    b.output(b.input([1, 4]))
    b.output(b.input([0, 4]))
    a, e = torch.randn(1, 4).as_strided((1, 4), (77, 1)), torch.empty(0, 4).as_strided((0, 4), (1, 1))
    got = call(runtime, b, a, e)
    assert got[0] is a
    assert got[1] is e


def test_unknown_operator(runtime: ModuleType) -> None:
    b = Builder()
    b.extern("nobody::knows", [], [])
    with pytest.raises(RuntimeError, match="'nobody::knows' is not registered"):
        call(runtime, b)
    b = Builder()
    b.extern("aten::mm", [], [])
    with pytest.raises(RuntimeError, match="'aten::mm' expected 2 arguments, got 0"):
        call(runtime, b)


def test_inputs_die_at_their_last_use(runtime: ModuleType) -> None:
    alive = []
    b = Builder()
    x = b.input([3])
    (y,) = b.extern("aten::relu", [x], [[3]])
    b.free(x)
    b.pycall(0, [], [])
    b.output(y)
    program = runtime.load_artifact(b.build(), [lambda: alive.append(watch() is not None)])
    array = np.ones(3, dtype=np.float32)
    arguments = [torch.from_numpy(array)]
    watch = weakref.ref(array)
    del array
    program(arguments)
    assert alive == [False]


def test_poison(runtime: ModuleType) -> None:
    """A buffer that only the program holds is overwritten when freed."""
    seen: list[object] = []

    def remember(x: torch.Tensor) -> None:
        x.zero_()
        seen.append(x.data_ptr())

    def look() -> None:
        # The middle of the block, for the allocator keeps notes at its ends.
        seen.append(ctypes.string_at(seen[0] + 4096, 1024))

    b = Builder()
    x = b.alloc([4096])
    # A tensor that Python has seen may keep its Python object, so Python sees another one of the same memory.
    view = b.alias(x, [4096], [1])
    b.pycall(0, [view], [])
    b.free(view)
    b.free(x)
    b.pycall(1, [], [])
    call(runtime, b, pycalls=[remember, look], poison=True)
    assert seen[1] == b"\xff" * 1024


def test_poison_spares_what_others_hold(runtime: ModuleType) -> None:
    b = Builder()
    x = b.input([3])
    y = b.alloc([3])
    (filled,) = b.extern("aten::copy_", [y, x, False], [[3]])
    kept = b.alias(y, [3], [1])
    for slot in (x, y, filled):
        b.free(slot)
    b.output(kept)
    array = np.ones(3, dtype=np.float32)
    arguments = [torch.from_numpy(array)]
    (got,) = runtime.load_artifact(b.build(), [], poison=True)(arguments)
    assert torch.equal(got, torch.ones(3))
    assert (array == 1).all()


def test_grad_is_not_recorded(runtime: ModuleType) -> None:
    b = Builder()
    x = b.input([3, 3])
    (y,) = b.extern("aten::mm", [x, x], [[3, 3]])
    b.output(y)
    a = torch.randn(3, 3, requires_grad=True)
    (got,) = call(runtime, b, a)
    assert got.grad_fn is None
    with torch.autocast("cpu", torch.bfloat16):
        assert call(runtime, b, a)[0].dtype == torch.float32


def test_inference_mode(runtime: ModuleType) -> None:
    b = Builder()
    x = b.input([3, 3])
    (y,) = b.extern("aten::mm", [x, x], [[3, 3]])
    b.output(y)
    b.output(b.alias(x, [9], [1]))
    with torch.inference_mode():
        a = torch.randn(3, 3)
        got = call(runtime, b, a)
        assert torch.equal(got[0], a @ a)
        assert torch.equal(got[1], a.view(-1))


def test_many_threads(runtime: ModuleType) -> None:
    b = Builder()
    b.symbol("s0", "Size", 0, 0)
    x = b.input(["s0", 16])
    (y,) = b.extern("aten::relu", [x], [["s0", 16]])
    (z,) = b.extern("aten::sum.dim_IntList", [y, [1], False, None], [["s0"]])
    b.free(y)
    b.output(z)
    program = runtime.load_artifact(b.build(), [])
    failures = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for i in range(200):
            a = torch.randn(1 + (seed + i) % 7, 16, generator=generator)
            if not torch.equal(program([a])[0], a.relu().sum(1)):
                failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_object(runtime: ModuleType) -> None:
    """Attributes may be set, weak references taken, cycles collected."""
    b = Builder()
    b.pycall(0, [], [])
    program = runtime.load_artifact(b.build(), [print])
    assert program._boxed_call is True
    program.note = [program]
    watch = weakref.ref(program)
    del program
    gc.collect()
    assert watch() is None


def test_damaged_bytes(runtime: ModuleType) -> None:
    errors = pytest.importorskip("torch_tile.errors")
    b = Builder()
    b.output(b.input([3]))
    data = b.build()
    with pytest.raises(errors.TileError, match="unexpected end"):
        runtime.load_artifact(data[:-1], [])
