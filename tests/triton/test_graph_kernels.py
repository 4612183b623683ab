"""Triton kernels as kernels of a compiled graph's own program: what is copied, what is kept, what is refused."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import triton

import torch_tile
from tests import processes
from tests.compiling import run_python
from torch_tile.errors import UnsupportedError

from . import kernels

counters = torch_tile.counters


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_TILE_CACHE_DIR", str(tmp_path / "tile"))
    torch._dynamo.reset()
    counters.clear()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    result: Callable[..., Any] = torch.compile(
        function, backend="tile", fullgraph=True, options={"strict": True}, **options
    )
    return result


def check(function: Callable[..., Any], *inputs: Any, launches: int | None = None, **options: Any) -> None:
    """Results and inputs are those of eager mode, and nothing is called outside."""
    theirs = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    ours = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    expected = function(*theirs)
    torch.testing.assert_close(compiled(function, **options)(*ours), expected)
    torch.testing.assert_close(ours, theirs)
    assert counters["pycalls"] == 0
    assert counters["externs"] == 0
    if launches is not None:
        assert counters["launches"] == launches


def add(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    n = x.numel()
    kernels.add[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128)


def eighths(seed: int) -> torch.Tensor:
    """(1000,) float32 of multiples of 1/8 in [-4, 4): sums of them are exact in any order."""
    return torch.randint(-32, 32, (1000,), generator=torch.Generator().manual_seed(seed)) / 8


X, Y = eighths(0), eighths(1)


def test_fresh_output_is_not_copied() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        add(x, y, out)
        return out

    check(function, X, Y, launches=1)


def test_input_in_place_is_not_copied() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> None:
        add(x, y, x)

    check(function, X, Y, launches=1)


def test_two_launches_into_one_input() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> None:
        add(x, y, x)
        add(y, x, x)

    check(function, X, Y, launches=2)


def test_input_read_after_the_launch_sees_the_result() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        before = x * 2
        add(x, y, x)
        return before + x.sum()

    check(function, X, Y)


def test_old_value_needed_after_the_launch() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        old = x.sin()
        new = old.clone()
        add(old, y, new)
        return old, new

    check(function, X, Y)


def test_intermediate_that_nobody_needs_is_written_in_place() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = x.sin()
        add(y, y, total)
        return total

    check(function, X, Y, launches=2)


def test_equal_buffers_are_not_one() -> None:
    """Two buffers of zeros are equal, and different memory."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = torch.zeros_like(x), torch.zeros_like(x)
        n = x.numel()
        kernels.add_and_subtract[(triton.cdiv(n, 64),)](x, y, a, b, n, BLOCK=64)
        return a, b

    check(function, X, Y)


def test_argument_written_and_shown_by_another() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        kernels.shift_left[(1,)](x, x.numel(), BLOCK=1024)
        return x + 1

    check(function, X)


def test_accumulates_into_zeros() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros((), dtype=x.dtype)
        n = x.numel()
        kernels.accumulate[(triton.cdiv(n, 128),)](x * 2, total, n, BLOCK=128)
        return total + 1

    check(function, X)


def test_part_of_a_tensor() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(3, x.numel())
        add(x, y, out[1])
        return out

    check(function, X, Y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32])
