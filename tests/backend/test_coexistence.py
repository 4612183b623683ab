"""Two copies of LLVM and MLIR in one process, ours and Triton's: each compiles, whichever is loaded first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compiling import IS_TILE, run_python

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)
pytest.importorskip("triton", reason="triton is not installed")

# Triton reads the source of its kernels, so they live in a file. No device is needed to compile down to PTX.
# Imports are late: torch itself imports Triton on the way to a compiled function.
PRELUDE = '''
LIBRARIES = {"tile": "libtorch_tile_compiler", "triton": "libtriton"}


def loaded(name):
    with open("/proc/self/maps") as maps:
        return any(LIBRARIES[name] in line for line in maps)


def load_tile():
    import torch
    import torch_tile._C

    torch_tile._C.version()


def load_triton():
    import triton._C.libtriton


def compile_with_triton(size):
    """Every stage of Triton that runs inside the process."""
    import triton
    import triton.language as tl
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend

    globals()["tl"] = tl  # where kernels look it up

    @triton.jit
    def softmax_row(x, y, n, SIZE: tl.constexpr):
        offsets = tl.arange(0, SIZE)
        values = tl.load(x + offsets, mask=offsets < n, other=-float("inf"))
        numerator = tl.exp(values - tl.max(values, 0))
        tl.store(y + offsets, numerator / tl.sum(numerator, 0), mask=offsets < n)

    target = GPUTarget("cuda", 90, 32)
    backend = make_backend(target)
    options = backend.parse_options({})
    types = {"x": "*fp32", "y": "*fp32", "n": "i32", "SIZE": "constexpr"}
    source = ASTSource(softmax_row, signature=types, constexprs={"SIZE": size})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    stages, metadata = {}, {"target": target, **options.__dict__}
    backend.add_stages(stages, options, source.language)
    module = source.make_ir(
        target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    for stage in ("ttir", "ttgir", "llir", "ptx"):
        module = stages[stage](module, metadata)
    assert ".visible .entry softmax_row" in module and "ex2" in module, module


def compile_with_tile(size):
    import torch

    function = torch.compile(lambda x: torch.softmax(x * 2, -1).sum(0), backend="tile", options={"strict": True})
    x = torch.randn(9, size)
    torch.testing.assert_close(function(x), torch.softmax(x * 2, -1).sum(0))
    torch.compiler.reset()
'''


@pytest.mark.parametrize("first", ["tile", "triton"])
def test_both_compile(first: str, tmp_path: Path) -> None:
    second = {"tile": "triton", "triton": "tile"}[first]
    script = tmp_path / "both.py"
    script.write_text(
        PRELUDE
        + f"""
load_{first}()
assert loaded("{first}") and not loaded("{second}")
load_{second}()
compile_with_{first}(64)
compile_with_{second}(128)
# Again, when the other has set up what it keeps for the process.
compile_with_{first}(256)
assert loaded("tile") and loaded("triton")
"""
    )
    run_python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')", TRITON_CACHE_DIR=str(tmp_path))
