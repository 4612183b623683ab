"""Kernels of graphs for a GPU, run on the CPU (tests/gpu/simulator.py): rows that are held in shared memory or read
once, masks that whole pieces agree on, programs in reverse order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.gpu import simulator
from torch_tile import _C

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")
ROWS = 2048  # enough for a program each
f32, bf16 = torch.float32, torch.bfloat16
TOLERANCES = {f32: (1e-5, 1e-5), bf16: (1.6e-2, 1e-2)}


def run(
    text: str, arguments: list[torch.Tensor], results: list[torch.Tensor], programs: int | None = None, *integers: int
) -> str:
    """The kernels of a graph, one after the other, or the first programs of its only one. Returns the schedules."""
    files: dict[str, str] = {}
    _C.compile_graph(
        text, {"target": "sm_90"}, None, 0, files.__setitem__, [None] * 64, device="cuda:0", architecture="sm_90"
    )
    tiles = files["30-tile.mlir"]
    launched = re.search(r"graph.launch .* programs (\S+) ", tiles)
    assert launched is not None and tiles.count("graph.launch") == 1
    programs = programs or int(launched.group(1))
    values = [*(tensor.data_ptr() for tensor in (*arguments, *results)), *integers]
    blocks = programs
    if several := re.search(r"tile.programs_per_block = (\d+)", tiles):
        values.append(programs)
        blocks = -(-programs // int(several.group(1)))
    simulator.Simulated(files["50-kernel.ll"]).run((blocks, 1, 1), values)
    return " ".join(re.findall(r'schedule = "(.*?)"', tiles))


def name(dtype: torch.dtype) -> str:
    return {f32: "f32", bf16: "bf16"}[dtype]


# Lengths: whole tiles, a rest of whole pieces, rows that are not aligned, too long to hold.
LONG = [(bf16, 32768, True), (bf16, 20008, True), (f32, 18000, True), (bf16, 17001, True), (f32, 70001, False)]


@pytest.mark.parametrize("dtype, length, is_held", LONG, ids=str)
def test_softmax(dtype: torch.dtype, length: int, is_held: bool) -> None:
    type_ = f"!graph.tensor<[{ROWS}, {length}], {name(dtype)}>"
    text = f"""graph.func @graph(%0: {type_}) -> {type_} attributes {{symbols = []}} {{
      %1 = graph.softmax %0 {{dim = 1 : i64}} : ({type_}) -> {type_}
      graph.return %1 : {type_}
    }}"""
    x = (3 * torch.randn(2, length)).to(dtype)
    x[1, : length // 2] = -float("inf")
    result = torch.empty_like(x)
    schedule = run(text, [x], [result], programs=2)
    assert ("held bytes" in schedule) == is_held
    rtol, _ = TOLERANCES[dtype]
    torch.testing.assert_close(result, torch.softmax(x.float(), -1).to(dtype), rtol=rtol, atol=1e-7)


@pytest.mark.parametrize("dtype, length", [(bf16, 65536), (bf16, 40008), (f32, 33000)], ids=str)
def test_layer_norm(dtype: torch.dtype, length: int) -> None:
    type_, row = (f"!graph.tensor<[{shape}], {name(dtype)}>" for shape in (f"{ROWS}, {length}", f"{length}"))
    moment = f"!graph.tensor<[{ROWS}, 1], f32>"
    text = f"""graph.func @graph(%0: {type_}, %1: {row}, %2: {row}) -> {type_} attributes {{symbols = []}} {{
      %3:3 = graph.layer_norm %0, %1, %2 {{normalized_dims = 1 : i64, eps = 1.0e-05 : f64}}
             : ({type_}, {row}, {row}) -> ({type_}, {moment}, {moment})
      graph.return %3#0 : {type_}
    }}"""
    x, weight, bias = torch.randn(2, length).to(dtype), torch.randn(length).to(dtype), torch.randn(length).to(dtype)
    result = torch.empty_like(x)
    schedule = run(text, [x, weight, bias], [result], programs=2)
    assert "held bytes" in schedule
    expected = F.layer_norm(x.float(), (length,), weight.float(), bias.float()).to(dtype)
    rtol, atol = TOLERANCES[dtype]
    torch.testing.assert_close(result, expected, rtol=rtol, atol=4 * atol)


@pytest.mark.parametrize("width", [128, 120, 36])
def test_halves(width: int) -> None:
    """Two masked loads of one row; the halves are whole pieces where they are multiples of eight elements."""
    type_, half = (f"!graph.tensor<[64, {shape}], bf16>" for shape in (width, width // 2))
    view = f"!graph.tensor<[64, {width // 2}], bf16, [{width}, 1]>"
    text = f"""graph.func @graph(%0: {type_}) -> {type_} attributes {{symbols = []}} {{
      %1 = graph.slice %0 {{dim = 1 : i64, start = {width // 2} : i64}} : ({type_}) -> {view}
      %2 = graph.slice %0 {{dim = 1 : i64, start = 0 : i64}} : ({type_}) -> {view}
      %3 = graph.neg %1 : ({view}) -> {half}
      %4 = graph.cat %3, %2 {{dim = 1 : i64}} : ({half}, {view}) -> {type_}
      graph.return %4 : {type_}
    }}"""
    x = torch.randn(64, width).to(bf16)
    result = torch.empty_like(x)
    run(text, [x], [result])
    a, b = x.chunk(2, -1)
    assert torch.equal(result, torch.cat((-b, a), -1))


# Rows that begin anywhere: too short for pieces, in one tile, in several, held; by length, and part of longer rows.
ODD = [(f32, 7), (f32, 131), (bf16, 197), (f32, 769), (bf16, 1001), (bf16, 4099), (f32, 17001), (bf16, 20009)]


@pytest.mark.parametrize("dtype, length", ODD, ids=str)
@pytest.mark.parametrize("start", [0, 3])
def test_rows_that_begin_anywhere(dtype: torch.dtype, length: int, start: int) -> None:
    rows, room, size = 9, 64, length + start
    total = rows if length < 4096 else ROWS  # a few long rows would be split
    whole, row = (f"!graph.tensor<[{shape}], {name(dtype)}>" for shape in (f"{total}, {size}", f"{length}"))
    view = f"!graph.tensor<[{total}, {length}], {name(dtype)}, [{size}, 1]>"
    type_ = f"!graph.tensor<[{total}, {length}], {name(dtype)}>"
    text = f"""graph.func @graph(%0: {whole}, %1: {row}) -> {type_} attributes {{symbols = []}} {{
      %2 = graph.slice %0 {{dim = 1 : i64, start = {start} : i64}} : ({whole}) -> {view}
      %3 = graph.add %2, %1 : ({view}, {row}) -> {type_}
      %4 = graph.softmax %3 {{dim = 1 : i64}} : ({type_}) -> {type_}
      graph.return %4 : {type_}
    }}"""
    x, weight = (3 * torch.randn(rows, size)).to(dtype), torch.randn(length).to(dtype)
    memory = torch.full((rows * length + room,), 7.0).to(dtype)  # what lies behind the rows stays as it is
    schedule = run(text, [x, weight], [memory], programs=rows if total > rows else None)
    lanes = 16 // dtype.itemsize
    assert ("from multiples of" in schedule) == (length + lanes - 1 >= 32 * lanes)
    expected = torch.softmax(x[:, start:].float() + weight.float(), -1).to(dtype)
    rtol, _ = TOLERANCES[dtype]
    torch.testing.assert_close(memory[: rows * length].view(rows, length), expected, rtol=rtol, atol=1e-7)
    assert bool((memory[rows * length :] == 7).all())


# Rows that are multiples of few neighbours and shorter than a warp's pieces: some side by side, or one a thread.
SHORT = [(f32, 5), (bf16, 6), (f32, 33), (bf16, 49), (bf16, 50), (bf16, 197), (bf16, 247), (f32, 99), (f32, 123)]


@pytest.mark.parametrize("dtype, length", SHORT, ids=str)
@pytest.mark.parametrize("rows", [3, 4099])
def test_short_rows(dtype: torch.dtype, length: int, rows: int) -> None:
    type_, result_type = (f"!graph.tensor<[{shape}], {name(dtype)}>" for shape in (f"{rows}, {length}", f"{rows}"))
    text = f"""graph.func @graph(%0: {type_}) -> ({type_}, {result_type}) attributes {{symbols = []}} {{
      %1 = graph.softmax %0 {{dim = 1 : i64}} : ({type_}) -> {type_}
      %2 = graph.amax %0 {{dims = array<i64: 1>}} : ({type_}) -> {result_type}
      graph.return %1, %2 : {type_}, {result_type}
    }}"""
    x = (3 * torch.randn(rows, length)).to(dtype)
    result, largest = torch.empty_like(x), torch.empty(rows, dtype=dtype)
    schedule = run(text, [x], [result, largest])
    assert "row axis" in schedule or f"unroll {length} " in schedule
    torch.testing.assert_close(result, torch.softmax(x.float(), -1).to(dtype), rtol=TOLERANCES[dtype][0], atol=1e-7)
    assert torch.equal(largest, x.amax(-1))


def test_values_that_are_used_twice() -> None:
    """What is computed from two uses of one value, many times over, is looked at once."""
    type_, lines = f"!graph.tensor<[{ROWS}, 32768], bf16>", []
    for k in range(48):
        lines.append(f"%{k + 1} = graph.mul %{k}, %{k} : ({type_}, {type_}) -> {type_}")
    text = f"""graph.func @graph(%0: {type_}) -> {type_} attributes {{symbols = []}} {{
      {chr(10).join(lines)}
      %49 = graph.softmax %48 {{dim = 1 : i64}} : ({type_}) -> {type_}
      graph.return %49 : {type_}
    }}"""
    x = torch.ones(1, 32768, dtype=bf16)
    result = torch.empty_like(x)
    run(text, [x], [result], programs=1)
    assert torch.equal(result, torch.full_like(x, 1 / 32768))


def test_offsets_of_values_that_are_used_twice() -> None:
    offsets = "\n".join(f"%o{k + 1} = arith.addi %o{k}, %o{k} : i64" for k in range(60))
    text = f"""tile.kernel @kernel(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %o0: i64)
      attributes {{tile.threads = 32 : i64}} {{
      {offsets}
      %v = tile.load %x[%o60] strides [1] : !tile.ptr<f32> -> tensor<128xf32>
      tile.store %v, %y[%o60] strides [1] : tensor<128xf32>, !tile.ptr<f32>
      tile.store %v, %y[%o59] strides [1] : tensor<128xf32>, !tile.ptr<f32>
      tile.return
    }}"""
    files: dict[str, str] = {}
    _C.compile_kernel(text, {"target": "sm_90"}, files.__setitem__)
    x, y = torch.randn(128), torch.zeros(128)
    simulator.Simulated(files["50-kernel.ll"]).run((1, 1, 1), [x.data_ptr(), y.data_ptr(), 0])
    assert torch.equal(x, y)


@pytest.mark.parametrize("length", [5, 1024, 1027, 1536, 9001])
def test_rows_of_any_length(length: int) -> None:
    """One kernel for all lengths: a first tile, groups of tiles, tiles, and the rest."""
    sizes = ", ".join(f'#graph.symbol<"s{k}", min = 2, max = 9223372036854775807, hint = {ROWS}>' for k in range(2))
    type_ = '!graph.tensor<["s0", "s1"], bf16>'
    text = f"""graph.func @graph(%0: {type_}, %1: !graph.size<"s0">, %2: !graph.size<"s1">) -> {type_}
      attributes {{symbols = [{sizes}]}} {{
      %3 = graph.softmax %0 {{dim = 1 : i64}} : ({type_}) -> {type_}
      graph.return %3 : {type_}
    }}"""
    x = (3 * torch.randn(9, length)).to(bf16)
    result = torch.empty_like(x)
    schedule = run(text, [x], [result], 9, length)
    assert "from multiples of 8" in schedule
    torch.testing.assert_close(result, torch.softmax(x.float(), -1).to(bf16), rtol=1.6e-2, atol=1e-7)
