"""Triton's library of device functions: the errors that NVIDIA documents, and C's results at the ends, as those of
tl.extra.libdevice (tests/language), with which they share their formulas."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from tests import libdevice_table as table
from tests.language.test_libdevice_accuracy import DTYPES, assert_ends
from tests.ulp import everywhere, worst

CORNERS = [name for name in table.CORNERS if name not in ("fmax", "fmin")]  # Triton has no such functions
_KERNEL = """
@triton.jit
def {name}({pointers}, o_ptr, N, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, {module}.{name}({loads}), mask=i < N)
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A kernel for each function; Triton reads their source."""
    lines = ["import triton", "import triton.language as tl", "from triton.language.extra import libdevice",
             "from triton.language.extra.cuda import libdevice as of_cuda"]  # fmt: skip
    for names, operands in ((table.UNARY, "x"), ([*CORNERS, *(table.BINARY.keys() - set(CORNERS)), "ldexp"], "xy")):
        for name in names:
            pointers = ", ".join(f"{x}_ptr" for x in operands)
            loads = ", ".join(f"tl.load({x}_ptr + i, mask=i < N)" for x in operands)
            module = "of_cuda" if name in ("hypot", "sinpi") else "libdevice"
            lines.append(_KERNEL.format(name=name, pointers=pointers, loads=loads, module=module))
    path: Path = tmp_path_factory.mktemp("kernels") / "device_function_kernels.py"
    path.write_text("\n".join(lines))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def apply(kernels: Any, name: str, *operands: torch.Tensor) -> torch.Tensor:
    result = torch.empty_like(operands[0])
    getattr(kernels, name)[(1,)](*operands, result, len(result), B=1 << (len(result) - 1).bit_length())
    return result


@DTYPES
@pytest.mark.parametrize("name", table.UNARY)
def test_unary(kernels: Any, name: str, dtype: torch.dtype) -> None:
    function = table.UNARY[name]
    x = table.arguments(function, dtype, 120)
    error, at, result = table.worst_of(name, function, apply(kernels, name, x), x)
    assert error <= 1.0, f"{error:.3g} of the documented error at {at}: {result}"
    assert function.ends
    ends = [-math.inf, -0.0, 0.0, math.inf, math.nan]
    assert_ends(apply(kernels, name, torch.tensor(ends, dtype=dtype)), [*function.ends, math.nan], ends)


@DTYPES
@pytest.mark.parametrize("name", CORNERS)
def test_binary(kernels: Any, name: str, dtype: torch.dtype) -> None:
    x, y, expected = zip(*table.CORNERS[name], strict=True)
    got = apply(kernels, name, torch.tensor(x, dtype=dtype), torch.tensor(y, dtype=dtype))
    assert_ends(got, list(expected), (x, y))
    if name in table.BINARY:
        function = table.BINARY[name]
        a, b = everywhere(dtype, 200), everywhere(dtype, 200, seed=1)
        if name == "pow":
            a, b = a.abs(), b.clamp(-3, 3)
        error, at, result = worst(apply(kernels, name, a, b), [a, b], function.exact)
        assert error <= function.ulp[0 if dtype is torch.float32 else 1], f"{error:.3g} ulp at {at}: {result}"


def test_scaling(kernels: Any) -> None:
    x, steps, expected = zip(*table.SCALED, strict=True)
    got = apply(kernels, "ldexp", torch.tensor(x), torch.tensor(steps, dtype=torch.int32))
    assert_ends(got, list(expected), (x, steps))
