"""The tutorial runs as it stands, and the reference covers the language."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

import pytest

import torch_tile
import torch_tile.language as tl
from tests import processes
from tests.language.conftest import has_compiler
from torch_tile.language import reference

ROOT = Path(torch_tile.__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.skipif(not has_compiler(), reason="this build has no launcher for single kernels")
def test_tutorial(tmp_path: Path) -> None:
    text = (DOCS / "language.md").read_text(encoding="utf-8")
    path = tmp_path / "tutorial.py"
    path.write_text("\n\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), encoding="utf-8")
    done = processes.run(path, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    assert "tl.load reads `y_ptr` at element 1000 and 23 more" in done.stdout


def test_reference_is_complete() -> None:
    listed = {name for members in reference.functions().values() for name, _ in members}
    own = {
        name
        for name in tl.__all__
        if inspect.isfunction(getattr(tl, name)) and getattr(tl, name).__module__.startswith("torch_tile.language.ops")
    }
    assert own <= listed
    for members in reference.functions().values():
        for name, function in members:
            assert inspect.getdoc(function), name


# What kernels of several projects use, by their sources.
USED = [
    "arange",
    "load",
    "store",
    "program_id",
    "static_assert",
    "cdiv",
    "where",
    "full",
    "zeros",
    "dot",
    "make_tensor_descriptor",
    "sum",
    "range",
    "reshape",
    "multiple_of",
    "assume",
    "static_range",
    "inline_asm_elementwise",
    "atomic_add",
    "expand_dims",
    "make_block_ptr",
    "dot_scaled",
    "max",
    "maximum",
    "pointer_type",
    "num_programs",
    "debug_barrier",
    "device_print",
    "atomic_cas",
    "exp",
    "join",
    "ravel",
    "max_contiguous",
    "reduce",
    "exp2",
    "device_assert",
    "split",
    "minimum",
    "atomic_xchg",
    "rand",
    "abs",
    "cast",
    "cumsum",
    "broadcast_to",
    "load_tensor_descriptor",
    "store_tensor_descriptor",
    "trans",
    "permute",
    "gather",
    "min",
    "clamp",
    "atomic_max",
    "zeros_like",
    "tuple",
    "map_elementwise",
    "randn",
    "fma",
    "swizzle2d",
    "histogram",
    "associative_scan",
    "sort",
    "topk",
    "atomic_min",
    "sqrt",
    "flip",
    "static_print",
    "cat",
    "log",
    "softmax",
    "constexpr",
    "tensor",
    "dtype",
    "argmax",
    "argmin",
    "xor_sum",
    "sigmoid",
    "erf",
    "rsqrt",
    "sin",
    "cos",
    "floor",
    "ceil",
    "log2",
    "umulhi",
    "div_rn",
    "randint",
    "interleave",
    "advance",
    "atomic_and",
    "atomic_or",
    "atomic_xor",
    "philox",
    "view",
    "max_constancy",
    "constexpr_function",
    "extra",
    "math",
]


def test_names_are_there() -> None:
    assert not [name for name in USED if not hasattr(tl, name)]
    methods = "to load store reshape trans permute sum max min argmax cumsum sort split expand_dims broadcast_to exp"
    assert not [name for name in methods.split() if not hasattr(tl.tensor, name)]


def test_modules_of_math() -> None:
    """Sources import these as modules."""
    import torch_tile.language.math as tl_math
    from torch_tile.language.extra import libdevice
    from torch_tile.language.extra.cuda import libdevice as same

    assert libdevice is same is tl.extra.libdevice
    assert tl_math is tl.math and tl_math.tanh is libdevice.tanh and tl_math.exp is tl.exp
