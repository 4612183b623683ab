"""What sources written for Triton expect of the language beyond its operations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests.language.conftest import has_compiler
from torch_tile.triton_compat.testing import Benchmark, perf_report

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="this build has no launcher for single kernels")


# --- numbers that variables hold -----------------------------------------------------------------------------------


@torch_tile.jit
def strong_numbers(x_ptr, o_ptr, n, SCALE: tl.constexpr, B: tl.constexpr):
    total = 0.0
    for start in range(0, n, B):
        total += tl.load(x_ptr + start)
    factor = 0.1
    from_constant = SCALE
    x = tl.load(x_ptr)
    tl.static_assert((x * 0.1).dtype == tl.bfloat16)
    tl.static_assert((x * SCALE).dtype == tl.bfloat16)
    tl.static_assert((x * factor).dtype == tl.float32)
    tl.static_assert((x * from_constant).dtype == tl.float32)
    tl.static_assert(total.dtype == tl.float32)
    tl.static_assert(isinstance(factor, tl.tensor) and not isinstance(B, tl.tensor))
    tl.store(o_ptr, total)


def test_a_number_in_a_variable_is_a_scalar_of_its_own_type(launch: Any) -> None:
    """A float32 sum of bfloat16 values; weak numbers would add in bfloat16."""
    x = torch.ones(600).bfloat16()
    x[0] = 512
    o = torch.zeros(1)
    launch(strong_numbers)[(1,)](x, o, 600, SCALE=0.5, B=1)
    assert o.item() == 512 + 599


@torch_tile.jit
def numbers_stay_python(o_ptr, B: tl.constexpr):
    half = B // 2
    offsets = tl.arange(0, half)
    count = 0
    count = count.to(tl.int64)
    for _ in range(3):
        count += half
    if half > 2:
        count += 1
    negative = -7
    tl.store(o_ptr + offsets, count + offsets)
    tl.store(o_ptr + half, negative // 2)
    tl.store(o_ptr + half + 1, negative % 3)


def test_sizes_in_variables_and_division_toward_zero(launch: Any) -> None:
    o = torch.zeros(6, dtype=torch.int64)
    launch(numbers_stay_python)[(1,)](o, B=8)
    assert o.tolist() == [13, 14, 15, 16, -3, -1]


@torch_tile.jit
def float32_numbers(o_ptr, TENTH: tl.constexpr):
    tenth = 0.1
    product = tenth * tenth
    scaled = 3.3 * tenth + TENTH
    tl.static_assert(tenth == 0.1)
    zero = 0
    infinite = -1 / zero
    tl.store(o_ptr, tenth)
    tl.store(o_ptr + 1, product)
    tl.store(o_ptr + 2, scaled)
    tl.store(o_ptr + 3, 0.1)
    tl.store(o_ptr + 4, infinite)


def test_numbers_in_variables_are_computed_in_float32(launch: Any) -> None:
    o = torch.zeros(5, dtype=torch.float64)
    launch(float32_numbers)[(1,)](o, TENTH=0.1)
    tenth = torch.tensor(0.1)
    expected = torch.stack([tenth, tenth * tenth, torch.tensor(3.3) * tenth + tenth])
    assert torch.equal(o[:3], expected.double()) and o[3] == 0.1 and o[4] == -float("inf")


@torch_tile.jit
def annotated(x_ptr, o_ptr, FLAG: tl.constexpr, SIZE: tl.constexpr):
    double: tl.constexpr = SIZE * 2
    tl.static_assert(double.value == 8 and isinstance(double, tl.constexpr))
    tl.static_assert(SIZE.value == 4)
    if FLAG.value:
        tl.store(o_ptr + tl.arange(0, double), 1)


def test_values_of_constants(launch: Any) -> None:
    o = torch.zeros(8)
    launch(annotated)[(1,)](o, o, FLAG=True, SIZE=4)
    assert o.sum() == 8


@torch_tile.jit
def run_time_constant(o_ptr, n):
    x: tl.constexpr = n
    tl.store(o_ptr, x)


def test_a_run_time_value_is_no_constant(launch: Any) -> None:
    with pytest.raises(torch_tile.InvalidKernelError, match=r"annotated tl\.constexpr expected a value known"):
        launch(run_time_constant)[(1,)](torch.zeros(1), 3)


# --- tuples and classes -------------------------------------------------------------------------------------------


class Strides(NamedTuple):
    row: Any
    column: Any


@torch_tile.jit
def with_tuples(o_ptr, strides, pair, B: tl.constexpr):
    tl.static_assert(pair[1] == 4)
    rows, columns = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tl.store(o_ptr + rows * strides.row + columns * strides.column, pair[0] + tl.zeros([B, B], tl.float32))


def test_tuples_as_arguments_with_constants_inside(launch: Any) -> None:
    o = torch.zeros(4, 4)
    launch(with_tuples)[(1,)](o, Strides(*o.stride()), (2.5, tl.constexpr(4)), B=4)
    assert torch.equal(o, torch.full((4, 4), 2.5))


@torch_tile.aggregate
class Range:
    start: tl.tensor
    size: tl.constexpr

    def __init__(self, start: Any, size: Any) -> None:
        self.start = start
        self.size = size

    @torch_tile.jit
    def offsets(self, shift):
        return self.start + shift + tl.arange(0, self.size.value)


@torch_tile.aggregate
class Counter:
    total: tl.tensor
    step: tl.constexpr = 2


@torch_tile.jit
def with_aggregates(o_ptr, n, B: tl.constexpr):
    piece = Range(tl.program_id(0) * B, B)
    state = Counter(total=tl.program_id(0))
    for _ in range(n):
        state = tl.aggregate_replace(state, total=state.total + state.step)
    tl.store(o_ptr + piece.offsets(0), state.total)


def test_aggregates_in_loops(launch: Any) -> None:
    o = torch.zeros(8)
    launch(with_aggregates)[(2,)](o, 3, B=4)
    assert o.tolist() == [6.0] * 4 + [7.0] * 4


def test_aggregates_do_not_change() -> None:
    made = Counter(1)
    with pytest.raises(AttributeError, match="aggregate_replace"):
        made.total = 2
    with pytest.raises(TypeError, match="expected the field 'total'"):
        Counter()
    with pytest.raises(TypeError, match="no field 'x'"):
        tl.aggregate_replace(made, x=1)


@torch_tile.jit
def scalars_of_a_pair(x_ptr, o_ptr):
    first, second = tl.split(tl.load(x_ptr + tl.arange(0, 2)))
    tl.static_assert(first.shape == [])
    tl.store(o_ptr, first)
    tl.store(o_ptr + 1, second)
    tl.store(o_ptr + 2, tl.full([1, 1], 9, tl.int64).item())


def test_a_pair_splits_into_scalars(launch: Any) -> None:
    o = torch.zeros(3, dtype=torch.int64)
    launch(scalars_of_a_pair)[(1,)](torch.tensor([5, 7]), o)
    assert o.tolist() == [5, 7, 9]


# --- arguments ----------------------------------------------------------------------------------------------------


@torch_tile.jit
def writes(x_ptr: tl.const, o_ptr, n: tl.int64):
    tl.static_assert(n.dtype == tl.int64)
    tl.store(x_ptr, tl.load(o_ptr))


def test_constant_pointers_are_not_written(launch: Any) -> None:
    with pytest.raises(torch_tile.InvalidKernelError, match=r"Cannot store to a constant pointer"):
        launch(writes)[(1,)](torch.zeros(1), torch.zeros(1), 3)


@torch_tile.jit
def add_one(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i) + 1)


def test_reinterpreted_tensors(launch: Any) -> None:
    x = torch.full((4,), 255, dtype=torch.uint8).view(torch.int8)
    launch(add_one)[(1,)](torch_tile.reinterpret(x, tl.uint8), B=4)
    assert x.tolist() == [0] * 4
    assert torch_tile.reinterpret(torch_tile.reinterpret(x, tl.uint8), torch.int8) is x


@torch_tile.constexpr_function
def log2(n):
    return n.bit_length() - 1


@torch_tile.jit
def constant_functions(o_ptr, N: tl.constexpr):
    tl.store(o_ptr, log2(tl.constexpr(N)))


def test_functions_of_constants(launch: Any) -> None:
    o = torch.zeros(1)
    launch(constant_functions)[(1,)](o, N=32)
    assert o.item() == 5


def test_types_by_name() -> None:
    assert tl.dtype("fp32") is tl.float32 and tl.str_to_ty("*i64").element_ty is tl.int64
    assert tl.float16.exponent_bias == 15 and "fp16" in tl.dtype.FP_TYPES
    with pytest.raises(torch_tile.InvalidKernelError, match=r"tl\.dtype expected one of"):
        tl.dtype("float")


def test_names_of_tritons_modules() -> None:
    from torch_tile.language.core import constexpr_type
    from torch_tile.triton_compat.standard import _log2

    assert tl.core.arange is tl.arange and tl.standard.softmax is tl.softmax and tl.random.rand is tl.rand
    assert _log2(64) == 6 and not tl.target_info.is_cuda()
    assert constexpr_type(3) == constexpr_type(tl.constexpr(3))


# --- compiled kernels ------------------------------------------------------------------------------------------------


@needs_compiler
def test_stages_of_a_compiled_kernel() -> None:
    compiled = add_one[(1,)](torch.zeros(4), B=4)
    assert compiled.metadata.name == "add_one"
    assert list(compiled.asm) == ["tile", "mlir", "llir", "asm"]
    assert "define" in compiled.asm["llir"] and "llvm.func" in compiled.asm["mlir"] and ".text" in compiled.asm["asm"]
    with pytest.raises(KeyError, match="has the stages tile, mlir, llir, asm"):
        compiled.asm["ptx"]


@needs_compiler
def test_text_names_lines_and_variables() -> None:
    text = add_one.warmup(torch.float32, B=8, grid=(1,)).asm["tile"]
    assert "@add_one(%x_ptr: !tile.ptr<f32>)" in text
    first = next(
        k for k, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.startswith("def add_one")
    )
    (alias,) = re.findall(r'tile\.iota .*loc\("i"\(#(l\d+)\)\)', text)
    assert re.search(rf'#{alias} = loc\("[^"]*test_triton_surface\.py":{first + 1}:9\)', text)
    (alias,) = re.findall(r"tile\.scatter .*loc\(#(l\d+)\)", text)
    assert re.search(rf"#{alias} = loc\(.*:{first + 2}:5\)", text)


@needs_compiler
def test_kernels_are_kept_by_text_without_places(tmp_path: Path) -> None:
    """The same kernel at another line of another file is found on disk."""
    import importlib.util

    imports = "import torch_tile\nimport torch_tile.language as tl\n"
    source = imports + "{}@torch_tile.jit\ndef k(x_ptr):\n    tl.store(x_ptr, 1)\n"
    texts = []
    for name, blank in (("one", ""), ("two", "\n\n\n")):
        path = tmp_path / f"{name}.py"
        path.write_text(source.format(blank))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        texts.append(module.k.warmup(torch.float32, grid=(1,)).traced)
    assert texts[0].text == texts[1].text and texts[0].located != texts[1].located


@needs_compiler
def test_stages_are_dumped_where_graphs_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._dynamo.utils.get_debug_dir", lambda: str(tmp_path))
    with torch_tile.config.patch(debug=True):
        add_one.warmup(torch.float64, B=16, grid=(1,))
    (folder,) = (tmp_path / "torch_tile").glob("kernel_add_one*")
    files = sorted(p.name for p in folder.iterdir())
    assert {"05-trace.mlir", "30-tile.mlir", "40-llvm.mlir", "50-kernel.ll", "60-kernel.s"} <= set(files)
    assert "test_triton_surface.py" in (folder / "05-trace.mlir").read_text()


@needs_compiler
def test_sources_may_be_changed() -> None:
    kernel = torch_tile.JITFunction(add_one.fn)
    kernel._unsafe_update_src(kernel.src.replace("+ 1", "+ 5"))
    x = torch.zeros(4)
    kernel[(1,)](x, B=4)
    kernel.interpret[(1,)](x, B=4)
    assert x.tolist() == [10.0] * 4 and kernel.cache_key != add_one.cache_key


def test_reports_of_benchmarks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    @perf_report(Benchmark(["n"], [1, 2], "provider", ["a", "b"], ["A", "B"], "speed", {"k": 10}, ylabel="GB/s"))
    def measure(n: int, provider: str, k: int) -> Any:
        return (n * k, 0, 0) if provider == "a" else n + 0.5

    table = measure.run(print_data=True, return_df=True, save_path=str(tmp_path))
    assert table == [["n", "A (GB/s)", "B (GB/s)"], [1, 10, 1.5], [2, 20, 2.5]]
    assert "speed:" in capsys.readouterr().out and (tmp_path / "speed.csv").read_text().startswith("n,A (GB/s)")


@torch_tile.jit
def rounded_to_itself(o_ptr):
    tl.store(o_ptr, tl.zeros([1], tl.float32).to(tl.float32, fp_downcast_rounding="rtne").item())


def test_rounding_modes_of_conversions_to_the_same_type(launch: Any) -> None:
    o = torch.ones(1)
    launch(rounded_to_itself)[(1,)](o)
    assert o.item() == 0


@torch_tile.jit
def wrong_in_a_branch(o_ptr, n):
    if n > 2:
        tl.store(o_ptr, tl.arange(0, 3))


@needs_compiler
def test_tracebacks_name_the_function_of_a_branch() -> None:
    import traceback

    with pytest.raises(torch_tile.InvalidKernelError) as caught:
        wrong_in_a_branch[(1,)](torch.zeros(4), 3)
    frames = [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-1] == "wrong_in_a_branch" and not [f for f in frames if f.startswith("__tile")]


@pytest.mark.parametrize("arguments", ["positional", "named", "defaults", "hints"])
def test_every_way_of_passing_arguments_launches_the_same(launch: Any, arguments: str) -> None:
    """The second launch takes the quick way."""
    for _ in range(2):
        o = torch.zeros(4)
        run = launch(with_defaults)[(1,)]
        if arguments == "positional":
            run(o, 4, 2.5)
        elif arguments == "named":
            run(value=2.5, o_ptr=o, B=4)
        elif arguments == "defaults":
            run(o)
        else:
            run(o, num_warps=4, value=2.5)
        assert o.tolist() == [2.5] * 4


@torch_tile.jit
def with_defaults(o_ptr, B: tl.constexpr = 4, value=2.5):
    tl.store(o_ptr + tl.arange(0, B), value)


def test_wrong_arguments_name_the_parameters() -> None:
    with pytest.raises(TypeError, match=r"kernel with_defaults\(o_ptr, B, value\): it has no argument"):
        with_defaults[(1,)](torch.zeros(4), V=3)
    with pytest.raises(TypeError, match="multiple values for argument 'o_ptr'"):
        with_defaults[(1,)](torch.zeros(4), o_ptr=torch.zeros(4))
    with pytest.raises(TypeError, match="missing a required argument: 'o_ptr'"):
        with_defaults[(1,)]()


@needs_compiler
def test_kinds_of_tensors_and_numbers_share_a_kernel_where_they_may() -> None:
    kernel = torch_tile.JITFunction(with_defaults.fn)
    tensors = [torch.zeros(4), torch.nn.Parameter(torch.zeros(4), requires_grad=False), torch.zeros(8)[::2][:4]]
    for tensor in tensors:
        for _ in range(2):
            kernel[(1,)](tensor, 4, 2.5)
    assert len(kernel.launchers) == 1
    kernel[(1,)](tensors[0], 4, 3)
    kernel[(1,)](tensors[0], 4, 1 << 40)
    kernel[(1,)](tensors[0], B=2)
    assert len(kernel.launchers) == 4 and tensors[1].tolist() == [2.5] * 4


@torch_tile.jit
def float8_of_triton(x_ptr, bits_ptr, o_ptr, copy_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    y = tl.load(x_ptr + at).to(tl.float8e4b15)
    tl.store(bits_ptr + at, y.to(tl.uint8, bitcast=True))
    tl.store(o_ptr + at, y.to(tl.float32))
    tl.store(copy_ptr + at, y)
    tl.store(copy_ptr + N + at, tl.load(copy_ptr + at, mask=at < 2, other=1.5).to(tl.float16).to(tl.float8e4b15))


def test_float8_of_triton(launch: Any) -> None:
    """float8e4b15 is an f16 without one exponent bit and seven mantissa bits; magnitudes end at 1.75."""
    x = torch.tensor([0.0, -0.0, 1.0, 1.06, 1.0625, -1.5, 1.75, 3.0, 1e6, -1e-4, 2.0**-14, 2.0**-17, 2.0**-20])
    x = torch.cat([x, torch.zeros(3)])
    bits, o, copy = torch.empty(16, dtype=torch.uint8), torch.empty(16), torch.zeros(32, dtype=torch.uint8)
    launch(float8_of_triton)[(1,)](x, bits, o, torch_tile.reinterpret(copy, tl.float8e4b15), N=16)
    expected = [0, -0.0, 1.0, 1.0, 1.125, -1.5, 1.75, 1.75, 1.75, -(2.0**-17) * 13, 2.0**-14, 2.0**-17, 0, 0, 0, 0]
    assert o.tolist() == expected
    assert bits[:3].tolist() == [0, 0x80, 0x78]
    assert torch.equal(copy[:16], bits) and copy[16:18].tolist() == [0, 0x80] and (copy[18:] == 0x7C).all()


@torch_tile.jit
def running_sum(x_ptr, o_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o_ptr + at, tl.cumsum(tl.load(x_ptr + at)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_running_sums_are_carried_in_float32(launch: Any, dtype: torch.dtype) -> None:
    x = torch.randn(512).to(dtype)
    o = torch.zeros_like(x)
    launch(running_sum)[(1,)](x, o, N=512)
    torch.testing.assert_close(o.float(), x.float().cumsum(0).to(dtype).float(), rtol=1e-2, atol=1e-2)


def keep_those_that_divide(configs: Any, arguments: Any, **keywords: Any) -> Any:
    assert set(arguments) == {"x_ptr"} and keywords["n"] == 96
    return [c for c in configs if keywords["n"] % c.kwargs["B"] == 0]


@torch_tile.autotune(
    configs=[torch_tile.Config({"B": b}) for b in (64, 32)],
    key=["n"],
    prune_configs_by={"early_config_prune": keep_those_that_divide},
)
@torch_tile.jit
def ones(x_ptr, n, B: tl.constexpr):
    tl.store(x_ptr + tl.program_id(0) * B + tl.arange(0, B), 1.0)


def test_configurations_are_pruned_by_what_the_launch_names() -> None:
    x = torch.zeros(96)
    ones[lambda args: (args["n"] // args["B"],)](x, n=96)
    assert (x == 1).all() and ones.best_config.kwargs == {"B": 32}


def test_number_of_warps_is_a_power_of_two() -> None:
    x = torch.zeros(96)
    with pytest.raises(AssertionError, match="kernel ones: num_warps must be a power of 2, got 3"):
        ones.warmup(x, n=96, num_warps=3)
    ones.warmup(x, n=96, num_warps=4)
