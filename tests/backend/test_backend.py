"""The backend as a user meets it: registration, modes and options, explain, dumps, the disk cache, what is shared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters as dynamo_counters

import torch_tile
from tests import processes
from tests.compiling import IS_TILE, ROOT, assert_same, compiled, count, fresh, run_python

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)


def softmax_gelu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.gelu(torch.softmax(x, -1) + y)


# Registration


def test_registered_without_an_import() -> None:
    run_python(
        """
        import sys, torch
        assert "tile" in torch._dynamo.list_backends(exclude_tags=())
        # Triton, which Dynamo imports, imports its own backends.
        ours = {name for name in sys.modules if name.split(".")[0] == "torch_tile" and "triton" not in sys.modules}
        ours |= {"torch_tile._C", "torch_tile.backend"} & set(sys.modules)
        assert not ours, f"listing backends imports {ours}"
        f = torch.compile(lambda x: x * 2 + 1, backend="tile", options={"strict": True})
        assert torch.equal(f(torch.arange(5.0)), torch.arange(5.0) * 2 + 1)
    """,
        imports=False,
    )


def test_import_order_does_not_matter() -> None:
    """Importing the package first must not register the backend a second time."""
    run_python(
        """
        import torch_tile, torch
        import torch_tile.backend
        f = torch.compile(lambda x: x * 2, backend="tile", options={"strict": True})
        assert torch.equal(f(torch.ones(3)), torch.full((3,), 2.0))
    """,
        imports=False,
    )


def test_imports_nothing_of_inductors_compiler() -> None:
    """Beyond what AOTAutograd itself pulls in, which the backend aot_eager shows."""
    code = """
        import sys
        import torch
        def f(x, w):
            return torch.nn.functional.dropout(torch.softmax(x @ w, -1), 0.5).sum()
        w = torch.randn(4, 5, requires_grad=True)
        torch.compile(f, backend="{}")(torch.randn(3, 4), w).backward()
        compiler = ("compile_fx", "lowering", "scheduler", "codegen")
        names = tuple("torch._inductor." + name for name in compiler)
        print(*(name for name in sys.modules if name.startswith((*names, "triton"))), sep="\\n")
    """
    ours, aot = (set(run_python(code.format(backend), imports=False).split()) for backend in ("tile", "aot_eager"))
    assert ours <= aot, f"imported: {sorted(ours - aot)}"


def test_beside_triton() -> None:
    """Two copies of LLVM in one process, whichever comes first."""
    pytest.importorskip("triton")
    for order in ("import triton, triton._C.libtriton", ""):
        run_python(f"""
            import torch
            {order or "pass"}
            f = torch.compile(lambda x: torch.tanh(x).sum(-1), backend="tile", options={{"strict": True}})
            x = torch.randn(9, 33)
            assert torch.allclose(f(x), torch.tanh(x).sum(-1), atol=1e-5)
            import triton, triton._C.libtriton
            from triton._C.libtriton import ir
            context = ir.context()
            ir.load_dialects(context)
            g = torch.compile(lambda x: torch.exp(x) + 1, backend="tile", options={{"strict": True}})
            assert torch.allclose(g(x), torch.exp(x) + 1)
        """)


# Modes, options, reset


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite"])
def test_modes_of_torch(mode: str) -> None:
    x = torch.randn(5)
    assert_same(torch.compile(lambda x: x + 1, backend="tile", mode=mode)(x), x + 1)


def test_unknown_mode_lists_the_known() -> None:
    with pytest.raises(Exception, match=r"(?s)fastest.*reduce-overhead"):
        torch.compile(lambda x: x + 1, backend="tile", mode="fastest")(torch.ones(3))


def test_unknown_option_lists_the_known() -> None:
    with pytest.raises(Exception, match=r"(?s)fusoin.*nearest known: 'fusion'"):
        torch.compile(lambda x: x + 1, backend="tile", options={"fusoin": True})(torch.ones(3))


def test_option_of_a_wrong_type() -> None:
    with pytest.raises(Exception, match=r"(?s)fusion.*expected bool.*'maybe'"):
        torch.compile(lambda x: x + 1, backend="tile", options={"fusion": "maybe"})(torch.ones(3))


def test_reset_is_idempotent() -> None:
    from torch_tile.backend import tile

    function = compiled(lambda x: x * 3)
    for _ in range(3):
        tile.reset()
        torch.compiler.reset()
        assert_same(function(torch.ones(3)), torch.full((3,), 3.0))


def test_a_callable_backend_works_too() -> None:
    from torch_tile.backend import tile

    assert_same(torch.compile(lambda x: x * 3, backend=tile)(torch.ones(3)), torch.full((3,), 3.0))


# Operators of others


def test_unknown_operator_is_called_and_counted() -> None:
    with torch.library._scoped_library("tile_tests", "DEF") as library:
        library.define("twice_plus(Tensor x, float y) -> Tensor")
        library.impl("twice_plus", lambda x, y: x * 2 + y, "CPU")
        library.impl("twice_plus", lambda x, y: torch.empty_like(x), "Meta")
        fresh()
        function = compiled(lambda x: torch.ops.tile_tests.twice_plus(x + 1, 0.5).relu())
        x = torch.randn(5, 9)
        assert_same(function(x), torch.relu((x + 1) * 2 + 0.5))
        assert count("externs") == 1
        assert count("kernels") == 2


def test_unsupported_dtype_runs_outside() -> None:
    x = torch.randn(5, dtype=torch.complex64)
    assert_same(compiled(lambda x: x * 2 + 1)(x), x * 2 + 1)
    assert count("externs") > 0


def test_one_kernel_where_one_is_enough() -> None:
    for function, inputs in [
        (softmax_gelu, (torch.randn(33, 65), torch.randn(33, 65))),
        (lambda x, w, b: F.layer_norm(x, (65,), w, b), (torch.randn(33, 65), torch.randn(65), torch.randn(65))),
        (lambda x, y: F.gelu(x + y, approximate="tanh") * y, (torch.randn(33, 65), torch.randn(65))),
        (lambda x, y: (x * y).sum(-1) + 1, (torch.randn(33, 65), torch.randn(65))),
    ]:
        fresh()
        assert_same(compiled(function)(*inputs), function(*inputs), rtol=1e-5, atol=1e-5)
        assert (count("kernels"), count("externs")) == (1, 0)


# explain and dumps


def test_explain() -> None:
    import torch_tile

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return softmax_gelu(x @ w, w.sum(0))

    report = str(torch_tile.explain(f, torch.randn(5, 7), torch.randn(7, 9)))
    for expected in ("kernel", "mm", "test_backend.py", "no graph breaks"):
        assert expected in report, report


def test_explain_names_graph_breaks() -> None:
    import torch_tile

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    assert "1 graph break, the first at " in str(torch_tile.explain(f, torch.randn(5)))


def test_dumps(tmp_path: Path) -> None:
    run_python(
        """
        import torch
        def f(x, w):
            return torch.softmax(x * w, -1).sum()
        w = torch.randn(7, requires_grad=True)
        torch.compile(f, backend="tile", options={"strict": True})(torch.randn(5, 7), w).backward()
        """,
        TORCH_COMPILE_DEBUG="1", TORCH_COMPILE_DEBUG_DIR=str(tmp_path),
    )  # fmt: skip
    folders = sorted(path.parent for path in tmp_path.rglob("90-run.py"))
    assert len(folders) == 2, f"forward and backward: {folders}"
    for folder in folders:
        names = {path.name for path in folder.iterdir()}
        for prefix in ("00-fx.py", "10-graph", "20-fusion", "30-tile", "50-kernel", "kernels", "timing.json"):
            assert any(name.startswith(prefix) for name in names), f"no {prefix} among {sorted(names)}"
        done = processes.run(folder / "90-run.py")
        assert done.returncode == 0, done.stderr[-3000:]


def test_logs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import torch; torch.compile(lambda x: x + 1, backend='tile')(torch.ones(3))"],
        cwd=ROOT, env={**os.environ, "TORCH_LOGS": "+torch_tile"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "kernel" in done.stderr


# The disk cache between processes

PROGRAM = """
import torch
import torch_tile
def f({x}, {w}):
    {y} = {x} @ {w}
{lines}
    return torch.softmax({y} * 2, -1).sum()