@pytest.mark.parametrize("negate", [False, True])
def test_scalars_strides_and_dtypes(dtype: torch.dtype, negate: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = x.T  # columns are rows now
        out = torch.empty(x.shape, dtype=x.dtype)
        kernels.scale_rows[(x.shape[0],)](
            x, x.stride(0), x.stride(1), out, x.shape[1], 2.5, NEGATE=negate, flag=not negate, BLOCK=64
        )
        return out

    check(function, (torch.randn(40, 30) * 10).to(dtype), launches=1)


@pytest.mark.parametrize("make", ["expand", "slice", "expanded zeros"])
def test_views_as_arguments(make: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        view = {
            "expand": lambda: x[0].expand(30, 40),
            "slice": lambda: x[3:, ::2],
            "expanded zeros": lambda: torch.ones(1, 1).expand(7, 9),
        }[make]()
        out = torch.empty(view.shape)
        kernels.scale_rows[(view.shape[0],)](
            view, view.stride(0), view.stride(1), out, view.shape[1], 2.0, NEGATE=False, flag=False, BLOCK=64
        )
        return out

    check(function, torch.randn(30, 40))


def test_sizes_are_dynamic() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        add(x, y, out)
        return out * x.shape[0]

    call = compiled(function, dynamic=True)
    for n in (100, 5000, 1, 2, 77):
        x, y = torch.randn(n), torch.randn(n)
        torch.testing.assert_close(call(x, y), (x + y) * n)
    assert counters["pycalls"] == 0


def test_empty_tensors() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        add(x, y, out)
        return out

    call = compiled(function, dynamic=True)
    for n in (100, 0):
        assert call(torch.ones(n), torch.ones(n)).tolist() == [2.0] * n


def test_kernels_of_one_name() -> None:
    def make(sign: int) -> Any:
        @triton.jit
        def kernel(x_ptr, SIGN: triton.language.constexpr, N: triton.language.constexpr):
            at = triton.language.arange(0, N)
            triton.language.store(x_ptr + at, triton.language.load(x_ptr + at) + SIGN)

        return kernel, sign

    pairs = [make(1), make(-3)]

    def function(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        for kernel, sign in pairs:
            kernel[(1,)](x, SIGN=sign, N=16)
        return x

    check(function, torch.randn(16))


def test_results_do_not_depend_on_what_an_allocation_held() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        add(x, y, out)
        return out

    call = torch.compile(function, backend="tile", options={"strict": True, "poison": True})
    assert torch.equal(call(X, Y), X + Y)


def test_assertion_names_the_line() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.checked_copy[(1,)](x + 1, out, N=64)
        return out

    assert compiled(function)(torch.zeros(64)).sum() == 64
    with pytest.raises(RuntimeError, match=r"too large.*kernels\.py"):
        compiled(function)(torch.full((64,), 20.0))


def test_what_is_not_supported_names_the_line() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        kernels.assembly[(1,)](x, N=32)
        return x

    with pytest.raises(Exception, match=r"kernels\.py:\d+: inline assembly is for GPUs") as caught:
        compiled(function)(torch.zeros(32, dtype=torch.int32))
    assert isinstance(caught.value.__cause__ or caught.value, (UnsupportedError, Exception))


SCRIPT = """
    import sys, torch, triton, torch_tile
    from tests.triton import kernels

    tuned = triton.autotune([triton.Config({"BLOCK": block}) for block in (64, 256)], key=["n"])(kernels.add)

    def function(x, y):
        out, more = torch.empty_like(x), torch.empty_like(x)
        n = x.numel()
        kernels.add[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128)
        tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](out, y, more, n)
        return more

    x, y = torch.randn(1000), torch.randn(1000)
    call = torch.compile(function, backend="tile", fullgraph=True, options={"strict": True})
    torch.testing.assert_close(call(x, y), x + y + y)
    c = torch_tile.counters
    has_traced = "torch_tile.triton.tracing" in sys.modules
    print(int(c["graphs"]), int(c["graphs_from_disk"]), int(c["pycalls"]), has_traced)
"""


def test_second_process_compiles_nothing() -> None:
    def run() -> str:
        return run_python(SCRIPT).split("\n")[-2]

    assert run() == "1 0 0 True"
    assert run() == "1 1 0 False"


def test_changed_source_is_another_kernel(tmp_path: Path) -> None:
    text = textwrap.dedent(
        """
        import torch, triton, triton.language as tl, torch_tile

        @triton.jit
        def kernel(x_ptr, out_ptr, N: tl.constexpr):
            at = tl.arange(0, N)
            tl.store(out_ptr + at, tl.load(x_ptr + at) + CHANGE)

        def function(x):
            out = torch.empty_like(x)
            kernel[(1,)](x, out, N=16)
            return out

        print(torch.compile(function, backend="tile", fullgraph=True)(torch.zeros(16))[0].item())
        """
    )
    printed = []
    for change in ("1.0", "2.0", "1.0"):
        script = tmp_path / "script.py"
        script.write_text(text.replace("CHANGE", change))
        done = processes.run(script)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.strip())
    assert printed == ["1.0", "2.0", "1.0"]


def test_torch_without_a_device_for_triton_says_so() -> None:
    script = """
        import torch, torch.utils._triton, torch._dynamo.variables.builder
        from tests.triton import kernels

        torch.utils._triton.has_triton = torch._dynamo.variables.builder.has_triton = lambda: False

        def function(x):
            out = torch.empty_like(x)
            kernels.add[(1,)](x, x, out, 64, BLOCK=64)
            return out

        x = torch.randn(64)
        assert torch.equal(torch.compile(function, backend="tile")(x), x + x)
        torch._dynamo.reset()
        try:
            torch.compile(function, backend="tile", fullgraph=True)(x)
        except Exception as error:
            print(error)
    """
    assert "has_triton() says yes" in run_python(script)


def test_integer_with_no_lower_bound() -> None:
    """Its range decides between 32 and 64 bits, at both ends."""

    def function(x: torch.Tensor, n: int) -> torch.Tensor:
        if n >= 100:
            return x
        out = torch.empty_like(x)
        kernels.fill_with[(1,)](out, n)
        return out

    call = compiled(function, dynamic=True)
    x = torch.zeros(1, dtype=torch.int64)
    for n in (5, -7, -(2**40)):
        assert call(x, n).item() == n
