"""One kernel through Triton's decorator and ours: interpreted, compiled, and in eager mode."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_tile
from tests import processes

HAS_TRITON = importlib.util.find_spec("triton") is not None

SOURCE = """
import torch
{imports}


@{jit}.jit
def scale(x, factor):
    return x * factor


@{jit}.jit
def layer_norm(x_ptr, w_ptr, b_ptr, o_ptr, stride, N, eps, B: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    o_ptr += row * stride
    total = tl.zeros([B], dtype=tl.float32)
    for start in range(0, N, B):
        at = start + tl.arange(0, B)
        total += tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([B], dtype=tl.float32)
    for start in range(0, N, B):
        at = start + tl.arange(0, B)
        x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
        x = tl.where(at < N, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    for start in range(0, N, B):
        at = start + tl.arange(0, B)
        mask = at < N
        w = tl.load(w_ptr + at, mask=mask)
        b = tl.load(b_ptr + at, mask=mask)
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(o_ptr + at, scale(x - mean, rstd) * w + b, mask=mask)


@{jit}.autotune(configs=[{jit}.Config({{"B": 64}}), {jit}.Config({{"B": 128}})], key=["n"])
@{jit}.heuristics({{"EVEN": lambda args: args["n"] % args["B"] == 0}})
@{jit}.jit
def dropout(x_ptr, o_ptr, n, p, seed, B: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    mask = at < n
    if EVEN:
        x = tl.load(x_ptr + at)
    else:
        x = tl.load(x_ptr + at, mask=mask)
    keep = tl.rand(seed, at) > p
    tl.store(o_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@{jit}.jit
def mixed(x_ptr, o_ptr, n, B: tl.constexpr):
    at = tl.arange(0, B)
    x = tl.load(x_ptr + at, mask=at < n, other=1)
    y = x * x + x
    if n > 4 and n < 100:
        y = y - 0.5
    y = tl.maximum(y, tl.math.exp(x) * 0)
    tl.store(o_ptr + at, y, mask=at < n)
"""
OURS = "import torch_tile\nimport torch_tile.language as tl"
TRITON = "import triton\nimport triton.language as tl"


def module(tmp_path: Path, name: str, imports: str, jit: str) -> Any:
    path = tmp_path / f"{name}.py"
    path.write_text(SOURCE.format(imports=imports, jit=jit))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


@pytest.fixture(params=["ours", "triton"])
def kernels(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "ours":
        return module(tmp_path, "our_kernels", OURS, "torch_tile")
    if not HAS_TRITON:
        pytest.skip("triton is not installed")
    return module(tmp_path, "triton_kernels", TRITON, "triton")


def interpreted(kernel: Any) -> Any:
    return torch_tile.interpret(kernel)


def test_layer_norm(kernels: Any) -> None:
    x, w, b = torch.randn(5, 200), torch.randn(200), torch.randn(200)
    o = torch.empty_like(x)
    interpreted(kernels.layer_norm)[(5,)](x, w, b, o, 200, 200, 1e-5, B=64)
    torch.testing.assert_close(o, torch.nn.functional.layer_norm(x, (200,), w, b), rtol=1e-5, atol=1e-5)


def test_wrapped_kernels(kernels: Any) -> None:
    x = torch.ones(300)
    o = torch.empty_like(x)
    interpreted(kernels.dropout)[lambda meta: (-(-300 // meta["B"]),)](x, o, 300, 0.5, 7)
    assert set(o.tolist()) == {0.0, 2.0}
    assert 90 < (o == 0).sum() < 210


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_bits_of_eager(kernels: Any, dtype: torch.dtype) -> None:
    x = torch.randn(64).to(dtype)
    o = torch.zeros_like(x)
    interpreted(kernels.mixed)[(1,)](x, o, 50, B=64)
    expected = torch.maximum(x * x + x - 0.5, torch.zeros((), dtype=dtype))
    assert torch.equal(o[:50], expected[:50])


def test_sources_run_without_triton(tmp_path: Path) -> None:
    """After changing the import alone, and with no module of Triton's to be found."""
    path = tmp_path / "alone.py"
    path.write_text(
        SOURCE.format(imports=OURS, jit="torch_tile")
        + textwrap.dedent("""
        import sys
        x, w, b = torch.randn(5, 200), torch.randn(200), torch.randn(200)
        o = torch.empty_like(x)
        layer_norm.interpret[(5,)](x, w, b, o, 200, 200, 1e-5, B=64)
        torch.testing.assert_close(o, torch.nn.functional.layer_norm(x, (200,), w, b), rtol=1e-5, atol=1e-5)
        assert not [m for m in sys.modules if m.split(".")[0] == "triton"]
    """)
    )
    block = "import sys; sys.modules['triton'] = None"
    code = f"{block}; import runpy; sys.modules.pop('triton'); runpy.run_path({str(path)!r})"
    done = processes.run("-c", code, imports=False)
    assert done.returncode == 0, done.stderr


ARGUMENTS = """
import torch
import triton
import triton.language as tl


@triton.jit
def converted(x, o, D: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i).to(D))


@triton.jit
def annotated(x, o, n: tl.int64, B: tl.constexpr):
    tl.store(o + tl.arange(0, B), n * 1000000)


@triton.jit
def doubled(v):
    return v * 2


@triton.jit
def applied(x, o, F: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, F[0](tl.load(x + i)))


@triton.jit
def counted(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, (tl.sum(tl.load(x + i) > 0) - B < 0).to(tl.int32))
"""


@pytest.mark.skipif(not HAS_TRITON, reason="needs Triton")
def test_arguments_of_triton_are_interpreted_as_ours(tmp_path: Path) -> None:
    """Its dtypes, annotations and functions mean what they mean in compiled kernels."""
    path = tmp_path / "kernels_of_arguments.py"
    path.write_text(ARGUMENTS)
    spec = importlib.util.spec_from_file_location("kernels_of_arguments", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernels_of_arguments"] = module
    spec.loader.exec_module(module)
    import triton.language

    x = torch.tensor([1.0, 1.0, -1.0, -1.0])
    half = torch.zeros(4)
    torch_tile.interpret(module.converted)[(1,)](x / 3, half, D=triton.language.float16, B=4)
    assert torch.equal(half, (x / 3).half().float())
    wide = torch.zeros(4, dtype=torch.int64)
    torch_tile.interpret(module.annotated)[(1,)](x, wide, 5000000, B=4)
    assert torch.equal(wide, torch.full((4,), 5000000 * 1000000))
    twice = torch.zeros(4)
    torch_tile.interpret(module.applied)[(1,)](x, twice, F=(module.doubled,), B=4)
    assert torch.equal(twice, 2 * x)
    negative = torch.ones(4, dtype=torch.int32)
    torch_tile.interpret(module.counted)[(1,)](x, negative, B=4)
    assert torch.equal(negative, torch.zeros(4, dtype=torch.int32))