weight = torch.linspace(-1, 1, 63).reshape(7, 9).requires_grad_()
function = torch.compile(f, backend="tile", options={{"strict": True}})
function(torch.linspace(0, 1, 35).reshape(5, 7), weight).backward()
print(weight.grad.sum().item())
print({{name: int(torch_tile.counters[name]) for name in ("graphs", "graphs_from_disk", "kernels")}})
"""


def run_program(**names: Any) -> tuple[str, dict[str, int]]:
    gradient, counts = run_python(PROGRAM.format(**names)).splitlines()
    return gradient, eval(counts)


def test_second_process_compiles_nothing(cache_dir: Path) -> None:
    names = {"x": "x", "w": "w", "y": "y", "lines": ""}
    first, cold = run_program(**names)
    assert cold["graphs"] == 2 and cold["graphs_from_disk"] == 0
    second, warm = run_program(**names)
    assert warm["graphs"] == warm["graphs_from_disk"] == 2
    assert second == first


def test_other_names_and_lines_are_a_cache_hit(cache_dir: Path) -> None:
    run_program(x="x", w="w", y="y", lines="")
    _, warm = run_program(x="tokens", w="matrix", y="scores", lines="\n\n    # other lines\n    label = 'unused'\n")
    assert warm["graphs_from_disk"] == 2


def test_another_program_is_not_a_cache_hit(cache_dir: Path) -> None:
    run_program(x="x", w="w", y="y", lines="")
    _, other = run_program(x="x", w="w", y="y", lines="    y = y + 0.5")
    assert other["graphs_from_disk"] < 2


def test_without_the_disk_cache(cache_dir: Path) -> None:
    run_python("""
        import torch
        f = torch.compile(lambda x: x * 2, backend="tile", options={"strict": True, "cache": False})
        assert torch.equal(f(torch.ones(3)), torch.full((3,), 2.0))
    """)
    assert not cache_dir.exists() or not any(path.is_file() for path in cache_dir.rglob("*"))


@pytest.mark.parametrize("named_by", ["environment", "option"])
def test_unwritable_cache_folder(tmp_path: Path, named_by: str) -> None:
    """It is said once, with what to do."""
    blocker = tmp_path / "file"
    blocker.write_text("")
    options = {"strict": True, **({"cache_dir": str(blocker / "cache")} if named_by == "option" else {})}
    program = f"""
import torch
for n in (2, 3):
    f = torch.compile(lambda x: x * n, backend="tile", options={options})
    assert torch.equal(f(torch.ones(3)), torch.full((3,), float(n)))
"""
    environment = {"TORCH_TILE_CACHE_DIR": str(blocker / "cache")} if named_by == "environment" else {}
    done = processes.run("-c", program, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"cache folder {blocker}/cache/") == 1, done.stderr
    assert (
        "ignored: Not a directory; every process compiles anew: make it writable, or set TORCH_TILE_CACHE"
        in done.stderr
    )


# What is shared


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(32)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def kernels_of_layers(layers: int, training: bool) -> int:
    fresh()
    model = torch.nn.Sequential(*(Block() for _ in range(layers)))
    x = torch.randn(4, 7, 32)
    with torch.set_grad_enabled(training):
        y = compiled(model)(x)
        if training:
            y.sum().backward()
    return count("kernels")


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
def test_equal_layers_share_kernels(training: bool) -> None:
    three = kernels_of_layers(3, training)
    assert kernels_of_layers(12, training) == three > 0


def test_new_batch_size_makes_no_kernel() -> None:
    function = compiled(lambda x, w: F.layer_norm(torch.tanh(x) * w, (32,)).sum(1), dynamic=True)
    w = torch.randn(32)
    for batch in (4, 7, 64, 33):
        x = torch.randn(batch, 9, 32)
        assert_same(function(x, w), F.layer_norm(torch.tanh(x) * w, (32,)).sum(1), rtol=1e-5, atol=1e-4)
    assert count("graphs") == 1
    assert dynamo_counters["stats"]["unique_graphs"] == 1


def test_failure_of_the_compiler_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager's result with a warning; an error under strict."""
    from torch_tile import _C
    from torch_tile.errors import CompileError

    def broken(*_: Any, **__: Any) -> Any:
        raise CompileError("fusion", "no such thing", 3)

    monkeypatch.setattr(_C, "compile_graph", broken)
    x = torch.randn(5)
    with pytest.warns(UserWarning, match="no such thing"):
        assert_same(torch.compile(lambda x: x * 2 + 1, backend="tile")(x), x * 2 + 1)
    with pytest.raises(Exception, match="no such thing"):
        compiled(lambda x: x * 2 - 1)(x)


def test_counters_are_a_mapping() -> None:
    torch_tile.counters.clear()
    assert dict(torch_tile.counters) == {} and torch_tile.counters["graphs"] == 0
    torch_tile.counters.add("graphs", 2)
    assert dict(torch_tile.counters) == {"graphs": 2} == torch_tile.counters.snapshot()
    assert "graphs" in torch_tile.counters and "kernels" not in torch_tile.counters and len(torch_tile.counters) == 1
